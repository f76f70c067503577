//! `glasshouse ui plan` and `ui run`: a model makes the plan.
//!
//! The model is held to the plan's schema as well as its server can. What comes is judged like any
//! plan; one that fails is sent back once with what is wrong where, and what is no plan at all is
//! shown as the text it is. Nothing broken is mended.

use std::path::PathBuf;

use glasshouse_kernel::codes;
use glasshouse_kernel::driver::Questions;
use glasshouse_kernel::plans::{Hook, LANES, Plugins, Quota, Stages};
use glasshouse_model::Exit;
use glasshouse_plan::intake::{self, Kind};
use glasshouse_plan::stream::Stream;
use glasshouse_plan::{Context, Profile, Report};
use glasshouse_provider::codes as provider_codes;
use glasshouse_provider::{
    Cancel, Completion, Delta, Finish, Message, ModelRequest, OutputFormat, Provider, Secret,
};
use serde_json::{Value, json};

use super::{SURFACE, fault, runs, show};
use crate::args::AskArguments;
use crate::command::task;
use crate::error::Error;
use crate::models::{self, Connected};
use crate::{home, input, output};

/// Most tokens of a plan.
const MAX_OUTPUT_TOKENS: u32 = 16_384;
/// Most problems that a model is told of at once.
const MAX_TOLD_ISSUES: usize = 8;
/// Most bytes of its own answer that a model gets back to repair.
const MAX_REPAIR_BYTES: usize = 12_000;
/// Name of the run whose previews are shown.
const RUN: u64 = 1;

/// Name of the model that a scenario plays.
const SCRIPTED: &str = "scripted";

/// What is done with the plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It is printed.
    Print,
    /// It is rendered and registered.
    Run,
}

/// Who is asked.
struct Asked {
    here: PathBuf,
    provider: Box<dyn Provider>,
    model: String,
    secrets: Vec<(String, Secret)>,
}

impl Asked {
    /// The server that flags and configuration name, or a scenario.
    fn of(arguments: &AskArguments) -> Result<Self, Error> {
        if let Some(file) = &arguments.scenario {
            let bytes = input::bytes(file, input::MAX_SCENARIO_BYTES)?;
            let provider = Box::new(task::scripted(Some(&bytes))?);
            let (here, model) = (home::here()?, SCRIPTED.to_owned());
            return Ok(Self { here, provider, model, secrets: Vec::new() });
        }
        let (here, _, Connected { remote, secrets }) = models::configured(&arguments.model)?;
        let model = remote.model().to_owned();
        Ok(Self { here, provider: Box::new(remote), model, secrets })
    }
}

/// A plan and what it was made of.
struct Made {
    plan: Value,
    kind: Kind,
    report: Report,
    repaired: bool,
}

pub(super) fn run(arguments: &AskArguments, then: Then) -> Result<u8, Error> {
    if then == Then::Print && arguments.options.show.page {
        return Err(Error::new(codes::USAGE, "`ui plan` prints the plan, and no page of it")
            .fix("`glasshouse ui run PROMPT --page` shows it"));
    }
    let Asked { here, provider, model, secrets } = Asked::of(arguments)?;
    let profile = arguments.options.profile.profile();
    let kernel = home::kernel()?;
    let plugins = runs::plugins(&kernel, &arguments.options.plugins)?;
    let made = {
        let runtime = task::runtime()?;
        let cancel = Cancel::new();
        let switch = cancel.clone();
        runtime.spawn(task::on_ctrl_c(move || switch.cancel()));
        runtime.block_on(async {
            let questions = kernel.questions(&here, &*provider, &secrets)?;
            let (model, profile, plugins) = (&*model, &profile, &plugins);
            Asking { questions, model, profile, arguments, cancel, plugins }.make().await
        })?
    };
    if made.repaired {
        output::note("the model's first plan was not usable; this is its second");
    }
    if !made.report.safe {
        if arguments.options.show.json {
            output::json_line(&json!({"refused": made.report}));
        }
        return Ok(show::refuse(&made.report));
    }
    if made.kind == Kind::Text {
        output::note("the model answered without a plan; its text is shown instead");
    }
    let text = made.plan.to_string();
    match then {
        Then::Run => {
            let cancel = runs::stopped_by_ctrl_c()?;
            let plans = kernel.plans(&here, Quota::default())?;
            let plans = plans.with_plugins(plugins).until(&cancel);
            runs::render_in(plans, (&text, false), &arguments.options, Stages::default())
        }
        Then::Print => {
            if arguments.options.show.json {
                output::json_line(&json!({"plan": made.plan, "repaired": made.repaired,
                    "text_only": made.kind == Kind::Text}));
            } else {
                output::data(&serde_json::to_string_pretty(&made.plan).unwrap_or(text));
            }
            Ok(Exit::Done.status())
        }
    }
}

