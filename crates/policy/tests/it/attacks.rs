//! Ways around a policy. Each attack has a control: the same call succeeds where the defence does
//! not apply.

use glasshouse_model::{Call, CanonicalPath, Effect, syscall::name};
use glasshouse_policy::{
    CallSketch, Extension, ExtensionError, ExtensionText, Opinion, Protected, Request, decide,
};

use crate::support::{ALLOW_ALL, call, compile, compile_with, decision, effect};

/// The call is denied by exactly this rule, although a file allows everything.
fn denied_by(protected: &Protected, sketch: &str, rule: &str) {
    let policy = compile_with(ALLOW_ALL, protected).unwrap();
    let decision = decision(&policy, sketch);
    let names: Vec<&str> = decision.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!((decision.effect, names), (Effect::Deny, vec![rule]), "{sketch}");
}

fn allowed(protected: &Protected, sketch: &str) {
    let policy = compile_with(ALLOW_ALL, protected).unwrap();
    assert_eq!(effect(&policy, sketch), Effect::Allow, "{sketch}");
}

#[test]
fn every_mutating_syscall_is_kept_out_of_the_protected_directories() {
    let none = Protected::default();
    let foreign = ["shell.run", "fs.rename", "mcp.files.put", "fs.chmod"];
    for syscall in name::MUTATING.into_iter().chain(foreign) {
        let check = |path: &str, rule: &str| {
            denied_by(&none, &format!("{{ syscall: {syscall}, path: '{path}' }}"), rule);
        };
        for path in [
            ".glasshouse",
            ".glasshouse/policy.yaml",
            "./.glasshouse//policy.yaml",
            "x/../.glasshouse/policy.yaml",
            ".GlassHouse/Policy.YAML",
            "deep/down/.glasshouse/config.yaml",
            ".glasshouse/log.db-wal",
            ".glasshouse/log.db-shm",
            ".glasshouse/new/anything",
            ".glasshouse./policy.yaml",
        ] {
            check(path, "protect-glasshouse");
        }
        for path in [
            ".git",
            ".git/config",
            ".git/hooks/pre-commit",
            "vendor/lib/.git/config",
            ".GIT/config",
            "git~1/config",
            ".git::$INDEX_ALLOCATION/config",
        ] {
            check(path, "protect-git");
        }
        // Control: names that only look similar are free.
        for path in ["src/.gitignore", ".github/ci.yml", "glasshouse/policy.yaml", ".gitmodules"] {
            allowed(&none, &format!("{{ syscall: {syscall}, path: '{path}' }}"));
        }
    }
    // Control: looking is not changing.
    for syscall in ["fs.read", "fs.list", "fs.exists", "search.grep", "search.glob"] {
        allowed(&none, &format!("{{ syscall: {syscall}, path: .glasshouse/policy.yaml }}"));
    }
}

