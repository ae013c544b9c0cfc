//! One peer connection of a test client: str0m in the role of a browser.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use str0m::change::{SdpAnswer, SdpOffer, SdpPendingOffer};
use str0m::channel::{ChannelConfig, ChannelId, Reliability};
use str0m::format::{Codec, FormatParams};
use str0m::media::{
    Direction, Frequency, KeyframeRequestKind, MediaKind, Mid, Rid, Simulcast, SimulcastLayer,
};
use str0m::net::{Protocol, Receive, Transmit};
use str0m::rtp::{Extension, ExtensionMap, ExtensionSerializer, ExtensionValues, RtpWrite};
use str0m::{Candidate, Event, Input, Output, Rtc, RtcConfig};

/// A packet as a client received it.
#[derive(Debug, Clone)]
pub struct Received {
    /// Track in the section's `msid` when the packet arrived.
    pub track: String,
    pub mid: Mid,
    pub ssrc: u32,
    pub sequence: u64,
    pub timestamp: u32,
    pub payload: Vec<u8>,
    pub payload_type: u8,
    pub audio_level: Option<i8>,
    pub is_last: bool,
    pub descriptor: Option<RawDescriptor>,
}

/// A media packet to send.
#[derive(Debug, Clone)]
pub struct Outgoing<'a> {
    pub mid: Mid,
    pub rid: Option<Rid>,
    pub codec: Codec,
    pub sequence: u64,
    pub timestamp: u32,
    pub payload: &'a [u8],
    pub audio_level: Option<i8>,
    /// Whether the payload has redundancy (RED).
    pub is_red: bool,
    /// Whether it is the last packet of a frame.
    pub is_last: bool,
    /// Dependency descriptor, if it has one.
    pub descriptor: Option<RawDescriptor>,
}

/// URI of the dependency descriptor.
const DEPENDENCIES: &str =
    "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";

/// A test client's differences from the simplest client.
#[derive(Debug, Clone, Copy, Default)]
pub struct Abilities {
    /// Whether it reports received packets, so that the server estimates the bandwidth.
    pub estimates: bool,
    /// Whether it sends and receives audio with redundancy.
    pub red: bool,
    /// Form in which its retransmissions name their simulcast layer.
    pub retransmissions: NamedBy,
    /// Whether it supports VP9, AV1, H.265 and the dependency descriptor, in addition to VP8 and H.264.
    pub all_codecs: bool,
}

/// Form in which a retransmission names its simulcast layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NamedBy {
    /// By a header extension, as in browsers.
    #[default]
    Packet,
    /// Only by the offer, as in Pion.
    Offer,
    /// Not at all: video (only VP8) has no separate retransmissions.
    Nothing,
}

/// Encoded dependency descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawDescriptor(pub Vec<u8>);

/// Writes and reads dependency descriptors unchanged.
#[derive(Debug)]
struct DescriptorSerializer;

