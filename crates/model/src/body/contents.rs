//! Which contents outside the log an event names: what a proof reads, an export carries and an import lacks.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{Digest, Kind};

/// Members that hold what somebody else wrote, or digests of no content. A name in them names nothing:
/// whoever can enter a text into an interface would say otherwise that the log lost something.
const FREE: &[&str] = &["attestation", "binding", "error", "event", "issues", "matching", "values"];
/// The member under which a manifest is named.
const MANIFEST: &str = "manifest";

/// Content that an event names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedBlob {
    /// Digest under which it is stored.
    pub digest: Digest,
    /// Whether it is a manifest, which names files in turn; see [`sealed_files`].
    pub is_manifest: bool,
}

/// The contents that an event names: digests in members called `blob`, however deep, but not in what
/// somebody else wrote. Of kinds of another version nobody knows which members are free, so all count.
///
/// ```
/// use glasshouse_model::body::named_blobs;
/// use glasshouse_model::{Digest, Kind};
///
/// let digest = Digest::of(b"a content");
/// let body = format!(r#"{{"manifest": {{"blob": "{digest}", "bytes": 9}}}}"#);
/// let named = named_blobs(&Kind::WorkspaceSealed, body.as_bytes());
/// assert_eq!((named[0].digest, named[0].is_manifest), (digest, true));
/// ```
#[must_use]
pub fn named_blobs(kind: &Kind, body: &[u8]) -> Vec<NamedBlob> {
    let mut named = Vec::new();
    if let Ok(body) = serde_json::from_slice(body) {
        let free = if matches!(kind, Kind::Other(_)) { &[] } else { FREE };
        collect(&body, false, free, &mut named);
    }
    named
}

fn collect(value: &Value, is_manifest: bool, free: &[&str], named: &mut Vec<NamedBlob>) {
    match value {
        Value::Object(members) => {
            let digest = members.get("blob").and_then(Value::as_str);
            let digest = digest.and_then(|text| text.parse::<Digest>().ok());
            named.extend(digest.map(|digest| NamedBlob { digest, is_manifest }));
            for (name, value) in members.iter().filter(|(name, _)| !free.contains(&name.as_str())) {
                collect(value, name == MANIFEST, free, named);
            }
        }
        Value::Array(values) => {
            values.iter().for_each(|value| collect(value, false, free, named));
        }
        _ => {}
    }
}

/// The digests of the files that a manifest of a workspace names. Of what is no manifest, none.
#[must_use]
pub fn sealed_files(manifest: &[u8]) -> Vec<Digest> {
    #[derive(Deserialize)]
    struct Manifest {
        entries: BTreeMap<String, Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        kind: String,
        digest: Option<Digest>,
    }
    let Ok(manifest) = serde_json::from_slice::<Manifest>(manifest) else { return Vec::new() };
    let files = manifest.entries.into_values().filter(|entry| entry.kind == "file");
    files.filter_map(|entry| entry.digest).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::body::schema;

    #[test]
    fn what_somebody_else_wrote_names_nothing() {
        let digest = Digest::of(b"content");
        let blob = json!({"blob": digest, "bytes": 7});
        let check = |kind: &str, body: Value, expected: usize| {
            let kind: Kind = serde_json::from_value(json!(kind)).unwrap();
            let named = named_blobs(&kind, body.to_string().as_bytes());
            assert_eq!(named.len(), expected, "{body}");
        };
        check("plan.registered", json!({"text": blob}), 1);
        check("plan.state_changed", json!({"stored": blob}), 1);
        check("plan.state_changed", json!({"values": {"x": blob}}), 0);
        check("plan.event", json!({"event": {"payload": blob}}), 0);
        check("plan.rendered", json!({"run": {"event": blob, "given": blob}}), 1);
        check("branch.merged", json!({"resolved": {"workspace": {"manifest": blob}}}), 1);
        check("x.later", json!({"event": [blob]}), 1);
        check("plan.registered", json!({"text": {"blob": "no digest"}}), 0);
        assert!(named_blobs(&Kind::PlanEvent, b"{").is_empty());
    }

    /// Holds [`FREE`] to the bodies: every member of any form is in it, and none that can hold a reference.
    #[test]
    fn the_free_members_are_those_of_any_form() {
        let schema = schema();
        let mut found = Found::default();
        found.walk(&schema["$defs"], &schema);
        // What came of a merge is made of references.
        let free: BTreeSet<_> = FREE.iter().copied().chain(["resolved"]).collect();
        let any: BTreeSet<_> = found.of_any_form.iter().map(String::as_str).collect();
        assert_eq!(any, free);
        let holding: Vec<_> =
            found.holding.iter().filter(|name| free.contains(name.as_str())).collect();
        assert!(holding.is_empty(), "{holding:?}");
        assert!(found.holding.contains("manifest"), "the walk found the references");
    }

    #[derive(Default)]
    struct Found {
        of_any_form: BTreeSet<String>,
        holding: BTreeSet<String>,
    }

    impl Found {
        /// Looks at the properties of every definition.
        fn walk(&mut self, schema: &Value, whole: &Value) {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                for (name, member) in properties {
                    let is_any = |schema: &Value| {
                        *schema == json!(true)
                            || schema.as_object().is_some_and(|schema| {
                                let says = |word: &&String| {
                                    !matches!(word.as_str(), "description" | "default")
                                };
                                !schema.keys().any(|key| says(&key))
                            })
                    };
                    let of_map = member.get("additionalProperties");
                    if is_any(member)
                        || of_map.is_some_and(|of_map| {
                            of_map.is_boolean() && of_map == true
                                || of_map.is_object() && is_any(of_map)
                        })
                    {
                        self.of_any_form.insert(name.clone());
                    }
                    if holds_reference(member, whole, 0) {
                        self.holding.insert(name.clone());
                    }
                }
            }
            match schema {
                Value::Object(members) => {
                    members.values().for_each(|member| self.walk(member, whole))
                }
                Value::Array(members) => members.iter().for_each(|member| self.walk(member, whole)),
                _ => {}
            }
        }
    }

    /// Whether a value of this form may hold a `BlobRef`.
    fn holds_reference(schema: &Value, whole: &Value, depth: usize) -> bool {
        if depth > 24 {
            return false;
        }
        match schema {
            Value::Object(members) => members.iter().any(|(name, member)| {
                if name == "$ref"
                    && let Some(place) = member.as_str()
                {
                    let target =
                        whole.pointer(place.trim_start_matches('#')).expect("a definition");
                    return place.ends_with("/BlobRef")
                        || holds_reference(target, whole, depth + 1);
                }
                holds_reference(member, whole, depth + 1)
            }),
            Value::Array(members) => {
                members.iter().any(|member| holds_reference(member, whole, depth + 1))
            }
            _ => false,
        }
    }

    #[test]
    fn a_manifest_names_its_files() {
        let digest = Digest::of(b"x");
        let manifest = json!({"base": digest, "removed": ["a"], "entries": {
            "a": {"kind": "file", "executable": false, "digest": digest, "size_bytes": 1},
            "b": {"kind": "symlink", "target": "a"},
            "c": {"kind": "special", "what": "fifo"},
            "d": {"kind": "dir"},
        }});
        assert_eq!(sealed_files(manifest.to_string().as_bytes()), [digest]);
        assert!(sealed_files(b"{}").is_empty());
        assert!(sealed_files(b"\xff").is_empty());
    }
}
