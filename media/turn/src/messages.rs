//! The messages of STUN and TURN: what is read of those of clients, and responses and indications as bytes.

use std::net::SocketAddr;

use stun_types::attribute::{
    AttributeType, ErrorCode, Fingerprint, MessageIntegrity, Nonce, Realm, Software,
    UnknownAttributes, Username, XorMappedAddress,
};
use stun_types::message::{
    IntegrityAlgorithm, IntegrityKey, Message, MessageHeader, MessageWriteVec, TransactionId,
};
use stun_types::prelude::{
    Attribute as _, AttributeStaticType as _, AttributeWrite, MessageWrite as _,
    MessageWriteExt as _,
};
use turn_types::attribute::{
    ChannelNumber, Data, Lifetime, RequestedAddressFamily, RequestedTransport, XorPeerAddress,
    XorRelayedAddress,
};
use turn_types::message::DATA;

use crate::allocation::LIFETIME;

/// The realm of the credentials.
pub const REALM: &str = "conclave";

/// The attributes that are understood. Others fail a request if they say that they must be.
const UNDERSTOOD: [AttributeType; 12] = [
    Username::TYPE,
    Realm::TYPE,
    Nonce::TYPE,
    MessageIntegrity::TYPE,
    Fingerprint::TYPE,
    Software::TYPE,
    Lifetime::TYPE,
    XorPeerAddress::TYPE,
    ChannelNumber::TYPE,
    RequestedTransport::TYPE,
    RequestedAddressFamily::TYPE,
    Data::TYPE,
];

/// Why a request fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The client has to authenticate, with this nonce: 401, or 438 if the one that it has used is too old.
    Challenge { code: u16, nonce: String },
    /// An attribute must be understood, and is not: 420.
    UnknownAttributes(Vec<AttributeType>),
    /// Another reason, by the code of the error response (RFC 8656, section 19).
    Code(u16),
}

/// Returns whether the length in a STUN header is that of the message.
pub fn has_own_length(bytes: &[u8]) -> bool {
    let [_, _, high, low, ..] = bytes else {
        return false;
    };
    bytes.len() == MessageHeader::LENGTH + usize::from(u16::from_be_bytes([*high, *low]))
}

/// Returns the attributes that must be understood, and are not.
pub fn unknown_attributes(request: &Message<'_>) -> Vec<AttributeType> {
    let types = request
        .iter_attributes()
        .map(|(_, attribute)| attribute.get_type());
    types
        .filter(|kind| kind.comprehension_required() && !UNDERSTOOD.contains(kind))
        .collect()
}

/// Returns whether a client asks for the end of its allocation: for a lifetime of 0.
pub fn ends_allocation(request: &Message<'_>) -> Result<bool, Failure> {
    if !request.has_attribute(Lifetime::TYPE) {
        return Ok(false);
    }
    let lifetime = request
        .attribute::<Lifetime>()
        .map_err(|_| Failure::Code(ErrorCode::BAD_REQUEST))?;
    Ok(lifetime.seconds() == 0)
}

/// Returns the peers that a request names, at least one.
pub fn peer_addresses(request: &Message<'_>) -> Result<Vec<SocketAddr>, Failure> {
    let named = request
        .iter_attributes()
        .filter(|(_, attribute)| attribute.get_type() == XorPeerAddress::TYPE);
    let peers = named.map(|(_, attribute)| XorPeerAddress::try_from(&attribute));
    let peers: Result<Vec<_>, _> = peers
        .map(|peer| peer.map(|peer| peer.addr(request.transaction_id())))
        .collect();
    peers
        .ok()
        .filter(|peers| !peers.is_empty())
        .ok_or(Failure::Code(ErrorCode::BAD_REQUEST))
}

/// Returns the peer and the payload of a Send indication.
pub fn sent_data(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let message = Message::from_bytes(bytes).ok()?;
    let peer = message
        .attribute::<XorPeerAddress>()
        .ok()?
        .addr(message.transaction_id());
    let (offset, attribute) = message.raw_attribute_and_offset(Data::TYPE)?;
    // The attribute begins with its type and its length.
    let payload = bytes.get(offset + 4..offset + 4 + usize::from(attribute.length()))?;
    Some((peer, payload))
}

