//! A client's state machine, without I/O. A client is an address that sends to a UDP socket, or a
//! connection.

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

use crate::admission::AdmittedParticipant;
use crate::allocation::Allocation;
use crate::credentials::{password, valid_name};
use crate::framing::push_channel_data;
use crate::limits::QuotaError;
use crate::messages::{
    self, REALM, RequestFailure, has_own_length, is_release, peer_addresses, send_indication,
    unknown_attributes,
};
use crate::metrics::TurnRefusal;
use crate::shared::SharedState;

/// Transport between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientTransport {
    /// Datagrams, whose source address may be forged.
    Udp,
    /// TCP or TLS connection.
    Stream,
}

/// Reaction to a client's message.
#[derive(Debug, PartialEq, Eq)]
pub enum TurnReaction<'a> {
    /// Do nothing: the message is dropped, as RFC 8656 demands, or needs no reply.
    Nothing,
    /// Send these bytes to the client.
    Reply(Vec<u8>),
    /// Send the payload to a media worker, from the relay socket.
    Relay {
        /// The media worker's address.
        to: SocketAddr,
        /// Payload without TURN framing.
        payload: &'a [u8],
    },
}

/// Opens an allocation's socket at a local address, and returns its port.
pub type OpenRelay<'a> = &'a mut dyn FnMut(IpAddr) -> io::Result<u16>;

/// Client state: address, transport, and the allocation if there is one.
pub struct TurnSession {
    shared: Arc<SharedState>,
    client: SocketAddr,
    transport: ClientTransport,
    allocation: Option<Allocation>,
}

/// Verified sender of a request.
struct Authenticated {
    username: String,
    key: IntegrityKey,
    participant: Arc<AdmittedParticipant>,
}

/// Failed request, and the key that signs the response.
struct FailedRequest(RequestFailure, Option<IntegrityKey>);

impl TurnSession {
    /// Creates a client without an allocation.
    pub fn new(shared: Arc<SharedState>, client: SocketAddr, transport: ClientTransport) -> Self {
        // A dual-stack socket reports IPv4 clients as mapped IPv6 addresses. Clients compare the
        // address with their own, so it must be the plain one.
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        Self {
            shared,
            client,
            transport,
            allocation: None,
        }
    }

    pub fn has_allocation(&self) -> bool {
        self.allocation.is_some()
    }

    /// Returns the participant that has the allocation.
    pub fn participant(&self) -> Option<&Arc<AdmittedParticipant>> {
        self.allocation.as_ref().map(Allocation::participant)
    }

