//! The threads that post deliveries, and the bounds of how many posts run at once.
//!
//! The lane of a post follows from the receiver's last response.
//!
//! | Lane | posts at once | of one project |
//! |---|---|---|
//! | answering | 256 | 64 |
//! | untried | 384 | 128 |
//! | timed out | 128 | 32 |

use std::io;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::address::AddressFilter;
use conclave_model::permits::{PermitLimits, ProjectPermit};
use conclave_model::webhook::AttemptOutcome;
use conclave_model::{LeaseCheck, ProjectId};

use super::sender::{Delivery, Sender, failed};
use crate::pool::Pool;
use crate::roots::TrustedRoots;

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
    /// In the order of the pool's lanes.
    const ALL: [Self; 3] = [Self::Answering, Self::Untried, Self::TimedOut];

    /// Returns the most posts at once.
    const fn limits(self) -> PermitLimits {
        match self {
            Self::Answering => PermitLimits {
                total: 256,
                of_project: 64,
            },
            Self::Untried => PermitLimits {
                total: 384,
                of_project: 128,
            },
            Self::TimedOut => PermitLimits {
                total: 128,
                of_project: 32,
            },
        }
    }
}

/// Posts deliveries on threads of its own.
#[derive(Debug)]
pub struct DeliveryPool {
    sender: Arc<Sender>,
    pool: Pool<3>,
    lease: LeaseCheck,
}

impl DeliveryPool {
    /// Returns a pool that posts only to addresses that `filter` permits, and only while the lease is valid. `timeout` covers a whole
    /// attempt. The certificates of `roots` are trusted. Threads are started when needed.
    ///
    /// # Errors
    /// The operating system refuses the resources.
    pub fn new(
        filter: AddressFilter,
        timeout: Duration,
        roots: &TrustedRoots,
        lease: LeaseCheck,
    ) -> io::Result<Self> {
        let pool = Pool::new("webhook-post", Lane::ALL.map(Lane::limits), || ())?;
        Ok(Self {
            sender: Arc::new(Sender::new(filter, timeout, roots)),
            pool,
            lease,
        })
    }

    /// Whether this server may post now.
    #[must_use]
    pub fn may_post(&self) -> bool {
        self.lease.is_valid()
    }

    /// Waits for a permit, and takes up to `at_most - 1` others that are free now.
    pub async fn permits(
        &self,
        project: &ProjectId,
        lane: Lane,
        at_most: usize,
    ) -> Vec<ProjectPermit> {
        let [answering, untried, timed_out] = self.pool.lanes();
        let lane = match lane {
            Lane::Answering => answering,
            Lane::Untried => untried,
            Lane::TimedOut => timed_out,
        };
        let first = lane.wait(project).await;
        let others = std::iter::from_fn(|| lane.take_free(project));
        std::iter::once(first)
            .chain(others.take(at_most.saturating_sub(1)))
            .collect()
    }

    /// Makes one attempt on a thread of the pool. The caller holds a permit meanwhile. Returns `None` if this server may not post, so
    /// that nothing was attempted.
    pub async fn post(&self, delivery: Delivery) -> Option<AttemptOutcome> {
        let (sender, lease) = (Arc::clone(&self.sender), self.lease.clone());
        // On the thread that posts, since it may have been awaited.
        let posted = self
            .pool
            .run(move || lease.is_valid().then(|| sender.post(&delivery)))
            .await;
        posted.unwrap_or_else(|| Some(failed("the attempt ended unexpectedly")))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use futures_util::FutureExt;
    use test_http_server::{Response, serve};

    use super::*;
    use crate::webhook::sender::tests::request;

    fn pool() -> DeliveryPool {
        DeliveryPool::new(
            AddressFilter::default(),
            Duration::from_secs(1),
            &TrustedRoots::default(),
            LeaseCheck::not_needed(),
        )
        .unwrap()
    }

    /// Takes all the permits that are free now.
    fn take_all(pool: &DeliveryPool, project: &ProjectId, lane: Lane) -> Vec<ProjectPermit> {
        pool.permits(project, lane, usize::MAX)
            .now_or_never()
            .unwrap_or_default()
    }

    #[tokio::test]
    async fn nothing_is_posted_while_the_lease_is_not_valid() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let address = serve(move |received, mut stream| {
            let _ = sender.send(received);
            stream.write_all(&Response::new(200).into_bytes()).unwrap();
        });
        let delivery = request(&format!("http://{address}/"));
        for (lease, is_posted) in [
            (LeaseCheck::new(|| false), false),
            (LeaseCheck::not_needed(), true),
        ] {
            let filter = AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()]);
            let pool = DeliveryPool::new(
                filter,
                Duration::from_secs(60),
                &TrustedRoots::default(),
                lease,
            )
            .unwrap();
            assert_eq!(pool.may_post(), is_posted);
            assert_eq!(pool.post(delivery.clone()).await.is_some(), is_posted);
            assert_eq!(receiver.try_recv().is_ok(), is_posted);
        }
    }

    #[test]
    fn a_project_takes_its_share_of_a_lane_and_leaves_the_rest_to_others() {
        let (pool, one, other) = (pool(), ProjectId::new(), ProjectId::new());
        for lane in [Lane::Answering, Lane::Untried, Lane::TimedOut] {
            let held = take_all(&pool, &one, lane);
            assert_eq!(held.len(), lane.limits().of_project);
            assert!(take_all(&pool, &one, lane).is_empty());
            assert_eq!(
                take_all(&pool, &other, lane).len(),
                lane.limits().of_project
            );
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
        let held: Vec<_> = (0..20)
            .flat_map(|_| take_all(&pool, &ProjectId::new(), Lane::TimedOut))
            .collect();
        assert_eq!(held.len(), 128);
    }
}
