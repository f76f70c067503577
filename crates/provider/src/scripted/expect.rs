//! What a step expects of its request.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{SeqAccess, Visitor, value::SeqAccessDeserializer};

use crate::peer::excerpt;
use crate::{Message, ModelRequest};

/// The conditions of one step; all of them must hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Expect {
    /// Texts that the user's messages hold, each in any of them.
    user_contains: Texts,
    /// Texts that the system prompt holds.
    system_contains: Texts,
    /// What became of calls: scenario call id to status.
    pub(super) results: BTreeMap<String, String>,
    /// Texts that a call's result holds.
    pub(super) result_contains: BTreeMap<String, Texts>,
    /// Texts that a call's result must not hold.
    pub(super) result_lacks: BTreeMap<String, Texts>,
    /// Tools that are offered.
    tools_include: Texts,
    /// Tools that must not be offered.
    tools_exclude: Texts,
    /// Exact number of messages, the system prompt not counted.
    message_count: Option<usize>,
}

impl Expect {
    /// Every condition that does not hold, with what was there instead.
    pub(super) fn unmet(&self, request: &ModelRequest) -> Vec<String> {
        let mut unmet = Vec::new();
        self.check_texts(request, &mut unmet);
        self.check_results(request, &mut unmet);
        let offered: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        for tool in &self.tools_include.0 {
            if !offered.contains(&tool.as_str()) {
                unmet.push(format!(
                    "tools_include: `{tool}` is not offered, only `{}`",
                    excerpt(&offered.join(" "))
                ));
            }
        }
        for tool in &self.tools_exclude.0 {
            if offered.contains(&tool.as_str()) {
                unmet.push(format!("tools_exclude: `{tool}` is offered"));
            }
        }
        let count = request.messages.len();
        if let Some(expected) = self.message_count.filter(|expected| *expected != count) {
            unmet.push(format!("message_count: {count} messages, not {expected}"));
        }
        unmet
    }

    fn check_texts(&self, request: &ModelRequest, unmet: &mut Vec<String>) {
        let said: Vec<&str> = request
            .messages
            .iter()
            .filter_map(|message| match message {
                Message::User { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        for text in &self.user_contains.0 {
            if !said.iter().any(|message| message.contains(text)) {
                let last = said.last().map_or("nothing", |last| last);
                unmet.push(format!(
                    "user_contains: no message of the user holds `{}`; the last is `{}`",
                    excerpt(text),
                    excerpt(last)
                ));
            }
        }
        for text in &self.system_contains.0 {
            if !request.system.contains(text) {
                unmet.push(format!(
                    "system_contains: the system prompt lacks `{}`; it begins `{}`",
                    excerpt(text),
                    excerpt(&request.system)
                ));
            }
        }
    }

    fn check_results(&self, request: &ModelRequest, unmet: &mut Vec<String>) {
        // A call has one result; should a conversation hold two, the later one counts.
        let result = |wanted: &str| {
            request.messages.iter().rev().find_map(|message| match message {
                Message::ToolResult { id, content, status } if id == wanted => {
                    Some((status.as_str(), content.as_str()))
                }
                _ => None,
            })
        };
        let absent = |condition: &str, id: &str| format!("{condition}.{id}: there is no result");
        for (id, expected) in &self.results {
            match result(id) {
                Some((status, _)) if status == expected => {}
                Some((status, content)) => unmet.push(format!(
                    "results.{id}: `{status}`, not `{expected}`; it says `{}`",
                    excerpt(content)
                )),
                None => unmet.push(absent("results", id)),
            }
        }
        for (condition, texts, must_hold) in [
            ("result_contains", &self.result_contains, true),
            ("result_lacks", &self.result_lacks, false),
        ] {
            for (id, texts) in texts {
                let Some((_, content)) = result(id) else {
                    unmet.push(absent(condition, id));
                    continue;
                };
                for text in texts.0.iter().filter(|text| content.contains(*text) != must_hold) {
                    let verb = if must_hold { "lacks" } else { "holds" };
                    unmet.push(format!(
                        "{condition}.{id}: the result {verb} `{}`; it says `{}`",
                        excerpt(text),
                        excerpt(content)
                    ));
                }
            }
        }
    }
}

/// One text or a list of them.
#[derive(Debug, Default)]
pub(super) struct Texts(Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, texts: A) -> Result<Texts, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(texts)).map(Texts)
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}
