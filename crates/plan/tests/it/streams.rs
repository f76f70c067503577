//! Streams: what is shown while a plan arrives. Names of tests begin with the complaint they answer.

use glasshouse_plan::patch::{AttributeValue, Content, End, Frame, Live, Patch, Screen, View};
use glasshouse_plan::stream::{Outcome, Stream};
use glasshouse_plan::{Context, Limits, Profile, ProfileName, check, parse, render};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties::{node, scalar};

pub(crate) fn profile() -> Profile {
    Profile { allow_arbitrary_network: false, ..Profile::named(ProfileName::Relaxed) }
}

/// Everything a screen saw.
struct Seen {
    frames: Vec<Frame>,
    screen: Screen,
    outcome: Outcome,
}

impl Seen {
    fn markup(&self) -> String {
        self.screen.view().markup()
    }

    fn patches(&self) -> impl Iterator<Item = &Patch> {
        self.frames.iter().flat_map(|frame| &frame.patches)
    }
}

/// Sends pieces; after each the screen takes what there is.
fn send<'p>(pieces: impl IntoIterator<Item = &'p [u8]>, profile: &Profile) -> Seen {
    let context = Context::new("s").unwrap();
    let mut stream = Stream::new(1, profile, &context);
    let mut screen = Screen::default();
    let mut frames = Vec::new();
    for piece in pieces {
        stream.push(piece);
        frames.extend(stream.frame());
    }
    let outcome = stream.finish();
    frames.push(outcome.frame.clone());
    for frame in &frames {
        screen.accept(frame).unwrap();
    }
    Seen { frames, screen, outcome }
}

fn send_text(text: &str, width: usize) -> Seen {
    send(text.as_bytes().chunks(width), &profile())
}

/// A stream kept only the reader's own limits, so a plan that the check refuses for its size was
/// shown, and one whose page would be too large ended as complete with nothing on it.
#[test]
fn what_is_too_large_for_the_profile_is_taken_back() {
    let plan = |root: Value, initial: Value| {
        json!({"specVersion": "runtime-plan/v1", "id": "t", "version": 1, "root": root,
            "state": {"initial": initial}})
        .to_string()
    };
    let strict = Profile::named(ProfileName::Strict);
    let text = |length: usize| json!({"type": "text", "value": "y".repeat(length)});
    let many = |child: Value, times: usize| json!({"type": "element", "tag": "div", "children": vec![child; times]});
    let check = |text: &str, end: End, code: &str| {
        for width in [1 << 12, 1 << 20] {
            let seen = send(text.as_bytes().chunks(width), &strict);
            assert_eq!(seen.outcome.end, end, "{code}");
            let issue = seen.outcome.report.and_then(|report| report.issues.into_iter().next());
            assert_eq!(issue.map_or("", |issue| issue.code), code);
            assert_eq!(seen.screen.view().markup().is_empty(), end == End::Refused, "{code}");
        }
        let parsed = parse(text, &strict.limits());
        let rendered = parsed.and_then(|plan| render(&plan, &strict, &Context::new("s").unwrap()));
        assert_eq!(rendered.is_ok(), end == End::Complete, "what render says");
    };
    check(&plan(text(190_000), json!({})), End::Complete, "");
    check(&plan(text(300_000), json!({})), End::Refused, "plan_too_large");
    check(&plan(many(text(180_000), 4), json!({})), End::Refused, "plan_too_large");
    let repeated = many(json!({"type": "text", "value": "{{state.x}}{{state.x}}"}), 240);
    let state = json!({"x": "y".repeat(60_000)});
    check(&plan(repeated, state), End::Refused, "plan_output_too_large");
}

fn whole(text: &str) -> String {
    let plan = parse(text, &Limits::default()).unwrap();
    render(&plan, &profile(), &Context::new("s").unwrap()).unwrap().markup
}