/// Forms of a path that others were walked around by: percent signs, NUL, long names, forms of Unicode, for
/// every call that changes something. Denied where any file system could open the protected directory by it,
/// refused where it is no path, and the name of another file where it only looks alike.
#[test]
fn no_form_of_a_path_reaches_a_protected_directory() {
    let none = Protected::default();
    let long = "x".repeat(255);
    let denied = [
        format!(".glasshouse/{long}"),
        format!("{long}/.glasshouse/policy.yaml"),
        format!(".glasshouse/{}", ["d"; 200].join("/")),
        ".glasshouse/%2e%2e/policy.yaml".to_owned(),
        ".glasshouse/policy.yaml%00.txt".to_owned(),
        // Forms that file systems fold, ignore or drop.
        ".gla\u{17f}\u{17f}house/policy.yaml".to_owned(),
        ".GLA\u{df}HOUSE/policy.yaml".to_owned(),
        ".glass\u{200d}house/policy.yaml".to_owned(),
        "\u{feff}.glasshouse/policy.yaml".to_owned(),
        ".glasshouse\u{fe0f}/policy.yaml".to_owned(),
        ".glasshouse/e\u{301}".to_owned(),
        ".glasshouse/\u{e9}".to_owned(),
        ".glasshouse/.hidden".to_owned(),
        ".glasshouse/policy.yaml~".to_owned(),
        ".glasshouse/.policy.yaml.swp".to_owned(),
        ".glasshouse/#policy.yaml#".to_owned(),
        ".glasshouse . ./policy.yaml".to_owned(),
        "glassh~1/policy.yaml".to_owned(),
    ];
    // Other names: a percent sign is a character here, and letters that look alike are others.
    let other = [
        "%2eglasshouse/policy.yaml",
        ".glasshouse%2fpolicy.yaml",
        ".%67lasshouse/policy.yaml",
        "\u{ff0e}glasshouse/policy.yaml",
        ".gl\u{430}sshouse/policy.yaml",
        ".glasshouse\u{301}/policy.yaml",
        ".glasshouse-wal",
        "\u{2024}glasshouse/policy.yaml",
    ];
    let refused = [
        ".glasshouse/policy.yaml\0",
        "src/a\0/../../.glasshouse/policy.yaml",
        ".glasshouse\n/policy.yaml",
        "../.glasshouse/policy.yaml",
        "/.glasshouse/policy.yaml",
        &format!(".glasshouse/{}", "x/".repeat(300)),
        &format!(".glasshouse/{}", "x".repeat(4_096)),
        "",
    ];
    let more = ["git.commit", "shell.run", "test.run", "fs.rename", "mcp.files/put"];
    for syscall in name::MUTATING.into_iter().chain(more) {
        let sketch =
            |path: &str| serde_json::json!({ "syscall": syscall, "path": path }).to_string();
        for path in &denied {
            denied_by(&none, &sketch(path), "protect-glasshouse");
        }
        for path in other {
            allowed(&none, &sketch(path));
        }
        for path in refused {
            let call = CallSketch::from_json(&sketch(path)).and_then(CallSketch::into_call);
            assert_eq!(call.unwrap_err().code(), "call_malformed", "{path:?}");
        }
        // The control: what lies beside it under the same odd names is free.
        for path in &denied {
            let beside = path.to_lowercase().replace(".gla", "gla").replace("glassh~1", "glassh");
            allowed(&none, &sketch(&beside));
        }
    }
}

#[test]
fn the_home_is_out_of_reach_and_the_program_stays_as_it_is() {
    let protected = Protected {
        host_paths: vec!["/home/ada/.local/state/glasshouse".into(), "/srv/log.db".into()],
        program_paths: vec!["/usr/local/bin/glasshouse".into()],
        ..Protected::default()
    };
    let none = Protected::default();
    let check = |sketch: &str, rule: &str| {
        denied_by(&protected, sketch, rule);
        allowed(&none, sketch);
    };
    for path in [
        "/home/ada/.local/state/glasshouse",
        "/home/ada/.local/state/glasshouse/keys/seal",
        "//home/ada/./.local/state/glasshouse/log.db",
        "/HOME/ada/.local/state/Glasshouse/log.db",
        "/home/ada/.local/state",
        "/home",
        "/srv",
        "/srv/log.db",
        "/srv/log.db-wal",
        "/srv/log.db-shm",
        "/srv/log.db-journal",
    ] {
        for syscall in ["fs.read", "fs.write", "sandbox.mount"] {
            check(&format!("{{ syscall: {syscall}, host_path: {path} }}"), "protect-home");
        }
    }
    check("{ syscall: sandbox.mount, host_path: / }", "protect-home");
    check("{ syscall: fs.write, host_path: /usr/local/bin/glasshouse }", "protect-program");
    check("{ syscall: fs.delete, host_path: /usr/local/bin }", "protect-program");
    for sketch in [
        "{ syscall: sandbox.mount, host_path: /usr/local/bin }",
        "{ syscall: fs.read, host_path: /usr/local/bin/glasshouse }",
        "{ syscall: sandbox.mount, host_path: /home/ada/.cargo }",
        "{ syscall: fs.read, host_path: /home/ada/.local/state/glasshouse-other }",
        "{ syscall: fs.read, host_path: /srv/log.db-backup }",
    ] {
        allowed(&protected, sketch);
    }
    for path in ["relative", "/a/../home", "..", "''"] {
        let sketch = format!("{{ syscall: fs.read, host_path: {path} }}");
        denied_by(&protected, &sketch, "canonical-path");
    }
}

