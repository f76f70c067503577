//! What an argument vector may run.
//!
//! A permissive rule matches the words exactly as they will run, alone or as the commands of a shell's
//! script, of which each must match. A restrictive rule must not be
//! escaped by dressing the command up, so it is looked for wherever it could run: behind a
//! wrapper (`env`, `xargs`, `timeout`), in the script of a shell, under an absolute path, behind
//! quotes, options and escapes. What can not be read counts as a match: a false one asks a person, a
//! missed one lets the command through.

use crate::limits::MAX_COMMAND_BYTES;
use crate::shell::{ShellWord, invocations};

/// Programs that run the words behind them.
const WRAPPERS: &[&str] = &[
    "builtin",
    "busybox",
    "bwrap",
    "bunx",
    "chroot",
    "chrt",
    "command",
    "coproc",
    "doas",
    "env",
    "exec",
    "fakeroot",
    "find",
    "firejail",
    "flock",
    "gdb",
    "gosu",
    "ionice",
    "linux32",
    "linux64",
    "ltrace",
    "nice",
    "nohup",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "perf",
    "pkexec",
    "prlimit",
    "rlwrap",
    "runuser",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "stdbuf",
    "strace",
    "su-exec",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "toybox",
    "unbuffer",
    "unshare",
    "valgrind",
    "watch",
    "xargs",
];

/// Wrappers that add words which are not to be seen here.
const WITH_MORE_WORDS: &[&str] = &["parallel", "xargs"];

/// Programs that read a script out of their arguments or their input.
const SHELLS: &[&str] = &["ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "su", "zsh"];

/// Options of well-known programs that stand before a subcommand and take the next word as value.
const OPTIONS_WITH_VALUE: &[(&str, &[&str])] = &[(
    "git",
    &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"],
)];

/// Long spellings of short options, where the same letter means the same to every program here.
const LONG_OPTIONS: &[(&str, char)] =
    &[("--recursive", 'r'), ("--recursive", 'R'), ("--force", 'f')];

/// Shells whose scripts a permissive rule looks into: where the system has them, never a program of
/// that name that lies elsewhere.
const TRUSTED_SHELLS: &[&str] =
    &["sh", "bash", "dash", "/bin/sh", "/bin/bash", "/bin/dash", "/usr/bin/sh", "/usr/bin/bash"];
/// Options that change nothing about which commands a script runs.
const HARMLESS_OPTIONS: &str = "celuxf";

/// Whether running `argv` runs nothing but commands that begin exactly with one of the prefixes (`exact`:
/// that are one of them): the words themselves, or every command of a shell's script. A variable that is set for a command can
/// make another of it, so then the answer is no.
pub(crate) fn runs_only(argv: &[String], prefixes: &[Vec<Box<str>>], exact: bool) -> bool {
    let begins = |words: &[Option<&str>]| {
        prefixes.iter().any(|prefix| {
            (if exact { words.len() == prefix.len() } else { words.len() >= prefix.len() })
                && words.iter().zip(prefix).all(|(word, want)| *word == Some(&**want))
        })
    };
    let words: Vec<_> = argv.iter().map(|word| Some(word.as_str())).collect();
    if begins(&words) {
        return true;
    }
    let [shell, options, script, ..] = argv else { return false };
    let reads_script = TRUSTED_SHELLS.contains(&shell.as_str())
        && options.strip_prefix('-').is_some_and(|letters| {
            letters.contains('c') && letters.chars().all(|c| HARMLESS_OPTIONS.contains(c))
        });
    if !reads_script {
        return false;
    }
    let Ok(found) = invocations(script, &mut MAX_COMMAND_BYTES.clone()) else { return false };
    !found.is_empty()
        && found.iter().all(|invocation| {
            let words: Vec<_> = invocation
                .words
                .iter()
                .map(|word| match word {
                    ShellWord::Text(text) => Some(text.as_str()),
                    ShellWord::One | ShellWord::Many => None,
                })
                .collect();
            !invocation.assigns && begins(&words)
        })
}

/// Whether running `argv` could run a command that begins with one of the prefixes.
pub(crate) fn could_run(argv: &[String], prefixes: &[Vec<Box<str>>]) -> bool {
    let mut reach = Reach { prefixes, budget: MAX_COMMAND_BYTES };
    let words: Vec<_> = argv.iter().map(|word| Word::Text(word)).collect();
    reach.command(&words, false)
}

/// A word of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word<'a> {
    Text(&'a str),
    /// One word that is not known.
    One,
    /// Any number of words.
    Many,
}

impl<'a> Word<'a> {
    const fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::One | Self::Many => None,
        }
    }
}

