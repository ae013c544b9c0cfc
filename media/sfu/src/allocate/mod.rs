//! Which layers fit into the bandwidth of a receiver, and what is requested of publishers.
//!
//! Everything here is a value without I/O; `worker/allocate.rs` and `worker/demand.rs` apply it. In reading order:
//!
//! 1. [`Estimation`]: what a receiver's network carries, from str0m's estimates.
//! 2. [`allocate`], below: the layer of each video that fits.
//! 3. [`Overload`]: who gets the lowest layers because the worker's thread is busy.
//! 4. [`KeyFrameRequests`] and [`QualityUse`]: what publishers are asked for, and how often.

mod estimation;
mod overload;
mod requests;

pub use estimation::{Estimation, INITIAL_BITRATE, Observation};
pub use overload::{GROUPS, Overload};
pub use requests::{KeyFrameRequests, QualityUse};

/// What a layer takes, in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerRate {
    /// The mean bitrate.
    pub mean: u64,
    /// The highest bitrate of the last seconds.
    pub peak: u64,
}

/// A video that a receiver wants.
#[derive(Debug, Clone)]
pub struct VideoDemand {
    /// The layers, worst first, up to the best one that is wanted; `None` for one that is not live. Empty if nothing is wanted.
    pub layers: Vec<Option<LayerRate>>,
    /// The layer that is sent now.
    pub current: Option<usize>,
    /// The order in which videos get more: the lowest first.
    pub priority: u32,
}

/// What a receiver gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// For each video, the layer to send.
    pub layers: Vec<Option<usize>>,
    /// The bitrate of these layers, in bits per second.
    pub bitrate: u64,
    /// The budget with which the next step up would be made, in bits per second; 0 if nothing is left out.
    pub next_bitrate: u64,
    /// The budget with which all videos would get their best layer, in bits per second.
    pub best_bitrate: u64,
}

/// How much more than its bitrate must be free, in percent, before a layer is chosen that is not sent already. It keeps
/// choices from changing to and fro.
const MARGIN_PERCENT: u64 = 15;

/// How many times its mean bitrate must be free at most: the peaks of a shared screen, when all of it changes, may be late.
const MOST_OF_MEAN: u64 = 2;

impl LayerRate {
    /// Returns the bitrate that must be free before the layer is added to what is sent: its peaks have to fit, too.
    fn needed_anew(self) -> u64 {
        let least = self.mean + self.mean * MARGIN_PERCENT / 100;
        self.peak.clamp(least, self.mean * MOST_OF_MEAN)
    }
}

impl VideoDemand {
    fn rate(&self, layer: usize) -> Option<LayerRate> {
        self.layers.get(layer).copied().flatten()
    }

    fn bitrate(&self, layer: usize) -> u64 {
        self.rate(layer).map_or(0, |rate| rate.mean)
    }

    /// Returns the first live layer above one, or the first of all.
    fn above(&self, layer: Option<usize>) -> Option<usize> {
        let first = layer.map_or(0, |layer| layer + 1);
        (first..self.layers.len()).find(|layer| self.layers[*layer].is_some())
    }

    /// Returns the bitrate that must be free for a layer, which may be sent already.
    fn needed(&self, layer: usize) -> u64 {
        let is_new = self.current.is_none_or(|current| layer > current);
        if is_new {
            self.rate(layer).map_or(0, LayerRate::needed_anew)
        } else {
            self.bitrate(layer)
        }
    }

    /// Returns the bitrate that is enough for any layer.
    fn enough(&self) -> u64 {
        self.layers
            .iter()
            .flatten()
            .map(|rate| rate.needed_anew())
            .max()
            .unwrap_or_default()
    }
}

/// Chooses the layers of videos. Each gets its lowest layer first, in the order of priority, and then one step after
/// another while they fit into `budget` bits per second; `None` is no limit. Without `may_pause`, the lowest layers are
/// sent even if they do not fit.
pub fn allocate(videos: &[VideoDemand], budget: Option<u64>, may_pause: bool) -> Allocation {
    let mut order: Vec<_> = (0..videos.len()).collect();
    order.sort_by_key(|index| videos[*index].priority);
    let mut chosen = Chosen {
        layers: vec![None; videos.len()],
        used: 0,
        next: None,
        budget,
    };
    for index in &order {
        chosen.step(videos, *index, !may_pause);
    }
    // Everyone's second layer comes before anyone's third.
    while order
        .iter()
        .filter(|index| chosen.step(videos, **index, false))
        .count()
        > 0
    {}
    Allocation {
        bitrate: chosen.used,
        next_bitrate: chosen.next.map_or(0, |next| chosen.used + next),
        best_bitrate: videos.iter().map(VideoDemand::enough).sum(),
        layers: chosen.layers,
    }
}

struct Chosen {
    layers: Vec<Option<usize>>,
    used: u64,
    /// What must be free for the first step that did not fit, besides what is used.
    next: Option<u64>,
    budget: Option<u64>,
}

