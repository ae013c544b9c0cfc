//! Queue in front of a child process: in memory, then in a bounded file.
//!
//! An encoder on a busy machine falls behind the call for a while. Unread chunks are kept until it
//! catches up, even after the egress was stopped. Composed video takes 40 MB per second, which
//! memory holds for a moment only, so the rest goes to a file. The file has no name, so a crash
//! leaves nothing behind. It is used as a ring, so its size never exceeds the bound.
//!
//! Video frames are optional: when the queue is nearly full, they are refused, and the previous
//! frame lasts longer. Audio is required: it has a reserve in the file and in memory, enough for
//! about half an hour, in which a working encoder reads something.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

// A dozen composed frames at 1280x720.
const MEMORY_BYTES: usize = 24 * 1024 * 1024;
// Holds five minutes' audio if the file is full or fails.
const RESERVE_BYTES: usize = 64 * 1024 * 1024;
// The buffer holds a call's raw media, so only the server may read it.
const FILE_MODE: u32 = 0o600;

/// Backlog bounds.
#[derive(Debug, Clone)]
pub struct BacklogCapacity {
    /// Maximum chunks, if there is no file.
    chunks: usize,
    /// Bytes in memory before the file is used, and additional bytes for required chunks.
    memory: usize,
    reserve: usize,
    disk: Option<DiskBuffer>,
}

/// File behind a backlog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskBuffer {
    /// Directory in which the file is created.
    pub directory: PathBuf,
    /// Maximum file size in bytes.
    pub bytes: u64,
}

impl From<usize> for BacklogCapacity {
    /// Bounds a queue to this many chunks, in memory only.
    fn from(chunks: usize) -> Self {
        Self {
            chunks,
            memory: MEMORY_BYTES,
            reserve: RESERVE_BYTES,
            disk: None,
        }
    }
}

impl From<DiskBuffer> for BacklogCapacity {
    /// Bounds a queue that continues in a file.
    fn from(disk: DiskBuffer) -> Self {
        Self {
            chunks: usize::MAX,
            memory: MEMORY_BYTES,
            reserve: RESERVE_BYTES,
            disk: Some(disk),
        }
    }
}

/// Whether a chunk may be refused while some capacity is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    Optional,
    Required,
}

/// Error when a chunk is not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The queue is full: the child reads too slowly.
    Full,
    /// The child no longer reads.
    Closed,
}

/// Queue with one sender and one receiver.
#[derive(Debug)]
pub struct Backlog {
    capacity: BacklogCapacity,
    state: Mutex<BacklogState>,
    /// Notified when a chunk was added or the queue was closed.
    changed: Condvar,
    /// Created when memory is full for the first time; `None` if that failed.
    file: OnceLock<Option<File>>,
}

#[derive(Debug, Default)]
struct BacklogState {
    waiting: VecDeque<(QueuedChunk, Importance)>,
    /// Unread chunks, including the one being written to the child.
    unread: usize,
    /// Queued bytes in memory.
    memory: usize,
    /// File range in use, as positions that never wrap.
    start: u64,
    end: u64,
    /// Whether optional chunks are skipped, because time is short.
    skips_optional: bool,
    /// Whether no more chunks will follow.
    is_closed: bool,
    /// Whether the child no longer reads.
    is_broken: bool,
}

#[derive(Debug)]
enum QueuedChunk {
    Memory(Vec<u8>),
    /// Chunk length in the file, at the first position in use.
    Disk(usize),
}

/// Chunk destination.
enum Reservation {
    Memory,
    Disk { at: u64 },
}

impl Backlog {
    pub fn new(capacity: BacklogCapacity) -> Self {
        Self {
            capacity,
            state: Mutex::default(),
            changed: Condvar::new(),
            file: OnceLock::new(),
        }
    }

