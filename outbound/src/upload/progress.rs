//! What an upload has done. Read at any time.

use std::sync::atomic::{AtomicU64, Ordering};

use conclave_model::EgressId;
use parking_lot::Mutex;

/// What an upload has done, over all its attempts.
#[derive(Debug)]
pub struct UploadProgress {
    /// The recording whose file is uploaded.
    pub egress: EgressId,
    sent: AtomicU64,
    size: AtomicU64,
    /// The upload in parts that was begun last and not completed.
    multipart: Mutex<Option<String>>,
}

impl UploadProgress {
    /// Returns the progress of an upload without attempts, or with those of an earlier run of the server.
    pub fn new(egress: EgressId, multipart: Option<String>) -> Self {
        let (sent, size) = (AtomicU64::new(0), AtomicU64::new(0));
        Self {
            egress,
            sent,
            size,
            multipart: Mutex::new(multipart),
        }
    }

    /// Begins an attempt to upload this many bytes.
    pub(super) fn begin(&self, size: u64) {
        self.sent.store(0, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
    }

    /// Counts bytes that the storage has taken.
    pub(super) fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that the last attempt has sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the size of the file in bytes; 0 before the first attempt.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Remembers the upload in parts that was begun.
    pub(super) fn set_multipart(&self, multipart: String) {
        *self.multipart.lock() = Some(multipart);
    }

    /// Takes the upload in parts that an earlier attempt has begun.
    pub(super) fn take_multipart(&self) -> Option<String> {
        self.multipart.lock().take()
    }
}
