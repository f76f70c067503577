//! What a finished test run proves, and telling whoever reads its output where that is nothing.

use glasshouse_model::CanonicalPath;
use glasshouse_model::body::{Coverage, TestSetup};
use glasshouse_sandbox::Stream;
use glasshouse_sandbox::toolchain::{TestKind, verdict};
use glasshouse_sandbox::view::{Intent, WORKSPACE_MOUNT};

use super::End;
use crate::coverage::{MAX_REPORT_BYTES, REPORTS, count_lines, read_report};
use crate::driver::workbench::Workbench;

/// How much of a source is looked at for its lines.
const MAX_SOURCE_BYTES: usize = 16 << 20;

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

/// Measures what the sources had of a test run, by the report that it left. A report that cannot be read is
/// told to whoever reads the output, and counts as none.
pub(super) fn measure(end: &mut End, bench: &mut Workbench) {
    let named = bench.test().coverage.clone();
    let looked_for = match &named {
        Some(name) => vec![name.as_str()],
        None => REPORTS.to_vec(),
    };
    for name in looked_for {
        match report(bench, name) {
            Ok(None) => {}
            Ok(Some(coverage)) => {
                let (covered, lines) = (coverage.covered_lines, coverage.lines);
                let text =
                    format!("\nglasshouse: {covered} of {lines} source lines covered ({name})\n");
                end.output.extend_from_slice(text.as_bytes());
                end.coverage = Some(coverage);
                return;
            }
            Err(why) => {
                let text = format!("\nglasshouse: no coverage: {name}: {why}\n");
                end.output.extend_from_slice(text.as_bytes());
                return;
            }
        }
    }
    if let Some(name) = named {
        let text = format!("\nglasshouse: no coverage: the run left no {name}\n");
        end.output.extend_from_slice(text.as_bytes());
    }
}

/// What a report says, if there is one that the run itself can have left.
fn report(bench: &mut Workbench, name: &str) -> Result<Option<Coverage>, String> {
    let path = CanonicalPath::parse(name).map_err(|error| error.to_string())?;
    let view = bench.shared_view().map_err(|error| error.to_string())?;
    let target = match view.resolve(name, Intent::Any) {
        Ok(target) if target.exists() => target,
        Ok(_) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if *target.canonical() != path {
        return Err(format!("it is a link to `{}`", target.canonical()));
    }
    let whole = bench.whole().map_err(|error| error.to_string())?;
    if whole.get(name).is_some() {
        return Err("it is a file of the repository, not of this run: let git ignore it".to_owned());
    }
    let read = target.read(MAX_REPORT_BYTES).map_err(|error| error.to_string())?;
    if read.is_cut() {
        return Err(format!("it has {} bytes; the limit is {MAX_REPORT_BYTES}", read.total_bytes));
    }
    let project = bench.project().map_err(|error| error.to_string())?.display().to_string();
    let is_source = |path: &CanonicalPath| {
        whole.get(path.as_str()).is_some() && !bench.classifier().is_test_path(path)
    };
    // A file that cannot be read has no line that counts.
    let lines_of = |path: &CanonicalPath| {
        let text =
            view.resolve(path.as_str(), Intent::Any).and_then(|at| at.read(MAX_SOURCE_BYTES));
        text.map_or(0, |text| count_lines(&text.bytes))
    };
    let roots = [WORKSPACE_MOUNT, &project];
    let lines = read_report(&read.bytes, &roots, &is_source, &lines_of)?;
    Ok(Some(Coverage { report: path.to_string(), lines: lines.all, covered_lines: lines.covered }))
}
