//! Names of workflow modes and states; the machine itself lives in the kernel.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that events and policy files use.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|value| value.as_str()).collect();
                    format!("expected one of {}", known.join(", "))
                })
            }
        }
    };
}

word_enum!(
    /// How strictly a session works.
    Mode {
        /// Tests first; the default.
        Strict = "strict",
        /// Code without a failing test; commits are marked unverified.
        Explore = "explore",
        /// As explore, plus commands in a running sandbox after review.
        Debug = "debug",
    }
);

word_enum!(
    /// What kind of work may need no failing test first.
    ExemptionCategory {
        /// How the project is set up.
        ConfigChange = "config_change",
        /// Declarations of types, which no program runs.
        TypeRefactor = "type_refactor",
        /// Texts for people.
        Documentation = "documentation",
        /// Pictures and styles.
        AssetUpdate = "asset_update",
    }
);

word_enum!(
    /// What the coverage that is owed means.
    DebtLevel {
        /// Nothing to speak of.
        None = "none",
        /// Told to whoever looks at a merge.
        Warning = "warning",
        /// No session explores until the coverage is back.
        Locked = "locked",
    }
);

impl DebtLevel {
    /// Whether somebody has to be told.
    #[must_use]
    pub const fn is_owed(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether nothing is explored.
    #[must_use]
    pub const fn locks(self) -> bool {
        matches!(self, Self::Locked)
    }
}

word_enum!(
    /// Where a session stands.
    State {
        /// Waiting for a message.
        Idle = "idle",
        /// Reading and planning; nothing may be written.
        Planning = "planning",
        /// Only tests may be written.
        TestWriting = "test_writing",
        /// Only sources may be written.
        CodeWriting = "code_writing",
        /// The tests are running on finished code; nothing may be written.
        Validating = "validating",
        /// The change set waits for approval.
        Reviewing = "reviewing",
        /// The change set is being merged and committed.
        Committing = "committing",
        /// Explore and debug: anything the policy allows may be written.
        Exploring = "exploring",
        /// Tests are added to code that was explored.
        RetroactiveTesting = "retroactive_testing",
    }
);
