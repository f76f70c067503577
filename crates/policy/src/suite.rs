//! Tests of a policy: calls, and what has to be decided on them.

use std::convert::Infallible;

use glasshouse_model::{Call, Decision, Effect};
use serde::Serialize;

use crate::decide::{Request, decide};
use crate::error::Result;
use crate::limits::{MAX_NAME_BYTES, MAX_TESTS};
use crate::policy::Policy;
use crate::sketch::{Names, read_call};
use crate::source::too_many;
use crate::yaml::{Node, Reader};

const TOP_KEYS: &[&str] = &["version", "tests"];
const TEST_KEYS: &[&str] = &["name", "call", "expect", "rules"];

/// A file of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    tests: Vec<Test>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Test {
    name: String,
    line: u64,
    call: Call,
    expect: Effect,
    /// Rules that have to be among those that spoke.
    rules: Vec<String>,
}

/// How one test came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tested {
    /// Its name.
    pub test: String,
    /// Line in the file, from 1.
    pub line: u64,
    /// Whether it passed.
    pub passed: bool,
    /// What had to be decided.
    pub expected: Effect,
    /// What was decided.
    pub decision: Effect,
    /// Rules that spoke.
    pub rules: Vec<String>,
    /// Rules that had to speak and did not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
}

impl Suite {
    /// Reads a file of tests.
    ///
    /// ```
    /// use glasshouse_policy::{Policy, Protected, Suite};
    /// let text = "tests: [{ name: closed, call: { syscall: x.y }, expect: deny }]";
    /// let suite = Suite::read("policy.test.yaml", text).unwrap();
    /// let policy = Policy::compile(&[], &Protected::default()).unwrap();
    /// assert!(suite.run(&policy)[0].passed);
    /// ```
    ///
    /// # Errors
    /// The load errors of a policy: a file of tests is read as strictly.
    pub fn read(name: &str, text: &str) -> Result<Self> {
        let reader = Reader { source: name };
        let root = reader.parse(text)?;
        let top = reader.map(&root, "a file of tests", TOP_KEYS)?;
        let Some(list) = top.get("tests") else {
            let written = "`tests:` and a list below it";
            return Err(reader.missing(&root, "a file of tests", "tests", written));
        };
        let items = reader.list(list, "tests")?;
        if items.len() > MAX_TESTS {
            return Err(too_many(&reader, list, "tests", items.len(), MAX_TESTS));
        }
        let tests = items.iter().map(|item| test(&reader, item)).collect::<Result<_>>()?;
        Ok(Self { tests })
    }

    /// Decides every call, as if it were made now.
    #[must_use]
    pub fn run(&self, policy: &Policy) -> Vec<Tested> {
        let by_rules = |call: &Call| decide(policy, &Request::new(call, 0)).decision;
        self.run_with(|call| Ok::<_, Infallible>(by_rules(call)))
            .unwrap_or_else(|never| match never {})
    }

    /// The same with a decision that knows more of a call than its text says.
    ///
    /// # Errors
    /// Whatever `decided` answers.
    pub fn run_with<E>(
        &self,
        mut decided: impl FnMut(&Call) -> std::result::Result<Decision, E>,
    ) -> std::result::Result<Vec<Tested>, E> {
        self.tests
            .iter()
            .map(|test| {
                let decision = decided(&test.call)?;
                let rules: Vec<String> = decision.rules.into_iter().map(|rule| rule.name).collect();
                let silent: Vec<String> =
                    test.rules.iter().filter(|rule| !rules.contains(rule)).cloned().collect();
                Ok(Tested {
                    test: test.name.clone(),
                    line: test.line,
                    passed: decision.effect == test.expect && silent.is_empty(),
                    expected: test.expect,
                    decision: decision.effect,
                    rules,
                    silent,
                })
            })
            .collect()
    }
}

fn test(reader: &Reader<'_>, node: &Node) -> Result<Test> {
    let fields = reader.map(node, "a test", TEST_KEYS)?;
    let required = |key: &str| {
        let written = match key {
            "name" => "`name:` with words of your own",
            "call" => "`call:` with a call, such as { syscall: fs.write, path: src/a }",
            _ => "`expect:` with allow, deny or require_review",
        };
        let missing = || {
            reader.missing(node, "a test", key, written).why("every test has name, call and expect")
        };
        fields.get(key).ok_or_else(missing)
    };
    let name = reader.text(required("name")?, "name")?;
    if name.len() > MAX_NAME_BYTES {
        return Err(too_many(reader, node, "bytes in name", name.len(), MAX_NAME_BYTES));
    }
    let call_node = required("call")?;
    let (call, misspelt) = read_call(reader, call_node, "the call cannot be read", Names::All)?;
    let expect =
        match reader.word(required("expect")?, "expect", &["allow", "deny", "require_review"])? {
            "allow" => Effect::Allow,
            "deny" => Effect::Deny,
            _ => Effect::RequireReview,
        };
    let rules = match fields.get("rules") {
        None => Vec::new(),
        Some(rules) => reader
            .one_or_many(rules, "rules")?
            .into_iter()
            .map(|rule| reader.text(rule, "rules").map(str::to_owned))
            .collect::<Result<_>>()?,
    };
    misspelt?;
    Ok(Test { name: name.to_owned(), line: node.line, call, expect, rules })
}
