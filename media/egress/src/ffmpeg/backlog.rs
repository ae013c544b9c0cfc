//! Queue of the chunks that a child process has yet to read: in memory, and then in a file of bounded size.
//!
//! An encoder on a busy machine falls behind the call for a while. What it has not read is kept until it catches up, also after the
//! recording was stopped. Composed video has 40 MB a second, which memory holds for a moment only, so the rest goes to a file. The file
//! has no name, so that a crash leaves nothing behind, and is used as a ring: its size never exceeds the bound.
//!
//! Video frames are optional: they are refused when the queue is nearly full, and the frame before lasts longer. Audio is required: it
//! has a reserve of the file and of memory, for about half an hour, in which an encoder that works reads something.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

/// Memory for chunks before any goes to the file: a dozen composed pictures of 1280x720.
const MEMORY: usize = 24 * 1024 * 1024;
/// Memory for required chunks if the file takes none: audio of five minutes.
const RESERVE: usize = 64 * 1024 * 1024;
/// Mode of the file: nobody but the server reads it.
const FILE_MODE: u32 = 0o600;

/// Bounds of a queue.
#[derive(Debug, Clone)]
pub struct Capacity {
    /// Chunks that wait, if there is no file.
    chunks: usize,
    /// Bytes in memory before any goes to the file, and how many more for required chunks.
    memory: usize,
    reserve: usize,
    disk: Option<DiskBuffer>,
}

/// Directory and largest size in bytes of the file of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskBuffer {
    /// Directory in which the file is created.
    pub directory: PathBuf,
    /// Largest size of the file in bytes.
    pub bytes: u64,
}

impl From<usize> for Capacity {
    /// Returns the bounds of a queue of this many chunks of any size, in memory.
    fn from(chunks: usize) -> Self {
        Self {
            chunks,
            memory: MEMORY,
            reserve: RESERVE,
            disk: None,
        }
    }
}

impl From<DiskBuffer> for Capacity {
    /// Returns the bounds of a queue that continues in a file.
    fn from(disk: DiskBuffer) -> Self {
        Self {
            chunks: usize::MAX,
            memory: MEMORY,
            reserve: RESERVE,
            disk: Some(disk),
        }
    }
}

/// Whether a chunk may be refused while there is a little room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Optional,
    Required,
}

/// Why a chunk was not put into the queue of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The child does not read fast enough.
    Full,
    /// The child does not read any more.
    Closed,
}

/// A queue with one sender and one receiver.
#[derive(Debug)]
pub struct Backlog {
    capacity: Capacity,
    state: Mutex<State>,
    /// Notified when a chunk was added or nothing follows.
    changed: Condvar,
    /// Created when memory is full for the first time; `None` if that failed.
    file: OnceLock<Option<File>>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Chunk, Need)>,
    /// Chunks that were not read, including the one on its way to the child.
    unread: usize,
    /// Bytes of the waiting chunks in memory.
    memory: usize,
    /// Positions in the file, counted without wrapping: from the first byte in use to behind the last one.
    begin: u64,
    end: u64,
    /// Whether optional chunks are skipped, because time is short.
    is_hurried: bool,
    /// Whether nothing follows.
    is_closed: bool,
    /// Whether the child does not read any more.
    is_broken: bool,
}

#[derive(Debug)]
enum Chunk {
    Memory(Vec<u8>),
    /// So many bytes of the file, at the first position in use.
    Disk(usize),
}

/// Where a chunk goes.
enum Room {
    Memory,
    Disk { at: u64 },
}

