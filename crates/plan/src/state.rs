//! State: what a plan remembers, changed by events through four actions.
//!
//! One event is one step: all of its actions happen, or none. A state belongs to one plan and one
//! version, and counts its steps, so two writers cannot lose each other's work unseen.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::codes;
use crate::error::Error;
use crate::event::Event;
use crate::json::{Json, canonical};
use crate::path;
use crate::plan::Plan;
use crate::size::{self, Size};
use crate::template::Scope;

/// What a state may hold at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateLimits {
    /// Approximate bytes of the whole state.
    pub bytes: usize,
    /// Containers inside each other.
    pub depth: usize,
    /// Elements of one array.
    pub items: usize,
}

impl Default for StateLimits {
    /// One mebibyte, because a state is stored and sent as a whole after each event; 32 levels;
    /// 10,000 elements, the most rows a view shows.
    fn default() -> Self {
        Self { bytes: 1024 * 1024, depth: 32, items: 10_000 }
    }
}

/// The state of one plan version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The plan it belongs to.
    pub plan_id: String,
    /// The version of that plan.
    pub plan_version: i64,
    /// Steps so far.
    pub revision: u64,
    /// The values.
    pub values: Map<String, Value>,
}

impl State {
    /// Approximate bytes of all values, as [`StateLimits`] counts them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size::of_members(&self.values).bytes
    }

    /// The state a plan begins with.
    ///
    /// # Errors
    ///
    /// `plan_state_limit` when the plan's initial values are above the limits.
    pub fn initial(plan: &Plan, limits: &StateLimits) -> Result<Self, Error> {
        let values = match plan.initial_state().map(Json::to_value) {
            Some(Value::Object(values)) => values,
            _ => Map::new(),
        };
        within(size::of_members(&values), limits)?;
        Ok(Self {
            plan_id: plan.id().to_owned(),
            plan_version: plan.version(),
            revision: 0,
            values,
        })
    }

    /// Refuses to go on from a state that has moved since the caller read it.
    ///
    /// # Errors
    ///
    /// `plan_state_conflict`.
    pub fn expect_revision(&self, revision: u64) -> Result<(), Error> {
        if self.revision == revision {
            return Ok(());
        }
        Err(Error::new(codes::STATE_CONFLICT, "the state has moved on")
            .why(format!("expected revision {revision}, found {}", self.revision))
            .with("expected", revision)
            .with("found", self.revision))
    }
}

/// An action as it was carried out, its values resolved.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Action {
    /// Wrote a value.
    Set {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Appended a value; what was no array became one.
    Push {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Added to a number; what was no number counted as 0.
    Increment {
        /// Where.
        path: String,
        /// How much.
        by: Value,
    },
    /// Negated; blank, 0, false and nothing became true.
    Toggle {
        /// Where.
        path: String,
    },
}

/// Outcome of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The state after the step.
    pub state: State,
    /// Whether the plan has a transition for the event; without one nothing changes.
    pub handled: bool,
    /// What was done, in order.
    pub actions: Vec<Action>,
}

/// Values of the host that actions may read.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// Who caused the event.
    pub user_id: &'a str,
    /// Other values.
    pub variables: &'a Map<String, Value>,
}

/// Approximate bytes of a value in a state, as [`StateLimits`] counts them.
#[must_use]
pub fn value_bytes(value: &Value) -> usize {
    size::of(value).bytes
}

/// Applies an event: a pure function of its arguments.
///
/// # Errors
///
/// `plan_state_plan_mismatch`, `plan_path_unsafe`, `plan_state_path_invalid`,
/// `plan_state_number_invalid` and `plan_state_limit`; then nothing has changed.
pub fn apply(
    state: &State,
    plan: &Plan,
    event: &Event,
    host: &Host<'_>,
    limits: &StateLimits,
) -> Result<Applied, Error> {
    if state.plan_id != plan.id() || state.plan_version != plan.version() {
        return Err(Error::new(codes::STATE_PLAN_MISMATCH, "the state belongs to another plan")
            .why(format!(
                "state of {} version {}, plan {} version {}",
                state.plan_id,
                state.plan_version,
                plan.id(),
                plan.version()
            )));
    }
    let transition =
        plan.transitions().and_then(|mut all| all.find(|(name, _)| *name == event.kind()));
    let Some((name, actions)) = transition else {
        return Ok(Applied { state: state.clone(), handled: false, actions: Vec::new() });
    };
    let before = size::of_members(&state.values);
    within(before, limits)?;
    let mut step = Step {
        values: state.values.clone(),
        bytes: before.bytes,
        reported: 0,
        event,
        host,
        limits,
        actions: Vec::new(),
    };
    for (index, action) in actions.as_array().into_iter().flatten().enumerate() {
        step.act(action).map_err(|error| {
            let at = crate::guard::join("/state/transitions", name);
            error.at(format!("{at}/{index}"))
        })?;
    }
    within(size::of_members(&step.values), limits)?;
    let next = State { revision: state.revision + 1, values: step.values, ..state.clone() };
    Ok(Applied { state: next, handled: true, actions: step.actions })
}

