//! The conditions of `match` and `except`.

use glasshouse_model::syscall::name;
use glasshouse_model::workflow::State;
use glasshouse_model::{ChangeClass, Effect, suggest};

use super::check_items;
use crate::codes;
use crate::error::Result;
use crate::network::{HostPattern, HttpPathPattern};
use crate::patterns::PathPatterns;
use crate::rule::{
    CallerPattern, CommandPatterns, Condition, Conditions, KNOWN_SYSCALLS, LabelPattern, NoSyscall,
    check_syscall,
};
use crate::sketch::{CALLER_KINDS, caller_words};
use crate::yaml::{Kind, Node, Reader};

pub(crate) const MATCH_KEYS: &[&str] = &[
    "syscall",
    "caller_tag",
    "path_glob",
    "state_machine_state",
    "host",
    "port",
    "method",
    "http_path",
    "argv_prefix",
    "argv",
    "plugin",
    "size_over",
    "tenant",
    "caller",
    "label",
    "change",
];

/// Reads the `match` of a rule of this effect, in a file or in a grant.
pub(crate) fn of_rule(reader: &Reader<'_>, node: &Node, effect: Effect) -> Result<Conditions> {
    let when = read(reader, node, effect != Effect::Allow)?;
    let connects =
        when.syscalls().is_some_and(|names| names.iter().any(|one| **one == *name::NET_CONNECT));
    if effect == Effect::Allow && connects && !when.names_hosts() {
        return Err(reader
            .error(codes::BAD_VALUE, node, "connections allowed without `host`")
            .why("the rule would open every host there is")
            .fix("list the hosts under `host` or `network_whitelist`"));
    }
    Ok(when)
}

/// Reads a map of conditions. `wide`: matching more makes the decision stricter.
pub(crate) fn read(reader: &Reader<'_>, node: &Node, wide: bool) -> Result<Conditions> {
    let fields = reader.map(node, "the conditions of a rule", MATCH_KEYS)?;
    let mut conditions = Vec::new();
    for (key, node) in fields.iter() {
        conditions.push(match key {
            "syscall" => Condition::Syscall(items(reader, node, key, syscall)?),
            "path_glob" => Condition::Path(paths(reader, node)?),
            "state_machine_state" => Condition::State(items(reader, node, key, state)?),
            "caller" => Condition::Caller(items(reader, node, key, caller)?),
            "caller_tag" => Condition::CallerTag(items(reader, node, key, plain(key))?),
            "tenant" => Condition::Tenant(items(reader, node, key, plain(key))?),
            "label" => Condition::Label(items(reader, node, key, label)?),
            "method" => Condition::Method(items(reader, node, key, plain(key))?),
            "host" => Condition::Host(items(reader, node, key, |reader, node| {
                host(reader, node, reader.text(node, key)?, wide)
            })?),
            "port" => Condition::Port(match node.kind {
                Kind::Integer(_) => vec![port(reader, node)?],
                _ => items(reader, node, key, port)?,
            }),
            "http_path" => Condition::HttpPath(items(reader, node, key, http_path)?),
            "plugin" => Condition::Plugin(items(reader, node, key, plain(key))?),
            "size_over" => Condition::SizeOver(size(reader, node)?),
            "change" => Condition::Change(items(reader, node, key, change)?),
            _ => {
                let prefixes = items(reader, node, key, prefix)?;
                Condition::Command(CommandPatterns { prefixes, exact: key == "argv", wide })
            }
        });
    }
    Ok(Conditions::new(conditions))
}

