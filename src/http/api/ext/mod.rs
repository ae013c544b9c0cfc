//! Operations beyond the contract, below `/ext/v1`: their table ([`operations`]), and a file per resource. They are declared like the
//! operations of [`v1`](super::v1), and use the same wire types.

pub(in crate::http) mod bans;
pub(in crate::http) mod codes;
pub(in crate::http) mod events;
pub(crate) mod identities;
pub(in crate::http) mod quality;
pub(in crate::http) mod recordings;
pub(in crate::http) mod rooms;
pub(in crate::http) mod webhooks;

use std::sync::LazyLock;

use super::operation::Operation;

static OPERATIONS: LazyLock<Vec<Box<dyn Operation>>> = LazyLock::new(|| {
    [
        bans::operations(),
        codes::operations(),
        events::operations(),
        identities::operations(),
        quality::operations(),
        recordings::operations(),
        rooms::operations(),
        webhooks::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
});

/// Returns every operation, in the OpenAPI description's order.
pub fn operations() -> &'static [Box<dyn Operation>] {
    &OPERATIONS
}
