//! Admission: how many requests are handled at once, in total and of each project.
//!
//! Of a project, [`AdmissionLimits::running`] requests are handled at once. Further ones wait for their turn, in order, and cost
//! nothing meanwhile. One that finds too many waiting is refused at once, and one that has waited for [`LONGEST_WAIT`] then. So a
//! project that asks for more than the server can do waits for itself, and the requests of others find few before them.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use conclave_model::{ErrorCode, Problem, ProjectId};
use prometheus::IntCounterVec;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// The longest time that a request waits for its turn.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Delay before a retry of a refused request.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The shortest time between two warnings about requests that were refused.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// The number of maps that projects are spread over, so that requests rarely wait for each other at a lock.
const SHARDS: usize = 64;

/// How many requests are admitted.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionLimits {
    /// Requests of all projects that are being handled or wait.
    pub total: usize,
    /// Requests of one project that are handled at once.
    pub running: usize,
    /// Requests of one project that wait.
    pub waiting: usize,
}

/// The admitted requests of one server.
#[derive(Debug)]
pub struct Admission {
    limits: AdmissionLimits,
    total: AtomicUsize,
    hasher: RandomState,
    /// The projects that have admitted requests.
    projects: Box<[Mutex<Projects>]>,
    refused: IntCounterVec,
    warned: Mutex<Option<Instant>>,
}

type Projects = HashMap<ProjectId, Project>;

#[derive(Debug)]
struct Project {
    /// Requests that are being handled or wait.
    admitted: usize,
    turns: Arc<Semaphore>,
}

/// An admitted request. It counts until this is dropped.
#[derive(Debug)]
pub struct Admitted {
    admission: Arc<Admission>,
    /// The project that it counts for, and its turns.
    project: Option<(ProjectId, Arc<Semaphore>)>,
}

/// The turn of an admitted request: it may be handled.
#[derive(Debug)]
pub struct Turn<'a> {
    _permit: Option<SemaphorePermit<'a>>,
}

/// The number of admitted requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmittedCounts {
    /// Those that are being handled.
    pub running: usize,
    /// Those that wait for their turn.
    pub waiting: usize,
}

/// The limit that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AdmissionLimit {
    Total,
    Waiting,
    Wait,
}

impl AdmissionLimit {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Waiting => "project",
            Self::Wait => "wait",
        }
    }
}

impl From<AdmissionLimit> for Problem {
    fn from(limit: AdmissionLimit) -> Self {
        let (code, message) = match limit {
            AdmissionLimit::Total => {
                (ErrorCode::DatabaseUnavailable, "the server has as many requests as it takes; see Retry-After")
            }
            AdmissionLimit::Waiting => {
                (ErrorCode::RateLimited, "too many requests of the project wait for their turn; see Retry-After")
            }
            AdmissionLimit::Wait => {
                (ErrorCode::RateLimited, "too many requests of the project came before this one; see Retry-After")
            }
        };
        Self::new(code, message).after(RETRY_AFTER)
    }
}

impl Admission {
    /// Nothing is admitted. `refused` counts the requests that are refused, by limit.
    #[must_use]
    pub fn new(limits: AdmissionLimits, refused: IntCounterVec) -> Arc<Self> {
        let projects = (0..SHARDS).map(|_| Mutex::default()).collect();
        Arc::new(Self {
            limits,
            total: AtomicUsize::new(0),
            hasher: RandomState::new(),
            projects,
            refused,
            warned: Mutex::default(),
        })
    }

    /// Admits a request of a project. A request of no project counts in total only.
    ///
    /// # Errors
    /// 503 or 429, if it would exceed a limit.
    pub fn admit(self: &Arc<Self>, project: Option<ProjectId>) -> Result<Admitted, Problem> {
        // Counted before anything can fail: dropping it takes it off again.
        let mut admitted = Admitted { admission: Arc::clone(self), project: None };
        if self.total.fetch_add(1, Ordering::Relaxed) >= self.limits.total {
            self.warn();
            return Err(self.refuse(AdmissionLimit::Total).logged());
        }
        if let Some(id) = project {
            let turns = self.count(&id).ok_or_else(|| self.refuse(AdmissionLimit::Waiting))?;
            admitted.project = Some((id, turns));
        }
        Ok(admitted)
    }

    /// Returns how many requests are admitted now.
    #[must_use]
    pub fn counts(&self) -> AdmittedCounts {
        let waiting = |projects: &Mutex<Projects>| -> usize {
            let projects = projects.lock().unwrap_or_else(PoisonError::into_inner);
            projects.values().map(|project| project.admitted.saturating_sub(self.limits.running)).sum()
        };
        let waiting = self.projects.iter().map(waiting).sum();
        AdmittedCounts { running: self.total.load(Ordering::Relaxed).saturating_sub(waiting), waiting }
    }

