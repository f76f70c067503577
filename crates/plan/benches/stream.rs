//! Streaming a plan byte by byte against rendering it in one go, and an event on a large plan.
//!
//! Each line holds medians of interleaved pairs. `cargo bench -p glasshouse-plan --bench stream`

use std::hint::black_box;
use std::time::{Duration, Instant};

use glasshouse_plan::patch::{Live, Patch};
use glasshouse_plan::state::{Host, State, StateLimits, apply};
use glasshouse_plan::stream::Stream;
use glasshouse_plan::{Context, Event, Limits, Profile, ProfileName, parse, render};
use serde_json::Map;

/// Takes few samples when this is set: enough to see that it runs.
const SHORT_VARIABLE: &str = "GLASSHOUSE_BENCH_SHORT";
/// The promise: all pieces of one byte cost at most this many one-shot renderings.
const STREAM_BOUND: f64 = 5.0;
/// The promise: one event with one bound text among 10,000 nodes, in milliseconds.
const EVENT_BOUND_MS: f64 = 1.0;

/// Cards of a heading, a text and a button; `bound` of the texts read the state.
fn plan(nodes: usize, bound: usize) -> String {
    let card = |index: usize| {
        let text = if index < bound { "{{state.count}} times" } else { "many times" };
        format!(
            concat!(
                r#"{{"type":"element","tag":"div","props":{{"class":"card wide","id":"card-{i}","title":"Card {i}","data-row":{i}}},"#,
                r#""children":[{{"type":"element","tag":"h3","props":{{"class":"card-title"}},"children":[{{"type":"text","value":"Item number {i}"}}]}},"#,
                r#"{{"type":"element","tag":"p","props":{{"style":"color: #333; padding: 4px"}},"children":[{{"type":"text","value":"The quick brown fox & the lazy dog, {text}"}}]}},"#,
                r#"{{"type":"element","tag":"button","props":{{"type":"button","onClick":{{"type":"pick","payload":{{"id":{i}}}}}}},"children":[{{"type":"text","value":"Pick"}}]}}]}}"#
            ),
            i = index,
            text = text
        )
    };
    let cards: Vec<String> = (0..nodes.div_ceil(7)).map(card).collect();
    format!(
        r#"{{"specVersion":"runtime-plan/v1","id":"bench","version":1,"capabilities":{{}},"state":{{"initial":{{"count":3}},"transitions":{{"pick":[{{"type":"increment","path":"count"}}]}}}},"root":{{"type":"element","tag":"section","children":[{}]}}}}"#,
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

fn profile() -> Profile {
    Profile { max_node_count: usize::MAX, ..Profile::named(ProfileName::Balanced) }
}

/// Streams in pieces and counts the patches; a frame is taken after each piece or only at the end.
fn stream(
    text: &str,
    width: usize,
    frames: bool,
    profile: &Profile,
    context: &Context<'_>,
) -> usize {
    let mut stream = Stream::new(1, profile, context);
    let mut patches = 0;
    for piece in text.as_bytes().chunks(width) {
        stream.push(piece);
        if frames {
            patches += stream.frame().map_or(0, |frame| frame.patches.len());
        }
    }
    let outcome = stream.finish();
    assert!(outcome.plan.is_some(), "the plan is complete");
    patches + outcome.frame.patches.len()
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its result")]
fn verdict(what: &str, ratio: f64, bound: f64) {
    let verdict = if ratio <= bound { "ok" } else { "MISSED" };
    println!("{what} ratio={ratio:.2} bound={bound} {verdict}");
}

fn streams(nodes: usize, pairs: usize) {
    let text = plan(nodes, usize::MAX);
    let (profile, context) = (profile(), Context::new("bench").expect("the name is plain"));
    let (mut bytewise, mut held, mut chunks, mut whole) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let patches = stream(&text, 1, true, &profile, &context);
    for _ in 0..pairs {
        whole.push(time(|| {
            let plan = parse(black_box(&text), &Limits::default()).expect("it is a plan");
            black_box(render(&plan, &profile, &context).expect("it is safe"));
        }));
        bytewise.push(time(|| {
            black_box(stream(black_box(&text), 1, true, &profile, &context));
        }));
        held.push(time(|| {
            black_box(stream(black_box(&text), 1, false, &profile, &context));
        }));
        chunks.push(time(|| {
            black_box(stream(black_box(&text), 256, true, &profile, &context));
        }));
    }
    let (bytewise, held, chunks, whole) =
        (median(bytewise), median(held), median(chunks), median(whole));
    let what = format!(
        "plan-stream nodes={nodes} bytes={} patches={patches} bytewise_us={bytewise:.0} held_us={held:.0} by256_us={chunks:.0} one_shot_us={whole:.0}",
        text.len()
    );
    verdict(&what, bytewise / whole, STREAM_BOUND);
}

fn events(nodes: usize, bound: usize, times: usize) {
    let (profile, context) = (profile(), Context::new("bench").expect("the name is plain"));
    let plan = parse(&plan(nodes, bound), &Limits::default()).expect("it is a plan");
    let limits = StateLimits::default();
    let mut state = State::initial(&plan, &limits).expect("it is small");
    let mut live = Live::new(plan.clone(), &profile, &context).expect("it is safe");
    let event = Event::new("pick", None).expect("the name is plain");
    let host = Host { user_id: "u", variables: &Map::new() };
    let mut took = Vec::new();
    let mut patches: Vec<Patch> = Vec::new();
    for _ in 0..times {
        took.push(time(|| {
            let next = apply(&state, &plan, &event, &host, &limits).expect("it applies");
            state = next.state;
            patches = live.update(&context.clone().state(&state)).expect("it is small");
        }));
        assert_eq!(patches.len(), bound, "each bound text changes");
    }
    let took = median(took);
    let what = format!("plan-event nodes={nodes} bound={bound} event_us={took:.1} in ms");
    verdict(&what, took / 1e3, EVENT_BOUND_MS);
}

fn main() {
    let short = std::env::var_os(SHORT_VARIABLE).is_some();
    let times = |full: usize| if short { full / 20 + 1 } else { full };
    streams(10, times(1_000));
    streams(1_000, times(200));
    streams(10_000, times(30));
    events(10_000, 1, times(2_000));
    events(10_000, 1_000, times(200));
}
