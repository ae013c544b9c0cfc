//! Uploads files to object storage, in parts.
//!
//! An attempt has a thread of its own with a low priority, so that neither the disk, the network nor the signing of parts holds a call
//! up. It has one part in memory. How many run at once is decided by `lanes`; others wait. Its caller decides when an attempt is due,
//! and keeps what [`UploadRecords`] says.
//!
//! The address that is dialled is checked as that of a webhook is, since a project supplies the url.
//!
//! In reading order:
//!
//! - this module: [`Uploader`], what a caller supplies ([`UploadRecords`]) and reads ([`UploadProgress`]), one attempt.
//! - `transfer`: the parts of a file, and how an upload in parts is resumed, completed or aborted.
//! - `storage`: S3, Google Cloud Storage and Azure behind one interface.
//! - `connector`: their HTTP client, and what its errors mean for the upload.
//! - `lanes`: the slots of attempts, by storages that answer and storages that hang.

mod connector;
mod lanes;
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
use connector::Connector;
use lanes::Lanes;
use storage::Storage;
use transfer::Transfer;

/// Why an attempt has failed. The reasons have no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadFailure {
    /// There is no file, or nothing is in it.
    NoFile,
    /// The destination was deleted.
    NoDestination,
    /// Another attempt would fail for the same reason, until the destination or the storage is changed.
    Refused(String),
    /// Another attempt may succeed.
    Interrupted(String),
}

/// What the caller knows and keeps about an upload. Called on the thread of an attempt.
pub trait UploadRecords: Send + 'static {
    /// Returns the storage to which the file is uploaded, as it is now.
    fn storage(&self) -> impl Future<Output = Result<RecordingConfig, UploadFailure>>;

    /// Records the id of an upload in parts before its first part is sent, so that it can be aborted after a restart.
    fn record_multipart(
        &self,
        multipart: String,
    ) -> impl Future<Output = Result<(), UploadFailure>>;
}

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
    fn begin(&self, size: u64) {
        self.sent.store(0, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
    }

    /// Counts bytes that the storage has taken.
    fn add_sent(&self, bytes: u64) {
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
    fn set_multipart(&self, multipart: String) {
        *self.multipart.lock() = Some(multipart);
    }

    /// Takes the upload in parts that an earlier attempt has begun.
    fn take_multipart(&self) -> Option<String> {
        self.multipart.lock().take()
    }
}

/// Makes attempts to upload files.
pub struct Uploader {
    recordings: PathBuf,
    connector: Connector,
    lanes: Arc<Lanes>,
    running: Mutex<Vec<Weak<UploadProgress>>>,
}

/// A file to upload.
#[derive(Debug, Clone)]
pub struct UploadedFile {
    /// The project that owns the recording.
    pub project: ProjectId,
    /// The destination to which the file is uploaded.
    pub destination: DestinationId,
    /// The path of the file in the project's directory.
    pub filepath: FilePath,
}

/// An attempt that runs or waits for others. Dropping it ends the attempt before its next part.
pub struct RunningUpload {
    is_cancelled: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Drop for RunningUpload {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}

impl Uploader {
    /// Returns an uploader of the files in a directory, with a directory for each project, to addresses that `filter` permits. The
    /// certificates of `roots` are trusted. Threads are started when needed; each calls `lower_priority` first.
    ///
    /// # Errors
    /// The operating system refuses the resources.
    pub fn new(
        recordings: PathBuf,
        filter: AddressFilter,
        roots: TrustedRoots,
        lower_priority: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (connector, lanes) = (
            Connector::new(filter, roots),
            Arc::new(Lanes::new(lower_priority)?),
        );
        Ok(Self {
            recordings,
            connector,
            lanes,
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
        self.running.lock().push(Arc::downgrade(&progress));
        let (lanes, path) = (
            Arc::clone(&self.lanes),
            self.path(&file.project, &file.filepath),
        );
        let (is_cancelled, connector) =
            (Arc::<AtomicBool>::default(), self.connector.for_attempt());
        let UploadedFile {
            project,
            destination,
            filepath,
        } = file;
        let attempt = Attempt {
            filepath,
            path,
            records,
            progress,
            connector,
            is_cancelled: Arc::clone(&is_cancelled),
        };
        let task = tokio::spawn(async move {
            done(
                lanes
                    .run(&project, &destination, || attempt.run_blocking())
                    .await,
            );
        });
        RunningUpload { is_cancelled, task }
    }

    /// Removes a file that was uploaded. Blocks for a moment.
    ///
    /// # Errors
    /// The file system refuses it.
    pub fn remove(&self, project: &ProjectId, filepath: &FilePath) -> io::Result<()> {
        std::fs::remove_file(self.path(project, filepath))
    }

    /// Returns the attempts that run or wait.
    pub fn running(&self) -> Vec<Arc<UploadProgress>> {
        let mut running = self.running.lock();
        running.retain(|progress| progress.strong_count() > 0);
        running.iter().filter_map(Weak::upgrade).collect()
    }

    fn path(&self, project: &ProjectId, filepath: &FilePath) -> PathBuf {
        self.recordings
            .join(project.as_str())
            .join(filepath.as_str())
    }
}

/// One attempt to upload a file, on its own thread.
struct Attempt<R> {
    filepath: FilePath,
    path: PathBuf,
    records: R,
    progress: Arc<UploadProgress>,
    connector: Connector,
    is_cancelled: Arc<AtomicBool>,
}

impl<R: UploadRecords> Attempt<R> {
    fn run_blocking(self) -> Result<(), UploadFailure> {
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
        progress.begin(size);
        let storage = Storage::open(&records.storage().await?, &filepath, &mut connector)?;
        Transfer {
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
