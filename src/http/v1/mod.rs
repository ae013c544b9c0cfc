//! The operations of the API, a file a resource: its wire types, its operations, its handlers.

pub(super) mod broadcasts;
pub(super) mod codes;
pub(super) mod destinations;
pub(super) mod egress;
pub(super) mod ingress;
pub(super) mod minting;
pub(super) mod moderation;
pub(super) mod participants;
pub(super) mod recordings;
pub(super) mod role_changes;
pub(super) mod roles;
pub(super) mod rooms;
pub(super) mod sessions;
pub(super) mod templates;
pub(super) mod tokens;
pub(super) mod usage;
pub(super) mod webhook_deliveries;
pub(super) mod webhook_endpoints;

use std::sync::LazyLock;

use super::operation::Operation;

static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    [
        rooms::operations(),
        participants::operations(),
        moderation::operations(),
        role_changes::operations(),
        tokens::operations(),
        templates::operations(),
        roles::operations(),
        destinations::operations(),
        codes::operations(),
        recordings::operations(),
        broadcasts::operations(),
        ingress::operations(),
        sessions::operations(),
        webhook_endpoints::operations(),
        webhook_deliveries::operations(),
        usage::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
});

/// Every operation, in the order of the OpenAPI description.
pub fn operations() -> &'static [Operation] {
    &OPERATIONS
}
