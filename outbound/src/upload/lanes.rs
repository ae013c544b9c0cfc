//! The bounds of how many attempts run at once, and their threads.
//!
//! An attempt blocks a thread until the storage answers or its time is over, and has a part in memory. Its lane follows from how the last
//! attempt to the same storage has ended.

use std::collections::HashSet;
use std::io;

use conclave_model::permits::{PermitLimits, ProjectPermit};
use conclave_model::{DestinationId, ProjectId};
use parking_lot::Mutex;

use super::UploadFailure;
use crate::pool::Pool;

/// Attempts at once to storages that work.
const WORKING: PermitLimits = PermitLimits {
    total: 6,
    of_project: 2,
};
/// Those to storages whose last attempt was interrupted.
const INTERRUPTED: PermitLimits = PermitLimits {
    total: 4,
    of_project: 1,
};

/// The threads of attempts.
#[derive(Debug)]
pub(super) struct Lanes {
    pool: Pool<2>,
    /// The destinations whose last attempt was interrupted.
    interrupted: Mutex<HashSet<DestinationId>>,
}

impl Lanes {
    /// Starts threads when they are needed. Each calls `lower_priority` first.
    pub fn new(lower_priority: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        Ok(Self {
            pool: Pool::new("upload", [WORKING, INTERRUPTED], lower_priority)?,
            interrupted: Mutex::default(),
        })
    }

    /// Runs an attempt when there is a permit for it, which it keeps until it ends.
    pub async fn run(
        &self,
        project: &ProjectId,
        destination: &DestinationId,
        attempt: impl FnOnce() -> Result<(), UploadFailure> + Send + 'static,
    ) -> Result<(), UploadFailure> {
        let permit = self.wait(project, destination).await;
        let ended = self.pool.run(move || {
            let _permit = permit;
            attempt()
        });
        let unexpected = || {
            Err(UploadFailure::Interrupted(
                "the attempt ended unexpectedly".into(),
            ))
        };
        let result = ended.await.unwrap_or_else(unexpected);
        self.note(destination, &result);
        result
    }

    /// Waits for a permit.
    async fn wait(&self, project: &ProjectId, destination: &DestinationId) -> ProjectPermit {
        let [working, interrupted] = self.pool.lanes();
        let was_interrupted = self.interrupted.lock().contains(destination);
        let lane = if was_interrupted {
            interrupted
        } else {
            working
        };
        lane.wait(project).await
    }

    /// Notes how an attempt has ended.
    fn note(&self, destination: &DestinationId, result: &Result<(), UploadFailure>) {
        match result {
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
        lanes: &Lanes,
        project: &ProjectId,
        destination: &DestinationId,
    ) -> Vec<ProjectPermit> {
        std::iter::from_fn(|| lanes.wait(project, destination).now_or_never()).collect()
    }

    /// Proves S-62.
    #[test]
    fn the_attempts_of_one_project_leave_slots_to_another() {
        let (lanes, one, other) = (
            Lanes::new(|| {}).unwrap(),
            ProjectId::new(),
            ProjectId::new(),
        );
        let (storage, others) = (DestinationId::new(), DestinationId::new());
        let held = take_all(&lanes, &one, &storage);
        assert_eq!(held.len(), WORKING.of_project);
        assert_eq!(take_all(&lanes, &other, &others).len(), WORKING.of_project);
    }

    /// Proves S-62.
    #[test]
    fn storages_that_hang_wait_for_each_other_and_no_other_for_them() {
        let (lanes, hanging) = (
            Lanes::new(|| {}).unwrap(),
            Err(UploadFailure::Interrupted("timed out".into())),
        );
        let projects = [(); 20].map(|()| (ProjectId::new(), DestinationId::new()));
        projects
            .iter()
            .for_each(|(_, storage)| lanes.note(storage, &hanging));
        let held: Vec<_> = projects
            .iter()
            .flat_map(|(project, storage)| take_all(&lanes, project, storage))
            .collect();
        assert_eq!(held.len(), INTERRUPTED.total);
        let (project, storage) = &projects[19];
        assert!(take_all(&lanes, project, storage).is_empty());
        assert_eq!(
            take_all(&lanes, project, &DestinationId::new()).len(),
            WORKING.of_project
        );
        lanes.note(storage, &Ok(()));
        assert_eq!(
            take_all(&lanes, project, storage).len(),
            WORKING.of_project,
            "it works again"
        );
    }

    #[tokio::test]
    async fn an_attempt_has_its_result_and_one_that_is_interrupted_is_noted() {
        let (lanes, project, storage) = (
            Lanes::new(|| {}).unwrap(),
            ProjectId::new(),
            DestinationId::new(),
        );
        let interrupted = || Err(UploadFailure::Interrupted("timed out".into()));
        assert!(lanes.run(&project, &storage, || Ok(())).await.is_ok());
        assert_eq!(
            take_all(&lanes, &project, &storage).len(),
            WORKING.of_project
        );
        let ended = lanes.run(&project, &storage, interrupted).await;
        assert!(
            matches!(ended, Err(UploadFailure::Interrupted(_))),
            "{ended:?}"
        );
        assert_eq!(
            take_all(&lanes, &project, &storage).len(),
            INTERRUPTED.of_project
        );
    }
}