struct Reach<'a> {
    prefixes: &'a [Vec<Box<str>>],
    /// Bytes that may still be looked at; none left counts as a match.
    budget: usize,
}

impl Reach<'_> {
    fn begins(&self, words: &[Word<'_>], open: bool) -> bool {
        self.prefixes.iter().any(|prefix| begins(words, prefix, open))
    }

    /// Follows one command. `open`: unknown words follow.
    fn command(&mut self, words: &[Word<'_>], open: bool) -> bool {
        let Some(first) = words.first() else { return false };
        let bytes = words.iter().map(|word| word.text().map_or(0, str::len) + 1).sum::<usize>();
        let Some(left) = self.budget.checked_sub(bytes) else { return true };
        self.budget = left;
        let Some(first) = first.text() else { return true };
        if self.begins(words, open) {
            return true;
        }
        let program = base_name(first).to_ascii_lowercase();
        let rest = &words[1..];
        match program.as_str() {
            shell if SHELLS.contains(&shell) => self.shell(rest),
            // Later words mean something else than they say.
            "alias" | "hash" => !rest.is_empty(),
            // A value that is expanded later may be a command: as a prompt, or inside arithmetic.
            "export" | "declare" | "typeset" | "readonly" | "local" => {
                rest.iter().any(|word| word.text().is_some_and(holds_substitution))
            }
            "git" => self.git(rest),
            "eval" => match rest.iter().map(|word| word.text()).collect::<Option<Vec<_>>>() {
                Some(texts) => self.script(&texts.join(" ")),
                None => true,
            },
            "trap" => {
                rest.first().is_some_and(|word| word.text().is_none_or(|text| self.script(text)))
            }
            wrapper if is_wrapper(wrapper) => {
                let open = open || WITH_MORE_WORDS.contains(&wrapper);
                self.wrapped(rest, open)
            }
            _ => false,
        }
    }

    /// Options of a wrapper are not told apart from its command: any word may start one, and one that
    /// holds blanks (`env -S`) is read as a script.
    fn wrapped(&mut self, words: &[Word<'_>], open: bool) -> bool {
        if open && words.is_empty() {
            return true;
        }
        (0..words.len()).any(|from| {
            let inner = &words[from..];
            let Some(text) = inner[0].text() else { return true };
            let name = base_name(text);
            let nested =
                SHELLS.contains(&name) || is_wrapper(name) || matches!(name, "eval" | "git");
            let script = text.strip_prefix("--split-string=").or(text.strip_prefix("-S"));
            self.begins(inner, open)
                || (nested && self.command(inner, open))
                || script.is_some_and(|script| self.script(script))
                || (text.contains(char::is_whitespace) && self.script(text))
        })
    }

    /// The commands of others that git runs: aliases given on the spot, and one for each step.
    fn git(&mut self, words: &[Word<'_>]) -> bool {
        let texts: Vec<_> = words.iter().map(|word| word.text().unwrap_or_default()).collect();
        let behind = |name: &str| texts.iter().position(|text| *text == name).map(|at| at + 1);
        let steps = texts.windows(2).filter(|pair| matches!(pair[0], "-x" | "--exec"));
        let scripts: Vec<&str> = texts
            .iter()
            .filter_map(|text| text.split_once("=!").map(|(_, script)| script))
            .chain(steps.map(|pair| pair[1]))
            .chain(texts.iter().filter_map(|text| text.strip_prefix("--exec=")))
            .collect();
        let each = behind("foreach").or_else(|| behind("bisect").and_then(|_| behind("run")));
        scripts.iter().any(|script| self.script(script))
            || each.is_some_and(|at| self.wrapped(&words[at..], false))
    }

    /// Behind the name of a shell: every word after `-c` may be the script; without operands it reads
    /// one from its input.
    fn shell(&mut self, words: &[Word<'_>]) -> bool {
        let takes_script = |word: &Word<'_>| {
            word.text()
                .is_none_or(|text| text == "--command" || (is_short(text) && text.contains('c')))
        };
        match words.iter().position(takes_script) {
            Some(at) => words[at..].iter().any(|word| match word.text() {
                None => true,
                Some(text) if text.starts_with('-') && !text.contains(char::is_whitespace) => false,
                Some(text) => self.script(text),
            }),
            None => words.iter().all(|word| word.text().is_some_and(is_input)),
        }
    }

    fn script(&mut self, text: &str) -> bool {
        let Ok(found) = invocations(text, &mut self.budget) else { return true };
        found.iter().any(|invocation| {
            let words: Vec<_> = invocation
                .words
                .iter()
                .map(|word| match word {
                    ShellWord::Text(text) => Word::Text(text),
                    ShellWord::One => Word::One,
                    ShellWord::Many => Word::Many,
                })
                .collect();
            self.command(&words, false)
        })
    }
}

/// Whether a command could begin with the prefix: the same program wherever it lies, the same
/// subcommands behind whatever options, the same options in any order and spelling.
fn begins(words: &[Word<'_>], prefix: &[Box<str>], open: bool) -> bool {
    let ([Word::Text(program), rest @ ..], [wanted, more @ ..]) = (words, prefix) else {
        return false;
    };
    // A name without a slash stands for that program wherever it lies.
    let same = *program == &**wanted || (!wanted.contains('/') && base_name(program) == &**wanted);
    if !same {
        return false;
    }
    let (options, operands): (Vec<&str>, Vec<&str>) =
        more.iter().map(|word| &**word).partition(|word| word.starts_with('-'));
    has_operands(base_name(program), rest, &operands, open)
        && options.iter().all(|option| open || has_option(rest, option))
}

/// Whether the first operands of a command could be these. An option may take the word behind it as
/// its value, so that word may be an operand or not.
fn has_operands(program: &str, words: &[Word<'_>], wanted: &[&str], open: bool) -> bool {
    let Some((next, more)) = wanted.split_first() else { return true };
    let with_value = OPTIONS_WITH_VALUE.iter().find(|(name, _)| *name == program).map(|(_, o)| *o);
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let Some(text) = word.text() else { return true };
        if !text.starts_with('-') {
            return text == *next && has_operands(program, &words[at + 1..], more, open);
        }
        let value_follows = match with_value {
            Some(options) => options.contains(&text),
            None => is_option(text) && !text.contains('='),
        };
        if value_follows {
            match words.get(at + 1) {
                Some(Word::Many) => return true,
                Some(Word::One) if with_value.is_none() => return true,
                Some(Word::One) => at += 1,
                Some(Word::Text(value)) if !value.starts_with('-') => {
                    if with_value.is_none()
                        && *value == *next
                        && has_operands(program, &words[at + 2..], more, open)
                    {
                        return true;
                    }
                    at += 1;
                }
                _ => {}
            }
        }
        at += 1;
    }
    open
}

/// Whether a command has an option, or could have it.
fn has_option(words: &[Word<'_>], wanted: &str) -> bool {
    let options = words.iter().take_while(|word| **word != Word::Text("--"));
    if options.clone().any(|word| word.text().is_none()) {
        return true;
    }
    let mut known = options.filter_map(|word| word.text());
    if !is_short(wanted) {
        // Programs take an unambiguous beginning of a long option for the whole.
        return known.any(|word| {
            let name = word.split('=').next().unwrap_or_default();
            name == wanted || (name.len() > 2 && wanted.starts_with(name))
        });
    }
    let given: Vec<&str> = known.collect();
    wanted[1..].chars().all(|letter| {
        given.iter().any(|word| {
            (is_short(word) && word[1..].contains(letter))
                || LONG_OPTIONS.iter().any(|(long, short)| {
                    *short == letter && word.len() > 2 && long.starts_with(word)
                })
        })
    })
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word != "--"
}

/// `-x`, `-xyz`; not `-`, `--long`.
fn is_short(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && !word.starts_with("--")
}

/// Whether a shell's word is no file of a script: an option, or a name of its standard input.
fn is_input(word: &str) -> bool {
    word.starts_with(['-', '+']) || word.starts_with("/dev/") || word.starts_with("/proc/")
}

/// Whether a program runs the words behind its name. The system's loader does as well.
fn is_wrapper(name: &str) -> bool {
    WRAPPERS.contains(&name)
        || ["-", "ld-linux", "ld-musl", "ld.so"].iter().any(|start| name.starts_with(start))
}

/// Whether a text would run a command where it is expanded.
pub(crate) fn holds_substitution(text: &str) -> bool {
    text.contains("$(") || text.contains('`')
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Vec<Box<str>> {
        text.split(' ').map(Into::into).collect()
    }

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn dressing_a_command_up_does_not_hide_it() {
        let check = |words: &[&str]| {
            assert!(could_run(&argv(words), &[prefix("rm -rf")]), "{words:?}");
        };
        check(&["rm", "-rf", "x"]);
        check(&["/bin/rm", "-rf", "x"]);
        check(&["./ws/bin/rm", "-rf", "x"]);
        check(&["env", "rm", "-rf", "x"]);
        check(&["env", "-i", "A=1", "rm", "-rf", "x"]);
        check(&["env", "-S", "rm -rf x"]);
        check(&["xargs", "rm", "-rf"]);
        check(&["timeout", "5", "nice", "rm", "-rf", "x"]);
        check(&["find", ".", "-exec", "rm", "-rf", "{}", ";"]);
        check(&["sudo", "bash", "-c", "rm -rf x"]);
        for script in [
            "rm -rf x",
            "ls & rm -rf x",
            "ls;rm -rf x",
            "ls && rm -rf x",
            "(rm -rf x)",
            "{ rm -rf x; }",
            "echo $(rm -rf x)",
            "echo \"$(rm -rf x)\"",
            "echo `rm -rf x`",
            "echo \"`rm -rf x`\"",
            "env rm -rf x",
            "ls | xargs rm -rf",
            "bash -c 'rm -rf x'",
            "bash -c \"sh -c 'rm -rf x'\"",
            "ls\nrm -rf x",
            "if true; then rm -rf x; fi",
            "echo ok > >(rm -rf x)",
            "r''m -rf x",
            "r\\m -rf x",
            "\"rm\" '-rf' x",
            "$'r\\x6d' -rf x",
            "$'\\162m' -rf x",
            "A=1 rm -rf x",
            "! rm -rf x",
            "$CMD -rf x",
            "${CMD} -rf x",
            "rm \\\n -rf x",
            "true '\\'; rm -rf x",
            "true \"$(true)\"; rm -rf x",
        ] {
            check(&["sh", "-c", script]);
            check(&["/bin/bash", "-ec", script]);
        }
        check(&["sh", "-c", &"true; ".repeat(20_000)]);
    }

    #[test]
    fn neither_spelling_nor_the_grammar_of_a_shell_hides_it() {
        let check = |words: &[&str]| {
            assert!(could_run(&argv(words), &[prefix("rm -rf")]), "{words:?}");
        };
        // Other spellings of the same options, other places.
        for words in [
            &["rm", "-r", "-f", "x"][..],
            &["rm", "-fvr", "x"],
            &["rm", "x", "-rf"],
            &["rm", "--recursive", "--force", "x"],
            &["rm", "--rec", "-f", "x"],
            &["time", "-p", "rm", "-rf", "x"],
            &["bash", "--norc", "-o", "pipefail", "-c", "rm -rf x"],
            &["sh", "-c", "-e", "rm -rf x"],
            &["nice", "env", "sh", "-c", "rm -rf x"],
            &["rm", "--r", "--f", "x"],
            &["env", "-Srm -rf x"],
            &["env", "--split-string=rm -rf x"],
            &["bash", "-c", "--", "-x || rm -rf x"],
            &["sh"],
            &["sh", "-s"],
        ] {
            check(words);
        }
    }

    #[test]
    fn no_script_hides_it() {
        let check = |words: &[&str]| {
            assert!(could_run(&argv(words), &[prefix("rm -rf")]), "{words:?}");
        };
        for script in [
            "X=rm; if true; then $X -rf y; fi",
            "rm $FLAGS y",
            "rm $(flags) y",
            "echo 'rm -rf y' | sh",
            "bash <<E\nrm -rf y\nE",
            "echo -rf y | xargs rm",
            "f() { rm -rf y; }; f",
            "case a in a) rm -rf y;; esac",
            "for i in 1 2; do rm -rf $i; done",
            "while rm -rf y; do :; done",
            "[[ -n $(rm -rf y) ]]",
            "x=$(rm -rf y)",
            "echo ${x:-$(rm -rf y)}",
            "echo $((1 + $(rm -rf y)))",
            "cat <<E\n$(rm -rf y)\nE",
            "true > $(rm -rf y)",
            "eval rm -rf y",
            "eval \"$X\"",
            "trap 'rm -rf y' EXIT",
            "alias x='rm -rf'; x y",
            "coproc rm -rf y",
            "/bin/r? -rf y",
            "[r]m -rf y",
            "{rm,-rf,y}",
            "((rm -rf y))",
            "echo 'rm -rf y' | sh /dev/stdin",
            "hash -p /bin/rm foo; foo -rf y",
            "PS4='$(rm -rf y)'; set -x; true",
            "export PS4='$(rm -rf y)'",
            "x='a[$(rm -rf y)]'; echo $((x))",
            "git submodule foreach 'rm -rf y'",
            "git submodule --quiet foreach rm -rf y",
            "git -c alias.x='!rm -rf y' x",
            "git rebase -x 'rm -rf y' main",
            "git bisect run rm -rf y",
            "/lib64/ld-linux-x86-64.so.2 /bin/rm -rf y",
            "[[ a || rm -rf y ]]",
            "echo $'\\'; rm -rf y #'",
            "true &> /dev/null rm -rf y",
            "a\r# b; rm -rf y",
            "echo ${ rm -rf y; }",
            "command rm -rf y",
            "exec rm -rf y",
            "if rm -rf y",
            "rm -rf y )",
        ] {
            check(&["sh", "-c", script]);
        }
    }

    #[test]
    fn subcommands_behind_options() {
        let check = |wanted: &str, words: &[&str], expected: bool| {
            assert_eq!(could_run(&argv(words), &[prefix(wanted)]), expected, "{wanted}: {words:?}");
        };
        check("git push", &["git", "push"], true);
        check("git push", &["git", "-C", ".", "push"], true);
        check("git push", &["git", "-C", "push", "status"], false);
        check("git push", &["git", "--no-pager", "-c", "a=b", "push", "origin"], true);
        check("git push", &["git", "--git-dir=x", "push"], true);
        check("git push", &["git", "status", "push"], false);
        check("git push", &["git", "commit", "-m", "push"], false);
        check("git push", &["sh", "-c", "git -C \"$DIR\" status"], false);
        check("git push", &["sh", "-c", "git -C $DIR status"], true);
        check("git push", &["sh", "-c", "git -C \"$@\" status"], true);
        check("git push", &["sh", "-c", "git -C \"${A[@]}\" status"], true);
        check("git push", &["sh", "-c", "git $DO"], true);
        check("git push --force", &["git", "push", "origin", "-f"], false);
        check("git push --force", &["git", "push", "origin", "--force"], true);
        check("git push --force", &["git", "push", "--forc"], true);
        check("npm publish", &["npm", "--prefix", "a", "publish"], true);
        check("npm publish", &["npm", "--loglevel=info", "publish"], true);
        check("npm publish", &["npm", "test"], false);
        check("python -m pip", &["python3", "-m", "pip"], false);
        check("python -m pip", &["python", "-m", "pip", "install", "x"], true);
        check("python -m pip", &["python", "-m", "pytest"], false);
        check("chmod -R", &["chmod", "--recursive", "a+x", "."], true);
        check("chmod -R", &["chmod", "a+x", "f"], false);
    }

    #[test]
    fn other_commands_stay_free() {
        let check = |words: &[&str]| {
            assert!(!could_run(&argv(words), &[prefix("rm -rf")]), "{words:?}");
        };
        check(&[]);
        check(&["rm"]);
        check(&["rm", "-r", "x"]);
        check(&["echo", "rm", "-rf"]);
        check(&["grep", "rm -rf", "README.md"]);
        check(&["sh", "-c", "rm; -rf"]);
        check(&["sh", "-c", "ls && cargo test"]);
        check(&["sh", "-c", "echo $HOME"]);
        check(&["sh", "-c", "echo \"rm -rf\" && printf '%s' 'rm -rf x'"]);
        check(&["sh", "-c", "grep -c 'rm -rf' *.sh # rm -rf x"]);
        check(&["sh", "-c", "cat <<'E'\nrm -rf x\nE"]);
        check(&["sh", "-c", "rm -r x; ls -f"]);
        check(&["sh", "-c", "for f in rm -rf; do echo $f; done"]);
        check(&["sh", "tests/run.sh", "rm -rf"]);
        check(&["bash", "-e", "run.sh"]);
        check(&["rm", "-r", "--", "-f"]);
        check(&["env", "A=1", "cargo", "test"]);
        check(&["git", "commit", "-m", "do not rm -rf"]);
    }

    #[test]
    fn permissive_matching_is_exact() {
        let allowed = [prefix("cargo test"), prefix("gh run view"), prefix("true")];
        let check = |words: &[&str], expected: bool| {
            assert_eq!(runs_only(&argv(words), &allowed, false), expected, "{words:?}");
        };
        check(&["cargo", "test", "-p", "x"], true);
        check(&["sh", "-c", "cargo test"], true);
        check(&["bash", "-lc", "gh run view 1"], true);
        check(&["sh", "-c", "gh run view 3 2>&1 > out"], true);
        check(&["sh", "-ec", "cargo test && gh run view $RUN | true; (true)"], true);
        check(&["sh", "-c", "for t in a b; do cargo test \"$t\"; done"], true);
        check(&["cargo"], false);
        check(&["cargo", "testx"], false);
        check(&["./cargo", "test"], false);
        check(&["/tmp/cargo", "test"], false);
        check(&["env", "cargo", "test"], false);
        check(&["./sh", "-c", "cargo test"], false);
        check(&["/ws/bin/sh", "-c", "cargo test"], false);
        check(&["sh", "-ic", "cargo test"], false);
        check(&["sh", "-c", "-x", "cargo test"], false);
        for script in [
            "",
            "GH_HOST=x gh run view 2",
            "cargo test; rm -rf x",
            "cargo test $(rm -rf x)",
            "cargo $X",
            "cargo {test,x}",
            "X=1; cargo test",
            "export PATH=x; cargo test",
            "cargo() { rm; }; cargo test",
            ". ./env; cargo test",
            "cargo test > >(rm)",
            "cargo test <<E\n$(rm)\nE",
            "cargo test ) true",
            "[[ a || rm ]]",
            "cargo test $'\\'; rm #'",
        ] {
            check(&["sh", "-c", script], false);
        }
    }

    #[test]
    fn exact_matching_takes_no_further_words() {
        let check = |words: &[&str], expected: bool| {
            assert_eq!(runs_only(&argv(words), &[prefix("rm -rf x")], true), expected, "{words:?}");
        };
        check(&["rm", "-rf", "x"], true);
        check(&["sh", "-c", "rm -rf x"], true);
        check(&["sh", "-c", "rm -rf 'x' && rm -rf x"], true);
        check(&["rm", "-rf", "x", "/"], false);
        check(&["sh", "-c", "rm -rf x y"], false);
        check(&["sh", "-c", "rm -rf x; true"], false);
        check(&["rm", "-rf"], false);
    }
}
