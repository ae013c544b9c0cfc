//! Admission: limits on concurrent requests, in total and per project.
//!
//! At most [`AdmissionLimits::running`] requests of a project run at once, and at most [`AdmissionLimits::beside_others`] while other
//! projects send requests, too ([`Sharing`]). Further requests queue for their [`RunPermit`], in order, at no cost. A request is refused if
//! the queue is full, or after [`LONGEST_WAIT`] in it. So a project that sends more than the server can handle only delays itself, and
//! other projects' requests find few before them.
//!
//! Recording downloads have permits of their own ([`Downloads`]): each lasts as long as its client reads.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use conclave_model::permits::{PermitLimits, ProjectPermits};
use conclave_model::{ErrorCode, Problem, ProjectId, Throttle};
use parking_lot::{Mutex, MutexGuard};
use prometheus::IntCounterVec;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Maximum time that a request queues.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// `Retry-After` for a refused request.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Minimum time between two warnings about refused requests.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Number of maps that projects are distributed over, so that requests rarely contend for a lock.
const SHARDS: usize = 64;

/// Limits on concurrent requests.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionLimits {
    /// Running and queued requests over all projects.
    pub total: usize,
    /// Running requests per project.
    pub running: usize,
    /// Running requests per project while other projects send requests.
    pub beside_others: usize,
    /// Queued requests per project.
    pub waiting: usize,
}

/// Admission for one server.
#[derive(Debug)]
pub struct Admission {
    limits: AdmissionLimits,
    total: AtomicUsize,
    hasher: RandomState,
    sharing: Sharing,
    /// Projects with admitted requests, by shard.
    projects: Box<[Mutex<Projects>]>,
    refused: IntCounterVec,
    warnings: Throttle,
}

type Projects = HashMap<ProjectId, Project>;

#[derive(Debug)]
struct Project {
    /// Running and queued requests.
    admitted: usize,
    permits: Arc<Semaphore>,
}

/// Admitted request, which counts until this is dropped.
#[derive(Debug)]
pub struct Admitted {
    admission: Arc<Admission>,
    /// Project that it counts for.
    project: Option<AdmittedProject>,
    /// Number of permits that it takes.
    weight: u32,
}

/// Project of an admitted request.
#[derive(Debug)]
struct AdmittedProject {
    id: ProjectId,
    permits: Arc<Semaphore>,
}

/// Admitted request counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmittedCounts {
    /// Running requests.
    pub running: usize,
    /// Queued requests.
    pub waiting: usize,
}

/// Limit that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AdmissionLimit {
    Total,
    Waiting,
    Wait,
}

impl AdmissionLimit {
    const fn as_str(self) -> &'static str {
        match self {
            // Values of the metric's label `limit`: dashboards and alerts compare them.
            Self::Total => "total",
            Self::Waiting => "project",
            Self::Wait => "wait",
        }
    }
}

impl From<AdmissionLimit> for Problem {
    fn from(limit: AdmissionLimit) -> Self {
        let (code, message) = match limit {
            AdmissionLimit::Total => (
                // 503, since the whole server is affected. The contract has no code for overload; clients retry any 503.
                ErrorCode::DatabaseUnavailable,
                "the server is at its request limit; see Retry-After",
            ),
            AdmissionLimit::Waiting => (
                // 429, since the project's own requests fill its queue: its backend can slow down.
                ErrorCode::RateLimited,
                "too many requests of the project are queued; see Retry-After",
            ),
            AdmissionLimit::Wait => (
                ErrorCode::RateLimited,
                "the request was queued for too long behind others of its project; see Retry-After",
            ),
        };
        Self::new(code, message).after(RETRY_AFTER)
    }
}

impl Admission {
    /// Creates the admission without requests. `refused` counts refused requests by limit.
    pub fn new(limits: AdmissionLimits, refused: IntCounterVec) -> Arc<Self> {
        let projects = (0..SHARDS).map(|_| Mutex::default()).collect();
        Arc::new(Self {
            limits,
            total: AtomicUsize::new(0),
            hasher: RandomState::new(),
            sharing: Sharing::new(),
            projects,
            refused,
            warnings: Throttle::new(WARNING_INTERVAL),
        })
    }

