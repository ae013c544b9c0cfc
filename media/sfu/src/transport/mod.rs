//! One peer connection: str0m's state machine, and the worker's state for it.

mod channels;
mod messages;
mod settings;
mod streams;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use conclave_model::address::AddressFilter;
use slotmap::new_key_type;
use str0m::change::{SdpAnswer, SdpApi, SdpOffer, SdpPendingOffer};
use str0m::ice::IceCreds;
use str0m::media::Mid;
use str0m::net::Receive;
use str0m::rtp::Ssrc;
use str0m::stats::{MediaEgressStats, MediaIngressStats, PeerStats};
use str0m::{Input, Output, Rtc, RtcError};

use crate::allocate::Estimation;
use crate::codec::Codec;
use crate::data::Backlog;
use crate::dropped::{DropReason, Drops};
use crate::measure::{LinkMeter, LinkQuality};
use crate::sdp;
pub use channels::ChannelUse;
use channels::Channels;
pub use messages::{AwaitedReceiver, BufferedPacket, BufferedPackets};
pub use settings::{TransportSettings, dependency_extension};

new_key_type! {
    /// A worker's transport.
    pub struct TransportKey;
    /// A worker's participant.
    pub struct PeerKey;
    /// A worker's published track.
    pub struct TrackKey;
    /// A worker's room.
    pub struct RoomKey;
}

/// Origin of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source {
    /// Whether it arrived through a TCP connection.
    pub is_tcp: bool,
    /// Client's address.
    pub address: SocketAddr,
}

/// Purpose of a transport among a participant's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportRole {
    /// For publishing; the client makes the offers.
    Publisher,
    /// For subscribing; the server makes the offers.
    Subscriber,
    /// For both directions.
    Single,
}

/// Reason why a transport cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The state machine rejected its input.
    #[error("the connection failed")]
    Rtc(#[from] RtcError),
    /// The state machine panicked. Only this connection is affected.
    #[error("the connection panicked")]
    Panicked,
    /// The session description cannot be parsed.
    #[error("the session description cannot be parsed")]
    Sdp,
}

/// Layer of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerKey {
    /// Track that arrives on the media section.
    pub track: TrackKey,
    /// Index of the layer.
    pub layer: usize,
}

/// One peer connection.
pub struct Transport {
    rtc: Rtc,
    /// Outputs of earlier changes that [`Transport::poll`] has not returned yet.
    outputs: VecDeque<Result<Output, TransportError>>,
    /// Addresses that may be contacted before the client has sent from them. `None` without a full ICE agent: an
    /// ICE-lite agent only responds.
    contactable: Option<AddressFilter>,
    /// Addresses that were contacted.
    contacted: Vec<IpAddr>,
    /// Participant that the connection belongs to.
    peer: PeerKey,
    /// The connection's purpose.
    role: TransportRole,
    /// Arrival of the client's last packet.
    last_packet: Option<Instant>,
    /// Whether ICE and DTLS are established.
    is_connected: bool,
    /// Whether sending is suspended because no packet has arrived for long.
    is_silent: bool,
    /// Whether it must be driven because of a change.
    is_touched: bool,
    /// Time at which it must be driven next.
    due: Option<Instant>,
    /// Time at which its timer fires: `due` or earlier.
    timeout: Option<Instant>,
    /// Layers of the SSRCs seen; `None` for an SSRC without a track.
    layers: HashMap<Ssrc, Option<LayerKey>>,
    /// SSRCs of retransmissions in the client's last offer, by the SSRC that they repeat.
    retransmissions: HashMap<Ssrc, Ssrc>,
    /// Tracks that arrive on it, by media section.
    published: HashMap<Mid, TrackKey>,
    /// Data channels.
    channels: Channels,
    /// Reliable messages queued for the client.
    backlog: Backlog,
    /// Receivers that must catch up before further messages from this client are read.
    awaited: Vec<AwaitedReceiver>,
    /// Buffered packets with these messages.
    buffered: BufferedPackets,
    /// Last statistics.
    stats: Option<PeerStats>,
    /// Bandwidth estimation for the client.
    estimation: Estimation,
    /// Packet loss and delay.
    quality: LinkQuality,
    /// Measurements for the next sample of the session's quality.
    meter: LinkMeter,
    /// Packets from and for the client that were not forwarded.
    dropped: Drops,
    /// Number of media sections in its description.
    media_sections: usize,
}

