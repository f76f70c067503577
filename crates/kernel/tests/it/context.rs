//! What the model is told when conversations grow, calls repeat, models fail and forks spend.

use glasshouse_kernel::session::{Effect, Item, is_summary_wanted, model_request};
use glasshouse_model::body::{
    BudgetCharged, CallStatus, ContextPinned, MessageReceived, ModelCompleted, ModelFailed,
    ModelRequested, Outcome,
};
use glasshouse_model::{Actor, BranchId, Budget, Draft, Kind, PrincipalKind, Usage};
use glasshouse_provider::{Message, ModelRequest};

use crate::simulation::{Simulation, blob};

/// A simulation whose model reads at most 10,000 tokens.
fn small_window() -> Simulation {
    Simulation::with(Budget::default(), |created| created.settings.window_tokens = Some(10_000))
}

fn request(sim: &Simulation) -> ModelRequest {
    model_request(&sim.state, &[])
}

/// Records that the wanted request was made.
fn requested(sim: &mut Simulation) {
    let request = request(sim);
    let body = ModelRequested {
        ordinal: request.ordinal,
        attempt: 1,
        request: request.digest(),
        provider: "scripted".to_owned(),
        model: request.model,
        summary: is_summary_wanted(&sim.state),
    };
    sim.append(Draft::new(Kind::ModelRequested, &body));
}

fn completed(sim: &Simulation, text: &str, summary: bool) -> ModelCompleted {
    ModelCompleted {
        ordinal: sim.state.ordinal,
        text: text.to_owned(),
        reasoning: String::new(),
        calls: Vec::new(),
        finish: "stop".to_owned(),
        tokens: [("output".to_owned(), 10)].into(),
        raw: blob("raw"),
        duration_us: 5,
        carry: None,
        cost_micros: None,
        summary,
    }
}

fn summarised(sim: &mut Simulation, text: &str) {
    requested(sim);
    let body = completed(sim, text, true);
    sim.append(Draft::new(Kind::ModelCompleted, &body));
}

