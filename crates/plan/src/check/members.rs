//! Members that nobody reads: a remark for the author, because what they say is not heeded.
//!
//! The format keeps such members, so they are no reason to refuse. `metadata`, `ext`, values of the state and
//! properties are open: anything may stand there.

use crate::codes;
use crate::guard::{self, join};
use crate::json::{Json, Kind};
use crate::plan::Plan;
use crate::report::{MAX_NOTES, Report};
use crate::rules::{Refusal, event};
use crate::suggest::nearest;
use crate::tree::NodeKind;

pub(super) fn check(plan: &Plan, report: &mut Report) {
    let mut look = Look { report };
    let whole = plan.json();
    look.at(whole, "a plan", guard::PLAN, String::new);
    for (key, what, known) in [
        ("capabilities", "`capabilities`", guard::CAPABILITIES),
        ("state", "`state`", guard::STATE),
        ("source", "`source`", guard::SOURCE),
    ] {
        if let Some(value) = whole.get(key) {
            look.at(value, what, known, || join("", key));
        }
    }
    for (name, entry) in plan.manifest().into_iter().flatten() {
        look.at(entry, "an entry of the manifest", guard::DESCRIPTOR, || {
            join("/moduleManifest", name)
        });
    }
    for (name, actions) in plan.transitions().into_iter().flatten() {
        for (index, action) in actions.as_array().into_iter().flatten().enumerate() {
            let at = || format!("{}/{index}", join("/state/transitions", name));
            look.action(action, &at);
        }
    }
    bindings(plan, &mut look);
}

/// The objects that properties bind events with.
fn bindings(plan: &Plan, look: &mut Look<'_>) {
    let document = plan.document();
    for (index, entry) in (0u32..).zip(&plan.tree().entries) {
        if entry.kind != NodeKind::Element {
            continue;
        }
        for (name, value) in entry.props_in(document).into_iter().flatten() {
            // A text has no members, and is what most properties are.
            if matches!(value.kind(), Kind::Object(_)) && event::binding_of(name, value).is_some() {
                let at = || join(&format!("{}/props", plan.tree().pointer(index, "/root")), name);
                look.at(value, "a binding", guard::EVENT, at);
            }
        }
    }
}

struct Look<'r> {
    report: &'r mut Report,
}

impl Look<'_> {
    fn action(&mut self, action: Json<'_>, at: &dyn Fn() -> String) {
        let kind = action.get("type").and_then(Json::as_text).unwrap_or_default();
        let known = guard::action_members(kind);
        self.at(action, &format!("the action `{kind}`"), known, at);
        if let Some(operand) = action.get("value").filter(|value| value.get("$from").is_some()) {
            self.at(operand, "a value of `$from`", guard::REFERENCE, || join(&at(), "value"));
        }
    }

    fn at(&mut self, value: Json<'_>, what: &str, known: &[&str], at: impl Fn() -> String) {
        for (name, _) in value.as_object().into_iter().flatten() {
            if known.contains(&name) || self.report.notes.len() >= MAX_NOTES {
                continue;
            }
            let why = match nearest(name, known) {
                Some(meant) => format!("{what} has no such member; did you mean `{meant}`?"),
                None => format!("{what} has no such member; it has {}", known.join(", ")),
            };
            self.report.note_at(|| join(&at(), name), Refusal::new(codes::MEMBER_UNKNOWN, why));
        }
    }
}
