//! A connection's messages: data channels, messages queued for the client, and buffered packets with messages.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use str0m::channel::{ChannelConfig, ChannelId};

use super::{ChannelUse, Source, Transport, TransportKey};
#[cfg(test)]
use crate::data::Backlog;
use crate::data::{self, DataLink, Message};

/// Maximum number of buffered packets per connection. Further ones are dropped, which makes the sender's SCTP slow
/// down. DTLS treats a packet that is more than 63 packets late as a replay, so the limit must be lower.
const MOST: usize = 48;

/// Maximum size in bytes of a data channel packet that is never buffered. Packets that only acknowledge are smaller: if
/// they were buffered, the server could not send to the client either.
const SMALL: usize = 256;

/// Content type of application data in DTLS 1.2, and first bytes of encrypted records in DTLS 1.3 (RFC 9147).
const APPLICATION_DATA: u8 = 23;
const ENCRYPTED: std::ops::RangeInclusive<u8> = 32..=63;

/// Receiver that must catch up before further messages from a client are read.
#[derive(Debug, Clone)]
pub enum AwaitedReceiver {
    /// A receiver's connection.
    Receiver(TransportKey),
    /// Receivers on another worker of the room, by the link to them.
    Neighbour(Arc<DataLink>),
}

impl PartialEq for AwaitedReceiver {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Receiver(receiver), Self::Receiver(other)) => receiver == other,
            // By identity: different links can have the same counters.
            (Self::Neighbour(link), Self::Neighbour(other)) => Arc::ptr_eq(link, other),
            _ => false,
        }
    }
}

/// Packet that waits for processing.
#[derive(Debug)]
pub struct BufferedPacket {
    /// Origin of the packet.
    pub source: Source,
    /// The server's address as known to the client.
    pub destination: SocketAddr,
    /// Bytes of the datagram, or of a TCP connection's frame.
    pub contents: Vec<u8>,
}

/// A connection's packets with messages, in order, which wait for the receivers of earlier messages.
#[derive(Debug, Default)]
pub struct BufferedPackets(VecDeque<BufferedPacket>);

impl BufferedPackets {
    /// Returns whether a packet may be buffered at all: it is encrypted by DTLS, and large enough to contain a good
    /// part of a message.
    pub fn is_bufferable(contents: &[u8]) -> bool {
        let is_data = |byte: &u8| *byte == APPLICATION_DATA || ENCRYPTED.contains(byte);
        contents.len() > SMALL && contents.first().is_some_and(is_data)
    }

    /// Adds a packet, or drops it if the buffer is full.
    pub fn push(&mut self, packet: BufferedPacket) {
        if self.0.len() < MOST {
            self.0.push_back(packet);
        }
    }

    /// Removes the next packet.
    pub fn pop(&mut self) -> Option<BufferedPacket> {
        self.0.pop_front()
    }

    /// Returns whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Transport {
    /// Sets the data channels that the server's next offer creates.
    pub fn create_channels(&mut self, channels: Vec<ChannelConfig>) {
        self.channels.create(channels);
    }

    /// Removes and returns the data channels that the offer made now must create.
    pub fn take_new_channels(&mut self) -> Vec<ChannelConfig> {
        self.channels.take_new()
    }

    /// Records that a channel is open. Returns whether the client is allowed to have it.
    pub fn open_channel(&mut self, id: ChannelId, label: String) -> bool {
        let protocol = self.channel_protocol(id);
        self.channels.open(id, label, protocol)
    }

    /// Records that a channel is closed.
    pub fn close_channel(&mut self, id: ChannelId) {
        self.channels.close(id);
    }

    /// Returns the use of a channel's messages; `None` if the channel is not used.
    pub fn use_of_channel(&self, id: ChannelId) -> Option<ChannelUse> {
        self.channels.use_of(id)
    }

    /// Returns the length in bytes of the protocol name that the client gave a channel.
    fn channel_protocol(&mut self, id: ChannelId) -> usize {
        let named = self.guarded(|rtc| {
            Ok(rtc
                .channel(id)
                .and_then(|channel| Some(channel.config()?.protocol.len())))
        });
        named.ok().flatten().unwrap_or_default()
    }

