//! Custom profiles: a list of system calls for one sandbox, checked before anything starts.
//!
//! A list begins with a shipped profile and adds or takes away calls by name. What would weaken the
//! isolation is a core that no list opens, and a call that the shipped profiles decide by its
//! arguments is decided so in every list.

use glasshouse_model::suggest;
use serde::{Deserialize, Serialize};

use crate::host::seccomp::{self, Standing};
use crate::template::Profile;
use crate::{Error, Result, codes};

/// Most names of one list; there are fewer calls.
const MAX_NAMES: usize = 1024;

/// A checked list of system calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct CallList {
    base: Profile,
    allow: Vec<String>,
    deny: Vec<String>,
}

/// The file's form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    version: Option<u32>,
    base: Profile,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
}

impl CallList {
    /// Checks a list.
    ///
    /// # Errors
    /// `sandbox_calls_invalid` for a name that is no call, one of the forbidden core under `allow`,
    /// a call that every command needs under `deny`, and a name on both sides.
    pub fn new(base: Profile, allow: Vec<String>, deny: Vec<String>) -> Result<Self> {
        if allow.len() + deny.len() > MAX_NAMES {
            return Err(
                invalid("the list of system calls is too long").why("there are fewer calls")
            );
        }
        for name in &allow {
            if standing(name)? == Standing::Forbidden {
                return Err(invalid(format!("`{name}` cannot be allowed"))
                    .why("it would weaken the isolation of every sandbox")
                    .fix(format!("take `{name}` out; what needs it does not run in a sandbox")));
            }
        }
        for name in &deny {
            if standing(name)? == Standing::Needed {
                return Err(invalid(format!("`{name}` cannot be denied"))
                    .why("without it no command can start"));
            }
            if allow.contains(name) {
                return Err(invalid(format!("`{name}` is both allowed and denied")));
            }
        }
        Ok(Self { base, allow, deny })
    }

    /// Reads a list from YAML: `base`, and the names to `allow` and to `deny`.
    ///
    /// ```
    /// use glasshouse_sandbox::CallList;
    /// let list = CallList::parse("base: strict\nallow: [kill, wait4]\n").unwrap();
    /// assert_eq!(list.allowed(), ["kill", "wait4"]);
    /// let error = CallList::parse("base: strict\nallow: [wait5]\n").unwrap_err();
    /// assert_eq!(error.report().fix, "did you mean `wait4`?");
    /// ```
    ///
    /// # Errors
    /// `sandbox_calls_invalid`, also for what is not YAML of this form.
    pub fn parse(text: &str) -> Result<Self> {
        let written: Written = serde_saphyr::from_str(text)
            .map_err(|error| invalid("the list of system calls cannot be read").why(error))?;
        written.try_into()
    }

    /// The profile it begins with.
    #[must_use]
    pub const fn base(&self) -> Profile {
        self.base
    }

    /// Names beyond the base.
    #[must_use]
    pub fn allowed(&self) -> &[String] {
        &self.allow
    }

    /// Names that are taken from the base.
    #[must_use]
    pub fn denied(&self) -> &[String] {
        &self.deny
    }
}

impl TryFrom<Written> for CallList {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self> {
        if written.version.is_some_and(|version| version != 1) {
            return Err(
                invalid("the list of system calls has an unknown version").why("1 is known")
            );
        }
        Self::new(written.base, written.allow, written.deny)
    }
}

/// Calls that no profile allows and no list can, by name and number.
pub fn forbidden() -> impl Iterator<Item = (&'static str, i64)> {
    seccomp::known()
        .filter(|(_, _, standing)| *standing == Standing::Forbidden)
        .map(|(name, number, _)| (name, number))
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(codes::CALLS_INVALID, what)
}

fn standing(name: &str) -> Result<Standing> {
    if let Some((_, _, standing)) = seccomp::known().find(|(known, _, _)| *known == name) {
        return Ok(standing);
    }
    let error = invalid(format!("`{}` is no system call", name.escape_debug()))
        .why("names are those of the kernel, in lower case");
    Err(match suggest::nearest(name, seccomp::known().map(|(known, _, _)| known)) {
        Some(word) => error.fix(format!("did you mean `{word}`?")).with("suggestion", word),
        None => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_whole_or_refused_with_the_reason() {
        let check = |text: &str, expected: &str| {
            let found = CallList::parse(text).map_err(|error| {
                assert!(error.is(codes::CALLS_INVALID), "{text}: {error}");
                format!("{error} {}", error.report().fix)
            });
            match expected {
                "" => assert!(found.is_ok(), "{text}: {found:?}"),
                why => assert!(found.as_ref().unwrap_err().contains(why), "{text}: {found:?}"),
            }
        };
        check("base: strict\n", "");
        check("version: 1\nbase: standard-net\nallow: [mq_open, sync]\ndeny: [kill]\n", "");
        check("base: strict\nallow: [clone, socket, execve]\n", "");
        check("allow: [kill]\n", "base");
        check("base: lax\n", "lax");
        check("version: 2\nbase: strict\n", "version");
        check("base: strict\nalow: [kill]\n", "alow");
        check("base: strict\nallow: kill\n", "cannot be read");
        check("base: [\n", "cannot be read");
        check("base: strict\nallow: [opennat]\n", "did you mean `openat`?");
        check("base: strict\nallow: [nothing_like_it]\n", "no system call");
        check("base: strict\nallow: [\"kill\\0\"]\n", "no system call");
        check("base: standard\ndeny: [execve]\n", "no command can start");
        check("base: standard\nallow: [sync]\ndeny: [sync]\n", "both");
        for (name, _) in forbidden() {
            check(&format!("base: standard\nallow: [{name}]\n"), "weaken");
            check(&format!("base: standard\ndeny: [{name}]\n"), "");
        }
    }

    /// A list that arrives by a socket or a recorded event is checked like one from a file.
    #[test]
    fn a_list_is_checked_however_it_is_read() {
        let list = CallList::parse("base: strict\nallow: [kill]\n").unwrap();
        let written = serde_json::to_string(&list).unwrap();
        assert_eq!(serde_json::from_str::<CallList>(&written).unwrap(), list);
        let forged = written.replace("kill", "ptrace");
        let refused = serde_json::from_str::<CallList>(&forged).unwrap_err().to_string();
        assert!(refused.contains("`ptrace` cannot be allowed"), "{refused}");
    }
}
