//! Permits: limits for concurrent work, in total and per project.
//!
//! There are three ways to get a permit:
//!
//! - [`wait`](ProjectPermits::wait) queues per project, and serves projects round robin.
//! - [`take`](ProjectPermits::take) refuses; the client retries later. A refused project with less
//!   than an equal share is remembered for [`REFUSAL_MEMORY`]: meanwhile, projects that have their share
//!   leave the next free permits to it.
//! - [`take_free`](ProjectPermits::take_free) refuses without being remembered.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{Counts, ProjectId, RoundRobin};

/// Time for which a refused project is remembered: three times the `Retry-After` value, 30 s.
// A client that waits for `Retry-After` has repeated its request by then.
pub const REFUSAL_MEMORY: Duration = Duration::from_secs(90);

/// Limits for one kind of permit.
#[derive(Debug, Clone, Copy)]
pub struct PermitLimits {
    /// Maximum in total.
    pub total: usize,
    /// Maximum per project.
    pub per_project: usize,
}

/// Permits of one kind. Clones share them.
#[derive(Debug, Clone)]
pub struct ProjectPermits {
    limits: PermitLimits,
    state: Arc<Mutex<PermitState>>,
}

/// Permit, which is free again when this is dropped.
#[derive(Debug)]
pub struct ProjectPermit {
    project: ProjectId,
    permits: ProjectPermits,
}

#[derive(Debug, Default)]
struct PermitState {
    /// Permits held by each project.
    taken: Counts<ProjectId>,
    /// Waiting callers, by project.
    waiting: RoundRobin<ProjectId, oneshot::Sender<ProjectPermit>>,
    /// Refusal time for each project that had less than its share.
    asked: HashMap<ProjectId, Instant>,
}

/// Position in a queue, which is left on drop.
struct QueuePosition<'a> {
    permits: &'a ProjectPermits,
    project: &'a ProjectId,
    number: u64,
}

impl PermitLimits {
    /// Creates limits without a maximum per project.
    pub const fn new(total: usize) -> Self {
        // Equal to the total: a single project may use everything while it is alone.
        Self {
            total,
            per_project: total,
        }
    }
}

impl ProjectPermits {
    /// Creates free permits.
    pub fn new(limits: PermitLimits) -> Self {
        Self {
            limits,
            state: Arc::default(),
        }
    }

    /// Acquires a permit. Returns `None` if all are taken, if the project has its maximum, or if the free ones are reserved for projects
    /// with fewer. If the project has less than its share itself, it is remembered.
    pub fn take(&self, project: &ProjectId, now: Instant) -> Option<ProjectPermit> {
        self.take_at(project, now, true)
    }

    /// Acquires a permit like [`take`](Self::take), but without being remembered.
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
        // No permit stays reserved for a project that no longer asks.
        state
            .asked
            .retain(|_, at| now.saturating_duration_since(*at) < REFUSAL_MEMORY);
        let (own, free) = (
            state.taken.get(project),
            self.limits.total - state.taken.total(),
        );
        let has_less = own < state.share(project, self.limits.total);
        if own >= self.limits.per_project
            || free == 0
            // One free permit is reserved per remembered project, however many it could use.
            || (!has_less && free <= state.other_refused_projects(project))
        {
            // The refusal is recent again; a project at its maximum needs no reservation.
            if is_remembered && has_less && own < self.limits.per_project {
                state.asked.insert(project.clone(), now);
            }
            return None;
        }
        state.asked.remove(project);
        Some(self.count(&mut state, project))
    }

    /// Waits for a permit, in order within the project and round robin with other projects.
    pub async fn wait(&self, project: &ProjectId) -> ProjectPermit {
        let (sender, receiver) = oneshot::channel();
        let number = self.state.lock().waiting.push(project, sender);
        let _position = QueuePosition {
            permits: self,
            project,
            number,
        };
        // A permit may be free already, and nothing else would assign it.
        self.serve();
        match receiver.await {
            Ok(permit) => permit,
            // Unreachable: a sender leaves its queue only to send, or when this future is dropped.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns how many permits are free.
    pub fn free(&self) -> usize {
        self.limits.total - self.state.lock().taken.total()
    }

    /// Assigns free permits to waiting callers.
    fn serve(&self) {
        while let Some((sender, permit)) = self.next_waiting() {
            // If the caller has just gone, the permit is dropped here and returned, which needs the
            // lock that is free now.
            let _ = sender.send(permit);
        }
    }

    fn next_waiting(&self) -> Option<(oneshot::Sender<ProjectPermit>, ProjectPermit)> {
        let mut state = self.state.lock();
        let PermitState { taken, waiting, .. } = &mut *state;
        if taken.total() >= self.limits.total {
            return None;
        }
        let (project, sender) =
            waiting.pop_of(|project| taken.get(project) < self.limits.per_project)?;
        Some((sender, self.count(&mut state, &project)))
    }

    fn count(&self, state: &mut PermitState, project: &ProjectId) -> ProjectPermit {
        state.taken.add(project.clone());
        ProjectPermit {
            project: project.clone(),
            permits: self.clone(),
        }
    }
}

impl PermitState {
    /// Returns how many permits a project may have while others are refused: an equal share, at
    /// least one.
    fn share(&self, project: &ProjectId, total: usize) -> usize {
        let has_some = |id: &ProjectId| self.taken.get(id) > 0;
        let beside = self.taken.keys() - usize::from(has_some(project));
        // Projects that hold permits are counted above, whether they were refused or not.
        let asking = self
            .asked
            .keys()
            .filter(|other| *other != project && !has_some(other))
            .count();
        // At least one, even with more projects than permits.
        (total / (beside + asking + 1)).max(1)
    }

    /// Returns how many other projects are remembered.
    fn other_refused_projects(&self, project: &ProjectId) -> usize {
        self.asked.keys().filter(|other| *other != project).count()
    }
}

impl Drop for ProjectPermit {
    fn drop(&mut self) {
        self.permits.state.lock().taken.subtract(&self.project);
        // After the lock is released: `serve` may drop a permit, which takes the lock again.
        self.permits.serve();
    }
}

impl Drop for QueuePosition<'_> {
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
