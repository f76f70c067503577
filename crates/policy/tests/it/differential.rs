//! The compiled policy against a naive reading of the same rules, on random policies and calls.
//!
//! The reference shares no code with the crate: it keeps rules as data, tries each, and matches
//! paths with another library.

use std::collections::BTreeSet;

use glasshouse_model::{
    Call, CanonicalPath, Effect, Layer, Principal, PrincipalKind, RuleTrace, TenantId,
};
use glasshouse_policy::{KeptBack, Policy, Protected, Recorded, Request, Source, decide, learn};
use globset::GlobBuilder;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::support::compile;

const SYSCALLS: &[&str] = &["fs.read", "fs.write", "fs.edit", "net.connect", "x.y"];
const STATES: &[&str] = &["idle", "test_writing", "code_writing"];
const TAGS: &[&str] = &["core_plugin", "trusted_write"];
const LABELS: &[&str] = &["repo", "web", "mcp:a"];
const HOSTS: &[&str] = &["a.test", "b.a.test", "c.test"];
const HOST_PATTERNS: &[&str] = &["a.test", "*.a.test", "*", "c.test"];
const METHODS: &[&str] = &["GET", "POST"];
const KINDS: &[&str] = &["user", "agent", "plugin", "kernel"];
const TENANTS: &[&str] = &["local", "other"];
/// Patterns with a slash, so that both readings agree on what an anchor is.
const GLOBS: &[&str] = &[
    "src/**",
    "src/*.rs",
    "**/*.rs",
    "**/a",
    "**/b/**",
    "src/a",
    "*/a",
    "s?c/**",
    "src/[ab]/*",
    "**/{a,b}.rs",
    "src/**/b",
    "tests/**",
    "/**",
    "**/.x",
    "src/**/*.r*",
    "**/src/**/a*",
];

#[derive(Debug, Clone, Default)]
struct Match {
    syscall: Option<Vec<&'static str>>,
    state: Option<Vec<&'static str>>,
    tag: Option<Vec<&'static str>>,
    label: Option<Vec<&'static str>>,
    host: Option<Vec<&'static str>>,
    method: Option<Vec<&'static str>>,
    kind: Option<Vec<&'static str>>,
    tenant: Option<Vec<&'static str>>,
    glob: Option<Vec<&'static str>>,
}

#[derive(Debug, Clone)]
struct NaiveRule {
    name: String,
    when: Match,
    excepts: Vec<Match>,
    effect: Effect,
}

fn list(words: &'static [&'static str]) -> impl Strategy<Value = Option<Vec<&'static str>>> {
    // Mostly absent, so that random rules match now and then; sometimes empty.
    prop_oneof![
        4 => Just(None),
        2 => subsequence(words, 0..=words.len().min(3)).prop_map(Some),
    ]
}

fn conditions() -> impl Strategy<Value = Match> {
    (
        (list(SYSCALLS), list(STATES), list(TAGS), list(LABELS), list(HOST_PATTERNS)),
        (list(METHODS), list(KINDS), list(TENANTS), list(GLOBS)),
    )
        .prop_map(|((syscall, state, tag, label, host), (method, kind, tenant, glob))| Match {
            syscall,
            state,
            tag,
            label,
            host,
            method,
            kind,
            tenant,
            glob,
        })
}

fn policy() -> impl Strategy<Value = Vec<NaiveRule>> {
    let effect = select(vec![Effect::Allow, Effect::Allow, Effect::RequireReview, Effect::Deny]);
    let except = conditions().prop_filter("an empty item is refused", |m| m.to_yaml() != "{}");
    let rule = (conditions(), proptest::collection::vec(except, 0..3), effect);
    proptest::collection::vec(rule, 0..8).prop_map(|rules| {
        let named = rules.into_iter().map(narrowed).enumerate();
        named
            .map(|(n, (when, excepts, effect))| NaiveRule {
                name: format!("r{n}"),
                when,
                excepts,
                effect,
            })
            .collect()
    })
}

/// A rule that opens something names hosts, and not all of them.
fn narrowed(
    (mut when, mut excepts, effect): (Match, Vec<Match>, Effect),
) -> (Match, Vec<Match>, Effect) {
    let narrow = |hosts: &mut Option<Vec<&'static str>>| {
        hosts.iter_mut().for_each(|hosts| hosts.retain(|host| *host != "*"));
    };
    if effect != Effect::Allow {
        excepts.iter_mut().for_each(|except| narrow(&mut except.host));
        return (when, excepts, effect);
    }
    narrow(&mut when.host);
    if when.syscall.as_ref().is_some_and(|names| names.contains(&"net.connect")) {
        when.host.get_or_insert_with(|| vec!["a.test"]);
    }
    (when, excepts, effect)
}