    /// Counts a request of a project, and returns the project's turns; `None` if it has too many.
    fn count(&self, id: &ProjectId) -> Option<Arc<Semaphore>> {
        let AdmissionLimits { running, waiting, .. } = self.limits;
        let mut projects = self.shard(id);
        let new = || Project { admitted: 0, turns: Arc::new(Semaphore::new(running)) };
        let project = projects.entry(id.clone()).or_insert_with(new);
        (project.admitted < running.saturating_add(waiting)).then(|| {
            project.admitted += 1;
            Arc::clone(&project.turns)
        })
    }

    fn release(&self, id: &ProjectId) {
        let mut projects = self.shard(id);
        let Some(project) = projects.get_mut(id) else { return };
        project.admitted -= 1;
        if project.admitted == 0 {
            projects.remove(id);
        }
    }

    fn shard(&self, id: &ProjectId) -> MutexGuard<'_, Projects> {
        #[allow(clippy::cast_possible_truncation)] // Any bits of the hash will do.
        let shard = self.hasher.hash_one(id) as usize % SHARDS;
        self.projects[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warn(&self) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
            *warned = Some(Instant::now());
            log::warn!(
                "{} requests are handled or wait; further ones are refused (http.max_requests)",
                self.limits.total
            );
        }
    }

    fn refuse(&self, limit: AdmissionLimit) -> Problem {
        self.refused.with_label_values(&[limit.as_str()]).inc();
        limit.into()
    }
}

impl Admitted {
    /// Waits for the request's turn.
    ///
    /// # Errors
    /// 429 after [`LONGEST_WAIT`].
    pub async fn turn(&self) -> Result<Turn<'_>, Problem> {
        let Some((_, turns)) = &self.project else { return Ok(Turn { _permit: None }) };
        if let Ok(permit) = turns.try_acquire() {
            return Ok(Turn { _permit: Some(permit) });
        }
        // The semaphore is never closed.
        match timeout(LONGEST_WAIT, turns.acquire()).await {
            Ok(permit) => Ok(Turn { _permit: permit.ok() }),
            Err(_) => Err(self.admission.refuse(AdmissionLimit::Wait)),
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.total.fetch_sub(1, Ordering::Relaxed);
        if let Some((id, _)) = &self.project {
            self.admission.release(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use prometheus::Opts;

    use super::*;

    fn admission(total: usize, running: usize, waiting: usize) -> Arc<Admission> {
        let refused = IntCounterVec::new(Opts::new("refused", "refused"), &["limit"]).unwrap();
        Admission::new(AdmissionLimits { total, running, waiting }, refused)
    }

    #[tokio::test]
    async fn requests_of_a_project_run_in_order_as_turns_become_free() {
        let admission = admission(100, 1, 2);
        let project = ProjectId::new();
        let admit = || admission.admit(Some(project.clone())).unwrap();
        let (first, second, third) = (admit(), admit(), admit());
        assert_eq!(admission.counts(), AdmittedCounts { running: 1, waiting: 2 });
        let turn = first.turn().await.unwrap();
        let mut waiting = [Box::pin(second.turn()), Box::pin(third.turn())];
        for turn in &mut waiting {
            assert!(turn.as_mut().now_or_never().is_none());
        }
        drop(turn);
        let [second, mut third] = waiting;
        let turn = second.await.unwrap();
        assert!(third.as_mut().now_or_never().is_none());
        drop(turn);
        third.await.unwrap();
    }

    #[test]
    fn what_one_project_is_refused_another_is_admitted() {
        let admission = admission(5, 1, 2);
        let (project, other) = (ProjectId::new(), ProjectId::new());
        let held: Vec<_> = (0..3).map(|_| admission.admit(Some(project.clone())).unwrap()).collect();
        assert_eq!(admission.admit(Some(project.clone())).unwrap_err().code, ErrorCode::RateLimited);
        let _other = admission.admit(Some(other.clone())).unwrap();
        let _open = admission.admit(None).unwrap();
        let refused = admission.admit(Some(other)).unwrap_err();
        assert_eq!((refused.code, refused.retry_after), (ErrorCode::DatabaseUnavailable, Some(RETRY_AFTER)));
        drop(held);
        admission.admit(Some(project)).unwrap();
    }

    #[test]
    fn a_project_without_requests_takes_no_memory() {
        let admission = admission(100, 1, 2);
        let held: Vec<_> = (0..50).map(|_| admission.admit(Some(ProjectId::new())).unwrap()).collect();
        drop(held);
        assert!(admission.projects.iter().all(|projects| projects.lock().unwrap().is_empty()));
        assert_eq!(admission.counts(), AdmittedCounts { running: 0, waiting: 0 });
    }
}
