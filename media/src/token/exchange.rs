//! The name of an exchange of a room code.

use conclave_model::secret::{BASE62, random_text};

/// The length of a name, in characters of which each has 62 values.
const CHARACTERS: usize = 16;

/// The random name of one exchange of a room code. A participant that joins again with the same token has the same one. It is no
/// secret: all participants of the room see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeId(Box<str>);

impl ExchangeId {
    /// Returns a new random name.
    #[allow(clippy::new_without_default, reason = "a random name is no default")]
    #[must_use]
    pub fn new() -> Self {
        Self(random_text(CHARACTERS, BASE62).into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}
