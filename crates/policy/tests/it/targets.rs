//! What holds for any input at all: run here on random texts, and by the fuzzer on worse ones.

use glasshouse_model::{CanonicalPath, Effect};
use glasshouse_policy::{
    CallSketch, PathPatterns, Policy, Protected, Request, SealedGrant, SealingKey, Source, decide,
    explain, lint,
};

/// A policy that allows what no built-in rule denies.
const ALLOW_ALL: &str = "capabilities: [{ name: everything, match: {}, action: allow }]";

fn compile(text: &str) -> Option<Policy> {
    Policy::compile(&[Source::new("p.yaml", text)], &Protected::default()).ok()
}

/// A text loads or is refused with its place; what loads can be explained and checked.
pub(crate) fn yaml(text: &str) {
    match Policy::compile(&[Source::new("p.yaml", text)], &Protected::default()) {
        Err(error) => {
            let report = error.report();
            assert!(report.code.starts_with("policy_"), "{report:?}");
        }
        Ok(policy) => {
            let _ = lint(&policy);
            let call = r#"{"syscall":"fs.write","path":"src/a","caller":"agent","label":"web"}"#;
            if let Ok(call) = CallSketch::from_json(call).and_then(CallSketch::into_call) {
                let _ = explain(&policy, &Request::new(&call, 0));
            }
        }
    }
}

/// Whatever a call says, it changes no protected directory.
pub(crate) fn call(text: &str) {
    let Ok(call) = CallSketch::from_json(text).and_then(CallSketch::into_call) else { return };
    let Some(policy) = compile(ALLOW_ALL) else { return };
    let effect = decide(&policy, &Request::new(&call, 0)).decision.effect;
    let looks = ["fs.read", "fs.list", "fs.exists", "search.grep", "search.glob", "git.diff"];
    let protected = call.path.as_ref().is_some_and(|path| {
        let names: Vec<String> = path.components().map(str::to_lowercase).collect();
        names.iter().any(|name| name == ".git" || name == ".glasshouse")
    });
    if protected && !looks.contains(&call.syscall.as_str()) {
        assert_eq!(effect, Effect::Deny, "{text}");
    }
}

/// A pattern and a path behind the first line end: the index and the pattern itself agree.
pub(crate) fn glob(text: &str) {
    let Some((pattern, path)) = text.split_once('\n') else { return };
    let Ok(path) = CanonicalPath::parse(path) else { return };
    let Ok(patterns) = PathPatterns::parse([pattern]) else { return };
    let list = serde_json::to_string(&[pattern]).unwrap_or_default();
    let rule = format!(
        "capabilities: [{{ name: r, match: {{ syscall: fs.read, path_glob: {list} }}, action: allow }}]"
    );
    let Some(policy) = compile(&rule) else { return };
    let Ok(call) =
        CallSketch::from_json(r#"{"syscall":"fs.read"}"#).and_then(CallSketch::into_call)
    else {
        return;
    };
    let decided = decide(&policy, &Request::new(&call.at(path.clone()), 0)).decision.effect;
    assert_eq!(decided == Effect::Allow, patterns.matches(&path), "{pattern} {path}");
}

/// No bytes are a sealed grant that this key did not seal.
pub(crate) fn sealed(bytes: &[u8]) {
    let key = SealingKey::from_bytes(&[7; 32]);
    assert!(SealedGrant::open(&key, bytes).is_err());
}

/// What a permissive rule takes for a command, a restrictive rule of the same words finds.
pub(crate) fn shell(script: &str) {
    let argv = serde_json::json!({ "syscall": "shell.run", "argv": ["sh", "-c", script] });
    let Ok(call) = CallSketch::from_json(&argv.to_string()).and_then(CallSketch::into_call) else {
        return;
    };
    let rules = |deny: &str| {
        format!(
            "capabilities:\n  - {{ name: a, match: {{ syscall: shell.run, argv_prefix: rm -rf }}, action: allow }}\n{deny}"
        )
    };
    let effect = |deny: &str| {
        compile(&rules(deny)).map(|p| decide(&p, &Request::new(&call, 0)).decision.effect)
    };
    if effect("") == Some(Effect::Allow) {
        let deny = "  - { name: d, match: { argv_prefix: rm -rf }, action: deny }\n";
        assert_eq!(effect(deny), Some(Effect::Deny), "{script}");
    }
}
