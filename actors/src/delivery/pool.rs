//! The threads that post deliveries, and the bounds of how many posts run at once.
//!
//! A post blocks its thread until the receiver answers or the timeout is over, so threads are what hanging receivers take
//! from others. Each post therefore needs a permit of a [`Lane`], which follows from the receiver's last response: receivers
//! that hang wait for one another, and those that answer do not wait for them. Within a lane, the bound for each project
//! leaves permits to other projects. Nothing but posts runs on these threads.
//!
//! | Lane | posts at once | of one project |
//! |---|---|---|
//! | answering | 256 | 64 |
//! | untried | 384 | 128 |
//! | timed out | 128 | 32 |

use std::io;
use std::sync::Arc;

use conclave_model::ProjectId;
use conclave_model::permits::{PermitLimits, ProjectPermit, ProjectPermits};
use conclave_model::webhook::AttemptOutcome;
use tokio::runtime::{Builder, Runtime};

use super::sender::{DeliveryRequest, Sender, failed};

/// Receivers by their last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// The last attempt did not time out. Before the first one since a start, a delivery was accepted at some time.
    Answering,
    /// Nothing was posted since the start, and no delivery accepted before.
    Untried,
    /// The last attempt timed out.
    TimedOut,
}

impl Lane {
    /// Returns the most posts at once.
    const fn limits(self) -> PermitLimits {
        match self {
            Self::Answering => PermitLimits { total: 256, of_project: 64 },
            Self::Untried => PermitLimits { total: 384, of_project: 128 },
            Self::TimedOut => PermitLimits { total: 128, of_project: 32 },
        }
    }
}

/// Posts deliveries on threads of its own.
#[derive(Debug)]
pub struct DeliveryPool {
    sender: Arc<Sender>,
    /// `None` once dropped.
    threads: Option<Runtime>,
    answering: ProjectPermits,
    untried: ProjectPermits,
    timed_out: ProjectPermits,
}

impl DeliveryPool {
    /// Returns a pool without threads; they are started when needed.
    ///
    /// # Errors
    /// The operating system refuses the resources.
    pub fn new(sender: Sender) -> io::Result<Self> {
        let lanes = [Lane::Answering, Lane::Untried, Lane::TimedOut];
        let most = lanes.map(|lane| lane.limits().total).iter().sum();
        // Only its blocking threads are used.
        let threads = Builder::new_current_thread().thread_name("webhook-post").max_blocking_threads(most).build()?;
        let [answering, untried, timed_out] = lanes.map(|lane| ProjectPermits::new(lane.limits()));
        Ok(Self { sender: Arc::new(sender), threads: Some(threads), answering, untried, timed_out })
    }

    const fn lane(&self, lane: Lane) -> &ProjectPermits {
        match lane {
            Lane::Answering => &self.answering,
            Lane::Untried => &self.untried,
            Lane::TimedOut => &self.timed_out,
        }
    }

    /// Waits for a permit, and takes up to `at_most - 1` others that are free now.
    pub async fn permits(&self, project: &ProjectId, lane: Lane, at_most: usize) -> Vec<ProjectPermit> {
        let lane = self.lane(lane);
        let first = lane.wait(project).await;
        let others = std::iter::from_fn(|| lane.take_free(project));
        std::iter::once(first).chain(others.take(at_most.saturating_sub(1))).collect()
    }

    /// Makes one attempt on a thread of the pool. The caller holds a permit meanwhile.
    pub async fn post(&self, request: DeliveryRequest) -> AttemptOutcome {
        let sender = Arc::clone(&self.sender);
        let posted = self.threads.as_ref().map(|threads| threads.spawn_blocking(move || sender.post(&request)));
        match posted {
            // A panic is a failed attempt.
            Some(posted) => posted.await.unwrap_or_else(|error| failed(&error.to_string())),
            None => failed("the server stops"),
        }
    }
}

impl Drop for DeliveryPool {
    /// Leaves posts in flight to their threads, which end with the process.
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use conclave_model::address::AddressFilter;
    use futures_util::FutureExt;

    use super::*;

    fn pool() -> DeliveryPool {
        DeliveryPool::new(Sender::new(AddressFilter::default(), Duration::from_secs(1))).unwrap()
    }

    /// Takes all the permits that are free now.
    fn take_all(pool: &DeliveryPool, project: &ProjectId, lane: Lane) -> Vec<ProjectPermit> {
        pool.permits(project, lane, usize::MAX).now_or_never().unwrap_or_default()
    }

    #[test]
    fn a_project_takes_its_share_of_a_lane_and_leaves_the_rest_to_others() {
        let (pool, one, other) = (pool(), ProjectId::new(), ProjectId::new());
        for lane in [Lane::Answering, Lane::Untried, Lane::TimedOut] {
            let held = take_all(&pool, &one, lane);
            assert_eq!(held.len(), lane.limits().of_project);
            assert!(take_all(&pool, &one, lane).is_empty());
            assert_eq!(take_all(&pool, &other, lane).len(), lane.limits().of_project);
            drop(held);
            assert_eq!(take_all(&pool, &one, lane).len(), lane.limits().of_project);
        }
    }

    #[test]
    fn lanes_do_not_take_permits_from_one_another() {
        let (pool, project) = (pool(), ProjectId::new());
        let _hanging = take_all(&pool, &project, Lane::TimedOut);
        let _untried = take_all(&pool, &project, Lane::Untried);
        assert_eq!(take_all(&pool, &project, Lane::Answering).len(), 64);
    }

    #[test]
    fn all_projects_together_stay_within_the_bound_of_the_lane() {
        let pool = pool();
        let held: Vec<_> = (0..20).flat_map(|_| take_all(&pool, &ProjectId::new(), Lane::TimedOut)).collect();
        assert_eq!(held.len(), 128);
    }
}
