//! Multipart uploads to object storage.
//!
//! # Dramatis personae
//!
//! - [`Uploader`] starts attempts. Its caller, the egress actor, decides when an attempt is due,
//!   and persists what [`UploadRecords`] asks for.
//! - `slots` limits concurrent attempts, and separates storages that respond from storages that
//!   hang.
//! - `transfer` sends a file's parts, and completes or aborts the multipart upload.
//! - `storage` hides S3, Google Cloud Storage and Azure behind one interface.
//! - `connector` is their HTTP client, and classifies errors: is another attempt worth it?
//! - [`UploadProgress`] counts, for inspection.
//!
//! # An attempt
//!
//! 1. It waits for a slot, then runs on a thread at low priority, so that neither disk, network nor
//!    signing delays calls. It holds one part in memory.
//! 2. It aborts the multipart upload of an earlier attempt, if there is one.
//! 3. It creates a multipart upload and records its id, before the first part is sent: after a
//!    crash, a later attempt can abort it, so no unfinished parts stay in the bucket.
//! 4. It sends the parts and completes the upload. If the response to that is lost, a HEAD request
//!    shows whether the object exists.
//!
//! # Failures
//!
//! - *Damaged or throttled requests* are repeated within the attempt, up to four times or a minute.
//! - *Interrupted attempts* (network, 5xx, lost parts) start again from the first part, after a
//!   delay that the caller chooses.
//! - *Refusals* (403, no such bucket, forbidden address) are reported, since only a changed
//!   destination helps.
//! - *Shutdown or a deleted record* ends the attempt before its next part.
//!
//! The dialled address is checked as for webhooks, because a project supplies the URL.

mod connector;
mod slots;
mod storage;
mod transfer;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use conclave_model::address::AddressFilter;
use conclave_model::destination::RecordingConfig;
use conclave_model::filepath::FilePath;
use conclave_model::{DestinationId, EgressId, ProjectId};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::roots::TrustedRoots;
use connector::StorageConnector;
use slots::UploadSlots;
use storage::ObjectStorage;
use transfer::UploadTransfer;

/// Reason why an attempt failed, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadFailure {
    /// The file is missing or empty.
    NoFile,
    /// The destination was deleted.
    NoDestination,
    /// Another attempt would fail as well, until the destination or the storage is changed.
    Refused(String),
    /// Another attempt may succeed.
    Interrupted(String),
}

/// The caller's records about an upload, called on the attempt's thread.
pub trait UploadRecords: Send + 'static {
    /// Returns the current configuration of the destination.
    fn storage(&self) -> impl Future<Output = Result<RecordingConfig, UploadFailure>>;

    /// Records a multipart upload's id before its first part is sent, so that it can be aborted
    /// after a restart.
    fn record_multipart(
        &self,
        multipart: String,
    ) -> impl Future<Output = Result<(), UploadFailure>>;
}

/// Progress of an upload over all its attempts.
#[derive(Debug)]
pub struct UploadProgress {
    /// Egress whose file is uploaded.
    pub egress: EgressId,
    sent: AtomicU64,
    size: AtomicU64,
    /// Last multipart upload that was created and not completed.
    multipart: Mutex<Option<String>>,
}

impl UploadProgress {
    /// Creates the progress of an upload, with the multipart upload of an earlier run, if any.
    pub fn new(egress: EgressId, multipart: Option<String>) -> Self {
        let (sent, size) = (AtomicU64::new(0), AtomicU64::new(0));
        Self {
            egress,
            sent,
            size,
            multipart: Mutex::new(multipart),
        }
    }

