//! Decoders: audio in this process, video in a child process per track.
//!
//! Decoders and transcoders cost memory and processor time, so their number is limited. A decoder
//! takes a [`Slot`] from its participant (audio only), its egress and the server. A transcoder for
//! an ingress stream takes a permit from its project ([`TranscoderPermits`]).

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

// An audio transcoder takes little processor time compared with a composition.
const AUDIO_PER_COMPOSITE: usize = 16;

/// Shared counter for a limited resource. Clones count together.
#[derive(Debug, Clone)]
pub struct Slots {
    taken: Arc<AtomicUsize>,
    count: usize,
}

/// Taken slot, which is free again when this is dropped.
#[derive(Debug)]
pub struct Slot(Arc<AtomicUsize>);

impl Slots {
    pub fn new(count: usize) -> Self {
        Self {
            taken: Arc::default(),
            count,
        }
    }

    /// Acquires a slot; `None` if all are taken.
    pub fn take(&self) -> Option<Slot> {
        // Relaxed suffices: the counter guards no other memory.
        let next = |taken: usize| (taken < self.count).then_some(taken + 1);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()?;
        Some(Slot(Arc::clone(&self.taken)))
    }

    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Acquires one slot from each counter, or none at all.
    pub fn take_all(each: &[&Self]) -> Option<Vec<Slot>> {
        // If one has no free slot, collecting into `None` drops the others.
        each.iter().map(|slots| slots.take()).collect()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Slots for decoders: audio in this process, video as child processes.
#[derive(Debug, Clone)]
pub struct DecoderSlots {
    pub audio: Slots,
    pub video: Slots,
}

impl DecoderSlots {
    /// Returns the slots that all egresses share.
    pub fn for_server() -> Self {
        Self {
            audio: Slots::new(1_000),
            video: Slots::new(100),
        }
    }

    /// Returns one egress's slots. The largest grid has 36 videos, and a video whose tile changes
    /// has two decoders for a moment.
    pub fn for_egress() -> Self {
        Self {
            audio: Slots::new(200),
            video: Slots::new(40),
        }
    }
}

/// Permits for transcoding ingress streams. A project holds at most half.
#[derive(Debug)]
pub struct TranscoderPermits {
    audio: ProjectPermits,
    video: ProjectPermits,
}

impl TranscoderPermits {
    /// Creates as many permits for video as compositions may run, and 16 times as many for audio.
    pub fn new(composites: usize) -> Self {
        let permits = |total: usize| {
            ProjectPermits::new(PermitLimits {
                total,
                // Rounded up: with a single permit, a project must be able to get it.
                per_project: total.div_ceil(2),
            })
        };
        Self {
            audio: permits(composites.saturating_mul(AUDIO_PER_COMPOSITE)),
            video: permits(composites),
        }
    }

    /// Acquires a project's permit for an audio transcoder; `None` if none is free.
    pub fn take_audio(&self, project: &ProjectId) -> Option<ProjectPermit> {
        self.audio.take_free(project)
    }

    /// Acquires a project's permit for a video transcoder; `None` if none is free.
    pub fn take_video(&self, project: &ProjectId) -> Option<ProjectPermit> {
        self.video.take_free(project)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_slot_is_free_again_and_several_are_taken_all_or_none() {
        let (few, many) = (Slots::new(1), Slots::new(2));
        let both = Slots::take_all(&[&few, &many]).unwrap();
        assert!(few.take().is_none() && Slots::take_all(&[&many, &few]).is_none());
        let _rest = many.take().unwrap();
        assert!(many.take().is_none());
        drop(both);
        assert!(few.take().is_some() && many.take().is_some());
    }

    /// Proves S-80.
    #[test]
    fn a_project_has_at_most_half_of_the_transcoder_permits() {
        let transcoders = TranscoderPermits::new(4);
        let projects = ["prj_0123456789ab", "prj_0123456789ac", "prj_0123456789ad"]
            .map(|id| id.parse::<ProjectId>().unwrap());
        let take = |project: &ProjectId| {
            std::iter::from_fn(|| transcoders.take_video(project)).collect::<Vec<_>>()
        };
        let [first, second, third] = projects.each_ref().map(take);
        assert_eq!((first.len(), second.len(), third.len()), (2, 2, 0));
        assert!(
            transcoders.take_audio(&projects[2]).is_some(),
            "sounds have places of their own"
        );
        drop((first, second));
        assert_eq!(take(&projects[2]).len(), 2);
        let one = TranscoderPermits::new(1);
        assert!(one.take_video(&projects[0]).is_some());
    }
}
