//! The connections of a worker: which ones there are, which a datagram is for, and when each is driven.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use conclave_model::ClientAddress;
use slotmap::SlotMap;
use str0m::format::PayloadParams;
use str0m::ice::{IceCreds, StunMessage};
use str0m::net::Transmit;
use str0m::{Candidate, Output};

use super::demux::Demux;
use crate::config::Config;
use crate::data::DataLink;
use crate::transport::{
    AwaitedReceiver, BufferedPacket, BufferedPackets, PeerKey, Source, TimerAction, Transport,
    TransportKey, TransportRole, TransportSettings,
};

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

/// The most packets that a connection sends when it is closed.
const LAST_PACKETS: usize = 32;

/// The connections of a worker.
///
/// Senders of reliable messages wait for receivers that are slower. str0m reads what it has received at once, so a connection's packets
/// with messages are held before it. What the client has sent and the server has not acknowledged is bounded by SCTP: so the client
/// sends no faster than the slowest of its receivers takes its messages. [`Backlog`](crate::data::Backlog) decides for how long a
/// receiver is waited for.
pub struct Connections {
    settings: TransportSettings,
    transports: SlotMap<TransportKey, Box<Transport>>,
    demux: Demux,
    timers: Timers,
    /// Those that were changed and not driven since.
    touched: VecDeque<TransportKey>,
    /// Those of which packets are held.
    holding: Vec<TransportKey>,
    /// Whether a receiver for which senders waited may have caught up.
    has_backlog_shrunk: bool,
}

impl Connections {
    /// Creates an empty set; the candidates are the addresses that are advertised to clients.
    pub fn new(candidates: Vec<Candidate>, config: &Config) -> Self {
        Self {
            settings: TransportSettings::new(candidates, &config.contactable),
            transports: SlotMap::with_key(),
            demux: Demux::default(),
            timers: Timers::default(),
            touched: VecDeque::new(),
            holding: Vec::new(),
            has_backlog_shrunk: false,
        }
    }

    /// Returns the payload types and parameters of the codecs that are forwarded.
    pub fn codecs(&self) -> Vec<PayloadParams> {
        self.settings.codecs()
    }

    /// Returns a connection.
    pub fn get(&self, key: TransportKey) -> Option<&Transport> {
        self.transports.get(key).map(|transport| &**transport)
    }

    /// Returns a connection to change. See [`Connections::touch`].
    pub fn get_mut(&mut self, key: TransportKey) -> Option<&mut Transport> {
        self.transports
            .get_mut(key)
            .map(|transport| &mut **transport)
    }

    /// Returns all connections.
    pub fn values(&self) -> impl Iterator<Item = &Transport> {
        self.transports.values().map(|transport| &**transport)
    }

    /// Returns all connections to change, for tests that look into them.
    #[cfg(test)]
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Transport> {
        self.transports
            .values_mut()
            .map(|transport| &mut **transport)
    }