/// A step under way.
struct Step<'a> {
    values: Map<String, Value>,
    /// Upper bound of the state's size; measured again only when it reaches the limit.
    bytes: usize,
    /// Size of the values kept in `actions`.
    reported: usize,
    event: &'a Event,
    host: &'a Host<'a>,
    limits: &'a StateLimits,
    actions: Vec<Action>,
}

impl Step<'_> {
    fn act(&mut self, action: Json<'_>) -> Result<(), Error> {
        let path = action.get("path").and_then(Json::as_text).unwrap_or_default();
        if !path::is_safe(path) {
            return Err(path::unsafe_write(path));
        }
        let owned = path.to_owned();
        let done = match action.get("type").and_then(Json::as_text) {
            Some("set") => {
                let value = self.operand(action)?;
                *self.slot(path)? = value.clone();
                Action::Set { path: owned, value }
            }
            Some("push") => {
                let value = self.operand(action)?;
                let limit = self.limits.items;
                match self.slot(path)? {
                    Value::Array(items) if items.len() >= limit => {
                        return Err(path::too_many(limit));
                    }
                    Value::Array(items) => items.push(value.clone()),
                    other => *other = Value::Array(vec![value.clone()]),
                }
                Action::Push { path: owned, value }
            }
            Some("increment") => {
                let by = action.get("by").and_then(Json::as_number).unwrap_or(1.0);
                let slot = self.slot(path)?;
                let sum = canonical(slot.as_f64().unwrap_or(0.0) + by);
                *slot = sum.ok_or_else(|| not_finite(path))?;
                let by = canonical(by).ok_or_else(|| not_finite(path))?;
                Action::Increment { path: owned, by }
            }
            _ => {
                let slot = self.slot(path)?;
                *slot = Value::Bool(!is_truthy(slot));
                Action::Toggle { path: owned }
            }
        };
        self.actions.push(done);
        Ok(())
    }

    /// The value of an action; `{$from}` reads the state as it is now.
    fn operand(&mut self, action: Json<'_>) -> Result<Value, Error> {
        let Some(value) = action.get("value") else { return Ok(Value::Null) };
        let value = match value.get("$from").and_then(Json::as_text) {
            Some(from) => {
                let scope = Scope {
                    state: &self.values,
                    event: Some(self.event),
                    user_id: self.host.user_id,
                    variables: self.host.variables,
                };
                scope.look_up(from).map(|value| (size::of(&value), value))
            }
            None => {
                let value = value.to_value();
                Some((size::of(&value), std::borrow::Cow::Owned(value)))
            }
        };
        let Some((size, value)) = value else { return Ok(Value::Null) };
        within(size, self.limits)?;
        let value = value.into_owned();
        self.grow(size.bytes)?;
        // The outcome reports a copy of its own, also of what a later action overwrites.
        self.reported = self.reported.saturating_add(size.bytes);
        within(Size { bytes: self.reported, ..Size::default() }, self.limits)?;
        Ok(value)
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.bytes {
            self.bytes = size::of_members(&self.values).bytes.saturating_add(bytes);
        }
        within(Size { bytes: self.bytes, ..Size::default() }, self.limits)
    }

    /// The place a path names, within the limits of the state.
    fn slot(&mut self, path: &str) -> Result<&mut Value, Error> {
        self.grow(path.len() + 32)?;
        if path::split(path).count() > self.limits.depth {
            return Err(Error::new(codes::STATE_LIMIT, "a path is too deep")
                .why(format!("limit {} levels", self.limits.depth)));
        }
        path::slot(&mut self.values, path, self.limits.items)
    }
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

fn not_finite(path: &str) -> Error {
    Error::new(codes::STATE_NUMBER_INVALID, "a number would be too large")
        .why(format!("at {path:?}"))
}

fn within(size: Size, limits: &StateLimits) -> Result<(), Error> {
    for (name, actual, max) in [
        ("bytes", size.bytes, limits.bytes),
        ("depth", size.depth, limits.depth),
        ("items", size.items, limits.items),
    ] {
        if actual > max {
            return Err(Error::new(codes::STATE_LIMIT, "the state is too large")
                .why(format!("{name}: {actual}, limit {max}"))
                .with("limit", name)
                .with("max", max)
                .with("actual", actual));
        }
    }
    Ok(())
}
