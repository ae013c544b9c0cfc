//! A client of the TURN server: a state machine without I/O for what one address sends to one socket, or one connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stun_types::attribute::{ErrorCode, MessageIntegrity, Nonce, Realm, Username};
use stun_types::message::{
    BINDING, IntegrityAlgorithm, IntegrityKey, LongTermCredentials, Message, MessageClass,
};
use stun_types::prelude::AttributeStaticType as _;
use turn_types::AddressFamily;
use turn_types::attribute::{ChannelNumber, RequestedAddressFamily, RequestedTransport};
use turn_types::channel::ChannelData;
use turn_types::message::{ALLOCATE, CHANNEL_BIND, CREATE_PERMISSION, REFRESH, SEND};

use crate::allocation::Allocation;
use crate::credentials::{password, valid_name};
use crate::framing::push_channel_data;
use crate::limits::Excess;
use crate::members::Member;
use crate::messages::{
    self, Failure, REALM, ends_allocation, has_own_length, peer_addresses, sent_data,
    unknown_attributes,
};
use crate::metrics::TurnRefusal;
use crate::shared::Shared;

/// How a client reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams, whose sender anyone can forge.
    Udp,
    /// A connection, encrypted or not.
    Stream,
}

/// What is to be done about a message of a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Reaction<'a> {
    /// The message is dropped, as RFC 8656 asks for, or has no answer.
    Nothing,
    /// These bytes are to be sent to the client.
    Reply(Vec<u8>),
    /// The payload is to be sent to this address of a media worker, from the relay's socket.
    Relay {
        /// The media worker's address.
        to: SocketAddr,
        /// What the client has sent, without TURN's framing.
        payload: &'a [u8],
    },
}

/// Opens the socket of an allocation at an address of this machine; returns its port.
pub type OpenRelay<'a> = &'a mut dyn FnMut(IpAddr) -> io::Result<u16>;

/// What the server knows of a client: its address, its transport, and its allocation if it has one.
pub struct Session {
    shared: Arc<Shared>,
    client: SocketAddr,
    transport: Transport,
    allocation: Option<Allocation>,
}

/// Who has sent a request.
struct Authenticated {
    username: String,
    key: IntegrityKey,
    member: Arc<Member>,
}

/// A request that has failed, and the key that signs the answer.
struct Failed(Failure, Option<IntegrityKey>);

impl Session {
    /// A client that has sent nothing yet.
    pub fn new(shared: Arc<Shared>, client: SocketAddr, transport: Transport) -> Self {
        // A client of a socket for both families is known by its IPv4 address, which is what it compares with its own.
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        Self {
            shared,
            client,
            transport,
            allocation: None,
        }
    }

    /// Returns whether it has an allocation.
    pub fn has_allocation(&self) -> bool {
        self.allocation.is_some()
    }

    /// Returns the participant that has the allocation.
    pub fn member(&self) -> Option<&Arc<Member>> {
        self.allocation.as_ref().map(Allocation::member)
    }

    /// Ends the allocation if its time is over or its participant has left.
    pub fn expire(&mut self) {
        let now = self.shared.clock.monotonic();
        if self
            .allocation
            .as_ref()
            .is_some_and(|allocation| allocation.has_ended(now))
        {
            self.release();
        }
    }

    /// Returns the allocation, unless its participant has left.
    fn usable_allocation(&self) -> Option<&Allocation> {
        self.allocation
            .as_ref()
            .filter(|allocation| !allocation.member().has_left())
    }

    /// Handles a message of the client: STUN, or channel data.
    pub fn receive<'a>(&mut self, bytes: &'a [u8], open: OpenRelay<'_>) -> Reaction<'a> {
        if bytes.first().is_some_and(|first| first >> 6 == 1) {
            return self.relay_channel_data(bytes);
        }
        let Some(message) = Message::from_bytes(bytes)
            .ok()
            .filter(|_| has_own_length(bytes))
        else {
            return Reaction::Nothing;
        };
        match (message.class(), message.method()) {
            (MessageClass::Request, BINDING) => self.answer_binding(&message),
            (MessageClass::Request, _) => self.answer(&message, open),
            (MessageClass::Indication, SEND) => self.relay_data(bytes),
            _ => Reaction::Nothing,
        }
    }