/// Seven thousand patterns of many stars were tried on a name of 4,000 bytes, which no file can have: one
/// decision took 40 s. Who writes a project's policy and who names a path are not the same, so neither may make
/// the other wait.
#[test]
fn names_that_no_file_has_are_denied_before_patterns_are_tried() {
    let none = Protected::default();
    let check = |path: &str, denied: bool| {
        for syscall in ["fs.read", "fs.write", "fs.unheard_of"] {
            let sketch = format!("{{ syscall: {syscall}, path: {path} }}");
            if denied {
                denied_by(&none, &sketch, "canonical-path");
            } else {
                allowed(&none, &sketch);
            }
        }
    };
    check(&"a".repeat(255), false);
    check(&format!("x/{}/y", "a".repeat(255)), false);
    check(&["a"; 200].join("/"), false);
    check(&"a".repeat(256), true);
    check(&format!("x/{}/y", "a".repeat(4_000)), true);
    // Counted in bytes, as the file system does.
    check(&"\u{e9}".repeat(127), false);
    check(&"\u{e9}".repeat(128), true);
}

#[test]
fn own_sources_are_reviewed_in_a_checkout_of_the_product() {
    let own = CanonicalPath::parse("crates/kernel").unwrap();
    let protected = Protected { own_sources: vec![own], ..Protected::default() };
    let policy = compile_with(ALLOW_ALL, &protected).unwrap();
    let sketch = "{ syscall: fs.write, path: crates/Kernel/src/lib.rs }";
    assert_eq!(effect(&policy, sketch), Effect::RequireReview);
    assert_eq!(effect(&policy, "{ syscall: fs.write, path: crates/kernels }"), Effect::Allow);
    allowed(&Protected::default(), sketch);
}

#[test]
fn agents_never_govern() {
    let none = Protected::default();
    for caller in ["agent", "plugin", "'plugin:fs-tool'"] {
        for syscall in
            ["policy.update", "approval.resolve", "grant.issue", "grant.revoke", "Policy.Update"]
        {
            let policy = compile(ALLOW_ALL).unwrap();
            let sketch = format!("{{ syscall: {syscall}, caller: {caller} }}");
            let decision = decision(&policy, &sketch);
            assert_eq!(decision.effect, Effect::Deny, "{sketch}");
            assert!(decision.rules.iter().any(|rule| rule.name == "agents-never-govern"));
        }
    }
    for syscall in ["approval.resolve", "grant.issue", "grant.revoke"] {
        allowed(&none, &format!("{{ syscall: {syscall}, caller: user }}"));
    }
    // Even a person's change of policy is seen before it holds.
    let policy = compile(ALLOW_ALL).unwrap();
    assert_eq!(effect(&policy, "{ syscall: policy.update, caller: user }"), Effect::RequireReview);
}

#[test]
fn built_ins_can_not_be_excepted_or_renamed() {
    let text = "
capabilities:
  - name: mine
    match: { syscall: fs.write }
    action: deny
    except: [{ path_glob: '**' }, { caller_tag: core_plugin }]
  - { name: all, match: {}, action: allow }
";
    let policy = compile(text).unwrap();
    assert_eq!(
        effect(&policy, "{ syscall: fs.write, path: .git/x, caller_tag: core_plugin }"),
        Effect::Deny
    );
    assert_eq!(
        effect(&policy, "{ syscall: fs.write, path: src/x, caller_tag: core_plugin }"),
        Effect::Allow
    );
}

