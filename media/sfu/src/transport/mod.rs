//! One peer connection: str0m's state machine with what the worker keeps about it.

mod estimation;
mod held;
mod settings;
mod streams;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use conclave_model::ClientAddress;
use conclave_model::address::AddressFilter;
use slotmap::new_key_type;
use str0m::bwe::Bitrate;
use str0m::change::{SdpAnswer, SdpApi, SdpOffer, SdpPendingOffer};
use str0m::channel::{ChannelConfig, ChannelId};
use str0m::ice::IceCreds;
use str0m::media::Mid;
use str0m::net::Receive;
use str0m::rtp::Ssrc;
use str0m::stats::PeerStats;
use str0m::{Input, Output, Rtc, RtcError};

use crate::allocate::{Capacity, Stagnation};
use crate::data::Backlog;
use crate::dropped::Drops;
use crate::measure::LinkQuality;
use crate::sdp;
pub use held::{HeldPacket, HeldPackets};
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

/// One peer connection.
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
    pub peer: PeerKey,
    /// Which connection of the participant it is.
    pub role: TransportRole,
    /// When a packet of the client arrived last.
    pub last_packet: Option<Instant>,
    /// Whether ICE and DTLS have come up.
    pub is_connected: bool,
    /// Whether nothing has arrived for so long that nothing is sent.
    pub is_silent: bool,
    /// Whether it waits to be driven after a change.
    pub is_touched: bool,
    /// When it has to be driven next.
    pub due: Option<Instant>,
    /// When its timer fires, at that time or earlier.
    pub timeout: Option<Instant>,
    /// The ICE credentials by which STUN requests find it: the present ones last, before them those that an ICE restart
    /// has replaced.
    pub credentials: VecDeque<IceCreds>,
    /// The sources that are bound to it.
    pub sources: VecDeque<Source>,
    /// The client while the handshake with it is counted.
    pub handshake_with: Option<ClientAddress>,
    /// The layers of the sources seen, by SSRC; `None` for those that no track claims.
    pub layers: HashMap<Ssrc, Option<LayerKey>>,
    /// The sources of retransmissions that the client's last offer names, by the source of what they repeat.
    pub retransmissions: HashMap<Ssrc, Ssrc>,
    /// The tracks that arrive on it, by section.
    pub published: HashMap<Mid, TrackKey>,
    /// Data channels that the next offer of the server creates.
    pub new_channels: Vec<ChannelConfig>,
    /// The open data channels by label.
    pub channels: HashMap<String, ChannelId>,
    /// All open channels.
    pub open_channels: HashSet<ChannelId>,
    /// The open channels whose messages are no packets of the protocol.
    pub plain_channels: Vec<ChannelId>,
    /// Reliable messages that wait for the client.
    pub backlog: Backlog,
    /// The connections that have to catch up before further messages of this client are read.
    pub awaited: Vec<TransportKey>,
    /// The packets with these messages.
    pub held: HeldPackets,
    /// The last statistics.
    pub stats: Option<PeerStats>,
    /// The estimated bandwidth to the client.
    pub estimate: Option<Bitrate>,
    /// What the network to the client carries, by the estimates so far.
    pub capacity: Capacity,
    /// Whether the estimate stays too low.
    stagnation: Stagnation,
    /// Whether no video is to be sent, so that the estimation rests.
    is_resting: bool,
    /// Until when estimates are means that count its rest.
    rested_until: Option<Instant>,
    /// Until when no more bandwidth is tried, since a source of video is new.
    settled_at: Option<Instant>,
    /// The bitrates that the estimation was told to try: the next step and the best, in bits per second.
    pub bitrates: (u64, u64),
    /// Loss and delay.
    pub quality: LinkQuality,
    /// Packets of the client, and packets for it, that were not forwarded.
    pub dropped: Drops,
    /// The sections of its description.
    pub media_sections: usize,
}

/// How many addresses of a client, and how many candidates of a description, a full ICE agent contacts before the client has sent
/// from them: else one description would let it send to any number. A client has a few.
const CONTACTED: usize = 8;

