//! Templates: `{{state.name}}` in text and properties. Look-ups only; nothing is evaluated.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::{Map, Value};

use crate::codes;
use crate::event::Event;
use crate::json::{Json, to_text};
use crate::path;
use crate::plan::Plan;
use crate::report::Issue;
use crate::size;
use crate::tree::Node;

/// Deepest part, most containers and most characters of a value that is printed as JSON.
const MAX_PRINTED_DEPTH: usize = 8;
const MAX_PRINTED_CONTAINERS: usize = 256;
const MAX_PRINTED_CHARACTERS: usize = 4096;
/// Most that the templates of one text, or of one value, fill in; each could name a large value.
pub const MAX_RESOLVED_BYTES: usize = 4 * 1024 * 1024;
/// Most problems that [`problems`] names.
const MAX_PROBLEMS: usize = 8;

/// A part of a text with templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text as it is.
    Literal(&'a str),
    /// The path between the braces, trimmed.
    Expression(&'a str),
}

/// Splits a text into literal parts and expressions.
///
/// ```
/// use glasshouse_plan::template::{Piece, pieces};
/// let parts: Vec<_> = pieces("n={{ state.n }}").collect();
/// assert_eq!(parts, [Piece::Literal("n="), Piece::Expression("state.n")]);
/// ```
pub fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    let mut expression = None;
    std::iter::from_fn(move || {
        if let Some(found) = expression.take() {
            return Some(Piece::Expression(found));
        }
        if rest.is_empty() {
            return None;
        }
        let Some((before, found, after)) = next_expression(rest) else {
            return Some(Piece::Literal(std::mem::take(&mut rest)));
        };
        rest = after;
        if before.is_empty() {
            return Some(Piece::Expression(found));
        }
        expression = Some(found);
        Some(Piece::Literal(before))
    })
}

/// The first `{{…}}` whose inside is not empty and holds no closing brace. Linear: a failed search
/// goes on behind the brace that ended it.
fn next_expression(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let open = from + text[from..].find("{{")?;
        let inside = open + 2;
        let close = inside + text[inside..].find('}')?;
        if close > inside && text[close..].starts_with("}}") {
            return Some((&text[..open], text[inside..close].trim(), &text[close + 2..]));
        }
        from = close + 1;
    }
}

/// The expression, if the text is one template and nothing else.
fn whole(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("{{")?.strip_suffix("}}")?;
    let plain = !inside.is_empty() && !inside.contains(['{', '}']);
    plain.then_some(inside.trim())
}

pub(crate) fn is_templated(text: &str) -> bool {
    text.contains("{{")
}

/// What templates can read.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The state.
    pub state: &'a Map<String, Value>,
    /// The event that is being handled.
    pub event: Option<&'a Event>,
    /// Who looks at the plan.
    pub user_id: &'a str,
    /// Values of the host.
    pub variables: &'a Map<String, Value>,
}

impl<'a> Scope<'a> {
    /// Looks an expression up: `state.`, `event.`, `context.` and `vars.` name their part, anything
    /// else is a path into the state. `None` when there is nothing.
    #[must_use]
    pub fn look_up(&self, expression: &str) -> Option<Cow<'a, Value>> {
        let expression = expression.trim();
        if let Some(path) = expression.strip_prefix("state.") {
            return read(self.state, path);
        }
        if let Some(path) = expression.strip_prefix("vars.") {
            return read(self.variables, path);
        }
        if let Some(path) = expression.strip_prefix("event.") {
            return self.event_member(path);
        }
        if let Some(path) = expression.strip_prefix("context.") {
            return self.context_member(path);
        }
        read(self.state, expression)
    }

    fn event_member(&self, path: &str) -> Option<Cow<'a, Value>> {
        let event = self.event?;
        let mut segments = path::split(path);
        match segments.next()? {
            "type" if segments.next().is_none() => {
                Some(Cow::Owned(Value::String(event.kind().to_owned())))
            }
            "payload" => inside(event.payload()?, path),
            "input" => inside(event.input()?, path),
            _ => None,
        }
    }

    fn context_member(&self, path: &str) -> Option<Cow<'a, Value>> {
        let mut segments = path::split(path);
        match segments.next()? {
            "userId" if segments.next().is_none() => {
                Some(Cow::Owned(Value::String(self.user_id.to_owned())))
            }
            "variables" => inside(self.variables, path),
            _ => None,
        }
    }
}

/// Reads below the first segment of a path that names a whole map.
fn inside<'a>(map: &'a Map<String, Value>, path: &str) -> Option<Cow<'a, Value>> {
    match path.split_once('.') {
        None => Some(Cow::Owned(Value::Object(map.clone()))),
        Some((_, rest)) => read(map, rest),
    }
}

fn read<'a>(source: &'a Map<String, Value>, path: &str) -> Option<Cow<'a, Value>> {
    match path::get(source, path)? {
        path::Found::Value(value) => Some(Cow::Borrowed(value)),
        found @ path::Found::Length(_) => Some(Cow::Owned(found.to_value())),
    }
}

