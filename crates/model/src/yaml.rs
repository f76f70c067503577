//! What no file of ours may hold though YAML has it: marks that make a value another than the one that is read.
//!
//! A tag decodes its value (`!!binary YWxsb3c=` is `allow`), or is left out without a word (`!deny allow`). Whoever
//! reads a file before accepting it sees neither.

use std::fmt;

use granit_parser::{Event, Marker, Options, Parser, Span, Tag};

/// A mark that stands in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What it is.
    pub kind: MarkKind,
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

/// The kinds of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// `!name`, `!!name` or `!<name>`.
    Tag,
    /// `&name`.
    Anchor,
    /// `*name`.
    Alias,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            MarkKind::Tag => "a tag (`!`): quote a text that begins so",
            MarkKind::Anchor => "an anchor (`&`): quote a text that begins so",
            MarkKind::Alias => "an alias (`*`): quote a text that begins so",
        })
    }
}

/// The first mark of a text. What is no YAML is left to its reader, which says why.
///
/// ```
/// use glasshouse_model::yaml::first_mark;
/// let mark = first_mark("a: 1\nb: !!binary YWxsb3c=\n").unwrap();
/// assert_eq!((mark.line, mark.column), (2, 4));
/// assert_eq!(first_mark("a: '!!binary x'\n"), None);
/// ```
#[must_use]
pub fn first_mark(text: &str) -> Option<Mark> {
    let mut options = Options::default();
    options.emit_anchor_events = true;
    options.emit_unresolved_aliases = true;
    Parser::new_from_str_with_options(text, options)
        .map_while(Result::ok)
        .find_map(|(event, span)| mark(&event, &span))
}

/// The first tag of a text, for files whose values may stand in several places.
///
/// # Errors
/// Says where it stands.
pub fn refuse_tags(text: &str) -> Result<(), String> {
    let tag = Parser::new_from_str(text)
        .map_while(Result::ok)
        .filter_map(|(event, span)| mark(&event, &span))
        .find(|mark| mark.kind == MarkKind::Tag);
    match tag {
        None => Ok(()),
        Some(tag) => Err(format!("{tag} at line {}, column {}", tag.line, tag.column)),
    }
}

fn mark(event: &Event<'_>, span: &Span) -> Option<Mark> {
    let tagged = |tag: &Option<std::borrow::Cow<'_, Tag>>| {
        tag.as_ref().map(|_| (MarkKind::Tag, span.tag_start.unwrap_or(span.start)))
    };
    let (kind, place): (MarkKind, Marker) = match event {
        Event::Scalar(_, _, _, tag)
        | Event::SequenceStart(_, _, tag)
        | Event::MappingStart(_, _, tag) => tagged(tag)?,
        Event::Anchor(..) => (MarkKind::Anchor, span.start),
        Event::Alias(_) | Event::UnresolvedAlias(_) => (MarkKind::Alias, span.start),
        _ => return None,
    };
    Some(Mark { kind, line: place.line() as u64, column: place.col() as u64 + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_found_where_it_stands() {
        let check = |text: &str, expected: Option<(MarkKind, u64, u64)>| {
            let found = first_mark(text).map(|mark| (mark.kind, mark.line, mark.column));
            assert_eq!(found, expected, "{text:?}");
            let is_tag = matches!(expected, Some((MarkKind::Tag, ..)));
            assert_eq!(refuse_tags(text).is_err(), is_tag, "{text:?}");
        };
        check("a: !!binary YWxsb3c=", Some((MarkKind::Tag, 1, 4)));
        check("a: !deny allow", Some((MarkKind::Tag, 1, 4)));
        check("a: !include x.txt", Some((MarkKind::Tag, 1, 4)));
        check("a: !!set {x, y}", Some((MarkKind::Tag, 1, 4)));
        check("a: ! allow", Some((MarkKind::Tag, 1, 4)));
        check("a: !<tag:x> allow", Some((MarkKind::Tag, 1, 4)));
        check("%TAG !e! tag:x,1:\n---\na: !e!b c", Some((MarkKind::Tag, 3, 4)));
        check("a:\n  - b\n  - !!str 1", Some((MarkKind::Tag, 3, 5)));
        check("!!map\na: b", Some((MarkKind::Tag, 1, 1)));
        check("a: !!seq [b]", Some((MarkKind::Tag, 1, 4)));
        check("!!str a: b", Some((MarkKind::Tag, 1, 1)));
        check("a: !!null", Some((MarkKind::Tag, 1, 4)));
        check("a: &x b\nc: *x", Some((MarkKind::Anchor, 1, 4)));
        check("a: &x\n  - b", Some((MarkKind::Anchor, 1, 4)));
        check("a: *x", Some((MarkKind::Alias, 1, 4)));
        // The control: the same signs in texts, and what is no YAML.
        check("a: '!deny allow'", None);
        check("a: b !c &d *e", None);
        check("a: [ \"!x\", '&y', \"*z\" ] # !c", None);
        check("a: |\n  !!binary x\n  &y", None);
        check("a: [", None);
        check("", None);
    }
}