/// Action when a connection's timer fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerAction {
    /// None: the timer was replaced by an earlier one.
    Replaced,
    /// Arm the timer again, because the connection is due later.
    Early,
    /// Drive the connection.
    Due,
}

/// Limit for the addresses of a client, and for the candidates of a description, that a full ICE agent contacts before
/// the client has sent from them. A client has a few; without a limit, a description could make the server send to any
/// number of addresses.
const CONTACTED: usize = 8;

impl Transport {
    /// Creates a transport that waits for the client, with these local ICE credentials.
    pub fn new(
        settings: &TransportSettings,
        peer: PeerKey,
        role: TransportRole,
        credentials: IceCreds,
        full_ice: bool,
        now: Instant,
    ) -> Self {
        let mut rtc = settings
            .config(full_ice)
            .set_local_ice_credentials(credentials)
            .build(now);
        for candidate in settings.candidates() {
            rtc.add_local_candidate(candidate.clone());
        }
        Self {
            rtc,
            outputs: VecDeque::new(),
            contactable: full_ice.then(|| settings.contactable().clone()),
            contacted: Vec::new(),
            peer,
            role,
            last_packet: None,
            is_connected: false,
            is_silent: false,
            is_touched: false,
            due: None,
            timeout: None,
            layers: HashMap::new(),
            retransmissions: HashMap::new(),
            published: HashMap::new(),
            channels: Channels::default(),
            backlog: Backlog::default(),
            awaited: Vec::new(),
            buffered: BufferedPackets::default(),
            stats: None,
            estimation: Estimation::default(),
            quality: LinkQuality::default(),
            meter: LinkMeter::default(),
            dropped: Drops::default(),
            media_sections: 0,
        }
    }

    /// Returns the participant that the connection belongs to.
    pub const fn peer(&self) -> PeerKey {
        self.peer
    }

    /// Returns the connection's purpose.
    pub const fn role(&self) -> TransportRole {
        self.role
    }

    /// Returns the state machine for reading. Only methods of this type change it.
    pub fn rtc(&self) -> &Rtc {
        &self.rtc
    }

    /// Calls the state machine. A panic in it becomes an error of this connection: it parses untrusted packets, and the
    /// worker's other connections must survive it.
    fn guarded<T>(
        &mut self,
        call: impl FnOnce(&mut Rtc) -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        // A panicked state machine is not used again, because the error closes the connection.
        catch_unwind(AssertUnwindSafe(|| call(&mut self.rtc)))
            .unwrap_or(Err(TransportError::Panicked))
    }