impl Chosen {
    /// Moves a video one layer up, if it fits or must be. Returns whether it did.
    fn step(&mut self, videos: &[VideoDemand], index: usize, must: bool) -> bool {
        let video = &videos[index];
        let Some(layer) = video.above(self.layers[index]) else {
            return false;
        };
        let before = self.layers[index].map_or(0, |layer| video.bitrate(layer));
        let needed = video.needed(layer).saturating_sub(before);
        let fits = self
            .budget
            .is_none_or(|budget| self.used + needed <= budget);
        if !fits && !must {
            self.next.get_or_insert(needed);
            return false;
        }
        self.layers[index] = Some(layer);
        self.used = (self.used + video.bitrate(layer)).saturating_sub(before);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn steady(bitrate: u64) -> LayerRate {
        LayerRate {
            mean: bitrate,
            peak: bitrate,
        }
    }

    fn video(layers: &[u64], priority: u32) -> VideoDemand {
        VideoDemand {
            layers: layers
                .iter()
                .map(|bitrate| Some(steady(*bitrate)))
                .collect(),
            current: None,
            priority,
        }
    }

    #[test]
    fn everyone_gets_the_lowest_layer_before_anyone_gets_more() {
        let videos = [video(&[100, 300, 900], 1), video(&[100, 300, 900], 0)];
        let layers = |budget| allocate(&videos, Some(budget), false).layers;
        assert_eq!(layers(0), [Some(0), Some(0)]);
        assert_eq!(layers(460), [Some(0), Some(1)]);
        assert_eq!(layers(700), [Some(1), Some(1)]);
        assert_eq!(layers(1400), [Some(1), Some(2)]);
        assert_eq!(allocate(&videos, None, false).layers, [Some(2), Some(2)]);
    }

    #[test]
    fn videos_are_paused_only_if_they_may_be() {
        let videos = [video(&[100], 0), video(&[100], 1)];
        assert_eq!(allocate(&videos, Some(150), true).layers, [Some(0), None]);
        assert_eq!(
            allocate(&videos, Some(150), false).layers,
            [Some(0), Some(0)]
        );
    }

    #[test]
    fn a_layer_that_is_sent_needs_less_room_than_a_new_one() {
        let sent = VideoDemand {
            current: Some(1),
            ..video(&[100, 300], 0)
        };
        assert_eq!(allocate(&[sent], Some(310), false).layers, [Some(1)]);
        assert_eq!(
            allocate(&[video(&[100, 300], 0)], Some(310), false).layers,
            [Some(0)]
        );
    }

    #[test]
    fn the_peaks_of_a_new_layer_must_fit_up_to_twice_its_mean() {
        let chosen = |peak, budget, current| {
            let layers = vec![Some(steady(100)), Some(LayerRate { mean: 300, peak })];
            allocate(
                &[VideoDemand {
                    layers,
                    current,
                    priority: 0,
                }],
                Some(budget),
                false,
            )
            .layers[0]
        };
        assert_eq!(
            [499, 500].map(|budget| chosen(500, budget, None)),
            [Some(0), Some(1)]
        );
        assert_eq!(
            [599, 600].map(|budget| chosen(5_000, budget, None)),
            [Some(0), Some(1)]
        );
        assert_eq!(chosen(5_000, 300, Some(1)), Some(1), "it is sent already");
    }

    #[test]
    fn layers_that_are_not_live_are_skipped() {
        let gap = VideoDemand {
            layers: vec![None, Some(steady(300)), None],
            current: None,
            priority: 0,
        };
        assert_eq!(allocate(&[gap], Some(0), false).layers, [Some(1)]);
    }

    #[test]
    fn what_is_missing_is_asked_of_the_network() {
        let allocation = allocate(&[video(&[100, 300, 900], 0)], Some(400), false);
        assert_eq!(
            (allocation.next_bitrate, allocation.best_bitrate),
            (1035, 1035)
        );
    }

    fn rate() -> impl Strategy<Value = LayerRate> {
        (1..3_000_u64, 1..9_000_u64).prop_map(|(mean, peak)| LayerRate { mean, peak })
    }

    /// Layers, each of which takes more than those before it.
    fn layers() -> impl Strategy<Value = Vec<Option<LayerRate>>> {
        prop::collection::vec((rate(), any::<bool>()), 0..4).prop_map(|steps| {
            let mut mean = 0;
            let layer = |(step, is_live): (LayerRate, bool)| {
                mean += step.mean;
                is_live.then_some(LayerRate {
                    mean,
                    peak: step.peak,
                })
            };
            steps.into_iter().map(layer).collect()
        })
    }

    proptest! {
        #[test]
        fn an_allocation_fits_unless_only_lowest_layers_are_sent(
            rates in prop::collection::vec(prop::collection::vec(prop::option::of(rate()), 0..4), 0..6),
            budget in 0..10_000_u64, may_pause in any::<bool>(),
        ) {
            let videos: Vec<_> =
                rates.into_iter().map(|layers| VideoDemand { layers, current: None, priority: 0 }).collect();
            let allocation = allocate(&videos, Some(budget), may_pause);
            let used: u64 = videos.iter().zip(&allocation.layers).filter_map(|(video, layer)| Some(video.bitrate((*layer)?))).sum();
            let are_lowest = videos.iter().zip(&allocation.layers).all(|(video, layer)| *layer == video.above(None));
            prop_assert!(used <= budget || (!may_pause && are_lowest));
        }

        #[test]
        fn what_the_next_step_needs_is_enough_for_it(
            videos in prop::collection::vec((layers(), prop::option::of(0..3_usize)), 0..6),
            budget in 0..30_000_u64, may_pause in any::<bool>(),
        ) {
            let videos: Vec<_> =
                videos.into_iter().map(|(layers, current)| VideoDemand { layers, current, priority: 0 }).collect();
            let now = allocate(&videos, Some(budget), may_pause);
            let then = allocate(&videos, Some(now.next_bitrate), may_pause);
            let is_better = then.layers.iter().zip(&now.layers).any(|(then, now)| then > now);
            let is_complete = now.layers == allocate(&videos, None, may_pause).layers;
            prop_assert_eq!((is_complete, is_better), (now.next_bitrate == 0, now.next_bitrate > 0));
            prop_assert!(now.next_bitrate <= now.best_bitrate);
        }
    }
}