    /// Starts an attempt with this many bytes.
    fn start(&self, size: u64) {
        // An attempt starts from the first part.
        self.sent.store(0, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
    }

    /// Counts bytes accepted by the storage.
    fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes sent by the last attempt.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the file size in bytes; 0 before the first attempt.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn set_multipart(&self, multipart: String) {
        *self.multipart.lock() = Some(multipart);
    }

    fn take_multipart(&self) -> Option<String> {
        self.multipart.lock().take()
    }
}

/// Starts upload attempts.
pub struct Uploader {
    recordings: PathBuf,
    connector: StorageConnector,
    slots: Arc<UploadSlots>,
    running: Mutex<Vec<Weak<UploadProgress>>>,
}

/// File to upload.
#[derive(Debug, Clone)]
pub struct UploadedFile {
    /// Project that owns the recording.
    pub project: ProjectId,
    /// Destination of the file.
    pub destination: DestinationId,
    /// Path in the project's directory.
    pub filepath: FilePath,
}

/// Running or waiting attempt. Dropping it ends the attempt before its next part.
pub struct RunningUpload {
    is_cancelled: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Drop for RunningUpload {
    fn drop(&mut self) {
        // The thread cannot be aborted, so it checks this flag before each part.
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}

impl Uploader {
    /// Creates an uploader for files in `recordings`, which has a directory per project. It dials
    /// only addresses that `filter` permits, and trusts `roots`. Threads are started on demand;
    /// each calls `lower_priority` first.
    ///
    /// # Errors
    /// Fails if the operating system refuses the resources.
    pub fn new(
        recordings: PathBuf,
        filter: AddressFilter,
        roots: TrustedRoots,
        lower_priority: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (connector, slots) = (
            StorageConnector::new(filter, roots),
            Arc::new(UploadSlots::new(lower_priority)?),
        );
        Ok(Self {
            recordings,
            connector,
            slots,
            running: Mutex::default(),
        })
    }

    /// Starts an attempt in a task, and calls `done` with its result.
    pub fn start(
        &self,
        file: UploadedFile,
        records: impl UploadRecords,
        progress: Arc<UploadProgress>,
        done: impl FnOnce(Result<(), UploadFailure>) + Send + 'static,
    ) -> RunningUpload {
        // Weak: a finished upload must not stay in the list.
        self.running.lock().push(Arc::downgrade(&progress));
        let (slots, path) = (
            Arc::clone(&self.slots),
            self.path(&file.project, &file.filepath),
        );
        let (is_cancelled, connector) =
            // A connector per attempt: it records the last failure.
            (Arc::<AtomicBool>::default(), self.connector.for_attempt());
        let UploadedFile {
            project,
            destination,
            filepath,
        } = file;
        let attempt = UploadAttempt {
            filepath,
            path,
            records,
            progress,
            connector,
            is_cancelled: Arc::clone(&is_cancelled),
        };
        let task = tokio::spawn(async move {
            done(
                slots
                    .run(&project, &destination, || attempt.run_blocking())
                    .await,
            );
        });
        RunningUpload { is_cancelled, task }
    }

    /// Removes an uploaded file. Blocks briefly.
    ///
    /// # Errors
    /// Fails if the file system refuses it.
    pub fn remove(&self, project: &ProjectId, filepath: &FilePath) -> io::Result<()> {
        std::fs::remove_file(self.path(project, filepath))
    }

    /// Returns the progress of running and waiting attempts.
    pub fn running(&self) -> Vec<Arc<UploadProgress>> {
        let mut running = self.running.lock();
        // Finished uploads are removed here, since nothing else reads the list.
        running.retain(|progress| progress.strong_count() > 0);
        running.iter().filter_map(Weak::upgrade).collect()
    }

    fn path(&self, project: &ProjectId, filepath: &FilePath) -> PathBuf {
        self.recordings
            .join(project.as_str())
            .join(filepath.as_str())
    }
}

/// Attempt to upload a file, on its own thread.
struct UploadAttempt<R> {
    filepath: FilePath,
    path: PathBuf,
    records: R,
    progress: Arc<UploadProgress>,
    connector: StorageConnector,
    is_cancelled: Arc<AtomicBool>,
}

impl<R: UploadRecords> UploadAttempt<R> {
    fn run_blocking(self) -> Result<(), UploadFailure> {
        // `object_store` is asynchronous, but the HTTP client below it blocks: one runtime per
        // attempt keeps both on this thread.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let runtime = runtime.map_err(|error| UploadFailure::Interrupted(error.to_string()))?;
        runtime.block_on(self.run())
    }

    async fn run(self) -> Result<(), UploadFailure> {
        let Self {
            filepath,
            path,
            records,
            progress,
            mut connector,
            is_cancelled,
        } = self;
        let opened = File::open(&path)
            .and_then(|file| file.metadata().map(|metadata| (file, metadata.len())));
        let (file, size) = match opened {
            // An empty file counts as missing: nothing was recorded.
            Ok((file, size @ 1..)) => (file, size),
            Ok(_) => return Err(UploadFailure::NoFile),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(UploadFailure::NoFile);
            }
            Err(error) => {
                return Err(UploadFailure::Interrupted(format!(
                    "the file cannot be read: {error}"
                )));
            }
        };
        progress.start(size);
        // The configuration is read per attempt, since the operator may have corrected it.
        let storage = ObjectStorage::open(&records.storage().await?, &filepath, &mut connector)?;
        UploadTransfer {
            storage,
            connector,
            file,
            size,
            progress,
            is_cancelled,
        }
        .run(&records)
        .await
    }
}