/// Replaces every template in a text. Templates behind the first [`MAX_RESOLVED_BYTES`] of the
/// result give nothing.
///
/// ```
/// use glasshouse_plan::template::{Scope, resolve_text};
/// let state = serde_json::json!({"n": 3});
/// let scope = Scope { state: state.as_object().unwrap(), event: None, user_id: "u",
///                     variables: &serde_json::Map::new() };
/// assert_eq!(resolve_text("n={{state.n}}", &scope), "n=3");
/// ```
#[must_use]
pub fn resolve_text<'t>(text: &'t str, scope: &Scope<'_>) -> Cow<'t, str> {
    if !is_templated(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Literal(literal) => out.push_str(literal),
            Piece::Expression(expression) => {
                if out.len() < MAX_RESOLVED_BYTES
                    && let Some(value) = scope.look_up(expression)
                {
                    print(&value, &mut out);
                }
            }
        }
    }
    Cow::Owned(out)
}

/// Resolves one string: a whole template keeps the type of what it names (`""` for nothing), any
/// other text stays text.
#[must_use]
pub fn resolve_string(text: &str, scope: &Scope<'_>) -> Value {
    match whole(text) {
        Some(expression) => match scope.look_up(expression).map(Cow::into_owned) {
            None | Some(Value::Null) => Value::String(String::new()),
            Some(value) => value,
        },
        None => Value::String(resolve_text(text, scope).into_owned()),
    }
}

/// Resolves every string inside a value; keys stay as they are, and so does what was filled in.
/// `None` when more than [`MAX_RESOLVED_BYTES`] would be filled in.
#[must_use]
pub fn resolve_value(value: Json<'_>, scope: &Scope<'_>) -> Option<Value> {
    resolve_where(value, scope, is_templated)
}

/// The same for the strings that are templates by what is known of them.
pub(crate) fn resolve_where(
    value: Json<'_>,
    scope: &Scope<'_>,
    is_template: impl Fn(&str) -> bool,
) -> Option<Value> {
    let mut value = value.to_value();
    let mut left = MAX_RESOLVED_BYTES;
    let mut open = vec![&mut value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) if is_template(text) => {
                let resolved = resolve_string(text, scope);
                left = left.checked_sub(size::of(&resolved).bytes)?;
                *value = resolved;
            }
            Value::Array(items) => open.extend(items.iter_mut()),
            Value::Object(members) => open.extend(members.values_mut()),
            _ => {}
        }
    }
    Some(value)
}

/// Prints a value as text: strings as they are, numbers as a browser prints them, containers as
/// bounded JSON.
pub(crate) fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&to_text(number.as_f64().unwrap_or(0.0))),
        Value::String(text) => out.push_str(text),
        Value::Array(_) | Value::Object(_) => {
            let mut json = String::new();
            let mut containers = 0;
            print_json(value, 0, &mut containers, &mut json);
            match json.char_indices().nth(MAX_PRINTED_CHARACTERS) {
                Some((end, _)) => {
                    out.push_str(&json[..end]);
                    out.push_str("...");
                }
                None => out.push_str(&json),
            }
        }
    }
}

/// Calls itself at most [`MAX_PRINTED_DEPTH`] times.
fn print_json(value: &Value, depth: usize, containers: &mut usize, out: &mut String) {
    let (is_array, len) = match value {
        Value::Array(items) => (true, items.len()),
        Value::Object(members) => (false, members.len()),
        Value::Number(number) => return out.push_str(&to_text(number.as_f64().unwrap_or(0.0))),
        scalar => {
            // Writing to a string cannot fail.
            let _ = write!(out, "{scalar}");
            return;
        }
    };
    *containers += 1;
    if depth >= MAX_PRINTED_DEPTH || *containers > MAX_PRINTED_CONTAINERS {
        out.push_str("\"[Truncated]\"");
        return;
    }
    out.push(if is_array { '[' } else { '{' });
    for index in 0..len {
        if out.len() > 4 * MAX_PRINTED_CHARACTERS {
            return;
        }
        if index > 0 {
            out.push(',');
        }
        match value {
            Value::Array(items) => print_json(&items[index], depth + 1, containers, out),
            Value::Object(members) => {
                if let Some((key, member)) = members.iter().nth(index) {
                    let _ = write!(out, "{}:", Value::from(key.as_str()));
                    print_json(member, depth + 1, containers, out);
                }
            }
            _ => {}
        }
    }
    out.push(if is_array { ']' } else { '}' });
}

