//! Times of acts taken in turn, and one line a promise as `cargo xtask bench` reads it.
#![allow(clippy::print_stdout, reason = "the lines are what a benchmark is for")]
#![allow(dead_code, reason = "each benchmark uses a part")]

use std::time::{Duration, Instant};

/// Tells a benchmark to take few samples: enough to see that it runs, not to judge by.
const SHORT_VARIABLE: &str = "GLASSHOUSE_BENCH_SHORT";

/// How many samples to take: what the command line says, few when asked to be short.
pub(crate) fn samples(usual: usize) -> usize {
    let told = std::env::args().skip(1).find_map(|text| text.parse().ok());
    let short = std::env::var_os(SHORT_VARIABLE).is_some();
    told.unwrap_or(if short { usual.div_ceil(20) } else { usual })
}

/// Times of two acts taken in turn, so that whatever else the machine does hits both.
pub(crate) fn interleaved(
    pairs: usize,
    mut first: impl FnMut(),
    mut second: impl FnMut(),
) -> (Vec<Duration>, Vec<Duration>) {
    let time = |act: &mut dyn FnMut()| {
        let started = Instant::now();
        act();
        started.elapsed()
    };
    for _ in 0..pairs / 20 {
        first();
        second();
    }
    (0..pairs).map(|_| (time(&mut first), time(&mut second))).unzip()
}

/// The time below which `part` of all are, in microseconds.
pub(crate) fn micros(times: &[Duration], part: f64) -> f64 {
    let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    sorted.sort_by(f64::total_cmp);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let index = ((sorted.len() - 1) as f64 * part) as usize;
    sorted[index]
}

/// What is promised of a second act beside a first.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// Microseconds more than the first.
    Added(f64),
    /// Times the first.
    Ratio(f64),
}

/// Prints a row: medians, the 99th percentile and the least of both, and the verdict.
pub(crate) fn report(name: &str, first: &[Duration], second: &[Duration], bound: Bound) {
    let (a, b) = (micros(first, 0.5), micros(second, 0.5));
    let (value, limit, unit) = match bound {
        Bound::Added(limit) => ((b - a) / limit, 1.0, format!("of {limit:.0} us allowed")),
        Bound::Ratio(limit) => (b / a, limit, "times the first".to_owned()),
    };
    let text = format!(
        "{name}: {b:.0} us beside {a:.0} us, added {:.0}, p99 {:.0}, least {:.0} beside {:.0}; {unit}",
        b - a,
        micros(second, 0.99),
        micros(second, 0.0),
        micros(first, 0.0),
    );
    row(&text, value, limit);
}

/// Prints a row of the table.
pub(crate) fn row(text: &str, value: f64, bound: f64) {
    let verdict = if value <= bound { "ok" } else { "MISSED" };
    println!("{text} ratio={value:.2} bound={bound:.2} {verdict}");
}
