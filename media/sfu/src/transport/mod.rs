//! One peer connection: str0m's state machine with what the worker keeps about it.

mod channels;
mod messages;
mod settings;
mod streams;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use conclave_model::address::AddressFilter;
use slotmap::new_key_type;
use str0m::change::{SdpAnswer, SdpApi, SdpOffer, SdpPendingOffer};
use str0m::ice::IceCreds;
use str0m::media::Mid;
use str0m::net::Receive;
use str0m::rtp::Ssrc;
use str0m::stats::PeerStats;
use str0m::{Input, Output, Rtc, RtcError};

use crate::allocate::Estimation;
use crate::data::Backlog;
use crate::dropped::{DropReason, Drops};
use crate::measure::LinkQuality;
use crate::sdp;
pub use channels::ChannelUse;
use channels::Channels;
pub use messages::{Awaited, HeldPacket, HeldPackets};
pub use settings::{TransportSettings, dependency_extension};

new_key_type! {
    /// Names a transport of a worker.
    pub struct TransportKey;
    /// Names a participant of a worker.
    pub struct PeerKey;
    /// Names a published track of a worker.
    pub struct TrackKey;
    /// Names a room of a worker.
    pub struct RoomKey;
}

/// Where a datagram came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source {
    /// Whether it came in a TCP connection.
    pub is_tcp: bool,
    /// The address of the client.
    pub address: SocketAddr,
}

/// Which of a participant's connections a transport is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportRole {
    /// The client's offers, for publishing.
    Publisher,
    /// The server's offers, for subscribing.
    Subscriber,
    /// The only one.
    Single,
}

/// Why a transport cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The state machine refused its input.
    #[error("the connection failed")]
    Rtc(#[from] RtcError),
    /// The state machine panicked. Only this connection is affected.
    #[error("the connection panicked")]
    Panicked,
    /// A session description is not understood.
    #[error("the session description cannot be parsed")]
    Sdp,
}

/// A layer of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerKey {
    /// The track that the source's media section carries.
    pub track: TrackKey,
    /// The index of its layer.
    pub layer: usize,
}

/// One peer connection. Its fields are private: the methods say what is done with it.
pub struct Transport {
    rtc: Rtc,
    /// What the state machine has put out after changes, and [`Transport::poll`] has not returned.
    outputs: VecDeque<Result<Output, TransportError>>,
    /// The addresses that may be contacted before the client has sent from them; `None` without a full ICE agent, which
    /// contacts nobody first.
    contactable: Option<AddressFilter>,
    /// Those that were.
    contacted: Vec<IpAddr>,
    /// The participant whose connection it is.
    peer: PeerKey,
    /// Which connection of the participant it is.
    role: TransportRole,
    /// When a packet of the client arrived last.
    last_packet: Option<Instant>,
    /// Whether ICE and DTLS have come up.
    is_connected: bool,
    /// Whether nothing has arrived for so long that nothing is sent.
    is_silent: bool,
    /// Whether it waits to be driven after a change.
    is_touched: bool,
    /// When it has to be driven next.
    due: Option<Instant>,
    /// When its timer fires, at that time or earlier.
    timeout: Option<Instant>,
    /// The layers of the sources seen, by SSRC; `None` for those that no track claims.
    layers: HashMap<Ssrc, Option<LayerKey>>,
    /// The sources of retransmissions that the client's last offer names, by the source of what they repeat.
    retransmissions: HashMap<Ssrc, Ssrc>,
    /// The tracks that arrive on it, by section.
    published: HashMap<Mid, TrackKey>,
    /// The data channels.
    channels: Channels,
    /// Reliable messages that wait for the client.
    backlog: Backlog,
    /// What has to catch up before further messages of this client are read.
    awaited: Vec<Awaited>,
    /// The packets with these messages.
    held: HeldPackets,
    /// The last statistics.
    stats: Option<PeerStats>,
    /// The estimation of the bandwidth to the client.
    estimation: Estimation,
    /// Loss and delay.
    quality: LinkQuality,
    /// Packets of the client, and packets for it, that were not forwarded.
    dropped: Drops,
    /// The sections of its description.
    media_sections: usize,
}

