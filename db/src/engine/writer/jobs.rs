//! The jobs that wait for the writer: a queue for each project. Their turns alternate, so that a job waits for few of another project
//! that has thousands.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{Receiver, TryRecvError};

use conclave_model::{ProjectId, RoundRobin};

/// The queue that a job waits in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Queue(Option<ProjectId>);

impl Queue {
    /// The queue of jobs of no project.
    pub(crate) const SERVER: Self = Self(None);

    /// The queue of a project's jobs, which run in their order.
    pub(crate) fn of(project: &ProjectId) -> Self {
        Self(Some(project.clone()))
    }

    /// The lane of this queue among `lanes`: always the same for a project, and the last for jobs of no project.
    pub(super) fn lane(&self, lanes: usize) -> usize {
        let last = lanes.saturating_sub(1);
        match &self.0 {
            Some(project) if last > 0 => {
                let mut hasher = DefaultHasher::new();
                project.hash(&mut hasher);
                // Less than `last`.
                usize::try_from(hasher.finish() % last as u64).unwrap_or(last)
            }
            _ => last,
        }
    }
}

/// The jobs that wait.
pub(crate) struct Jobs<J> {
    arriving: Receiver<(Queue, J)>,
    waiting: RoundRobin<Queue, J>,
    is_closed: bool,
}

impl<J> Jobs<J> {
    /// Takes jobs from a channel.
    pub(crate) fn new(arriving: Receiver<(Queue, J)>) -> Self {
        Self {
            arriving,
            waiting: RoundRobin::default(),
            is_closed: false,
        }
    }

    /// Waits for a job. Returns `None` when no job waits and none can come any more.
    pub(crate) fn wait(&mut self) -> Option<J> {
        self.next()
            .or_else(|| self.arriving.recv().ok().map(|(_, job)| job))
    }

    /// Returns the next job, if one waits.
    pub(crate) fn next(&mut self) -> Option<J> {
        loop {
            match self.arriving.try_recv() {
                Ok((queue, job)) => {
                    self.waiting.push(&queue, job);
                }
                Err(end) => {
                    self.is_closed = end == TryRecvError::Disconnected;
                    return self.waiting.pop().map(|(_, job)| job);
                }
            }
        }
    }

    /// Whether no job can come any more, as [`Self::next`] has found.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    fn jobs() -> (Sender<(Queue, u32)>, Jobs<u32>) {
        let (sender, arriving) = channel();
        (sender, Jobs::new(arriving))
    }

    #[test]
    fn projects_take_turns_and_the_jobs_of_each_keep_their_order() {
        let (sender, mut jobs) = jobs();
        let [busy, other] = [Queue::of(&ProjectId::new()), Queue::of(&ProjectId::new())];
        let send = |queue: &Queue, job| sender.send((queue.clone(), job)).unwrap();
        (0..1_000).for_each(|job| send(&busy, job));
        assert_eq!(jobs.next(), Some(0));
        (2_000..2_002).for_each(|job| send(&other, job));
        send(&Queue::SERVER, 3_000);
        let taken: Vec<_> = (0..6).filter_map(|_| jobs.next()).collect();
        assert_eq!(taken, [1, 2_000, 3_000, 2, 2_001, 3]);
        assert!((4..1_000).eq(std::iter::from_fn(|| jobs.next())));
        assert!(
            jobs.waiting.is_empty(),
            "a queue without jobs takes no memory"
        );
    }

    #[test]
    fn what_waits_is_returned_after_the_last_sender_has_gone() {
        let (sender, mut jobs) = jobs();
        (1..3).for_each(|job| sender.send((Queue::SERVER, job)).unwrap());
        drop(sender);
        assert_eq!(
            [jobs.wait(), jobs.wait(), jobs.wait()],
            [Some(1), Some(2), None]
        );
    }
}
