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
