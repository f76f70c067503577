//! A model makes a plan.
//!
//! The model is held to the plan's schema as well as its server can. What comes is judged like any
//! plan; one that fails is sent back once with what is wrong where, and what is no plan at all is
//! shown as the text it is. Nothing broken is mended.

use std::time::Instant;

use glasshouse_model::body::{RunMode, RunStatus};
use glasshouse_model::{Constraints, Kind as EventKind, Seq};
use glasshouse_plan::intake::{self, Kind};
use glasshouse_plan::{Profile, ProfileName, Report};
use glasshouse_provider::codes as provider_codes;
use glasshouse_provider::{Cancel, Completion, Delta, Finish, Message, ModelRequest, OutputFormat};
use serde_json::{Value, json};

use super::aside::in_turn;
use super::plain::Plain;
use super::work::{Ask, put};
use super::{Chosen, Hook, LANES, Plans, Plugins};
use crate::driver::Questions;
use crate::{Error, Result, codes};

/// Most tokens of a plan.
const MAX_OUTPUT_TOKENS: u32 = 16_384;
/// Most problems that a model is told of at once.
const MAX_TOLD_ISSUES: usize = 8;
/// Most bytes of its own answer that a model gets back to repair.
const MAX_REPAIR_BYTES: usize = 12_000;

/// A plan and what it was made of.
#[derive(Debug)]
pub struct Made {
    /// The plan.
    pub plan: Value,
    /// What the answer was.
    pub kind: Kind,
    /// What the profile says of the plan.
    pub report: Report,
    /// Whether it is the model's second one.
    pub repaired: bool,
}

/// What is heard while a plan is made.
#[derive(Debug, Clone, Copy)]
pub enum Heard<'a> {
    /// An answer begins; what was heard of the one before is void.
    Begins,
    /// More of the answer.
    Text(&'a str),
    /// Something to tell the person.
    Note(&'static str),
}

/// Hears what happens while a plan is made.
pub type Hear<'a> = dyn FnMut(Heard<'_>) + Send + 'a;

/// Asks a model for a plan, under a profile and with plugins.
///
/// # Errors
/// `answer_length`; `plan_hook_failed`; what a model that refuses is told as; as [`Questions::ask`].
pub async fn prompted(
    questions: &mut Questions<'_>,
    model: &str,
    (prompt, profile, plugins): (&str, &Profile, &Plugins),
    hear: &mut Hear<'_>,
    cancel: &Cancel,
) -> Result<Made> {
    let prompt = told(plugins, Hook::BeforeLlm, prompt.into())?;
    let prompt = prompt.as_str();
    let mut request = ModelRequest {
        model: model.to_owned(),
        system: taught(profile),
        messages: vec![Message::user(prompt)],
        max_output_tokens: MAX_OUTPUT_TOKENS,
        format: Some(OutputFormat {
            name: "runtime_plan".to_owned(),
            schema: glasshouse_plan::schema(),
            // Trees without end are outside what servers enforce in full.
            strict: false,
        }),
        ..ModelRequest::default()
    };
    let mut answer = ask(questions, &request, hear, cancel).await;
    if let Err(error) = &answer
        && error.is(provider_codes::PROVIDER_INVALID_REQUEST)
    {
        hear(Heard::Note("the server refuses the schema; asking for plain text"));
        request.format = None;
        answer = ask(questions, &request, hear, cancel).await;
    }
    let answer = answer?;
    let first = judge(prompt, &answer, profile, plugins, questions)?;
    if first.report.safe && first.kind != Kind::Text {
        return Ok(first);
    }
    request.messages.push(Message::Assistant {
        text: answer.text[..answer.text.floor_char_boundary(MAX_REPAIR_BYTES)].to_owned(),
        calls: Vec::new(),
        carry: None,
    });
    request.messages.push(Message::user(repair(&first)));
    let second = match ask(questions, &request, hear, cancel).await {
        Ok(answer) => judge(prompt, &answer, profile, plugins, questions)?,
        Err(error) => return if first.report.safe { Ok(first) } else { Err(error) },
    };
    // A second text is no better than the first one.
    let better = second.report.safe && second.kind != Kind::Text;
    let made = if better || !first.report.safe { second } else { first };
    Ok(Made { repaired: better, ..made })
}

impl Plans {
    /// Records a prompt that led to no plan that may be shown, and what plugins did on the way.
    ///
    /// # Errors
    /// The log's errors.
    pub fn turned_away(
        &mut self,
        profile: ProfileName,
        made: Result<&Made, &Error>,
    ) -> Result<Seq> {
        let begun = Instant::now();
        let chosen = Chosen::new(profile, &Constraints::default())?;
        let (text, code) = match made {
            Ok(made) => (Some(made.plan.to_string()), codes::PLAN_REFUSED.name),
            Err(error) => (None, error.code()),
        };
        let _naming = self.log.naming()?;
        let given = text.map(|text| put(&self.log, text.as_bytes())).transpose()?;
        let ask = Ask::Show { text: String::new(), mode: RunMode::Prompt, keep_input: false };
        let is_rejected = made.map_or_else(|error| error.is(codes::PLAN_HOOK_FAILED), |_| true);
        let status = if is_rejected { RunStatus::Rejected } else { RunStatus::Failed };
        let log = self.log.clone();
        let seq = in_turn(&log, || {
            let (home, cell) = self.place()?;
            let mut body = self.body(&ask, &chosen, given.as_slice());
            body.called(self.plugins.called(&self.log)?);
            body.0.issues = made.ok().and_then(|made| serde_json::to_value(&made.report).ok());
            body.end(status, Some(code), begun);
            let branch = cell.is_some().then(|| home.branch.clone());
            let drafts = vec![body.draft(EventKind::PlanRefused)];
            Ok((branch, self.append(&home, drafts, cell.into_iter().collect())))
        });
        self.plugins.back_to(0);
        seq
    }
}

