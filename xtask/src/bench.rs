//! Benchmarks: every promise with its bound, in one table.
//!
//! A benchmark prints one line for each promise and ends it with `ratio=R bound=B ok` or
//! `ratio=R bound=B MISSED`; the words before that say what was measured.

use std::path::Path;

use crate::needs::{self, Use};
use crate::place::Place;
use crate::process::{Doing, Failure, Stream, success, tee};

/// Tells a benchmark to take few samples: enough to see that it runs, not to judge by.
const SHORT_VARIABLE: &str = "GLASSHOUSE_BENCH_SHORT";

/// `cargo xtask bench`.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    let (mut short, mut gate, mut only) = (false, false, Vec::new());
    let known = crates_with_benches(place.root())?;
    for argument in arguments {
        match argument.as_str() {
            "--short" => short = true,
            "--gate" => gate = true,
            name if known.iter().any(|krate| krate == name) => only.push(name.to_owned()),
            name => {
                let known = known.join(", ");
                return Err(Failure::new(format!("no benchmarks in `{name}`; there are: {known}")));
            }
        }
    }
    if only.is_empty() {
        only = known;
    }
    needs::ensure(place, Use::Bench)?;

    let mut rows = Vec::new();
    for krate in &only {
        let mut bench = place.cargo();
        bench.args(["bench", "--package", &format!("glasshouse-{krate}"), "--bench", "*"]);
        if short {
            bench.env(SHORT_VARIABLE, "1");
        }
        let (status, text) = tee(&mut bench, Stream::Stdout)?;
        success(&format!("cargo bench of {krate}"), status)?;
        rows.extend(text.lines().filter_map(|line| row(krate, line)));
    }
    print!("{}", table(&rows));
    let missed = rows.iter().filter(|row| row.missed).count();
    if gate && missed > 0 {
        return Err(Failure::new(format!("{missed} of {} promises missed", rows.len())));
    }
    Ok(())
}

/// The short names of the crates that have a `benches` folder, sorted.
fn crates_with_benches(root: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).doing("could not list crates")? {
        let path = entry.doing("could not list crates")?.path();
        if path.join("benches").is_dir() {
            names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// One promise as measured.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    krate: String,
    what: String,
    ratio: String,
    bound: String,
    missed: bool,
}

fn row(krate: &str, line: &str) -> Option<Row> {
    let (rest, verdict) = line.trim_end().rsplit_once(char::is_whitespace)?;
    let missed = match verdict {
        "ok" => false,
        "MISSED" => true,
        _ => return None,
    };
    let (rest, bound) = rest.trim_end().rsplit_once(char::is_whitespace)?;
    let (what, ratio) = rest.trim_end().rsplit_once(char::is_whitespace)?;
    Some(Row {
        krate: krate.to_owned(),
        what: what.trim().to_owned(),
        ratio: ratio.strip_prefix("ratio=")?.to_owned(),
        bound: bound.strip_prefix("bound=")?.to_owned(),
        missed,
    })
}

fn table(rows: &[Row]) -> String {
    let width = |cell: fn(&Row) -> &str, head: &str| {
        rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or(0).max(head.len())
    };
    let (krate, what) = (width(|row| &row.krate, "crate"), width(|row| &row.what, "measured"));
    let (ratio, bound) = (width(|row| &row.ratio, "ratio"), width(|row| &row.bound, "bound"));
    let line = |a: &str, b: &str, c: &str, d: &str, e: &str| {
        format!("{a:krate$}  {b:what$}  {c:>ratio$}  {d:>bound$}  {e}\n")
    };
    let mut text = line("crate", "measured", "ratio", "bound", "verdict");
    for row in rows {
        let verdict = if row.missed { "MISSED" } else { "ok" };
        text.push_str(&line(&row.krate, &row.what, &row.ratio, &row.bound, verdict));
    }
    let missed = rows.iter().filter(|row| row.missed).count();
    text.push_str(&format!("{} promises measured, {missed} missed\n", rows.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_end_in_a_verdict_are_rows() {
        let full = row("log", "append alone p50=9us p99=30us  ratio=0.61 bound=1.0 ok").expect("r");
        assert_eq!((full.what.as_str(), full.missed), ("append alone p50=9us p99=30us", false));
        assert_eq!((full.ratio.as_str(), full.bound.as_str()), ("0.61", "1.0"));
        assert!(row("log", "fork ratio=7 bound=5 MISSED\n").expect("a row").missed);
        for line in
            ["fork ratio=7 bound=5 missed", "fork bound=5 ok", "ok", "ratio=7 ok", "test a ... ok"]
        {
            assert_eq!(row("log", line), None, "{line}");
        }
    }

    #[test]
    fn the_table_counts_what_was_missed() {
        let rows: Vec<Row> = ["a ratio=1 bound=2 ok", "bb ratio=30 bound=2 MISSED"]
            .iter()
            .filter_map(|line| row("plan", line))
            .collect();
        let expected = "crate  measured  ratio  bound  verdict\n\
                        plan   a             1      2  ok\n\
                        plan   bb           30      2  MISSED\n\
                        2 promises measured, 1 missed\n";
        assert_eq!(table(&rows), expected);
    }
}
