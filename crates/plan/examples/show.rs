//! Reads one plan a line from standard input and writes what each profile makes of it, one line each:
//! the report, the markup, and the state and markup after each event that the plan knows. The same
//! program runs natively and as WebAssembly, and must write the same bytes.
#![expect(clippy::print_stdout, reason = "its output is what is compared")]

use std::io::BufRead;

use glasshouse_plan::state::{Host, State, StateLimits, apply};
use glasshouse_plan::{
    Context, Error, Event, Limits, Plan, Profile, ProfileName, check, parse, render,
};
use serde_json::{Map, Value, json};

fn main() -> std::io::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        for name in ProfileName::ALL {
            println!("{}", shown(&line, &Profile::named(name)));
        }
    }
    Ok(())
}

fn shown(text: &str, profile: &Profile) -> Value {
    let told = |error: Error| json!(error.report());
    let plan = match parse(text, &Limits::default()) {
        Ok(plan) => plan,
        Err(error) => return told(error),
    };
    json!({
        "report": check(&plan, profile),
        "steps": steps(&plan, profile).unwrap_or_else(|error| vec![told(error)]),
    })
}

fn steps(plan: &Plan, profile: &Profile) -> Result<Vec<Value>, Error> {
    let context = Context::new("s")?;
    let host = Host { user_id: "u", variables: &Map::new() };
    let limits = StateLimits::default();
    let mut state = State::initial(plan, &limits)?;
    let mut steps = vec![json!(render(plan, profile, &context.clone().state(&state))?)];
    for (name, _) in plan.transitions().into_iter().flatten() {
        let event = Event::new(name, None)?;
        state = apply(&state, plan, &event, &host, &limits)?.state;
        let html = render(plan, profile, &context.clone().state(&state))?;
        steps.push(json!({"state": state.values, "markup": html.markup}));
    }
    Ok(steps)
}