    /// Admits a project's request. A request without a project counts only in total.
    ///
    /// # Errors
    /// 503 or 429, if it would exceed a limit.
    pub fn admit(self: &Arc<Self>, project: Option<ProjectId>) -> Result<Admitted, Problem> {
        self.try_admit(project).map_err(|limit| match limit {
            AdmissionLimit::Total => {
                self.warn();
                // `warn` has logged it, at most once a minute. A line per refusal would add load when there is most of it.
                self.refuse(limit).logged()
            }
            // Not logged: the project's clients see it, and the metric counts it.
            AdmissionLimit::Waiting | AdmissionLimit::Wait => self.refuse(limit),
        })
    }

    fn try_admit(self: &Arc<Self>, project: Option<ProjectId>) -> Result<Admitted, AdmissionLimit> {
        // Created before the checks: on a refusal, dropping it decrements the total again.
        let mut admitted = Admitted {
            admission: Arc::clone(self),
            project: None,
            weight: 1,
        };
        if self.total.fetch_add(1, Ordering::Relaxed) >= self.limits.total {
            return Err(AdmissionLimit::Total);
        }
        if let Some(id) = project {
            let hash = self.hasher.hash_one(&id);
            let now = self.sharing.now();
            self.sharing.record(hash, now);
            // While the server is shared, a request takes several permits, which lowers the number that run without resizing the
            // semaphore.
            admitted.weight = weight(self.limits.running, self.at_once(now));
            let permits = self.count(hash, &id).ok_or(AdmissionLimit::Waiting)?;
            admitted.project = Some(AdmittedProject { id, permits });
        }
        Ok(admitted)
    }

    /// Returns how many of a project's requests may run at once, at a time from [`Sharing::now`].
    fn at_once(&self, now: u64) -> usize {
        let AdmissionLimits {
            running,
            beside_others,
            ..
        } = self.limits;
        if self.sharing.is_shared(now) {
            beside_others.min(running)
        } else {
            running
        }
    }

    /// Returns the current admitted request counts.
    pub fn counts(&self) -> AdmittedCounts {
        let at_once = self.at_once(self.sharing.now());
        // Derived at the scrape instead of counted: a request's state changes would cost two more atomic writes.
        let waiting = |projects: &Mutex<Projects>| -> usize {
            let projects = projects.lock();
            projects
                .values()
                .map(|project| project.admitted.saturating_sub(at_once))
                .sum()
        };
        let waiting = self.projects.iter().map(waiting).sum();
        AdmittedCounts {
            running: self.total.load(Ordering::Relaxed).saturating_sub(waiting),
            waiting,
        }
    }

    /// Counts a project's request, and returns the project's permits; `None` if the project has too many requests.
    fn count(&self, hash: u64, id: &ProjectId) -> Option<Arc<Semaphore>> {
        let AdmissionLimits {
            running, waiting, ..
        } = self.limits;
        let mut projects = self.shard(hash);
        let new = || Project {
            admitted: 0,
            permits: Arc::new(Semaphore::new(running)),
        };
        let project = projects.entry(id.clone()).or_insert_with(new);
        (project.admitted < running.saturating_add(waiting)).then(|| {
            project.admitted += 1;
            Arc::clone(&project.permits)
        })
    }

