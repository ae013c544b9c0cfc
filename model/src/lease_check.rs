//! Permission to act outside the database.

use std::fmt;
use std::sync::Arc;

/// Check whether this server may call a media server or post a webhook now: no other can have taken
/// over since its last confirmed lease renewal. Cheap to clone.
#[derive(Clone, Default)]
pub struct LeaseCheck(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl LeaseCheck {
    /// Returns the check of a server with its own database: it always may.
    #[must_use]
    pub fn not_needed() -> Self {
        // SQLite has no lease: one process has the file.
        Self(None)
    }

    /// Creates a check that calls `is_valid` each time.
    pub fn new(is_valid: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_valid)))
    }

    /// Returns whether this server may act outside its database now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        // Evaluated each time: validity depends on the time since the last renewal.
        self.0.as_ref().is_none_or(|is_valid| is_valid())
    }
}

impl fmt::Debug for LeaseCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeaseCheck").field(&self.is_valid()).finish()
    }
}