async fn ask(
    questions: &mut Questions<'_>,
    request: &ModelRequest,
    hear: &mut Hear<'_>,
    cancel: &Cancel,
) -> Result<Completion> {
    hear(Heard::Begins);
    let (mut plain, mut masked) = (Plain::default(), questions.masking());
    let mut sink = |delta: Delta| {
        if let Delta::Text(text) = delta {
            tell(hear, &masked.push(plain.push(&text).as_bytes()));
        }
    };
    let answer = questions.ask(request.clone(), &mut sink, cancel).await;
    tell(hear, &masked.push(plain.finish().as_bytes()));
    tell(hear, &masked.finish());
    answer
}

fn tell(hear: &mut Hear<'_>, bytes: &[u8]) {
    if !bytes.is_empty() {
        hear(Heard::Text(&String::from_utf8_lossy(bytes)));
    }
}

/// Makes a plan of an answer and judges it. An answer that was cut has no plan: what of it looks
/// whole would mean something else.
fn judge(
    prompt: &str,
    answer: &Completion,
    profile: &Profile,
    plugins: &Plugins,
    questions: &Questions<'_>,
) -> Result<Made> {
    if answer.finish == Finish::Length {
        return Err(Error::new(codes::ANSWER_LENGTH, "the plan is not whole")
            .why("the model's answer reached its length limit")
            .fix("ask for a smaller interface, or use a model with a larger output"));
    }
    if let Some(refused) = answer.refused() {
        return Err(refused.into());
    }
    let text = told(plugins, Hook::AfterLlm, answer.text.as_str().into())?;
    let input = plugins.call(Hook::BeforeCodeGen, json!({ "prompt": prompt, "text": text }))?;
    let [prompt, text] = ["prompt", "text"].map(|key| input[key].as_str().unwrap_or_default());
    let mut made = intake::read(prompt, text, "plan");
    questions.mask_value(&mut made.plan);
    made.plan = plugins.call(Hook::AfterCodeGen, made.plan)?;
    let report = match glasshouse_plan::parse(&made.plan.to_string(), &profile.limits()) {
        Ok(plan) => {
            let mut report = glasshouse_plan::check_to_run(&plan, profile, LANES);
            if report.safe {
                // What is wrong with its code the model can mend, too.
                questions.inspect(&plan, profile)?.into_iter().for_each(|it| report.refuse_for(it));
            }
            report
        }
        Err(error) => Report::of(&error),
    };
    Ok(Made { plan: made.plan, kind: made.kind, report, repaired: false })
}

/// A text as hooks leave it.
fn told(plugins: &Plugins, hook: Hook, text: Value) -> Result<String> {
    match plugins.call(hook, text)? {
        Value::String(text) => Ok(text),
        _ => Err(Error::new(codes::PLAN_HOOK_FAILED, "a plugin ended the run")
            .why(format!("{} answers no text", hook.as_str()))),
    }
}

/// What a model is told of its first answer.
fn repair(made: &Made) -> String {
    if made.kind == Kind::Text {
        return "That holds no RuntimePlan. Answer with the JSON of one plan and nothing else."
            .to_owned();
    }
    let mut text =
        "That plan is refused. Correct exactly this, and answer with the JSON of the whole \
                    plan and nothing else:"
            .to_owned();
    for issue in made.report.issues.iter().take(MAX_TOLD_ISSUES) {
        let at = if issue.pointer.is_empty() { "(root)" } else { &issue.pointer };
        text.push_str(&format!("\n- at {at}: {} ({}). {}", issue.message, issue.code, issue.fix));
    }
    text
}

/// The system prompt: what a plan is, and what the profile in force allows.
fn taught(profile: &Profile) -> String {
    let sources = if profile.allow_runtime_source_modules {
        format!("`source` may hold up to {} bytes of code", profile.max_runtime_source_bytes)
    } else {
        "no `source`".to_owned()
    };
    let modules = if profile.max_allowed_imports == 0 {
        "no imports".to_owned()
    } else {
        format!(
            "at most {} imports, from {}",
            profile.max_allowed_imports,
            profile.allowed_modules.join(", ")
        )
    };
    format!(
        "You build user interfaces. Answer with one RuntimePlan: JSON and nothing else, in this order of \
         members: specVersion, id, version, root, capabilities, state.\n\
         What is in force: at most {} nodes, {} levels deep; {sources}; {modules}; tags that are refused: {}; \
         {}. Give each input a label and each image an alt text.\n\
         The schema:\n{}",
        profile.max_node_count,
        profile.max_tree_depth,
        profile.blocked_tags.join(", "),
        if profile.allow_inline_event_handlers {
            "event handlers only name transitions of `state`"
        } else {
            "no inline event handlers; events name transitions of `state`"
        },
        glasshouse_plan::schema(),
    )
}
