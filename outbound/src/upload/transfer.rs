//! One attempt: from the first request to the last.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use object_store::multipart::PartId;
use object_store::{GetOptions, PutPayload};

use super::connector::Connector;
use super::storage::Storage;
use super::{UploadFailure, UploadProgress, UploadRecords};

/// The usual size of a part. Storages want at least 5 MiB.
const PART: u64 = 8 * 1024 * 1024;
/// Parts of an upload at most; a large file has larger ones.
const PARTS: u64 = 10_000;
/// Part sizes are multiples of this.
const STEP: u64 = 1024 * 1024;

/// A file on its way to a storage.
pub(super) struct Transfer {
    pub storage: Storage,
    pub connector: Connector,
    pub file: File,
    /// The size of the file in bytes.
    pub size: u64,
    pub progress: Arc<UploadProgress>,
    /// Set once this attempt has to end. Others of the same file may follow it.
    pub is_cancelled: Arc<AtomicBool>,
}

impl Transfer {
    /// Uploads the file. The upload in parts is recorded before its first part is sent, so that it can be aborted by a later attempt,
    /// and aborted at once if this one fails.
    pub async fn run(mut self, records: &impl UploadRecords) -> Result<(), UploadFailure> {
        self.abort_earlier().await;
        let Storage {
            store,
            object,
            options,
        } = &self.storage;
        let multipart = store.create_multipart_opts(object, options.clone()).await;
        let multipart = multipart.map_err(|_| self.failure())?;
        // Azure's have no name and end by themselves.
        if !multipart.is_empty() {
            self.progress.set_multipart(multipart.clone());
            records.record_multipart(multipart.clone()).await?;
        }
        let sent = self.send_all(&multipart).await;
        if sent.is_ok() {
            self.progress.take_multipart();
        } else if !self.is_cancelled.load(Ordering::Relaxed) {
            self.abort_earlier().await;
        }
        sent
    }

    /// Aborts the upload in parts that was begun before. A storage that cannot be reached, or does not know it, does not matter: those
    /// who keep such storages have rules that remove what was not completed.
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
            let part = self.read(bytes)?;
            let Storage { store, object, .. } = &self.storage;
            let sent = store.put_part(object, multipart, parts.len(), part).await;
            parts.push(sent.map_err(|_| self.failure())?);
            left -= bytes;
            self.progress.add_sent(bytes);
        }
        let Storage { store, object, .. } = &self.storage;
        if store
            .complete_multipart(object, multipart, parts)
            .await
            .is_ok()
        {
            return Ok(());
        }
        let failure = self.failure();
        // The response to the first request can be lost after the storage has made the object. The next one then says that it knows no
        // such upload.
        if self.is_complete().await {
            Ok(())
        } else {
            Err(failure)
        }
    }

    /// Returns whether the storage has the object. No other recording has its name.
    async fn is_complete(&self) -> bool {
        let Storage { store, object, .. } = &self.storage;
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
            Ok(_) => Err(UploadFailure::Interrupted(
                "the file is shorter than it was".into(),
            )),
            Err(error) => Err(UploadFailure::Interrupted(format!(
                "the file cannot be read: {error}"
            ))),
        }
    }

    /// Returns why the last request has failed. The library's own errors have urls.
    fn failure(&self) -> UploadFailure {
        let unknown = || {
            UploadFailure::Interrupted("the storage answered something else than it should".into())
        };
        self.connector.take_failure().unwrap_or_else(unknown)
    }
}

/// Returns the size of the parts of a file.
fn part_size(size: u64) -> u64 {
    PART.max(size.div_ceil(PARTS).next_multiple_of(STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_eight_mebibytes_until_there_would_be_too_many() {
        assert_eq!([1, PART, PART * PARTS].map(part_size), [PART; 3]);
        for size in [PART * PARTS + 1, 1 << 40] {
            let part = part_size(size);
            assert!(
                part > PART && part.is_multiple_of(STEP) && size.div_ceil(part) <= PARTS,
                "{size}"
            );
        }
    }
}
