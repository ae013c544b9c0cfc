//! Decoders: of audio in this process, of video a child process for each track.
//!
//! Decoders and transcoders cost memory and processor time, so only so many run at once: a decoder takes a [`Place`] of its
//! participant, its egress and the server, and a transcoder of an encoder's stream a permit of its project ([`Transcoders`]).

mod audio;
mod video;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conclave_model::ProjectId;
use conclave_model::permits::{PermitLimits, ProjectPermit, ProjectPermits};

pub use audio::AudioDecoder;
#[cfg(test)]
pub use audio::tests::tone;
pub use video::{VideoDecoder, VideoStream};

/// Sounds that are transcoded, for each composition that may be encoded: they take a fraction of its processor time.
const SOUNDS: usize = 16;

/// A number of places. Clones share them.
#[derive(Debug, Clone)]
pub struct Places {
    taken: Arc<AtomicUsize>,
    count: usize,
}

/// A place that is taken, until this is dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Places {
    /// Creates places of which none is taken.
    pub fn new(count: usize) -> Self {
        Self {
            taken: Arc::default(),
            count,
        }
    }

    /// Takes a place; `None` if all are taken.
    pub fn take(&self) -> Option<Place> {
        let next = |taken: usize| (taken < self.count).then_some(taken + 1);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()?;
        Some(Place(Arc::clone(&self.taken)))
    }

    /// Returns how many places are taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a place of each; `None`, and none is taken, if one has no place.
    pub fn take_all(each: &[&Self]) -> Option<Vec<Place>> {
        each.iter().map(|places| places.take()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The places of decoders: of sound in this process, and of pictures, which are a child process each.
#[derive(Debug, Clone)]
pub struct DecoderPlaces {
    pub sounds: Places,
    pub pictures: Places,
}

impl DecoderPlaces {
    /// Returns the places of all egresses together.
    pub fn of_server() -> Self {
        Self {
            sounds: Places::new(1_000),
            pictures: Places::new(100),
        }
    }

    /// Returns the places of one egress: the largest grid has 36 pictures, and one whose tile changes has two decoders for a moment.
    pub fn of_egress() -> Self {
        Self {
            sounds: Places::new(200),
            pictures: Places::new(40),
        }
    }
}

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

    #[test]
    fn a_place_is_free_again_once_it_is_dropped_and_of_several_all_are_taken_or_none() {
        let (few, many) = (Places::new(1), Places::new(2));
        let both = Places::take_all(&[&few, &many]).unwrap();
        assert!(few.take().is_none() && Places::take_all(&[&many, &few]).is_none());
        let _rest = many.take().unwrap();
        assert!(many.take().is_none());
        drop(both);
        assert!(few.take().is_some() && many.take().is_some());
    }

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