    fn release(&self, id: &ProjectId) {
        let mut projects = self.shard(self.hasher.hash_one(id));
        let Some(project) = projects.get_mut(id) else {
            return;
        };
        project.admitted -= 1;
        // An idle project has no entry, so memory is bounded by the admitted requests.
        if project.admitted == 0 {
            projects.remove(id);
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Projects> {
        #[allow(clippy::cast_possible_truncation)] // Any bits of the hash will do.
        let shard = hash as usize % SHARDS;
        self.projects[shard].lock()
    }

    fn warn(&self) {
        if self.warnings.allow(Instant::now()) {
            log::warn!(
                "{} requests are running or queued; further requests are refused (http.max_requests)",
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
    /// Waits for the project's permit.
    ///
    /// # Errors
    /// 429 after [`LONGEST_WAIT`].
    pub async fn acquire(&self) -> Result<RunPermit<'_>, Problem> {
        let Some(AdmittedProject { permits, .. }) = &self.project else {
            return Ok(RunPermit::new(None));
        };
        // Without a timer, which most requests do not need.
        if let Ok(permit) = permits.try_acquire_many(self.weight) {
            return Ok(RunPermit::new(Some(permit)));
        }
        // The semaphore is never closed.
        match Box::pin(timeout(LONGEST_WAIT, permits.acquire_many(self.weight))).await {
            Ok(permit) => Ok(RunPermit::new(permit.ok())),
            Err(_) => Err(self.admission.refuse(AdmissionLimit::Wait)),
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.total.fetch_sub(1, Ordering::Relaxed);
        if let Some(project) = &self.project {
            self.admission.release(&project.id);
        }
    }
}

/// Time after another project's request during which the server counts as shared.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// Detects whether more than one project sends requests.
#[derive(Debug)]
struct Sharing {
    start: Instant,
    /// Hash of the project with the latest request.
    latest: AtomicU64,
    /// Time of the last change of project, in milliseconds since the start.
    changed: AtomicU64,
}

impl Sharing {
    /// Creates the state before the first request.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            latest: AtomicU64::new(0),
            changed: AtomicU64::new(0),
        }
    }

    /// Returns the milliseconds since the start.
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records a project's request, by its hash, at a time.
    pub fn record(&self, project: u64, now: u64) {
        // Relaxed and not one update: a lost change is repeated by the next request of either project.
        if self.latest.load(Ordering::Relaxed) != project {
            self.latest.store(project, Ordering::Relaxed);
            self.changed.store(now, Ordering::Relaxed);
        }
    }

    /// Returns whether two projects have sent requests recently.
    pub fn is_shared(&self, now: u64) -> bool {
        u128::from(now.saturating_sub(self.changed.load(Ordering::Relaxed)))
            < SHARED_FOR.as_millis()
    }
}

/// Time after which a request no longer counts as using the processor: it waits for the media plane or another service.
const SLOW: Duration = Duration::from_millis(10);

/// A request's permit to run.
#[derive(Debug)]
pub struct RunPermit<'a> {
    permit: Option<SemaphorePermit<'a>>,
}

impl<'a> RunPermit<'a> {
    /// Wraps a project's permits; `None` for a request without a project.
    pub(super) const fn new(permit: Option<SemaphorePermit<'a>>) -> Self {
        Self { permit }
    }

    /// Runs the request. If it is slow, it returns its extra permits, so that as many requests of its project run as if the server
    /// were not shared.
    pub async fn handle<F: Future>(mut self, request: F) -> F::Output {
        let mut request = pin!(request);
        if self
            .permit
            .as_ref()
            .is_some_and(|permit| permit.num_permits() > 1)
        // With a single permit there is nothing to return, so no timer is needed.
        {
            // Most requests end within this time.
            if let Ok(output) = Box::pin(timeout(SLOW, request.as_mut())).await {
                return output;
            }
            self.lighten();
        }
        request.await
    }

    /// Keeps one permit and returns the others.
    fn lighten(&mut self) {
        if let Some(permit) = &mut self.permit {
            let others = permit.num_permits().saturating_sub(1);
            drop(permit.split(others));
        }
    }
}

/// Returns how many permits a request takes, so that at most `at_once` run.
fn weight(permits: usize, at_once: usize) -> u32 {
    u32::try_from(permits.div_ceil(at_once.max(1))).unwrap_or(u32::MAX)
}

/// Limits on concurrent downloads, by API key and by link. Each occupies a connection, and a thread of the blocking pool while it
/// reads.
pub const DOWNLOADS: PermitLimits = PermitLimits {
    total: 256,
    per_project: 64,
};

/// Permits for downloads. Anyone may have a link, so downloads by link do not use the project's own permits.
pub struct Downloads {
    /// Downloads with an API key.
    pub by_key: ProjectPermits,
    /// Downloads by link.
    pub by_link: ProjectPermits,
    /// Admits requests by link, which do not count as the project's requests.
    // Separate, because a flood of requests by link must not fill the queue of the project's backend (S-25).
    pub link_requests: Arc<Admission>,
}

impl Downloads {
    /// Creates the permits. `link_requests` admits the requests by link.
    pub fn new(link_requests: Arc<Admission>) -> Self {
        Self {
            by_key: ProjectPermits::new(DOWNLOADS),
            by_link: ProjectPermits::new(DOWNLOADS),
            link_requests,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;
    use prometheus::Opts;

    use super::*;

    fn admission(total: usize, running: usize, waiting: usize) -> Arc<Admission> {
        admission_of(AdmissionLimits {
            total,
            running,
            beside_others: running,
            waiting,
        })
    }

    fn admission_of(limits: AdmissionLimits) -> Arc<Admission> {
        let refused = IntCounterVec::new(Opts::new("refused", "refused"), &["limit"]).unwrap();
        Admission::new(limits, refused)
    }

    #[tokio::test]
    async fn requests_of_a_project_run_in_order_as_turns_become_free() {
        let admission = admission(100, 1, 2);
        let project = ProjectId::new();
        let admit = || admission.try_admit(Some(project.clone())).unwrap();
        let (first, second, third) = (admit(), admit(), admit());
        assert_eq!(
            admission.counts(),
            AdmittedCounts {
                running: 1,
                waiting: 2
            }
        );
        let permit = first.acquire().await.unwrap();
        let mut waiting = [Box::pin(second.acquire()), Box::pin(third.acquire())];
        for queued in &mut waiting {
            assert!(queued.as_mut().now_or_never().is_none());
        }
        drop(permit);
        let [second, mut third] = waiting;
        let permit = second.await.unwrap();
        assert!(third.as_mut().now_or_never().is_none());
        drop(permit);
        third.await.unwrap();
    }

    #[test]
    fn what_one_project_is_refused_another_is_admitted() {
        let admission = admission(5, 1, 2);
        let (project, other) = (ProjectId::new(), ProjectId::new());
        let held: Vec<_> = (0..3)
            .map(|_| admission.try_admit(Some(project.clone())).unwrap())
            .collect();
        assert_eq!(
            admission.admit(Some(project.clone())).unwrap_err().code,
            ErrorCode::RateLimited
        );
        let _other = admission.admit(Some(other.clone())).unwrap();
        let _open = admission.admit(None).unwrap();
        let refused = admission.admit(Some(other)).unwrap_err();
        assert_eq!(
            (refused.code, refused.retry_after),
            (ErrorCode::DatabaseUnavailable, Some(RETRY_AFTER))
        );
        drop(held);
        admission.admit(Some(project)).unwrap();
    }

    /// Proves R-46.
    #[tokio::test]
    async fn beside_others_fewer_requests_of_a_project_run_unless_they_are_slow() {
        let admission = admission_of(AdmissionLimits {
            total: 100,
            running: 8,
            beside_others: 2,
            waiting: 6,
        });
        let (project, other) = (ProjectId::new(), ProjectId::new());
        admission.admit(Some(other)).unwrap();
        let admitted: Vec<_> = (0..3)
            .map(|_| admission.try_admit(Some(project.clone())).unwrap())
            .collect();
        let [first, second] = [&admitted[0], &admitted[1]]
            .map(|admitted| admitted.acquire().now_or_never().unwrap().unwrap());
        let mut third = Box::pin(admitted[2].acquire());
        assert!(
            third.as_mut().now_or_never().is_none(),
            "two run beside others"
        );
        assert_eq!(
            admission.counts(),
            AdmittedCounts {
                running: 2,
                waiting: 1
            }
        );
        let [first, second] = [first, second].map(|permit| permit.handle(pending::<()>()));
        tokio::select! {
            permit = third => drop(permit.unwrap()),
            () = first => unreachable!("it never ends"),
            () = second => unreachable!("it never ends"),
        }
    }

    #[test]
    fn a_project_without_requests_takes_no_memory() {
        let admission = admission(100, 1, 2);
        let held: Vec<_> = (0..50)
            .map(|_| admission.try_admit(Some(ProjectId::new())).unwrap())
            .collect();
        drop(held);
        assert!(
            admission
                .projects
                .iter()
                .all(|projects| projects.lock().is_empty())
        );
        assert_eq!(
            admission.counts(),
            AdmittedCounts {
                running: 0,
                waiting: 0
            }
        );
    }

    #[test]
    fn a_server_is_shared_for_a_second_after_a_request_of_another_project() {
        let sharing = Sharing::new();
        let seen = [
            (1, 0),
            (1, 999),
            (1, 1_000),
            (1, 5_000),
            (2, 5_001),
            (1, 5_500),
            (1, 6_499),
            (1, 6_500),
        ]
        .map(|(project, now)| {
            sharing.record(project, now);
            sharing.is_shared(now)
        });
        assert_eq!(seen, [true, true, false, false, true, true, true, false]);
    }

    #[test]
    fn no_more_than_the_limit_have_their_turns_at_once() {
        for permits in 1..=100 {
            for at_once in 1..=permits {
                let running = permits / weight(permits, at_once) as usize;
                assert!(
                    (1..=at_once).contains(&running),
                    "{running} of {permits}, at most {at_once}"
                );
            }
            assert_eq!(weight(permits, permits), 1);
        }
        assert_eq!(weight(64, 4), 16);
    }
}