/// Templates of a plan that can never give anything, and template syntax where none is read: the
/// first eight.
///
/// A dollar sign before braces is a problem only where a name follows, as in `${state.n}`: a
/// template of another language. `${12}` is a price.
#[must_use]
pub fn problems(plan: &Plan) -> Vec<Issue> {
    let mut found = Problems(Vec::new());
    if !plan.may_hold_templates() {
        return found.0;
    }
    for node in plan.walk() {
        let props = match node {
            Node::Text(text) => {
                found.look(&|| format!("{}/value", node.pointer()), text.value(), false);
                continue;
            }
            Node::Element(element) => element.props(),
            Node::Component(component) => component.props(),
        };
        for (_, value) in props.into_iter().flatten() {
            each_text(value, &mut |text| {
                found.look(&|| format!("{}/props", node.pointer()), text, false);
            });
        }
    }
    if let Some(initial) = plan.initial_state() {
        each_text(initial, &mut |text| found.look(&|| "/state/initial".to_owned(), text, true));
    }
    for (event, actions) in plan.transitions().into_iter().flatten() {
        for (index, action) in actions.as_array().into_iter().flatten().enumerate() {
            let at = || format!("{}/{index}", crate::guard::join("/state/transitions", event));
            let literal = action.get("value").filter(|value| value.get("$from").is_none());
            if let Some(value) = literal {
                each_text(value, &mut |text| found.look(&at, text, true));
            }
        }
    }
    found.0
}

struct Problems(Vec<Issue>);

impl Problems {
    /// Looks at one text; `literal` text is never resolved.
    fn look(&mut self, pointer: &dyn Fn() -> String, text: &str, literal: bool) {
        if holds_foreign_template(text) {
            return self.add(pointer, "the form ${…} is not read");
        }
        if !is_templated(text) {
            return;
        }
        if literal {
            return self.add(pointer, "a template is not resolved here");
        }
        let mut rest = text;
        let mut open = false;
        let mut expressions = 0;
        while let Some((before, expression, after)) = innermost(rest) {
            open |= before.contains("{{");
            expressions += 1;
            if !path::is_template_path(expression) {
                self.add(pointer, "this is not a path");
            }
            rest = after;
        }
        if open || expressions == 0 || rest.contains("{{") {
            self.add(pointer, "two braces open and do not close");
        }
    }

    fn add(&mut self, pointer: &dyn Fn() -> String, why: &str) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(Issue {
                code: codes::TEMPLATE_UNRESOLVABLE.name,
                pointer: pointer(),
                message: why.to_owned(),
                fix: codes::TEMPLATE_UNRESOLVABLE.fix.to_owned(),
            });
        }
    }
}

/// The first template without another brace inside, and what is around it: what a writer means,
/// where a reader might find another one.
fn innermost(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let close = from + text[from..].find("}}")?;
        let open = text[from..close].rfind("{{").map(|at| from + at);
        let inside = open.map(|open| &text[open + 2..close]);
        if let (Some(open), Some(inside)) = (open, inside)
            && !inside.is_empty()
            && !inside.contains(['{', '}'])
        {
            return Some((&text[..open], inside.trim(), &text[close + 2..]));
        }
        from = close + 1;
    }
}

/// Whether a text holds `${` with a name behind it.
fn holds_foreign_template(text: &str) -> bool {
    text.match_indices("${").any(|(at, _)| {
        text[at + 2..]
            .trim_start()
            .starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '$'))
    })
}

/// Whether a value holds a string of this kind.
pub(crate) fn any_text(value: Json<'_>, is: impl Fn(&str) -> bool) -> bool {
    let mut found = false;
    each_text(value, &mut |text| found |= is(text));
    found
}

pub(crate) fn each_text(value: Json<'_>, visit: &mut dyn FnMut(&str)) {
    if let Some(text) = value.as_text() {
        return visit(text);
    }
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if let Some(text) = value.as_text() {
            visit(text);
        } else if let Some(items) = value.as_array() {
            open.extend(items);
        } else if let Some(members) = value.as_object() {
            open.extend(members.map(|(_, member)| member));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(template: &str, want: &str) {
        let state = json!({"n": 1, "big": 1e21, "o": {"b": [1, "x"]}, "t": "{{n}}", "f": false});
        let variables = Map::new();
        let scope = Scope {
            state: state.as_object().unwrap(),
            event: None,
            user_id: "u1",
            variables: &variables,
        };
        assert_eq!(resolve_text(template, &scope), want, "{template}");
    }

    #[test]
    fn edges() {
        check("{{}}", "{{}}");
        check("{{ }}", "");
        check("{ {state.n} }", "{ {state.n} }");
        check("{{{state.n}}}", "}");
        check("{{state.n", "{{state.n");
        check("{{state.{{k}}}}", "}}");
        check("{{ state . n }}", "");
        check("{{state.n + 1}}", "");
        check("${state.n}", "${state.n}");
        check("{{state}}", "");
        check("{{t}}", "{{n}}");
        check("{{f}}{{n}}{{big}}", "false11e+21");
        check("{{o}} {{o.b.length}}", "{\"b\":[1,\"x\"]} 2");
        check("{{context.userId}}", "u1");
        check("{{a}b}} {{n}}", "{{a}b}} 1");
    }

    #[test]
    fn a_text_of_open_braces_takes_linear_time() {
        let text = "{{".repeat(200_000) + "}x";
        assert_eq!(pieces(&text).count(), 1);
    }
}
