//! How many streams of encoders are transcoded at once: each is a child process.

use conclave_model::ProjectId;
use conclave_model::permits::{PermitLimits, ProjectPermit, ProjectPermits};

/// Sounds that are transcoded, for each composition that may be encoded: they take a fraction of its processor time.
const SOUNDS: usize = 16;

/// The permits of transcoders. One project has at most half of them.
#[derive(Debug)]
pub struct Transcoders {
    sounds: ProjectPermits,
    pictures: ProjectPermits,
}

impl Transcoders {
    /// Creates the permits beside those of so many compositions: as many for pictures, and more for sounds.
    pub fn beside(composites: usize) -> Self {
        let permits = |total: usize| {
            ProjectPermits::new(PermitLimits {
                total,
                of_project: total.div_ceil(2),
            })
        };
        Self {
            sounds: permits(composites.saturating_mul(SOUNDS)),
            pictures: permits(composites),
        }
    }

    /// Takes the permit for a sound of a project; `None` if all are taken.
    pub fn take_sound(&self, project: &ProjectId) -> Option<ProjectPermit> {
        self.sounds.take_free(project)
    }

    /// Takes the permit for pictures of a project; `None` if all are taken.
    pub fn take_pictures(&self, project: &ProjectId) -> Option<ProjectPermit> {
        self.pictures.take_free(project)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves S-80.
    #[test]
    fn a_project_transcodes_at_most_half_and_all_projects_no_more_than_there_are_places() {
        let transcoders = Transcoders::beside(4);
        let projects = ["prj_0123456789ab", "prj_0123456789ac", "prj_0123456789ad"]
            .map(|id| id.parse::<ProjectId>().unwrap());
        let take = |project: &ProjectId| {
            std::iter::from_fn(|| transcoders.take_pictures(project)).collect::<Vec<_>>()
        };
        let [first, second, third] = projects.each_ref().map(take);
        assert_eq!((first.len(), second.len(), third.len()), (2, 2, 0));
        assert!(
            transcoders.take_sound(&projects[2]).is_some(),
            "sounds have places of their own"
        );
        drop((first, second));
        assert_eq!(take(&projects[2]).len(), 2);
        let one = Transcoders::beside(1);
        assert!(one.take_pictures(&projects[0]).is_some());
    }
}