    /// Queues a chunk without waiting for the child. May wait for the disk.
    ///
    /// # Errors
    /// Fails if the queue is full, or the child no longer reads.
    pub fn push(&self, chunk: Vec<u8>, importance: Importance) -> Result<(), SendError> {
        // The chunk is written to disk without the lock, which the reader needs to keep the encoder
        // busy.
        let added = match self.reserve(chunk.len(), importance)? {
            Reservation::Memory => QueuedChunk::Memory(chunk),
            Reservation::Disk { at } => match self.write(at, &chunk) {
                Ok(()) => QueuedChunk::Disk(chunk.len()),
                Err(error) => {
                    log::debug!("writing the buffer file of a recording failed: {error}");
                    let mut state = self.state.lock();
                    if state.is_broken {
                        return Err(SendError::Closed);
                    }
                    // There is one sender, so the failed reservation is still the last one and can
                    // be taken back.
                    state.end = at;
                    if importance == Importance::Optional || !self.has_reserve(&state, chunk.len())
                    {
                        return Err(SendError::Full);
                    }
                    state.memory += chunk.len();
                    drop(state);
                    QueuedChunk::Memory(chunk)
                }
            },
        };
        let mut state = self.state.lock();
        if state.is_broken {
            return Err(SendError::Closed);
        }
        state.waiting.push_back((added, importance));
        // Counted until the child has read it: the shutdown watches this number for progress.
        state.unread += 1;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Reserves capacity for a chunk.
    fn reserve(&self, bytes: usize, importance: Importance) -> Result<Reservation, SendError> {
        let mut state = self.state.lock();
        if state.is_broken || state.is_closed {
            return Err(SendError::Closed);
        }
        let Some(disk) = &self.capacity.disk else {
            // Queues for decoders are bounded by their chunk count.
            let is_full = state.waiting.len() >= self.capacity.chunks;
            return if is_full {
                Err(SendError::Full)
            } else {
                Ok(state.take_memory(bytes))
            };
        };
        if state.memory + bytes <= self.capacity.memory {
            return Ok(state.take_memory(bytes));
        }
        // A quarter is reserved for required chunks.
        let limit = if importance == Importance::Required {
            disk.bytes
        } else {
            disk.bytes / 4 * 3
        };
        let (at, length) = (state.end, u64::try_from(bytes).unwrap_or(u64::MAX));
        if at - state.start + length <= limit {
            state.end += length;
            return Ok(Reservation::Disk { at });
        }
        if importance == Importance::Required && self.has_reserve(&state, bytes) {
            return Ok(state.take_memory(bytes));
        }
        Err(SendError::Full)
    }

    /// Returns whether memory has room for a required chunk that the file cannot take.
    const fn has_reserve(&self, state: &BacklogState, bytes: usize) -> bool {
        state.memory + bytes <= self.capacity.memory + self.capacity.reserve
    }

    /// Returns the file, creating it on first use.
    fn file(&self) -> io::Result<&File> {
        let create = || {
            let created = self
                .capacity
                .disk
                .as_ref()
                .map(|disk| create_unnamed(&disk.directory));
            let warn = |error: &io::Error| {
                log::warn!(
                    "creating the buffer file of a recording failed: {error}. It continues in memory; check the recordings directory"
                );
            };
            created.and_then(|file| file.inspect_err(warn).ok())
        };
        self.file
            // Tried once: if the directory is not writable, each chunk would log the same error.
            .get_or_init(create)
            .as_ref()
            .ok_or_else(|| io::Error::other("the file could not be created"))
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file()?;
        self.pieces(at, bytes.len())
            .try_for_each(|(offset, range)| file.write_all_at(&bytes[range], offset))
    }

    fn read(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let (file, mut chunk) = (self.file()?, vec![0; bytes]);
        self.pieces(at, bytes)
            .try_for_each(|(offset, range)| file.read_exact_at(&mut chunk[range], offset))?;
        Ok(chunk)
    }

    /// Returns a chunk's parts in the file: one, or two if it wraps.
    fn pieces(
        &self,
        at: u64,
        bytes: usize,
    ) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> + use<> {
        let size = self
            .capacity
            .disk
            .as_ref()
            .map_or(1, |disk| disk.bytes.max(1));
        let offset = at % size;
        let first = usize::try_from(size - offset)
            .unwrap_or(usize::MAX)
            .min(bytes);
        [(offset, 0..first), (0, first..bytes)]
            .into_iter()
            .filter(|(_, range)| !range.is_empty())
    }

    /// Waits for the next chunk; `None` if no more will follow.
    pub fn pop(&self) -> Option<Vec<u8>> {
        loop {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |state| {
                state.waiting.is_empty() && !state.is_closed
            });
            let (chunk, importance) = state.waiting.pop_front()?;
            let is_skipped = state.skips_optional && importance == Importance::Optional;
            let taken = match chunk {
                QueuedChunk::Memory(chunk) => {
                    state.memory -= chunk.len();
                    drop(state);
                    Some(chunk)
                }
                QueuedChunk::Disk(bytes) => {
                    let at = state.start;
                    drop(state);
                    // A skipped chunk is not read from disk: time is short.
                    let chunk = if is_skipped {
                        Ok(Vec::new())
                    } else {
                        self.read(at, bytes)
                    };
                    self.release(bytes);
                    // A chunk is a whole Matroska cluster, so the child resumes at the next one.
                    let warn = |error: &io::Error| {
                        log::warn!(
                            "reading the buffer file of a recording failed, and a part is lost: {error}"
                        );
                    };
                    chunk.inspect_err(warn).ok()
                }
            };
            match taken.filter(|_| !is_skipped) {
                Some(chunk) => return Some(chunk),
                None => self.record_read(),
            }
        }
    }