/// A plan of `rows` rows of three elements and one text each, in a section.
fn table(rows: usize) -> String {
    let row = |at: usize| {
        json!({"type": "element", "tag": "article", "props": {"key": format!("r{at}")}, "children": [
            {"type": "element", "tag": "h3", "children": [{"type": "text", "value": format!("Row {at}")}]},
            {"type": "element", "tag": "hr"},
        ]})
    };
    let root = json!({"type": "element", "tag": "section",
                      "children": (0..rows).map(row).collect::<Vec<_>>()});
    format!(r#"{{"specVersion":"runtime-plan/v1","id":"t","version":1,"root":{root}}}"#)
}

fn check_equal(text: &str) {
    let want = whole(text);
    for width in [1, 2, 3, 7, 64, text.len()] {
        let seen = send_text(text, width);
        assert_eq!(seen.outcome.end, End::Complete, "{text} in {width}: {:?}", seen.outcome);
        assert_eq!(seen.markup(), want, "{text} in {width}");
        assert_eq!(seen.screen.view().ready_count(), seen.screen.view().node_count(), "{text}");
    }
}

#[test]
fn a2_first_element_is_shown_with_the_piece_that_closes_its_tag() {
    let text = table(1);
    let tag_closes = text.find(r#""section""#).unwrap() + r#""section""#.len();
    // In this text the members of a node are sorted, so the tag of the root comes last but one.
    for (text, at) in [
        (text.clone(), tag_closes),
        (r#"{"root":{"type":"element","tag":"p","children":[]}"#.to_owned(), 35),
    ] {
        let context = Context::new("s").unwrap();
        let profile = profile();
        let mut stream = Stream::new(1, &profile, &context);
        let type_closes = text.rfind(r#""type":"element""#).unwrap() + 16;
        let known = at.max(type_closes);
        stream.push(&text.as_bytes()[..known - 1]);
        assert_eq!(stream.frame(), None, "{text}");
        stream.push(&text.as_bytes()[known - 1..known]);
        let frame = stream.frame().unwrap();
        assert!(matches!(&frame.patches[0], Patch::Ins { id: 0, parent: None, .. }), "{frame:?}");
    }
}

#[test]
fn a2_nine_elements_of_ten_are_shown_before_the_last_piece() {
    // Members in the order that models are asked for.
    let row = |at: usize| {
        format!(
            r#"{{"type":"element","tag":"article","props":{{"key":"r{at}"}},"children":[{{"type":"element","tag":"h3","children":[{{"type":"text","value":"Row {at}"}}]}}]}}"#
        )
    };
    let rows: Vec<String> = (0..499).map(row).collect();
    let text = format!(
        r#"{{"specVersion":"runtime-plan/v1","id":"t","version":1,"root":{{"type":"element","tag":"section","children":[{}]}}}}"#,
        rows.join(",")
    );
    let context = Context::new("s").unwrap();
    let profile = profile();
    let mut stream = Stream::new(1, &profile, &context);
    let mut screen = Screen::default();
    let width = text.len().div_ceil(508);
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(width).collect();
    for piece in &pieces[..pieces.len() - 1] {
        stream.push(piece);
        if let Some(frame) = stream.frame() {
            screen.accept(&frame).unwrap();
        }
    }
    let shown = screen.view().element_count();
    assert!(shown >= 990, "{shown} of 999 elements");
    stream.push(pieces[pieces.len() - 1]);
    let outcome = stream.finish();
    screen.accept(&outcome.frame).unwrap();
    assert_eq!(outcome.end, End::Complete);
    assert_eq!(screen.view().markup(), whole(&text));
}

#[test]
fn a3_each_node_is_added_once_and_nothing_is_rewritten() {
    let text = table(50);
    let seen = send_text(&text, 5);
    let mut added = std::collections::BTreeSet::new();
    let mut written = std::collections::BTreeSet::new();
    let mut ready = std::collections::BTreeSet::new();
    for patch in seen.patches() {
        match patch {
            Patch::Ins { id, .. } => assert!(added.insert(*id), "{id} twice"),
            Patch::Attr { id, name, value: AttributeValue::Text(_), .. } => {
                assert!(written.insert((*id, name.clone())), "{id} {name} twice");
            }
            Patch::Text { id, append, .. } => {
                assert!(append, "{id} rewritten");
                assert!(!ready.contains(id), "{id} touched when it was settled");
            }
            Patch::Ready { id } => assert!(ready.insert(*id), "{id} twice"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(added.len(), 201);
    assert_eq!(ready, added);
}

#[test]
fn a4_no_value_is_shown_half_typed() {
    let text = r#"{"specVersion":"runtime-plan/v1","id":"x","version":1,"root":{"type":"element","tag":"p",
        "children":[{"type":"element","tag":"button","props":{"type":"submit","class":"destructive"}},
        {"type":"element","tag":"a","props":{"href":"https://ga.jspm.io/path","target":"_blank"},
         "children":[{"type":"text","value":"a long text \ud83d\ude00 with é"}]}]}}"#;
    let seen = send_text(text, 1);
    let values: Vec<(&str, &str)> = seen
        .patches()
        .filter_map(|patch| match patch {
            Patch::Attr { name, value: AttributeValue::Text(value), .. } => {
                Some((name.as_str(), value.as_str()))
            }
            _ => None,
        })
        .collect();
    let want = [
        ("type", "submit"),
        ("class", "destructive"),
        ("href", "https://ga.jspm.io/path"),
        ("target", "_blank"),
        ("rel", "noopener noreferrer"),
    ];
    assert_eq!(values, want);
    // An address and what guards it are one frame.
    let address = seen.frames.iter().find(|frame| {
        frame
            .patches
            .iter()
            .any(|patch| matches!(patch, Patch::Attr { name, .. } if name == "href"))
    });
    let guarded = |patch: &Patch| matches!(patch, Patch::Attr { name, .. } if name == "rel");
    assert!(address.unwrap().patches.iter().any(guarded));
    let text = "a long text 😀 with é";
    let mut shown = String::new();
    for patch in seen.patches() {
        match patch {
            Patch::Ins { node: Content::Text(value), .. } | Patch::Text { value, .. } => {
                shown.push_str(value);
                assert!(text.starts_with(&shown), "{shown}");
            }
            _ => {}
        }
    }
    assert_eq!(shown, text);
    check_equal(&whole_text(text));
}

fn whole_text(text: &str) -> String {
    json!({"specVersion": "runtime-plan/v1", "id": "x", "version": 1,
           "root": {"type": "text", "value": text}})
    .to_string()
}

#[test]
fn a5_state_behind_the_root_reaches_what_is_shown() {
    let root = r#"{"type":"element","tag":"p","props":{"class":"a {{state.k}}","title":"t","onClick":{"type":"go","payload":{"n":"{{state.n}}"}}},"children":[{"type":"text","value":"n is {{state.n}}, ok"}]}"#;
    let state = r#"{"initial":{"n":3,"k":"<b>"},"transitions":{}}"#;
    let before = format!(
        r#"{{"specVersion":"runtime-plan/v1","id":"x","version":1,"state":{state},"root":{root}}}"#
    );
    let behind = format!(
        r#"{{"specVersion":"runtime-plan/v1","id":"x","version":1,"root":{root},"state":{state}}}"#
    );
    let absent =
        format!(r#"{{"specVersion":"runtime-plan/v1","id":"x","version":1,"root":{root}}}"#);
    for text in [&before, &behind, &absent] {
        check_equal(text);
    }
    let seen = send_text(&behind, 1);
    assert!(!seen.patches().any(|patch| matches!(patch, Patch::Del { .. } | Patch::Mov { .. })));
    let texts: Vec<&str> = seen
        .patches()
        .filter_map(|patch| match patch {
            Patch::Text { append: true, value, .. } => Some(value.as_str()),
            Patch::Text { value, .. } => panic!("{value} replaced a text"),
            _ => None,
        })
        .collect();
    assert!(texts.ends_with(&["3, ok"]), "{texts:?}");
    // What is shown goes on living.
    let plan = parse(&behind, &Limits::default()).unwrap();
    let context = Context::new("s").unwrap();
    let mut live = Live::new(plan, &profile(), &context).unwrap();
    let mut state =
        glasshouse_plan::state::State::initial(live.plan(), &Default::default()).unwrap();
    state.values.insert("n".into(), json!(4));
    let patches = live.update(&context.clone().state(&state)).unwrap();
    let mut view = seen.screen.view().clone();
    view.apply(&patches).unwrap();
    assert!(view.markup().contains("n is 4, ok"), "{}", view.markup());
}

/// All orders of a list.
fn orders<T: Clone>(list: &[T]) -> Vec<Vec<T>> {
    if list.is_empty() {
        return vec![Vec::new()];
    }
    (0..list.len())
        .flat_map(|first| {
            let mut rest = list.to_vec();
            let head = rest.remove(first);
            orders(&rest).into_iter().map(move |mut tail| {
                tail.insert(0, head.clone());
                tail
            })
        })
        .collect()
}

#[test]
fn a6_members_of_a_node_in_every_order() {
    let members = [
        r#""type":"element""#.to_owned(),
        r#""tag":"a""#.to_owned(),
        r#""props":{"onClick":"outer","href":"https://ga.jspm.io/x"}"#.to_owned(),
        r#""children":[{"value":"deep {{state.n}}","type":"text"},{"children":[],"props":{"onInput":"inner"},"tag":"b","type":"element"}]"#.to_owned(),
    ];
    let orders = orders(&members);
    assert_eq!(orders.len(), 24);
    let mut pages = std::collections::BTreeSet::new();
    for order in orders {
        let node = order.join(",");
        let text = format!(
            r#"{{"root":{{"type":"element","tag":"section","children":[{{{node}}},{{{node}}}]}},"id":"x","version":1}}"#
        );
        check_equal(&text);
        // No prefix fails or shows more than the whole.
        for end in 0..text.len() {
            let cut = send_text(&text[..end], 3);
            assert_eq!(cut.outcome.end, End::Incomplete, "{}", &text[..end]);
            assert!(cut.screen.view().node_count() <= 7);
        }
        pages.insert(whole(&text));
    }
    assert_eq!(pages.len(), 1);
}

#[test]
fn a12_fences_prose_and_broken_ends() {
    let plan = whole_text("Hi");
    let node = r#"{"type":"element","tag":"p","children":[{"type":"text","value":"Hi"}]}"#;
    for (text, end, shown, before, after) in [
        (plan.clone(), End::Complete, "Hi", "", ""),
        (
            format!("Here it is:\n```json\n{plan}\n```\nDone"),
            End::Complete,
            "Hi",
            "Here it is:",
            "Done",
        ),
        (format!("```\n{plan}```"), End::Complete, "Hi", "", ""),
        (
            format!("Use {{braces}} {{}} {{\"a\": 1}} like this: {plan} ok"),
            End::Complete,
            "Hi",
            "Use {braces} {} {\"a\": 1} like this:",
            "ok",
        ),
        (format!("A node: {node}"), End::Complete, "<p>Hi</p>", "A node:", ""),
        // Something behind the last brace is text, not a second try.
        (
            format!(r#"{plan},"state":{{"initial":{{}}}}}}"#),
            End::Complete,
            "Hi",
            "",
            r#","state":{"initial":{}}}"#,
        ),
        // Truncated: the last good view stays, and says so.
        (plan[..plan.len() - 4].to_owned(), End::Incomplete, "Hi", "", ""),
        // A trailing comma is not JSON; nothing is repaired.
        (plan.replace(r#""Hi"}"#, r#""Hi",}"#), End::Incomplete, "Hi", "", ""),
        ("no plan at all".to_owned(), End::Incomplete, "", "no plan at all", ""),
        (String::new(), End::Incomplete, "", "", ""),
    ] {
        for width in [1, 5, text.len().max(1)] {
            let seen = send_text(&text, width);
            let outcome = &seen.outcome;
            assert_eq!(outcome.end, end, "{text}: {outcome:?}");
            assert_eq!(seen.markup(), shown, "{text}");
            assert_eq!(
                (outcome.before.as_str(), outcome.after.as_str()),
                (before, after),
                "{text}"
            );
            assert_eq!(outcome.error.is_some(), end == End::Incomplete, "{text}");
            assert_eq!(seen.screen.end(), Some(end), "{text}");
        }
    }
}

#[test]
fn a12_code_in_a_fence_is_found_and_never_run() {
    let text = "Look:\n```tsx\nexport default () => <p>{'{'}</p>;\n```\nthat is all";
    for width in [1, 4, 200] {
        let outcome = send_text(text, width).outcome;
        let source = outcome.source.unwrap();
        assert_eq!(
            (source.language, source.code.trim()),
            ("tsx", "export default () => <p>{'{'}</p>;")
        );
        assert_eq!(outcome.end, End::Incomplete);
    }
}

#[test]
fn a14_late_frames_of_an_old_run_change_nothing() {
    let profile = profile();
    let context = Context::new("s").unwrap();
    let text = |value: &str| {
        format!(
            r#"{{"specVersion":"runtime-plan/v1","id":"x","version":1,"root":{{"type":"text","value":"{value}"}}}}"#
        )
    };
    let (one, two) = (text("old old old"), text("new"));
    let mut screen = Screen::default();
    let mut old = Stream::new(1, &profile, &context);
    let mut new = Stream::new(2, &profile, &context);
    old.push(&one.as_bytes()[..one.len() - 4]);
    screen.accept(&old.frame().unwrap()).unwrap();
    assert_eq!(screen.view().markup(), "old old ol");
    new.push(&two.as_bytes()[..two.len() - 4]);
    screen.accept(&new.frame().unwrap()).unwrap();
    assert_eq!(screen.view().markup(), "ne");
    old.push(&one.as_bytes()[one.len() - 4..]);
    use glasshouse_plan::patch::Accepted;
    let late = old.finish().frame;
    assert_eq!(screen.accept(&late).unwrap(), Accepted::Stale);
    assert_eq!((screen.view().markup().as_str(), screen.end()), ("ne", None));
    new.push(&two.as_bytes()[two.len() - 4..]);
    let last = new.finish().frame;
    let gap = Frame { seq: last.seq + 1, ..last.clone() };
    assert_eq!(screen.accept(&gap).unwrap_err().code(), "plan_frame_gap");
    screen.accept(&last).unwrap();
    assert_eq!((screen.view().markup().as_str(), screen.end()), ("new", Some(End::Complete)));
    assert_eq!(screen.accept(&last).unwrap(), Accepted::Stale);
}

#[test]
fn what_is_refused_is_taken_back_at_once_and_reported_as_a_whole() {
    let root = r#"{"type":"element","tag":"div","children":[{"type":"text","value":"seen"},{"type":"element","tag":"script"},{"type":"element","tag":"a","props":{"href":"javascript:x"}}]}"#;
    let text = format!(r#"{{"specVersion":"runtime-plan/v1","id":"x","version":1,"root":{root}}}"#);
    for width in [1, 10, text.len()] {
        let seen = send_text(&text, width);
        assert_eq!(seen.outcome.end, End::Refused);
        assert_eq!(seen.markup(), "");
        assert!(seen.outcome.plan.is_none());
        let report = check(&parse(&text, &Limits::default()).unwrap(), &profile());
        assert_eq!(seen.outcome.report.as_ref(), Some(&report));
        let tags: Vec<_> = seen
            .patches()
            .filter(|it| matches!(it, Patch::Ins { node: Content::Tag(tag), .. } if tag != "div"))
            .collect();
        assert_eq!(tags, Vec::<&Patch>::new());
    }
    // What only the whole plan tells is found at the end.
    let late =
        text.replace(r#"{"type":"element","tag":"script"},"#, "").replace("javascript:x", "#x");
    for (tail, code) in [
        (r#","capabilities":{"networkHosts":["x y"]}}"#, "plan_capability_denied"),
        (r#","source":{"language":"js","code":"1"}}"#, "plan_code_unsupported"),
        (r#","ext":{"requires":["each/1"]}}"#, "plan_extension_unsupported"),
        (r#","version":2}"#, "plan_key_duplicate"),
        (r#","state":{"initial":[]}}"#, "plan_shape_invalid"),
        (r#","root":{"type":"text","value":"again"}}"#, "plan_key_duplicate"),
    ] {
        let text = format!("{}{tail}", &late[..late.len() - 1]);
        let seen = send_text(&text, 9);
        assert_eq!(seen.outcome.end, End::Refused, "{tail}");
        assert_eq!(seen.outcome.report.unwrap().issues[0].code, code, "{tail}");
        assert_eq!(seen.screen.view().markup(), "", "{tail}");
        let shown = |frame: &Frame| frame.patches.iter().any(|it| matches!(it, Patch::Ins { .. }));
        assert!(seen.frames.iter().any(shown), "{tail}: it was shown before");
    }
}

#[test]
fn g4_a_hundred_thousand_levels_are_an_error_in_constant_stack() {
    let open = r#"{"type":"element","tag":"div","children":["#.repeat(100_000);
    let props = format!(r#"{{"type":"element","tag":"p","props":{{"x":{}"#, "[".repeat(100_000));
    for root in [open, props] {
        let text =
            format!(r#"{{"specVersion":"runtime-plan/v1","id":"x","version":1,"root":{root}"#);
        let seen = send_text(&text, 4096);
        // The profile ends the tree long before the reader ends the text.
        let known = seen.outcome.error.is_some() || seen.outcome.report.is_some();
        assert!(known && seen.outcome.end != End::Complete, "{:?}", seen.outcome.end);
        assert!(seen.screen.view().node_count() <= 25);
    }
}

/// Text of a value with the members of its objects in an order that `seed` chooses.
fn shuffled(value: &Value, seed: u64) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().zip(1..).map(|(it, at)| shuffled(it, seed.rotate_left(at))).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let mut parts: Vec<(u64, String)> = members
                .iter()
                .zip(1u64..)
                .map(|((key, value), at)| {
                    let rank = (seed ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 7;
                    (rank, format!("{}:{}", Value::from(key.as_str()), shuffled(value, rank)))
                })
                .collect();
            parts.sort();
            let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
            format!("{{{}}}", parts.join(","))
        }
        scalar => scalar.to_string(),
    }
}

/// Cuts bytes at places that `seed` chooses.
fn cut(bytes: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let (mut rest, mut seed) = (bytes, seed | 1);
    while !rest.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (usize::try_from(seed >> 33).unwrap() % 40 + 1).min(rest.len());
        let (piece, behind) = rest.split_at(at);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_cut_gives_what_the_whole_gives(
        root in node(), evil in scalar(), seed in any::<u64>(), keep in 0..1200usize,
    ) {
        let plan = json!({"id": "x", "version": 1, "root": root, "state": {"initial": {"evil": evil}}});
        let text = shuffled(&plan, seed);
        let profile = profile();
        let parsed = parse(&text, &Limits::default()).unwrap();
        let report = check(&parsed, &profile);
        let context = Context::new("s").unwrap();

        let seen = send(cut(text.as_bytes(), seed), &profile);
        prop_assert_eq!(seen.outcome.end == End::Complete, report.safe, "{}", &text);
        prop_assert_eq!(seen.outcome.report.as_ref(), Some(&report), "{}", &text);
        if report.safe {
            let html = render(&parsed, &profile, &context).unwrap();
            prop_assert_eq!(seen.markup(), html.markup.clone(), "{}", &text);
            let view = seen.screen.view();
            prop_assert_eq!(view.node_count(), parsed.node_count());
            prop_assert_eq!(view.ready_count(), parsed.node_count());
            let once = seen.patches().filter(|it| matches!(it, Patch::Ins { .. })).count();
            prop_assert_eq!(once, parsed.node_count());
            let gone = seen.patches().any(|it| matches!(it, Patch::Del { .. }));
            prop_assert!(!gone);

            let live = Live::new(parsed, &profile, &context).unwrap();
            let mut view = View::default();
            view.apply(&live.first(&context).unwrap()).unwrap();
            prop_assert_eq!(view.markup(), html.markup);
        } else {
            prop_assert_eq!(seen.markup(), "");
        }

        // A prefix shows the same wherever it is cut, and nothing that the whole would not show.
        let end = (text.len() * keep / 1000).min(text.len());
        let one = send(text.as_bytes()[..end].chunks(1), &profile);
        let all = send([&text.as_bytes()[..end]], &profile);
        prop_assert_eq!(one.outcome.end, all.outcome.end);
        prop_assert_eq!(one.markup(), all.markup());
        if !report.safe {
            let dangers = crate::tokens::dangers(&one.markup(), &["ga.jspm.io", "cdn.jspm.io", "esm.sh", "unpkg.com"]);
            prop_assert_eq!(dangers, Vec::<String>::new());
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(prop_oneof![
        Just(b'{'), Just(b'}'), Just(b'"'), Just(b':'), Just(b'`'), Just(b'\n'), any::<u8>()], 0..60)) {
        let one = send(bytes.chunks(1), &profile());
        let all = send([bytes.as_slice()], &profile());
        prop_assert_eq!(one.outcome.end, all.outcome.end);
        prop_assert_eq!(&one.outcome.before, &all.outcome.before);
    }
}

/// A model's habits that mean one thing are read when the plan is complete, however it is cut.
#[test]
fn a12_habits_are_read_in_the_end() {
    let head = r#"{"specVersion":"runtime-plan/v1","id":"x","version":1,"root":"#;
    for (root, want) in [
        (
            r#"{"type":"section","className":"c","children":["hi",{"type":"p","nodes":["x"]}]}"#,
            Some(r#"<section class="c">hi<p>x</p></section>"#),
        ),
        (
            r#"{"type":"element","tag":"div","children":[{"type":"b","children":["{{state.n}}"]}]}"#,
            Some("<div><b></b></div>"),
        ),
        (r#"{"type":"p","text":"two meanings"}"#, None),
        (r#"{"type":"p","children":[null]}"#, None),
        (r#"{"type":"script","children":["x"]}"#, None),
        (r#"{"type":"a","props":{"href":"javascript:x"},"children":["x"]}"#, None),
    ] {
        let text = format!("{head}{root}}}");
        for width in [1, 5, text.len()] {
            let seen = send_text(&text, width);
            let end = if want.is_some() { End::Complete } else { End::Refused };
            assert_eq!(seen.outcome.end, end, "{root} in {width}: {:?}", seen.outcome.report);
            assert_eq!(seen.outcome.normalised, want.is_some());
            assert_eq!(seen.markup(), want.unwrap_or_default(), "{root} in {width}");
        }
    }
}
