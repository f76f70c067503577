//! Named limits of a sandbox. Immutable once a sandbox exists.

use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Which system calls a command may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Computes and talks over inherited descriptors: no new process, no file creation, no network.
    Strict,
    /// What compilers, interpreters, test runners and git need. Internet sockets reach only the
    /// sandbox's own empty loopback.
    Standard,
    /// As standard; for templates whose traffic goes through the egress proxy.
    StandardNet,
}

/// What the sandbox can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Nothing: an empty network namespace with its own loopback.
    None,
    /// Nothing but the egress proxy; without one the same as [`Network::None`].
    Restricted,
}

/// The templates that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TemplateName {
    /// Builds and tests; the default.
    CodeExecutor,
    /// Tests that need listed hosts.
    IntegrationTest,
    /// A model provider's client.
    AiProvider,
    /// A policy extension.
    PolicySandbox,
    /// Code of a plan.
    Script,
}

impl TemplateName {
    /// Every template.
    pub const ALL: [Self; 5] = [
        Self::CodeExecutor,
        Self::IntegrationTest,
        Self::AiProvider,
        Self::PolicySandbox,
        Self::Script,
    ];

    /// The name in policy files and flags.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CodeExecutor => "code-executor",
            Self::IntegrationTest => "integration-test",
            Self::AiProvider => "ai-provider",
            Self::PolicySandbox => "policy-sandbox",
            Self::Script => "script",
        }
    }

    /// Finds a template by name.
    ///
    /// ```
    /// use glasshouse_sandbox::TemplateName;
    /// assert_eq!(TemplateName::parse("script"), Some(TemplateName::Script));
    /// assert_eq!(TemplateName::parse("Script"), None);
    /// ```
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|template| template.as_str() == name)
    }

    /// Its limits.
    #[must_use]
    pub const fn template(self) -> Template {
        let build = Template {
            memory_bytes: GIB,
            cpu_millis: 1000,
            max_pids: 100,
            max_duration_ms: 300_000,
            disk_bytes: 4 * GIB,
            seccomp: Profile::Standard,
            network: Network::None,
        };
        match self {
            Self::CodeExecutor => build,
            Self::IntegrationTest => {
                Template { seccomp: Profile::StandardNet, network: Network::Restricted, ..build }
            }
            Self::AiProvider => Template {
                memory_bytes: 256 * MIB,
                cpu_millis: 500,
                max_pids: 10,
                max_duration_ms: 120_000,
                disk_bytes: 64 * MIB,
                seccomp: Profile::Strict,
                network: Network::Restricted,
            },
            Self::PolicySandbox => Template {
                memory_bytes: 128 * MIB,
                cpu_millis: 250,
                max_pids: 5,
                max_duration_ms: 100,
                disk_bytes: 16 * MIB,
                seccomp: Profile::Strict,
                network: Network::None,
            },
            Self::Script => Template {
                memory_bytes: 128 * MIB,
                cpu_millis: 1000,
                max_pids: 16,
                max_duration_ms: 30_000,
                disk_bytes: 16 * MIB,
                seccomp: Profile::Strict,
                network: Network::None,
            },
        }
    }
}

/// Limits of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// Most memory of all processes together, temporary files included.
    pub memory_bytes: u64,
    /// Processor time per second in thousandths of one processor.
    pub cpu_millis: u32,
    /// Most processes and threads at one time.
    pub max_pids: u32,
    /// Longest command; a command may ask for less, never for more.
    pub max_duration_ms: u64,
    /// Most bytes a command may add to the workspace, and separately to temporary files.
    pub disk_bytes: u64,
    /// System calls.
    pub seccomp: Profile,
    /// Network.
    pub network: Network,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_the_promised_ones() {
        let check =
            |name: &str, memory_mib: u64, cpu: u32, pids: u32, ms: u64, seccomp: Profile| {
                let found = TemplateName::parse(name).unwrap().template();
                assert_eq!(found.memory_bytes, memory_mib * MIB, "{name}");
                assert_eq!((found.cpu_millis, found.max_pids), (cpu, pids), "{name}");
                assert_eq!((found.max_duration_ms, found.seccomp), (ms, seccomp), "{name}");
            };
        check("ai-provider", 256, 500, 10, 120_000, Profile::Strict);
        check("code-executor", 1024, 1000, 100, 300_000, Profile::Standard);
        check("policy-sandbox", 128, 250, 5, 100, Profile::Strict);
        check("integration-test", 1024, 1000, 100, 300_000, Profile::StandardNet);
        check("script", 128, 1000, 16, 30_000, Profile::Strict);
    }
}
