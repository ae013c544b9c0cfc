//! Projects: the owners of rooms, and whether they may start work.

use crate::schema::word_enum;
use crate::{ProjectId, TemplateId, Timestamp};

/// Record of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Project id.
    pub id: ProjectId,
    /// Display name.
    pub name: String,
    /// Live or test; part of the project's API keys.
    pub env: Environment,
    /// Plan id: a section of the plans file.
    pub plan: String,
    /// Whether the operator has suspended the project.
    pub status: ProjectStatus,
    /// Template for rooms that are created without one.
    pub default_template_id: Option<TemplateId>,
    /// Balance of the wallet, in Ugandan shillings.
    pub balance_ugx: i64,
    /// Creation time.
    pub created_at: Timestamp,
}

word_enum! {
    /// The environment of a project.
    Environment {
        /// For production; API keys start with `vk_live_`.
        Live = "live",
        /// For development and tests.
        Test = "test"
    }
}

word_enum! {
    /// Decision whether a project may start work.
    ProjectStatus {
        /// The project may start work.
        Active = "active",
        /// The operator suspended the project.
        Suspended = "suspended"
    }
}
