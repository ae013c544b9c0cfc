//! Packets in, and what the connections make of them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use conclave_model::ClientAddress;
use str0m::bwe::BweKind;
use str0m::ice::StunMessage;
use str0m::net::{Protocol, Receive};
use str0m::{Event as RtcEvent, Output};

use super::Worker;
use crate::data;
use crate::dropped::DropReason;
use crate::event::{FailureReason, PeerEvent};
use crate::transport::{Source, TransportError, TransportKey};

/// A datagram, or a packet of a TCP connection, as it was received.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// The client's address, and how the packet came.
    pub source: Source,
    /// The server's address as clients know it.
    pub destination: SocketAddr,
    /// The bytes of the datagram.
    pub contents: &'a [u8],
}

/// The most addresses that are bound to one connection. A client has a few: one for each of its interfaces.
const SOURCES: usize = 16;

/// After which time str0m is due again when it has sent a packet. Handling one takes longer, so that the clock of the worker does
/// not run ahead.
const MOMENT: Duration = Duration::from_micros(1);

/// How many moments pass for a connection before others have their turn.
const MOMENTS: usize = 64;

/// The most channels of a connection whose messages are no packets of the protocol. More are not used.
const PLAIN_CHANNELS: usize = 16;

/// The most channels that a connection has open at once: clients of LiveKit have three.
const CHANNELS: usize = 32;

/// The most bytes of the name of a channel: of its label and its protocol. str0m keeps it as long as the channel is open.
const CHANNEL_NAME: usize = 256;

impl Worker {
    /// Handles a datagram.
    pub fn handle_datagram(&mut self, datagram: Datagram<'_>, now: Instant) {
        self.advance_clock(now);
        let Some(key) = self
            .demux
            .by_source(datagram.source)
            .or_else(|| self.bind_source(&datagram))
        else {
            return self.note_drop(None, DropReason::Stranger);
        };
        if !self.hold_packet(key, &datagram) {
            self.receive(key, datagram);
        }
    }

    /// Hands a datagram to the connection that it belongs to.
    pub(super) fn receive(&mut self, key: TransportKey, datagram: Datagram<'_>) {
        let protocol = if datagram.source.is_tcp {
            Protocol::Tcp
        } else {
            Protocol::Udp
        };
        let Ok(packet) = Receive::new(
            protocol,
            datagram.source.address,
            datagram.destination,
            datagram.contents,
        ) else {
            return self.note_drop(Some(key), DropReason::Malformed);
        };
        let Some(transport) = self.transports.get_mut(key) else {
            return;
        };
        match transport.receive(packet, self.now) {
            Ok(()) => self.drain(key),
            Err(error) => self.fail_transport(key, &error),
        }
    }

    /// Returns whether packets of this source are expected: it has proved that it belongs to a participant.
    pub fn is_bound(&self, source: Source) -> bool {
        self.demux.by_source(source).is_some()
    }

    /// Forgets a source whose TCP connection has ended.
    pub fn forget_source(&mut self, source: Source) {
        let Some(key) = self.demux.by_source(source) else {
            return;
        };
        self.demux.unbind(source, key);
        if let Some(transport) = self.transports.get_mut(key) {
            transport.sources.retain(|bound| *bound != source);
        }
    }

    /// Binds a new source to the transport that its STUN request names and whose password it knows.
    fn bind_source(&mut self, datagram: &Datagram<'_>) -> Option<TransportKey> {
        // STUN begins with 0 or 1; the check spares the parser most of what strangers send.
        datagram.contents.first().filter(|byte| **byte < 2)?;
        let message = StunMessage::parse(datagram.contents)
            .ok()
            .filter(StunMessage::is_binding_request)?;
        let (ufrag, _) = message.split_username()?;
        let key = self.demux.by_ufrag(ufrag)?;
        let password = self.transports.get_mut(key)?.password_of(ufrag)?;
        if !message.verify(password.as_bytes(), |secret, parts| {
            self.settings.stun_hmac(secret, parts)
        }) {
            return None;
        }
        self.count_handshake(key, datagram.source)?;
        self.bind(datagram.source, key);
        Some(key)
    }

