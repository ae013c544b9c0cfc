//! Whether this server may act outside its database.

use std::fmt;
use std::sync::Arc;

/// Tells whether this server may call a media server or post a webhook now: no other can have taken over since its last confirmed
/// renewal of the lease. Cheap to clone.
#[derive(Clone, Default)]
pub struct LeaseCheck(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl LeaseCheck {
    /// Returns the check of a server that shares its database with no other: it always may.
    #[must_use]
    pub fn not_needed() -> Self {
        Self(None)
    }

    /// Returns a check that asks each time.
    pub fn new(is_valid: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_valid)))
    }

    /// Whether this server may act outside its database now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.0.as_ref().is_none_or(|is_valid| is_valid())
    }
}

impl fmt::Debug for LeaseCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeaseCheck").field(&self.is_valid()).finish()
    }
}