impl Backlog {
    pub fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            state: Mutex::default(),
            changed: Condvar::new(),
            file: OnceLock::new(),
        }
    }

    /// Adds a chunk, without waiting for the child. May wait for the disk.
    ///
    /// # Errors
    /// The queue is full, or the child does not read any more.
    pub fn push(&self, chunk: Vec<u8>, need: Need) -> Result<(), SendError> {
        let added = match self.reserve(chunk.len(), need)? {
            Room::Memory => Chunk::Memory(chunk),
            Room::Disk { at } => match self.write(at, &chunk) {
                Ok(()) => Chunk::Disk(chunk.len()),
                Err(error) => {
                    log::debug!("the buffer of a recording cannot be written: {error}");
                    let mut state = self.state.lock();
                    if state.is_broken {
                        return Err(SendError::Closed);
                    }
                    state.end = at;
                    if need == Need::Optional || !self.has_reserve(&state, chunk.len()) {
                        return Err(SendError::Full);
                    }
                    state.memory += chunk.len();
                    drop(state);
                    Chunk::Memory(chunk)
                }
            },
        };
        let mut state = self.state.lock();
        if state.is_broken {
            return Err(SendError::Closed);
        }
        state.waiting.push_back((added, need));
        state.unread += 1;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Returns where a chunk goes, and takes the room.
    fn reserve(&self, bytes: usize, need: Need) -> Result<Room, SendError> {
        let mut state = self.state.lock();
        if state.is_broken || state.is_closed {
            return Err(SendError::Closed);
        }
        let Some(disk) = &self.capacity.disk else {
            // Of a queue that is bounded by its chunks, as that of decoders.
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
        // Optional chunks leave a quarter of the file to the required ones.
        let limit = if need == Need::Required {
            disk.bytes
        } else {
            disk.bytes / 4 * 3
        };
        let (at, length) = (state.end, u64::try_from(bytes).unwrap_or(u64::MAX));
        if at - state.begin + length <= limit {
            state.end += length;
            return Ok(Room::Disk { at });
        }
        if need == Need::Required && self.has_reserve(&state, bytes) {
            return Ok(state.take_memory(bytes));
        }
        Err(SendError::Full)
    }

    /// Returns whether memory has room for a required chunk that the file does not take.
    const fn has_reserve(&self, state: &State, bytes: usize) -> bool {
        state.memory + bytes <= self.capacity.memory + self.capacity.reserve
    }

    /// Returns the file of the queue.
    fn file(&self) -> io::Result<&File> {
        let create = || {
            let created = self
                .capacity
                .disk
                .as_ref()
                .map(|disk| create_unnamed(&disk.directory));
            let warn = |error: &io::Error| {
                log::warn!("the buffer of a recording cannot be created: {error}");
            };
            created.and_then(|file| file.inspect_err(warn).ok())
        };
        self.file
            .get_or_init(create)
            .as_ref()
            .ok_or_else(|| io::Error::other("the file could not be created"))
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file()?;
        self.pieces(at, bytes.len())
            .try_for_each(|(place, range)| file.write_all_at(&bytes[range], place))
    }

    fn read(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let (file, mut chunk) = (self.file()?, vec![0; bytes]);
        self.pieces(at, bytes)
            .try_for_each(|(place, range)| file.read_exact_at(&mut chunk[range], place))?;
        Ok(chunk)
    }

    /// Returns where the bytes of a chunk are in the file: in one piece, or in two if it wraps.
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
        let place = at % size;
        let first = usize::try_from(size - place)
            .unwrap_or(usize::MAX)
            .min(bytes);
        [(place, 0..first), (0, first..bytes)]
            .into_iter()
            .filter(|(_, range)| !range.is_empty())
    }

    /// Returns the next chunk, and waits for it; `None` if none follows.
    pub fn pop(&self) -> Option<Vec<u8>> {
        loop {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |state| {
                state.waiting.is_empty() && !state.is_closed
            });
            let (chunk, need) = state.waiting.pop_front()?;
            let is_skipped = state.is_hurried && need == Need::Optional;
            let taken = match chunk {
                Chunk::Memory(chunk) => {
                    state.memory -= chunk.len();
                    drop(state);
                    Some(chunk)
                }
                Chunk::Disk(bytes) => {
                    let at = state.begin;
                    drop(state);
                    let chunk = if is_skipped {
                        Ok(Vec::new())
                    } else {
                        self.read(at, bytes)
                    };
                    self.release(bytes);
                    // A chunk is a whole cluster, so the child reads on behind the gap.
                    let warn = |error: &io::Error| {
                        log::warn!("the buffer of a recording cannot be read: {error}");
                    };
                    chunk.inspect_err(warn).ok()
                }
            };
            match taken.filter(|_| !is_skipped) {
                Some(chunk) => return Some(chunk),
                None => self.note_read(),
            }
        }
    }

    /// Gives the room of the chunk back that was first in the file.
    fn release(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.begin += u64::try_from(bytes).unwrap_or_default();
        if state.begin == state.end
            && let Some(Some(file)) = self.file.get()
        {
            // The encoder has caught up, so the disk is free again. Nothing is being written: its room would count.
            let _ = file.set_len(0);
        }
    }

    /// Records that the child has read the chunk that was taken last.
    pub fn note_read(&self) {
        let mut state = self.state.lock();
        state.unread = state.unread.saturating_sub(1);
    }

    /// Records that the child does not read any more: nothing is kept for it.
    pub fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_broken = true;
        state.waiting.clear();
        (state.memory, state.begin) = (0, state.end);
    }

    /// Skips optional chunks from now on, those that wait, too.
    pub fn hurry(&self) {
        self.state.lock().is_hurried = true;
    }

    /// Ends the queue behind the chunks that wait.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Returns the number of chunks that the child has not read.
    pub fn unread(&self) -> usize {
        self.state.lock().unread
    }

    /// Returns the bytes of the file in use.
    pub fn disk_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.end - state.begin
    }
}

