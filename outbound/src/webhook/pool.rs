//! Threads for posts, and limits for concurrent posts.
//!
//! A post's class depends on the receiver's last response.
//!
//! | Class | concurrent posts | per project |
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

use super::sender::{Delivery, DeliverySender, failed_outcome};
use crate::pool::RequestPool;
use crate::roots::TrustedRoots;

/// Class of a receiver by its last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverClass {
    /// The last attempt did not time out. Before the first attempt since the start: a delivery was
    /// accepted at some time.
    Answering,
    /// No attempt since the start, and no delivery was ever accepted.
    Untried,
    /// The last attempt timed out.
    TimedOut,
}

impl ReceiverClass {
    /// All classes, in the pool's order.
    const ALL: [Self; 3] = [Self::Answering, Self::Untried, Self::TimedOut];

    /// Returns the limits for concurrent posts.
    const fn limits(self) -> PermitLimits {
        match self {
            Self::Answering => PermitLimits {
                total: 256,
                per_project: 64,
            },
            Self::Untried => PermitLimits {
                total: 384,
                per_project: 128,
            },
            // Few: each of these posts is expected to block its thread for the whole timeout.
            Self::TimedOut => PermitLimits {
                total: 128,
                per_project: 32,
            },
        }
    }
}

/// Posts deliveries on its own threads.
#[derive(Debug)]
pub struct DeliveryPool {
    sender: Arc<DeliverySender>,
    pool: RequestPool<3>,
    lease: LeaseCheck,
}

impl DeliveryPool {
    /// Creates a pool that posts only to addresses that `filter` permits, and only while the lease
    /// is valid. `timeout` covers a whole attempt. Certificates in `roots` are trusted. Threads are
    /// started on demand.
    ///
    /// # Errors
    /// Fails if the operating system refuses the resources.
    pub fn new(
        filter: AddressFilter,
        timeout: Duration,
        roots: &TrustedRoots,
        lease: LeaseCheck,
    ) -> io::Result<Self> {
        let pool = RequestPool::new(
            "webhook-post",
            ReceiverClass::ALL.map(ReceiverClass::limits),
            || (),
        )?;
        Ok(Self {
            sender: Arc::new(DeliverySender::new(filter, timeout, roots)),
            pool,
            lease,
        })
    }

    /// Returns whether this server may post now.
    #[must_use]
    pub fn may_post(&self) -> bool {
        self.lease.is_valid()
    }

    /// Waits for a permit, and takes up to `at_most - 1` more that are free.
    pub async fn permits(
        &self,
        project: &ProjectId,
        class: ReceiverClass,
        at_most: usize,
    ) -> Vec<ProjectPermit> {
        let [answering, untried, timed_out] = self.pool.classes();
        let class = match class {
            ReceiverClass::Answering => answering,
            ReceiverClass::Untried => untried,
            ReceiverClass::TimedOut => timed_out,
        };
        // Only the first one is waited for: a run with fewer permits is better than a late one.
        let first = class.wait(project).await;
        let others = std::iter::from_fn(|| class.take_free(project));
        std::iter::once(first)
            // Permits that the run does not need would keep other receivers waiting.
            .chain(others.take(at_most.saturating_sub(1)))
            .collect()
    }

    /// Makes one attempt on a pool thread; the caller holds a permit meanwhile. Returns `None` if
    /// this server may not post, so that nothing was attempted.
    pub async fn post(&self, delivery: Delivery) -> Option<AttemptOutcome> {
        let (sender, lease) = (Arc::clone(&self.sender), self.lease.clone());
        // Checked on the thread that posts, since the lease may have expired while the post was
        // queued.
        let posted = self
            .pool
            .run(move || lease.is_valid().then(|| sender.post(&delivery)))
            .await;
        // A panic counts as an attempt, so that a poisonous delivery is not repeated forever.
        posted.unwrap_or_else(|| Some(failed_outcome("the attempt ended unexpectedly")))
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

    /// Acquires all free permits.
    fn take_all(
        pool: &DeliveryPool,
        project: &ProjectId,
        class: ReceiverClass,
    ) -> Vec<ProjectPermit> {
        pool.permits(project, class, usize::MAX)
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
        for class in [
            ReceiverClass::Answering,
            ReceiverClass::Untried,
            ReceiverClass::TimedOut,
        ] {
            let held = take_all(&pool, &one, class);
            assert_eq!(held.len(), class.limits().per_project);
            assert!(take_all(&pool, &one, class).is_empty());
            assert_eq!(
                take_all(&pool, &other, class).len(),
                class.limits().per_project
            );
            drop(held);
            assert_eq!(
                take_all(&pool, &one, class).len(),
                class.limits().per_project
            );
        }
    }

    #[test]
    fn lanes_do_not_take_permits_from_one_another() {
        let (pool, project) = (pool(), ProjectId::new());
        let _hanging = take_all(&pool, &project, ReceiverClass::TimedOut);
        let _untried = take_all(&pool, &project, ReceiverClass::Untried);
        assert_eq!(
            take_all(&pool, &project, ReceiverClass::Answering).len(),
            64
        );
    }

    #[test]
    fn all_projects_together_stay_within_the_bound_of_the_lane() {
        let pool = pool();
        let held: Vec<_> = (0..20)
            .flat_map(|_| take_all(&pool, &ProjectId::new(), ReceiverClass::TimedOut))
            .collect();
        assert_eq!(held.len(), 128);
    }
}
