//! How long a rule allows an act: what runs in the kernel is stopped as a command is.

use glasshouse_model::Kind;

use crate::harness::Place;

/// The failure: a rule allowed `search.grep` for a millisecond, and a search of seconds was completed. Now: it is stopped,
/// told with the limit, and nothing of what it found is told.
#[test]
fn e2e_a_look_that_takes_too_long_is_stopped() {
    let check = |syscall: &str, arguments: &str, demand: &str, expected: &str| {
        let place = Place::new();
        let project = place.shell_project();
        let line = "a line that is found a hundred times\n".repeat(2_000);
        for n in 0..60 {
            std::fs::write(project.join(format!("src/large{n}.txt")), &line).unwrap();
        }
        place.accept_policy(&project, &format!(
            "capabilities:\n  - {{ name: m, match: {{ syscall: model.call }}, action: allow }}\n  \
             - {{ name: r, match: {{ syscall: fs.read, path_glob: '**' }}, action: allow }}\n  \
             - {{ name: l, match: {{ syscall: {syscall} }}, action: allow{demand} }}\n"
        ));
        let yaml = format!(
            "version: 1\nsteps:\n  - emit: [ {{ call: {{ id: a, tool: {syscall}, args: {arguments} }} }} ]\n  \
             - emit: [ {{ text: done }} ]\n"
        );
        let ran = place.scenario(&project, &yaml).expect_status(0).last();
        let (_, events) = place.events();
        let end = events.iter().find(|event| event.kind().ends_call()).unwrap();
        assert_eq!(end.kind().as_str(), expected, "{syscall} {demand}: {}", end.body);
        if *end.kind() == Kind::ToolTimedOut {
            let text = end.body["text"].as_str().unwrap();
            assert!(text.contains("a rule allows it 1 ms"), "{text}");
            assert!(!text.contains("a line that"), "{text}");
        }
        let id = ran["session"].as_str().unwrap();
        place.run(&["session", "replay", id]).expect_status(0);
    };
    let (short, long) =
        (", constraints: { max_duration: 1ms }", ", constraints: { max_duration: 10m }");
    let grep = "{ pattern: '[a-z ]*hundred [a-z]*s' }";
    check("search.grep", grep, short, "tool.timed_out");
    check("git.diff", "{}", long, "tool.completed");
    // What waits for people is not allowed for a time.
    check("git.commit", "{ message: m }", long, "tool.denied");
    // The controls.
    check("search.grep", grep, long, "tool.completed");
    check("search.grep", grep, "", "tool.completed");
}
