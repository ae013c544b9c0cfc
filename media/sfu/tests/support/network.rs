//! Time and the network between a worker and its clients: packets are delivered at once, or lost.

use std::time::Duration;

use conclave_sfu::machine::{Datagram, Source};
use str0m::net::Protocol;

use super::support::Connection;
use super::world::World;

impl World {
    /// Lets time pass in small steps.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// Lets time pass until something is true, for at most half a minute of the world's time.
    pub fn run_until(&mut self, what: &str, mut is_true: impl FnMut(&Self) -> bool) {
        let end = self.now + Duration::from_secs(30);
        while !is_true(self) {
            assert!(
                self.now < end,
                "{what}; events: {:?}",
                self.clients.iter().map(|c| &c.events).collect::<Vec<_>>()
            );
            self.step();
        }
    }

    fn step(&mut self) {
        // A timer that fires late makes a probe of the bandwidth look slow.
        let (shortest, longest) = (
            self.now + Duration::from_micros(200),
            self.now + Duration::from_millis(5),
        );
        let timeouts = self
            .connections()
            .map(|connection| connection.timeout)
            .min();
        let next = timeouts
            .into_iter()
            .chain(self.worker.next_timeout())
            .min()
            .unwrap_or(longest);
        self.now = next.clamp(shortest, longest);
        let now = self.now;
        for connection in self.connections() {
            connection.advance(now);
        }
        self.worker.handle_timeout(now);
        self.settle();
    }

    pub fn connections(&mut self) -> impl Iterator<Item = &mut Connection> {
        let present = self.clients.iter_mut().filter(|client| !client.is_gone);
        present.flat_map(|client| {
            std::iter::once(&mut client.publisher).chain(client.subscriber.as_mut())
        })
    }

    /// Delivers packets and events until there are none.
    pub fn settle(&mut self) {
        loop {
            let has_more = self.worker.flush(self.now);
            let had_events = self.handle_events();
            let had_packets = self.deliver_to_clients() | self.deliver_to_server();
            if !has_more && !had_events && !had_packets {
                return;
            }
        }
    }

    fn deliver_to_clients(&mut self) -> bool {
        let packets: Vec<_> = self.worker.outbox().drain(..).collect();
        self.largest_outbox = self.largest_outbox.max(packets.len());
        let now = self.now;
        for packet in &packets {
            if (self.loses)(false, packet.contents.len(), now) {
                continue;
            }
            if let Some(to) = self
                .connections()
                .find(|connection| connection.address == packet.destination)
            {
                to.receive(packet.source, &packet.contents, now);
            }
        }
        !packets.is_empty()
    }

    fn deliver_to_server(&mut self) -> bool {
        let mut packets = Vec::new();
        for connection in self.connections() {
            packets.append(&mut connection.outbox);
        }
        for packet in &packets {
            if (self.loses)(true, packet.contents.len(), self.now) {
                continue;
            }
            let source = Source {
                is_tcp: packet.proto == Protocol::Tcp,
                address: packet.source,
            };
            let datagram = Datagram {
                source,
                destination: packet.destination,
                contents: &packet.contents,
            };
            self.worker.handle_datagram(datagram, self.now);
        }
        !packets.is_empty()
    }
}