    /// Returns whether there are none, and nothing that would lead to one.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.transports.is_empty() && self.demux.is_empty()
    }

    /// Creates a connection that waits for its client.
    pub fn create(
        &mut self,
        peer: PeerKey,
        role: TransportRole,
        full_ice: bool,
        now: Instant,
    ) -> TransportKey {
        let credentials = IceCreds::new();
        let transport = Transport::new(
            &self.settings,
            peer,
            role,
            credentials.clone(),
            full_ice,
            now,
        );
        let key = self.transports.insert(Box::new(transport));
        self.demux.add(key, credentials);
        key
    }

    /// Closes a connection and forgets it. Its last packets are put into the outbox.
    pub fn remove(&mut self, key: TransportKey, outbox: &mut Vec<Transmit>) {
        self.demux.remove(key);
        let Some(mut transport) = self.transports.remove(key) else {
            return;
        };
        self.has_backlog_shrunk = true;
        transport.close();
        for _ in 0..LAST_PACKETS {
            match transport.poll() {
                Ok(Output::Transmit(packet)) => outbox.push(packet),
                Ok(Output::Event(_)) => {}
                Ok(Output::Timeout(_)) | Err(_) => return,
            }
        }
    }

    /// Returns the connection that the source of a datagram is bound to.
    pub fn by_source(&self, source: Source) -> Option<TransportKey> {
        self.demux.by_source(source)
    }

    /// Binds a new source to the connection that its STUN request names and whose password it knows, unless so many clients of its
    /// address are in their handshake.
    pub fn bind_source(
        &mut self,
        datagram: &Datagram<'_>,
        handshakes: usize,
    ) -> Option<TransportKey> {
        // STUN begins with 0 or 1; the check spares the parser most of what strangers send.
        datagram.contents.first().filter(|byte| **byte < 2)?;
        let message = StunMessage::parse(datagram.contents)
            .ok()
            .filter(StunMessage::is_binding_request)?;
        let (ufrag, _) = message.split_username()?;
        let (key, password) = self.demux.by_ufrag(ufrag)?;
        if !message.verify(password.as_bytes(), |secret, parts| {
            self.settings.stun_hmac(secret, parts)
        }) {
            return None;
        }
        let client = ClientAddress::from(datagram.source.address.ip());
        if !self.get(key)?.is_connected() && !self.demux.begin_handshake(key, client, handshakes) {
            return None;
        }
        self.demux.bind(datagram.source, key);
        Some(key)
    }

    /// Forgets a source whose TCP connection has ended.
    pub fn forget_source(&mut self, source: Source) {
        self.demux.unbind(source);
    }

    /// Makes a connection known by the ICE credentials with which the server restarts ICE.
    pub fn restart_ice(&mut self, key: TransportKey, credentials: IceCreds) {
        self.demux.restart(key, credentials);
    }

    /// Makes a connection known by its ICE credentials, if an offer of the client has changed them.
    pub fn renew_credentials(&mut self, key: TransportKey) {
        if let Some(transport) = self.transports.get_mut(key) {
            let credentials = transport.credentials();
            self.demux.renew(key, credentials);
        }
    }

    /// Notes that a connection has come up. Returns its participant.
    pub fn connect(&mut self, key: TransportKey) -> Option<PeerKey> {
        let transport = self.transports.get_mut(key)?;
        transport.connect();
        self.demux.end_handshake(key);
        Some(transport.peer())
    }

    /// Notes that a connection has been changed and must be driven.
    pub fn touch(&mut self, key: TransportKey) {
        if self
            .transports
            .get_mut(key)
            .is_some_and(|transport| transport.touch())
        {
            self.touched.push_back(key);
        }
    }

    /// Takes the connection that has waited to be driven for the longest time.
    pub fn next_touched(&mut self) -> Option<TransportKey> {
        self.touched.pop_front()
    }

    /// Sets when a connection has to be driven next.
    pub fn set_due(&mut self, key: TransportKey, due: Instant) {
        if let Some(transport) = self.transports.get_mut(key)
            && let Some(at) = transport.set_due(due)
        {
            self.timers.arm(at, key);
        }
    }

    /// Returns when [`Connections::take_due`] has something to return.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Removes and returns the connections whose deadline was reached, or was to be before it moved.
    pub fn take_due(&mut self, now: Instant) -> Vec<TransportKey> {
        self.timers.take_due(now)
    }

    /// Returns whether a connection has to be driven, of which a timer has fired. One that is due later is armed again.
    pub fn fire(&mut self, key: TransportKey, now: Instant) -> bool {
        let Some(transport) = self.transports.get_mut(key) else {
            return false;
        };
        match transport.fire(now) {
            TimerAction::Replaced => false,
            TimerAction::Due => true,
            TimerAction::Early => {
                if let Some(at) = transport.rearm() {
                    self.timers.arm(at, key);
                }
                false
            }
        }
    }

    /// Sends as many of a connection's waiting reliable messages as it takes.
    pub fn send_backlog(&mut self, key: TransportKey, now: Instant) {
        let transport = self.transports.get_mut(key);
        if transport.is_some_and(|transport| transport.send_backlog(now)) {
            self.has_backlog_shrunk = true;
            self.touch(key);
        }
    }

    /// Judges whether a connection takes its messages fast enough to be waited for. Returns whether it does so no more.
    pub fn judge_backlog(&mut self, key: TransportKey, now: Instant) -> bool {
        let transport = self.transports.get_mut(key);
        let is_slow = transport.is_some_and(|transport| transport.judge_backlog(now));
        self.has_backlog_shrunk |= is_slow;
        is_slow
    }

    /// Lets a sender wait for a receiver of its message, if too much waits for that.
    pub fn await_receiver(&mut self, sender: TransportKey, receiver: TransportKey) {
        if self.is_awaited(receiver)
            && let Some(sender) = self.transports.get_mut(sender)
        {
            sender.await_receivers(AwaitedReceiver::Receiver(receiver));
        }
    }

    /// Lets a sender wait for the receivers of its message on another worker, if too much waits for them.
    pub fn await_neighbour(&mut self, sender: TransportKey, link: &Arc<DataLink>) {
        if link.is_awaited()
            && let Some(sender) = self.transports.get_mut(sender)
        {
            sender.await_receivers(AwaitedReceiver::Neighbour(Arc::clone(link)));
        }
    }

    /// Notes that receivers may have caught up.
    pub fn note_caught_up(&mut self) {
        self.has_backlog_shrunk = true;
    }

    /// Returns whether receivers may have caught up since the last call of [`Connections::take_holding`].
    pub fn has_backlog_shrunk(&self) -> bool {
        self.has_backlog_shrunk
    }

    /// Returns whether so much waits for a receiver that senders wait for it.
    pub fn is_awaited(&self, receiver: TransportKey) -> bool {
        self.get(receiver).is_some_and(Transport::is_awaited)
    }

    /// Holds a packet if it brings messages of a sender that has to wait. Returns whether it is not to be handled now.
    pub fn hold(&mut self, key: TransportKey, packet: &Datagram<'_>, now: Instant) -> bool {
        if !BufferedPackets::is_bufferable(packet.contents) {
            return false;
        }
        let Some(transport) = self.get(key).filter(|transport| transport.is_connected()) else {
            return false;
        };
        // What comes later waits behind what is held.
        let has_held = transport.has_buffered_packets();
        if !has_held && !self.has_to_wait(key) {
            return false;
        }
        if !has_held {
            self.holding.push(key);
        }
        let Some(transport) = self.transports.get_mut(key) else {
            return false;
        };
        let Datagram {
            source,
            destination,
            contents,
        } = *packet;
        let packet = BufferedPacket {
            source,
            destination,
            contents: contents.to_vec(),
        };
        transport.buffer_packet(packet, now);
        true
    }

    /// Returns whether a receiver of a sender's messages has to catch up.
    fn has_to_wait(&mut self, key: TransportKey) -> bool {
        let Some(sender) = self.transports.get_mut(key) else {
            return false;
        };
        let mut awaited = sender.take_awaited();
        awaited.retain(|awaited| match awaited {
            AwaitedReceiver::Receiver(receiver) => self.is_awaited(*receiver),
            AwaitedReceiver::Neighbour(link) => link.is_awaited(),
        });
        let has_to_wait = !awaited.is_empty();
        if let Some(sender) = self.transports.get_mut(key) {
            sender.set_awaited(awaited);
        }
        has_to_wait
    }

    /// Returns the connections of which packets are held, if a receiver may have caught up since the last call; each is to be
    /// [released](Connections::release).
    pub fn take_holding(&mut self) -> Option<Vec<TransportKey>> {
        std::mem::take(&mut self.has_backlog_shrunk).then(|| std::mem::take(&mut self.holding))
    }

    /// Removes and returns the next packet that is held of a connection, unless its receivers have to catch up still.
    pub fn release(&mut self, key: TransportKey) -> Option<BufferedPacket> {
        if self.has_to_wait(key) {
            self.holding.push(key);
            return None;
        }
        self.transports.get_mut(key)?.release()
    }

    /// Goes on to hold the packets that are left of a connection, after one was released and handled.
    pub fn keep_holding(&mut self, key: TransportKey) {
        self.has_backlog_shrunk = true;
        if self.get(key).is_some_and(Transport::has_buffered_packets) {
            self.holding.push(key);
        }
    }
}

