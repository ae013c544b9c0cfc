//! Projects: who owns rooms, and how they stand.

use crate::schema::word_enum;
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

word_enum! {
    /// What a project is for.
    Environment {
        /// Real calls.
        Live = "live",
        /// Trying things out.
        Test = "test"
    }
}

word_enum! {
    /// Whether a project may start work.
    ProjectStatus {
        /// It may.
        Active = "active",
        /// Stopped by the operator.
        Suspended = "suspended"
    }
}
