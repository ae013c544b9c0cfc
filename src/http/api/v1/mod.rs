//! Operations in the contract: their table ([`operations`]), and a file per resource with its wire types, operations and handlers.

pub(in crate::http) mod broadcasts;
pub(in crate::http) mod codes;
pub(in crate::http) mod destinations;
pub(in crate::http) mod egress;
pub(in crate::http) mod ingress;
pub(in crate::http) mod participants;
pub(in crate::http) mod recordings;
pub(in crate::http) mod roles;
pub(in crate::http) mod rooms;
pub(in crate::http) mod sessions;
pub(in crate::http) mod templates;
pub(in crate::http) mod tokens;
pub(in crate::http) mod usage;
pub(in crate::http) mod webhooks;

use std::sync::LazyLock;

use super::operation::Operation;

static OPERATIONS: LazyLock<Vec<Box<dyn Operation>>> = LazyLock::new(|| {
    [
        rooms::operations(),
        participants::operations(),
        tokens::operations(),
        templates::operations(),
        roles::operations(),
        destinations::operations(),
        codes::operations(),
        recordings::operations(),
        broadcasts::operations(),
        ingress::operations(),
        sessions::operations(),
        webhooks::operations(),
        usage::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
});

/// Returns every operation, in the OpenAPI description's order.
pub fn operations() -> &'static [Box<dyn Operation>] {
    &OPERATIONS
}
