//! Periodic work.

use std::ops::Range;
use std::time::{Duration, Instant};

use slotmap::Key;

use super::Worker;
use super::negotiation::ANSWER_TIMEOUT;
use super::reports::Reports;
use super::roster::Silence;
use crate::allocate::GROUPS;
use crate::event::{FailureReason, PeerEvent};
use crate::measure::WINDOW_MILLISECONDS;
use crate::transport::{PeerKey, Transport};

/// Times at which a worker's periodic work is due.
#[derive(Debug)]
pub struct Ticks {
    /// Key frame requests, and one group of participants.
    fast: Instant,
    /// Group that is checked next.
    group: u64,
    /// Active speakers.
    speech: Instant,
    /// Bitrates and losses.
    second: Instant,
    /// Connection qualities.
    quality: Instant,
}

const SPEECH: Duration = Duration::from_millis(WINDOW_MILLISECONDS as u64);
const SECOND: Duration = Duration::from_secs(1);
/// Interval between groups. Each participant is checked once a second: silence, overdue answers, waiting messages,
/// repeated offer requests, layers, muted tracks. All at once, this would delay packets by milliseconds.
const FAST: Duration = Duration::from_millis(1000 / GROUPS);
const QUALITY: Duration = Duration::from_secs(5);

/// Silence after which a participant counts as interrupted.
const INTERRUPTED: Duration = Duration::from_secs(10);

/// Silence after which a participant's media counts as failed.
const FAILED: Duration = Duration::from_secs(15);

impl Ticks {
    /// Starts all timers at `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            fast: now + FAST,
            group: 0,
            speech: now + SPEECH,
            second: now + SECOND,
            quality: now + QUALITY,
        }
    }

    /// Returns the time at which something is due next.
    pub fn next(&self) -> Instant {
        self.fast
            .min(self.speech)
            .min(self.second)
            .min(self.quality)
    }
}

impl Worker {
    /// Does the work that is due. A late tick is not made up for: its successor is a full interval later.
    pub(super) fn run_ticks(&mut self) {
        if self.now >= self.ticks.fast {
            // From now, not from when it was due: an overloaded worker must not run ticks in a burst.
            self.ticks.fast = self.now + FAST;
            for track in self.tracks.keys() {
                // Repeats requests that were lost or too early.
                self.request_key_frames(track);
            }
            self.check_group();
            self.relieve();
        }
        if self.now >= self.ticks.speech {
            self.ticks.speech = self.now + SPEECH;
            self.reports().report_speakers();
        }
        if self.now >= self.ticks.second {
            self.ticks.second = self.now + SECOND;
            self.run_second();
        }
        if self.now >= self.ticks.quality {
            self.ticks.quality = self.now + QUALITY;
            self.reports().report_qualities();
        }
    }

    fn run_second(&mut self) {
        // First, since the rest reads the bitrates that this completes.
        self.tracks.roll(self.now);
        self.reports().report_rates();
        self.reports().measure_losses();
        // A worker that has ended sends no `CaughtUp` to the senders that wait for its receivers.
        self.connections.record_catch_up();
        for track in self.tracks.keys() {
            self.report_quality_use(track);
            self.report_missing_codecs(track);
            self.choose_recorded_layers(track);
        }
    }

    fn reports(&mut self) -> Reports<'_> {
        Reports {
            now: self.now,
            roster: &mut self.roster,
            tracks: &mut self.tracks,
            connections: &self.connections,
            outputs: &mut self.outputs,
        }
    }

    /// Checks the next group of participants.
    fn check_group(&mut self) {
        let group = self.ticks.group;
        self.ticks.group = (group + 1) % GROUPS;
        for peer in self.peers_in(group..group + 1) {
            self.check_answer(peer);
            self.check_silence(peer);
            self.judge_backlog(peer);
            self.request_offer(peer);
            self.allocate(peer);
            self.introduce_muted(peer);
            self.report_due_quality(peer);
        }
    }

    /// Reduces the output if the thread is overloaded, and undoes this when the load falls.
    fn relieve(&mut self) {
        let before = self.overload.reduced();
        if !self.overload.decide(self.now) {
            return;
        }
        let after = self.overload.reduced();
        // Logged when it starts and ends, not for each group.
        if before == 0 {
            log::warn!(percent = self.reduced_percent(); "a media worker is overloaded: some participants get only the lowest layers");
        } else if after == 0 {
            log::info!(
                "a media worker is no longer overloaded: all participants get their layers again"
            );
        }
        // Only the groups in between change.
        for peer in self.peers_in(before.min(after)..before.max(after)) {
            self.allocate(peer);
        }
    }

    /// Returns the participants in these groups.
    fn peers_in(&self, groups: Range<u64>) -> Vec<PeerKey> {
        self.roster
            .keys()
            .filter(|key| groups.contains(&group_of(*key)))
            .collect()
    }

    /// Returns whether a participant gets the lowest layers because the thread is overloaded.
    pub(super) fn is_reduced(&self, peer: PeerKey) -> bool {
        group_of(peer) < self.overload.reduced()
    }

    fn check_answer(&mut self, key: PeerKey) {
        let outstanding = self
            .roster
            .get(key)
            .and_then(|peer| peer.negotiation.outstanding.as_ref());
        if outstanding.is_some_and(|offer| self.now >= offer.at + ANSWER_TIMEOUT) {
            self.fail_peer(key, FailureReason::AnswerTimeout);
        }
    }

    /// Compares the arrival of the last packet with the limits. Even an idle client sends consent
    /// checks every few seconds (RFC 7675).
    fn check_silence(&mut self, key: PeerKey) {
        let Some(peer) = self
            .roster
            .get(key)
            .filter(|peer| peer.is_active && !peer.has_failed)
        else {
            return;
        };
        let connected = peer
            .transports()
            .filter_map(|key| self.connections.get(key))
            .filter(|transport| transport.is_connected());
        // With two connections, the quieter one counts: its media has stopped, even if the other one works.
        let Some(oldest) = connected.filter_map(Transport::last_packet).min() else {
            return;
        };
        let silence = match self.now.saturating_duration_since(oldest) {
            silent if silent >= FAILED => Silence::Failed,
            silent if silent >= INTERRUPTED => Silence::Interrupted,
            _ => Silence::None,
        };
        // A participant is not removed here: its connections stay for a resume, and recover with the next packet.
        self.change_silence(key, silence);
    }

    fn change_silence(&mut self, key: PeerKey, silence: Silence) {
        let Some(peer) = self
            .roster
            .get_mut(key)
            .filter(|peer| peer.silence != silence)
        else {
            return;
        };
        peer.silence = silence;
        match silence {
            Silence::None => peer.meter.recover(),
            Silence::Interrupted => peer.meter.count_interruption(),
            Silence::Failed => peer.meter.record_failure(FailureReason::Silent),
        }
        // While it is silent, no media is sent, so that nothing piles up for a client that is gone.
        for transport in peer.transports() {
            if let Some(transport) = self.connections.get_mut(transport) {
                transport.set_silent(silence != Silence::None);
            }
        }
        let event = match silence {
            Silence::None => PeerEvent::Recovered,
            Silence::Interrupted => PeerEvent::Interrupted,
            Silence::Failed => PeerEvent::Failed(FailureReason::Silent),
        };
        self.emit(key, event);
    }
}

/// Returns a participant's group.
fn group_of(peer: PeerKey) -> u64 {
    peer.data().as_ffi() % GROUPS
}