/// What is to be done when the timer of a connection fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Firing {
    /// Nothing: a timer that was replaced is not the armed one.
    Replaced,
    /// It has to be armed again, since the connection is due later.
    Early,
    /// The connection has to be driven.
    Due,
}

/// How many addresses of a client, and how many candidates of a description, a full ICE agent contacts before the client has sent
/// from them: else one description would let it send to any number. A client has a few.
const CONTACTED: usize = 8;

impl Transport {
    /// Creates a transport that waits for the client, to which these ICE credentials are given.
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
            held: HeldPackets::default(),
            stats: None,
            estimation: Estimation::default(),
            quality: LinkQuality::default(),
            dropped: Drops::default(),
            media_sections: 0,
        }
    }

    /// Returns the participant whose connection it is.
    pub const fn peer(&self) -> PeerKey {
        self.peer
    }

    /// Returns which connection of the participant it is.
    pub const fn role(&self) -> TransportRole {
        self.role
    }

    /// Gives the state machine to read from. What changes it are the methods of this type.
    pub fn rtc(&self) -> &Rtc {
        &self.rtc
    }

    /// Calls the state machine so that a panic in it is an error of this connection.
    fn guarded<T>(
        &mut self,
        call: impl FnOnce(&mut Rtc) -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        catch_unwind(AssertUnwindSafe(|| call(&mut self.rtc)))
            .unwrap_or(Err(TransportError::Panicked))
    }

    /// Changes the state machine and takes all that it puts out, for [`Transport::poll`]: str0m demands that after each change,
    /// before the next one. The worker has to touch the connection, so that the outputs are handled.
    ///
    /// Only writes of media and messages do without: they add to a queue, of which nothing comes out before time passes
    /// ([`Transport::advance`], [`Transport::receive`]). A change after them finds them in their queue, as it would without them.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Rtc) -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        let changed = self.guarded(change);
        loop {
            match self.guarded(|rtc| Ok(rtc.poll_output()?)) {
                Ok(Output::Timeout(_)) => return changed,
                Ok(output) => self.outputs.push_back(Ok(output)),
                Err(error) => {
                    self.outputs.push_back(Err(error));
                    return changed;
                }
            }
        }
    }

    /// Handles a packet of the client. All outputs have to be polled before the next call.
    pub fn receive(&mut self, packet: Receive<'_>, now: Instant) -> Result<(), TransportError> {
        self.last_packet = Some(now);
        self.guarded(|rtc| Ok(rtc.handle_input(Input::Receive(now, packet))?))
    }

    /// Lets time pass. All outputs have to be polled before the next call.
    pub fn advance(&mut self, now: Instant) -> Result<(), TransportError> {
        self.guarded(|rtc| Ok(rtc.handle_input(Input::Timeout(now))?))
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Result<Output, TransportError> {
        self.outputs
            .pop_front()
            .unwrap_or_else(|| self.guarded(|rtc| Ok(rtc.poll_output()?)))
    }

    /// Handles an offer and returns the answer. It may have restarted ICE: see [`Transport::credentials`].
    pub fn accept_offer(&mut self, sdp: &str) -> Result<String, TransportError> {
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

    /// Makes an offer of changes; `None` if they change nothing.
    pub fn offer(
        &mut self,
        propose: impl FnOnce(&mut SdpApi<'_>),
    ) -> Option<(SdpOffer, SdpPendingOffer)> {
        let offered = self.change(|rtc| {
            let mut changes = rtc.sdp_api();
            propose(&mut changes);
            Ok(changes.apply())
        });
        // A panic is an error of the next drive as well.
        offered.ok().flatten()
    }

    /// Removes the candidates that are not needed: the client sends from its addresses first, and only a full ICE agent contacts
    /// some of them before.
    fn without_candidates<'a>(&mut self, sdp: &'a str) -> Cow<'a, str> {
        let (mut left, contacted) = (CONTACTED, &mut self.contacted);
        sdp::filter_candidates(sdp, |address| {
            let is_known = contacted.contains(&address);
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

    /// Returns the ICE credentials that are valid now: an offer can have restarted ICE.
    pub fn credentials(&mut self) -> IceCreds {
        self.rtc.direct_api().local_ice_credentials()
    }

    /// Changes the state machine. An error comes out of [`Transport::poll`].
    fn change_or_fail(&mut self, change: impl FnOnce(&mut Rtc)) {
        let changed = self.change(|rtc| {
            change(rtc);
            Ok(())
        });
        self.outputs.extend(changed.err().map(Err));
    }

    /// Notes that ICE and DTLS have come up.
    pub fn connect(&mut self) {
        self.is_connected = true;
    }

    /// Returns whether ICE and DTLS have come up.
    pub const fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Sets whether nothing has arrived for so long that nothing is sent.
    pub fn set_silent(&mut self, is_silent: bool) {
        self.is_silent = is_silent;
    }

    /// Returns whether media is sent to the client: it is connected and not silent, so that nothing piles up for a client
    /// that is gone.
    pub fn can_send(&self) -> bool {
        self.is_connected && !self.is_silent
    }

    /// Returns when a packet of the client arrived last.
    pub const fn last_packet(&self) -> Option<Instant> {
        self.last_packet
    }

    /// Notes that the connection has been changed and waits to be driven. Returns whether it did not before.
    pub fn touch(&mut self) -> bool {
        !std::mem::replace(&mut self.is_touched, true)
    }

    /// Lets time pass for a connection that may be touched, so that it is driven. All outputs have to be polled before the next call.
    pub fn drive(&mut self, now: Instant) -> Result<(), TransportError> {
        self.is_touched = false;
        self.advance(now)
    }

    /// Sets when the connection has to be driven next. Returns when its timer has to fire, if that is earlier than it does now.
    pub fn set_due(&mut self, due: Instant) -> Option<Instant> {
        self.due = Some(due);
        self.rearm()
    }

    /// Returns when the timer has to fire, if that is earlier than it does now.
    pub fn rearm(&mut self) -> Option<Instant> {
        let due = self.due?;
        if self.timeout.is_some_and(|armed| due >= armed) {
            return None;
        }
        self.timeout = Some(due);
        Some(due)
    }

    /// Handles that a timer of the connection has fired.
    pub fn fire(&mut self, now: Instant) -> Firing {
        if self.timeout.take_if(|armed| *armed <= now).is_none() {
            return Firing::Replaced;
        }
        if self.due.is_some_and(|due| due > now) {
            Firing::Early
        } else {
            Firing::Due
        }
    }

    /// Keeps the newest statistics of the connection, for snapshots.
    pub fn note_stats(&mut self, stats: PeerStats) {
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
        self.quality.observe(loss, stats.rtt.or(pair));
        self.stats = Some(stats);
    }

    /// Returns the last statistics.
    pub const fn stats(&self) -> Option<&PeerStats> {
        self.stats.as_ref()
    }

    /// Returns loss and delay.
    pub const fn quality(&self) -> &LinkQuality {
        &self.quality
    }

    /// Counts a packet of the client, or one for it, that is not forwarded.
    pub fn note_drop(&mut self, reason: DropReason) {
        self.dropped.count(reason);
    }

    /// Returns the packets of the client, and those for it, that were not forwarded.
    pub const fn dropped(&self) -> Drops {
        self.dropped
    }

    /// Keeps the number of the sections of its description, for inspection and for the bound on answers.
    pub fn count_sections(&mut self, description: &str) {
        self.media_sections = description.matches("\nm=").count();
    }

    /// Returns the number of the sections of its description.
    pub const fn media_sections(&self) -> usize {
        self.media_sections
    }

    /// Begins to close the connection; the last packets are still to be polled.
    pub fn close(&mut self) {
        // A connection that cannot say goodbye is dropped all the same.
        let _ = self.change(|rtc| Ok(rtc.close()?));
    }
}
