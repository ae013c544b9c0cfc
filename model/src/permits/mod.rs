//! Permits: how many of one thing run at once, in total and of each project.
//!
//! A permit is asked for in one of three ways:
//!
//! - [`wait`](ProjectPermits::wait): what has none waits in the queue of its project, and projects take turns.
//! - [`take`](ProjectPermits::take): who is refused asks again later. A refused project that has less than an equal share is remembered
//!   for [`ASKS`]: as long, those that have theirs leave the next free permits to it.
//! - [`take_free`](ProjectPermits::take_free): a refusal leaves no trace.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{Counts, ProjectId, RoundRobin};

/// How long a project counts as asking after it was refused: three times the `Retry-After` of 30 s.
pub const ASKS: Duration = Duration::from_secs(90);

/// How many permits of one kind there are.
#[derive(Debug, Clone, Copy)]
pub struct PermitLimits {
    /// All of them.
    pub total: usize,
    /// Those that one project may have.
    pub of_project: usize,
}

/// The permits of one kind. Clones share them.
#[derive(Debug, Clone)]
pub struct ProjectPermits {
    limits: PermitLimits,
    state: Arc<Mutex<State>>,
}

/// The permit to run one thing. It is free again when this is dropped.
#[derive(Debug)]
pub struct ProjectPermit {
    project: ProjectId,
    permits: ProjectPermits,
}

#[derive(Debug, Default)]
struct State {
    /// How many permits each project has.
    taken: Counts<ProjectId>,
    /// What waits, by project.
    waiting: RoundRobin<ProjectId, oneshot::Sender<ProjectPermit>>,
    /// When projects were refused that had less than their share.
    asked: HashMap<ProjectId, Instant>,
}

/// The position in a queue, which is left when this is dropped.
struct Position<'a> {
    permits: &'a ProjectPermits,
    project: &'a ProjectId,
    number: u64,
}

impl PermitLimits {
    /// So many permits, all of which one project may have.
    pub const fn of_all(total: usize) -> Self {
        Self {
            total,
            of_project: total,
        }
    }
}

impl ProjectPermits {
    /// Creates permits that are free.
    pub fn new(limits: PermitLimits) -> Self {
        Self {
            limits,
            state: Arc::default(),
        }
    }

    /// Takes a permit. `None` if all are taken, the project has as many as it may have, or those that are free are left to projects that
    /// have less; if it has less than its share itself, it is remembered then.
    pub fn take(&self, project: &ProjectId, now: Instant) -> Option<ProjectPermit> {
        self.take_at(project, now, true)
    }

    /// Takes a permit, as [`take`](Self::take) does, without being remembered.
    pub fn take_free(&self, project: &ProjectId) -> Option<ProjectPermit> {
        self.take_at(project, Instant::now(), false)
    }

    fn take_at(
        &self,
        project: &ProjectId,
        now: Instant,
        is_remembered: bool,
    ) -> Option<ProjectPermit> {
        let mut state = self.state.lock();
        state
            .asked
            .retain(|_, at| now.saturating_duration_since(*at) < ASKS);
        let (own, free) = (
            state.taken.get(project),
            self.limits.total - state.taken.total(),
        );
        let has_less = own < state.share(project, self.limits.total);
        if own >= self.limits.of_project
            || free == 0
            || (!has_less && free <= state.asking_beside(project))
        {
            if is_remembered && has_less && own < self.limits.of_project {
                state.asked.insert(project.clone(), now);
            }
            return None;
        }
        state.asked.remove(project);
        Some(self.count(&mut state, project))
    }

    /// Waits for a permit: in the order of the requests within the project, and in turn with other projects.
    pub async fn wait(&self, project: &ProjectId) -> ProjectPermit {
        let (sender, receiver) = oneshot::channel();
        let number = self.state.lock().waiting.push(project, sender);
        let _position = Position {
            permits: self,
            project,
            number,
        };
        self.serve();
        match receiver.await {
            Ok(permit) => permit,
            // Impossible: the sender leaves its queue only to send, or when this future is dropped.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns how many permits no project has.
    pub fn free(&self) -> usize {
        self.limits.total - self.state.lock().taken.total()
    }

    /// Gives what is free to those that wait.
    fn serve(&self) {
        while let Some((sender, permit)) = self.next_waiting() {
            // One that has just gone gives it back, without the lock.
            let _ = sender.send(permit);
        }
    }

    fn next_waiting(&self) -> Option<(oneshot::Sender<ProjectPermit>, ProjectPermit)> {
        let mut state = self.state.lock();
        let State { taken, waiting, .. } = &mut *state;
        if taken.total() >= self.limits.total {
            return None;
        }
        let (project, sender) =
            waiting.pop_of(|project| taken.get(project) < self.limits.of_project)?;
        Some((sender, self.count(&mut state, &project)))
    }

    fn count(&self, state: &mut State, project: &ProjectId) -> ProjectPermit {
        state.taken.add(project.clone());
        ProjectPermit {
            project: project.clone(),
            permits: self.clone(),
        }
    }
}

impl State {
    /// Returns how many permits a project may have while others ask: an equal part, at least one.
    fn share(&self, project: &ProjectId, total: usize) -> usize {
        let has_some = |id: &ProjectId| self.taken.get(id) > 0;
        let beside = self.taken.keys() - usize::from(has_some(project));
        let asking = self
            .asked
            .keys()
            .filter(|other| *other != project && !has_some(other))
            .count();
        (total / (beside + asking + 1)).max(1)
    }

    /// Returns how many other projects ask.
    fn asking_beside(&self, project: &ProjectId) -> usize {
        self.asked.keys().filter(|other| *other != project).count()
    }
}

impl Drop for ProjectPermit {
    fn drop(&mut self) {
        self.permits.state.lock().taken.subtract(&self.project);
        self.permits.serve();
    }
}

impl Drop for Position<'_> {
    fn drop(&mut self) {
        self.permits
            .state
            .lock()
            .waiting
            .remove(self.project, self.number);
    }
}

#[cfg(test)]
mod tests;
