//! Erasure of an identity from a project's records.

use conclave_db::ErasedRows;
use conclave_model::{ErrorCode, Identity};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::{ApiError, Result};
use crate::http::api::input::{Input, NoBody, NoParams};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::Json;
use crate::http::api::spec::Method;
use crate::http::api::v1::recordings::Recording;
use crate::http::erasure::{self, Erased};

/// Identity path.
#[derive(Deserialize, IntoParams)]
pub struct IdentityPath {
    /// The identity.
    #[param(inline)]
    identity: Identity,
}

/// Result of an erasure.
#[derive(Serialize, ToSchema)]
pub struct ErasedIdentity {
    /// Random identity that the person's rows have from now on. It cannot be turned back.
    pub replacement: Identity,
    /// Rows that were changed by this call.
    pub changed: ErasedRowCounts,
    /// Recording files of the participant, and of its tracks, that were deleted by this call.
    pub deleted_files: u32,
    /// Recordings whose files remain and in which the person may be seen or heard, oldest first, at most 1,000: composites, recordings for
    /// destinations, and files that are not on this server.
    pub remaining_recordings: Vec<Recording>,
    /// Whether there are more of them.
    pub has_more: bool,
}

/// Changed rows by kind.
#[derive(Serialize, ToSchema)]
pub struct ErasedRowCounts {
    pub sessions: u64,
    /// Role changes of the participant, and by the participant.
    pub role_changes: u64,
    /// Room codes that were locked to the identity. They are disabled.
    pub codes: u64,
    /// Ingress endpoints. They are deleted.
    pub ingresses: u64,
    /// Recordings of the participant and of its tracks.
    pub recordings: u64,
    /// Bans, without their reasons, and revocations of tokens. They no longer apply.
    pub bans: u64,
    /// Events, with their webhook deliveries.
    pub events: u64,
}

impl From<ErasedRows> for ErasedRowCounts {
    fn from(rows: ErasedRows) -> Self {
        // Destructured, so that a new kind cannot be forgotten here.
        let ErasedRows {
            sessions,
            role_changes,
            codes,
            ingresses,
            recordings,
            bans,
            events,
        } = rows;
        Self {
            sessions,
            role_changes,
            codes,
            ingresses,
            recordings,
            bans,
            events,
        }
    }
}

impl TryFrom<Erased> for ErasedIdentity {
    type Error = ApiError;

    /// Fails for a broadcast, which an erasure does not return.
    fn try_from(erased: Erased) -> Result<Self> {
        let Erased {
            replacement,
            rows,
            deleted_files,
            remaining,
            has_more,
        } = erased;
        Ok(Self {
            replacement,
            changed: rows.into(),
            deleted_files,
            remaining_recordings: remaining
                .into_iter()
                .map(Recording::try_from)
                .collect::<Result<_>>()?,
            has_more,
        })
    }
}

/// Returns the operations on identities.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(
            Method::Delete,
            "/ext/v1/identities/{identity}",
            "erase_identity",
            erase,
        )
        .about(
            "identities",
            "Erase a person: remove the participant, delete its recordings, and replace the identity in all records",
        )
        .responds(json!({
            "replacement": "erased-k7m2pq9xw4hd3vnc8zrt5byj",
            "changed": {
                "sessions": 12, "role_changes": 1, "codes": 0, "ingresses": 0, "recordings": 1, "bans": 0, "events": 31
            },
            "deleted_files": 1, "remaining_recordings": [], "has_more": false
        }))
        // A repeated request gets the result of the first one, with the list of recordings.
        .idempotent()
        .errors(&[ErrorCode::MediaUnavailable])
        .build(),
    ]
}

pub async fn erase(
    context: RequestContext,
    input: Input<IdentityPath, NoParams, NoBody>,
) -> Result<Json<ErasedIdentity>> {
    let erased = erasure::erase(&context.state, context.project(), input.path.identity).await?;
    erased.try_into().map(Json)
}
