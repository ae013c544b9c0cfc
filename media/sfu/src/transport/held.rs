//! Packets of a sender whose receivers have to catch up.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::Source;

/// The most packets that are held of one connection. Those beyond it are lost, by which the sender notices that it has to send more
/// slowly. DTLS takes a packet that is at most 63 packets late for a replayed one.
const MOST: usize = 48;

/// The largest packet of data channels that is not held. One that only acknowledges is smaller: without those of its client, the server
/// could not send to that.
const SMALL: usize = 256;

/// The first byte of application data in DTLS 1.2, and the first bytes of what is encrypted in DTLS 1.3.
const APPLICATION_DATA: u8 = 23;
const ENCRYPTED: std::ops::RangeInclusive<u8> = 32..=63;

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
