//! A worker's connections, the mapping from datagrams to them, and their deadlines.

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

/// Datagram, or a packet from a TCP connection.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Client address and protocol.
    pub source: Source,
    /// Server address as advertised to clients.
    pub destination: SocketAddr,
    /// The bytes, without any framing.
    pub contents: &'a [u8],
}

/// Limit for packets that a connection sends while it closes.
const LAST_PACKETS: usize = 32;

/// A worker's connections.
///
/// Senders of reliable messages wait for slower receivers. str0m processes its input immediately, so packets with
/// messages are buffered before they reach it. SCTP bounds the data that a client may send unacknowledged, so the
/// client slows down to its slowest receiver. [`Backlog`](crate::data::Backlog) decides how long to wait for a
/// receiver.
pub struct Connections {
    settings: TransportSettings,
    transports: SlotMap<TransportKey, Box<Transport>>,
    demux: Demux,
    timers: Timers,
    /// Connections that were changed and not driven since, in this order.
    touched: VecDeque<TransportKey>,
    /// Connections with buffered packets.
    buffering: Vec<TransportKey>,
    /// Whether a receiver may have caught up for which senders waited.
    has_backlog_shrunk: bool,
}

impl Connections {
    /// Creates an empty set. Clients receive these candidates.
    pub fn new(candidates: Vec<Candidate>, config: &Config) -> Self {
        Self {
            settings: TransportSettings::new(candidates, &config.contactable),
            transports: SlotMap::with_key(),
            demux: Demux::default(),
            timers: Timers::default(),
            touched: VecDeque::new(),
            buffering: Vec::new(),
            has_backlog_shrunk: false,
        }
    }

    /// Returns payload types and parameters for all forwarded codecs.
    pub fn codecs(&self) -> Vec<PayloadParams> {
        self.settings.codecs()
    }

    pub fn get(&self, key: TransportKey) -> Option<&Transport> {
        self.transports.get(key).map(|transport| &**transport)
    }

    /// Returns a connection to change. Afterwards, call [`Connections::touch`].
    pub fn get_mut(&mut self, key: TransportKey) -> Option<&mut Transport> {
        self.transports
            .get_mut(key)
            .map(|transport| &mut **transport)
    }

    /// Returns all connections.
    pub fn values(&self) -> impl Iterator<Item = &Transport> {
        self.transports.values().map(|transport| &**transport)
    }

    #[cfg(test)]
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Transport> {
        self.transports
            .values_mut()
            .map(|transport| &mut **transport)
    }

    /// Returns whether there are neither connections nor mappings.
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
        // Created here, since the demux needs the same ones as str0m.
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

