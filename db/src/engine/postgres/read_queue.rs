//! The queues of the threads that read.
//!
//! Each kind of thread has its own queue. Loads are in one more, from which every thread takes a job while its own queue is empty: all
//! sessions load what is live after a takeover, and a request waits for one load at most.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// A kind of thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Point,
    List,
    Bulk,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Point, Self::List, Self::Bulk];
}

/// Waiting jobs of type `J`.
pub(super) struct ReadQueue<J> {
    waiting: Mutex<Waiting<J>>,
    /// Signalled when a thread of each kind has something to do.
    arrivals: [Condvar; Kind::ALL.len()],
}

struct Waiting<J> {
    own: [VecDeque<J>; Kind::ALL.len()],
    loads: VecDeque<J>,
    is_closed: bool,
}

/// The sender of jobs. When it is closed or dropped, the threads finish what waits and end.
pub(super) struct Sender<J>(Arc<ReadQueue<J>>);

/// No thread takes jobs any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Closed;

impl<J> ReadQueue<J> {
    /// Returns an empty queue and its sender.
    pub fn new() -> (Arc<Self>, Sender<J>) {
        let waiting = Waiting {
            own: Kind::ALL.map(|_| VecDeque::new()),
            loads: VecDeque::new(),
            is_closed: false,
        };
        let queue = Arc::new(Self {
            waiting: Mutex::new(waiting),
            arrivals: Kind::ALL.map(|_| Condvar::new()),
        });
        (Arc::clone(&queue), Sender(queue))
    }

    /// Waits for the next job of a thread; `None` once there will be none.
    pub fn next(&self, kind: Kind) -> Option<J> {
        let mut waiting = self.waiting.lock();
        loop {
            let own = waiting.own[kind as usize].pop_front();
            if let Some(job) = own.or_else(|| waiting.loads.pop_front()) {
                return Some(job);
            }
            if waiting.is_closed {
                return None;
            }
            self.arrivals[kind as usize].wait(&mut waiting);
        }
    }
}

impl<J> Sender<J> {
    /// Adds a job for the threads of a kind.
    pub fn send(&self, kind: Kind, job: J) -> Result<(), Closed> {
        self.push(|waiting| &mut waiting.own[kind as usize], job)?;
        self.0.arrivals[kind as usize].notify_one();
        Ok(())
    }

    /// Adds a load, for any thread.
    pub fn send_load(&self, job: J) -> Result<(), Closed> {
        self.push(|waiting| &mut waiting.loads, job)?;
        // Which kind has an idle thread is not known; one that finds nothing waits again.
        self.0.arrivals.iter().for_each(|arrival| {
            arrival.notify_one();
        });
        Ok(())
    }

    fn push(
        &self,
        queue: impl FnOnce(&mut Waiting<J>) -> &mut VecDeque<J>,
        job: J,
    ) -> Result<(), Closed> {
        let mut waiting = self.0.waiting.lock();
        if waiting.is_closed {
            return Err(Closed);
        }
        queue(&mut waiting).push_back(job);
        Ok(())
    }

    /// Takes no more jobs.
    pub fn close(&self) {
        self.0.waiting.lock().is_closed = true;
        self.0.arrivals.iter().for_each(|arrival| {
            arrival.notify_all();
        });
    }
}

impl<J> Drop for Sender<J> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_takes_its_own_jobs_before_loads_and_none_of_other_kinds() {
        let (queue, sender) = ReadQueue::new();
        sender.send_load("load").unwrap();
        sender.send(Kind::List, "list").unwrap();
        sender.send(Kind::Point, "point").unwrap();
        let mut taken = Vec::from([queue.next(Kind::Point), queue.next(Kind::Point)]);
        sender.send_load("another load").unwrap();
        taken.push(queue.next(Kind::Bulk));
        assert_eq!(taken, [Some("point"), Some("load"), Some("another load")]);
        sender.close();
        assert_eq!(
            [sender.send(Kind::Point, "late"), sender.send_load("late")],
            [Err(Closed), Err(Closed)]
        );
        assert_eq!(
            (queue.next(Kind::Point), queue.next(Kind::List)),
            (None, Some("list")),
            "what waits is finished"
        );
        assert_eq!(queue.next(Kind::List), None);
    }

    #[test]
    fn idle_threads_of_every_kind_take_loads() {
        let (queue, sender) = ReadQueue::new();
        let threads = Kind::ALL.map(|kind| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.next(kind))
        });
        (0..Kind::ALL.len()).for_each(|load| sender.send_load(load).unwrap());
        let mut taken = threads.map(|thread| thread.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [Some(0), Some(1), Some(2)]);
    }
}
