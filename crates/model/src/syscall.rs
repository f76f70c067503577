//! Syscalls: requests to cause an effect, as plain data that policy can decide on.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CanonicalPath, Digest, Principal, SessionId};

/// Names of the syscalls that Glasshouse itself makes; a name outside this list is decided too
/// (and denied by default).
pub mod name {
    /// Read a workspace file.
    pub const FS_READ: &str = "fs.read";
    /// List a workspace directory.
    pub const FS_LIST: &str = "fs.list";
    /// Ask whether a workspace path exists.
    pub const FS_EXISTS: &str = "fs.exists";
    /// Create or replace a workspace file; also every path a command changed.
    pub const FS_WRITE: &str = "fs.write";
    /// Replace one text by another in a workspace file.
    pub const FS_EDIT: &str = "fs.edit";
    /// Remove a workspace path (a command did it, or a merge would).
    pub const FS_DELETE: &str = "fs.delete";
    /// Search file contents.
    pub const SEARCH_GREP: &str = "search.grep";
    /// Search file names.
    pub const SEARCH_GLOB: &str = "search.glob";
    /// Run a command in the sandbox.
    pub const SHELL_RUN: &str = "shell.run";
    /// Run the repository's tests in the sandbox.
    pub const TEST_RUN: &str = "test.run";
    /// Show the change set.
    pub const GIT_DIFF: &str = "git.diff";
    /// Merge and commit the change set.
    pub const GIT_COMMIT: &str = "git.commit";
    /// Ask the model.
    pub const MODEL_CALL: &str = "model.call";
    /// Fetch a page: the tool; its syscall is the connection.
    pub const WEB_FETCH: &str = "web.fetch";
    /// Open a network connection.
    pub const NET_CONNECT: &str = "net.connect";
    /// Declare the plan of work complete.
    pub const PLAN_COMPLETE: &str = "plan.complete";
    /// Ask a person to let named files be changed without a failing test first.
    pub const WORKFLOW_REQUEST_EXEMPTION: &str = "workflow.request_exemption";
    /// Show the arguments of tools that a request names without them.
    pub const TOOLS_LOAD: &str = "tools.load";
    /// Show a generated interface.
    pub const UI_RENDER: &str = "ui.render";
    /// Load a module of a generated interface.
    pub const UI_IMPORT: &str = "ui.import";
    /// Mount a toolchain read-only into a sandbox.
    pub const SANDBOX_MOUNT: &str = "sandbox.mount";
    /// Change the policy.
    pub const POLICY_UPDATE: &str = "policy.update";
    /// Change the session's mode.
    pub const SESSION_SET_MODE: &str = "session.set_mode";
    /// Begin a branch of a session at one of its events.
    pub const SESSION_FORK: &str = "session.fork";
    /// Merge a branch of a session into another.
    pub const SESSION_MERGE: &str = "session.merge";
    /// Take in a session that another log exported.
    pub const SESSION_IMPORT: &str = "session.import";
    /// End a session for good.
    pub const SESSION_CLOSE: &str = "session.close";
    /// Erase what a session said.
    pub const SESSION_DELETE: &str = "session.delete";
    /// Merge a change set into the project directory.
    pub const MERGE_APPLY: &str = "merge.apply";

    /// Those that change a workspace or the project; built-in protections cover all of them.
    pub const MUTATING: [&str; 4] = [FS_WRITE, FS_EDIT, FS_DELETE, MERGE_APPLY];
    /// Those that act in a sandbox. The kernel does the others in its own process, but for connections, which are where
    /// the program is that makes them.
    pub const SANDBOXED: [&str; 5] = [FS_WRITE, FS_EDIT, FS_DELETE, SHELL_RUN, TEST_RUN];
    /// Those that nothing counts, whoever asks for them: a rule that limits how often denies them.
    pub const UNCOUNTED: [&str; 12] = [
        FS_DELETE,
        MODEL_CALL,
        MERGE_APPLY,
        SANDBOX_MOUNT,
        POLICY_UPDATE,
        SESSION_SET_MODE,
        SESSION_FORK,
        SESSION_MERGE,
        SESSION_CLOSE,
        SESSION_DELETE,
        SESSION_IMPORT,
        UI_IMPORT,
    ];
}

/// What a write changes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ChangeClass {
    /// Tests only: a file of the test globs, or only test items of a Rust source.
    Test,
    /// Anything else.
    Source,
    /// Test items and other items of one file.
    Mixed,
    /// A path that the repository ignores, such as a build output.
    Ignored,
}

impl ChangeClass {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::Test, Self::Source, Self::Mixed, Self::Ignored];

    /// The word that policy files use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Source => "source",
            Self::Mixed => "mixed",
            Self::Ignored => "ignored",
        }
    }
}

/// One request for a decision. Everything policy may look at is here, as plain data; fields that
/// do not apply to a syscall are absent, and a condition on an absent field does not match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// Syscall name, for example `fs.write`.
    pub syscall: String,
    /// Who asks.
    pub caller: Principal,
    /// Session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Workflow state in force, for example `test_writing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Workspace path, canonical and with symlinks resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<CanonicalPath>,
    /// Absolute path outside any workspace (mounts, the program's own files).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
    /// Command and arguments, exactly as they will run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Directory of the workspace that a command runs in; absent for its top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<CanonicalPath>,
    /// Network host, lower case, no trailing dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Port that a connection goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// HTTP method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path of an HTTP request without its query; absent where it cannot be seen, as in a tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_path: Option<String>,
    /// Query of an HTTP request, without its `?`; known of what is fetched, and looked at by grants alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_query: Option<String>,
    /// Bytes that would be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// What a write changes, as the kernel classified it from the content before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeClass>,
    /// Taint labels of what the request derives from.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Digest of the canonical arguments; approvals bind to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_digest: Option<Digest>,
    /// Identity of the sandbox that asks, for sealed grants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
}

impl Call {
    /// A call with nothing but a name and a caller.
    #[must_use]
    pub fn new(syscall: &str, caller: Principal) -> Self {
        Self {
            syscall: syscall.to_owned(),
            caller,
            session: None,
            state: None,
            path: None,
            host_path: None,
            argv: None,
            cwd: None,
            host: None,
            port: None,
            method: None,
            http_path: None,
            http_query: None,
            size_bytes: None,
            change: None,
            labels: BTreeSet::new(),
            args_digest: None,
            sandbox: None,
        }
    }

    /// Sets the workspace path.
    #[must_use]
    pub fn at(mut self, path: CanonicalPath) -> Self {
        self.path = Some(path);
        self
    }
}
