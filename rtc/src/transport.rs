//! One peer connection: str0m's state machine with what the worker keeps about it.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use slotmap::new_key_type;
use str0m::bwe::Bitrate;
use str0m::change::{SdpAnswer, SdpOffer, SdpPendingOffer};
use str0m::channel::{ChannelConfig, ChannelId};
use str0m::config::{CryptoProvider, DtlsCert};
use str0m::format::PayloadParams;
use str0m::ice::IceCreds;
use str0m::media::Mid;
use str0m::net::Receive;
use str0m::rtp::{Extension, ExtensionMap, Ssrc};
use str0m::stats::PeerStats;
use str0m::{Candidate, Input, Output, Rtc, RtcConfig, RtcError};

use crate::data::Backlog;
use crate::forward::{Capacity, LinkQuality, Stagnation};

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

/// What every transport of a process shares.
pub struct TransportSettings {
    crypto: Arc<CryptoProvider>,
    /// One certificate for all connections, since each costs a signature to make.
    certificate: Option<DtlsCert>,
    candidates: Vec<Candidate>,
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

/// A source of packets as the worker has learned it: the layer of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ingress {
    /// The track that the source's media section carries.
    pub track: TrackKey,
    /// The index of its layer.
    pub layer: usize,
}

/// One peer connection.
pub struct Transport {
    rtc: Rtc,
    /// The participant.
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
    /// The client's address while the handshake with it is counted.
    pub handshake_with: Option<IpAddr>,
    /// The sources seen, by SSRC; `None` for those that no track claims.
    pub ingress: HashMap<Ssrc, Option<Ingress>>,
    /// The tracks that arrive on it, by section.
    pub published: HashMap<Mid, TrackKey>,
    /// Data channels that the next offer of the server creates.
    pub new_channels: Vec<ChannelConfig>,
    /// The open data channels by label.
    pub channels: HashMap<String, ChannelId>,
    /// Reliable messages that wait for the client.
    pub backlog: Backlog,
    /// The last statistics.
    pub stats: Option<PeerStats>,
    /// The estimated bandwidth to the client.
    pub estimate: Option<Bitrate>,
    /// What the network to the client carries, by the estimates so far.
    pub capacity: Capacity,
    /// Whether the estimate stays too low.
    stagnation: Stagnation,
    /// The bitrates that the estimation was told to try: the next step and the best, in bits per second.
    pub bitrates: (u64, u64),
    /// Loss and delay.
    pub quality: LinkQuality,
    /// The sections of its description.
    pub media_sections: usize,
}

/// How fast sending to a client starts before its bandwidth is known.
const INITIAL_BITRATE: Bitrate = Bitrate::mbps(2);

/// The largest data message that clients may send, in bytes.
const MAX_MESSAGE_BYTES: u32 = 65_535;

/// How many packets are kept for retransmission, for each video that is sent: 700 ms of a layer of 1.7 Mbit/s, so several round
/// trips. The payloads are shared by all receivers, but 200 took a tenth more memory for each of 500.
const RETRANSMISSION_PACKETS: usize = 128;

/// How long they are kept: until a packet that was lost twice in a congested network, with a round trip of half a second, has
/// been repeated. Layers of up to 500 kbit/s have fewer packets in this time.
const RETRANSMISSION_TIME: Duration = Duration::from_secs(2);

/// Retransmissions that are waiting are dropped when they exceed this share of what is sent: as much as new packets. str0m's
/// 0.15 is a few packets a second of a low layer, so that a burst of losses froze the picture until the next key frame.
const RETRANSMISSION_SHARE: f32 = 0.5;

impl TransportSettings {
    /// Makes the shared settings; the candidates are the addresses that are advertised to clients.
    pub fn new(candidates: Vec<Candidate>) -> Self {
        let crypto = Arc::new(str0m::crypto::from_feature_flags());
        Self { certificate: crypto.dtls_provider.generate_certificate(), crypto, candidates }
    }

    /// Returns the code that proves the knowledge of a password in a STUN message.
    pub fn stun_hmac(&self, key: &[u8], parts: &[&[u8]]) -> [u8; 20] {
        self.crypto.sha1_hmac_provider.sha1_hmac(key, parts)
    }

    /// Returns the payload types and parameters of the codecs that are forwarded.
    pub fn codecs(&self) -> Vec<PayloadParams> {
        self.config(false).codec_config().params().to_vec()
    }