impl ExtensionSerializer for DescriptorSerializer {
    fn write_to(&self, buffer: &mut [u8], values: &ExtensionValues) -> usize {
        let Some(RawDescriptor(bytes)) = values.user_values.get() else {
            return 0;
        };
        buffer[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    }

    fn parse_value(&self, bytes: &[u8], values: &mut ExtensionValues) -> bool {
        values.user_values.set(RawDescriptor(bytes.to_vec()));
        true
    }

    fn is_video(&self) -> bool {
        true
    }

    fn is_audio(&self) -> bool {
        false
    }

    fn requires_two_byte_form(&self, values: &ExtensionValues) -> bool {
        values
            .user_values
            .get()
            .is_some_and(|RawDescriptor(bytes)| bytes.len() > 16)
    }
}

/// One peer connection of a test client.
pub struct Connection {
    pub rtc: Rtc,
    pub address: SocketAddr,
    pub protocol: Protocol,
    pub is_connected: bool,
    pub is_closed: bool,
    pub received: Vec<Received>,
    pub messages: Vec<(String, Vec<u8>)>,
    pub channels: HashMap<String, ChannelId>,
    /// Sections and layers whose key frames were requested.
    pub key_frame_requests: Vec<(Mid, Option<Rid>)>,
    /// Requests for lost packets, according to the last statistics.
    pub requested_packets: u64,
    /// Tracks in the server's description, by receiving section.
    pub tracks: HashMap<String, String>,
    pub outbox: Vec<Transmit>,
    pub timeout: Instant,
    /// Unanswered offer.
    pub pending: Option<SdpPendingOffer>,
    receiving: Vec<Mid>,
    has_offered: bool,
}

impl Connection {
    pub fn new(
        address: SocketAddr,
        protocol: Protocol,
        abilities: Abilities,
        now: Instant,
    ) -> Self {
        let mut config = RtcConfig::new()
            .set_rtp_mode(true)
            .clear_codecs()
            .enable_opus(true, abilities.red)
            .enable_vp8(abilities.retransmissions != NamedBy::Nothing)
            .enable_h264(abilities.retransmissions != NamedBy::Nothing)
            .enable_vp9(abilities.all_codecs)
            .enable_av1(abilities.all_codecs)
            .enable_h265(abilities.all_codecs)
            .set_stats_interval(Some(Duration::from_secs(1)))
            .set_rtcp_report_interval_audio(Duration::from_secs(1));
        if abilities.retransmissions == NamedBy::Nothing {
            let (rate, format) = (Frequency::NINETY_KHZ, FormatParams::default());
            config
                .codec_config()
                .add_config(96.into(), None, Codec::Vp8, rate, None, format);
        }
        let mut extensions = if abilities.estimates {
            ExtensionMap::standard()
        } else {
            extensions_without_feedback(abilities.retransmissions)
        };
        if abilities.all_codecs {
            extensions.set(
                14,
                Extension::with_serializer(DEPENDENCIES, DescriptorSerializer),
            );
        }
        let mut rtc = config.set_extension_map(extensions).build(now);
        let candidate = match protocol {
            Protocol::Tcp => Candidate::builder()
                .tcp()
                .host(address)
                .tcptype(str0m::net::TcpType::Active)
                .build()
                .unwrap(),
            _ => Candidate::host(address, "udp").unwrap(),
        };
        rtc.add_local_candidate(candidate).unwrap();
        Self {
            rtc,
            address,
            protocol,
            is_connected: false,
            is_closed: false,
            received: Vec::new(),
            messages: Vec::new(),
            channels: HashMap::new(),
            key_frame_requests: Vec::new(),
            requested_packets: 0,
            tracks: HashMap::new(),
            outbox: Vec::new(),
            timeout: now,
            pending: None,
            receiving: Vec::new(),
            has_offered: false,
        }
    }

    /// Creates an offer with further receiving sections, and a new sending section if given. The first offer has data
    /// channels.
    pub fn offer(
        &mut self,
        send: Option<NewSection<'_>>,
        receive: [u32; 2],
        restart: bool,
    ) -> (String, Option<Mid>) {
        let is_first = !std::mem::replace(&mut self.has_offered, true);
        let mut api = self.rtc.sdp_api();
        if is_first {
            let lossy = Reliability::MaxRetransmits { retransmits: 0 };
            for (label, ordered, reliability) in [
                ("_reliable", true, Reliability::Reliable),
                ("_lossy", false, lossy),
            ] {
                let label = label.to_owned();
                api.add_channel_with_config(ChannelConfig {
                    label,
                    ordered,
                    reliability,
                    ..ChannelConfig::default()
                });
            }
        }
        for (kind, count) in [MediaKind::Audio, MediaKind::Video]
            .into_iter()
            .zip(receive)
        {
            for _ in 0..count {
                self.receiving
                    .push(api.add_media(kind, Direction::RecvOnly, None, None, None));
            }
        }
        // A browser keeps offering to receive on sections that the server has answered inactive.
        for mid in &self.receiving {
            api.set_direction(*mid, Direction::Inactive);
            api.set_direction(*mid, Direction::RecvOnly);
        }
        let mid = send.map(|section| section.add(&mut api));
        if restart {
            api.ice_restart(true);
        }
        let (offer, pending) = api.apply().expect("there is something to offer");
        self.pending = Some(pending);
        (offer.to_sdp_string(), mid)
    }

