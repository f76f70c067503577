//! What models are told about the tools, as a golden file that reviewers read as a diff.

use glasshouse_tools::Registry;

/// Set to any value to rewrite the golden file.
const REWRITE: &str = "GLASSHOUSE_REWRITE_GOLDEN";

#[test]
fn the_schemas_are_the_golden_ones() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/schemas.json");
    let specs = Registry::builtin().specs(&|_| true);
    let seen = serde_json::to_string_pretty(&specs).unwrap() + "\n";
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(path, &seen).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(seen, golden, "if the change is meant, run again with {REWRITE}=1");
}

/// Some providers refuse schemas that use more than this of JSON Schema.
#[test]
fn schemas_keep_to_what_every_provider_accepts() {
    fn check(schema: &serde_json::Value) {
        const KEYWORDS: [&str; 14] = [
            "type",
            "description",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "default",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "enum",
        ];
        for (keyword, value) in schema.as_object().unwrap() {
            assert!(KEYWORDS.contains(&keyword.as_str()), "{keyword} in {schema}");
            match keyword.as_str() {
                "properties" => value.as_object().unwrap().values().for_each(check),
                "items" => check(value),
                "type" => assert!(value.is_string(), "{schema}"),
                _ => {}
            }
        }
    }
    for spec in Registry::builtin().specs(&|_| true) {
        check(&spec.parameters);
        for (name, property) in spec.parameters["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{} {name}", spec.name);
        }
    }
}

/// Names and summaries of all tools are always in the model's context, so they are few words.
#[test]
fn the_tools_cost_few_tokens() {
    let specs = Registry::builtin().specs(&|_| true);
    let summaries: usize = specs.iter().map(|spec| spec.name.len() + spec.description.len()).sum();
    let schemas: usize = specs.iter().map(|spec| spec.parameters.to_string().len()).sum();
    assert!(summaries / 4 < 500, "{summaries} bytes of summaries");
    assert!((summaries + schemas) / 4 < 3_000, "{schemas} bytes of schemas");
}