impl Transport {
    /// Creates a transport that waits for the client.
    pub fn new(
        settings: &TransportSettings,
        peer: PeerKey,
        role: TransportRole,
        full_ice: bool,
        now: Instant,
    ) -> Self {
        let credentials = IceCreds::new();
        let mut rtc = settings
            .config(full_ice)
            .set_local_ice_credentials(credentials.clone())
            .build(now);
        for candidate in &settings.candidates {
            rtc.add_local_candidate(candidate.clone());
        }
        Self {
            rtc,
            outputs: VecDeque::new(),
            contactable: full_ice.then(|| settings.contactable.clone()),
            contacted: Vec::new(),
            peer,
            role,
            last_packet: None,
            is_connected: false,
            is_silent: false,
            is_touched: false,
            due: None,
            timeout: None,
            credentials: VecDeque::from([credentials]),
            sources: VecDeque::new(),
            handshake_with: None,
            layers: HashMap::new(),
            retransmissions: HashMap::new(),
            published: HashMap::new(),
            new_channels: Vec::new(),
            channels: HashMap::new(),
            open_channels: HashSet::new(),
            plain_channels: Vec::new(),
            backlog: Backlog::default(),
            awaited: Vec::new(),
            held: HeldPackets::default(),
            stats: None,
            estimate: None,
            capacity: Capacity::default(),
            stagnation: Stagnation::default(),
            is_resting: false,
            rested_until: None,
            settled_at: None,
            bitrates: (0, 0),
            quality: LinkQuality::default(),
            dropped: Drops::default(),
            media_sections: 0,
        }
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

    /// Handles an offer and returns the answer. It may have restarted ICE: see [`Transport::new_credentials`].
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

    /// Returns the password that belongs to a user name fragment of this connection.
    pub fn password_of(&self, ufrag: &str) -> Option<&str> {
        self.credentials
            .iter()
            .find(|known| known.ufrag == ufrag)
            .map(|known| known.pass.as_str())
    }

    /// Returns the ICE credentials that are valid now, if they are new: an ICE restart has replaced the known ones.
    pub fn new_credentials(&mut self) -> Option<IceCreds> {
        let current = self.rtc.direct_api().local_ice_credentials();
        let is_new = self.credentials.back() != Some(&current);
        is_new.then_some(current)
    }

    /// Changes the state machine. An error comes out of [`Transport::poll`].
    fn change_or_fail(&mut self, change: impl FnOnce(&mut Rtc)) {
        let changed = self.change(|rtc| {
            change(rtc);
            Ok(())
        });
        self.outputs.extend(changed.err().map(Err));
    }

    /// Returns whether media is sent to the client: it is connected and not silent, so that nothing piles up for a client
    /// that is gone.
    pub fn can_send(&self) -> bool {
        self.is_connected && !self.is_silent
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

    /// Returns the label of an open channel.
    pub fn channel_label(&self, id: ChannelId) -> Option<&str> {
        self.channels
            .iter()
            .find(|(_, known)| **known == id)
            .map(|(label, _)| label.as_str())
    }

    /// Returns the bytes of the protocol that the client has named for a channel.
    pub fn channel_protocol(&mut self, id: ChannelId) -> usize {
        let named = self.guarded(|rtc| {
            Ok(rtc
                .channel(id)
                .and_then(|channel| Some(channel.config()?.protocol.len())))
        });
        named.ok().flatten().unwrap_or_default()
    }

    /// Sends a message; returns whether the channel is open and takes it now. A message that the client cannot take at all
    /// is dropped.
    pub fn write_message(&mut self, label: &str, message: &[u8]) -> bool {
        let Some(id) = self.channels.get(label).copied() else {
            return false;
        };
        let written = self.guarded(|rtc| match rtc.channel(id) {
            Some(mut channel) => Ok(channel.write(true, message)?),
            None => Ok(false),
        });
        written.unwrap_or(true)
    }

    /// Begins to close the connection; the last packets are still to be polled.
    pub fn close(&mut self) {
        // A connection that cannot say goodbye is dropped all the same.
        let _ = self.change(|rtc| Ok(rtc.close()?));
    }
}
