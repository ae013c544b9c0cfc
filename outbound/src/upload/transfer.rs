//! Data transfer of an attempt, from the first request to the last.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use object_store::multipart::PartId;
use object_store::{GetOptions, PutPayload};

use super::connector::StorageConnector;
use super::storage::ObjectStorage;
use super::{UploadFailure, UploadProgress, UploadRecords};

/// Default part size. S3 demands at least 5 MiB for all parts but the last.
const MIN_PART_BYTES: u64 = 8 * 1024 * 1024;
/// Maximum number of parts (S3's limit). Large files get larger parts.
const MAX_PARTS: u64 = 10_000;
/// Unit of part sizes.
const PART_STEP_BYTES: u64 = 1024 * 1024;

/// Transfer of one file.
pub(super) struct UploadTransfer {
    pub storage: ObjectStorage,
    pub connector: StorageConnector,
    pub file: File,
    /// File size in bytes.
    pub size: u64,
    pub progress: Arc<UploadProgress>,
    /// Set once this attempt must end. Other attempts may follow.
    pub is_cancelled: Arc<AtomicBool>,
}

impl UploadTransfer {
    /// Uploads the file. The multipart upload is recorded before its first part is sent, so that a
    /// later attempt can abort it. If this attempt fails, it aborts it at once.
    pub async fn run(mut self, records: &impl UploadRecords) -> Result<(), UploadFailure> {
        self.abort_earlier().await;
        let ObjectStorage {
            store,
            object,
            options,
        } = &self.storage;
        let multipart = store.create_multipart_opts(object, options.clone()).await;
        let multipart = multipart.map_err(|_| self.failure())?;
        // Azure has no id, and removes uncommitted blocks itself.
        if !multipart.is_empty() {
            self.progress.set_multipart(multipart.clone());
            records.record_multipart(multipart.clone()).await?;
        }
        let sent = self.send_all(&multipart).await;
        if sent.is_ok() {
            self.progress.take_multipart();
        // At a shutdown, the id is recorded, and the next start aborts it.
        } else if !self.is_cancelled.load(Ordering::Relaxed) {
            self.abort_earlier().await;
        }
        sent
    }

    /// Aborts the earlier multipart upload. Errors do not matter: buckets usually have a rule that
    /// removes unfinished uploads.
    async fn abort_earlier(&self) {
        if let Some(multipart) = self.progress.take_multipart() {
            let aborted = self
                .storage
                .store
                .abort_multipart(&self.storage.object, &multipart)
                .await;
            if aborted.is_err() {
                log::debug!(egress_id = self.progress.egress.as_str(); "an earlier upload in parts was not aborted");
            }
        }
    }

    async fn send_all(&mut self, multipart: &String) -> Result<(), UploadFailure> {
        let mut parts: Vec<PartId> = Vec::new();
        let mut left = self.size;
        let step = part_size(self.size);
        while left > 0 {
            if self.is_cancelled.load(Ordering::Relaxed) {
                return Err(UploadFailure::Interrupted("the server stops".into()));
            }
            let bytes = step.min(left);
            // Read per part, so that one part is in memory, whatever the file's size.
            let part = self.read(bytes)?;
            let ObjectStorage { store, object, .. } = &self.storage;
            let sent = store.put_part(object, multipart, parts.len(), part).await;
            parts.push(sent.map_err(|_| self.failure())?);
            left -= bytes;
            self.progress.add_sent(bytes);
        }
        let ObjectStorage { store, object, .. } = &self.storage;
        if store
            .complete_multipart(object, multipart, parts)
            .await
            .is_ok()
        {
            return Ok(());
        }
        let failure = self.failure();
        // The response to the first request may be lost after the storage has created the object;
        // the repeated request then reports an unknown upload.
        if self.is_complete().await {
            Ok(())
        } else {
            Err(failure)
        }
    }

    /// Returns whether the storage has the object with this size. Names are unique, so it cannot be
    /// another recording.
    async fn is_complete(&self) -> bool {
        let ObjectStorage { store, object, .. } = &self.storage;
        let found = store
            .get_opts(object, GetOptions::new().with_head(true))
            .await;
        found.is_ok_and(|found| found.meta.size == self.size)
    }

    fn read(&mut self, bytes: u64) -> Result<PutPayload, UploadFailure> {
        let mut part = Vec::new();
        let read = (&mut self.file).take(bytes).read_to_end(&mut part);
        match read {
            Ok(read) if read as u64 == bytes => Ok(PutPayload::from(part)),
            // The egress has ended, so only another program can have cut the file.
            Ok(_) => Err(UploadFailure::Interrupted(
                "the file is shorter than it was".into(),
            )),
            Err(error) => Err(UploadFailure::Interrupted(format!(
                "the file cannot be read: {error}"
            ))),
        }
    }

    /// Returns why the last request failed. The library's own errors contain URLs.
    fn failure(&self) -> UploadFailure {
        let unknown = || {
            UploadFailure::Interrupted("the storage answered something else than it should".into())
        };
        self.connector.take_failure().unwrap_or_else(unknown)
    }
}

/// Returns the part size for a file.
fn part_size(size: u64) -> u64 {
    // Rounded up, so that there are never more than the maximum number of parts.
    MIN_PART_BYTES.max(size.div_ceil(MAX_PARTS).next_multiple_of(PART_STEP_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_eight_mebibytes_until_there_would_be_too_many() {
        assert_eq!(
            [1, MIN_PART_BYTES, MIN_PART_BYTES * MAX_PARTS].map(part_size),
            [MIN_PART_BYTES; 3]
        );
        for size in [MIN_PART_BYTES * MAX_PARTS + 1, 1 << 40] {
            let part = part_size(size);
            assert!(
                part > MIN_PART_BYTES
                    && part.is_multiple_of(PART_STEP_BYTES)
                    && size.div_ceil(part) <= MAX_PARTS,
                "{size}"
            );
        }
    }
}