/// Sorted and without repetition, so that equal conditions compare equal however they are written.
fn items<T: Ord>(
    reader: &Reader<'_>,
    node: &Node,
    key: &str,
    read: impl Fn(&Reader<'_>, &Node) -> Result<T>,
) -> Result<Vec<T>> {
    let nodes = reader.one_or_many(node, key)?;
    check_items(reader, node, nodes.len())?;
    let mut out = nodes.into_iter().map(|item| read(reader, item)).collect::<Result<Vec<T>>>()?;
    out.sort();
    out.dedup();
    Ok(out)
}

/// A whole word, of the key that is named.
fn plain(key: &str) -> impl Fn(&Reader<'_>, &Node) -> Result<Box<str>> {
    move |reader, node| whole_word(reader, node, key)
}

fn whole_word(reader: &Reader<'_>, node: &Node, key: &str) -> Result<Box<str>> {
    let text = reader.text(node, key)?;
    if text.contains('*') {
        return Err(reader
            .error(codes::BAD_VALUE, node, format!("`{text}` holds a wildcard"))
            .why("this key compares whole words")
            .fix("write whole words, several as a list: [a, b]"));
    }
    // What no name has makes a rule that never matches.
    if text.contains(|c: char| c.is_whitespace() || c == ',') {
        return Err(reader
            .error(codes::BAD_VALUE, node, format!("`{text}` holds a blank or a comma"))
            .why("this key compares whole words")
            .fix("write several as a list: [a, b]"));
    }
    Ok(text.into())
}

fn size(reader: &Reader<'_>, node: &Node) -> Result<u64> {
    super::quantity(reader, node, "size_over", &super::SIZE)
}

fn label(reader: &Reader<'_>, node: &Node) -> Result<LabelPattern> {
    reader.text(node, "label").map(LabelPattern::parse)
}

fn syscall(reader: &Reader<'_>, node: &Node) -> Result<Box<str>> {
    let text = reader.text(node, "syscall")?;
    let name = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:/".contains(&b));
    if !name {
        return Err(reader
            .error(codes::BAD_VALUE, node, format!("`{text}` is no syscall name"))
            .why("names are compared exactly; leave `syscall` out to match every syscall")
            .fix(listed_syscalls(text)));
    }
    check_syscall(text).map_err(|NoSyscall { why, meant }| {
        let error =
            reader.error(codes::BAD_VALUE, node, format!("`{text}` is no syscall")).why(why);
        match meant {
            Some(word) => error.fix(format!("did you mean `{word}`?")).with("suggestion", word),
            None => error.fix(listed_syscalls(text)),
        }
    })?;
    Ok(text.into())
}

/// What to write in the place of a name that is none: all names of its space, where it has one of ours.
fn listed_syscalls(text: &str) -> String {
    let space = text.split_once(['.', ':', '/']).map_or(text, |(space, _)| space);
    let in_space = |name: &&str| name.split_once('.').is_some_and(|(own, _)| own == space);
    let own: Vec<&str> = KNOWN_SYSCALLS.iter().copied().filter(in_space).collect();
    match own.as_slice() {
        [] => format!("write one of {}", KNOWN_SYSCALLS.join(", ")),
        [one] => format!("write `{one}`"),
        all if text.contains('*') => format!("list the names: [{}]", all.join(", ")),
        all => format!("write one of {}", all.join(", ")),
    }
}

fn state(reader: &Reader<'_>, node: &Node) -> Result<Box<str>> {
    let known: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
    reader.word(node, "workflow state", &known).map(Into::into)
}

fn change(reader: &Reader<'_>, node: &Node) -> Result<ChangeClass> {
    let known = ChangeClass::ALL.map(ChangeClass::as_str);
    let word = reader.word(node, "class of change", &known)?;
    let class = ChangeClass::ALL.into_iter().find(|class| class.as_str() == word);
    Ok(class.expect("`word` answers one of the known words"))
}

fn caller(reader: &Reader<'_>, node: &Node) -> Result<CallerPattern> {
    let text = reader.text(node, "caller")?;
    if text.contains('*') {
        return Err(reader
            .error(codes::BAD_VALUE, node, format!("`{text}` holds a wildcard"))
            .why("a caller is a kind, or a kind and a whole name")
            .fix("write the kind alone for everybody of it, such as `plugin`"));
    }
    let (kind, id) = caller_words(text).map_err(|why| {
        let error = reader.error(codes::BAD_VALUE, node, "unknown caller").why(why);
        match suggest::nearest(text.split(':').next().unwrap_or(text), CALLER_KINDS) {
            Some(word) => error.fix(format!("did you mean `{word}`?")).with("suggestion", word),
            None => error.fix("write a kind, or a kind and a name: `agent`, `plugin:fs-tool`"),
        }
    })?;
    Ok(CallerPattern { kind, id: id.map(Into::into) })
}

/// One alternative: a text is cut at blanks, a list is taken word by word.
fn prefix(reader: &Reader<'_>, node: &Node) -> Result<Vec<Box<str>>> {
    let words: Vec<Box<str>> = match &node.kind {
        Kind::List(words) => words
            .iter()
            .map(|word| reader.text(word, "a word of argv_prefix").map(Into::into))
            .collect::<Result<_>>()?,
        _ => reader.text(node, "argv_prefix")?.split_whitespace().map(Into::into).collect(),
    };
    if words.is_empty() {
        return Err(reader
            .error(codes::BAD_VALUE, node, "an empty argv_prefix")
            .why("it would match every command")
            .fix("name a command, or leave the key out to match all"));
    }
    Ok(words)
}

/// A pattern of hosts. `wide`: matching more makes the decision stricter, so it may match all.
fn host(reader: &Reader<'_>, node: &Node, text: &str, wide: bool) -> Result<HostPattern> {
    let refuse = |what: &str, why: String| {
        let error = reader.error(codes::BAD_VALUE, node, what.to_owned()).why(why);
        error.fix("write a name such as `example.org`, `*.example.org` or an address")
    };
    let pattern = HostPattern::parse(text).map_err(|why| refuse("unreadable host", why))?;
    match pattern.too_wide() {
        Some(why) if !wide => Err(refuse(&format!("`{text}` opens too much"), why.to_owned())
            .fix("list the hosts, or `*.` before a domain that belongs to one owner")),
        _ => Ok(pattern),
    }
}

/// The hosts of a group, each with the port written behind it.
pub(super) fn group(reader: &Reader<'_>, node: &Node) -> Result<Vec<(HostPattern, Option<u16>)>> {
    items(reader, node, "host", |reader, node| {
        let text = reader.text(node, "host")?;
        // The colons of an IPv6 address stand before no port.
        let (name, port) = match text.split_once(':') {
            Some((name, digits)) if !digits.contains(':') => (name, Some(digits)),
            _ => (text, None),
        };
        let bad = || {
            reader
                .error(codes::BAD_VALUE, node, format!("`{text}` has no readable port"))
                .why("a port is a number from 1 to 65535")
                .fix(format!("write the host alone, or with a port: `{name}:8443`"))
        };
        let is_number = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_digit());
        let port = port
            .map(|digits| {
                let number = Some(digits).filter(is_number).and_then(|digits| digits.parse().ok());
                number.filter(|port: &u16| *port > 0).ok_or_else(bad)
            })
            .transpose()?;
        Ok((host(reader, node, name, false)?, port))
    })
}

