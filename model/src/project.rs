//! Projects: who owns rooms, and how they stand.

use std::fmt;

use crate::{ProjectId, TemplateId, Timestamp};

/// A project's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The project.
    pub id: ProjectId,
    /// A name for people.
    pub name: String,
    /// Live or test; part of its keys.
    pub env: Environment,
    /// The plan's id, a section of the plans file.
    pub plan: String,
    /// Active or suspended.
    pub status: ProjectStatus,
    /// Used by rooms created without a template.
    pub default_template_id: Option<TemplateId>,
    /// What the wallet holds, in Ugandan shillings.
    pub balance_ugx: i64,
    /// When it was made.
    pub created_at: Timestamp,
}

macro_rules! two_words {
    ($(#[$doc:meta])* $name:ident { $(#[$a:meta])* $va:ident = $wa:literal, $(#[$b:meta])* $vb:ident = $wb:literal }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $(#[$a])* $va, $(#[$b])* $vb }

        impl $name {
            /// The word as it is stored and shown.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { Self::$va => $wa, Self::$vb => $wb }
            }

            /// Reads the word back.
            #[must_use]
            pub fn of(word: &str) -> Option<Self> {
                match word { $wa => Some(Self::$va), $wb => Some(Self::$vb), _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

two_words!(
    /// What a project is for.
    Environment {
        /// Real calls.
        Live = "live",
        /// Trying things out.
        Test = "test"
    }
);

two_words!(
    /// Whether a project may start work.
    ProjectStatus {
        /// It may.
        Active = "active",
        /// Stopped by the operator.
        Suspended = "suspended"
    }
);