/// Lets the model read a file of so many bytes.
fn reads(sim: &mut Simulation, bytes: usize) {
    let call = sim.answer("I read.", &[("fs.read", r#"{"path":"a"}"#)])[0];
    sim.decide(call, glasshouse_model::Effect::Allow);
    sim.start(call);
    sim.end_with(call, CallStatus::Completed, &"x".repeat(bytes));
}

fn said(request: &ModelRequest) -> Vec<String> {
    request
        .messages
        .iter()
        .map(|message| match message {
            Message::User { text, .. } => format!("user: {text}"),
            Message::Assistant { text, .. } => format!("agent: {text}"),
            Message::ToolResult { content, .. } => format!("result: {} bytes", content.len()),
        })
        .collect()
}

/// The failure: after a compaction the agent forgets the rules, the pinned text, the plan and what it
/// was asked to do.
#[test]
fn g11_what_must_not_be_forgotten_survives_byte_for_byte() {
    let mut sim = small_window();
    let pin = "Never touch  the `vendor` directory.\n\tNot even ü.".to_owned();
    let body = ContextPinned { name: "rule".to_owned(), text: pin.clone() };
    sim.append(Draft::new(Kind::ContextPinned, &body));
    let before = request(&sim).system;
    assert!(before.contains(&pin));
    for _ in 0..4 {
        reads(&mut sim, 8_000);
    }
    assert!(is_summary_wanted(&sim.state));
    let asked = request(&sim);
    assert!(asked.system.contains("summarise") && asked.tools.is_empty());
    assert!(said(&asked)[0].contains("do it"), "{:?}", said(&asked));
    summarised(&mut sim, "Files were read.");
    assert_eq!(sim.count(&Kind::ContextCompacted), 1);
    assert!(!is_summary_wanted(&sim.state), "it fits again");
    let after = request(&sim);
    assert_eq!(after.system, before, "rules, pins and workflow line, byte for byte");
    let said = said(&after);
    assert!(said[0].contains("Files were read."), "{said:?}");
    assert!(said[0].contains("Completed calls: c"), "{said:?}");
    assert_eq!(said[1], "user: do it", "the task itself");
    assert_eq!(said.last().unwrap(), "result: 8012 bytes", "the latest entries as they were");
    let bytes: usize = after.canonical_bytes().len();
    assert!(bytes < 10_000 * 4, "{bytes}");
    // Nothing is gone from the record.
    let items = sim.state.conversation.len();
    assert_eq!(items, 5);
    assert!(matches!(&sim.state.conversation[0], Item::Message(text) if text == "do it"));
}

/// What was loaded is part of the state: it survives a summary, and a replay makes the same request.
#[test]
fn loaded_schemas_stay_after_a_summary() {
    let mut sim = Simulation::with(Budget::default(), |created| {
        created.settings.window_tokens = Some(10_000);
        created.settings.schema_tokens = Some(300);
    });
    let tools = glasshouse_kernel::driver::tools_told(&glasshouse_tools::Registry::builtin());
    let has_schema = |sim: &Simulation, name: &str| {
        let request = model_request(&sim.state, &tools);
        let tool = request.tools.iter().find(|tool| tool.name == name).unwrap().clone();
        tool.parameters["required"].is_array()
    };
    assert!(has_schema(&sim, "tools.load") && !has_schema(&sim, "fs.edit"));
    let call = sim.answer("", &[("tools.load", r#"{"names":["fs.edit"]}"#)])[0];
    sim.decide(call, glasshouse_model::Effect::Allow);
    sim.start(call);
    sim.end_with(call, CallStatus::Completed, "fs.edit: ...");
    assert!(has_schema(&sim, "fs.edit"));
    for _ in 0..4 {
        reads(&mut sim, 8_000);
    }
    summarised(&mut sim, "Files were read.");
    assert!(has_schema(&sim, "fs.edit") && !has_schema(&sim, "shell.run"));
}

#[test]
fn a_plan_and_an_open_approval_are_told_after_a_summary() {
    let mut sim = small_window();
    let call = sim.answer("", &[("plan.complete", r#"{"summary":"x"}"#)])[0];
    sim.decide(call, glasshouse_model::Effect::Allow);
    sim.start(call);
    sim.end_with(call, CallStatus::Completed, "1. write the test\n2. write the code");
    for _ in 0..4 {
        reads(&mut sim, 8_000);
    }
    assert!(!request(&sim).system.contains("The plan:"));
    summarised(&mut sim, "Planned and read.");
    assert!(request(&sim).system.contains("The plan:\n1. write the test\n2. write the code"));
}

#[test]
fn a_summary_that_does_not_help_ends_the_turn() {
    // One entry alone is too large.
    let mut sim = small_window();
    reads(&mut sim, 60_000);
    // The message before it can be summarised, which shortens nothing that counts.
    summarised(&mut sim, "Asked to do it.");
    let next = sim.next();
    let [Effect::Record(drafts)] = next.as_slice() else { panic!("{next:?}") };
    let drafts = drafts.clone();
    drafts.into_iter().for_each(|draft| drop(sim.append(draft)));
    assert_eq!(sim.state.outcome(), Some(Outcome::Failed));
    let code = sim.state.last_turn.as_ref().and_then(|end| end.code.clone());
    assert_eq!(code.as_deref(), Some("context_full"));
    // So does one that says nothing.
    let mut sim = small_window();
    for _ in 0..4 {
        reads(&mut sim, 8_000);
    }
    summarised(&mut sim, "  ");
    let code = sim.state.last_turn.as_ref().and_then(|end| end.code.clone());
    assert_eq!(code.as_deref(), Some("context_full"));
    assert_eq!(sim.count(&Kind::ContextCompacted), 0);
}

#[test]
fn a_model_that_says_it_is_too_much_gets_a_summary() {
    let mut sim = Simulation::new(Budget::default());
    reads(&mut sim, 8_000);
    reads(&mut sim, 8_000);
    assert!(!is_summary_wanted(&sim.state));
    requested(&mut sim);
    let failed = |sim: &Simulation, retry_in_ms: Option<u64>| ModelFailed {
        ordinal: sim.state.ordinal,
        attempt: 1,
        code: "context_overflow".to_owned(),
        message: "too long".to_owned(),
        retry_in_ms,
        next_model: None,
        answered: true,
    };
    let body = failed(&sim, Some(0));
    sim.append(Draft::new(Kind::ModelFailed, &body));
    assert!(is_summary_wanted(&sim.state));
    summarised(&mut sim, "Read twice.");
    assert!(!is_summary_wanted(&sim.state));
    assert!(matches!(sim.next().as_slice(), [Effect::RequestModel { .. }]));
}

/// The failure: an agent that makes the same failing call until its budget is gone.
#[test]
fn the_same_failing_call_is_warned_of_and_then_stopped() {
    let mut sim = Simulation::new(Budget::default());
    let fail = |sim: &mut Simulation, arguments: &str| {
        let call = sim.answer("", &[("fs.read", arguments)])[0];
        sim.decide(call, glasshouse_model::Effect::Allow);
        sim.start(call);
        sim.end_with(call, CallStatus::Failed, "no such file");
    };
    let warned = |sim: &Simulation| {
        let text = String::from_utf8(request(sim).canonical_bytes()).unwrap();
        text.matches("this very call has failed").count()
    };
    for arguments in [r#"{"path":"a"}"#, r#"{ "path": "a" }"#] {
        fail(&mut sim, arguments);
    }
    fail(&mut sim, r#"{"path":"b"}"#);
    assert_eq!(warned(&sim), 0, "two, and another call");
    fail(&mut sim, r#"{"path":"a"}"#);
    assert_eq!(warned(&sim), 1);
    fail(&mut sim, r#"{"path":"a"}"#);
    assert!(matches!(sim.next().as_slice(), [Effect::RequestModel { .. }]));
    fail(&mut sim, r#"{"path":"a"}"#);
    let next = sim.next();
    let [Effect::Record(drafts)] = next.as_slice() else { panic!("{next:?}") };
    let drafts = drafts.clone();
    drafts.into_iter().for_each(|draft| drop(sim.append(draft)));
    let code = sim.state.last_turn.as_ref().and_then(|end| end.code.clone());
    assert_eq!(code.as_deref(), Some("call_repeated"));
    assert_eq!(sim.count(&Kind::BudgetExhausted), 0);
}

#[test]
fn a_change_in_between_makes_a_call_another_one() {
    let mut sim = Simulation::new(Budget::default());
    for round in 0..8 {
        let call = sim.answer("", &[("fs.read", r#"{"path":"a"}"#)])[0];
        sim.decide(call, glasshouse_model::Effect::Allow);
        sim.start(call);
        sim.end_with(call, CallStatus::Failed, "no such file");
        sim.seal(&format!("round {round}"), false, false);
        assert!(matches!(sim.next().as_slice(), [Effect::RequestModel { .. }]), "round {round}");
    }
}

#[test]
fn a_fallback_model_answers_for_the_rest_of_the_turn() {
    let mut sim = Simulation::with(Budget::default(), |created| {
        created.settings.fallback_models = vec!["second".to_owned()];
    });
    assert_eq!(request(&sim).model, "m");
    requested(&mut sim);
    let body = ModelFailed {
        ordinal: 0,
        attempt: 6,
        code: "overloaded".to_owned(),
        message: "busy".to_owned(),
        retry_in_ms: Some(0),
        next_model: Some("second".to_owned()),
        answered: true,
    };
    sim.append(Draft::new(Kind::ModelFailed, &body));
    assert_eq!(sim.next(), [Effect::RequestModel { attempt: 1, delay_ms: 0 }]);
    assert_eq!(request(&sim).model, "second");
    sim.answer("done", &[]);
    let user = Actor { kind: PrincipalKind::User, id: "local".to_owned() };
    sim.append(Draft::new(Kind::TurnStarted, &glasshouse_model::body::TurnStarted::default()));
    let message = MessageReceived { text: "more".to_owned() };
    sim.append(Draft::new(Kind::MessageReceived, &message).by(user));
    assert_eq!(request(&sim).model, "m", "a new turn asks the session's own model");
}

/// The failure: forks spend beside the budget of their session.
#[test]
fn g10_what_other_branches_spent_counts_before_the_next_request() {
    let budget = Budget { tokens: Some(1_000), ..Budget::default() };
    let mut sim = Simulation::new(budget);
    assert!(matches!(sim.next().as_slice(), [Effect::RequestModel { .. }]));
    let charge = |sim: &mut Simulation, tokens: u64| {
        let usage = Usage { tokens, ..Usage::default() };
        let branch = Some(BranchId::from_random([7; 8]));
        let body = BudgetCharged { usage, branch };
        sim.append(Draft::new(Kind::BudgetCharged, &body));
    };
    charge(&mut sim, 600);
    // What is told again replaces what was told before.
    charge(&mut sim, 900);
    assert_eq!(sim.state.spent().tokens, 900);
    assert_eq!(sim.state.usage.tokens, 0);
    assert!(matches!(sim.next().as_slice(), [Effect::RequestModel { .. }]));
    charge(&mut sim, 1_000);
    let next = sim.next();
    let [Effect::Record(drafts)] = next.as_slice() else { panic!("{next:?}") };
    assert_eq!(drafts[0].kind, Kind::BudgetExhausted);
}

/// The failure: signed thoughts blanked in one request, after which every request is refused.
#[test]
fn g1_signed_blocks_go_back_until_they_are_refused() {
    let mut sim = Simulation::new(Budget::default());
    let mut body = completed(&sim, "so", false);
    body.carry = Some(glasshouse_model::body::Carry {
        dialect: "anthropic".to_owned(),
        model: "m".to_owned(),
        blocks: vec![r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#.to_owned()],
    });
    body.calls = vec![glasshouse_model::body::WrittenCall {
        id: "t0".to_owned(),
        tool: "fs.read".to_owned(),
        arguments: r#"{"path":"a"}"#.to_owned(),
        masked: false,
    }];
    let carry = body.carry.clone().unwrap();
    sim.append(Draft::new(Kind::ModelCompleted, &body));
    let kept = |sim: &Simulation| {
        request(sim).messages.iter().find_map(|message| match message {
            Message::Assistant { carry, .. } => carry.as_ref().map(|carry| carry.blocks.clone()),
            _ => None,
        })
    };
    assert_eq!(kept(&sim), Some(carry.blocks));
    let refused = ModelFailed {
        ordinal: sim.state.ordinal,
        attempt: 1,
        code: "reasoning_refused".to_owned(),
        message: "cannot be modified".to_owned(),
        retry_in_ms: Some(0),
        next_model: None,
        answered: true,
    };
    sim.append(Draft::new(Kind::ModelFailed, &refused));
    assert_eq!(kept(&sim), None, "the next try goes without them");
}
