//! What a finished test run proves, and telling whoever reads its output where that is nothing.

use glasshouse_model::body::TestSetup;
use glasshouse_sandbox::Stream;
use glasshouse_sandbox::toolchain::{TestKind, verdict};

use super::End;

/// What a command wrote, each stream by itself: between them a line can be cut in two.
#[derive(Default)]
pub(super) struct Heard {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Heard {
    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(bytes),
            Stream::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }

    fn text(&self) -> String {
        let [stdout, stderr] = [&self.stdout, &self.stderr].map(|s| String::from_utf8_lossy(s));
        format!("{stdout}\n{stderr}")
    }
}

/// Judges a test run that came to its own end. What is missing is added to the output, which the
/// model and the user read.
pub(super) fn judge(end: &mut End, test: &TestSetup, heard: &Heard) {
    let Some(exit_code) = end.exit_code else { return };
    // A kind of another version is judged by its command, as a configured one.
    let kind = serde_json::from_value(test.kind.as_str().into()).unwrap_or(TestKind::Configured);
    let found = verdict(kind, &test.argv, exit_code, &heard.text());
    if let Some(why) = &found.why {
        end.output.extend_from_slice(format!("\nglasshouse: no test result: {why}\n").as_bytes());
    }
    end.verdict = Some(found);
}
