//! The examples of the guide: each is rendered, and the pictures beside it are what comes out.
//! `GLASSHOUSE_BLESS=1` writes them anew.

use std::path::PathBuf;

use glasshouse_plan::state::{Host, State, StateLimits, apply};
use glasshouse_plan::{
    Context, Event, Html, Limits, Plan, Profile, ProfileName, build, check, parse, render,
    render_page, schema,
};
use serde_json::{Map, Value, json};

use crate::hostile::same_elements;

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Compares a file with what it should hold, or writes it.
fn golden(name: &str, want: &str) {
    let path = docs(name);
    if std::env::var_os("GLASSHOUSE_BLESS").is_some() {
        std::fs::write(&path, want).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == want, "{name} is not what comes out; GLASSHOUSE_BLESS=1 writes it anew");
}

fn example(name: &str) -> Plan {
    let text = std::fs::read_to_string(docs(&format!("guides/plans/{name}.json"))).unwrap();
    parse(&text, &Limits::default()).unwrap()
}

fn shown(plan: &Plan, name: ProfileName) -> Html {
    let profile = Profile::named(name);
    let report = check(plan, &profile);
    assert!(report.safe, "{report:?}");
    let html = render(plan, &profile, &Context::new("guide").unwrap()).unwrap();
    assert!(same_elements(plan, &html.markup));
    html
}

fn picture(name: &str, title: &str, html: &Html) {
    golden(&format!("guides/plans/{name}.html"), &render_page(title, html));
}

#[test]
fn the_counter_counts() {
    let plan = example("counter");
    let html = shown(&plan, ProfileName::Strict);
    for profile in ProfileName::ALL {
        assert_eq!(shown(&plan, profile).markup, html.markup, "{profile:?}");
    }
    picture("counter", "Counter", &html);
    let host = Host { user_id: "u", variables: &Map::new() };
    let limits = StateLimits::default();
    let mut state = State::initial(&plan, &limits).unwrap();
    for event in ["add", "add-many", "add"] {
        let event = Event::new(event, None).unwrap();
        state = apply(&state, &plan, &event, &host, &limits).unwrap().state;
    }
    assert_eq!(Value::Object(state.values), json!({"count": 7, "last": "add"}));
    assert_eq!(state.revision, 3);
}

#[test]
fn the_dashboard_draws_its_chart() {
    let html = shown(&example("dashboard"), ProfileName::Strict);
    assert_eq!(html.notes, []);
    picture("dashboard", "Dashboard", &html);
    let start = html.markup.find("<svg").unwrap();
    let end = html.markup.find("</svg>").unwrap() + "</svg>".len();
    let drawing =
        html.markup[start..end].replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1);
    golden("guides/plans/chart.svg", &format!("{drawing}\n"));
}

/// An import that is declared and not loaded does not stop a plan that does not need it.
#[test]
fn the_complete_example_is_shown_without_its_import() {
    let plan = example("complete");
    let html = shown(&plan, ProfileName::Balanced);
    for profile in [ProfileName::Balanced, ProfileName::Trusted, ProfileName::Relaxed] {
        let same = shown(&plan, profile);
        let notes: Vec<&str> = same.notes.iter().map(|note| note.code).collect();
        assert_eq!(notes, ["plan_import_unresolved"], "{profile:?}");
        assert_eq!(same.markup, html.markup, "{profile:?}");
    }
    picture("complete", "The complete example", &html);
    let strict = check(&plan, &Profile::named(ProfileName::Strict));
    assert_eq!(strict.issues[0].code, "plan_integrity_missing");
}

#[test]
fn five_thousand_rows_are_one_table() {
    let cell = |tag: &str, value: &str| build::element(tag, None, vec![build::text(value)]);
    let row = |number: usize| {
        let cells = vec![
            cell("th", &format!("Row {number}")),
            cell("td", &(number * 7 % 100).to_string()),
            cell("td", "{{state.unit}}"),
        ];
        build::element("tr", None, cells)
    };
    let body = build::element("tbody", None, (1..=5_000).map(row).collect());
    let table = build::element("table", None, vec![body]);
    let text = json!({"specVersion": "runtime-plan/v1", "id": "table", "version": 1,
        "state": {"initial": {"unit": "kg"}}, "root": table});
    let plan = parse(&text.to_string(), &Limits::default()).unwrap();
    assert_eq!(plan.node_count(), 35_002);
    assert!(!check(&plan, &Profile::named(ProfileName::Relaxed)).safe, "above the profile's bound");
    let wide = json!({"maxNodeCount": 40_000});
    let profile = Profile::named(ProfileName::Relaxed).with_overrides(&wide).unwrap();
    let html = render(&plan, &profile, &Context::new("guide").unwrap()).unwrap();
    assert_eq!(html.markup.matches("<tr>").count(), 5_000);
    assert!(
        html.markup.ends_with("<tr><th>Row 5000</th><td>0</td><td>kg</td></tr></tbody></table>")
    );
}

#[test]
fn the_schema_is_the_one_in_the_reference() {
    let text = serde_json::to_string_pretty(&schema()).unwrap();
    golden("reference/runtime-plan.schema.json", &format!("{text}\n"));
}
