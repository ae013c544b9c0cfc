//! Senders of reliable messages wait for receivers that are slower.
//!
//! str0m reads what it has received at once, so a connection's packets with messages are held before it. What the client has sent and
//! the server has not acknowledged is bounded by SCTP: so the client sends no faster than the slowest of its receivers takes its
//! messages. [`Backlog`](crate::data::Backlog) decides for how long a receiver is waited for.

use super::Worker;
use super::receive::Datagram;
use crate::transport::{HeldPacket, HeldPackets, PeerKey, TransportKey};

impl Worker {
    /// Lets a sender wait for a receiver of its message, if too much waits for that.
    pub(super) fn await_receiver(&mut self, sender: TransportKey, receiver: TransportKey) {
        if !self
            .transports
            .get(receiver)
            .is_some_and(|transport| transport.backlog.is_awaited())
        {
            return;
        }
        if let Some(sender) = self
            .transports
            .get_mut(sender)
            .filter(|sender| !sender.awaited.contains(&receiver))
        {
            sender.awaited.push(receiver);
        }
    }

    /// Holds a packet if it brings messages of a sender that has to wait. Returns whether it is not to be handled now.
    pub(super) fn hold_packet(&mut self, key: TransportKey, packet: &Datagram<'_>) -> bool {
        if !HeldPackets::concern(packet.contents) {
            return false;
        }
        let Some(transport) = self
            .transports
            .get(key)
            .filter(|transport| transport.is_connected)
        else {
            return false;
        };
        // What comes later waits behind what is held.
        let has_held = !transport.held.is_empty();
        if !has_held && !self.has_to_wait(key) {
            return false;
        }
        if !has_held {
            self.held.push(key);
        }
        let Some(transport) = self.transports.get_mut(key) else {
            return false;
        };
        transport.last_packet = Some(self.now);
        let Datagram {
            source,
            destination,
            contents,
        } = *packet;
        transport.held.push(HeldPacket {
            source,
            destination,
            contents: contents.to_vec(),
        });
        true
    }

    /// Returns whether a receiver of a sender's messages has to catch up.
    fn has_to_wait(&mut self, key: TransportKey) -> bool {
        let Some(sender) = self.transports.get_mut(key) else {
            return false;
        };
        let mut awaited = std::mem::take(&mut sender.awaited);
        awaited.retain(|key| {
            self.transports
                .get(*key)
                .is_some_and(|receiver| receiver.backlog.is_awaited())
        });
        let has_to_wait = !awaited.is_empty();
        if let Some(sender) = self.transports.get_mut(key) {
            sender.awaited = awaited;
        }
        has_to_wait
    }

    /// Handles a held packet of each sender whose receivers have caught up, if any has since the last call. Returns whether there was
    /// one.
    pub(super) fn release_packets(&mut self) -> bool {
        if !std::mem::take(&mut self.has_backlog_shrunk) {
            return false;
        }
        let mut has_released = false;
        for key in std::mem::take(&mut self.held) {
            if self.has_to_wait(key) {
                self.held.push(key);
                continue;
            }
            let Some(packet) = self
                .transports
                .get_mut(key)
                .and_then(|transport| transport.held.pop())
            else {
                continue;
            };
            let HeldPacket {
                source,
                destination,
                contents,
            } = &packet;
            self.receive(
                key,
                Datagram {
                    source: *source,
                    destination: *destination,
                    contents,
                },
            );
            has_released = true;
            if self
                .transports
                .get(key)
                .is_some_and(|transport| !transport.held.is_empty())
            {
                self.held.push(key);
            }
        }
        self.has_backlog_shrunk |= has_released;
        has_released
    }

    /// Judges whether a participant takes its messages fast enough to be waited for.
    pub(super) fn judge_backlog(&mut self, key: PeerKey) {
        let subscriber = self.peers.get(key).map(|peer| peer.subscriber);
        let Some(transport) = subscriber.and_then(|key| self.transports.get_mut(key)) else {
            return;
        };
        if transport.backlog.judge(self.now) {
            self.has_backlog_shrunk = true;
            self.warn(
                key,
                "a client takes its reliable messages too slowly",
                &"it loses some",
            );
        }
    }
}