fn port(reader: &Reader<'_>, node: &Node) -> Result<u16> {
    let number = match node.kind {
        Kind::Integer(number) => u16::try_from(number).ok().filter(|port| *port > 0),
        _ => None,
    };
    number.ok_or_else(|| {
        let error = reader
            .error(codes::BAD_VALUE, node, "an unreadable port".to_owned())
            .why("a port is a number from 1 to 65535");
        match &node.kind {
            Kind::Text(text) if text.parse::<u16>().is_ok_and(|port| port > 0) => {
                error.fix(format!("write it without quotes: {text}"))
            }
            _ => error.fix("write a number, such as 443; several as a list: [80, 443]"),
        }
    })
}

fn http_path(reader: &Reader<'_>, node: &Node) -> Result<HttpPathPattern> {
    let text = reader.text(node, "http_path")?;
    HttpPathPattern::parse(text).map_err(|why| {
        let error = reader.error(codes::BAD_VALUE, node, format!("unreadable path `{text}`"));
        error.why(why).fix("write `/exactly/this`, or `/all/below/*`")
    })
}

fn paths(reader: &Reader<'_>, node: &Node) -> Result<PathPatterns> {
    let nodes = reader.one_or_many(node, "path_glob")?;
    check_items(reader, node, nodes.len())?;
    let mut out = PathPatterns::default();
    for item in &nodes {
        let text = reader.text(item, "path_glob")?;
        out.add(text).map_err(|why| {
            reader
                .error(codes::BAD_GLOB, item, format!("pattern `{text}`"))
                .why(why)
                .with("pattern", text)
        })?;
    }
    out.settle()
        .map_err(|why| reader.error(codes::BAD_GLOB, node, "only patterns with `!`").why(why))?;
    Ok(out)
}
