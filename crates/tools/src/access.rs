//! Which calls of one step may run at the same time.

use glasshouse_model::CanonicalPath;

use crate::Arguments;

/// A part of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// None of it.
    Nothing,
    /// This path and everything below it.
    Path(CanonicalPath),
    /// All of it, or nobody knows which part.
    Everything,
}

impl Reach {
    /// Whether two parts have something in common. A directory contains what is below it, so a
    /// listing overlaps a write into it, and making `a/b/c` overlaps a look at `a/b`.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Nothing) => false,
            (Self::Everything, _) | (_, Self::Everything) => true,
            (Self::Path(a), Self::Path(b)) => {
                a.components().zip(b.components()).all(|(a, b)| a == b)
            }
        }
    }
}

/// What a call reads and what it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// What it looks at.
    pub reads: Reach,
    /// What it changes.
    pub writes: Reach,
}

impl Access {
    /// Whether the order of two calls may matter: one writes what the other reads or writes.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.writes.overlaps(&other.writes)
            || self.writes.overlaps(&other.reads)
            || self.reads.overlaps(&other.writes)
    }
}

impl Arguments {
    /// What the call reads and changes. `resolved` is the real path of its
    /// [`target`](Arguments::target); without it the path counts by its text, which a link can
    /// belie, and a text that is no path counts as everything.
    #[must_use]
    pub fn access(&self, resolved: Option<&CanonicalPath>) -> Access {
        let target = || match (resolved, self.target()) {
            (Some(path), _) => Reach::Path(path.clone()),
            (None, Some((text, _))) => {
                CanonicalPath::parse(text).map_or(Reach::Everything, Reach::Path)
            }
            (None, None) => Reach::Everything,
        };
        let (reads, writes) = match self {
            Self::FsRead { .. }
            | Self::FsList { .. }
            | Self::FsExists { .. }
            | Self::SearchGrep { .. }
            | Self::SearchGlob { .. } => (target(), Reach::Nothing),
            Self::FsWrite { .. } => (Reach::Nothing, target()),
            Self::FsEdit { .. } => (target(), target()),
            Self::GitDiff {} => (Reach::Everything, Reach::Nothing),
            // A command may do anything; a commit and a plan change what later calls may do.
            Self::ShellRun { .. }
            | Self::TestRun { .. }
            | Self::GitCommit { .. }
            | Self::PlanComplete { .. }
            | Self::RequestExemption { .. } => (Reach::Everything, Reach::Everything),
            Self::UiRender { .. } | Self::WebFetch { .. } | Self::ToolsLoad { .. } => {
                (Reach::Nothing, Reach::Nothing)
            }
        };
        Access { reads, writes }
    }

    /// Whether two calls must run one after the other, judged by their texts alone; callers that
    /// resolved the paths use [`Access::conflicts_with`].
    #[must_use]
    pub fn conflicts(a: &Self, b: &Self) -> bool {
        a.access(None).conflicts_with(&b.access(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_arguments;

    #[test]
    fn calls_conflict_when_one_changes_what_the_other_sees() {
        let call = |text: &str| {
            let (tool, arguments) = text.split_once(' ').unwrap();
            parse_arguments(tool, arguments).unwrap()
        };
        let check = |a: &str, b: &str, expected: bool| {
            assert_eq!(Arguments::conflicts(&call(a), &call(b)), expected, "{a} / {b}");
            assert_eq!(Arguments::conflicts(&call(b), &call(a)), expected, "{b} / {a}");
        };
        let read = r#"fs.read {"path":"src/a"}"#;
        let write = r#"fs.write {"path":"src/a","content":""}"#;
        let edit = r#"fs.edit {"path":"src/a","old":"x","new":"y"}"#;
        let shell = r#"shell.run {"argv":["ls"]}"#;
        check(read, read, false);
        check(read, write, true);
        check(read, edit, true);
        check(write, write, true);
        check(write, r#"fs.write {"path":"src/b","content":""}"#, false);
        check(write, r#"fs.write {"path":"src/ab","content":""}"#, false);
        check(write, r#"fs.write {"path":"./src//a","content":""}"#, true);
        check(write, r#"fs.list {"path":"src"}"#, true);
        check(write, r#"fs.list {"path":"tests"}"#, false);
        check(write, r#"fs.list {"path":"."}"#, true);
        check(write, r#"fs.exists {"path":"src/a/b"}"#, true);
        check(write, r#"search.grep {"pattern":"x"}"#, true);
        check(write, r#"search.glob {"pattern":"x","path":"tests"}"#, false);
        check(write, r#"fs.read {"path":"/etc/x"}"#, true);
        check(write, "git.diff {}", true);
        check(read, "git.diff {}", false);
        check(shell, read, true);
        check(shell, write, true);
        check(shell, shell, true);
        check(shell, "test.run {}", true);
        check(shell, r#"ui.render {"plan":{}}"#, false);
        check(read, r#"plan.complete {"summary":"x"}"#, true);
    }

    #[test]
    fn a_resolved_path_sees_through_links() {
        let write = parse_arguments("fs.write", r#"{"path":"link/a","content":""}"#).unwrap();
        let read = parse_arguments("fs.read", r#"{"path":"src/a"}"#).unwrap();
        assert!(!Arguments::conflicts(&write, &read));
        let real = CanonicalPath::parse("src/a").unwrap();
        assert!(write.access(Some(&real)).conflicts_with(&read.access(None)));
    }
}