#[test]
fn constraints_are_enforced() {
    let rule = |constraints: &str| {
        compile(&format!(
            "capabilities:\n  - {{ name: a, match: {{}}, action: allow{constraints} }}\n"
        ))
        .unwrap()
    };
    let sketch = "{ syscall: fs.write, path: a, size: 102401 }";
    let limited = rule(", constraints: { max_file_size: 100KiB }");
    let large = decision(&limited, sketch);
    assert_eq!(large.effect, Effect::Deny);
    assert_eq!(large.reasons, ["102401 bytes would be written, at most 102400 are allowed"]);
    assert_eq!(effect(&rule(""), sketch), Effect::Allow);
    let small = decision(&limited, "{ syscall: fs.write, path: a, size: 102400 }");
    assert_eq!(small.effect, Effect::Allow);
    assert_eq!(small.constraints.max_file_size_bytes, Some(102_400));

    let tokens = rule(", constraints: { require_capability_token: true }");
    assert_eq!(effect(&tokens, "{ syscall: fs.write, path: a }"), Effect::Deny);
    let not_needed = rule(", constraints: { require_capability_token: false }");
    assert_eq!(effect(&not_needed, "{ syscall: fs.write, path: a }"), Effect::Allow);
}

#[test]
fn the_tightest_demands_on_an_interface_hold() {
    let rules = [
        "- { name: a, match: { syscall: ui.render }, action: allow, constraints: { ui_profile: balanced,
         ui_limits: { max_node_count: 90, max_tree_depth: 4 }, ui_hosts: [a.example, b.example] } }",
        "- { name: b, match: { syscall: ui.render }, action: allow, constraints: { ui_profile: strict,
         ui_limits: { max_node_count: 50 } } }",
        "- { name: c, match: { caller: user }, action: allow, constraints: { ui_profile: relaxed,
         ui_limits: { max_node_count: 70 }, ui_hosts: [b.example, c.example] } }",
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let text: Vec<&str> = order.iter().map(|at| rules[*at]).collect();
        let policy = compile(&format!("capabilities:\n  {}\n", text.join("\n  "))).unwrap();
        let found = decision(&policy, "{ syscall: ui.render }").constraints;
        assert_eq!(found.ui_profile.as_deref(), Some("strict"));
        let limits: Vec<(&str, u64)> =
            found.ui_limits.iter().map(|(name, most)| (name.as_str(), *most)).collect();
        assert_eq!(limits, [("max_node_count", 50), ("max_tree_depth", 4)]);
        assert_eq!(found.ui_hosts.unwrap().into_iter().collect::<Vec<_>>(), ["b.example"]);
    }
}

#[test]
fn the_tightest_constraint_holds() {
    let policy = compile(
        "
capabilities:
  - name: wide
    match: { syscall: fs.write }
    action: allow
    constraints: { max_file_size: 1MiB, max_duration: 5m, require_sandbox: L2 }
  - name: narrow
    match: { path_glob: 'a/**' }
    action: require_review
    constraints: { max_file_size: 10KiB, max_duration: 10m, require_sandbox: integration-test }
  - name: other
    match: { path_glob: 'a/b/**' }
    action: allow
    constraints: { require_sandbox: code-executor }
",
    )
    .unwrap();
    let wide = decision(&policy, "{ syscall: fs.write, path: c }");
    assert_eq!(wide.constraints.require_sandbox.as_deref(), Some("L2"));
    let both = decision(&policy, "{ syscall: fs.write, path: a/c, size: 1 }");
    assert_eq!(both.effect, Effect::RequireReview);
    assert_eq!(both.constraints.require_sandbox.as_deref(), Some("integration-test"));
    assert_eq!(both.constraints.max_file_size_bytes, Some(10 << 10));
    assert_eq!(both.constraints.max_duration_ms, Some(300_000));
    let torn = decision(&policy, "{ syscall: fs.write, path: a/b/c }");
    assert_eq!(torn.effect, Effect::Deny);
    assert!(
        torn.reasons.iter().any(|r| r.contains("code-executor, integration-test")),
        "{:?}",
        torn.reasons
    );
    assert_eq!(torn.constraints, glasshouse_model::Constraints::default());
}

