//! JSON Schemas of types that are written as texts.

/// Gives a type that serialises as a text the schema of such a text.
macro_rules! text_schema {
    ($type:ty, $name:expr, $pattern:expr, $description:expr) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "pattern": $pattern,
                    "description": $description,
                })
            }
        }
    };
}
