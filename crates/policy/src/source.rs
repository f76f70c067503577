//! A policy text becomes rules; anything doubtful is an error with its place.

mod amounts;
pub(crate) mod conditions;
mod examples;
mod interface;
pub(crate) mod odd_words;

use std::collections::BTreeMap;

use glasshouse_model::Effect;
use glasshouse_model::syscall::name;

use self::amounts::{Quantity, SIZE, TIME, quantity, rate};
use crate::codes;
use crate::error::{Error, Result};
use crate::extension::ExtensionText;
use crate::limits::{
    MAX_EXCEPTS, MAX_EXTENSION_BYTES, MAX_LIST_ITEMS, MAX_NAME_BYTES, MAX_REASON_BYTES, MAX_RULES,
    MAX_SECRET_NAME_BYTES, MAX_SECRET_PATTERN_BYTES, MAX_SECRET_PATTERNS,
};
use crate::network::{HostPattern, WEB_PORTS};
use crate::rule::{Condition, Conditions, Demands, ISOLATION_LEVELS, Rule, SANDBOXES};
use crate::yaml::{Key, Kind, Node, Reader};

/// One YAML text; several make one policy, and the order in which they are given decides nothing
/// but the policy's version.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Name in errors and rule lists: a file name, or `workflow`.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// What its silence means.
    pub consent: Consent,
    /// Whether it comes with the program, or from whoever runs it: no file can take its rules away.
    pub is_given: bool,
}

impl<'a> Source<'a> {
    /// A source that adds its rules to the others.
    #[must_use]
    pub const fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text, consent: Consent::Joint, is_given: false }
    }

    /// A source that has to allow each call itself; see [`Consent::Own`].
    #[must_use]
    pub const fn apart(name: &'a str, text: &'a str) -> Self {
        Self { name, text, consent: Consent::Own, is_given: false }
    }

    /// A source that opens nothing; see [`Consent::Stricter`].
    #[must_use]
    pub const fn stricter(name: &'a str, text: &'a str) -> Self {
        Self { name, text, consent: Consent::Stricter, is_given: false }
    }

    /// The same as one that nobody writes here; it decides alike, and no explanation proposes to change it.
    #[must_use]
    pub const fn given(self) -> Self {
        Self { is_given: true, ..self }
    }
}

/// What it means that no rule of a source allows a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Nothing: a rule of any joint source is enough.
    Joint,
    /// The call is denied, whatever other sources allow: of several such sources each must let the
    /// call pass, by a rule of its own or one of a joint source. So adding one never opens anything,
    /// and a file that nobody has accepted yet can be obeyed safely.
    Own,
    /// Nothing, and what it allows counts for nothing either: it can deny, ask about what others let pass, and demand.
    /// So rules that were told since something began bind it and open nothing in it.
    Stricter,
}

/// Something that loads but hardly says what was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Source it is in.
    pub source: String,
    /// Line of the rule, from 1.
    pub line: u64,
    /// Rule it is about.
    pub rule: String,
    /// What kind of thing it is, as `lint` names it.
    pub kind: &'static str,
    /// What is odd.
    pub message: String,
    /// What to do.
    pub fix: String,
}

/// What secrets of one kind look like. A policy only carries it: whoever masks texts compiles it, and
/// tells whether it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretPattern {
    /// What stands in a secret's place.
    pub name: String,
    /// A regular expression on bytes.
    pub pattern: String,
    /// Source it is in.
    pub source: String,
    /// Line of the source, from 1.
    pub line: u64,
    /// Column in it, from 1.
    pub column: u64,
}

/// The kind of a warning that has no name of its own.
const LOAD_WARNING: &str = "load_warning";

/// What one source holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) rules: Vec<Rule>,
    pub(crate) groups: Vec<(String, Vec<HostPattern>)>,
    pub(crate) secret_patterns: Vec<SecretPattern>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) extension: Option<ExtensionText>,
}

pub(crate) const TOP_KEYS: &[&str] =
    &["version", "capabilities", "network_whitelist", "secret_patterns", "extension"];
pub(crate) const RULE_KEYS: &[&str] =
    &["name", "match", "action", "except", "reason", "constraints", "examples"];
pub(crate) const CONSTRAINT_KEYS: &[&str] = &[
    "require_sandbox",
    "require_capability_token",
    "max_file_size",
    "max_duration",
    "min_isolation",
    "rate",
    interface::PROFILE,
    interface::LIMITS,
    interface::HOSTS,
];
pub(crate) const EXAMPLE_KEYS: &[&str] = &["match", "not_match"];