/// An extension that answers always the same.
struct Fixed(Result<Option<Opinion>, ExtensionError>);

impl Extension for Fixed {
    fn evaluate(
        &self,
        _: Option<&ExtensionText>,
        _: &Call,
    ) -> Result<Option<Opinion>, ExtensionError> {
        self.0.clone()
    }

    fn restart(&self, _: Option<&ExtensionText>) -> bool {
        true
    }
}

#[test]
fn an_extension_that_does_not_answer_denies() {
    let policy = compile(ALLOW_ALL).unwrap();
    let call = call("{ syscall: fs.read, path: a }");
    let effect = |answer| {
        let extension = Fixed(answer);
        let request = Request { extension: Some(&extension), ..Request::new(&call, 0) };
        let decision = decide(&policy, &request).decision;
        (decision.effect, decision.reasons)
    };
    assert_eq!(effect(Ok(None)).0, Effect::Allow);
    for (error, word) in [
        (ExtensionError::Crashed("killed".into()), "crashed: killed"),
        (ExtensionError::TimedOut { limit_ms: 100 }, "within 100 ms"),
        (ExtensionError::Failed("no JSON".into()), "failed: no JSON"),
    ] {
        let (effect, reasons) = effect(Err(error));
        assert_eq!(effect, Effect::Deny);
        assert!(reasons[0].contains(word), "{reasons:?}");
    }
    let opinion = Opinion { effect: Effect::RequireReview, reason: "odd hour".into() };
    assert_eq!(effect(Ok(Some(opinion))), (Effect::RequireReview, vec!["odd hour".to_owned()]));
}

#[test]
fn dotfiles_and_deep_paths_are_matched() {
    let policy = compile(
        "capabilities: [{ name: a, match: { path_glob: 'src/**' }, action: deny }, { name: b, match: {}, action: allow }]",
    )
    .unwrap();
    for path in ["src/.env", "src/.d/.e/f", "src/a/.hidden"] {
        assert_eq!(
            effect(&policy, &format!("{{ syscall: fs.write, path: {path} }}")),
            Effect::Deny
        );
    }
    assert_eq!(effect(&policy, "{ syscall: fs.write, path: lib/.env }"), Effect::Allow);
}

#[test]
fn conditions_on_what_a_call_lacks_do_not_hold() {
    for condition in [
        "path_glob: '**'",
        "state_machine_state: idle",
        "host: h",
        "port: 8443",
        "http_path: '/a/*'",
        "method: GET",
        "argv_prefix: ls",
        "label: '*'",
        "caller_tag: x",
    ] {
        let text =
            format!("capabilities: [{{ name: a, match: {{ {condition} }}, action: allow }}]");
        let policy = compile(&text).unwrap();
        assert_eq!(effect(&policy, "{ syscall: x }"), Effect::Deny, "{condition}");
        let full = "{ syscall: x, path: a, state: idle, host: h, method: get, argv: ls -l, \
                    label: web, caller_tag: x, port: 8443, http_path: /a/b }";
        assert_eq!(effect(&policy, full), Effect::Allow, "{condition}");
    }
}