/// A response under construction.
struct Response(MessageWriteVec);

impl Response {
    #[expect(
        clippy::expect_used,
        reason = "each attribute is added once, before the integrity, and is short enough"
    )]
    fn add(mut self, attribute: &dyn AttributeWrite) -> Self {
        self.0
            .add_attribute(attribute)
            .expect("an attribute that fits");
        self
    }

    /// Returns the bytes, signed if there is a key.
    #[expect(
        clippy::expect_used,
        reason = "the integrity is added once, at the end"
    )]
    fn finish(mut self, key: Option<&IntegrityKey>) -> Vec<u8> {
        if let Some(key) = key {
            self.0
                .add_message_integrity_with_key(key, IntegrityAlgorithm::Sha1)
                .expect("an integrity at the end");
        }
        self.0.finish()
    }
}

fn success(request: &Message<'_>) -> Response {
    Response(Message::builder_success(
        request,
        MessageWriteVec::with_capacity(128),
    ))
}

/// Answers a binding request: the address that the client has for this server.
pub fn bound(request: &Message<'_>, client: SocketAddr) -> Vec<u8> {
    success(request)
        .add(&XorMappedAddress::new(client, request.transaction_id()))
        .finish(None)
}

/// Answers a request that made an allocation.
pub fn allocated(
    request: &Message<'_>,
    relayed: SocketAddr,
    client: SocketAddr,
    key: &IntegrityKey,
) -> Vec<u8> {
    let id = request.transaction_id();
    success(request)
        .add(&XorRelayedAddress::new(relayed, id))
        .add(&Lifetime::new(lifetime()))
        .add(&XorMappedAddress::new(client, id))
        .finish(Some(key))
}

/// Answers a request that refreshed an allocation.
pub fn refreshed(request: &Message<'_>, key: &IntegrityKey) -> Vec<u8> {
    success(request)
        .add(&Lifetime::new(lifetime()))
        .finish(Some(key))
}

/// Answers a request that ended an allocation.
pub fn ended(request: &Message<'_>, key: &IntegrityKey) -> Vec<u8> {
    success(request).add(&Lifetime::new(0)).finish(Some(key))
}

fn lifetime() -> u32 {
    u32::try_from(LIFETIME.as_secs()).unwrap_or(u32::MAX)
}

/// Answers a request that has succeeded.
pub fn done(request: &Message<'_>, key: &IntegrityKey) -> Vec<u8> {
    success(request).finish(Some(key))
}

/// Answers a request that has failed.
#[expect(clippy::expect_used, reason = "the codes and the texts are ours")]
pub fn failed(request: &Message<'_>, failure: &Failure, key: Option<&IntegrityKey>) -> Vec<u8> {
    let code = match failure {
        Failure::Challenge { code, .. } | Failure::Code(code) => *code,
        Failure::UnknownAttributes(_) => ErrorCode::UNKNOWN_ATTRIBUTE,
    };
    let error = ErrorCode::builder(code)
        .build()
        .expect("a code of an error");
    let response = Response(Message::builder_error(
        request,
        MessageWriteVec::with_capacity(128),
    ))
    .add(&error);
    let response = match failure {
        Failure::Challenge { nonce, .. } => {
            let realm = Realm::new(REALM).expect("a short realm");
            response
                .add(&realm)
                .add(&Nonce::new(nonce).expect("a short nonce"))
        }
        Failure::UnknownAttributes(types) => response.add(&UnknownAttributes::new(types)),
        Failure::Code(_) => response,
    };
    response.finish(key)
}

/// Returns an indication of a datagram of a peer that has no channel.
pub fn data(peer: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let builder =
        Message::builder_indication(DATA, MessageWriteVec::with_capacity(payload.len() + 64));
    let id: TransactionId = builder.transaction_id();
    Response(builder)
        .add(&XorPeerAddress::new(peer, id))
        .add(&Data::new(payload))
        .finish(None)
}
