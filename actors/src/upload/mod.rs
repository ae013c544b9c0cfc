//! Uploads the files of recordings to object storage, in parts.
//!
//! An attempt has a thread of its own with a low priority, so that neither the disk, the network nor the signing of parts holds a call
//! up. It has one part in memory. How many run at once is decided by `lanes`; others wait. Which attempt is due is decided by `machine`, without I/O;
//! the egress actor drives it, and the store remembers what is outstanding.
//!
//! The address that is dialled is checked as that of a webhook is, since a project supplies the url.

mod connector;
mod lanes;
mod machine;
mod progress;
mod storage;
mod transfer;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use conclave_db::Store;
use conclave_model::address::AddressFilter;
use conclave_model::filepath::FilePath;
use conclave_model::permits::ProjectPermit;
use conclave_model::{DestinationId, EgressId, ProjectId};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use connector::Connector;
use lanes::Lanes;
pub(crate) use machine::{AttemptResult, UploadMachine, final_state};
pub(crate) use progress::UploadProgress;
use storage::Storage;
use transfer::Transfer;

/// The priority of an attempt below everything else in the process.
const NICENESS: i32 = 10;

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

/// Makes attempts to upload files.
pub struct Uploader {
    recordings: PathBuf,
    connector: Connector,
    lanes: Arc<Lanes>,
    running: Mutex<Vec<Weak<UploadProgress>>>,
}

/// A file to upload.
#[derive(Debug, Clone)]
pub(crate) struct UploadedFile {
    /// The project that owns the recording.
    pub project: ProjectId,
    /// The recording whose file is uploaded.
    pub egress: EgressId,
    /// The destination, whose configuration is read for each attempt.
    pub destination: DestinationId,
    /// The path of the file in the project's directory.
    pub filepath: FilePath,
}

/// An attempt that runs or waits for others. Dropping it ends the attempt before its next part.
pub(crate) struct RunningUpload {
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
    /// Returns an uploader of the files in a directory, with a directory for each project, to addresses that `filter` permits.
    #[must_use]
    pub fn new(recordings: PathBuf, filter: AddressFilter) -> Self {
        Self { recordings, connector: Connector::new(filter), lanes: Arc::new(Lanes::new()), running: Mutex::default() }
    }

    /// Starts an attempt, and calls `done` with its result.
    pub(crate) fn start(
        &self,
        file: UploadedFile,
        store: Store,
        progress: Arc<UploadProgress>,
        done: impl FnOnce(Result<(), UploadFailure>) + Send + 'static,
    ) -> RunningUpload {
        self.running.lock().push(Arc::downgrade(&progress));
        let (lanes, path) = (Arc::clone(&self.lanes), self.path(&file.project, &file.filepath));
        let (is_cancelled, connector) = (Arc::<AtomicBool>::default(), self.connector.for_attempt());
        let attempt = Attempt { file, path, store, progress, connector, is_cancelled: Arc::clone(&is_cancelled) };
        let task = tokio::spawn(async move {
            let (project, destination) = (attempt.file.project.clone(), attempt.file.destination.clone());
            let permit = lanes.wait(&project, &destination).await;
            let result = attempt.run_on_thread(permit).await;
            lanes.note(&destination, &result);
            done(result);
        });
        RunningUpload { is_cancelled, task }
    }

    /// Removes a file that was uploaded. Blocks for a moment.
    pub(crate) fn remove(&self, project: &ProjectId, filepath: &FilePath) -> io::Result<()> {
        std::fs::remove_file(self.path(project, filepath))
    }

    /// Returns the attempts that run or wait.
    pub(crate) fn running(&self) -> Vec<Arc<UploadProgress>> {
        let mut running = self.running.lock();
        running.retain(|progress| progress.strong_count() > 0);
        running.iter().filter_map(Weak::upgrade).collect()
    }

    fn path(&self, project: &ProjectId, filepath: &FilePath) -> PathBuf {
        self.recordings.join(project.as_str()).join(filepath.as_str())
    }
}

/// One attempt to upload a file, on its own thread.
struct Attempt {
    file: UploadedFile,
    path: PathBuf,
    store: Store,
    progress: Arc<UploadProgress>,
    connector: Connector,
    is_cancelled: Arc<AtomicBool>,
}

impl Attempt {
    /// Keeps the permit as long as the thread runs.
    async fn run_on_thread(self, permit: ProjectPermit) -> Result<(), UploadFailure> {
        let (sender, result) = oneshot::channel();
        let run = move || {
            // Of this thread alone. It keeps the usual priority if the system refuses.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            let result = self.run_blocking();
            drop(permit);
            let _ = sender.send(result);
        };
        let no_thread = |_| UploadFailure::Interrupted("the server could not start a thread".into());
        thread::Builder::new().name("upload".into()).spawn(run).map_err(no_thread)?;
        result.await.unwrap_or_else(|_| Err(UploadFailure::Interrupted("the attempt ended unexpectedly".into())))
    }

    fn run_blocking(self) -> Result<(), UploadFailure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| UploadFailure::Interrupted(error.to_string()))?;
        runtime.block_on(self.run())
    }

    async fn run(self) -> Result<(), UploadFailure> {
        let Self { file, path, store, progress, mut connector, is_cancelled } = self;
        let opened = File::open(&path).and_then(|file| file.metadata().map(|metadata| (file, metadata.len())));
        let (opened, size) = match opened {
            Ok((opened, size @ 1..)) => (opened, size),
            Ok(_) => return Err(UploadFailure::NoFile),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(UploadFailure::NoFile),
            Err(error) => return Err(UploadFailure::Interrupted(format!("the file cannot be read: {error}"))),
        };
        progress.begin(size);
        let config = store.upload_storage(file.project.clone(), file.destination.clone()).await;
        // One whose credentials cannot be decrypted, or a database in trouble.
        let config = config.map_err(|error| UploadFailure::Interrupted(error.to_string()))?;
        let config = config.ok_or(UploadFailure::NoDestination)?;
        let storage = Storage::open(&config, &file.filepath, &mut connector)?;
        Transfer { storage, connector, file: opened, size, progress, is_cancelled }
            .run(|multipart| store.record_multipart(file.project, file.egress, multipart))
            .await
    }
}
