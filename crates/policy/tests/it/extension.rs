//! Rules in TypeScript as the policy sees them: a text that it carries, and answers of whoever runs it.

use std::sync::Arc;

use glasshouse_model::{Call, Decision, Effect, Layer};
use glasshouse_policy::{
    Extension, ExtensionError, Heard, Opinion, Policy, Protected, Request, Source, decide, limits,
};

use crate::support::{ALLOW_ALL, call, compile, decision};

/// Answers always the same.
struct Says(Result<Option<Effect>, ExtensionError>);

impl Extension for Says {
    fn evaluate(&self, _: &Call) -> Result<Option<Opinion>, ExtensionError> {
        let opinion = |effect| Opinion { effect, reason: "odd hour".to_owned() };
        self.0.clone().map(|effect| effect.map(opinion))
    }

    fn restart(&self) -> bool {
        false
    }
}

const PROGRAM: &str = "extension: |\n  export function evaluate(call) {}\n";
const CALL: &str = "{ syscall: fs.read, path: a }";

fn served(sources: &[Source<'_>], says: Result<Option<Effect>, ExtensionError>) -> Decision {
    let policy = Policy::compile(sources, &Protected::default()).unwrap();
    decision(&policy.served_by(Arc::new(Says(says))), CALL)
}

#[test]
fn law_4_a_program_that_nobody_runs_denies_what_reaches_it() {
    let text = format!("{ALLOW_ALL}\n{PROGRAM}");
    let policy = compile(&text).unwrap();
    let found = policy.extension().unwrap();
    assert_eq!(
        (found.code.trim(), found.source.as_str()),
        ("export function evaluate(call) {}", "policy.yaml")
    );
    let denied = decision(&policy, CALL);
    assert_eq!(denied.effect, Effect::Deny);
    assert!(denied.reasons.iter().any(|it| it.contains("nothing runs them")), "{denied:?}");
    let control = decision(&compile(ALLOW_ALL).unwrap(), CALL);
    assert_eq!(control.effect, Effect::Allow, "the control");
    // What a rule denied never reaches it.
    let none = format!("capabilities: [{{ name: none, match: {{}}, action: deny }}]\n{PROGRAM}");
    let by_rule = decision(&compile(&none).unwrap(), CALL);
    assert!(by_rule.rules.iter().all(|rule| rule.layer != Layer::Extension), "{by_rule:?}");
}

/// What a program of a joint source, or one that is in no file, lets pass, no silent file has to let pass as well.
#[test]
fn a_program_of_a_joint_source_speaks_for_all() {
    let check = |says: Option<Effect>, expected: Effect| {
        for program in [PROGRAM, ""] {
            let joint = format!("capabilities: []\n{program}");
            let sources = [
                Source::new("joint.yaml", &joint),
                Source::apart("open.yaml", ALLOW_ALL),
                Source::apart("silent.yaml", "capabilities: []"),
            ];
            let found = served(&sources, Ok(says));
            assert_eq!(found.effect, expected, "{says:?} of {program:?}: {found:?}");
        }
    };
    check(Some(Effect::Allow), Effect::Allow);
    check(Some(Effect::RequireReview), Effect::RequireReview);
    check(Some(Effect::Deny), Effect::Deny);
    // The control: where it says nothing, the silent file counts.
    check(None, Effect::Deny);
}

#[test]
fn an_answer_is_told_with_its_place() {
    let text = format!("{ALLOW_ALL}\n{PROGRAM}");
    let found = served(&[Source::new("p.yaml", &text)], Ok(Some(Effect::RequireReview)));
    assert_eq!(found.effect, Effect::RequireReview);
    let trace = found.rules.iter().find(|rule| rule.layer == Layer::Extension).unwrap();
    assert_eq!((trace.source.as_deref(), trace.line), (Some("p.yaml"), Some(6)), "{found:?}");
    let crashed = served(&[Source::new("p.yaml", &text)], Err(ExtensionError::Crashed("x".into())));
    assert_eq!(crashed.effect, Effect::Deny);
    assert!(crashed.reasons[0].ends_with("crashed: x; it is disabled"), "{crashed:?}");
}

/// Rules of a file that nobody accepted yet may be in TypeScript, too: they open nothing either.
#[test]
fn a_program_of_a_stranger_opens_nothing() {
    const READS: &str =
        "capabilities: [{ name: reads, match: { syscall: fs.read }, action: allow }]\n";
    let check = |ours: &str, says: Option<Effect>, want: Effect| {
        let sources = [Source::apart("shipped", ours), Source::apart("theirs", PROGRAM)];
        let found = served(&sources, Ok(says));
        assert_eq!(found.effect, want, "{ours:?} {says:?}: {found:?}");
    };
    check(READS, Some(Effect::Allow), Effect::Allow);
    check(READS, None, Effect::Deny);
    check(READS, Some(Effect::Deny), Effect::Deny);
    check(READS, Some(Effect::RequireReview), Effect::RequireReview);
    check("", Some(Effect::Allow), Effect::Deny);
    // The control: as part of the policy it opens.
    let accepted = served(&[Source::new("ours", PROGRAM)], Ok(Some(Effect::Allow)));
    assert_eq!(accepted.effect, Effect::Allow);
}

#[test]
fn who_decides_again_hears_what_was_said() {
    let text = format!("{ALLOW_ALL}\n{PROGRAM}");
    let bare = compile(&text).unwrap();
    for says in [
        Ok(None),
        Ok(Some(Effect::Allow)),
        Ok(Some(Effect::RequireReview)),
        Ok(Some(Effect::Deny)),
        Err(ExtensionError::TimedOut { limit_ms: 100 }),
        Err(ExtensionError::Crashed("killed".into())),
        Err(ExtensionError::Disabled { within: std::time::Duration::from_secs(30) }),
    ] {
        let policy = compile(&text).unwrap().served_by(Arc::new(Says(says.clone())));
        let before = decision(&policy, CALL);
        let heard = Heard::in_decision(&before);
        let made = call(CALL);
        let request = Request { extension: Some(&heard), ..Request::new(&made, 0) };
        assert_eq!(decide(&bare, &request).decision, before, "{says:?}");
    }
}

#[test]
fn what_is_no_program_does_not_load() {
    let check = |text: &str, code: &str, word: &str| {
        let error = compile(text).expect_err(text);
        let report = error.report();
        assert_eq!(report.code, code, "{text}");
        let all = format!("{} {} {}", report.what, report.why, report.fix);
        assert!(all.contains(word), "{all}");
    };
    check("extension: rules.ts", "policy_bad_value", "write `extension: |`");
    check("extension: { file: rules.ts }", "policy_bad_value", "text");
    check("extension: ''", "policy_bad_value", "text");
    check("extention: x", "policy_unknown_key", "did you mean `extension`?");
    let long = format!("extension: '{}'", "x".repeat(limits::MAX_EXTENSION_BYTES + 1));
    check(&long, "policy_limit", "bytes in an extension");
    let two = [Source::new("a", PROGRAM), Source::new("b", PROGRAM)];
    let error = Policy::compile(&two, &Protected::default()).unwrap_err();
    assert_eq!(error.code(), "policy_limit");
}
