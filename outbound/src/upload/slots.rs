//! Limits for concurrent attempts, and their threads.
//!
//! An attempt blocks a thread until the storage responds or a timeout expires, and holds a part in
//! memory. Its class depends on how the last attempt at the same destination ended.

use std::collections::HashSet;
use std::io;

use conclave_model::permits::{PermitLimits, ProjectPermit};
use conclave_model::{DestinationId, ProjectId};
use parking_lot::Mutex;

use super::UploadFailure;
use crate::pool::RequestPool;

/// Concurrent attempts at storages that work.
const WORKING_LIMITS: PermitLimits = PermitLimits {
    total: 6,
    per_project: 2,
};
/// Concurrent attempts at storages whose last attempt was interrupted.
const INTERRUPTED_LIMITS: PermitLimits = PermitLimits {
    total: 4,
    per_project: 1,
};

/// Threads and permits for attempts.
#[derive(Debug)]
pub(super) struct UploadSlots {
    pool: RequestPool<2>,
    /// Destinations whose last attempt was interrupted.
    interrupted: Mutex<HashSet<DestinationId>>,
}

impl UploadSlots {
    /// Creates a pool whose threads are started on demand. Each calls `lower_priority` first.
    pub fn new(lower_priority: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        Ok(Self {
            pool: RequestPool::new(
                "upload",
                [WORKING_LIMITS, INTERRUPTED_LIMITS],
                lower_priority,
            )?,
            interrupted: Mutex::default(),
        })
    }

    /// Runs an attempt when there is a permit for it, which is held until the attempt ends.
    pub async fn run(
        &self,
        project: &ProjectId,
        destination: &DestinationId,
        attempt: impl FnOnce() -> Result<(), UploadFailure> + Send + 'static,
    ) -> Result<(), UploadFailure> {
        let permit = self.wait(project, destination).await;
        let ended = self.pool.run(move || {
            // Moved to the thread: dropping the future must not free the permit while the attempt
            // runs.
            let _permit = permit;
            attempt()
        });
        let unexpected = || {
            Err(UploadFailure::Interrupted(
                "the attempt ended unexpectedly".into(),
            ))
        };
        let result = ended.await.unwrap_or_else(unexpected);
        self.record_result(destination, &result);
        result
    }

    async fn wait(&self, project: &ProjectId, destination: &DestinationId) -> ProjectPermit {
        let [working, interrupted] = self.pool.classes();
        // By destination, not by host: credentials and buckets fail separately.
        let was_interrupted = self.interrupted.lock().contains(destination);
        let class = if was_interrupted {
            interrupted
        } else {
            working
        };
        class.wait(project).await
    }

    /// Records an attempt's result, which decides the class of the next one.
    fn record_result(&self, destination: &DestinationId, result: &Result<(), UploadFailure>) {
        match result {
            // A refusal is quick, so it does not make the storage slow.
            Err(UploadFailure::Interrupted(_)) => {
                self.interrupted.lock().insert(destination.clone())
            }
            Ok(()) | Err(_) => self.interrupted.lock().remove(destination),
        };
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn take_all(
        slots: &UploadSlots,
        project: &ProjectId,
        destination: &DestinationId,
    ) -> Vec<ProjectPermit> {
        std::iter::from_fn(|| slots.wait(project, destination).now_or_never()).collect()
    }

    /// Proves S-62.
    #[test]
    fn the_attempts_of_one_project_leave_slots_to_another() {
        let (slots, one, other) = (
            UploadSlots::new(|| {}).unwrap(),
            ProjectId::new(),
            ProjectId::new(),
        );
        let (storage, others) = (DestinationId::new(), DestinationId::new());
        let permits = take_all(&slots, &one, &storage);
        assert_eq!(permits.len(), WORKING_LIMITS.per_project);
        assert_eq!(
            take_all(&slots, &other, &others).len(),
            WORKING_LIMITS.per_project
        );
    }

    /// Proves S-62.
    #[test]
    fn storages_that_hang_wait_for_each_other_and_no_other_for_them() {
        let (slots, hanging) = (
            UploadSlots::new(|| {}).unwrap(),
            Err(UploadFailure::Interrupted("timed out".into())),
        );
        let projects = [(); 20].map(|()| (ProjectId::new(), DestinationId::new()));
        projects
            .iter()
            .for_each(|(_, storage)| slots.record_result(storage, &hanging));
        let permits: Vec<_> = projects
            .iter()
            .flat_map(|(project, storage)| take_all(&slots, project, storage))
            .collect();
        assert_eq!(permits.len(), INTERRUPTED_LIMITS.total);
        let (project, storage) = &projects[19];
        assert!(take_all(&slots, project, storage).is_empty());
        assert_eq!(
            take_all(&slots, project, &DestinationId::new()).len(),
            WORKING_LIMITS.per_project
        );
        slots.record_result(storage, &Ok(()));
        assert_eq!(
            take_all(&slots, project, storage).len(),
            WORKING_LIMITS.per_project,
            "it works again"
        );
    }

    #[tokio::test]
    async fn an_attempt_has_its_result_and_one_that_is_interrupted_is_noted() {
        let (slots, project, storage) = (
            UploadSlots::new(|| {}).unwrap(),
            ProjectId::new(),
            DestinationId::new(),
        );
        let interrupted = || Err(UploadFailure::Interrupted("timed out".into()));
        assert!(slots.run(&project, &storage, || Ok(())).await.is_ok());
        assert_eq!(
            take_all(&slots, &project, &storage).len(),
            WORKING_LIMITS.per_project
        );
        let ended = slots.run(&project, &storage, interrupted).await;
        assert!(
            matches!(ended, Err(UploadFailure::Interrupted(_))),
            "{ended:?}"
        );
        assert_eq!(
            take_all(&slots, &project, &storage).len(),
            INTERRUPTED_LIMITS.per_project
        );
    }
}