impl State {
    const fn take_memory(&mut self, bytes: usize) -> Room {
        self.memory += bytes;
        Room::Memory
    }
}

/// Creates a file without a name: the disk is free again however this process ends.
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
    // A crash between the two calls leaves an empty file, whose name a later process may need.
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

    /// A queue with memory for 100 bytes, 50 more in need, and a file of 1,000.
    fn small(folder: &TempDir) -> Backlog {
        let disk = DiskBuffer {
            directory: folder.path().join("recordings"),
            bytes: DISK,
        };
        Backlog::new(Capacity {
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
        let fill = |need| {
            (0..)
                .take_while(|_| backlog.push(vec![1; 10], need).is_ok())
                .count()
        };
        assert_eq!(
            fill(Need::Optional),
            10 + 75,
            "memory, and three quarters of the file"
        );
        assert_eq!(backlog.disk_bytes(), 750);
        assert_eq!(
            fill(Need::Required),
            25 + 5,
            "the rest of the file, and the reserve of memory"
        );
        assert_eq!(backlog.push(vec![1], Need::Required), Err(SendError::Full));
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
            backlog.push(vec![1], Need::Required),
            Err(SendError::Closed)
        );
    }

    #[test]
    fn a_directory_that_cannot_be_written_leaves_memory_to_required_chunks() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("recordings"), "a file").unwrap();
        let backlog = small(&folder);
        let fill = |need| {
            (0..)
                .take_while(|_| backlog.push(vec![1; 10], need).is_ok())
                .count()
        };
        assert_eq!((fill(Need::Optional), fill(Need::Required)), (10, 5));
        backlog.close();
        assert_eq!(std::iter::from_fn(|| backlog.pop()).count(), 15);
    }

    #[test]
    fn what_a_child_does_not_read_any_more_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let backlog = small(&folder);
        (0..50).for_each(|_| backlog.push(vec![1; 10], Need::Optional).unwrap());
        backlog.abandon();
        assert_eq!(
            backlog.push(vec![1; 10], Need::Required),
            Err(SendError::Closed)
        );
        assert_eq!(backlog.disk_bytes(), 0);
    }

    #[test]
    fn in_a_hurry_optional_chunks_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let backlog = small(&folder);
        for number in 0..60 {
            let need = if number % 3 == 0 {
                Need::Required
            } else {
                Need::Optional
            };
            backlog.push(vec![number; 10], need).unwrap();
        }
        assert_eq!(backlog.pop(), Some(vec![0; 10]));
        backlog.note_read();
        backlog.hurry();
        backlog.close();
        let rest: Vec<_> =
            std::iter::from_fn(|| backlog.pop().inspect(|_| backlog.note_read())).collect();
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
                    let need = if is_required { Need::Required } else { Need::Optional };
                    if backlog.push(chunk.clone(), need).is_ok() {
                        expected.push_back(chunk);
                    }
                } else if let Some(chunk) = expected.pop_front() {
                    prop_assert_eq!(backlog.pop(), Some(chunk));
                    backlog.note_read();
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