fn calls() -> impl Strategy<Value = Call> {
    let path = proptest::option::of("(src|tests|lib)(/(a|b|c|\\.x|a\\.rs|b\\.rs)){0,4}");
    (
        (select(SYSCALLS), path, proptest::option::of(select(STATES))),
        (subsequence(TAGS, 0..=2), subsequence(LABELS, 0..=3)),
        (proptest::option::of(select(HOSTS)), proptest::option::of(select(METHODS))),
        (0..4_usize, select(TENANTS)),
    )
        .prop_map(
            |((syscall, path, state), (tags, labels), (host, method), (kind, tenant))| {
                let kind = [
                    PrincipalKind::User,
                    PrincipalKind::Agent,
                    PrincipalKind::Plugin,
                    PrincipalKind::Kernel,
                ][kind];
                let mut caller =
                    Principal::new(kind, "someone", tenant.parse::<TenantId>().unwrap());
                caller.tags = tags.into_iter().map(str::to_owned).collect();
                let mut call = Call::new(syscall, caller);
                call.path = path.map(|path| CanonicalPath::parse(&path).unwrap());
                call.state = state.map(str::to_owned);
                call.labels = labels.into_iter().map(str::to_owned).collect();
                call.host = host.map(str::to_owned);
                call.method = method.map(str::to_owned);
                call
            },
        )
}

impl Match {
    fn to_yaml(&self) -> String {
        let mut keys = Vec::new();
        let mut key = |name: &str, list: &Option<Vec<&str>>| {
            if let Some(items) = list {
                keys.push(format!("{name}: {}", serde_json::to_string(items).unwrap()));
            }
        };
        key("syscall", &self.syscall);
        key("state_machine_state", &self.state);
        key("caller_tag", &self.tag);
        key("label", &self.label);
        key("host", &self.host);
        key("method", &self.method);
        key("caller", &self.kind);
        key("tenant", &self.tenant);
        key("path_glob", &self.glob);
        if keys.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", keys.join(", ")) }
    }

    fn holds(&self, call: &Call) -> bool {
        let one = |list: &Option<Vec<&str>>, value: Option<&str>| match list {
            None => true,
            Some(items) => value.is_some_and(|value| items.contains(&value)),
        };
        let set = |list: &Option<Vec<&str>>, values: &BTreeSet<String>| match list {
            None => true,
            Some(items) => items.iter().any(|item| values.contains(*item)),
        };
        let kind = match call.caller.kind {
            PrincipalKind::User => "user",
            PrincipalKind::Agent => "agent",
            PrincipalKind::Plugin => "plugin",
            PrincipalKind::Kernel => "kernel",
        };
        one(&self.syscall, Some(&call.syscall))
            && one(&self.state, call.state.as_deref())
            && set(&self.tag, &call.caller.tags)
            && set(&self.label, &call.labels)
            && one(&self.method, call.method.as_deref())
            && one(&self.kind, Some(kind))
            && one(&self.tenant, Some(call.caller.tenant.as_str()))
            && self.host.as_ref().is_none_or(|patterns| {
                call.host.as_ref().is_some_and(|host| patterns.iter().any(|p| host_holds(p, host)))
            })
            && self.glob.as_ref().is_none_or(|globs| {
                call.path
                    .as_ref()
                    .is_some_and(|path| globs.iter().any(|g| glob_holds(g, path.as_str())))
            })
    }
}

fn host_holds(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(rest) => rest.is_empty() || (host.ends_with(rest) && host.len() > rest.len()),
        None => pattern == host,
    }
}

fn glob_holds(pattern: &str, path: &str) -> bool {
    let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .unwrap()
        .compile_matcher()
        .is_match(path)
}

fn to_yaml(rules: &[NaiveRule]) -> String {
    if rules.is_empty() {
        return "version: 1\n".to_owned();
    }
    let mut text = String::from("capabilities:\n");
    for rule in rules {
        let excepts: Vec<String> = rule.excepts.iter().map(Match::to_yaml).collect();
        text.push_str(&format!(
            "  - {{ name: {}, match: {}, action: {}, except: [{}] }}\n",
            rule.name,
            rule.when.to_yaml(),
            serde_json::to_value(rule.effect).unwrap().as_str().unwrap(),
            excepts.join(", "),
        ));
    }
    text
}

