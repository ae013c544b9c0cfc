//! How many streams of encoders are transcoded at once: each is a child process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use conclave_model::ProjectId;

use crate::places::{Place, Places};

/// Sounds that are transcoded, for each composition that may be encoded: they take a fraction of its processor time.
const SOUNDS: usize = 16;

/// The places of transcoders. One project has at most half of them.
#[derive(Debug)]
pub struct Transcoders {
    sounds: SharedPlaces,
    pictures: SharedPlaces,
}

#[derive(Debug)]
struct SharedPlaces {
    all: Places,
    of_project: usize,
    projects: Mutex<HashMap<ProjectId, Places>>,
}

impl Transcoders {
    /// Creates the places beside those of so many compositions: as many for pictures, and more for sounds.
    #[must_use]
    pub fn beside(composites: usize) -> Self {
        let (sounds, pictures) = (composites.saturating_mul(SOUNDS), composites);
        Self { sounds: SharedPlaces::new(sounds), pictures: SharedPlaces::new(pictures) }
    }

    /// Takes the places for a sound of a project; `None` if all are taken.
    #[must_use]
    pub fn take_sound(&self, project: &ProjectId) -> Option<Vec<Place>> {
        self.sounds.take(project)
    }

    /// Takes the places for pictures of a project; `None` if all are taken.
    #[must_use]
    pub fn take_pictures(&self, project: &ProjectId) -> Option<Vec<Place>> {
        self.pictures.take(project)
    }
}

impl SharedPlaces {
    fn new(count: usize) -> Self {
        Self { all: Places::new(count), of_project: count.div_ceil(2), projects: Mutex::default() }
    }

    fn take(&self, project: &ProjectId) -> Option<Vec<Place>> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.retain(|_, places| places.taken() > 0);
        let own = projects.entry(project.clone()).or_insert_with(|| Places::new(self.of_project));
        Places::take_all(&[own, &self.all])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_transcodes_at_most_half_and_all_projects_no_more_than_there_are_places() {
        let transcoders = Transcoders::beside(4);
        let projects =
            ["prj_0123456789ab", "prj_0123456789ac", "prj_0123456789ad"].map(|id| id.parse::<ProjectId>().unwrap());
        let take = |project: &ProjectId| std::iter::from_fn(|| transcoders.take_pictures(project)).collect::<Vec<_>>();
        let [first, second, third] = projects.each_ref().map(take);
        assert_eq!((first.len(), second.len(), third.len()), (2, 2, 0));
        assert!(transcoders.take_sound(&projects[2]).is_some(), "sounds have places of their own");
        drop((first, second));
        assert_eq!(take(&projects[2]).len(), 2);
        assert_eq!(transcoders.pictures.projects.lock().unwrap().len(), 1);
        let one = Transcoders::beside(1);
        assert!(one.take_pictures(&projects[0]).is_some());
    }
}