    /// Releases the file's first chunk.
    fn release(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.start += u64::try_from(bytes).unwrap_or_default();
        if state.start == state.end
            && let Some(Some(file)) = self.file.get()
        {
            // The encoder has caught up, so the disk space is returned. Nothing is being written
            // meanwhile: its reservation would count as in use.
            let _ = file.set_len(0);
        }
    }

    /// Records that the child has read the last taken chunk.
    pub fn record_read(&self) {
        let mut state = self.state.lock();
        state.unread = state.unread.saturating_sub(1);
    }

    /// Drops all chunks, because the child no longer reads.
    pub fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_broken = true;
        state.waiting.clear();
        // The file's content needs no cleanup: its space is freed with the file.
        (state.memory, state.start) = (0, state.end);
    }

    /// Skips optional chunks from now on, including queued ones.
    pub fn skip_optional(&self) {
        self.state.lock().skips_optional = true;
    }

    /// Closes the queue; queued chunks can still be taken.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    pub fn unread(&self) -> usize {
        self.state.lock().unread
    }

    /// Returns the bytes in use in the file.
    pub fn disk_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.end - state.start
    }
}

impl BacklogState {
    const fn take_memory(&mut self, bytes: usize) -> Reservation {
        self.memory += bytes;
        Reservation::Memory
    }
}