    fn config(&self, full_ice: bool) -> RtcConfig {
        let mut config = RtcConfig::new()
            .set_crypto_provider(self.crypto.clone())
            .set_ice_lite(!full_ice)
            .set_rtp_mode(true)
            .set_extension_map(extensions())
            .clear_codecs()
            .enable_opus(true, true)
            .enable_vp8(true)
            .enable_bwe(Some(INITIAL_BITRATE))
            .set_sctp_max_message_size(MAX_MESSAGE_BYTES)
            .set_stats_interval(Some(Duration::from_secs(1)));
        if let Some(certificate) = &self.certificate {
            config = config.set_dtls_cert(certificate.clone());
        }
        add_h264(&mut config);
        config
    }
}

/// Returns the header extensions. The orientation of video is none of them, as with LiveKit: a client that may not send it rotates its
/// pictures before it encodes them, so that they are upright for every receiver and in recordings, and whatever shows them.
fn extensions() -> ExtensionMap {
    let mut extensions = ExtensionMap::empty();
    let standard = ExtensionMap::standard();
    for (id, extension) in standard.iter().filter(|(_, extension)| **extension != Extension::VideoOrientation) {
        extensions.set(id, extension.clone());
    }
    extensions
}

/// Adds constrained baseline and baseline in both packetization modes, which all browsers have.
fn add_h264(config: &mut RtcConfig) {
    const PROFILES: [(u8, u8, bool, u32); 4] = [
        (108, 109, true, 0x0042_e01f),
        (124, 120, false, 0x0042_e01f),
        (127, 121, true, 0x0042_001f),
        (125, 107, false, 0x0042_001f),
    ];
    for (payload_type, resend, is_mode_1, profile) in PROFILES {
        config.codec_config().add_h264(payload_type.into(), Some(resend.into()), is_mode_1, profile);
    }
}

impl Transport {
    /// Creates a transport that waits for the client.
    pub fn new(settings: &TransportSettings, peer: PeerKey, role: TransportRole, full_ice: bool, now: Instant) -> Self {
        let credentials = IceCreds::new();
        let mut rtc = settings.config(full_ice).set_local_ice_credentials(credentials.clone()).build(now);
        for candidate in &settings.candidates {
            rtc.add_local_candidate(candidate.clone());
        }
        Self {
            rtc,
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
            ingress: HashMap::new(),
            published: HashMap::new(),
            new_channels: Vec::new(),
            channels: HashMap::new(),
            backlog: Backlog::default(),
            stats: None,
            estimate: None,
            capacity: Capacity::default(),
            stagnation: Stagnation::default(),
            bitrates: (0, 0),
            quality: LinkQuality::default(),
            media_sections: 0,
        }
    }

    /// Gives access to the state machine. Every change must be followed by [`Transport::poll`]s, so the worker touches the
    /// transport.
    pub fn rtc(&mut self) -> &mut Rtc {
        &mut self.rtc
    }

    /// Calls the state machine so that a panic in it is an error of this connection.
    fn guarded<T>(&mut self, call: impl FnOnce(&mut Rtc) -> Result<T, TransportError>) -> Result<T, TransportError> {
        catch_unwind(AssertUnwindSafe(|| call(&mut self.rtc))).unwrap_or(Err(TransportError::Panicked))
    }

    /// Handles a packet of the client.
    pub fn receive(&mut self, packet: Receive<'_>, now: Instant) -> Result<(), TransportError> {
        self.last_packet = Some(now);
        self.guarded(|rtc| Ok(rtc.handle_input(Input::Receive(now, packet))?))
    }

