//! What lint finds, and what it leaves alone.

use glasshouse_policy::{Level, Policy, Protected, Source, default_source, lint, workflow_source};

use glasshouse_model::Effect;

use crate::support::{compile, effect};

/// Warnings of a policy as `kind rule`.
fn warnings(rules: &str) -> Vec<String> {
    let text = format!("capabilities:\n{rules}");
    lint(&compile(&text).unwrap_or_else(|error| panic!("{error}\n{text}")))
        .into_iter()
        .filter(|finding| finding.level == Level::Warning)
        .map(|finding| format!("{} {}", finding.kind, finding.rule))
        .collect()
}

fn check(rules: &[&str], expected: &[&str]) {
    let rules: String = rules.iter().map(|rule| format!("  - {{ {rule} }}\n")).collect();
    assert_eq!(warnings(&rules), expected, "{rules}");
}

const SRC: &str = "name: src, match: { syscall: fs.write, path_glob: 'src/**' }, action: allow";

#[test]
fn rules_that_never_decide() {
    check(&[SRC], &[]);
    check(
        &[SRC, "name: d, match: { syscall: [fs.write, fs.edit], path_glob: '**' }, action: deny"],
        &["unreachable_rule src"],
    );
    // With an exception the denial leaves room.
    check(
        &[SRC, "name: d, match: { syscall: fs.write }, action: deny, except: [{ caller: user }]"],
        &[],
    );
    // A narrower denial, another state: the rule still decides.
    check(&[SRC, "name: d, match: { path_glob: 'src/a/**' }, action: deny"], &[]);
    check(
        &[SRC, "name: d, match: { path_glob: '**', state_machine_state: idle }, action: deny"],
        &[],
    );
    check(
        &[SRC, "name: r, match: { syscall: fs.write, path_glob: '**' }, action: require_review"],
        &["unreachable_rule src"],
    );
    // What review leaves is done under the allowing rule's constraint.
    check(
        &[
            &format!("{SRC}, constraints: {{ max_file_size: 1KiB }}"),
            "name: r, match: { syscall: fs.write, path_glob: '**' }, action: require_review",
        ],
        &[],
    );
    check(
        &[SRC, "name: wide, match: { syscall: fs.write, path_glob: '**' }, action: allow"],
        &["redundant_rule src"],
    );
    check(
        &[
            "name: a, match: { syscall: shell.run, argv_prefix: git status }, action: allow",
            "name: b, match: { syscall: shell.run, argv_prefix: git }, action: deny",
        ],
        &["unreachable_rule a"],
    );
    check(
        &[
            "name: a, match: { syscall: net.connect, host: a.b.test }, action: allow",
            "name: b, match: { syscall: net.connect, host: '*.b.test' }, action: deny",
        ],
        &["unreachable_rule a"],
    );
    check(
        &[
            "name: a, match: { syscall: fs.write, path_glob: 'a/**' }, action: allow, except: [{ syscall: [fs.write, fs.edit] }]",
        ],
        &["unreachable_rule a"],
    );
}

/// The failure: a rule for a host was called too much beside one that names none, and without it the host was denied.
#[test]
fn what_is_redundant_can_be_removed() {
    let removable = |wide: &str, rule: &str, expected: bool, sketch: &str| {
        let wide = format!("name: wide, match: {wide}, action: allow");
        let rule = format!("name: host, match: {rule}, action: allow");
        let warned: &[&str] = if expected { &["redundant_rule host"] } else { &[] };
        check(&[&wide, &rule], warned);
        // It is tried: the call is allowed without the rule just where it is said to be.
        let effect = |rules: &[&str]| {
            let rules: String = rules.iter().map(|rule| format!("  - {{ {rule} }}\n")).collect();
            effect(&compile(&format!("capabilities:\n{rules}")).unwrap(), sketch)
        };
        let after = if expected { Effect::Allow } else { Effect::Deny };
        assert_eq!((effect(&[&wide, &rule]), effect(&[&wide])), (Effect::Allow, after), "{wide}");
    };
    let connect =
        "{ syscall: net.connect, caller: agent, host: docs.example.org, method: GET, port: 443 }";
    let to = |more: &str| format!("{{ host: docs.example.org, caller: agent{more} }}");
    for wide in
        ["{ caller: agent }", "{ caller: [agent, user] }", "{ caller: agent, tenant: local }"]
    {
        removable(wide, &to(", tenant: local"), false, connect);
        removable(wide, &to(", tenant: local, syscall: net.connect"), false, connect);
        removable(wide, &to(", tenant: local, syscall: [net.connect, x.y]"), false, connect);
        // What opens no connection is too much.
        removable(
            wide,
            "{ syscall: x.y, caller: agent, tenant: local }",
            true,
            "{ syscall: x.y, caller: agent }",
        );
        let other = "{ syscall: x.y, caller: agent, host: docs.example.org }";
        removable(wide, &to(", tenant: local, syscall: x.y"), true, other);
    }
    // The control: one that names the host, too.
    removable("{ host: '*.example.org' }", &to(""), true, connect);
    removable("{ host: docs.example.org, caller: agent }", &to(", method: GET"), true, connect);
}