/// Creates a file and removes its name, so that the space is freed however this process ends.
fn create_unnamed(directory: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(directory)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".buffer-{}-{number}", std::process::id()));
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(FILE_MODE);
    // A crash between `open` and `remove_file` leaves an empty file, whose name a later process
    // with this id may need.
    let file = options
        .open(&path)
        .or_else(|_| fs::remove_file(&path).and_then(|()| options.open(&path)))?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    const DISK: u64 = 1_000;

    /// Queue with 100 bytes in memory, 50 more in reserve, and 1,000 bytes in a file.
    fn small(folder: &TempDir) -> Backlog {
        let disk = DiskBuffer {
            directory: folder.path().join("recordings"),
            bytes: DISK,
        };
        Backlog::new(BacklogCapacity {
            chunks: usize::MAX,
            memory: 100,
            reserve: 50,
            disk: Some(disk),
        })
    }

    /// Proves S-56.
    #[test]
    fn optional_chunks_leave_room_for_required_ones_and_the_file_leaves_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let backlog = small(&folder);
        let fill = |importance| {
            (0..)
                .take_while(|_| backlog.push(vec![1; 10], importance).is_ok())
                .count()
        };
        assert_eq!(
            fill(Importance::Optional),
            10 + 75,
            "memory, and three quarters of the file"
        );
        assert_eq!(backlog.disk_bytes(), 750);
        assert_eq!(
            fill(Importance::Required),
            25 + 5,
            "the rest of the file, and the reserve of memory"
        );
        assert_eq!(
            backlog.push(vec![1], Importance::Required),
            Err(SendError::Full)
        );
        assert_eq!(
            fs::read_dir(folder.path().join("recordings"))
                .unwrap()
                .count(),
            0
        );
        backlog.close();
        assert_eq!(std::iter::from_fn(|| backlog.pop()).count(), 115);
        assert_eq!(backlog.disk_bytes(), 0);
        let file = backlog.file().unwrap().metadata().unwrap();
        assert_eq!(file.len(), 0, "the disk is free again");
        assert_eq!(
            backlog.push(vec![1], Importance::Required),
            Err(SendError::Closed)
        );
    }

    #[test]
    fn a_directory_that_cannot_be_written_leaves_memory_to_required_chunks() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("recordings"), "a file").unwrap();
        let backlog = small(&folder);
        let fill = |importance| {
            (0..)
                .take_while(|_| backlog.push(vec![1; 10], importance).is_ok())
                .count()
        };
        assert_eq!(
            (fill(Importance::Optional), fill(Importance::Required)),
            (10, 5)
        );
        backlog.close();
        assert_eq!(std::iter::from_fn(|| backlog.pop()).count(), 15);
    }

    #[test]
    fn the_queue_of_a_child_that_stopped_reading_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let backlog = small(&folder);
        (0..50).for_each(|_| backlog.push(vec![1; 10], Importance::Optional).unwrap());
        backlog.abandon();
        assert_eq!(
            backlog.push(vec![1; 10], Importance::Required),
            Err(SendError::Closed)
        );
        assert_eq!(backlog.disk_bytes(), 0);
    }

    #[test]
    fn optional_chunks_can_be_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let backlog = small(&folder);
        for number in 0..60 {
            let importance = if number % 3 == 0 {
                Importance::Required
            } else {
                Importance::Optional
            };
            backlog.push(vec![number; 10], importance).unwrap();
        }
        assert_eq!(backlog.pop(), Some(vec![0; 10]));
        backlog.record_read();
        backlog.skip_optional();
        backlog.close();
        let rest: Vec<_> =
            std::iter::from_fn(|| backlog.pop().inspect(|_| backlog.record_read())).collect();
        assert_eq!(
            rest,
            (1..20)
                .map(|number| vec![number * 3; 10])
                .collect::<Vec<_>>()
        );
        assert_eq!((backlog.unread(), backlog.disk_bytes()), (0, 0));
    }

    proptest! {
        /// Proves S-56.
        #[test]
        fn chunks_come_out_whole_and_in_order(
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0_usize..400), 1..200),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let (backlog, mut expected) = (small(&folder), VecDeque::new());
            for (number, (is_push, is_required, bytes)) in steps.into_iter().enumerate() {
                if is_push {
                    let chunk: Vec<u8> = (0..bytes).map(|at| u8::try_from((number * 7 + at) % 256).unwrap()).collect();
                    let importance = if is_required { Importance::Required } else { Importance::Optional };
                    if backlog.push(chunk.clone(), importance).is_ok() {
                        expected.push_back(chunk);
                    }
                } else if let Some(chunk) = expected.pop_front() {
                    prop_assert_eq!(backlog.pop(), Some(chunk));
                    backlog.record_read();
                }
                prop_assert_eq!(backlog.unread(), expected.len());
                prop_assert!(backlog.disk_bytes() <= DISK);
                if let Some(Some(file)) = backlog.file.get() {
                    prop_assert!(file.metadata().unwrap().len() <= DISK);
                }
            }
            backlog.close();
            while let Some(chunk) = expected.pop_front() {
                prop_assert_eq!(backlog.pop(), Some(chunk));
            }
            prop_assert_eq!(backlog.pop(), None);
        }
    }
}
