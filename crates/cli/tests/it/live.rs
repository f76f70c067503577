//! Commands in a sandbox that somebody is at.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Place, Ran};

const TERMINAL: &str = include_str!("terminal.py");

/// Runs a script in a sandbox on a terminal, and takes these steps meanwhile.
fn on_a_terminal(place: &Place, flags: &[&str], script: &str, steps: &Value) -> Value {
    let mut arguments = vec!["sandbox", "run", "--tty"];
    arguments.extend(flags);
    arguments.extend(["--", "sh", "-c", script]);
    let inner = place.command(&arguments);
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL, &steps.to_string()]).arg(inner.get_program());
    command.args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.env("TERM", "xterm-256color").output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {:?}", Ran::new(&output)))
}

#[test]
fn e2e_a_command_on_a_terminal_gives_it_back_however_it_ends() {
    let check = |flags: &[&str], script: &str, steps: Value, status: i64, words: &str| {
        let place = Place::new();
        let found = on_a_terminal(&place, flags, script, &steps);
        assert_eq!((&found["raw"], &found["restored"]), (&json!(true), &json!(true)), "{found}");
        assert_eq!(found["status"], status, "{script}: {found}");
        let out = found["out"].as_str().unwrap();
        assert!(out.contains(words), "{script}: {words:?} is not in {found}");
    };
    let ready = "echo ready; ";
    let wait = json!(["wait", "ready"]);
    let typed = "tty; stty size; echo $TERM; echo ready; read line; echo \"got $line\"; exit 5";
    check(
        &[],
        typed,
        json!([wait, ["type", "words\r"], ["wait", "got"]]),
        5,
        "33 101\r\nxterm-256color\r\nready\r\nwords\r\ngot words\r\n",
    );
    let resized = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.01; done";
    check(&[], resized, json!([wait, ["resize", 20, 60], ["wait", "20 60"]]), 0, "20 60");
    let sleep = &format!("{ready}exec sleep 300");
    check(&[], sleep, json!([wait, ["type", "\u{3}"]]), 130, "");
    check(&["--timeout", "2s"], sleep, json!([wait]), 124, "");
    // Killed from outside, politely or not: the program itself, or what makes its sandboxes.
    check(&[], sleep, json!([wait, ["signal", 15]]), 130, "");
    check(&[], sleep, json!([wait, ["signal", 1]]), 130, "");
    check(&[], sleep, json!([wait, ["kill-child", 9]]), 125, "");
}

#[test]
fn e2e_a_terminal_needs_one() {
    let place = Place::new();
    let refused = place.run(&["sandbox", "run", "--tty", "--", "true"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("no terminal"), "{refused:?}");
    place.run(&["sandbox", "run", "--tty", "--json", "--", "true"]).expect_status(2);
}

#[test]
fn e2e_input_output_environment_and_directory_of_a_command() {
    let place = Place::new();
    let mut command = place.command(&["sandbox", "run", "-i", "--", "sh", "-c"]);
    command.arg("while read line; do echo \"got $line\"; done");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for word in ["one", "two"] {
        // The answer comes before the next line is written.
        writeln!(input, "{word}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("got {word}\n"));
    }
    drop(input);
    assert!(child.wait().unwrap().success());

    let dir = place.path("dir");
    std::fs::create_dir_all(dir.join("below")).unwrap();
    let dir = dir.display().to_string();
    let flags = ["--workspace", &dir, "--cwd", "below", "-e", "A=b=c", "-e", "GIVEN"];
    let mut command = place.command(&["sandbox", "run", "--json"]);
    command.args(flags).args(["--", "sh", "-c", "sleep 300 & pwd; echo $A $GIVEN"]);
    let ran = Ran::new(&command.env("GIVEN", "here").output().unwrap()).expect_status(0);
    let last = ran.last();
    let stdout = place.log().blob(&last["stdout_blob"].as_str().unwrap().parse().unwrap()).unwrap();
    assert_eq!(String::from_utf8(stdout).unwrap(), "/workspace/below\nb=c here\n");
    // What is kept is masked, however the value came in; too short a one occurs by chance.
    let mut command = place.command(&["sandbox", "run", "--json", "-e", "KEY", "-e", "PIN=1234"]);
    command.args(["-e", "WORD=given here", "--", "sh", "-c", "echo $KEY $PIN $WORD"]);
    let masked = Ran::new(&command.env("KEY", "k3y-0f-s0me").output().unwrap()).expect_status(0);
    let kept = masked.last()["stdout_blob"].as_str().unwrap().parse().unwrap();
    let kept = String::from_utf8(place.log().blob(&kept).unwrap()).unwrap();
    assert_eq!(kept, "[secret:KEY] 1234 [secret:WORD]\n");
    assert_eq!(last["background_processes"], 1);
    assert!(last["usage"]["memory_peak_bytes"].as_u64() > Some(0), "{last}");
    let absent = ["sandbox", "run", "-e", "SURELY_NOT_SET", "--", "true"];
    assert!(place.run(&absent).expect_status(2).stderr.contains("SURELY_NOT_SET"));
}

/// Ctrl-Z stopped the program, and the command went on behind it.
#[test]
fn e2e_a_stopped_run_pauses_its_command() {
    let place = Place::new();
    let script = "import time\nfor n in range(10**6): print(n, flush=True); time.sleep(0.01)";
    let arguments = ["sandbox", "run", "--timeout", "60s", "--", "python3", "-c", script];
    let mut child = place.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut number = move || -> u32 {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    };
    let signal = |name: &str| {
        let kill = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    };
    assert_eq!(number(), 0);
    signal("TSTP");
    let stopped = Instant::now();
    let stat = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        assert!(stopped.elapsed() < Duration::from_secs(20), "it does not stop");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The command has a second to come to a safe point; without a pause it would count 300 further.
    std::thread::sleep(Duration::from_secs(4));
    signal("CONT");
    let went_on = Instant::now();
    let mut last = 0;
    while went_on.elapsed() < Duration::from_millis(200) {
        last = number();
    }
    assert!(last < 250, "it counted to {last}");
    signal("TERM");
    assert!(!child.wait().unwrap().success());
}