    /// Changes the state machine, and keeps all resulting outputs for [`Transport::poll`]: str0m requires that after
    /// each change, before the next one. The worker must touch the connection, so that the outputs are handled.
    ///
    /// Writes of media and messages need no such poll: they only fill a queue, which produces outputs when time passes
    /// ([`Transport::advance`], [`Transport::receive`]).
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Rtc) -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        let changed = self.guarded(change);
        loop {
            match self.guarded(|rtc| Ok(rtc.poll_output()?)) {
                // A timeout ends the outputs. It is not kept: the drive that follows polls again, and gets the current
                // one.
                Ok(Output::Timeout(_)) => return changed,
                Ok(output) => self.outputs.push_back(Ok(output)),
                Err(error) => {
                    self.outputs.push_back(Err(error));
                    return changed;
                }
            }
        }
    }

    /// Handles a packet from the client. All outputs must be polled before the next call.
    pub fn receive(&mut self, packet: Receive<'_>, now: Instant) -> Result<(), TransportError> {
        self.last_packet = Some(now);
        self.guarded(|rtc| Ok(rtc.handle_input(Input::Receive(now, packet))?))
    }

    /// Advances the time. All outputs must be polled before the next call.
    pub fn advance(&mut self, now: Instant) -> Result<(), TransportError> {
        self.guarded(|rtc| Ok(rtc.handle_input(Input::Timeout(now))?))
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Result<Output, TransportError> {
        // Outputs of earlier changes come first, so that str0m's order is kept.
        self.outputs
            .pop_front()
            .unwrap_or_else(|| self.guarded(|rtc| Ok(rtc.poll_output()?)))
    }

    /// Handles an offer and returns the answer. The offer may have restarted ICE: see [`Transport::credentials`].
    pub fn accept_offer(&mut self, sdp: &str) -> Result<String, TransportError> {
        // The offer may move SSRCs to other sections, or announce layers.
        self.layers.clear();
        let sdp = self.without_candidates(sdp);
        self.change(|rtc| {
            let offer = SdpOffer::from_sdp_string(&sdp).map_err(|_| TransportError::Sdp)?;
            Ok(rtc.sdp_api().accept_offer(offer)?.to_sdp_string())
        })
    }

    /// Handles the answer to an offer.
    pub fn accept_answer(
        &mut self,
        pending: SdpPendingOffer,
        sdp: &str,
    ) -> Result<(), TransportError> {
        let sdp = self.without_candidates(sdp);
        self.change(|rtc| {
            let answer = SdpAnswer::from_sdp_string(&sdp).map_err(|_| TransportError::Sdp)?;
            Ok(rtc.sdp_api().accept_answer(pending, answer)?)
        })
    }

    /// Creates an offer with changes; `None` if they change nothing.
    pub fn offer(
        &mut self,
        propose: impl FnOnce(&mut SdpApi<'_>),
    ) -> Option<(SdpOffer, SdpPendingOffer)> {
        // The offer is only pending: str0m applies it with the answer.
        let offered = self.change(|rtc| {
            let mut changes = rtc.sdp_api();
            propose(&mut changes);
            Ok(changes.apply())
        });
        // A panicked connection fails at the next drive as well, which reports it.
        offered.ok().flatten()
    }

    /// Removes unnecessary candidates. Usually the client sends from its addresses first; only a full ICE agent
    /// contacts a few of them before.
    fn without_candidates<'a>(&mut self, sdp: &'a str) -> Cow<'a, str> {
        let (mut left, contacted) = (CONTACTED, &mut self.contacted);
        sdp::filter_candidates(sdp, |address| {
            // Addresses that an earlier description named stay allowed: an ICE restart repeats them.
            let is_known = contacted.contains(&address);
            // Both limits apply: per description against long lists, per connection against many descriptions.
            let is_kept = left > 0
                && (is_known || contacted.len() < CONTACTED)
                && self
                    .contactable
                    .as_ref()
                    .is_some_and(|filter| filter.permits(address));
            if is_kept && !is_known {
                contacted.push(address);
            }
            left -= usize::from(is_kept);
            is_kept
        })
    }

    /// Returns the current ICE credentials, which an offer may have changed by an ICE restart.
    pub fn credentials(&mut self) -> IceCreds {
        self.rtc.direct_api().local_ice_credentials()
    }

    /// Changes the state machine. [`Transport::poll`] returns any error.
    fn change_or_fail(&mut self, change: impl FnOnce(&mut Rtc)) {
        let changed = self.change(|rtc| {
            change(rtc);
            Ok(())
        });
        self.outputs.extend(changed.err().map(Err));
    }

    /// Records that ICE and DTLS are established.
    pub fn connect(&mut self) {
        self.is_connected = true;
    }

    /// Returns whether ICE and DTLS are established.
    pub const fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Suspends sending if no packet has arrived for long, or resumes it.
    pub fn set_silent(&mut self, is_silent: bool) {
        self.is_silent = is_silent;
    }

    /// Returns whether media is sent to the client: it is connected and not silent. Otherwise packets would pile up for
    /// a client that has left.
    pub fn can_send(&self) -> bool {
        self.is_connected && !self.is_silent
    }

    /// Returns when the client's last packet arrived.
    pub const fn last_packet(&self) -> Option<Instant> {
        self.last_packet
    }

    /// Records that the connection was changed and must be driven. Returns whether that is new.
    pub fn touch(&mut self) -> bool {
        !std::mem::replace(&mut self.is_touched, true)
    }

    /// Advances the time of a connection that may be touched. All outputs must be polled before the next call.
    pub fn drive(&mut self, now: Instant) -> Result<(), TransportError> {
        self.is_touched = false;
        self.advance(now)
    }

    /// Sets when the connection must be driven next. Returns the new time for its timer if that is earlier than before.
    pub fn set_due(&mut self, due: Instant) -> Option<Instant> {
        self.due = Some(due);
        self.rearm()
    }

    /// Returns the new time for the timer if that is earlier than before.
    pub fn rearm(&mut self) -> Option<Instant> {
        let due = self.due?;
        // A later deadline keeps the armed timer, which then fires early: str0m moves its deadline with each packet,
        // and a timer per packet would cost more than one early firing.
        if self.timeout.is_some_and(|armed| due >= armed) {
            return None;
        }
        // The previous timer stays in the queue, and is ignored when it fires.
        self.timeout = Some(due);
        Some(due)
    }

    /// Handles a fired timer.
    pub fn fire(&mut self, now: Instant) -> TimerAction {
        // Timers cannot be removed from the queue, so replaced ones fire as well.
        if self.timeout.take_if(|armed| *armed <= now).is_none() {
            return TimerAction::Replaced;
        }
        if self.due.is_some_and(|due| due > now) {
            TimerAction::Early
        } else {
            TimerAction::Due
        }
    }

    /// Stores the connection's newest statistics, for snapshots.
    pub fn record_stats(&mut self, stats: PeerStats) {
        // Loss in either direction degrades the call, so the worse one counts.
        let losses = [stats.egress_loss_fraction, stats.ingress_loss_fraction];
        let loss = losses
            .into_iter()
            .flatten()
            .filter(|loss| loss.is_finite())
            .fold(0.0, f32::max);
        let pair = stats
            .selected_candidate_pair
            .as_ref()
            .and_then(|pair| pair.current_round_trip_time);
        // Without media in one direction there is no RTCP round trip; the ICE checks measure one.
        self.quality.observe(loss, stats.rtt.or(pair));
        self.record_second(&stats);
        self.stats = Some(stats);
    }

    /// Adds the last second to the measurements for the next sample.
    fn record_second(&mut self, stats: &PeerStats) {
        let meter = &mut self.meter;
        if let Some(before) = &self.stats {
            meter.time += stats.timestamp.saturating_duration_since(before.timestamp);
            meter.received_bytes += stats.bytes_rx.saturating_sub(before.bytes_rx);
            meter.sent_bytes += stats.bytes_tx.saturating_sub(before.bytes_tx);
        }
        meter.ingress_loss.add(stats.ingress_loss_fraction);
        meter.egress_loss.add(stats.egress_loss_fraction);
        if let Some(round_trip) = self.quality.round_trip {
            meter.round_trips.0 += round_trip;
            meter.round_trips.1 += 1;
        }
        meter.scores.0 += self.quality.score();
        meter.scores.1 = meter.scores.1.saturating_add(1);
    }

    /// Records the jitter of a stream from the client.
    pub fn record_ingress(&mut self, stats: &MediaIngressStats) {
        let jitter = self.jitter(stats.mid, stats.jitter);
        self.meter.ingress_jitter = self.meter.ingress_jitter.max(jitter);
    }

    /// Records the jitter of a stream to the client.
    pub fn record_egress(&mut self, stats: &MediaEgressStats) {
        // `None` until the client has sent a receiver report.
        let jitter = stats
            .remote
            .as_ref()
            .and_then(|remote| self.jitter(stats.mid, remote.jitter));
        self.meter.egress_jitter = self.meter.egress_jitter.max(jitter);
    }

    /// Converts a jitter from RTP ticks.
    fn jitter(&self, mid: Mid, ticks: u32) -> Option<Duration> {
        let clock_rate = if self.rtc.media(mid)?.kind().is_audio() {
            Codec::Opus.clock_rate()
        } else {
            // All video codecs have the same.
            Codec::Vp8.clock_rate()
        };
        Some(Duration::from_secs(ticks.into()) / clock_rate)
    }

    /// Counts a media packet from the client.
    pub fn count_received(&mut self) {
        self.meter.received_packets = self.meter.received_packets.saturating_add(1);
    }

    /// Returns the measurements since the last call.
    pub fn take_meter(&mut self) -> LinkMeter {
        std::mem::take(&mut self.meter)
    }

    /// Returns the last statistics.
    pub const fn stats(&self) -> Option<&PeerStats> {
        self.stats.as_ref()
    }

    /// Returns packet loss and delay.
    pub const fn quality(&self) -> &LinkQuality {
        &self.quality
    }

    /// Counts a packet from or for the client that is not forwarded.
    pub fn record_drop(&mut self, reason: DropReason) {
        self.dropped.count(reason);
    }

    /// Returns the packets from and for the client that were not forwarded.
    pub const fn dropped(&self) -> Drops {
        self.dropped
    }

    /// Stores the number of media sections of its description, for inspection and for the limit on answers.
    pub fn count_sections(&mut self, description: &str) {
        self.media_sections = description.matches("\nm=").count();
    }

    /// Returns the number of media sections in its description.
    pub const fn media_sections(&self) -> usize {
        self.media_sections
    }

    /// Starts to close the connection; its last packets must still be polled.
    pub fn close(&mut self) {
        // A connection that cannot send its DTLS close_notify is dropped anyway.
        let _ = self.change(|rtc| Ok(rtc.close()?));
    }
}