    pub fn stop_sending(&mut self, mid: Mid) -> String {
        let mut api = self.rtc.sdp_api();
        api.set_direction(mid, Direction::Inactive);
        let (offer, pending) = api.apply().expect("the direction changes");
        self.pending = Some(pending);
        offer.to_sdp_string()
    }

    pub fn accept_answer(&mut self, sdp: &str) {
        let answer = SdpAnswer::from_sdp_string(sdp).expect("the server's answer is SDP");
        let pending = self.pending.take().expect("an offer is outstanding");
        self.rtc
            .sdp_api()
            .accept_answer(pending, answer)
            .expect("the server's answer fits");
        self.learn_tracks(sdp);
    }

    pub fn accept_offer(&mut self, sdp: &str) -> String {
        let offer = SdpOffer::from_sdp_string(sdp).expect("the server's offer is SDP");
        let answer = self
            .rtc
            .sdp_api()
            .accept_offer(offer)
            .expect("the server's offer is acceptable");
        self.learn_tracks(sdp);
        answer.to_sdp_string()
    }

    fn learn_tracks(&mut self, sdp: &str) {
        self.tracks.clear();
        for section in sdp.split("\nm=").skip(1) {
            let value = |name: &str| {
                section
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .map(str::trim)
            };
            if let (Some(mid), Some(msid), true) = (
                value("a=mid:"),
                value("a=msid:"),
                section.contains("a=sendonly"),
            ) {
                let track = msid.split(' ').nth(1).expect("a stream and a track");
                self.tracks.insert(mid.to_owned(), track.to_owned());
            }
        }
    }

    pub fn send_media(&mut self, packet: &Outgoing<'_>, now: Instant) {
        let params = *self
            .rtc
            .codec_config()
            .find(|params| params.spec().codec == packet.codec)
            .unwrap();
        let payload_type = if packet.is_red {
            params.red().expect("redundancy is negotiated")
        } else {
            params.pt()
        };
        let mut extensions = ExtensionValues {
            audio_level: packet.audio_level,
            voice_activity: Some(packet.audio_level.is_some()),
            ..ExtensionValues::default()
        };
        if let Some(descriptor) = &packet.descriptor {
            extensions.user_values.set(descriptor.clone());
        }
        let mut direct = self.rtc.direct_api();
        let Some(stream) = direct.stream_tx_by_mid(packet.mid, packet.rid) else {
            return;
        };
        let write = RtpWrite::new(
            payload_type,
            packet.sequence.into(),
            packet.timestamp,
            now,
            packet.payload,
        )
        .ext_vals(extensions)
        .marker(packet.is_last)
        .nackable(packet.codec != Codec::Opus);
        stream.write_rtp(write);
        self.advance(now);
    }

    pub fn request_key_frame(&mut self, mid: Mid, now: Instant) {
        let mut direct = self.rtc.direct_api();
        direct
            .stream_rx_by_mid(mid, None)
            .expect("media has arrived")
            .request_keyframe(KeyframeRequestKind::Pli);
        self.advance(now);
    }

    /// Opens another data channel.
    pub fn open_channel(&mut self, label: &str) {
        let config = ChannelConfig {
            label: label.to_owned(),
            ..ChannelConfig::default()
        };
        self.rtc.direct_api().create_data_channel(config);
    }

    /// Sends a data message; returns whether the channel accepted it.
    pub fn send_message(&mut self, label: &str, bytes: &[u8], now: Instant) -> bool {
        let Some(id) = self.channels.get(label).copied() else {
            return false;
        };
        let sent = self
            .rtc
            .channel(id)
            .is_some_and(|mut channel| channel.write(true, bytes).expect("an open channel"));
        self.advance(now);
        sent
    }