/// Reads one source; `index` is its position among the sources.
pub(crate) fn read(source: &Source<'_>, index: usize) -> Result<Contents> {
    let reader = Reader { source: source.name };
    let root = reader.parse(source.text)?;
    let mut contents = Contents::default();
    if matches!(root.kind, Kind::Null) {
        return Ok(contents);
    }
    let top = reader.map(&root, "a policy", TOP_KEYS)?;
    if let Some(version) = top.get("version")
        && !matches!(version.kind, Kind::Integer(1))
    {
        return Err(reader
            .error(codes::VERSION_UNSUPPORTED, version, "unsupported policy version")
            .why("this program reads version 1"));
    }
    if let Some(list) = top.get("capabilities") {
        let items = reader.list(list, "capabilities")?;
        if items.len() > MAX_RULES {
            return Err(too_many(&reader, list, "rules", items.len(), MAX_RULES));
        }
        for item in items {
            let rule = RuleReader { reader, index }.read(item, &mut contents.warnings)?;
            contents.rules.push(rule);
        }
    }
    if let Some(groups) = top.get("network_whitelist") {
        network(&reader, groups, index, &mut contents)?;
    }
    if let Some(patterns) = top.get("secret_patterns") {
        contents.secret_patterns = secret_patterns(&reader, patterns)?;
    }
    if let Some(text) = top.get("extension") {
        contents.extension = Some(extension(&reader, text, (source.text, index))?);
    }
    Ok(contents)
}

/// The program itself: what a person accepts is one text.
fn extension(
    reader: &Reader<'_>,
    node: &Node,
    (text, position): (&str, usize),
) -> Result<ExtensionText> {
    let code = reader.text(node, "extension")?;
    if code.len() > MAX_EXTENSION_BYTES {
        let what = "bytes in an extension";
        return Err(too_many(reader, node, what, code.len(), MAX_EXTENSION_BYTES));
    }
    let is_name =
        !code.contains(['\n', '(', '{']) && [".ts", ".js"].iter().any(|it| code.ends_with(it));
    if is_name {
        return Err(reader
            .error(codes::BAD_VALUE, node, "the name of a file in the place of a program")
            .why("a person accepts the text of this file, so the rules have to be in it")
            .fix("write `extension: |` and the program below it, indented"));
    }
    let indent = ExtensionText::indent(code, text, node.line);
    let (code, source) = (code.to_owned(), reader.source.to_owned());
    Ok(ExtensionText { code, source, line: node.line, position, indent })
}

/// A map of names to patterns.
fn secret_patterns(reader: &Reader<'_>, node: &Node) -> Result<Vec<SecretPattern>> {
    if matches!(node.kind, Kind::Null) {
        return Ok(Vec::new());
    }
    let entries = reader.any_map(node, "secret_patterns")?;
    if entries.len() > MAX_SECRET_PATTERNS {
        return Err(too_many(reader, node, "secret patterns", entries.len(), MAX_SECRET_PATTERNS));
    }
    let read = |(key, node): &(Key, Node)| {
        let name = &key.text;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if name.is_empty() || name.len() > MAX_SECRET_NAME_BYTES || !name.bytes().all(plain) {
            return Err(reader
                .error(codes::BAD_VALUE, node, "a name that cannot stand for a secret")
                .why(format!(
                    "it is 1 to {MAX_SECRET_NAME_BYTES} letters, digits, `_`, `-` and `.`"
                ))
                .fix("name the secret by such letters: `acme-token`")
                .with("name", name.as_str()));
        }
        let pattern = reader.text(node, "a pattern")?;
        if pattern.len() > MAX_SECRET_PATTERN_BYTES {
            let (found, most) = (pattern.len(), MAX_SECRET_PATTERN_BYTES);
            return Err(too_many(reader, node, "bytes in a pattern", found, most));
        }
        Ok(SecretPattern {
            name: name.clone(),
            pattern: pattern.to_owned(),
            source: reader.source.to_owned(),
            line: node.line,
            column: node.column,
        })
    };
    entries.iter().map(read).collect()
}

