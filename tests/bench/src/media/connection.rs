//! A client's peer connection: str0m with its own socket, or with a relay.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use conclave_sfu::{DependencyDescriptor, dependency_extension};
use str0m::change::{SdpAnswer, SdpOffer, SdpPendingOffer};
use str0m::config::{CryptoProvider, DtlsCert};
use str0m::format::{Codec, FormatParams, PayloadParams};
use str0m::media::{Direction, Frequency, MediaKind, Mid, Simulcast, SimulcastLayer};
use str0m::net::{Protocol, Receive};
use str0m::rtp::{ExtensionValues, RtpWrite};
use str0m::{Candidate, Event, Input, Output, Rtc, RtcConfig};

use super::datagrams::{self, Buffer};
use super::received::Received;
use super::relay::Relay;
use super::source::{LAYERS, Packet, is_simulcast, wall_clock};
use crate::BenchError;

/// Settings shared by all connections: separate certificates would cost more than the handshake.
pub struct Settings {
    crypto: Arc<CryptoProvider>,
    certificate: DtlsCert,
}

impl Settings {
    pub fn new() -> Result<Self, BenchError> {
        let crypto = Arc::new(str0m::crypto::from_feature_flags());
        let certificate = crypto
            .dtls_provider
            .generate_certificate()
            .ok_or("no certificate")?;
        Ok(Self {
            crypto,
            certificate,
        })
    }
}

/// Id of AV1's dependency descriptor, which the standard extensions leave free.
const DEPENDENCIES: u8 = 12;

/// One peer connection.
pub struct Connection {
    rtc: Rtc,
    link: Link,
    address: SocketAddr,
    /// Next time at which it must be driven.
    pub timeout: Instant,
    /// Arrival time of the datagram being handled.
    arrived: u64,
    pending: Option<SdpPendingOffer>,
    /// Server addresses that came before its description; `None` after the description.
    early: Option<Vec<Candidate>>,
    pub is_connected: bool,
}

/// Path of datagrams to the server.
enum Link {
    Direct(UdpSocket),
    Relayed(Box<Relay>),
}

/// The sections on which a publisher sends.
#[derive(Clone, Copy)]
pub struct Sections {
    pub audio: Mid,
    pub video: Mid,
}

impl Connection {
    /// Creates a connection from an address, or through a relay if there is one.
    pub fn new(
        settings: &Settings,
        address: IpAddr,
        relay: Option<Relay>,
        now: Instant,
    ) -> Result<Self, BenchError> {
        let (link, address) = match relay {
            Some(relay) => {
                let address = relay.address;
                (Link::Relayed(relay.into()), address)
            }
            None => {
                let socket = datagrams::bind(address)?;
                let address = socket.local_addr()?;
                (Link::Direct(socket), address)
            }
        };
        let mut config = RtcConfig::new()
            .set_crypto_provider(settings.crypto.clone())
            .set_dtls_cert(settings.certificate.clone())
            .set_rtp_mode(true)
            .set_extension(DEPENDENCIES, dependency_extension())
            .clear_codecs()
            .enable_opus(true, false)
            .enable_vp8(true)
            .enable_av1(true);
        let vp9 = FormatParams {
            profile_id: Some(0),
            ..FormatParams::default()
        };
        let codecs = config.codec_config();
        codecs.add_config(
            98.into(),
            Some(99.into()),
            Codec::Vp9,
            Frequency::NINETY_KHZ,
            None,
            vp9,
        );
        let mut rtc = config.build(now);
        rtc.add_local_candidate(Candidate::host(address, "udp")?);
        Ok(Self {
            rtc,
            link,
            address,
            timeout: now,
            arrived: 0,
            pending: None,
            early: Some(Vec::new()),
            is_connected: false,
        })
    }

    /// Returns the socket to poll; `None` for a relay, which is polled directly.
    pub fn socket(&self) -> Option<RawFd> {
        match &self.link {
            Link::Direct(socket) => Some(socket.as_raw_fd()),
            Link::Relayed(_) => None,
        }
    }

    /// Offers a microphone and a camera with this codec; the tracks have these ids.
    pub fn offer(
        &mut self,
        [audio, video]: [&str; 2],
        codec: Codec,
    ) -> Result<(String, Sections), BenchError> {
        let simulcast = is_simulcast(codec).then(|| {
            let mut simulcast = Simulcast::new();
            LAYERS
                .iter()
                .for_each(|layer| simulcast.add_send_layer(SimulcastLayer::new(layer.rid)));
            simulcast
        });
        let mut api = self.rtc.sdp_api();
        let stream = Some("stream".to_owned());
        let audio = api.add_media(
            MediaKind::Audio,
            Direction::SendOnly,
            stream.clone(),
            Some(audio.to_owned()),
            None,
        );
        let video = api.add_media(
            MediaKind::Video,
            Direction::SendOnly,
            stream,
            Some(video.to_owned()),
            simulcast,
        );
        let (offer, pending) = api.apply().ok_or("nothing to offer")?;
        self.pending = Some(pending);
        Ok((offer.to_sdp_string(), Sections { audio, video }))
    }