#[test]
fn exceptions_that_lift_nothing() {
    let rule = |excepts: &str| {
        format!(
            "name: r, match: {{ syscall: fs.write, path_glob: 'a/**' }}, action: deny, except: [{excepts}]"
        )
    };
    check(&[&rule("{ caller: user }")], &[]);
    check(&[&rule("{ syscall: fs.edit }")], &["shadowed_except r"]);
    check(&[&rule("{ caller: user }, { caller: [user, agent] }")], &["shadowed_except r"]);
    check(&[&rule("{ caller: user }, { caller: 'user:ada' }")], &["shadowed_except r"]);
    check(&[&rule("{ caller: user }, { caller: user, label: repo }")], &["shadowed_except r"]);
    check(&[&rule("{ caller: user }, { label: repo }")], &[]);
    let other = "name: o, match: { syscall: fs.write, path_glob: 'a/**' }, action: deny";
    check(&[&rule("{ caller: user }"), other], &["shadowed_except r"]);
}

#[test]
fn a_denial_with_a_way_around() {
    let allow = "name: a, match: { syscall: [fs.write, fs.edit, fs.delete, merge.apply], path_glob: '**' }, action: allow";
    let deny = |syscalls: &str| {
        format!("name: d, match: {{ syscall: {syscalls}, path_glob: 'keys/**' }}, action: deny")
    };
    check(&[allow, &deny("fs.write")], &["allow_wider_than_deny d"]);
    check(&[allow, &deny("[fs.write, fs.edit, fs.delete, merge.apply]")], &[]);
    // Several rules close all the ways together.
    let more = "name: e, match: { syscall: [fs.edit, fs.delete, merge.apply], path_glob: 'keys/**' }, action: deny";
    check(&[allow, &deny("fs.write"), more], &[]);
    // Nothing opens the other ways.
    let narrow = "name: a, match: { syscall: fs.write, path_glob: '**' }, action: allow";
    check(&[narrow, &deny("fs.write")], &[]);
}

#[test]
fn words_that_nothing_carries() {
    check(&["name: a, match: { syscall: x.y, caller_tag: core_plugin }, action: allow"], &[]);
    check(
        &["name: a, match: { syscall: x.y, caller_tag: trusted }, action: allow"],
        &["unused_tag a"],
    );
    for label in ["web", "mcp:github", "'mcp:*'", "'m*'", "repo"] {
        check(&[&format!("name: a, match: {{ syscall: x.y, label: {label} }}, action: deny")], &[]);
    }
    check(&["name: a, match: { syscall: x.y, label: wbe }, action: deny"], &["unused_label a"]);
}

#[test]
fn conditions_on_what_a_call_does_not_have() {
    let rule = |matching: &str| format!("name: a, match: {{ {matching} }}, action: deny");
    let never = |matching: &str| check(&[&rule(matching)], &["never_matches a"]);
    let may = |matching: &str| check(&[&rule(matching)], &[]);
    never("syscall: shell.run, path_glob: 'src/**'");
    never("syscall: [shell.run, net.connect], path_glob: 'src/**'");
    never("syscall: fs.write, host: a.test");
    never("syscall: [fs.write, shell.run], port: 80");
    never("syscall: merge.apply, argv_prefix: rm");
    may("syscall: [shell.run, fs.write], path_glob: 'src/**'");
    may("syscall: [net.connect, fs.write], host: a.test");
    may("syscall: mcp.files, path_glob: 'src/**', host: a.test, argv_prefix: rm");
    may("path_glob: 'src/**'");
}