/// Each group of hosts is a rule that allows connections to them, by the web's ports, and a named list
/// that sandbox templates can refer to. A host with a port of its own is a rule beside it.
fn network(reader: &Reader<'_>, node: &Node, index: usize, contents: &mut Contents) -> Result<()> {
    if matches!(node.kind, Kind::Null) {
        return Ok(());
    }
    for (key, list) in reader.any_map(node, "network_whitelist")? {
        check_name(reader, list, &key.text)?;
        let members = conditions::group(reader, list)?;
        let hosts = members.iter().map(|(host, _)| host.clone()).collect();
        contents.groups.push((key.text.clone(), hosts));
        let mut by_port: BTreeMap<Option<u16>, Vec<HostPattern>> = BTreeMap::new();
        if members.is_empty() {
            by_port.entry(None).or_default();
        }
        for (host, port) in members {
            by_port.entry(port).or_default().push(host);
        }
        for (port, hosts) in by_port {
            let behind = port.map_or_else(String::new, |port| format!(":{port}"));
            let ports = port.map_or_else(|| WEB_PORTS.to_vec(), |port| vec![port]);
            contents.rules.push(Rule {
                name: format!("network_whitelist.{}{behind}", key.text).into(),
                source: index,
                line: list.line,
                column: list.column,
                effect: Effect::Allow,
                reason: Some(format!("the host is in the group `{}`", key.text).into()),
                when: Conditions::new(vec![
                    Condition::Syscall(vec![name::NET_CONNECT.into()]),
                    Condition::Host(hosts),
                    Condition::Port(ports),
                ]),
                excepts: Vec::new(),
                demands: Demands::default(),
                examples: 0,
            });
        }
    }
    Ok(())
}

/// Names are told apart by people, in lists and in a log: each is of letters that look like no others.
fn check_name(reader: &Reader<'_>, node: &Node, name: &str) -> Result<()> {
    if name.len() > MAX_NAME_BYTES {
        return Err(too_many(reader, node, "bytes in name", name.len(), MAX_NAME_BYTES));
    }
    let plain = |c: char| c == ' ' || c.is_ascii_graphic();
    let why = if let Some(other) = name.chars().find(|c| !plain(*c)) {
        format!("U+{:04X} is no printable character of ASCII", u32::from(other))
    } else if name.starts_with(' ') || name.ends_with(' ') || name.contains("  ") {
        "blanks stand between words, one at a time".to_owned()
    } else {
        return Ok(());
    };
    Err(reader
        .error(codes::BAD_VALUE, node, "a name that could be taken for another")
        .why(why)
        .fix("use letters, digits and `-`; a `reason` takes any text"))
}

pub(crate) fn too_many(
    reader: &Reader<'_>,
    node: &Node,
    what: &str,
    found: usize,
    most: usize,
) -> Error {
    reader
        .error(codes::LIMIT, node, format!("too many {what}"))
        .why(format!("{found}, at most {most}"))
        .with("limit", most)
}

#[derive(Clone, Copy)]
struct RuleReader<'a> {
    reader: Reader<'a>,
    index: usize,
}