    /// Appends a datagram that the relay's socket has received, for the client. Returns whether it is of a permitted peer.
    pub fn push_relayed(&self, from: SocketAddr, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let now = self.shared.clock.monotonic();
        let Some(allocation) = self.usable_allocation() else {
            return false;
        };
        let Some(peer) = self
            .shared
            .peers
            .advertised(from)
            .filter(|peer| allocation.permits(peer.ip(), now))
        else {
            return false;
        };
        match allocation.channel(peer, now) {
            Some(channel) => {
                push_channel_data(out, channel, payload, self.transport == Transport::Stream);
            }
            None => out.extend(messages::data(peer, payload)),
        }
        true
    }

    fn relay_channel_data<'a>(&self, bytes: &'a [u8]) -> Reaction<'a> {
        let now = self.shared.clock.monotonic();
        let parsed = self
            .usable_allocation()
            .zip(ChannelData::parse_header(bytes).ok());
        // An empty datagram means nothing to a media worker, and costs as much as another.
        let Some((allocation, (number, length))) = parsed.filter(|(_, (_, length))| *length > 0)
        else {
            return Reaction::Nothing;
        };
        let payload = bytes.get(4..4 + length);
        let peer = allocation.peer(number, now);
        match (peer, payload) {
            (Some(peer), Some(payload)) => self.relay(peer, payload),
            _ => self.refuse_silently(TurnRefusal::Peer),
        }
    }

    fn relay_data<'a>(&self, bytes: &'a [u8]) -> Reaction<'a> {
        let now = self.shared.clock.monotonic();
        let Some(allocation) = self.usable_allocation() else {
            return Reaction::Nothing;
        };
        let Some((peer, payload)) = sent_data(bytes) else {
            return self.refuse_silently(TurnRefusal::Request);
        };
        if payload.is_empty() {
            return Reaction::Nothing;
        }
        if !allocation.permits(peer.ip(), now) {
            return self.refuse_silently(TurnRefusal::Peer);
        }
        self.relay(peer, payload)
    }

    fn relay<'a>(&self, peer: SocketAddr, payload: &'a [u8]) -> Reaction<'a> {
        match self.shared.peers.bound(peer) {
            Some(to) => Reaction::Relay { to, payload },
            None => self.refuse_silently(TurnRefusal::Peer),
        }
    }

    fn refuse_silently<'a>(&self, reason: TurnRefusal) -> Reaction<'a> {
        self.shared.metrics.note_refusal(reason);
        Reaction::Nothing
    }

    /// Returns whether a client may get an answer that it has proved nothing for.
    fn may_answer_stranger(&self) -> bool {
        let may = self.transport == Transport::Stream
            || self.shared.strangers.may_answer(self.client.ip());
        if !may {
            self.shared.metrics.note_refusal(TurnRefusal::Rate);
        }
        may
    }

    fn answer_binding<'a>(&self, request: &Message<'_>) -> Reaction<'a> {
        if self.may_answer_stranger() {
            Reaction::Reply(messages::bound(request, self.client))
        } else {
            Reaction::Nothing
        }
    }

    fn answer<'a>(&mut self, request: &Message<'_>, open: OpenRelay<'_>) -> Reaction<'a> {
        let answered = self
            .authenticate(request)
            .and_then(|client| self.handle(request, client, open));
        match answered {
            Ok(response) => Reaction::Reply(response),
            Err(Failed(failure, key)) => {
                if let Some(reason) = refusal(&failure, request) {
                    self.shared.metrics.note_refusal(reason);
                }
                if key.is_none() && !self.may_answer_stranger() {
                    return Reaction::Nothing;
                }
                Reaction::Reply(messages::failed(request, &failure, key.as_ref()))
            }
        }
    }

    /// Finds out who has sent a request. Nothing is kept of one that fails.
    fn authenticate(&self, request: &Message<'_>) -> Result<Authenticated, Failed> {
        let code = |code| Failed(Failure::Code(code), None);
        if !request.has_attribute(MessageIntegrity::TYPE) {
            return Err(self.challenge(ErrorCode::UNAUTHORIZED));
        }
        let named = request
            .attribute::<Username>()
            .ok()
            .zip(request.attribute::<Realm>().ok());
        let named = named.zip(request.attribute::<Nonce>().ok());
        let Some(((username, realm), nonce)) = named else {
            return Err(code(ErrorCode::BAD_REQUEST));
        };
        if !self
            .shared
            .nonces
            .is_valid(nonce.nonce(), self.client, self.shared.clock.monotonic())
        {
            return Err(self.challenge(ErrorCode::STALE_NONCE));
        }
        let username = username.username();
        if realm.realm() != REALM || valid_name(username, self.shared.clock.now()).is_none() {
            return Err(self.challenge(ErrorCode::UNAUTHORIZED));
        }
        let key = self.key(username);
        if request.validate_integrity_with_key(&key).is_err() {
            return Err(self.challenge(ErrorCode::UNAUTHORIZED));
        }
        // The name is read only now that it is known to be one that this server has given.
        let member = valid_name(username, self.shared.clock.now())
            .and_then(|name| self.shared.members.get(name));
        let Some(member) = member else {
            return Err(self.challenge(ErrorCode::UNAUTHORIZED));
        };
        Ok(Authenticated {
            username: username.to_owned(),
            key,
            member,
        })
    }

    /// Returns the key of a user name: that of the allocation, or one that is made of the password.
    fn key(&self, username: &str) -> IntegrityKey {
        match &self.allocation {
            Some(allocation) if allocation.username == username => allocation.key.clone(),
            _ => {
                let password = password(&self.shared.secret, username).reveal().to_owned();
                let credentials = LongTermCredentials::new(username.to_owned(), password);
                credentials
                    .to_key(REALM.to_owned())
                    .make_key(IntegrityAlgorithm::Sha1)
            }
        }
    }

    fn challenge(&self, code: u16) -> Failed {
        let nonce = self
            .shared
            .nonces
            .make(self.client, self.shared.clock.monotonic());
        Failed(Failure::Challenge { code, nonce }, None)
    }

    fn handle(
        &mut self,
        request: &Message<'_>,
        client: Authenticated,
        open: OpenRelay<'_>,
    ) -> Result<Vec<u8>, Failed> {
        let key = client.key.clone();
        let unknown = unknown_attributes(request);
        let handled = if unknown.is_empty() {
            self.perform(request, client, open)
        } else {
            Err(Failure::UnknownAttributes(unknown))
        };
        handled.map_err(|failure| Failed(failure, Some(key)))
    }

    fn perform(
        &mut self,
        request: &Message<'_>,
        client: Authenticated,
        open: OpenRelay<'_>,
    ) -> Result<Vec<u8>, Failure> {
        self.expire();
        if self
            .allocation
            .as_ref()
            .is_some_and(|allocation| allocation.username != client.username)
        {
            return Err(Failure::Code(ErrorCode::WRONG_CREDENTIALS));
        }
        match request.method() {
            ALLOCATE => self.allocate(request, client, open),
            REFRESH => self.refresh(request, &client.key),
            CREATE_PERMISSION => self.create_permissions(request, &client.key),
            CHANNEL_BIND => self.bind_channel(request, &client.key),
            _ => Err(Failure::Code(ErrorCode::BAD_REQUEST)),
        }
    }

    fn allocate(
        &mut self,
        request: &Message<'_>,
        client: Authenticated,
        open: OpenRelay<'_>,
    ) -> Result<Vec<u8>, Failure> {
        if let Some(allocation) = &self.allocation {
            if allocation.request != request.transaction_id() {
                return Err(Failure::Code(ErrorCode::ALLOCATION_MISMATCH));
            }
            // The answer was lost, or is late.
            return Ok(messages::allocated(
                request,
                allocation.relayed,
                self.client,
                &client.key,
            ));
        }
        let relayed_ip = self.relayed_ip(request)?;
        let permit = self
            .shared
            .quotas
            .admit(&client.member, self.client.ip())
            .map_err(|excess| match excess {
                Excess::Quota => Failure::Code(ErrorCode::ALLOCATION_QUOTA_REACHED),
                Excess::Capacity => Failure::Code(ErrorCode::INSUFFICIENT_CAPACITY),
            })?;
        let port = open(relayed_ip).map_err(|_| Failure::Code(ErrorCode::INSUFFICIENT_CAPACITY))?;
        let relayed = SocketAddr::from((relayed_ip, port));
        let Authenticated { username, key, .. } = client;
        let response = messages::allocated(request, relayed, self.client, &key);
        let (id, now) = (request.transaction_id(), self.shared.clock.monotonic());
        self.allocation = Some(Allocation::new((username, key), id, relayed, permit, now));
        self.shared
            .metrics
            .allocations
            .fetch_add(1, Ordering::Relaxed);
        Ok(response)
    }

    /// Returns the address that a new allocation has, of the family that the client asks for.
    fn relayed_ip(&self, request: &Message<'_>) -> Result<IpAddr, Failure> {
        let transport = request
            .attribute::<RequestedTransport>()
            .map_err(|_| Failure::Code(ErrorCode::BAD_REQUEST))?;
        if transport.protocol() != RequestedTransport::UDP {
            return Err(Failure::Code(ErrorCode::UNSUPPORTED_TRANSPORT_PROTOCOL));
        }
        let is_ipv6 = match request.has_attribute(RequestedAddressFamily::TYPE) {
            true => {
                let family = request.attribute::<RequestedAddressFamily>();
                family
                    .map_err(|_| Failure::Code(ErrorCode::BAD_REQUEST))?
                    .family()
                    == AddressFamily::IPV6
            }
            false => false,
        };
        self.shared
            .peers
            .relayed(is_ipv6)
            .ok_or(Failure::Code(ErrorCode::ADDRESS_FAMILY_NOT_SUPPORTED))
    }

    fn refresh(&mut self, request: &Message<'_>, key: &IntegrityKey) -> Result<Vec<u8>, Failure> {
        if ends_allocation(request)? {
            // It may have ended before.
            self.release();
            return Ok(messages::ended(request, key));
        }
        let allocation = self
            .allocation
            .as_mut()
            .ok_or(Failure::Code(ErrorCode::ALLOCATION_MISMATCH))?;
        allocation.refresh(self.shared.clock.monotonic());
        Ok(messages::refreshed(request, key))
    }

    fn create_permissions(
        &mut self,
        request: &Message<'_>,
        key: &IntegrityKey,
    ) -> Result<Vec<u8>, Failure> {
        let now = self.shared.clock.monotonic();
        let allocation = self
            .allocation
            .as_mut()
            .ok_or(Failure::Code(ErrorCode::ALLOCATION_MISMATCH))?;
        let peers = peer_addresses(request)?;
        if peers
            .iter()
            .any(|peer| !self.shared.peers.permits(peer.ip()))
        {
            return Err(Failure::Code(ErrorCode::FORBIDDEN));
        }
        peers
            .iter()
            .for_each(|peer| allocation.permit(peer.ip(), now));
        Ok(messages::done(request, key))
    }

    fn bind_channel(
        &mut self,
        request: &Message<'_>,
        key: &IntegrityKey,
    ) -> Result<Vec<u8>, Failure> {
        let now = self.shared.clock.monotonic();
        let allocation = self
            .allocation
            .as_mut()
            .ok_or(Failure::Code(ErrorCode::ALLOCATION_MISMATCH))?;
        let number = request
            .attribute::<ChannelNumber>()
            .map_err(|_| Failure::Code(ErrorCode::BAD_REQUEST))?;
        let &[peer] = peer_addresses(request)?.as_slice() else {
            return Err(Failure::Code(ErrorCode::BAD_REQUEST));
        };
        if self.shared.peers.bound(peer).is_none() {
            return Err(Failure::Code(ErrorCode::FORBIDDEN));
        }
        let bound = allocation.bind(number.channel(), peer, now);
        bound.map_err(|_| Failure::Code(ErrorCode::BAD_REQUEST))?;
        Ok(messages::done(request, key))
    }

    fn release(&mut self) {
        if self.allocation.take().is_some() {
            self.shared
                .metrics
                .allocations
                .fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.release();
    }
}

/// Returns as what a failure is counted. The challenge that every client gets first is none.
fn refusal(failure: &Failure, request: &Message<'_>) -> Option<TurnRefusal> {
    match failure {
        Failure::Challenge { code, .. } => {
            let is_wrong =
                *code == ErrorCode::UNAUTHORIZED && request.has_attribute(MessageIntegrity::TYPE);
            is_wrong.then_some(TurnRefusal::Credentials)
        }
        Failure::Code(ErrorCode::WRONG_CREDENTIALS) => Some(TurnRefusal::Credentials),
        Failure::Code(ErrorCode::FORBIDDEN) => Some(TurnRefusal::Peer),
        Failure::Code(ErrorCode::ALLOCATION_QUOTA_REACHED) => Some(TurnRefusal::Quota),
        Failure::Code(ErrorCode::INSUFFICIENT_CAPACITY) => Some(TurnRefusal::Capacity),
        Failure::Code(_) | Failure::UnknownAttributes(_) => Some(TurnRefusal::Request),
    }
}

#[cfg(test)]
mod tests;