    /// Closes and removes a connection. Its last packets are put into the outbox.
    pub fn remove(&mut self, key: TransportKey, outbox: &mut Vec<Transmit>) {
        // From here on, the client's packets are dropped as unknown.
        self.demux.remove(key);
        let Some(mut transport) = self.transports.remove(key) else {
            return;
        };
        // Senders may have waited for this receiver.
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

    /// Returns the connection to which a datagram's source is bound.
    pub fn by_source(&self, source: Source) -> Option<TransportKey> {
        self.demux.by_source(source)
    }

    /// Binds a new source to the connection named by its STUN request, if the request is signed with the connection's
    /// password. Fails if the client's address has too many handshakes in progress.
    pub fn bind_source(
        &mut self,
        datagram: &Datagram<'_>,
        handshakes: usize,
    ) -> Option<TransportKey> {
        // The first byte of a binding request is 0 (RFC 8489, section 5). This check spares the parser most
        // unauthenticated traffic.
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
        // An established connection may change its address at any time, as phones do between Wi-Fi and mobile networks.
        if !self.get(key)?.is_connected() && !self.demux.start_handshake(key, client, handshakes) {
            return None;
        }
        self.demux.bind(datagram.source, key);
        Some(key)
    }

    /// Unbinds a source whose TCP connection has closed.
    pub fn forget_source(&mut self, source: Source) {
        self.demux.unbind(source);
    }

    /// Adds a connection's ICE credentials after the server has restarted ICE.
    pub fn restart_ice(&mut self, key: TransportKey, credentials: IceCreds) {
        self.demux.restart(key, credentials);
    }

    /// Adds a connection's current ICE credentials, if a client's offer has changed them.
    pub fn renew_credentials(&mut self, key: TransportKey) {
        if let Some(transport) = self.transports.get_mut(key) {
            let credentials = transport.credentials();
            self.demux.renew(key, credentials);
        }
    }

    /// Records that a connection is established. Returns its participant.
    pub fn connect(&mut self, key: TransportKey) -> Option<PeerKey> {
        let transport = self.transports.get_mut(key)?;
        transport.connect();
        // The client's address may start the next handshake.
        self.demux.end_handshake(key);
        Some(transport.peer())
    }

    /// Marks a connection as changed, so that it is driven.
    pub fn touch(&mut self, key: TransportKey) {
        if self
            .transports
            .get_mut(key)
            .is_some_and(|transport| transport.touch())
        {
            self.touched.push_back(key);
        }
    }

    /// Removes and returns the connection that was changed first.
    pub fn next_touched(&mut self) -> Option<TransportKey> {
        self.touched.pop_front()
    }

    /// Sets a connection's next deadline.
    pub fn set_due(&mut self, key: TransportKey, due: Instant) {
        if let Some(transport) = self.transports.get_mut(key)
            // `None` if the timer expires earlier anyway.
            && let Some(at) = transport.set_due(due)
        {
            self.timers.arm(at, key);
        }
    }

    /// Returns the time at which [`Connections::take_due`] has something to return.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Removes and returns the connections whose timer has expired, even if their deadline has moved since.
    pub fn take_due(&mut self, now: Instant) -> Vec<TransportKey> {
        self.timers.take_due(now)
    }

    /// Returns whether a connection must be driven after its timer expired. If its deadline is later, the timer is set
    /// again.
    pub fn fire(&mut self, key: TransportKey, now: Instant) -> bool {
        let Some(transport) = self.transports.get_mut(key) else {
            return false;
        };
        match transport.fire(now) {
            // The deadline had moved closer, and an earlier timer has expired for it.
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

    /// Sends as many of a connection's queued reliable messages as SCTP accepts.
    pub fn send_backlog(&mut self, key: TransportKey, now: Instant) {
        let transport = self.transports.get_mut(key);
        if transport.is_some_and(|transport| transport.send_backlog(now)) {
            self.has_backlog_shrunk = true;
            // Each message makes SCTP send packets, which only driving the connection produces.
            self.touch(key);
        }
    }

    /// Checks whether a connection accepts its messages fast enough to be waited for. Returns whether it has just
    /// become too slow.
    pub fn judge_backlog(&mut self, key: TransportKey, now: Instant) -> bool {
        let transport = self.transports.get_mut(key);
        let is_slow = transport.is_some_and(|transport| transport.judge_backlog(now));
        self.has_backlog_shrunk |= is_slow;
        is_slow
    }

    /// Makes a sender wait for a receiver whose backlog is too large.
    pub fn await_receiver(&mut self, sender: TransportKey, receiver: TransportKey) {
        if self.is_awaited(receiver)
            && let Some(sender) = self.transports.get_mut(sender)
        {
            sender.await_receivers(AwaitedReceiver::Receiver(receiver));
        }
    }

    /// Makes a sender wait for receivers on another worker, if too many messages are on their way there.
    pub fn await_neighbour(&mut self, sender: TransportKey, link: &Arc<DataLink>) {
        if link.is_awaited()
            && let Some(sender) = self.transports.get_mut(sender)
        {
            sender.await_receivers(AwaitedReceiver::Neighbour(Arc::clone(link)));
        }
    }

    /// Records that receivers may have caught up.
    pub fn record_catch_up(&mut self) {
        self.has_backlog_shrunk = true;
    }

    /// Returns whether receivers may have caught up since the last [`Connections::take_buffering`].
    pub fn has_backlog_shrunk(&self) -> bool {
        self.has_backlog_shrunk
    }

    /// Returns whether senders must wait for a receiver, as its backlog is too large.
    pub fn is_awaited(&self, receiver: TransportKey) -> bool {
        self.get(receiver).is_some_and(Transport::is_awaited)
    }

    /// Buffers a packet if its sender has to wait. Returns false if the packet must be handled now.
    pub fn buffer(&mut self, key: TransportKey, packet: &Datagram<'_>, now: Instant) -> bool {
        if !BufferedPackets::is_bufferable(packet.contents) {
            return false;
        }
        // During the handshake, DTLS packets carry no messages.
        let Some(transport) = self.get(key).filter(|transport| transport.is_connected()) else {
            return false;
        };
        // Later packets wait behind buffered ones, to keep their order.
        let has_buffered = transport.has_buffered_packets();
        if !has_buffered && !self.has_to_wait(key) {
            return false;
        }
        if !has_buffered {
            self.buffering.push(key);
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
        // Counts as a packet from the client, which must not seem silent meanwhile.
        transport.buffer_packet(packet, now);
        true
    }

    /// Returns whether a receiver of this sender's messages has to catch up.
    fn has_to_wait(&mut self, key: TransportKey) -> bool {
        let Some(sender) = self.transports.get_mut(key) else {
            return false;
        };
        // Taken out, since looking at receivers borrows all connections.
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

    /// Removes and returns the connections with buffered packets, if a receiver may have caught up since the last call.
    /// Each must be passed to [`Connections::release`].
    pub fn take_buffering(&mut self) -> Option<Vec<TransportKey>> {
        std::mem::take(&mut self.has_backlog_shrunk).then(|| std::mem::take(&mut self.buffering))
    }

    /// Removes and returns a connection's next buffered packet, unless a receiver still has to catch up.
    pub fn release(&mut self, key: TransportKey) -> Option<BufferedPacket> {
        // Considered again after the next change.
        if self.has_to_wait(key) {
            self.buffering.push(key);
            return None;
        }
        self.transports.get_mut(key)?.release()
    }

    /// Buffers a connection's remaining packets again, after one was released and handled.
    pub fn keep_buffering(&mut self, key: TransportKey) {
        // More may be released at once, so `take_buffering` must return it again.
        self.has_backlog_shrunk = true;
        if self.get(key).is_some_and(Transport::has_buffered_packets) {
            self.buffering.push(key);
        }
    }
}

/// Timers for connection deadlines. If a deadline moves into the future, its timer stays and is set again when it
/// expires: nearly every packet moves a deadline, and few are ever reached.
#[derive(Debug, Default)]
struct Timers {
    queue: BinaryHeap<Reverse<(Instant, TransportKey)>>,
}

impl Timers {
    fn arm(&mut self, at: Instant, transport: TransportKey) {
        self.queue.push(Reverse((at, transport)));
    }

    /// Returns the time at which [`Timers::take_due`] has something to return.
    fn next(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns the transports whose timer has expired. Their deadline may have moved since.
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

    /// Returns a set with one connection.
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
        assert!(
            !connections.fire(key, start + second),
            "the connection is due later"
        );
        assert_eq!(connections.next_deadline(), Some(start + 3 * second));
        connections.set_due(key, start + 2 * second);
        assert_eq!(connections.take_due(start + 3 * second), [key, key]);
        assert!(connections.fire(key, start + 3 * second));
        assert!(
            !connections.fire(key, start + 3 * second),
            "this deadline was replaced"
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
