//! Which tools' arguments a model is told in full.
//!
//! Every tool is named with its summary in every request. Schemas are most of what tools cost; while
//! they fit a limit all are there, above it the dearest wait until the model loads them by a call.
//! What it loaded last stays longest.

use glasshouse_model::body::{CallStatus, ToolProposed};
use glasshouse_model::syscall::name::TOOLS_LOAD;
use glasshouse_provider::ToolSpec;
use glasshouse_tools::{Arguments, parse_arguments};
use serde_json::json;

use super::State;
use super::compaction::estimate;

/// Tokens that schemas may take when the session names no limit.
const MAX_SCHEMA_TOKENS: u64 = 3_000;
/// Most tools that are kept as loaded; far more than fit a request.
const MAX_LOADED: usize = 64;

/// The tools as the next request tells them, in their own order.
pub(super) fn shown(state: &State, tools: &[ToolSpec]) -> Vec<ToolSpec> {
    let settings = state.created.as_ref().map(|created| &created.settings);
    let most = settings.and_then(|own| own.schema_tokens).unwrap_or(MAX_SCHEMA_TOKENS);
    let others: Vec<_> = tools.iter().filter(|tool| tool.name != TOOLS_LOAD).collect();
    let is_small = others.iter().map(|tool| cost(tool)).sum::<u64>() <= most;
    if is_small || others.len() == tools.len() {
        return others.into_iter().cloned().collect();
    }
    let full = in_full(&others, &state.loaded_tools, most);
    let told = |tool: &ToolSpec| match tool.name == TOOLS_LOAD || full.contains(&tool.name.as_str())
    {
        true => tool.clone(),
        false => ToolSpec {
            name: tool.name.clone(),
            description: format!(
                "{} Call {TOOLS_LOAD} first to see its arguments.",
                tool.description
            ),
            parameters: json!({"type": "object", "properties": {}}),
        },
    };
    tools.iter().map(told).collect()
}

/// The names of the tools whose schemas fit: what was loaded last comes first and is always there,
/// then earlier ones, then the cheapest.
fn in_full<'t>(tools: &[&'t ToolSpec], loaded: &[String], most: u64) -> Vec<&'t str> {
    // How long ago it was loaded, then what it costs.
    let mut order: Vec<(usize, u64, &str)> = tools
        .iter()
        .map(|tool| {
            let age = loaded.iter().rev().position(|name| *name == tool.name);
            (age.unwrap_or(usize::MAX), cost(tool), tool.name.as_str())
        })
        .collect();
    order.sort_unstable();
    let mut spent = 0;
    let mut full = Vec::new();
    for (age, cost, name) in order {
        let sum = cost.saturating_add(spent);
        if sum <= most || (full.is_empty() && age < usize::MAX) {
            spent = sum;
            full.push(name);
        }
    }
    full
}

/// What a schema costs in a request, in tokens.
fn cost(tool: &ToolSpec) -> u64 {
    estimate(tool.parameters.to_string().len())
}

/// Notes the tools that a call loaded.
pub(super) fn note_loaded(loaded: &mut Vec<String>, call: &ToolProposed, status: CallStatus) {
    if call.tool != TOOLS_LOAD || status != CallStatus::Completed {
        return;
    }
    if let Ok(Arguments::ToolsLoad { names }) = parse_arguments(&call.tool, &call.arguments) {
        for name in names {
            loaded.retain(|earlier| *earlier != name);
            loaded.push(name);
        }
        let surplus = loaded.len().saturating_sub(MAX_LOADED);
        loaded.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool whose schema costs about so many tokens.
    fn tool(name: &str, tokens: usize) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: format!("Does {name}."),
            parameters: json!({"type": "object", "description": "x".repeat(tokens * 4)}),
        }
    }

    fn with_loader(mut tools: Vec<ToolSpec>) -> Vec<ToolSpec> {
        tools.push(tool(TOOLS_LOAD, 10));
        tools
    }

    /// The names of the tools that are told in full, after some were loaded.
    fn full(tools: &[ToolSpec], loaded: &[&str]) -> Vec<String> {
        let loaded_tools = loaded.iter().map(|name| (*name).to_owned()).collect();
        let state = State { loaded_tools, ..State::default() };
        let shown = shown(&state, tools);
        for (told, tool) in shown.iter().zip(tools) {
            assert_eq!(told.name, tool.name, "each is named, in its place");
            assert!(told.description.starts_with(&tool.description), "{}", told.description);
        }
        shown.iter().filter(|told| tools.contains(told)).map(|told| told.name.clone()).collect()
    }

    #[test]
    fn a_small_set_is_told_whole_and_needs_no_loading() {
        let tools = with_loader(vec![tool("a", 100), tool("b", 2_000)]);
        assert_eq!(full(&tools, &[]), ["a", "b"]);
        assert_eq!(shown(&State::default(), &tools).len(), 2, "nothing is to be loaded");
    }

    #[test]
    fn the_dearest_schemas_of_a_large_set_wait_to_be_loaded() {
        let tools = with_loader(vec![
            tool("large", 2_500),
            tool("small", 200),
            tool("middle", 1_000),
            tool("huge", 9_000),
        ]);
        let check = |loaded: &[&str], expected: &[&str]| {
            assert_eq!(full(&tools, loaded), expected, "{loaded:?}");
        };
        check(&[], &["small", "middle", TOOLS_LOAD]);
        check(&["large"], &["large", "small", TOOLS_LOAD]);
        // The latest is there even if it alone is too much.
        check(&["large", "huge"], &["huge", TOOLS_LOAD]);
        check(&["huge", "large"], &["large", "small", TOOLS_LOAD]);
        check(&["unknown"], &["small", "middle", TOOLS_LOAD]);
    }

    #[test]
    fn a_thousand_tools_cost_their_names() {
        let many = with_loader((0..1_000).map(|n| tool(&format!("t{n:03}"), 500)).collect());
        let told: u64 = shown(&State::default(), &many).iter().map(cost).sum();
        let whole: u64 = many.iter().map(cost).sum();
        assert!(told < MAX_SCHEMA_TOKENS + 1_000 * 12, "{told} of {whole}");
    }

    #[test]
    fn loading_is_noted_once_and_bounded() {
        let mut loaded = Vec::new();
        let mut load = |names: &[&str], status: CallStatus| {
            let call = ToolProposed {
                id: "1".to_owned(),
                tool: TOOLS_LOAD.to_owned(),
                arguments: json!({ "names": names }).to_string(),
                masked: false,
            };
            note_loaded(&mut loaded, &call, status);
            loaded.clone()
        };
        assert_eq!(load(&["a", "b"], CallStatus::Completed), ["a", "b"]);
        assert_eq!(load(&["a"], CallStatus::Completed), ["b", "a"]);
        assert_eq!(load(&["c"], CallStatus::Denied), ["b", "a"]);
        let names: Vec<_> = (0..=MAX_LOADED).map(|n| n.to_string()).collect();
        for name in &names {
            load(&[name], CallStatus::Completed);
        }
        assert_eq!(load(&["last"], CallStatus::Completed).len(), MAX_LOADED);
    }
}