#[test]
fn advice_is_no_warning() {
    let policy = compile("capabilities:\n  - { name: a, match: { syscall: x.y }, action: deny }\n");
    let kinds: Vec<&str> = lint(&policy.unwrap()).iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, ["no_examples", "no_reason"]);
}

#[test]
fn the_shipped_rules_are_clean() {
    let globs = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let workflow = workflow_source(&globs(&["tests/**"]), &globs(&["src/**"]));
    let sources =
        [Source::new("workflow.yaml", &workflow), Source::new("default.yaml", default_source())];
    let policy = Policy::compile(&sources, &Protected::default()).unwrap();
    let found: Vec<_> =
        lint(&policy).into_iter().filter(|finding| finding.source == "default.yaml").collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// A denial that names one word of an option let the others pass, and nothing said so: `curl -X POST` beside
/// a denied `curl --request POST`. What is known is told, and told no more once the rule finds it.
#[test]
fn regression_a_denial_of_one_spelling_of_an_option_is_told() {
    let deny = |commands: &str| {
        format!("name: d, match: {{ syscall: shell.run, argv_prefix: {commands} }}, action: deny")
    };
    let found = |commands: &str| check(&[&deny(commands)], &["other_spelling d"]);
    let clean = |commands: &str| check(&[&deny(commands)], &[]);
    found("[[curl, --request, POST]]");
    found("[[curl, -X, POST]]");
    found("[[/usr/bin/curl, -XPOST], [curl, --request, POST]]");
    found("git push --force");
    found("git commit --no-verify");
    found("docker run -v");
    found("npm install -g");
    clean("curl");
    clean("git push");
    clean("[git push, git push --force]");
    clean("[[curl], [curl, -X, POST]]");
    clean("rm -rf");
    clean("rm --recursive");
    clean("npm install --force");
    clean("git commit --amend");
    clean("[git commit --no-verify, git commit -n]");
    clean("[npm install -g, npm install --global, npm install --location=global]");
    // Another rule that is as strict finds the rest; an allowance takes words exactly.
    check(
        &[&deny("git commit -n"), "name: e, match: { argv_prefix: git commit }, action: deny"],
        &[],
    );
    check(&["name: a, match: { argv_prefix: curl -X GET }, action: allow"], &[]);
    let text = format!("capabilities:\n  - {{ {} }}\n", deny("[[curl, --request, POST]]"));
    let said = lint(&compile(&text).unwrap()).remove(0).message;
    assert_eq!(
        said,
        "`curl --request POST` can be said as `curl --request=POST`, `curl -X POST`, which it does not find"
    );
}

/// The failure: a denial of force pushes was warned of once for each of its words, all for `+BRANCH`, which no rule can list;
/// nothing that denies only force pushes was clean.
/// Now: one fault is told once for a rule, and what no list has is advice.
#[test]
fn one_fault_of_a_rule_is_told_once() {
    let found = |commands: &str| {
        let text = format!(
            "capabilities: [{{ name: d, match: {{ syscall: shell.run, argv_prefix: {commands} }}, action: deny }}]"
        );
        let findings = lint(&compile(&text).unwrap()).into_iter();
        let found: Vec<_> = findings.filter(|one| one.kind == "other_spelling").collect();
        assert!(found.len() <= 1, "{commands}: {found:?}");
        found.into_iter().next().map(|one| (one.level, one.message))
    };
    let forced = "git push --force, git push -f, git push --force-with-lease";
    let (level, message) = found(&format!("[{forced}]")).unwrap();
    assert_eq!(level, Level::Warning, "`--mirror` can be listed: {message}");
    assert!(message.contains("`git push --mirror`, `git push +BRANCH`"), "{message}");
    let deletes = "git push --delete, git push -d, git push --prune";
    let (level, message) = found(&format!("[{forced}, {deletes}, git push --mirror]")).unwrap();
    assert_eq!(level, Level::Advice, "{message}");
    assert!(message.contains("+BRANCH") && message.contains(":BRANCH"), "{message}");
    assert_eq!(found("git push"), None, "the control");
    let (level, message) = found("[[curl, -X, POST], [npm, install, -g]]").unwrap();
    assert_eq!(level, Level::Warning);
    assert!(message.starts_with("`curl -X POST`, `npm install -g` can be said as"), "{message}");
}

/// The failure: each rule was compared with each other one, and 10,000 were not done in two minutes.
#[test]
fn many_rules_are_looked_over_in_a_moment() {
    let check = |count: usize, rule: &dyn Fn(usize) -> String, last: &str, expected: &[&str]| {
        let rules: String = (0..count)
            .map(|n| format!("  - {{ name: r{n}, match: {{ {} }}, action: deny }}\n", rule(n)))
            .collect();
        let text = format!("capabilities:\n{rules}  - {{ {last} }}\n");
        let found = lint(&compile(&text).unwrap()).into_iter();
        let found = found.filter(|finding| !finding.kind.starts_with("no_"));
        let found: Vec<_> =
            found.map(|finding| format!("{} {}", finding.kind, finding.rule)).collect();
        assert_eq!(found, expected);
    };
    let write = "name: last, match: { syscall: fs.write, path_glob: a77/x/y }, action: allow";
    let path = |n: usize| format!("path_glob: 'a{n}/**'");
    check(3_000, &path, write, &["unreachable_rule last"]);
    let run = "name: last, match: { syscall: shell.run, argv: p77 x y }, action: allow";
    check(
        3_000,
        &|n| format!("syscall: shell.run, argv_prefix: p{n} x"),
        run,
        &["unreachable_rule last"],
    );
    let other = "name: last, match: { syscall: shell.run, argv: p77 y }, action: allow";
    check(3_000, &|n| format!("syscall: shell.run, argv_prefix: p{n} x"), other, &[]);
    // What names nothing in particular is compared up to a bound, and the rest is told.
    let found = |n: usize| format!("path_glob: '**/*{n}*'");
    let told = check_many(&found);
    assert!(told.contains(&"not_compared".to_owned()), "{told:?}");
    let told = check_many(&|n| format!("path_glob: 'a{n}/*'"));
    assert!(!told.contains(&"not_compared".to_owned()), "{told:?}");
}

/// Kinds of what is found in 2,000 rules that allow.
fn check_many(rule: &dyn Fn(usize) -> String) -> Vec<String> {
    let rules = (0..2_000).map(|n| {
        format!(
            "  - {{ name: r{n}, match: {{ syscall: fs.write, {} }}, action: allow }}\n",
            rule(n)
        )
    });
    let text = format!("capabilities:\n{}", rules.collect::<String>());
    let found = lint(&compile(&text).unwrap()).into_iter();
    let mut kinds: Vec<_> = found.map(|finding| finding.kind.to_owned()).collect();
    kinds.dedup();
    kinds
}

/// A denial of `.env` for every syscall did not keep `cat .env` from printing it, and nothing said so.
#[test]
fn a_denial_of_reading_beside_commands_is_told() {
    let check = |rules: &[&str], expected: bool| {
        let rules: String = rules.iter().map(|rule| format!("  - {{ {rule} }}\n")).collect();
        let found = lint(&compile(&format!("capabilities:\n{rules}")).unwrap());
        let told: Vec<_> = found.iter().filter(|finding| finding.kind == "commands_read").collect();
        assert_eq!(!told.is_empty(), expected, "{rules}");
        assert!(told.iter().all(|finding| finding.level == Level::Advice && finding.rule == "env"));
    };
    let env = "name: env, match: { path_glob: .env }, action: deny";
    let read = "name: env, match: { syscall: [fs.read, fs.list], path_glob: .env }, action: deny";
    let write = "name: env, match: { syscall: fs.write, path_glob: .env }, action: deny";
    let run = "name: run, match: { syscall: shell.run }, action: allow";
    let ask = "name: run, match: { syscall: test.run }, action: require_review";
    let never = "name: run, match: { syscall: shell.run }, action: deny";
    check(&[env, run], true);
    check(&[read, run], true);
    check(&[env, ask], true);
    check(&[env, "name: all, match: {}, action: allow"], true);
    check(&[env], false);
    check(&[write, run], false);
    check(&[env, never], false);
    check(&[env, "name: r, match: { syscall: fs.read, path_glob: '**' }, action: allow"], false);
}

/// A misspelt method and an address in a spelling that no connection has make a rule that never matches.
#[test]
fn words_that_no_connection_has_are_told() {
    let rule =
        |when: &str| format!("name: r, match: {{ syscall: net.connect, {when} }}, action: deny");
    for when in [
        "method: GTE",
        "method: [GET, PSOT]",
        "host: 0177.0.0.1",
        "host: '2130706433'",
        "host: '0x7f.1'",
    ] {
        check(&[&rule(when)], &["never_matches r"]);
    }
    for when in [
        "method: [get, PURGE, CONNECT]",
        "host: 127.0.0.1",
        "host: '::1'",
        "host: 1.example.org",
        "host: 4.test",
    ] {
        check(&[&rule(when)], &[]);
    }
}

/// Everything found that is not about manners, as `kind: message; fix`.
pub(crate) fn told(rules: &[&str]) -> Vec<(Level, &'static str, String)> {
    let rules: String = rules.iter().map(|rule| format!("  - {{ {rule} }}\n")).collect();
    let text = format!("capabilities:\n{rules}");
    let found = lint(&compile(&text).unwrap_or_else(|error| panic!("{error}\n{text}")));
    let found = found.into_iter().filter(|one| !["no_examples", "no_reason"].contains(&one.kind));
    found.map(|one| (one.level, one.kind, format!("{}; {}", one.message, one.fix))).collect()
}

/// Expects one finding of a kind with these words, and the control clean.
pub(crate) fn slip(rules: &[&str], kind: &str, words: &[&str], control: &[&str]) {
    let found = told(rules);
    let [(_, own, text)] = found.as_slice() else { panic!("{rules:?}: {found:?}") };
    assert_eq!(*own, kind, "{rules:?}: {text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
    assert_eq!(told(control), [], "{control:?}");
}

pub(crate) fn runs(commands: &str) -> String {
    format!("name: a, match: {{ syscall: shell.run, {commands} }}, action: allow")
}

/// The failure: `[git, push]` allowed every git command and a program `push`, and nothing said so.
#[test]
fn a_command_cut_into_words_is_told() {
    let check = |commands: &str, meant: &str, control: &str| {
        slip(&[&runs(commands)], "split_command", &[meant], &[&runs(control)]);
    };
    let push = "did you mean `argv_prefix: git push`?";
    check("argv_prefix: [git, push]", push, "argv_prefix: [git push]");
    check("argv_prefix: [push, git]", push, "argv_prefix: [[git, push]]");
    check("argv_prefix: [cargo, test]", "`argv_prefix: cargo test`", "argv_prefix: [cargo, npm]");
    let two = "`argv_prefix: [cargo build, cargo test]`";
    check("argv_prefix: [cargo, build, test]", two, "argv_prefix: [git, diff]");
    check("argv: [npm, install]", "`argv: npm install`", "argv: [[npm, install]]");
    let denies =
        "name: a, match: { syscall: shell.run, argv_prefix: [docker, push] }, action: deny";
    let whole = "name: a, match: { syscall: shell.run, argv_prefix: docker push }, action: deny";
    slip(&[denies], "split_command", &["docker push"], &[whole]);
    let list = "write several as a list: argv_prefix: [cargo, npm]";
    let comma = runs("argv_prefix: 'cargo,npm'");
    slip(&[&comma], "never_matches", &[list], &[&runs("argv_prefix: [cargo, npm]")]);
    let behind = runs("argv_prefix: [[sort, '-k1,2']]");
    assert_eq!(told(&[&behind]), [], "a comma behind the program is a word like any");
}

/// The failure: a denial of `infra` left all that is below it open.
#[test]
fn a_name_without_what_is_below_it_is_advised() {
    let rule = |globs: &str| format!("name: a, match: {{ path_glob: {globs} }}, action: deny");
    for (globs, control) in [
        ("infra", "infra/**"),
        ("'**/infra'", "/infra"),
        ("[infra, 'src/**']", "[infra, 'infra/**', 'src/**']"),
        ("node_modules", "[node_modules, node_modules/]"),
        ("infra", "[makefile, Dockerfile, LICENSE, '*.md', .env]"),
    ] {
        let words = ["nothing that is below it", "where it is a directory, write `"];
        slip(&[&rule(globs)], "plain_name", &words, &[&rule(control)]);
        assert_eq!(told(&[&rule(globs)])[0].0, Level::Advice, "{globs}");
    }
}

/// Conditions of which no call has both, and exceptions that are about other paths and hosts than their rule.
#[test]
fn conditions_at_odds_are_told() {
    let deny = |rest: &str| format!("name: a, match: {{ {rest} }}, action: deny");
    let check = |rest: &str, kind: &str, word: &str, control: &str| {
        slip(&[&deny(rest)], kind, &[word], &[&deny(control)]);
    };
    let never = "never_matches";
    check("method: CONNECT, http_path: /a", never, "a tunnel", "method: CONNECT");
    check(
        "method: [connect], http_path: /a",
        never,
        "a tunnel",
        "method: [CONNECT, GET], http_path: /a",
    );
    check("plugin: a, caller: agent", never, "only a plugin", "plugin: a, caller: plugin");
    check(
        "plugin: a, caller: [agent, user]",
        never,
        "only a plugin",
        "plugin: a, caller: [agent, plugin]",
    );
    let except = |when: &str, item: &str| {
        format!("name: a, match: {{ {when} }}, action: deny, except: [{{ {item} }}]")
    };
    for (when, item, control) in [
        ("path_glob: 'db/**'", "path_glob: 'src/**'", "path_glob: 'db/seeds/**'"),
        ("path_glob: 'db/**'", "path_glob: ['src/**', /a]", "path_glob: ['src/**', '*.md']"),
        ("path_glob: 'db/*.sql'", "path_glob: db/a.md", "path_glob: db/a.sql"),
        ("host: a.test", "host: b.test", "host: a.test, port: 80"),
        ("host: '*.a.test'", "host: [a.test, b.test]", "host: [a.test, b.a.test]"),
    ] {
        let words = ["except item 1 never holds where `match` does"];
        slip(&[&except(when, item)], "shadowed_except", &words, &[&except(when, control)]);
    }
}

/// The failure: `check` said allowed, and every session denied the call.
#[test]
fn constraints_that_no_call_of_a_rule_meets_are_told() {
    let rule = |syscalls: &str, constraint: &str| {
        format!(
            "name: a, match: {{ syscall: {syscalls} }}, action: allow, constraints: {{ {constraint} }}"
        )
    };
    let check = |syscalls: &str, constraint: &str, words: &[&str], control: &str| {
        let (rule, control) = (rule(syscalls, constraint), rule(control, constraint));
        slip(&[&rule], "unmet_constraint", words, &[&control]);
    };
    let (rate, full) = ("rate: 20/h", "min_isolation: full");
    check("model.call", rate, &["nothing counts model.call"], "shell.run");
    check("[merge.apply, fs.write]", rate, &["nothing counts merge.apply,"], "fs.write");
    check("[session.fork, ui.import]", rate, &["counts session.fork, ui.import"], "fs.read");
    check("fs.delete", rate, &["nothing counts fs.delete"], "fs.write");
    check("ui.render", full, &["no sandbox isolates ui.render"], "net.connect, host: a.test");
    let (time, sandbox) = ("max_duration: 5m", "require_sandbox: code-executor");
    check("model.call", time, &["nothing ends in time model.call"], "test.run");
    check("merge.apply", time, &["nothing ends in time merge.apply"], "[fs.read, fs.delete]");
    check("git.commit", time, &["nothing ends in time git.commit"], "[git.diff, search.grep]");
    let connection = "net.connect, host: a.test";
    check(connection, time, &["nothing ends in time a command's net.connect"], "fs.list");
    check("fs.read", full, &["no sandbox isolates fs.read"], "shell.run");
    check("[merge.apply, shell.run]", full, &["no sandbox isolates merge.apply"], "fs.write");
    check("[shell.run, git.diff]", full, &["no sandbox isolates git.diff"], "[fs.write, test.run]");
    check("[fs.read, model.call]", sandbox, &["no sandbox runs fs.read, model.call"], "fs.edit");
    assert_eq!(told(&[&rule("model.call", "max_file_size: 5KiB")]), [], "the control");
}

/// The failure: a denial by path or method said nothing of tunnels, in which there is neither to see.
#[test]
fn a_denial_that_tunnels_pass_is_told() {
    let net = |name: &str, rest: &str, action: &str| {
        format!("name: {name}, match: {{ syscall: net.connect, {rest} }}, action: {action}")
    };
    let open = net("open", "host: a.test", "allow");
    let path = net("d", "host: a.test, http_path: /admin/*", "deny");
    let post = net("d", "host: a.test, method: [POST, PUT]", "deny");
    let words = ["a tunnel (CONNECT)", "`open` (policy.yaml:2)"];
    slip(&[&open, &path], "tunnel_unseen", &words, &[&open]);
    slip(&[&open, &post], "tunnel_unseen", &words, &[&path]);
    let everywhere = net("d", "method: POST", "deny");
    slip(&[&open, &everywhere], "tunnel_unseen", &words, &[&everywhere]);
    let below = net("open", "host: '*.a.test'", "allow");
    let inside = net("d", "host: x.a.test, http_path: /admin/*", "deny");
    let plain = net("open", "host: a.test, port: 80", "allow");
    slip(&[&below, &inside], "tunnel_unseen", &words, &[&plain, &path]);
    // Who opens no tunnel, or shuts it, needs no word.
    let reads = net("open", "host: a.test, method: [GET, POST]", "allow");
    let shut = net("shut", "host: a.test, method: CONNECT", "deny");
    let tunnels = net("d", "host: a.test, method: [POST, CONNECT]", "deny");
    let elsewhere = net("open", "host: b.test", "allow");
    for clean in
        [&[&*reads, &post][..], &[&open, &path, &shut], &[&open, &tunnels], &[&elsewhere, &path]]
    {
        assert_eq!(told(clean), [], "{clean:?}");
    }
    let group = "network_whitelist: { docs: [a.test] }\ncapabilities:\n  - { name: d, match: { host: a.test, http_path: /x }, action: deny }\n";
    let found = lint(&compile(group).unwrap());
    assert!(found.iter().any(|one| one.kind == "tunnel_unseen"), "{found:?}");
}

/// The failure: a file that lets nobody ask a model ends every session, and lint said nothing. What is tried alone
/// may be a part of a file.
#[test]
fn a_whole_file_that_lets_nobody_ask_a_model_is_advised() {
    let found = |text: &str, is_alone: bool| {
        let workflow = workflow_source(&["tests/**".to_owned()], &["src/**".to_owned()]);
        let workflow = Source::new("workflow.yaml", &workflow).given();
        let own = Source::new("policy.yaml", text);
        let sources = if is_alone { vec![own] } else { vec![workflow, own] };
        let policy = Policy::compile(&sources, &Protected::default()).unwrap();
        let found = lint(&policy).into_iter().filter(|one| one.kind == "no_model");
        found.map(|one| (one.level, one.source, one.line)).collect::<Vec<_>>()
    };
    let rule = |syscall: &str, action: &str| {
        format!("capabilities: [{{ name: a, match: {{ {syscall} }}, action: {action} }}]\n")
    };
    let advised = vec![(Level::Advice, "policy.yaml".to_owned(), 1)];
    assert_eq!(found(&rule("syscall: fs.read", "allow"), false), advised);
    assert_eq!(found(&rule("syscall: model.call", "deny"), false), advised);
    assert_eq!(found("", false), advised);
    for clean in [
        rule("syscall: model.call", "allow"),
        rule("syscall: [fs.read, model.call]", "require_review"),
        rule("caller: agent", "allow"),
        default_source().to_owned(),
    ] {
        assert_eq!(found(&clean, false), [], "{clean}");
    }
    assert_eq!(found(&rule("syscall: fs.read", "allow"), true), [], "it may be a part");
}
