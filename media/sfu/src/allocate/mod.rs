//! Layer allocation: which layer of each video a receiver gets, and which layers publishers have to send for it.
//!
//! A publisher sends a video in up to three layers, as simulcast or as SVC. A media worker never transcodes, so the
//! layer is the only thing it can choose when a receiver's network is slower than its wishes. It chooses for each
//! receiver separately: a participant on a train must not degrade the call for the others.
//!
//! # Dramatis personae
//!
//! Everything in this module is a value without I/O. `worker/allocate.rs` collects the inputs and applies the results;
//! `worker/demand.rs` sends the requests to publishers.
//!
//! - [`Estimation`], one per connection, turns str0m's bandwidth estimates into a capacity, and decides which bitrates
//!   str0m probes for.
//! - [`allocate`] divides a budget among a receiver's videos. A video is a [`VideoDemand`]: the bitrates of its live
//!   steps, worst first, up to the best wanted one.
//! - [`Overload`], one per worker, reduces groups of participants to the lowest layer while the thread is too busy.
//! - [`KeyFrameRequests`], one per layer, and [`QualityUse`], one per video, decide when a publisher is asked for a key
//!   frame, and which layers it may stop encoding.
//!
//! # Inputs
//!
//! - *Wishes*: the client's track settings (size or quality, priority, disabled), and the subscriptions.
//! - *Permissions*: the role's `subscribe_max_kbps`.
//! - *Supply*: the layers that sent within the last second, with measured bitrates. Without a measurement, the
//!   announced bitrate counts, then a usual one.
//! - *Network*: the capacity. Clients without bandwidth feedback have no limit.
//!
//! # An allocation
//!
//! It runs whenever an input changes, and once a second for each participant, because bitrates change all the time.
//!
//! 1. Each wanted video becomes a list of steps: the temporal layers of its lowest live layer, then one spatial layer
//!    after another. Audio is not negotiable: its bitrate is subtracted from the budget first.
//! 2. Each video gets its lowest step, in the order of priority (screen shares first), then each its second, and so on
//!    while they fit. A new step must fit with its peaks and a margin; a step that is already sent, only with its mean.
//! 3. `next_bitrate`, the budget of the first step that did not fit, is the bitrate that str0m probes for with padding.
//!    It never exceeds the role's limit.
//! 4. The chosen step becomes the subscription's target. `Subscription::accept` in `worker/subscription.rs` switches to
//!    it at a key frame, which is requested; until then, the old layer continues.
//! 5. Videos without a step are reported as paused, if the client supports that. Otherwise they keep their lowest
//!    layer.
//! 6. The best wanted layer of any receiver is reported to the publisher, which stops encoding the layers above.
//!
//! # Failures
//!
//! - *The network gets slower.* Estimates fall below what is sent, and the next allocation fits into them.
//! - *An estimate falls although everything fits.* It only proves that the network carries the current bitrate, so the
//!   previous capacity stays valid for half a minute.
//! - *An estimate stays low after congestion.* The estimation is reset, with growing intervals, so that it probes
//!   again.
//! - *A layer stops*, because the publisher is short of bandwidth or CPU. It is no longer live after a second, and its
//!   receivers get the next lower live layer.
//! - *A key frame request is lost.* It is repeated until the key frame arrives.
//! - *The thread is too busy.* Group after group of participants is reduced, so that all get some video in time.
//!
//! # Why not simpler
//!
//! One layer for all receivers would need no allocation, but the slowest network would decide it. Trusting every
//! estimate makes layers flap: estimates fall with a single late packet, and recover only as far as packets are sent.
//! An optimal division (a knapsack) would give a large screen share nothing while small videos fit; one step for each
//! video per round is predictable.

mod estimation;
mod overload;
mod requests;

pub use estimation::{EstimateUse, Estimation, INITIAL_BITRATE};
pub use overload::{GROUPS, Overload};
pub use requests::{KeyFrameRequests, QualityUse};

/// A layer's bitrate, in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerRate {
    /// Mean bitrate.
    pub mean: u64,
    /// Highest bitrate within the last seconds.
    pub peak: u64,
}

/// A receiver's demand for a video.
#[derive(Debug, Clone)]
pub struct VideoDemand {
    /// Layers, worst first, up to the best wanted one; `None` for a layer that is not live. Empty if no layer is
    /// wanted.
    pub layers: Vec<Option<LayerRate>>,
    /// Layer that is currently sent.
    pub current: Option<usize>,
    /// Position among the videos when they get another layer, lowest first.
    pub priority: u32,
}