    /// Releases the allocation if its lifetime is over or its participant has left.
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
            .filter(|allocation| !allocation.participant().has_left())
    }

    /// Handles a client's message: STUN or channel data.
    pub fn receive<'a>(&mut self, bytes: &'a [u8], open: OpenRelay<'_>) -> TurnReaction<'a> {
        // Channel data starts with the bits 01, STUN with 00 (RFC 8656, section 12).
        if bytes.first().is_some_and(|first| first >> 6 == 1) {
            return self.relay_channel_data(bytes);
        }
        let Some(message) = Message::from_bytes(bytes)
            .ok()
            // The parser accepts trailing bytes, which a datagram must not have.
            .filter(|_| has_own_length(bytes))
        else {
            return TurnReaction::Nothing;
        };
        match (message.class(), message.method()) {
            (MessageClass::Request, BINDING) => self.respond_to_binding(&message),
            (MessageClass::Request, _) => self.respond(&message, open),
            (MessageClass::Indication, SEND) => self.relay_data(bytes),
            _ => TurnReaction::Nothing,
        }
    }

    /// Appends a datagram from the relay socket, framed for the client. Returns false if it does
    /// not come from a permitted peer.
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
        // Channel data has 4 bytes of overhead, a Data indication 36.
        match allocation.channel(peer, now) {
            Some(channel) => {
                push_channel_data(
                    out,
                    channel,
                    payload,
                    self.transport == ClientTransport::Stream,
                );
            }
            None => out.extend(messages::data_indication(peer, payload)),
        }
        true
    }

    fn relay_channel_data<'a>(&self, bytes: &'a [u8]) -> TurnReaction<'a> {
        let now = self.shared.clock.monotonic();
        let parsed = self
            .usable_allocation()
            .zip(ChannelData::parse_header(bytes).ok());
        // An empty datagram means nothing to a media worker, but costs as much as any other.
        let Some((allocation, (number, length))) = parsed.filter(|(_, (_, length))| *length > 0)
        else {
            return TurnReaction::Nothing;
        };
        let payload = bytes.get(4..4 + length);
        let peer = allocation.peer(number, now);
        match (peer, payload) {
            (Some(peer), Some(payload)) => self.relay(peer, payload),
            _ => self.refuse_silently(TurnRefusal::Peer),
        }
    }

    fn relay_data<'a>(&self, bytes: &'a [u8]) -> TurnReaction<'a> {
        let now = self.shared.clock.monotonic();
        let Some(allocation) = self.usable_allocation() else {
            return TurnReaction::Nothing;
        };
        let Some((peer, payload)) = send_indication(bytes) else {
            return self.refuse_silently(TurnRefusal::Request);
        };
        if payload.is_empty() {
            return TurnReaction::Nothing;
        }
        if !allocation.permits(peer.ip(), now) {
            return self.refuse_silently(TurnRefusal::Peer);
        }
        self.relay(peer, payload)
    }

    fn relay<'a>(&self, peer: SocketAddr, payload: &'a [u8]) -> TurnReaction<'a> {
        match self.shared.peers.bound(peer) {
            Some(to) => TurnReaction::Relay { to, payload },
            None => self.refuse_silently(TurnRefusal::Peer),
        }
    }

    fn refuse_silently<'a>(&self, reason: TurnRefusal) -> TurnReaction<'a> {
        self.shared.metrics.record_refusal(reason);
        TurnReaction::Nothing
    }

    /// Returns whether a client that has not authenticated may get a response.
    fn may_respond_unauthenticated(&self) -> bool {
        let may = self.transport == ClientTransport::Stream
            || self.shared.unauthenticated.may_respond(self.client.ip());
        if !may {
            self.shared.metrics.record_refusal(TurnRefusal::Rate);
        }
        may
    }

    fn respond_to_binding<'a>(&self, request: &Message<'_>) -> TurnReaction<'a> {
        if self.may_respond_unauthenticated() {
            TurnReaction::Reply(messages::binding_response(request, self.client))
        } else {
            TurnReaction::Nothing
        }
    }

    fn respond<'a>(&mut self, request: &Message<'_>, open: OpenRelay<'_>) -> TurnReaction<'a> {
        let result = self
            .authenticate(request)
            .and_then(|client| self.handle(request, client, open));
        match result {
            Ok(response) => TurnReaction::Reply(response),
            Err(FailedRequest(failure, key)) => {
                if let Some(reason) = refusal(&failure, request) {
                    self.shared.metrics.record_refusal(reason);
                }
                // Signed responses are not limited: their receivers have proved that they know a
                // password.
                if key.is_none() && !self.may_respond_unauthenticated() {
                    return TurnReaction::Nothing;
                }
                TurnReaction::Reply(messages::error_response(request, &failure, key.as_ref()))
            }
        }
    }

    /// Authenticates a request. A failed request leaves no state.
    fn authenticate(&self, request: &Message<'_>) -> Result<Authenticated, FailedRequest> {
        let code = |code| FailedRequest(RequestFailure::Code(code), None);
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
        // Deriving a key costs two hashes, so the nonce was checked first: a forged address never
        // gets this far.
        let key = self.key(username);
        if request.validate_integrity_with_key(&key).is_err() {
            return Err(self.challenge(ErrorCode::UNAUTHORIZED));
        }
        // Only now, after the signature was verified, is the name known to be this server's.
        let participant = valid_name(username, self.shared.clock.now())
            .and_then(|name| self.shared.participants.get(name));
        let Some(participant) = participant else {
            return Err(self.challenge(ErrorCode::UNAUTHORIZED));
        };
        Ok(Authenticated {
            username: username.to_owned(),
            key,
            participant,
        })
    }

    /// Returns a user name's key: the allocation's, or one derived from the password.
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

    fn challenge(&self, code: u16) -> FailedRequest {
        let nonce = self
            .shared
            .nonces
            .make(self.client, self.shared.clock.monotonic());
        FailedRequest(RequestFailure::Challenge { code, nonce }, None)
    }

    fn handle(
        &mut self,
        request: &Message<'_>,
        client: Authenticated,
        open: OpenRelay<'_>,
    ) -> Result<Vec<u8>, FailedRequest> {
        let key = client.key.clone();
        // After authentication, in the order of RFC 8489, section 6.3.
        let unknown = unknown_attributes(request);
        let handled = if unknown.is_empty() {
            self.execute(request, client, open)
        } else {
            Err(RequestFailure::UnknownAttributes(unknown))
        };
        handled.map_err(|failure| FailedRequest(failure, Some(key)))
    }

    fn execute(
        &mut self,
        request: &Message<'_>,
        client: Authenticated,
        open: OpenRelay<'_>,
    ) -> Result<Vec<u8>, RequestFailure> {
        self.expire();
        if self
            .allocation
            .as_ref()
            // RFC 8656, section 5: an allocation is only used with the credentials that created it.
            .is_some_and(|allocation| allocation.username != client.username)
        {
            return Err(RequestFailure::Code(ErrorCode::WRONG_CREDENTIALS));
        }
        match request.method() {
            ALLOCATE => self.allocate(request, client, open),
            REFRESH => self.refresh(request, &client.key),
            CREATE_PERMISSION => self.create_permissions(request, &client.key),
            CHANNEL_BIND => self.bind_channel(request, &client.key),
            _ => Err(RequestFailure::Code(ErrorCode::BAD_REQUEST)),
        }
    }

    fn allocate(
        &mut self,
        request: &Message<'_>,
        client: Authenticated,
        open: OpenRelay<'_>,
    ) -> Result<Vec<u8>, RequestFailure> {
        if let Some(allocation) = &self.allocation {
            if allocation.request != request.transaction_id() {
                return Err(RequestFailure::Code(ErrorCode::ALLOCATION_MISMATCH));
            }
            // A repeated request: the response was lost, or is late.
            return Ok(messages::allocate_response(
                request,
                allocation.relayed,
                self.client,
                &client.key,
            ));
        }
        let relayed_ip = self.relayed_ip(request)?;
        // Before the socket is opened: sockets are what the quotas protect.
        let permit = self
            .shared
            .quotas
            .admit(&client.participant, self.client.ip())
            .map_err(|excess| match excess {
                QuotaError::Quota => RequestFailure::Code(ErrorCode::ALLOCATION_QUOTA_REACHED),
                QuotaError::Capacity => RequestFailure::Code(ErrorCode::INSUFFICIENT_CAPACITY),
            })?;
        let port =
            open(relayed_ip).map_err(|_| RequestFailure::Code(ErrorCode::INSUFFICIENT_CAPACITY))?;
        let relayed = SocketAddr::from((relayed_ip, port));
        let Authenticated { username, key, .. } = client;
        let response = messages::allocate_response(request, relayed, self.client, &key);
        // The transaction id identifies a repetition of this request.
        let (id, now) = (request.transaction_id(), self.shared.clock.monotonic());
        self.allocation = Some(Allocation::new((username, key), id, relayed, permit, now));
        self.shared
            .metrics
            .allocations
            .fetch_add(1, Ordering::Relaxed);
        Ok(response)
    }

    /// Returns the local address for a new allocation, in the requested family.
    fn relayed_ip(&self, request: &Message<'_>) -> Result<IpAddr, RequestFailure> {
        let transport = request
            .attribute::<RequestedTransport>()
            .map_err(|_| RequestFailure::Code(ErrorCode::BAD_REQUEST))?;
        if transport.protocol() != RequestedTransport::UDP {
            return Err(RequestFailure::Code(
                ErrorCode::UNSUPPORTED_TRANSPORT_PROTOCOL,
            ));
        }
        let is_ipv6 = match request.has_attribute(RequestedAddressFamily::TYPE) {
            true => {
                let family = request.attribute::<RequestedAddressFamily>();
                family
                    .map_err(|_| RequestFailure::Code(ErrorCode::BAD_REQUEST))?
                    .family()
                    == AddressFamily::IPV6
            }
            false => false,
        };
        self.shared
            .peers
            .relayed(is_ipv6)
            .ok_or(RequestFailure::Code(
                ErrorCode::ADDRESS_FAMILY_NOT_SUPPORTED,
            ))
    }

    fn refresh(
        &mut self,
        request: &Message<'_>,
        key: &IntegrityKey,
    ) -> Result<Vec<u8>, RequestFailure> {
        if is_release(request)? {
            // Succeeds even if the allocation has ended already: the result is the same.
            self.release();
            return Ok(messages::release_response(request, key));
        }
        let allocation = self
            .allocation
            .as_mut()
            .ok_or(RequestFailure::Code(ErrorCode::ALLOCATION_MISMATCH))?;
        allocation.refresh(self.shared.clock.monotonic());
        Ok(messages::refresh_response(request, key))
    }

    fn create_permissions(
        &mut self,
        request: &Message<'_>,
        key: &IntegrityKey,
    ) -> Result<Vec<u8>, RequestFailure> {
        let now = self.shared.clock.monotonic();
        let allocation = self
            .allocation
            .as_mut()
            .ok_or(RequestFailure::Code(ErrorCode::ALLOCATION_MISMATCH))?;
        let peers = peer_addresses(request)?;
        if peers
            .iter()
            .any(|peer| !self.shared.peers.permits(peer.ip()))
        {
            return Err(RequestFailure::Code(ErrorCode::FORBIDDEN));
        }
        peers
            .iter()
            .for_each(|peer| allocation.permit(peer.ip(), now));
        Ok(messages::success_response(request, key))
    }

    fn bind_channel(
        &mut self,
        request: &Message<'_>,
        key: &IntegrityKey,
    ) -> Result<Vec<u8>, RequestFailure> {
        let now = self.shared.clock.monotonic();
        let allocation = self
            .allocation
            .as_mut()
            .ok_or(RequestFailure::Code(ErrorCode::ALLOCATION_MISMATCH))?;
        let number = request
            .attribute::<ChannelNumber>()
            .map_err(|_| RequestFailure::Code(ErrorCode::BAD_REQUEST))?;
        let &[peer] = peer_addresses(request)?.as_slice() else {
            return Err(RequestFailure::Code(ErrorCode::BAD_REQUEST));
        };
        if self.shared.peers.bound(peer).is_none() {
            return Err(RequestFailure::Code(ErrorCode::FORBIDDEN));
        }
        // Checked before: only a media worker's address gets here.
        let bound = allocation.bind(number.channel(), peer, now);
        bound.map_err(|_| RequestFailure::Code(ErrorCode::BAD_REQUEST))?;
        Ok(messages::success_response(request, key))
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

impl Drop for TurnSession {
    fn drop(&mut self) {
        self.release();
    }
}

/// Returns the metric for a failure; `None` for the initial challenge, which every client gets.
fn refusal(failure: &RequestFailure, request: &Message<'_>) -> Option<TurnRefusal> {
    match failure {
        RequestFailure::Challenge { code, .. } => {
            let is_wrong =
                *code == ErrorCode::UNAUTHORIZED && request.has_attribute(MessageIntegrity::TYPE);
            is_wrong.then_some(TurnRefusal::Credentials)
        }
        RequestFailure::Code(ErrorCode::WRONG_CREDENTIALS) => Some(TurnRefusal::Credentials),
        RequestFailure::Code(ErrorCode::FORBIDDEN) => Some(TurnRefusal::Peer),
        RequestFailure::Code(ErrorCode::ALLOCATION_QUOTA_REACHED) => Some(TurnRefusal::Quota),
        RequestFailure::Code(ErrorCode::INSUFFICIENT_CAPACITY) => Some(TurnRefusal::Capacity),
        RequestFailure::Code(_) | RequestFailure::UnknownAttributes(_) => {
            Some(TurnRefusal::Request)
        }
    }
}

#[cfg(test)]
mod tests;