/// The reference: every rule is tried, and the definition is applied as it is written.
fn naive(rules: &[NaiveRule], call: &Call) -> (Effect, Vec<(String, Effect)>) {
    let mut heard: Vec<(String, Effect)> = rules
        .iter()
        .filter(|rule| rule.when.holds(call) && !rule.excepts.iter().any(|e| e.holds(call)))
        // Who allows calls in general does not mean every host.
        .filter(|rule| {
            let opens = rule.effect == Effect::Allow && call.syscall == "net.connect";
            !opens || rule.when.host.is_some()
        })
        .map(|rule| (rule.name.clone(), rule.effect))
        .collect();
    heard.sort();
    let any = |effect| heard.iter().any(|(_, heard)| *heard == effect);
    let effect = if any(Effect::Deny) {
        Effect::Deny
    } else if any(Effect::RequireReview) {
        Effect::RequireReview
    } else if any(Effect::Allow) {
        Effect::Allow
    } else {
        heard.push(("default-deny".to_owned(), Effect::Deny));
        Effect::Deny
    };
    (effect, heard)
}

fn compiled(rules: &[NaiveRule], call: &Call) -> (Effect, Vec<RuleTrace>, Vec<String>) {
    let policy = compile(&to_yaml(rules)).unwrap();
    let decision = decide(&policy, &Request::new(call, 0)).decision;
    let traces =
        decision.rules.into_iter().map(|trace| RuleTrace { source: None, line: None, ..trace });
    (decision.effect, traces.collect(), decision.reasons)
}