impl RuleReader<'_> {
    fn read(self, node: &Node, warnings: &mut Vec<Warning>) -> Result<Rule> {
        let reader = self.reader;
        let fields = reader.map(node, "a rule", RULE_KEYS)?;
        let required = |key: &str| {
            let written = match key {
                "name" => "`name:` with words of your own",
                "match" => "`match:` with conditions, or `match: {}` for every call",
                _ => "`action:` with allow, deny or require_review",
            };
            let missing = || {
                reader
                    .missing(node, "a rule", key, written)
                    .why("every rule has name, match and action")
            };
            fields.get(key).ok_or_else(missing)
        };
        let name_node = required("name")?;
        let name = reader.text(name_node, "name")?;
        check_name(&reader, name_node, name)?;
        let (match_node, action) = (required("match")?, required("action")?);
        let effect = match reader.word(action, "action", &["allow", "deny", "require_review"])? {
            "allow" => Effect::Allow,
            "deny" => Effect::Deny,
            _ => Effect::RequireReview,
        };
        let restrictive = effect != Effect::Allow;
        let when = conditions::of_rule(&reader, match_node, effect)?;
        let excepts = match fields.get("except") {
            Some(list) => self.excepts(list, !restrictive)?,
            None => Vec::new(),
        };
        let reason = fields
            .get("reason")
            .map(|reason| self.bounded_text(reason, "reason", MAX_REASON_BYTES))
            .transpose()?;
        let demands = match fields.get("constraints") {
            Some(constraints) if effect == Effect::Deny => {
                return Err(reader
                    .error(codes::BAD_VALUE, constraints, "constraints on a rule that denies")
                    .why("constraints say how an act that goes ahead is done")
                    .fix("remove `constraints`, or let the rule allow or ask"));
            }
            Some(constraints) => self.demands(constraints)?,
            None => Demands::default(),
        };
        let mut rule = Rule {
            name: name.into(),
            source: self.index,
            line: node.line,
            column: node.column,
            effect,
            reason: reason.map(Into::into),
            when,
            excepts,
            demands,
            examples: 0,
        };
        if let Some(examples) = fields.get("examples") {
            rule.examples = examples::run(&reader, &rule, examples, warnings)?;
        }
        self.warn(&rule, warnings);
        let excepts = match fields.get("except").map(|node| &node.kind) {
            Some(Kind::List(items)) => items.as_slice(),
            _ => &[],
        };
        let nodes: Vec<&Node> = [match_node].into_iter().chain(excepts).collect();
        odd_words::warn(&reader, &rule, &nodes, warnings);
        Ok(rule)
    }

    fn bounded_text<'n>(self, node: &'n Node, what: &str, most: usize) -> Result<&'n str> {
        let text = self.reader.text(node, what)?;
        if text.len() > most {
            return Err(too_many(
                &self.reader,
                node,
                &format!("bytes in {what}"),
                text.len(),
                most,
            ));
        }
        Ok(text)
    }

    fn excepts(self, node: &Node, wide: bool) -> Result<Vec<Conditions>> {
        let items = self.reader.list(node, "except")?;
        if items.len() > MAX_EXCEPTS {
            return Err(too_many(&self.reader, node, "except items", items.len(), MAX_EXCEPTS));
        }
        items
            .iter()
            .map(|item| {
                // `{}` would match every call and so undo the rule without saying so.
                if matches!(&item.kind, Kind::Map(entries) if entries.is_empty()) {
                    return Err(self
                        .reader
                        .error(codes::BAD_VALUE, item, "an except item without conditions")
                        .why("it would lift the rule for every call")
                        .fix("write in it what lifts the rule, or remove it"));
                }
                conditions::read(&self.reader, item, wide)
            })
            .collect()
    }

    fn demands(self, node: &Node) -> Result<Demands> {
        let reader = self.reader;
        let fields = reader.map(node, "constraints", CONSTRAINT_KEYS)?;
        let quantity = |key: &str, kind: &Quantity| {
            fields.get(key).map(|node| quantity(&reader, node, key, kind)).transpose()
        };
        let sandbox = fields
            .get("require_sandbox")
            .map(|node| {
                let name = self.bounded_text(node, "require_sandbox", MAX_NAME_BYTES)?;
                let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
                if word {
                    Ok(name.into())
                } else {
                    let what = format!("`{name}` is no name of a sandbox template");
                    let fix = format!("write one of {}", SANDBOXES.join(", "));
                    Err(reader.error(codes::BAD_VALUE, node, what).fix(fix))
                }
            })
            .transpose()?;
        let min_isolation = fields
            .get("min_isolation")
            .map(|node| {
                let word = reader.word(node, "min_isolation", &ISOLATION_LEVELS)?;
                Ok::<_, Error>(
                    ISOLATION_LEVELS.iter().position(|level| *level == word).unwrap_or_default(),
                )
            })
            .transpose()?;
        let token = match fields.get("require_capability_token") {
            None => false,
            Some(node) => match node.kind {
                Kind::Bool(value) => value,
                _ => {
                    return Err(reader.wrong_type(
                        node,
                        "require_capability_token",
                        "true or false",
                    ));
                }
            },
        };
        Ok(Demands {
            sandbox,
            min_isolation,
            token,
            max_file_size_bytes: quantity("max_file_size", &SIZE)?,
            max_duration_ms: quantity("max_duration", &TIME)?,
            rate: fields.get("rate").map(|node| rate(&reader, node)).transpose()?,
            interface: interface::read(&reader, &fields)?,
        })
    }

    fn warn(self, rule: &Rule, warnings: &mut Vec<Warning>) {
        let mut warn = |message: String| {
            warnings.push(Warning {
                source: self.reader.source.to_owned(),
                line: rule.line,
                rule: rule.name.to_string(),
                kind: LOAD_WARNING,
                message,
                fix: "correct the rule, or remove it".to_owned(),
            });
        };
        for key in rule.when.iter().filter(|c| c.is_dead()).map(Condition::key) {
            warn(format!("`{key}` matches nothing, so the rule never does"));
        }
        for except in &rule.excepts {
            for key in except.iter().filter(|c| c.is_dead()).map(Condition::key) {
                warn(format!("`{key}` of an except item matches nothing, so it lifts nothing"));
            }
            if except.same_calls(&rule.when) {
                warn("an except item is identical to `match`, so the rule never triggers".into());
            }
        }
        if rule.when.is_empty() && rule.effect == Effect::Allow {
            warn("`match` has no conditions, so the rule allows every call but connections".into());
        }
        if let Some(name) = &rule.demands.sandbox
            && !SANDBOXES.contains(&&**name)
        {
            let known = SANDBOXES.join(", ");
            warn(format!(
                "nothing runs in a sandbox `{name}`, so the rule denies (there are {known})"
            ));
        }
    }
}

/// Refuses a list that is too long for one key.
fn check_items(reader: &Reader<'_>, node: &Node, found: usize) -> Result<()> {
    if found > MAX_LIST_ITEMS {
        return Err(too_many(reader, node, "items in one list", found, MAX_LIST_ITEMS));
    }
    Ok(())
}
