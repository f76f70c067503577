//! One attempt, as its file tells it.
//!
//! Files are TOML, of which only what they need is read: texts, lists of texts, comments. Every
//! other form is an error with its place, so that no attempt is misread into passing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use glasshouse_sandbox::Profile;

/// What shows that an attempt succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// The payload ended with status 0.
    Status,
    /// The secret's content came out.
    Token,
    /// A path of the host came out.
    Path,
    /// A file appeared outside.
    Planted,
    /// A file appeared in the workspace after the command had ended.
    Late,
    /// The time of the host's null device changed.
    Device,
    /// Something outside was talked to.
    Contact,
    /// The first process ended.
    FirstProcess,
}

/// An attempt to get out.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) name: String,
    /// Program and arguments with placeholders in braces.
    pub(super) payload: Vec<String>,
    pub(super) sign: Sign,
    pub(super) profile: Profile,
    /// What the refusal says, when it is known.
    pub(super) refusal: Option<String>,
    /// Goes before the payload when it runs undefended.
    pub(super) control: Vec<String>,
    /// Why the control may fail here.
    skip: Option<String>,
    skip_rootless: Option<String>,
    /// Why it succeeds where an ordinary user runs Glasshouse.
    remains_rootless: Option<String>,
}

impl Attempt {
    /// Why the control may fail on this machine.
    pub(super) fn declared_skip(&self, root: bool) -> Option<&str> {
        let rootless = self.skip_rootless.as_deref().filter(|_| !root);
        rootless.or(self.skip.as_deref())
    }

    /// Why the attempt succeeds at the level reached.
    pub(super) fn remains(&self, root: bool) -> Option<&str> {
        self.remains_rootless.as_deref().filter(|_| !root)
    }
}

/// Reads every attempt of a directory, sorted by name.
pub(super) fn all(directory: &Path) -> Vec<Attempt> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        parse(name, &fs::read_to_string(path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    paths.iter().map(read).collect()
}

fn parse(name: &str, text: &str) -> Result<Attempt, String> {
    let mut fields = fields(text)?;
    let mut one = |key: &str| match fields.remove(key) {
        Some(Value::Text(text)) => Ok(Some(text)),
        Some(Value::List(_)) => Err(format!("`{key}` is a text, not a list")),
        None => Ok(None),
    };
    let story = one("story")?.ok_or("a story is missing")?;
    if story.trim().lines().count() < 3 {
        return Err("a story says what is wanted, how, and what stops it, in three lines".into());
    }
    let sign = match one("escaped")?.as_deref() {
        None => Sign::Status,
        Some("token") => Sign::Token,
        Some("path") => Sign::Path,
        Some("planted") => Sign::Planted,
        Some("late") => Sign::Late,
        Some("device") => Sign::Device,
        Some("contact") => Sign::Contact,
        Some("first process") => Sign::FirstProcess,
        Some(other) => return Err(format!("nothing is shown by `{other}`")),
    };
    let profile = match one("profile")?.as_deref() {
        None | Some("standard") => Profile::Standard,
        Some("strict") => Profile::Strict,
        Some(other) => return Err(format!("there is no profile `{other}`")),
    };
    let (refusal, skip) = (one("refusal")?, one("skip")?);
    let (skip_rootless, remains_rootless) = (one("skip_rootless")?, one("remains_rootless")?);
    let mut list = |key: &str| match fields.remove(key) {
        Some(Value::List(list)) => Ok(list),
        Some(Value::Text(_)) => Err(format!("`{key}` is a list, not a text")),
        None => Ok(Vec::new()),
    };
    let (payload, control) = (list("payload")?, list("control")?);
    if payload.is_empty() {
        return Err("a payload is missing".into());
    }
    if let Some(key) = fields.keys().next() {
        return Err(format!("nothing is called `{key}`"));
    }
    let name = name.to_owned();
    Ok(Attempt {
        name,
        payload,
        sign,
        profile,
        refusal,
        control,
        skip,
        skip_rootless,
        remains_rootless,
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    List(Vec<String>),
}

fn fields(text: &str) -> Result<BTreeMap<String, Value>, String> {
    let mut fields = BTreeMap::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(fields);
        }
        if rest.starts_with('#') {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        let (key, after) = rest.split_once('=').ok_or("a key has no value")?;
        let (value, after) = value(after.trim_start())?;
        if fields.insert(key.trim().to_owned(), value).is_some() {
            return Err(format!("`{}` is there twice", key.trim()));
        }
        rest = after;
    }
}

fn value(text: &str) -> Result<(Value, &str), String> {
    if let Some(text) = text.strip_prefix("\"\"\"\n") {
        let (inside, rest) = text.split_once("\"\"\"").ok_or("a text does not end")?;
        return Ok((Value::Text(inside.to_owned()), rest));
    }
    let Some(mut rest) = text.strip_prefix('[') else {
        let (text, rest) = quoted(text)?;
        return Ok((Value::Text(text), rest));
    };
    let mut list = Vec::new();
    loop {
        rest = rest.trim_start().trim_start_matches(',').trim_start();
        if let Some(rest) = rest.strip_prefix(']') {
            return Ok((Value::List(list), rest));
        }
        let (text, after) = quoted(rest)?;
        list.push(text);
        rest = after;
    }
}

fn quoted(text: &str) -> Result<(String, &str), String> {
    let inside = text.strip_prefix('"').ok_or("a text begins with a quotation mark")?;
    let mut out = String::new();
    let mut letters = inside.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((out, &inside[at + 1..])),
            '\n' => break,
            '\\' => match letters.next() {
                Some((_, quoted @ ('"' | '\\'))) => out.push(quoted),
                _ => return Err("only quotation marks and backslashes are escaped".into()),
            },
            other => out.push(other),
        }
    }
    Err("a text does not end".into())
}

#[test]
fn attempts_are_read_as_written_or_not_at_all() {
    let story = "story = \"\"\"\na\nb\nc\n\"\"\"\n";
    let check = |text: &str, expected: Result<&[&str], &str>| {
        let found = parse("name", &format!("{story}{text}"));
        match expected {
            Ok(payload) => assert_eq!(found.unwrap().payload, payload, "{text}"),
            Err(why) => assert!(found.unwrap_err().contains(why), "{text}"),
        }
    };
    check("payload = [\"sh\", \"-c\", \"a \\\"b\\\" \\\\ c\"]", Ok(&["sh", "-c", "a \"b\" \\ c"]));
    check("# a comment\npayload = [\n  \"a\",\n  \"b\",\n]\nskip = \"x\"\n", Ok(&["a", "b"]));
    check("", Err("payload is missing"));
    check("payload = \"sh\"", Err("is a list"));
    check("payload = [\"a\"]\nescaped = \"luck\"", Err("nothing is shown by"));
    check("payload = [\"a\"]\nprofile = \"lax\"", Err("no profile"));
    check("payload = [\"a\"]\nrefusel = \"x\"", Err("nothing is called `refusel`"));
    check("payload = [\"a\"]\npayload = [\"b\"]", Err("twice"));
    check("payload = [\"a\\n\"]", Err("escaped"));
    check("payload = [\"a", Err("does not end"));
    check("payload = [true]", Err("quotation mark"));
    assert!(parse("name", "story = \"short\"\npayload = [\"a\"]").unwrap_err().contains("three"));
}
