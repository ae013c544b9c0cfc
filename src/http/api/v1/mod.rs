//! The operations of the API, a file a resource: its wire types, its operations, its handlers.

pub mod broadcasts;
pub mod codes;
pub mod destinations;
pub mod egress;
pub mod ingress;
pub mod minting;
pub mod moderation;
pub mod participants;
pub mod recordings;
pub mod role_changes;
pub mod roles;
pub mod rooms;
pub mod sessions;
pub mod templates;
pub mod tokens;
pub mod usage;
pub mod webhook_deliveries;
pub mod webhook_endpoints;

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
