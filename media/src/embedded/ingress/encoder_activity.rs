//! When an encoder was last heard of, so that another one with its stream key can take over from one that has lost its network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// For how long an encoder is silent that gives way to another one. Encoders send several packets a second, also without a picture.
pub const SILENT: Duration = Duration::from_secs(2);

/// When an encoder was last heard of, in real time. Clones share it.
#[derive(Debug, Clone)]
pub struct EncoderActivity(Arc<Mutex<Instant>>);

impl EncoderActivity {
    /// The encoder is heard of now.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// Records that the encoder is heard of now.
    pub fn note(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Returns how long it has been silent.
    pub fn silent_for(&self) -> Duration {
        self.0.lock().elapsed()
    }
}

impl PartialEq for EncoderActivity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for EncoderActivity {}