#[test]
fn hidden_commands_meet_restrictive_rules_only() {
    let policy = compile(
        "
capabilities:
  - { name: tests, match: { syscall: shell.run, argv_prefix: [cargo test, sh] }, action: allow }
  - { name: net, match: { argv_prefix: curl }, action: deny, except: [{ argv_prefix: [[curl, --version]] }] }
",
    )
    .unwrap();
    let check = |argv: &str, expected: Effect| {
        let sketch = format!("{{ syscall: shell.run, argv: {argv} }}");
        assert_eq!(effect(&policy, &sketch), expected, "{argv}");
    };
    check("[cargo, test, -p, x]", Effect::Allow);
    check("[sh, -c, ls]", Effect::Allow);
    check("[sh, -c, 'ls; curl x']", Effect::Deny);
    check("[sh, -c, '/usr/bin/cu\"\"rl x']", Effect::Deny);
    check("[curl, x]", Effect::Deny);
    // What narrows a restriction has to match exactly, and still nothing allows it.
    check("[curl, --version]", Effect::Deny);
    check("[env, curl, --version]", Effect::Deny);
    check("[env, cargo, test]", Effect::Deny);
    let by = |argv: &str| {
        decision(&policy, &format!("{{ syscall: shell.run, argv: {argv} }}")).rules[0].name.clone()
    };
    assert_eq!(by("[curl, --version]"), "default-deny");
    assert_eq!(by("[env, curl, --version]"), "net");
}

/// The ways that others were evaded by: the rule is found in each, and a script that only prints or looks
/// for the words is left alone. Without the rule all of them run: the control.
#[test]
fn f1_f2_f3_a_denied_command_is_found_however_it_is_written() {
    let allow = "{ name: all, match: { syscall: shell.run }, action: allow }";
    let deny = "{ name: never, match: { argv_prefix: [rm -rf, curl] }, action: deny }";
    let (open, closed) = (
        compile(&format!("capabilities: [{allow}]")).unwrap(),
        compile(&format!("capabilities: [{allow}, {deny}]")).unwrap(),
    );
    let check = |argv: &[&str], expected: Effect| {
        let mut asked = call("{ syscall: shell.run }");
        asked.argv = Some(argv.iter().map(|word| (*word).to_owned()).collect());
        let effect = |policy| decide(policy, &Request::new(&asked, 0)).decision.effect;
        assert_eq!((effect(&open), effect(&closed)), (Effect::Allow, expected), "{argv:?}");
    };
    for script in [
        "ls & rm -rf x",
        "(rm -rf x)",
        "{ rm -rf x; }",
        "echo $(rm -rf x)",
        "echo `rm -rf x`",
        "env rm -rf x",
        "echo x | xargs rm -rf",
        "bash -c 'rm -rf x'",
        "true\nrm -rf x",
        "if true; then rm -rf x; fi",
        // Hidden in what a redirection reads or writes.
        "echo ok > >(curl a.test)",
        "cat < <(curl a.test)",
        // Escaped letters, and a program of the same name elsewhere.
        "r\\m -rf x",
        "cu''rl a.test",
        "$'c\\x75rl' a.test",
        "./rm -rf x",
        "ws/bin/curl a.test",
    ] {
        check(&["sh", "-c", script], Effect::Deny);
    }
    check(&["env", "rm", "-rf", "x"], Effect::Deny);
    check(&["xargs", "-0", "rm", "-rf"], Effect::Deny);
    for script in ["echo 'rm -rf x'", "grep -r 'curl a.test' .", "rg -e curl", "rm x"] {
        check(&["sh", "-c", script], Effect::Allow);
    }
}

/// A program under a path that the agent can write has the name of another, and not its trust.
#[test]
fn f3_a_name_in_a_writable_directory_is_not_trusted() {
    let policy = compile(
        "capabilities: [{ name: look, match: { syscall: shell.run, argv_prefix: [cat, git status] }, action: allow }]",
    )
    .unwrap();
    let check = |argv: &str, expected: Effect| {
        assert_eq!(effect(&policy, &format!("{{ syscall: shell.run, argv: {argv} }}")), expected);
    };
    check("[cat, a]", Effect::Allow);
    check("[git, status]", Effect::Allow);
    check("[./cat, a]", Effect::Deny);
    check("[ws/bin/git, status]", Effect::Deny);
    check("[/usr/bin/cat, a]", Effect::Deny);
    check("[sh, -c, './cat a']", Effect::Deny);
    check("[sh, -c, 'PATH=ws/bin cat a']", Effect::Deny);
}