struct Asking<'a, 'k> {
    questions: Questions<'k>,
    model: &'a str,
    profile: &'a Profile,
    arguments: &'a AskArguments,
    cancel: Cancel,
    plugins: &'a Plugins,
}

impl Asking<'_, '_> {
    async fn make(mut self) -> Result<Made, Error> {
        let prompt = told(self.plugins, Hook::BeforeLlm, self.arguments.prompt.as_str().into())?;
        let prompt = prompt.as_str();
        let mut request = ModelRequest {
            model: self.model.to_owned(),
            system: taught(self.profile),
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
        let mut answer = self.ask(&request).await;
        if let Err(error) = &answer
            && error.is(provider_codes::PROVIDER_INVALID_REQUEST)
        {
            output::note("the server refuses the schema; asking for plain text");
            request.format = None;
            answer = self.ask(&request).await;
        }
        let answer = answer?;
        let first = judge(prompt, &answer, self.profile, self.plugins)?;
        if first.report.safe && first.kind != Kind::Text {
            return Ok(first);
        }
        request.messages.push(Message::Assistant {
            text: answer.text[..answer.text.floor_char_boundary(MAX_REPAIR_BYTES)].to_owned(),
            calls: Vec::new(),
            carry: None,
        });
        request.messages.push(Message::user(repair(&first)));
        let second = match self.ask(&request).await {
            Ok(answer) => judge(prompt, &answer, self.profile, self.plugins)?,
            Err(error) => return if first.report.safe { Ok(first) } else { Err(error) },
        };
        // A second text is no better than the first one.
        let better = second.report.safe && second.kind != Kind::Text;
        let made = if better || !first.report.safe { second } else { first };
        Ok(Made { repaired: better, ..made })
    }

    /// Asks, and shows the plan while it arrives.
    async fn ask(&mut self, request: &ModelRequest) -> Result<Completion, Error> {
        let context = Context::new(SURFACE).map_err(|error| fault(&error))?;
        let mut preview = Stream::new(RUN, self.profile, &context);
        let json = self.arguments.options.show.json && self.arguments.preview;
        let mut sink = |delta: Delta| {
            if let Delta::Text(text) = delta
                && json
            {
                preview.push(text.as_bytes());
                if let Some(frame) = preview.frame() {
                    output::json_line(&json!({"preview": frame}));
                }
            }
        };
        Ok(self.questions.ask(request.clone(), &mut sink, &self.cancel).await?)
    }
}

/// Makes a plan of an answer and judges it. An answer that was cut has no plan: what of it looks
/// whole would mean something else.
fn judge(
    prompt: &str,
    answer: &Completion,
    profile: &Profile,
    plugins: &Plugins,
) -> Result<Made, Error> {
    if answer.finish == Finish::Length {
        return Err(Error::new(codes::ANSWER_LENGTH, "the plan is not whole")
            .why("the model's answer reached its length limit")
            .fix("ask for a smaller interface, or use a model with a larger output"));
    }
    if let Some(refused) = answer.refused() {
        return Err(refused.into());
    }
    let text = told(plugins, Hook::AfterLlm, answer.text.as_str().into())?;
    let input = json!({"prompt": prompt, "text": text});
    let input = plugins.call(Hook::BeforeCodeGen, input)?;
    let [prompt, text] = ["prompt", "text"].map(|key| input[key].as_str().unwrap_or_default());
    let mut made = intake::read(prompt, text, "plan");
    made.plan = plugins.call(Hook::AfterCodeGen, made.plan)?;
    let report = match show::parse(&made.plan.to_string(), profile) {
        Ok(plan) => glasshouse_plan::check_to_run(&plan, profile, LANES),
        Err(error) => Report::of(&error),
    };
    Ok(Made { plan: made.plan, kind: made.kind, report, repaired: false })
}

/// A text as hooks leave it.
fn told(plugins: &Plugins, hook: Hook, text: Value) -> Result<String, Error> {
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