    /// Counts the handshake of a connection with a client; `None` if too many clients of its address are in theirs.
    fn count_handshake(&mut self, key: TransportKey, source: Source) -> Option<()> {
        let transport = self.transports.get_mut(key)?;
        let client = ClientAddress::from(source.address.ip());
        if transport.is_connected || transport.handshake_with.is_some() {
            return Some(());
        }
        if self.demux.handshakes.get(&client) >= self.limits.handshakes_per_address {
            return None;
        }
        self.demux.handshakes.add(client);
        transport.handshake_with = Some(client);
        Some(())
    }

    fn bind(&mut self, source: Source, key: TransportKey) {
        if let Some(before) = self
            .demux
            .bind(source, key)
            .and_then(|before| self.transports.get_mut(before))
        {
            before.sources.retain(|bound| *bound != source);
        }
        let Some(transport) = self.transports.get_mut(key) else {
            return;
        };
        transport.sources.push_back(source);
        if transport.sources.len() > SOURCES
            && let Some(oldest) = transport.sources.pop_front()
        {
            self.demux.unbind(oldest, key);
        }
    }

    /// Lets time pass for a touched connection and handles what it puts out.
    pub(super) fn drive(&mut self, key: TransportKey) {
        let Some(transport) = self.transports.get_mut(key) else {
            return;
        };
        transport.is_touched = false;
        match transport.advance(self.now) {
            Ok(()) => self.drain(key),
            Err(error) => self.fail_transport(key, &error),
        }
    }

    /// Drives a connection whose deadline was reached, or puts the deadline off if it has moved.
    pub(super) fn handle_deadline(&mut self, key: TransportKey) {
        let Some(transport) = self.transports.get_mut(key) else {
            return;
        };
        // An entry that a nearer deadline has replaced is not the armed one.
        if transport
            .timeout
            .take_if(|armed| *armed <= self.now)
            .is_none()
        {
            return;
        }
        if transport.due.is_some_and(|due| due > self.now) {
            self.arm(key);
        } else {
            self.drive(key);
        }
    }

    /// Handles all that a connection puts out. str0m sends one packet for each moment that passes, and is due again in the next:
    /// that comes here, while the state of the connection is in the caches of the processor.
    fn drain(&mut self, key: TransportKey) {
        let (mut has_sent, mut moments) = (false, MOMENTS);
        while let Some(transport) = self.transports.get_mut(key) {
            match transport.poll() {
                Ok(Output::Timeout(due)) if has_sent && moments > 0 && due <= self.now + MOMENT => {
                    (has_sent, moments) = (false, moments - 1);
                    self.now = self.now.max(due);
                    if let Err(error) = transport.advance(self.now) {
                        return self.fail_transport(key, &error);
                    }
                }
                Ok(Output::Timeout(due)) => {
                    transport.due = Some(due);
                    self.arm(key);
                    return self.send_backlog(key);
                }
                Ok(Output::Transmit(packet)) => {
                    has_sent = true;
                    self.outbox.push(packet);
                }
                Ok(Output::Event(event)) => self.handle_rtc_event(key, event),
                Err(error) => return self.fail_transport(key, &error),
            }
        }
    }

    /// Makes sure that a timer fires when the connection is due, or earlier.
    fn arm(&mut self, key: TransportKey) {
        let Some(transport) = self.transports.get_mut(key) else {
            return;
        };
        let Some(due) = transport.due else { return };
        if transport.timeout.is_none_or(|armed| due < armed) {
            transport.timeout = Some(due);
            self.timers.arm(due, key);
        }
    }