    /// Lets time pass.
    pub fn advance(&mut self, now: Instant) -> Result<(), TransportError> {
        self.guarded(|rtc| Ok(rtc.handle_input(Input::Timeout(now))?))
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Result<Output, TransportError> {
        self.guarded(|rtc| Ok(rtc.poll_output()?))
    }

    /// Handles an offer and returns the answer. It may have restarted ICE: see [`Transport::new_credentials`].
    pub fn accept_offer(&mut self, sdp: &str) -> Result<String, TransportError> {
        self.ingress.clear();
        self.guarded(|rtc| {
            let offer = SdpOffer::from_sdp_string(sdp).map_err(|_| TransportError::Sdp)?;
            Ok(rtc.sdp_api().accept_offer(offer)?.to_sdp_string())
        })
    }

    /// Handles the answer to an offer.
    pub fn accept_answer(&mut self, pending: SdpPendingOffer, sdp: &str) -> Result<(), TransportError> {
        self.guarded(|rtc| {
            let answer = SdpAnswer::from_sdp_string(sdp).map_err(|_| TransportError::Sdp)?;
            Ok(rtc.sdp_api().accept_answer(pending, answer)?)
        })
    }

    /// Returns the password that belongs to a user name fragment of this connection.
    pub fn password_of(&self, ufrag: &str) -> Option<&str> {
        self.credentials.iter().find(|known| known.ufrag == ufrag).map(|known| known.pass.as_str())
    }

    /// Returns the ICE credentials that are valid now, if they are new: an ICE restart has replaced the known ones.
    pub fn new_credentials(&mut self) -> Option<IceCreds> {
        let current = self.rtc.direct_api().local_ice_credentials();
        let is_new = self.credentials.back() != Some(&current);
        is_new.then_some(current)
    }

    /// Gives a section new sources for the next track that is sent on it. libwebrtc does not connect the receiver of a section
    /// to a source that it has heard before the section was inactive, so clients would receive and not show it.
    pub fn renew_sources(&mut self, mid: Mid) {
        let mut direct = self.rtc.direct_api();
        let Some(stream) = direct.stream_tx_by_mid(mid, None) else { return };
        let (old, has_retransmissions) = (stream.ssrc(), stream.rtx().is_some());
        direct.remove_stream_tx(old);
        let ssrc = direct.new_ssrc();
        let retransmissions = std::iter::repeat_with(|| direct.new_ssrc()).find(|other| *other != ssrc);
        direct.declare_stream_tx(ssrc, retransmissions.filter(|_| has_retransmissions), mid, None);
    }

    /// Sets how the packets of a video are sent on a section: at once, and how many are kept for retransmission. The publisher
    /// has paced them. Paced again by the estimate, most of a key frame would wait, and all that comes while a probe is sent.
    pub fn prepare_video(&mut self, mid: Mid) {
        if let Some(stream) = self.rtc.direct_api().stream_tx_by_mid(mid, None) {
            stream.set_unpaced(true);
            stream.set_rtx_cache(RETRANSMISSION_PACKETS, RETRANSMISSION_TIME, Some(RETRANSMISSION_SHARE));
        }
    }

    /// Returns whether media is sent to the client: it is connected and not silent, so that nothing piles up for a client
    /// that is gone.
    pub fn can_send(&self) -> bool {
        self.is_connected && !self.is_silent
    }

    /// Keeps statistics.
    pub fn note_stats(&mut self, stats: PeerStats) {
        let losses = [stats.egress_loss_fraction, stats.ingress_loss_fraction];
        let loss = losses.into_iter().flatten().filter(|loss| loss.is_finite()).fold(0.0, f32::max);
        let pair = stats.selected_candidate_pair.as_ref().and_then(|pair| pair.current_round_trip_time);
        self.quality.observe(loss, stats.rtt.or(pair));
        self.stats = Some(stats);
    }

    /// Returns what the network to the client carries while so much is sent, in bits per second; `None` without an estimate.
    pub fn update_capacity(&mut self, sent: u64, now: Instant) -> Option<u64> {
        match self.estimate {
            Some(estimate) => self.capacity.observe(estimate.as_u64(), sent, now),
            None => self.capacity = Capacity::default(),
        }
        self.capacity.bits_per_second()
    }

    /// Lets the estimation start anew at the capacity if more is to be sent than it allows: else it would feel its way up to what
    /// the network has carried already.
    pub fn make_room(&mut self, bits_per_second: u64) {
        let Some(capacity) = self.capacity.bits_per_second().map(Bitrate::from) else { return };
        if self.estimate.is_some_and(|estimate| estimate.as_u64() < bits_per_second && estimate < capacity) {
            self.estimate = Some(capacity);
            self.rtc.bwe().reset(capacity);
        }
    }

    /// Lets the estimation start anew, at the present estimate, if that has not changed for some time although more is wanted.
    pub fn leave_stagnation(&mut self, wanted: u64, now: Instant) {
        let Some(estimate) = self.estimate else { return };
        if self.stagnation.observe(estimate.as_u64(), wanted, now) {
            self.rtc.bwe().reset(estimate);
        }
    }

    /// Returns the label of an open channel.
    pub fn channel_label(&self, id: ChannelId) -> Option<&str> {
        self.channels.iter().find(|(_, known)| **known == id).map(|(label, _)| label.as_str())
    }

    /// Sends a message; returns whether the channel is open and takes it now. A message that the client cannot take at all
    /// is dropped.
    pub fn write_message(&mut self, label: &str, message: &[u8]) -> bool {
        let Some(id) = self.channels.get(label).copied() else { return false };
        let written = self.guarded(|rtc| match rtc.channel(id) {
            Some(mut channel) => Ok(channel.write(true, message)?),
            None => Ok(false),
        });
        written.unwrap_or(true)
    }

    /// Begins to close the connection; the last packets are still to be polled.
    pub fn close(&mut self) {
        // A connection that cannot say goodbye is dropped all the same.
        let _ = self.guarded(|rtc| Ok(rtc.close()?));
    }
}