#[test]
fn network_groups_open_their_hosts_and_no_other() {
    let policy = compile(
        "network_whitelist: { docs: ['docs.example.org', '*.cdn.example.org', 'b.example:8443'], crates: [] }",
    )
    .unwrap();
    let check = |host: &str, expected: Effect| {
        let sketch = format!("{{ syscall: net.connect, host: '{host}' }}");
        assert_eq!(effect(&policy, &sketch), expected, "{host}");
    };
    check("docs.example.org", Effect::Allow);
    check("DOCS.example.org.", Effect::Allow);
    check("a.b.cdn.example.org", Effect::Allow);
    for host in ["cdn.example.org", "xdocs.example.org", "docs.example.org.evil.test", "10.0.0.1"] {
        check(host, Effect::Deny);
    }
    assert_eq!(effect(&policy, "{ syscall: fs.read, host: docs.example.org }"), Effect::Deny);
    let port = |host: &str, port: u16, expected: Effect| {
        let sketch = format!("{{ syscall: net.connect, host: {host}, port: {port} }}");
        assert_eq!(effect(&policy, &sketch), expected, "{host}:{port}");
    };
    port("docs.example.org", 80, Effect::Allow);
    port("docs.example.org", 22, Effect::Deny);
    port("docs.example.org", 8443, Effect::Deny);
    port("b.example", 8443, Effect::Allow);
    port("b.example", 443, Effect::Deny);
    assert!(policy.group_holds("docs", "x.cdn.example.org"));
    assert!(!policy.group_holds("crates", "docs.example.org"));
    assert!(!policy.group_holds("other", "docs.example.org"));
    assert_eq!(policy.network_groups().collect::<Vec<_>>(), ["docs", "crates"]);
}

#[test]
fn rules_on_ports_and_paths_of_connections() {
    let policy = compile(
        "
capabilities:
  - name: api
    match: { syscall: net.connect, host: api.example, port: 443, method: GET, http_path: ['/v1/*', /ok] }
    action: allow
  - { name: admin, match: { syscall: net.connect, http_path: '/v1/admin*' }, action: deny }
",
    )
    .unwrap();
    let check = |rest: &str, expected: Effect| {
        let sketch = format!("{{ syscall: net.connect, host: api.example, {rest} }}");
        assert_eq!(effect(&policy, &sketch), expected, "{rest}");
    };
    check("method: GET, http_path: /v1/x", Effect::Allow);
    check("method: GET, http_path: /ok", Effect::Allow);
    check("method: GET, http_path: /v2/x", Effect::Deny);
    check("method: POST, http_path: /v1/x", Effect::Deny);
    check("method: GET, http_path: /v1/x, port: 80", Effect::Deny);
    check("method: GET, http_path: /v1/admin/x", Effect::Deny);
    check("method: GET, http_path: //v1/%61dmin", Effect::Deny);
    // In a tunnel nobody sees a path.
    check("method: CONNECT", Effect::Deny);
}

#[test]
fn e4_addresses_are_reached_only_where_they_are_listed() {
    let all = "capabilities: [{ name: all, match: {}, action: allow }]";
    let check = |text: &str, host: &str, expected: Effect| {
        let sketch = format!("{{ syscall: net.connect, host: '{host}' }}");
        assert_eq!(effect(&compile(text).unwrap(), &sketch), expected, "{text} {host}");
    };
    for host in ["a.test", "1.1.1.1", "2001:db8::1"] {
        check(all, host, Effect::Deny);
    }
    check("network_whitelist: { a: [a.test] }", "a.test", Effect::Allow);
    check("network_whitelist: { a: [1.1.1.1] }", "1.1.1.1", Effect::Allow);
    check("network_whitelist: { a: ['2001:db8::1'] }", "2001:db8::1", Effect::Allow);
    check("network_whitelist: { a: [1.1.1.1] }", "1.1.1.2", Effect::Deny);
}