    /// Sends a message. Returns false if the channel is not open or has no room now. A message that the client can
    /// never take is dropped.
    pub fn write_message(&mut self, label: &str, message: &[u8]) -> bool {
        let Some(id) = self.channels.by_label(label) else {
            return false;
        };
        let written = self.guarded(|rtc| match rtc.channel(id) {
            // As binary data, which LiveKit's clients expect.
            Some(mut channel) => Ok(channel.write(true, message)?),
            None => Ok(false),
        });
        // An error counts as written: retrying the message would block all later ones.
        written.unwrap_or(true)
    }

    /// Queues a reliable message for the client, behind the others. Returns whether there was room for it.
    pub fn queue_message(&mut self, message: Message, most_bytes: usize, now: Instant) -> bool {
        self.backlog.push(message, most_bytes, now)
    }

    /// Sends as many queued reliable messages as the channel accepts. Returns whether it accepted any.
    pub fn send_backlog(&mut self, now: Instant) -> bool {
        if self.backlog.is_empty() {
            return false;
        }
        // Lossy messages never wait: when the channel is full, they are dropped.
        let channel = data::channel_of_kind(data::DataKind::Reliable);
        if self.channels.by_label(channel).is_none() {
            // If a client never opens its channel, its messages must not fill the memory.
            self.backlog.limit_before_channel(now);
            return false;
        }
        let mut has_written = false;
        // The clone shares the bytes.
        while let Some(message) = self.backlog.front().cloned() {
            // The channel is full. The message stays first, so that the order is kept.
            if !self.write_message(channel, &message) {
                break;
            }
            self.backlog.pop();
            has_written = true;
        }
        has_written
    }

    /// Returns the queued reliable messages, for tests.
    #[cfg(test)]
    pub const fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Returns whether senders of messages must wait until the client has taken some.
    pub fn is_awaited(&self) -> bool {
        self.backlog.is_awaited()
    }

    /// Measures whether the client takes its messages fast enough to be waited for. Returns true once that is no longer
    /// so.
    pub fn judge_backlog(&mut self, now: Instant) -> bool {
        self.backlog.judge(now)
    }

    /// Makes further messages from this client wait for `receivers`.
    pub fn await_receivers(&mut self, receivers: AwaitedReceiver) {
        if !self.awaited.contains(&receivers) {
            self.awaited.push(receivers);
        }
    }

    /// Removes and returns the receivers that the client's messages wait for. The caller puts back the receivers that
    /// have not caught up.
    pub fn take_awaited(&mut self) -> Vec<AwaitedReceiver> {
        std::mem::take(&mut self.awaited)
    }

    /// Sets the receivers that the client's messages wait for.
    pub fn set_awaited(&mut self, receivers: Vec<AwaitedReceiver>) {
        self.awaited = receivers;
    }

    /// Buffers a packet from the client.
    pub fn buffer_packet(&mut self, packet: BufferedPacket, now: Instant) {
        // A buffered packet shows that the client is alive, as a processed packet does.
        self.last_packet = Some(now);
        self.buffered.push(packet);
    }

    /// Returns whether packets from the client are buffered.
    pub fn has_buffered_packets(&self) -> bool {
        !self.buffered.is_empty()
    }

    /// Removes the next buffered packet.
    pub fn release(&mut self) -> Option<BufferedPacket> {
        self.buffered.pop()
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
                BufferedPackets::is_bufferable(&[vec![first], vec![0; bytes - 1]].concat()),
                is_held,
                "{first}, {bytes}"
            );
        }
        assert!(!BufferedPackets::is_bufferable(&[]));
    }

    #[test]
    fn packets_beyond_the_most_are_lost() {
        let address = "192.0.2.1:1".parse().unwrap();
        let mut held = BufferedPackets::default();
        for number in 0..100 {
            let source = Source {
                is_tcp: false,
                address,
            };
            held.push(BufferedPacket {
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
