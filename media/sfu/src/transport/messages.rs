//! Messages of a connection: its data channels, those that wait for the client, and the packets with messages that are held.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use str0m::channel::{ChannelConfig, ChannelId};

use super::{ChannelUse, Source, Transport, TransportKey};
#[cfg(test)]
use crate::data::Backlog;
use crate::data::{self, DataLink, Message};

/// The most packets that are held of one connection. Those beyond it are lost, by which the sender notices that it has to send more
/// slowly. DTLS takes a packet that is at most 63 packets late for a replayed one.
const MOST: usize = 48;

/// The largest packet of data channels that is not held. One that only acknowledges is smaller: without those of its client, the server
/// could not send to that.
const SMALL: usize = 256;

/// The first byte of application data in DTLS 1.2, and the first bytes of what is encrypted in DTLS 1.3.
const APPLICATION_DATA: u8 = 23;
const ENCRYPTED: std::ops::RangeInclusive<u8> = 32..=63;

/// What has to catch up before further messages of a client are read.
#[derive(Debug, Clone)]
pub enum Awaited {
    /// A receiver, by its connection.
    Receiver(TransportKey),
    /// The receivers on another worker of the room, by the way to them.
    Neighbour(Arc<DataLink>),
}

impl PartialEq for Awaited {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Receiver(receiver), Self::Receiver(other)) => receiver == other,
            (Self::Neighbour(link), Self::Neighbour(other)) => Arc::ptr_eq(link, other),
            _ => false,
        }
    }
}

/// A packet that waits to be handled.
#[derive(Debug)]
pub struct HeldPacket {
    /// Where it came from.
    pub source: Source,
    /// The server's address as the client knows it.
    pub destination: SocketAddr,
    /// The bytes of the datagram, or of the frame of a TCP connection.
    pub contents: Vec<u8>,
}

/// The packets with messages of a connection, in order, that wait for the receivers of earlier messages.
#[derive(Debug, Default)]
pub struct HeldPackets(VecDeque<HeldPacket>);

impl HeldPackets {
    /// Returns whether a packet is held at all: it is encrypted by DTLS, and large enough to contain much of a message.
    pub fn concern(contents: &[u8]) -> bool {
        let is_data = |byte: &u8| *byte == APPLICATION_DATA || ENCRYPTED.contains(byte);
        contents.len() > SMALL && contents.first().is_some_and(is_data)
    }

    /// Adds a packet, if it is not one too many.
    pub fn push(&mut self, packet: HeldPacket) {
        if self.0.len() < MOST {
            self.0.push_back(packet);
        }
    }

    /// Removes the packet that is next.
    pub fn pop(&mut self) -> Option<HeldPacket> {
        self.0.pop_front()
    }

    /// Returns whether none is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Transport {
    /// Lets the next offer of the server create data channels.
    pub fn create_channels(&mut self, channels: Vec<ChannelConfig>) {
        self.channels.create(channels);
    }

    /// Returns the data channels that an offer of the server has to create. The offer that is made now does so.
    pub fn take_new_channels(&mut self) -> Vec<ChannelConfig> {
        self.channels.take_new()
    }

    /// Notes that a channel is open. Returns whether the client may have it.
    pub fn open_channel(&mut self, id: ChannelId, label: String) -> bool {
        let protocol = self.channel_protocol(id);
        self.channels.open(id, label, protocol)
    }

    /// Notes that a channel is closed.
    pub fn close_channel(&mut self, id: ChannelId) {
        self.channels.close(id);
    }

    /// Returns what the messages on a channel are; `None` for a channel that is not used.
    pub fn use_of_channel(&self, id: ChannelId) -> Option<ChannelUse> {
        self.channels.use_of(id)
    }

    /// Returns the bytes of the protocol that the client has named for a channel.
    fn channel_protocol(&mut self, id: ChannelId) -> usize {
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
        let Some(id) = self.channels.by_label(label) else {
            return false;
        };
        let written = self.guarded(|rtc| match rtc.channel(id) {
            Some(mut channel) => Ok(channel.write(true, message)?),
            None => Ok(false),
        });
        written.unwrap_or(true)
    }

    /// Lets a reliable message wait for the client, behind the others. Returns whether there was room for it.
    pub fn queue_message(&mut self, message: Message, most_bytes: usize, now: Instant) -> bool {
        self.backlog.push(message, most_bytes, now)
    }

    /// Sends as many of the waiting reliable messages as the channel takes. Returns whether it took any.
    pub fn send_backlog(&mut self, now: Instant) -> bool {
        if self.backlog.is_empty() {
            return false;
        }
        let channel = data::channel_of_kind(data::DataKind::Reliable);
        if self.channels.by_label(channel).is_none() {
            self.backlog.limit_before_channel(now);
            return false;
        }
        let mut has_written = false;
        while let Some(message) = self.backlog.front().cloned() {
            if !self.write_message(channel, &message) {
                break;
            }
            self.backlog.pop();
            has_written = true;
        }
        has_written
    }

    /// Returns the reliable messages that wait for the client, for tests that look into them.
    #[cfg(test)]
    pub const fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Returns whether senders of messages have to wait until the client has taken some.
    pub fn is_awaited(&self) -> bool {
        self.backlog.is_awaited()
    }

    /// Judges whether the client takes its messages fast enough to be waited for. Returns whether it does so no more.
    pub fn judge_backlog(&mut self, now: Instant) -> bool {
        self.backlog.judge(now)
    }

    /// Lets the client's messages wait for receivers of them.
    pub fn await_receivers(&mut self, receivers: Awaited) {
        if !self.awaited.contains(&receivers) {
            self.awaited.push(receivers);
        }
    }

    /// Takes the receivers that the client's messages wait for, to be set again without those that have caught up.
    pub fn take_awaited(&mut self) -> Vec<Awaited> {
        std::mem::take(&mut self.awaited)
    }

    /// Sets the receivers that the client's messages wait for.
    pub fn set_awaited(&mut self, receivers: Vec<Awaited>) {
        self.awaited = receivers;
    }

    /// Holds a packet of the client.
    pub fn hold(&mut self, packet: HeldPacket, now: Instant) {
        self.last_packet = Some(now);
        self.held.push(packet);
    }

    /// Returns whether packets of the client are held.
    pub fn holds_packets(&self) -> bool {
        !self.held.is_empty()
    }

    /// Removes the held packet that is next.
    pub fn release(&mut self) -> Option<HeldPacket> {
        self.held.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_packets_of_data_channels_are_held_and_no_others() {
        for (first, bytes, is_held) in [
            (23, 257, true),
            (44, 1200, true),
            (23, 256, false),
            (22, 1200, false),
            (128, 1200, false),
            (0, 300, false),
        ] {
            assert_eq!(
                HeldPackets::concern(&[vec![first], vec![0; bytes - 1]].concat()),
                is_held,
                "{first}, {bytes}"
            );
        }
        assert!(!HeldPackets::concern(&[]));
    }

    #[test]
    fn packets_beyond_the_most_are_lost() {
        let address = "192.0.2.1:1".parse().unwrap();
        let mut held = HeldPackets::default();
        for number in 0..100 {
            let source = Source {
                is_tcp: false,
                address,
            };
            held.push(HeldPacket {
                source,
                destination: address,
                contents: vec![number],
            });
        }
        let kept: Vec<_> = std::iter::from_fn(|| held.pop())
            .map(|packet| usize::from(packet.contents[0]))
            .collect();
        assert!(kept == Vec::from_iter(0..MOST) && held.is_empty());
    }
}
