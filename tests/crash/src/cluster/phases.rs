//! Times without faults, numbered like a server's lifetimes.

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::server::Lifetime;

/// The times between faults. Cheap to clone.
#[derive(Clone, Default)]
pub struct Phases(Arc<Mutex<Vec<Lifetime>>>);

impl Phases {
    /// Starts a time without faults, unless there is one.
    pub fn begin(&self) {
        let mut phases = self.0.lock();
        if phases.last().is_none_or(|last| last.to.is_some()) {
            phases.push(Lifetime {
                from: SystemTime::now(),
                to: None,
            });
        }
    }

    /// Ends it, right before a fault.
    pub fn end(&self) {
        if let Some(last) = self.0.lock().last_mut() {
            last.to.get_or_insert_with(SystemTime::now);
        }
    }

    /// Returns the current phase's number; `None` during a fault.
    pub fn current(&self) -> Option<u32> {
        let phases = self.0.lock();
        phases.last().filter(|last| last.to.is_none())?;
        u32::try_from(phases.len()).ok()
    }

    pub fn all(&self) -> Vec<Lifetime> {
        self.0.lock().clone()
    }
}