/// The deadlines of transports. A deadline that moves further away stays where it is, and is put off when it is reached:
/// most packets move one, and few are ever reached.
#[derive(Debug, Default)]
struct Timers {
    queue: BinaryHeap<Reverse<(Instant, TransportKey)>>,
}

impl Timers {
    /// Adds a deadline.
    fn arm(&mut self, at: Instant, transport: TransportKey) {
        self.queue.push(Reverse((at, transport)));
    }

    /// Returns when [`Timers::take_due`] has something to return.
    fn next(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns the transports whose deadline was reached. A deadline may have moved since it was added.
    fn take_due(&mut self, now: Instant) -> Vec<TransportKey> {
        let mut due = Vec::new();
        while let Some(Reverse((_, transport))) = self
            .queue
            .peek()
            .copied()
            .filter(|Reverse((at, _))| *at <= now)
        {
            self.queue.pop();
            due.push(transport);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A connection alone.
    fn one_connection(now: Instant) -> (Connections, TransportKey) {
        let mut connections = Connections::new(Vec::new(), &Config::default());
        let key = connections.create(PeerKey::default(), TransportRole::Single, false, now);
        (connections, key)
    }

    #[test]
    fn a_touched_connection_is_driven_once() {
        let now = Instant::now();
        let (mut connections, key) = one_connection(now);
        connections.touch(key);
        connections.touch(key);
        assert_eq!(connections.next_touched(), Some(key));
        assert_eq!(connections.next_touched(), None);
        connections.get_mut(key).unwrap().drive(now).unwrap();
        connections.touch(key);
        assert_eq!(connections.next_touched(), Some(key));
    }

    #[test]
    fn a_deadline_that_moves_away_is_put_off_when_it_is_reached() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let (mut connections, key) = one_connection(start);
        connections.set_due(key, start + second);
        connections.set_due(key, start + 3 * second);
        assert_eq!(connections.next_deadline(), Some(start + second));
        assert_eq!(connections.take_due(start + second), [key]);
        assert!(!connections.fire(key, start + second), "it is due later");
        assert_eq!(connections.next_deadline(), Some(start + 3 * second));
        connections.set_due(key, start + 2 * second);
        assert_eq!(connections.take_due(start + 3 * second), [key, key]);
        assert!(connections.fire(key, start + 3 * second));
        assert!(
            !connections.fire(key, start + 3 * second),
            "it was replaced"
        );
    }

    #[test]
    fn nothing_is_left_of_a_connection_that_is_removed() {
        let (mut connections, key) = one_connection(Instant::now());
        connections.remove(key, &mut Vec::new());
        assert!(connections.is_empty() && connections.get(key).is_none());
        connections.touch(key);
        assert_eq!(connections.next_touched(), None);
    }
}
