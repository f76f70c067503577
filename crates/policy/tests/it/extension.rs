//! Rules in TypeScript as the policy sees them: a text that it carries, and answers of whoever runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use glasshouse_model::{Call, Decision, Effect, Layer};
use glasshouse_policy::{
    Consent, Extension, ExtensionError, ExtensionText, Heard, Opinion, Policy, Protected, Request,
    Source, decide, limits,
};

use crate::support::{ALLOW_ALL, call, compile, decision};

/// Answers always the same.
struct Says(Result<Option<Effect>, ExtensionError>);

impl Extension for Says {
    fn evaluate(
        &self,
        _: Option<&ExtensionText>,
        _: &Call,
    ) -> Result<Option<Opinion>, ExtensionError> {
        let opinion = |effect| Opinion { effect, reason: "odd hour".to_owned() };
        self.0.clone().map(|effect| effect.map(opinion))
    }

    fn restart(&self, _: Option<&ExtensionText>) -> bool {
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
    let [found] = policy.extensions() else { panic!("{policy:?}") };
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
}

/// Answers by the source that the program is in, or alike for all, and counts how often it is asked.
struct BySource(Vec<(&'static str, Option<Effect>)>, AtomicUsize);

impl Extension for BySource {
    fn evaluate(
        &self,
        program: Option<&ExtensionText>,
        _: &Call,
    ) -> Result<Option<Opinion>, ExtensionError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let source = program.unwrap().source.as_str();
        let said = self.0.iter().find(|(name, _)| *name == source).unwrap().1;
        Ok(said.map(|effect| Opinion { effect, reason: format!("{source} says so") }))
    }

    fn restart(&self, _: Option<&ExtensionText>) -> bool {
        false
    }
}

/// The failure: a session whose policy has rules in TypeScript could not be carried on after another file with such rules
/// was accepted. Now each source may have a program, each is heard, and each counts as its source does.
#[test]
fn each_source_may_have_a_program_and_all_are_heard() {
    const OTHER: &str = "extension: |\n  export function evaluate(call) { return; }\n";
    let [allow, deny, review] =
        [Effect::Allow, Effect::Deny, Effect::RequireReview].map(Option::Some);
    let check = |consents: [Consent; 2], says: [Option<Effect>; 2], want: Effect| {
        let texts = [PROGRAM, OTHER];
        let mut sources = vec![Source::new("rules", ALLOW_ALL)];
        for (at, name) in ["a", "b"].into_iter().enumerate() {
            sources.push(Source { consent: consents[at], ..Source::new(name, texts[at]) });
        }
        let bare = Policy::compile(&sources, &Protected::default()).unwrap();
        let policy = Policy::compile(&sources, &Protected::default()).unwrap();
        let serving = Arc::new(BySource(vec![("a", says[0]), ("b", says[1])], 0.into()));
        let policy = policy.served_by(serving.clone());
        let found = decision(&policy, CALL);
        let label = format!("{consents:?} {says:?}: {found:?}");
        assert_eq!(found.effect, want, "{label}");
        assert_eq!(serving.1.load(Ordering::Relaxed), 2, "{label}");
        // Order decides nothing.
        sources.swap(1, 2);
        let turned = Policy::compile(&sources, &Protected::default()).unwrap().served_by(serving);
        let turned = decision(&turned, CALL);
        assert_eq!((turned.effect, &turned.rules), (found.effect, &found.rules), "{label}");
        // Who decides again hears both.
        let heard = Heard::in_decision(&found);
        let made = call(CALL);
        let request = Request { extension: Some(&heard), ..Request::new(&made, 0) };
        assert_eq!(decide(&bare, &request).decision, found, "{label}");
    };
    let all = [Consent::Joint, Consent::Own, Consent::Stricter];
    for one in all {
        for other in all {
            let consents = [one, other];
            check(consents, [None, None], Effect::Allow);
            check(consents, [deny, None], Effect::Deny);
            check(consents, [None, deny], Effect::Deny);
            check(consents, [deny, allow], Effect::Deny);
            check(consents, [review, allow], Effect::RequireReview);
            check(consents, [allow, review], Effect::RequireReview);
            check(consents, [review, deny], Effect::Deny);
            check(consents, [allow, allow], Effect::Allow);
        }
    }
}

/// A program that is missing where another one runs denies like any that cannot be asked.
#[test]
fn a_text_that_two_sources_carry_is_asked_once_and_counts_for_both() {
    let check = |second: Consent, says: Option<Effect>, want: Effect, times: usize| {
        let sources = [
            Source::apart(
                "rules",
                "capabilities: [{ name: r, match: { syscall: fs.read }, action: allow }]",
            ),
            Source::apart("a", PROGRAM),
            Source { consent: second, ..Source::new("b", PROGRAM) },
        ];
        let serving = Arc::new(BySource(vec![("a", says), ("b", says)], 0.into()));
        let policy = Policy::compile(&sources, &Protected::default()).unwrap();
        let found = decision(&policy.served_by(serving.clone()), CALL);
        assert_eq!(found.effect, want, "{second:?} {says:?}: {found:?}");
        assert_eq!(serving.1.load(Ordering::Relaxed), times, "{second:?} {says:?}");
        let bare = Policy::compile(&sources, &Protected::default()).unwrap();
        let (heard, made) = (Heard::in_decision(&found), call(CALL));
        let request = Request { extension: Some(&heard), ..Request::new(&made, 0) };
        assert_eq!(decide(&bare, &request).decision, found, "{second:?} {says:?}");
    };
    for second in [Consent::Own, Consent::Joint, Consent::Stricter] {
        check(second, Some(Effect::Allow), Effect::Allow, 1);
        check(second, Some(Effect::RequireReview), Effect::RequireReview, 1);
        check(second, Some(Effect::Deny), Effect::Deny, 1);
    }
    // Silence is asked for again, and lets a file that stays silent count.
    check(Consent::Own, None, Effect::Deny, 2);
}