    fn handle_rtc_event(&mut self, key: TransportKey, event: RtcEvent) {
        match event {
            RtcEvent::RtpPacket(packet) => self.forward(key, &packet),
            RtcEvent::Connected => self.handle_connected(key),
            RtcEvent::KeyframeRequest(request) => self.handle_key_frame_request(key, request.mid),
            RtcEvent::ChannelOpen(id, label) => self.open_channel(key, id, label),
            RtcEvent::ChannelData(data) => self.handle_message(key, data.id, data.data),
            RtcEvent::ChannelClose(id) => {
                if let Some(transport) = self.transports.get_mut(key) {
                    transport.open_channels.remove(&id);
                    transport.channels.retain(|_, open| *open != id);
                    transport.plain_channels.retain(|open| *open != id);
                }
            }
            RtcEvent::PeerStats(stats) => {
                if let Some(transport) = self.transports.get_mut(key) {
                    transport.note_stats(stats);
                }
            }
            RtcEvent::EgressBitrateEstimate(estimate) => self.handle_estimate(key, &estimate),
            RtcEvent::Closed => self.handle_closed(key),
            _ => {}
        }
    }

    /// Takes an estimate of the bandwidth to a client. One that does not say how it receives is not limited.
    pub(super) fn handle_estimate(&mut self, key: TransportKey, estimate: &BweKind) {
        let Some(transport) = self.transports.get_mut(key) else {
            return;
        };
        let bitrate = match estimate {
            BweKind::Twcc {
                estimate,
                can_probe,
            } => can_probe.then_some(*estimate),
            BweKind::Remb { estimate, .. } => Some(*estimate),
            _ => return,
        };
        let (counts, peer) = (transport.note_estimate(bitrate, self.now), transport.peer);
        if counts
            && self
                .peers
                .get(peer)
                .is_some_and(|peer| peer.subscriber == key)
        {
            self.allocate(peer);
        }
    }

    fn open_channel(&mut self, key: TransportKey, id: str0m::channel::ChannelId, label: String) {
        let Some(transport) = self.transports.get_mut(key) else {
            return;
        };
        transport.open_channels.insert(id);
        let name = label.len() + transport.channel_protocol(id);
        if transport.open_channels.len() > CHANNELS || name > CHANNEL_NAME {
            let peer = transport.peer;
            return self.refuse_client(peer, FailureReason::Channels);
        }
        if data::kind_of_channel(&label).is_some() || label == data::DATA_TRACK {
            transport.channels.insert(label, id);
        } else if data::is_plain_channel(&label) && transport.plain_channels.len() < PLAIN_CHANNELS
        {
            transport.plain_channels.push(id);
        }
        self.send_backlog(key);
    }

    fn handle_connected(&mut self, key: TransportKey) {
        let Some(transport) = self.transports.get_mut(key) else {
            return;
        };
        transport.is_connected = true;
        let peer_key = transport.peer;
        self.end_handshake(key);
        let Some(peer) = self.peers.get_mut(peer_key) else {
            return;
        };
        if peer.primary() == key && !peer.is_active {
            peer.is_active = true;
            self.emit(peer_key, PeerEvent::Connected);
        }
        self.request_key_frames_of(peer_key);
    }

    /// Ends the count of a connection's handshake.
    pub(super) fn end_handshake(&mut self, key: TransportKey) {
        let client = self
            .transports
            .get_mut(key)
            .and_then(|transport| transport.handshake_with.take());
        if let Some(client) = client {
            self.demux.handshakes.subtract(&client);
        }
    }

    fn handle_closed(&mut self, key: TransportKey) {
        if let Some(transport) = self.transports.get(key) {
            self.fail_peer(transport.peer, FailureReason::Closed);
        }
    }

    pub(super) fn fail_transport(&mut self, key: TransportKey, error: &TransportError) {
        let Some(transport) = self.transports.get(key) else {
            return;
        };
        let peer = transport.peer;
        self.warn(peer, "a media connection failed", error);
        self.fail_peer(peer, FailureReason::Closed);
    }
}