    pub fn receive(&mut self, source: SocketAddr, contents: &[u8], now: Instant) {
        if let Ok(packet) = Receive::new(self.protocol, source, self.address, contents) {
            self.rtc
                .handle_input(Input::Receive(now, packet))
                .expect("the client's connection works");
        }
        self.drain();
    }

    pub fn advance(&mut self, now: Instant) {
        self.rtc
            .handle_input(Input::Timeout(now))
            .expect("the client's connection works");
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            let output = match self.rtc.poll_output() {
                // str0m reports an error for a closed connection.
                Err(_) if self.is_closed => return,
                output => output.expect("the client's connection works"),
            };
            match output {
                Output::Timeout(at) => {
                    self.timeout = at;
                    return;
                }
                Output::Transmit(packet) => self.outbox.push(packet),
                Output::Event(event) => self.handle_event(event),
            }
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Connected => self.is_connected = true,
            Event::Closed => self.is_closed = true,
            Event::ChannelOpen(id, label) => {
                self.channels.insert(label, id);
            }
            Event::ChannelData(data) => {
                let label = self
                    .channels
                    .iter()
                    .find(|(_, id)| **id == data.id)
                    .map(|(label, _)| label.clone());
                self.messages.push((label.unwrap_or_default(), data.data));
            }
            Event::MediaEgressStats(stats) => {
                self.requested_packets = self.requested_packets.max(stats.nacks);
            }
            Event::KeyframeRequest(request) => {
                self.key_frame_requests.push((request.mid, request.rid));
            }
            Event::RtpPacket(packet) => {
                let mut direct = self.rtc.direct_api();
                let mid = direct
                    .stream_rx(&packet.header.ssrc)
                    .expect("a known source")
                    .mid();
                let track = self.tracks.get(&*mid).cloned().unwrap_or_default();
                self.received.push(Received {
                    track,
                    mid,
                    ssrc: *packet.header.ssrc,
                    sequence: *packet.seq_no,
                    timestamp: packet.header.timestamp,
                    payload: packet.payload.to_vec(),
                    payload_type: *packet.header.payload_type,
                    audio_level: packet.header.ext_vals.audio_level,
                    is_last: packet.header.marker,
                    descriptor: packet
                        .header
                        .ext_vals
                        .user_values
                        .get::<RawDescriptor>()
                        .cloned(),
                });
            }
            _ => {}
        }
    }
}

/// Returns header extensions without transport-wide sequence numbers.
fn extensions_without_feedback(retransmissions: NamedBy) -> ExtensionMap {
    let mut extensions = ExtensionMap::empty();
    let known = [
        Extension::AudioLevel,
        Extension::RtpMid,
        Extension::RtpStreamId,
        Extension::RepairedRtpStreamId,
    ];
    for (id, extension) in
        (1..).zip(&known[..known.len() - usize::from(retransmissions == NamedBy::Offer)])
    {
        extensions.set(id, extension.clone());
    }
    extensions
}

/// A new section on which a client will send.
#[derive(Debug, Clone, Copy)]
pub struct NewSection<'a> {
    pub kind: MediaKind,
    pub cid: &'a str,
    pub rids: &'a [&'a str],
}

impl NewSection<'_> {
    pub fn add(self, api: &mut str0m::change::SdpApi<'_>) -> Mid {
        let simulcast = (!self.rids.is_empty()).then(|| {
            let mut simulcast = Simulcast::new();
            self.rids
                .iter()
                .for_each(|rid| simulcast.add_send_layer(SimulcastLayer::new(rid)));
            simulcast
        });
        let (stream, track) = (Some("stream".to_owned()), Some(self.cid.to_owned()));
        api.add_media(self.kind, Direction::SendOnly, stream, track, simulcast)
    }
}