proptest! {
    #![proptest_config(crate::support::cases(400))]

    #[test]
    fn the_index_decides_as_the_definition(rules in policy(), call in calls()) {
        let (effect, traces, _) = compiled(&rules, &call);
        let names: Vec<(String, Effect)> =
            traces.into_iter().map(|trace| (trace.name, trace.action)).collect();
        prop_assert_eq!((effect, names), naive(&rules, &call));
    }

    #[test]
    fn neither_result_nor_trace_depends_on_the_order_of_rules(
        (rules, shuffled) in policy().prop_flat_map(|rules| {
            let shuffled = Just(rules.clone()).prop_shuffle();
            (Just(rules), shuffled)
        }),
        call in calls(),
    ) {
        prop_assert_eq!(compiled(&rules, &call), compiled(&shuffled, &call));
    }

    #[test]
    fn a_further_deny_or_review_never_opens_anything(rules in policy(), call in calls(), review: bool) {
        let before = compiled(&rules, &call).0;
        let mut stricter = rules;
        let effect = if review { Effect::RequireReview } else { Effect::Deny };
        let when = Match::default();
        stricter.push(NaiveRule { name: "extra".to_owned(), when, excepts: Vec::new(), effect });
        let after = compiled(&stricter, &call).0;
        // A review rule may turn a default denial into a question; it never allows.
        prop_assert!(after != Effect::Allow);
        prop_assert!(review || after == Effect::Deny);
        prop_assert!(before != Effect::RequireReview || after >= before);
    }

    #[test]
    fn an_except_takes_away_from_its_own_rule_alone(
        rules in policy(),
        at in 0..8_usize,
        call in calls(),
    ) {
        prop_assume!(!rules.is_empty());
        let at = at % rules.len();
        let mut whole = rules.clone();
        whole[at].excepts.clear();
        let heard = |rules: &[NaiveRule]| {
            let names = compiled(rules, &call).1.into_iter().map(|trace| trace.name);
            names.filter(|name| name != "default-deny").collect::<BTreeSet<_>>()
        };
        let (with, without) = (heard(&rules), heard(&whole));
        // Nothing else speaks or falls silent, and it lets its own rule say no more than before.
        let own = BTreeSet::from([rules[at].name.clone()]);
        prop_assert!(with.is_subset(&without));
        prop_assert!(without.difference(&with).cloned().collect::<BTreeSet<_>>().is_subset(&own));
    }

    #[test]
    fn of_sources_with_a_consent_of_their_own_the_strictest_decides(
        (joint, one, other) in (policy(), policy(), policy()),
        call in calls(),
    ) {
        let joint: Vec<NaiveRule> = joint
            .into_iter()
            .map(|rule| NaiveRule { name: format!("joint-{}", rule.name), ..rule })
            .collect();
        let texts = [to_yaml(&joint), to_yaml(&one), to_yaml(&other)];
        let decided = |sources: &[Source<'_>]| {
            let policy = Policy::compile(sources, &Protected::default()).unwrap();
            decide(&policy, &Request::new(&call, 0)).decision.effect
        };
        let [joint, one, other] = [0, 1, 2].map(|at| texts[at].as_str());
        let alone = |text| decided(&[Source::new("joint", joint), Source::new("own", text)]);
        let together = decided(&[
            Source::new("joint", joint),
            Source::apart("one", one),
            Source::apart("other", other),
        ]);
        prop_assert_eq!(together, alone(one).max(alone(other)));
    }

    #[test]
    fn a_source_that_opens_nothing_makes_the_others_no_more_than_stricter(
        (joint, own, stricter) in (policy(), policy(), policy()),
        call in calls(),
        is_apart in proptest::bool::ANY,
    ) {
        let renamed = |rule: NaiveRule| NaiveRule { name: format!("own-{}", rule.name), ..rule };
        let own: Vec<NaiveRule> = own.into_iter().map(renamed).collect();
        let texts = [to_yaml(&joint), to_yaml(&own), to_yaml(&stricter)];
        let decided = |sources: &[Source<'_>]| {
            let policy = Policy::compile(sources, &Protected::default()).unwrap();
            decide(&policy, &Request::new(&call, 0)).decision
        };
        let [joint, own, stricter] = [0, 1, 2].map(|at| texts[at].as_str());
        let mut sources = vec![Source::new("joint", joint)];
        sources.extend(is_apart.then(|| Source::apart("own", own)));
        let without = decided(&sources).effect;
        // It may have the names of the others.
        sources.push(Source::stricter("stricter", stricter));
        let with = decided(&sources);
        let heard = decided(&[Source::new("stricter", stricter)]);
        let said = heard.rules.iter().filter(|rule| rule.source.is_some()).map(|rule| rule.action);
        let said = said.max().unwrap_or(Effect::Allow);
        // A built-in rule that denies is all that is told.
        let is_built_in = with.rules.iter().any(|rule| {
            rule.layer == Layer::BuiltIn && rule.action == Effect::Deny
        });
        let expected = if is_built_in { Effect::Deny } else { without.max(said) };
        prop_assert_eq!(with.effect, expected);
        let speaks = |rule: &RuleTrace| rule.source.as_deref() == Some("stricter");
        prop_assert!(!with.rules.iter().any(|rule| speaks(rule) && rule.action == Effect::Allow));
    }

    #[test]
    fn a_learned_policy_decides_what_it_was_learned_from(
        rules in policy(),
        calls in proptest::collection::vec(calls(), 1..12),
    ) {
        // Calls of one kind of caller and one tenant, as a session has them.
        let decided: Vec<Recorded> = calls
            .into_iter()
            .map(|mut call| {
                call.caller = Principal::new(PrincipalKind::Agent, "agent", TenantId::local());
                let effect = compiled(&rules, &call).0;
                Recorded::new(call, effect)
            })
            .collect();
        let learned = learn(&decided, &KeptBack::default(), &[], &Protected::default()).unwrap();
        let policy = compile(&learned.text).unwrap();
        for (at, Recorded { call, effect, .. }) in decided.iter().enumerate() {
            let now = decide(&policy, &Request::new(call, 0)).decision.effect;
            prop_assert_eq!(now == *effect, !learned.unequal.contains(&at), "{}", &learned.text);
            // What was denied is not opened, whatever cannot be told apart.
            if *effect == Effect::Deny && now != Effect::Deny {
                prop_assert!(learned.unequal.contains(&at));
            }
        }
        // Without taint everything that was decided can be told apart. A connection to no host in
        // particular is opened by no rule.
        let plain: Vec<Recorded> = decided
            .into_iter()
            .map(|it| it.call)
            .filter(|call| call.syscall != "net.connect" || call.host.is_some())
            .map(|mut call| {
                call.labels.clear();
                let effect = compiled(&rules, &call).0;
                Recorded::new(call, effect)
            })
            .collect();
        let learned = learn(&plain, &KeptBack::default(), &[], &Protected::default()).unwrap();
        prop_assert!(learned.unequal.is_empty(), "{}", &learned.text);
    }

    #[test]
    fn patterns_match_as_another_library_says(
        pattern in "((\\*\\*|\\*|[ab.]{1,2}|a\\*|\\*b|\\?|[ab]\\*[ab]|\\[ab\\]|\\*\\.a)/){0,4}(\\*|[ab.]{1,2}|\\*\\*|\\*\\.a|\\{a,b\\})",
        path in "([ab.]{1,3}/){0,5}[ab.]{1,3}",
    ) {
        let Ok(path) = CanonicalPath::parse(&path) else { return Ok(()) };
        let text = format!("capabilities: [{{ name: r, match: {{ path_glob: '/{pattern}' }}, action: allow }}]");
        let Ok(policy) = compile(&text) else { return Ok(()) };
        if path.is_root() { return Ok(()) }
        let caller = Principal::new(PrincipalKind::User, "u", TenantId::local());
        let call = Call::new("fs.read", caller).at(path.clone());
        let ours = decide(&policy, &Request::new(&call, 0)).decision.effect == Effect::Allow;
        prop_assert_eq!(ours, glob_holds(&pattern, path.as_str()), "{} {}", pattern, path);
    }
}
