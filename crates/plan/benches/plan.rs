//! Reading, checking and rendering a plan against a general JSON parser on the same text.
//!
//! Each line holds medians of interleaved pairs. `cargo bench -p glasshouse-plan`

use std::hint::black_box;
use std::time::{Duration, Instant};

use glasshouse_plan::{Context, Limits, Profile, ProfileName, check, parse, render};
use serde_json::Value;

/// The promise: parse, validate, policy and render cost at most this many general parses.
const BOUND: f64 = 2.0;

/// Cards of a heading, a text and a button, four nodes and three texts each.
fn plan(nodes: usize) -> String {
    let card = |index: usize| {
        format!(
            concat!(
                r#"{{"type":"element","tag":"div","props":{{"class":"card wide","id":"card-{i}","title":"Card {i}","data-row":{i}}},"#,
                r#""children":[{{"type":"element","tag":"h3","props":{{"class":"card-title"}},"children":[{{"type":"text","value":"Item number {i}"}}]}},"#,
                r#"{{"type":"element","tag":"p","props":{{"style":"color: #333; padding: 4px"}},"children":[{{"type":"text","value":"The quick brown fox & the lazy dog, {{{{state.count}}}} times"}}]}},"#,
                r#"{{"type":"element","tag":"button","props":{{"type":"button","onClick":{{"type":"pick","payload":{{"id":{i}}}}}}},"children":[{{"type":"text","value":"Pick"}}]}}]}}"#
            ),
            i = index
        )
    };
    let cards: Vec<String> = (0..nodes.div_ceil(7)).map(card).collect();
    format!(
        r#"{{"specVersion":"runtime-plan/v1","id":"bench","version":1,"capabilities":{{}},"state":{{"initial":{{"count":3}}}},"root":{{"type":"element","tag":"section","children":[{}]}}}}"#,
        cards.join(",")
    )
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its result")]
fn compare(nodes: usize, pairs: usize) {
    let text = plan(nodes);
    let profile = Profile { max_node_count: usize::MAX, ..Profile::named(ProfileName::Balanced) };
    let context = Context::new("bench").expect("the name is plain");
    let (mut ours, mut general) = (Vec::new(), Vec::new());
    let (mut parses, mut checks) = (Vec::new(), Vec::new());
    let plan = parse(&text, &Limits::default()).expect("it is a plan");
    for _ in 0..pairs {
        general.push(time(|| {
            black_box(serde_json::from_str::<Value>(black_box(&text)).expect("it is JSON"));
        }));
        ours.push(time(|| {
            let plan = parse(black_box(&text), &Limits::default()).expect("it is a plan");
            black_box(render(&plan, &profile, &context).expect("it is safe"));
        }));
        parses.push(time(|| {
            black_box(parse(black_box(&text), &Limits::default()).expect("it is a plan"));
        }));
        checks.push(time(|| {
            black_box(check(black_box(&plan), &profile));
        }));
    }
    let (ours, general) = (median(ours), median(general));
    let (parse_us, check_us) = (median(parses), median(checks));
    let ratio = ours / general;
    let verdict = if ratio <= BOUND { "ok" } else { "MISSED" };
    println!(
        "plan nodes={nodes} bytes={} ours_us={ours:.1} parse_us={parse_us:.1} check_us={check_us:.1} value_us={general:.1} ratio={ratio:.2} bound={BOUND} {verdict}",
        text.len()
    );
}

fn main() {
    compare(10, 2_000);
    compare(1_000, 500);
    compare(10_000, 100);
}
