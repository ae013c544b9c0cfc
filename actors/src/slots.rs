//! Bounds of how much runs at once, in all and for one project.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use conclave_model::ProjectId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The right to run one thing. Returned when dropped.
#[derive(Debug)]
pub struct Slot {
    _of_project: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Slots, of which one project has some at most. They are given in the order of the requests.
#[derive(Debug)]
pub struct Slots {
    all: Arc<Semaphore>,
    of_project: usize,
    /// An entry for each project that has asked since the server started.
    projects: Mutex<HashMap<ProjectId, Arc<Semaphore>>>,
}

impl Slots {
    /// Returns slots that are free: so many in all, and so many for one project.
    #[must_use]
    pub fn new(in_all: usize, of_project: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(in_all)), of_project, projects: Mutex::default() }
    }

    fn project(&self, id: &ProjectId) -> Arc<Semaphore> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = projects.entry(id.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.of_project)));
        Arc::clone(slots)
    }

    /// Waits for a slot. `None` is impossible, because the semaphores are never closed.
    pub async fn wait(&self, project: &ProjectId) -> Option<Slot> {
        // First the project's, so that what waits for it holds no slot of others.
        let of_project = self.project(project).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Slot { _of_project: of_project, _of_all: of_all })
    }

    /// Returns a slot if one is free.
    pub fn take_free(&self, project: &ProjectId) -> Option<Slot> {
        let of_project = self.project(project).try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Slot { _of_project: of_project, _of_all: of_all })
    }
}
