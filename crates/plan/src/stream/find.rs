//! The finder: where in a model's answer the plan is. Each character is looked at once.
//!
//! A plan is the first JSON object that begins as one, in a fence, in a sentence or alone. What is
//! around it is kept as text. An object that turns out to be something else is text, too.

use super::Source;

/// Most text around the plan that is kept, in bytes; the rest is counted.
const MAX_PROSE_BYTES: usize = 64 * 1024;
/// Longest word behind the ticks of a fence.
const MAX_LANGUAGE_BYTES: usize = 32;
/// Languages in which a fence holds code for a plan, short and long names.
const LANGUAGES: &[(&str, &str)] = &[
    ("tsx", "tsx"),
    ("jsx", "jsx"),
    ("ts", "ts"),
    ("js", "js"),
    ("typescript", "ts"),
    ("javascript", "js"),
];

/// Where in a line the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// At its start, behind this many ticks.
    Ticks(u8),
    Inside,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Prose(Line),
    /// Behind the ticks of a fence.
    Language(String),
    Code {
        language: &'static str,
        line: Line,
    },
}

/// What a piece of text leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// All of it was text.
    Text,
    /// An object begins at this byte.
    Object(usize),
}

pub(super) struct Finder {
    place: Place,
    prose: String,
    prose_left_out: usize,
    code: String,
    source: Option<Source>,
    max_code_bytes: usize,
}

impl Finder {
    pub(super) fn new(max_code_bytes: usize) -> Self {
        Self {
            place: Place::Prose(Line::Ticks(0)),
            prose: String::new(),
            prose_left_out: 0,
            code: String::new(),
            source: None,
            max_code_bytes,
        }
    }

    /// Looks at text until an object begins.
    pub(super) fn search(&mut self, piece: &str) -> Step {
        let mut kept = 0;
        for (at, character) in piece.char_indices() {
            match &mut self.place {
                Place::Prose(_) if character == '{' => {
                    self.keep(&piece[kept..at]);
                    return Step::Object(at);
                }
                Place::Prose(line) => {
                    if next_line(line, character) {
                        self.place = Place::Language(String::new());
                    }
                }
                Place::Language(word) if character == '\n' => {
                    let word = word.trim().to_ascii_lowercase();
                    let found = LANGUAGES.iter().find(|(name, _)| *name == word);
                    self.place = match found {
                        Some((_, language)) if self.source.is_none() => {
                            self.keep(&piece[kept..=at]);
                            self.code.clear();
                            Place::Code { language, line: Line::Ticks(0) }
                        }
                        _ => Place::Prose(Line::Ticks(0)),
                    };
                    if matches!(self.place, Place::Code { .. }) {
                        kept = at + 1;
                    }
                }
                Place::Language(word) => {
                    word.push(character);
                    if character == '{' || word.len() > MAX_LANGUAGE_BYTES {
                        self.place = Place::Prose(Line::Inside);
                        if character == '{' {
                            self.keep(&piece[kept..at]);
                            return Step::Object(at);
                        }
                    }
                }
                Place::Code { language, line } => {
                    let language = *language;
                    if self.code.len() < self.max_code_bytes {
                        self.code.push(character);
                    }
                    if next_line(line, character) {
                        let code = self.code.trim_end_matches('`').to_owned();
                        self.source = Some(Source { language, code });
                        self.place = Place::Prose(Line::Inside);
                    }
                    kept = at + character.len_utf8();
                }
            }
        }
        self.keep(&piece[kept..]);
        Step::Text
    }

    /// Takes what was read as an object as text.
    pub(super) fn give_back(&mut self, text: &str) {
        self.keep(text);
        self.place = Place::Prose(Line::Inside);
    }

    /// Takes text without looking for anything in it.
    pub(super) fn keep(&mut self, text: &str) {
        let mut room = MAX_PROSE_BYTES.saturating_sub(self.prose.len()).min(text.len());
        while !text.is_char_boundary(room) {
            room -= 1;
        }
        self.prose.push_str(&text[..room]);
        self.prose_left_out += text.len() - room;
    }

    /// The text so far, without the beginning of a fence at its end.
    pub(super) fn take_before(&mut self) -> String {
        let text = std::mem::take(&mut self.prose);
        let text = text.trim();
        let fence = text.rsplit_once("```");
        let opens = fence.filter(|(_, word)| !word.contains([' ', '\n']));
        opens.map_or(text, |(before, _)| before).trim().to_owned()
    }

    /// The text since then, without the end of the fence that the plan stood in.
    pub(super) fn take_after(&mut self) -> String {
        let text = std::mem::take(&mut self.prose);
        let text = text.trim();
        text.strip_prefix("```").unwrap_or(text).trim().to_owned()
    }

    pub(super) fn take_source(&mut self) -> Option<Source> {
        self.source.take()
    }
}

/// Moves on in a line; true behind the third tick at its start.
fn next_line(line: &mut Line, character: char) -> bool {
    *line = match (*line, character) {
        (_, '\n') => Line::Ticks(0),
        (Line::Ticks(2), '`') => return true,
        (Line::Ticks(ticks), '`') => Line::Ticks(ticks + 1),
        (Line::Ticks(0), ' ') => Line::Ticks(0),
        _ => Line::Inside,
    };
    false
}
