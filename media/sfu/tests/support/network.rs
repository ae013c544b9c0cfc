//! Time and the network between a worker and its clients: packets are delivered at once, or lost.

use std::time::Duration;

use conclave_sfu::machine::{Datagram, Source, Worker};
use str0m::net::Protocol;

use super::fixture::{Fixture, server_address};
use super::support::Connection;

impl Fixture {
    /// Advances the clock in small steps.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// Advances the clock until `is_true`, for at most 30 simulated seconds.
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
        // A timer that fires late would make a bandwidth probe look slow.
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
            .chain(self.running().filter_map(|worker| worker.next_timeout()))
            .min()
            .unwrap_or(longest);
        self.now = next.clamp(shortest, longest);
        let now = self.now;
        for connection in self.connections() {
            connection.advance(now);
        }
        for worker in self.running() {
            worker.handle_timeout(now);
        }
        self.settle();
    }

    /// Returns the workers that are not stalled.
    fn running(&mut self) -> impl Iterator<Item = &mut Worker> {
        let workers = std::iter::once(&mut self.worker).chain(&mut self.further);
        let running = workers
            .zip(&self.waiting)
            .filter(|(_, waiting)| !waiting.is_stalled);
        running.map(|(worker, _)| worker)
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
            let has_crossed = self.cross();
            let now = self.now;
            let has_more = self
                .running()
                .fold(false, |has_more, worker| worker.flush(now) | has_more);
            // Before the control side gets any event: real workers notify each other without waiting for it.
            let has_crossed = self.cross() | has_crossed;
            let had_events = self.handle_events();
            let had_packets = self.deliver_to_clients() | self.deliver_to_server();
            if !has_crossed && !has_more && !had_events && !had_packets {
                return;
            }
        }
    }

    /// Delivers the workers' queues, and messages and packets between workers. Returns whether there were any.
    fn cross(&mut self) -> bool {
        let mut has_crossed = false;
        for index in 0..self.waiting.len() {
            has_crossed |= self.handle_waiting(index);
            let worker = match index {
                0 => &mut self.worker,
                _ => &mut self.further[index - 1],
            };
            let Some(crossings) = worker.take_crossings() else {
                continue;
            };
            has_crossed = true;
            for (to, _, instruction) in crossings.instructions {
                self.waiting[to.0].instructions.push_back(instruction);
            }
            for reader in crossings.ready {
                self.waiting[reader.worker.0].ready.push_back(reader);
            }
        }
        has_crossed
    }

    /// Handles a worker's queue, unless the worker is stalled. Returns whether it had entries.
    fn handle_waiting(&mut self, index: usize) -> bool {
        let (waiting, mut had_any) = (&mut self.waiting[index], false);
        let worker = match index {
            0 => &mut self.worker,
            _ => &mut self.further[index - 1],
        };
        while !waiting.is_stalled {
            if let Some(instruction) = waiting.instructions.pop_front() {
                worker.handle_instruction(&self.room, instruction, self.now);
            } else if let Some(reader) = waiting.ready.pop_front() {
                while worker.forward_mirrored(reader.track, self.now) {}
            } else {
                break;
            }
            had_any = true;
        }
        had_any
    }

    /// Handles a worker's next instruction or next announced packets, even if it is stalled.
    pub fn handle_next(&mut self, index: usize, is_packets: bool) {
        let waiting = &mut self.waiting[index];
        let worker = match index {
            0 => &mut self.worker,
            _ => &mut self.further[index - 1],
        };
        if is_packets {
            if let Some(reader) = waiting.ready.pop_front() {
                while worker.forward_mirrored(reader.track, self.now) {}
            }
        } else if let Some(instruction) = waiting.instructions.pop_front() {
            worker.handle_instruction(&self.room, instruction, self.now);
        }
        self.settle();
    }

    fn deliver_to_clients(&mut self) -> bool {
        let mut packets: Vec<_> = self.worker.outbox().drain(..).collect();
        self.largest_outbox = self.largest_outbox.max(packets.len());
        for worker in &mut self.further {
            packets.append(worker.outbox());
        }
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
            let workers = std::iter::once(&mut self.worker).chain(&mut self.further);
            let mut running = workers
                .zip(&self.waiting)
                .enumerate()
                .filter(|(_, (_, waiting))| !waiting.is_stalled);
            let is_alone = self.waiting.len() == 1;
            let is_for = |index| is_alone || server_address(index) == packet.destination;
            if let Some((_, (worker, _))) = running.find(|(index, _)| is_for(*index)) {
                worker.handle_datagram(datagram, self.now);
            }
        }
        !packets.is_empty()
    }
}
