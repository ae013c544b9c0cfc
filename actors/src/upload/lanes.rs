//! The bounds of how many attempts run at once.
//!
//! An attempt blocks a thread until the storage answers or its time is over, and has a part in memory. Storages whose last attempt was
//! interrupted wait for each other, and those that work do not wait for them. Within a lane, the bound for each project leaves permits to
//! other projects.

use std::collections::HashSet;

use conclave_model::permits::{PermitLimits, ProjectPermit, ProjectPermits};
use conclave_model::{DestinationId, ProjectId};
use parking_lot::Mutex;

use super::UploadFailure;

/// Attempts at once to storages that work.
const WORKING: PermitLimits = PermitLimits { total: 6, of_project: 2 };
/// Those to storages whose last attempt was interrupted.
const INTERRUPTED: PermitLimits = PermitLimits { total: 4, of_project: 1 };

/// The permits of attempts.
#[derive(Debug)]
pub(super) struct Lanes {
    working: ProjectPermits,
    interrupted: ProjectPermits,
    /// The destinations whose last attempt was interrupted.
    destinations: Mutex<HashSet<DestinationId>>,
}

impl Lanes {
    pub fn new() -> Self {
        Self {
            working: ProjectPermits::new(WORKING),
            interrupted: ProjectPermits::new(INTERRUPTED),
            destinations: Mutex::default(),
        }
    }

    /// Waits for a permit.
    pub async fn wait(&self, project: &ProjectId, destination: &DestinationId) -> ProjectPermit {
        let was_interrupted = self.destinations.lock().contains(destination);
        let lane = if was_interrupted { &self.interrupted } else { &self.working };
        lane.wait(project).await
    }

    /// Notes how an attempt has ended.
    pub fn note(&self, destination: &DestinationId, result: &Result<(), UploadFailure>) {
        match result {
            Err(UploadFailure::Interrupted(_)) => self.destinations.lock().insert(destination.clone()),
            Ok(()) | Err(_) => self.destinations.lock().remove(destination),
        };
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn take_all(lanes: &Lanes, project: &ProjectId, destination: &DestinationId) -> Vec<ProjectPermit> {
        std::iter::from_fn(|| lanes.wait(project, destination).now_or_never()).collect()
    }

    #[test]
    fn the_attempts_of_one_project_leave_slots_to_another() {
        let (lanes, one, other) = (Lanes::new(), ProjectId::new(), ProjectId::new());
        let (storage, others) = (DestinationId::new(), DestinationId::new());
        let held = take_all(&lanes, &one, &storage);
        assert_eq!(held.len(), WORKING.of_project);
        assert_eq!(take_all(&lanes, &other, &others).len(), WORKING.of_project);
    }

    #[test]
    fn storages_that_hang_wait_for_each_other_and_no_other_for_them() {
        let (lanes, hanging) = (Lanes::new(), Err(UploadFailure::Interrupted("timed out".into())));
        let projects = [(); 20].map(|()| (ProjectId::new(), DestinationId::new()));
        projects.iter().for_each(|(_, storage)| lanes.note(storage, &hanging));
        let held: Vec<_> = projects.iter().flat_map(|(project, storage)| take_all(&lanes, project, storage)).collect();
        assert_eq!(held.len(), INTERRUPTED.total);
        let (project, storage) = &projects[19];
        assert!(take_all(&lanes, project, storage).is_empty());
        assert_eq!(take_all(&lanes, project, &DestinationId::new()).len(), WORKING.of_project);
        lanes.note(storage, &Ok(()));
        assert_eq!(take_all(&lanes, project, storage).len(), WORKING.of_project, "it works again");
    }
}