    /// Handles the answer to the offer.
    pub fn accept_answer(&mut self, sdp: &str) -> Result<(), BenchError> {
        let pending = self.pending.take().ok_or("an answer without an offer")?;
        self.rtc
            .sdp_api()
            .accept_answer(pending, SdpAnswer::from_sdp_string(sdp)?)?;
        self.add_early_candidates();
        Ok(())
    }

    /// Answers an offer.
    pub fn accept_offer(&mut self, sdp: &str) -> Result<String, BenchError> {
        let answer = self
            .rtc
            .sdp_api()
            .accept_offer(SdpOffer::from_sdp_string(sdp)?)?
            .to_sdp_string();
        self.add_early_candidates();
        Ok(answer)
    }

    /// Adds a server address that is not in its description. Invalid addresses are skipped.
    pub fn add_candidate(&mut self, candidate: &str) {
        let Ok(candidate) = Candidate::from_sdp_string(candidate) else {
            return;
        };
        match &mut self.early {
            Some(early) => early.push(candidate),
            None => self.rtc.add_remote_candidate(candidate),
        }
    }

    fn add_early_candidates(&mut self) {
        for candidate in self.early.take().into_iter().flatten() {
            self.rtc.add_remote_candidate(candidate);
        }
    }

    /// Writes a media packet; [`Connection::advance`] sends it.
    pub fn send(&mut self, sections: Sections, packet: Packet, now: Instant) {
        let is_video = packet.codec.is_video();
        let mid = if is_video {
            sections.video
        } else {
            sections.audio
        };
        let mut codecs = self.rtc.codec_config().params().iter();
        let Some(payload_type) = codecs
            .find(|params| params.spec().codec == packet.codec)
            .map(PayloadParams::pt)
        else {
            return;
        };
        let mut extensions = ExtensionValues {
            audio_level: (!is_video).then_some(-20),
            voice_activity: (!is_video).then_some(true),
            ..ExtensionValues::default()
        };
        if let Some(descriptor) = packet.descriptor {
            extensions
                .user_values
                .set(DependencyDescriptor(descriptor.into()));
        }
        let mut direct = self.rtc.direct_api();
        let Some(stream) = direct.stream_tx_by_mid(mid, packet.rid) else {
            return;
        };
        let write = RtpWrite::new(
            payload_type,
            packet.sequence.into(),
            packet.timestamp,
            now,
            packet.payload,
        )
        .marker(packet.marker)
        .ext_vals(extensions)
        .nackable(is_video);
        stream.write_rtp(write);
    }

    /// Handles the datagrams available on the socket.
    pub fn receive(
        &mut self,
        buffer: &mut Buffer,
        received: &mut Received,
    ) -> Result<(), BenchError> {
        while let Link::Direct(socket) = &self.link
            && let Some(datagram) = datagrams::receive(socket, buffer).or_else(ignore_refusal)?
        {
            let datagrams::Datagram {
                source,
                arrived,
                contents,
            } = datagram;
            self.handle(source, arrived, contents, received)?;
        }
        Ok(())
    }

    /// Handles the relay's received datagrams. Does nothing without a relay.
    pub fn receive_relayed(&mut self, received: &mut Received) -> Result<(), BenchError> {
        while let Link::Relayed(relay) = &mut self.link
            && let Some((source, contents)) = relay.receive()?
        {
            self.handle(source, wall_clock(), &contents, received)?;
        }
        Ok(())
    }

    fn handle(
        &mut self,
        source: SocketAddr,
        arrived: u64,
        contents: &[u8],
        received: &mut Received,
    ) -> Result<(), BenchError> {
        self.arrived = arrived;
        if let Ok(packet) = Receive::new(Protocol::Udp, source, self.address, contents) {
            self.rtc
                .handle_input(Input::Receive(Instant::now(), packet))?;
        }
        self.drain(received)
    }

    /// Advances the time.
    pub fn advance(&mut self, now: Instant, received: &mut Received) -> Result<(), BenchError> {
        self.rtc.handle_input(Input::Timeout(now))?;
        self.drain(received)
    }

    fn drain(&mut self, received: &mut Received) -> Result<(), BenchError> {
        loop {
            match self.rtc.poll_output()? {
                Output::Timeout(at) => {
                    self.timeout = at;
                    return Ok(());
                }
                Output::Transmit(packet) => match &mut self.link {
                    // A full buffer loses the packet, as a network would.
                    Link::Direct(socket) => {
                        drop(socket.send_to(&packet.contents, packet.destination));
                    }
                    Link::Relayed(relay) => relay.send(packet.destination, &packet.contents),
                },
                Output::Event(Event::RtpPacket(packet)) => received.note(&packet, self.arrived),
                Output::Event(Event::KeyframeRequest(request)) => {
                    received.key_frame_requests.push(request.rid);
                }
                Output::Event(Event::Connected) => self.is_connected = true,
                Output::Event(_) => {}
            }
        }
    }
}

/// Ignores a refused connection: the signalling reports that the server has gone.
fn ignore_refusal<'a>(error: io::Error) -> io::Result<Option<datagrams::Datagram<'a>>> {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        Ok(None)
    } else {
        Err(error)
    }
}
