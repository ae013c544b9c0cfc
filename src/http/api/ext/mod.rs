//! Operations beyond the contract, below `/ext/v1`: their table ([`operations`]), and a file per resource. They are declared like the
//! operations of [`v1`](super::v1), and use the same wire types.

pub(in crate::http) mod codes;
pub(in crate::http) mod recordings;

use std::sync::LazyLock;

use super::operation::Operation;

static OPERATIONS: LazyLock<Vec<Box<dyn Operation>>> = LazyLock::new(|| {
    [codes::operations(), recordings::operations()]
        .into_iter()
        .flatten()
        .collect()
});

/// Returns every operation, in the OpenAPI description's order.
pub fn operations() -> &'static [Box<dyn Operation>] {
    &OPERATIONS
}