/// A denial began with the reasons of the rules that it overruled, and whoever read its first words took them
/// for the cause. Reasons are those of the rules that made the decision what it is.
#[test]
fn reasons_are_of_what_decided() {
    let text = "
capabilities:
  - { name: a, match: { syscall: fs.write }, action: allow, reason: writing is fine }
  - { name: b, match: { caller: agent }, action: require_review, reason: agents are seen }
  - { name: c, match: { path_glob: 'docs/**' }, action: require_review, reason: documents are seen }
  - { name: d, match: { path_glob: 'keys/**' }, action: deny, reason: keys stay }
";
    let policy = compile(text).unwrap();
    let check = |rest: &str, effect: Effect, reasons: &[&str], heard: usize| {
        let decision = decision(&policy, &format!("{{ syscall: fs.write, {rest} }}"));
        assert_eq!((decision.effect, decision.rules.len()), (effect, heard), "{rest}");
        assert_eq!(decision.reasons, reasons, "{rest}");
    };
    check("path: a, caller: user", Effect::Allow, &["writing is fine"], 1);
    check("path: a, caller: agent", Effect::RequireReview, &["agents are seen"], 2);
    let both = ["agents are seen", "documents are seen"];
    check("path: docs/a, caller: agent", Effect::RequireReview, &both, 3);
    check("path: keys/a, caller: agent", Effect::Deny, &["keys stay"], 3);
}

/// A rule that allowed everything of one caller, or every port 443, opened every host there is, although the
/// same rule with `syscall: net.connect` does not load. Who allows connections says to where.
#[test]
fn who_allows_connections_names_hosts() {
    let check = |matching: &str, host: &str, expected: Effect| {
        let text = format!("capabilities: [{{ name: a, match: {matching}, action: allow }}]");
        let policy = compile(&text).unwrap();
        let sketch = format!("{{ syscall: net.connect, host: {host}, caller: agent, port: 443 }}");
        assert_eq!(effect(&policy, &sketch), expected, "{matching} {host}");
        // The control: what is no connection is allowed where the rule names no host.
        let other = effect(&policy, "{ syscall: fs.list, path: a, caller: agent, port: 443 }");
        let expected = if matching.contains("host") { Effect::Deny } else { Effect::Allow };
        assert_eq!(other, expected, "{matching}");
    };
    for matching in ["{}", "{ port: 443 }", "{ caller: agent }", "{ tenant: local }"] {
        check(matching, "evil.example", Effect::Deny);
    }
    check("{ port: 443, host: a.example }", "a.example", Effect::Allow);
    check("{ port: 443, host: a.example }", "evil.example", Effect::Deny);
    check("{ host: ['*.a.example'] }", "b.a.example", Effect::Allow);
}

#[test]
fn the_strongest_isolation_that_any_rule_demands_holds() {
    let rules = |levels: &[&str]| {
        let rule = |(at, level): (usize, &&str)| {
            format!(
                "{{ name: r{at}, match: {{ syscall: shell.run }}, action: allow, \
                 constraints: {{ min_isolation: {level} }} }}"
            )
        };
        let rules: Vec<_> = levels.iter().enumerate().map(rule).collect();
        compile(&format!("capabilities: [{}]", rules.join(", "))).unwrap()
    };
    let check = |levels: &[&str], expected: Option<&str>| {
        let found = decision(&rules(levels), "{ syscall: shell.run }").constraints.min_isolation;
        assert_eq!(found.as_deref(), expected, "{levels:?}");
    };
    check(&["no-cgroup"], Some("no-cgroup"));
    check(&["no-cgroup", "full", "no-landlock"], Some("full"));
    check(&["full", "no-cgroup"], Some("full"));
    let wrong = "capabilities: [{ name: a, match: {}, action: allow, constraints: { min_isolation: refused } }]";
    assert_eq!(compile(wrong).unwrap_err().code(), "policy_bad_value");
}