/// Outcome of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Layer to send per video; `None` to pause it.
    pub layers: Vec<Option<usize>>,
    /// Bitrate of these layers, in bits per second.
    pub bitrate: u64,
    /// Budget that would be enough for one more step, in bits per second; 0 if every video has its best layer.
    pub next_bitrate: u64,
    /// Budget that would be enough for all best layers, in bits per second.
    pub best_bitrate: u64,
}

/// Margin above a layer's mean bitrate that must be free before it is added, in percent. It keeps an allocation from
/// alternating between two layers.
const MARGIN_PERCENT: u64 = 15;

/// Maximum free bandwidth that a new layer needs, in multiples of its mean bitrate. A screen share peaks far above that
/// whenever its whole content changes; such peaks may arrive late.
const MOST_OF_MEAN: u64 = 2;

impl LayerRate {
    /// Returns the bandwidth that must be free before the layer is added, so that its peaks fit as well.
    fn needed_anew(self) -> u64 {
        // A steady video has peaks near its mean, so the margin is the minimum.
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

    /// Returns the lowest live layer above `layer`, or the lowest live layer for `None`.
    fn above(&self, layer: Option<usize>) -> Option<usize> {
        let first = layer.map_or(0, |layer| layer + 1);
        (first..self.layers.len()).find(|layer| self.layers[*layer].is_some())
    }

    /// Returns the bandwidth that a layer needs, which is less if it is already sent.
    fn needed(&self, layer: usize) -> u64 {
        let is_new = self.current.is_none_or(|current| layer > current);
        if is_new {
            self.rate(layer).map_or(0, LayerRate::needed_anew)
        } else {
            self.bitrate(layer)
        }
    }

    /// Returns the bandwidth that is enough for any of the layers.
    fn enough(&self) -> u64 {
        self.layers
            .iter()
            .flatten()
            .map(|rate| rate.needed_anew())
            .max()
            .unwrap_or_default()
    }
}

/// Chooses the layers of a receiver's videos within `budget` bits per second; `None` for no limit.
///
/// Each video gets its lowest layer first, in the order of priority, and then one step after another while they fit.
/// Unless `may_pause`, lowest layers are sent even if they do not fit.
pub fn allocate(videos: &[VideoDemand], budget: Option<u64>, may_pause: bool) -> Allocation {
    let mut order: Vec<_> = (0..videos.len()).collect();
    order.sort_by_key(|index| videos[*index].priority);
    let mut chosen = Chosen {
        layers: vec![None; videos.len()],
        used: 0,
        next: None,
        budget,
    };
    // Only the lowest layers may exceed the budget: a client that does not know paused videos would show a frozen one.
    for index in &order {
        chosen.step(videos, *index, !may_pause);
    }
    // Repeat rounds until no video moves: every video's second layer comes before any video's third.
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
    /// Bandwidth that the first rejected step needs in addition to `used`.
    next: Option<u64>,
    budget: Option<u64>,
}

impl Chosen {
    /// Moves a video one layer up, if that fits or `must` be. Returns whether it did.
    fn step(&mut self, videos: &[VideoDemand], index: usize, must: bool) -> bool {
        let video = &videos[index];
        let Some(layer) = video.above(self.layers[index]) else {
            return false;
        };
        let before = self.layers[index].map_or(0, |layer| video.bitrate(layer));
        // A step replaces the layer below, whose bandwidth becomes free.
        let needed = video.needed(layer).saturating_sub(before);
        let fits = self
            .budget
            .is_none_or(|budget| self.used + needed <= budget);
        if !fits && !must {
            // Later steps do not count: with the highest priority, this step is the first to be made once there is
            // more.
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
        // 100 for each, and for the first one 345 (300 with its margin) instead of 100: 445.
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
            // The peak must fit: 500.
            [499, 500].map(|budget| chosen(500, budget, None)),
            [Some(0), Some(1)]
        );
        assert_eq!(
            // At most twice the mean: 600.
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
            // 900 with its margin of 15 %.
            (1035, 1035)
        );
    }

    fn rate() -> impl Strategy<Value = LayerRate> {
        (1..3_000_u64, 1..9_000_u64).prop_map(|(mean, peak)| LayerRate { mean, peak })
    }

    /// Layers with increasing mean bitrates.
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
