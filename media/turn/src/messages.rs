//! STUN and TURN messages: parsed requests, and responses and indications as bytes.

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

/// Realm for the credentials.
pub const REALM: &str = "conclave";

/// Supported attributes. A request with another one fails if the attribute's type requires
/// comprehension.
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

/// Reason why a request fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestFailure {
    /// Authentication required, with this nonce: 401, or 438 if the request's nonce was stale.
    Challenge { code: u16, nonce: String },
    /// An unsupported attribute requires comprehension: 420.
    UnknownAttributes(Vec<AttributeType>),
    /// Another error code (RFC 8656, section 19).
    Code(u16),
}

/// Returns whether a STUN header has the message's actual length.
pub fn has_own_length(bytes: &[u8]) -> bool {
    let [_, _, high, low, ..] = bytes else {
        return false;
    };
    // A datagram has exactly one message.
    bytes.len() == MessageHeader::LENGTH + usize::from(u16::from_be_bytes([*high, *low]))
}

/// Returns the unsupported attributes that require comprehension.
pub fn unknown_attributes(request: &Message<'_>) -> Vec<AttributeType> {
    let types = request
        .iter_attributes()
        .map(|(_, attribute)| attribute.get_type());
    types
        // Attributes from 0x8000 on are optional and ignored (RFC 8489, section 14).
        .filter(|kind| kind.comprehension_required() && !UNDERSTOOD.contains(kind))
        .collect()
}

/// Returns whether a Refresh request releases the allocation, with lifetime 0.
pub fn is_release(request: &Message<'_>) -> Result<bool, RequestFailure> {
    if !request.has_attribute(Lifetime::TYPE) {
        return Ok(false);
    }
    let lifetime = request
        .attribute::<Lifetime>()
        .map_err(|_| RequestFailure::Code(ErrorCode::BAD_REQUEST))?;
    Ok(lifetime.seconds() == 0)
}

/// Returns the peers in a request; at least one.
pub fn peer_addresses(request: &Message<'_>) -> Result<Vec<SocketAddr>, RequestFailure> {
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
        .ok_or(RequestFailure::Code(ErrorCode::BAD_REQUEST))
}

/// Returns the peer and payload in a Send indication.
pub fn send_indication(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let message = Message::from_bytes(bytes).ok()?;
    let peer = message
        .attribute::<XorPeerAddress>()
        .ok()?
        .addr(message.transaction_id());
    let (offset, attribute) = message.raw_attribute_and_offset(Data::TYPE)?;
    // The attribute starts with its type and length, two bytes each.
    let payload = bytes.get(offset + 4..offset + 4 + usize::from(attribute.length()))?;
    Some((peer, payload))
}

/// Response under construction.
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
        // Enough for an Allocate response, the longest one.
        MessageWriteVec::with_capacity(128),
    ))
}

/// Returns the response to a Binding request: the client's address as seen here.
pub fn binding_response(request: &Message<'_>, client: SocketAddr) -> Vec<u8> {
    success(request)
        .add(&XorMappedAddress::new(client, request.transaction_id()))
        .finish(None)
}

/// Returns the response to an Allocate request.
pub fn allocate_response(
    request: &Message<'_>,
    relayed: SocketAddr,
    client: SocketAddr,
    key: &IntegrityKey,
) -> Vec<u8> {
    let id = request.transaction_id();
    success(request)
        .add(&XorRelayedAddress::new(relayed, id))
        // The granted lifetime may differ from the requested one, so the client must be informed.
        .add(&Lifetime::new(lifetime()))
        .add(&XorMappedAddress::new(client, id))
        .finish(Some(key))
}

/// Returns the response to a Refresh request.
pub fn refresh_response(request: &Message<'_>, key: &IntegrityKey) -> Vec<u8> {
    success(request)
        .add(&Lifetime::new(lifetime()))
        .finish(Some(key))
}

/// Returns the response to a Refresh request that released the allocation.
pub fn release_response(request: &Message<'_>, key: &IntegrityKey) -> Vec<u8> {
    success(request).add(&Lifetime::new(0)).finish(Some(key))
}

fn lifetime() -> u32 {
    u32::try_from(LIFETIME.as_secs()).unwrap_or(u32::MAX)
}

/// Returns a success response without attributes.
pub fn success_response(request: &Message<'_>, key: &IntegrityKey) -> Vec<u8> {
    success(request).finish(Some(key))
}

/// Returns an error response.
#[expect(clippy::expect_used, reason = "the codes and the texts are ours")]
pub fn error_response(
    request: &Message<'_>,
    failure: &RequestFailure,
    key: Option<&IntegrityKey>,
) -> Vec<u8> {
    // The reason phrase is the standard one for the code.
    // 401 and 438 are the only errors with a nonce.
    let code = match failure {
        RequestFailure::Challenge { code, .. } | RequestFailure::Code(code) => *code,
        RequestFailure::UnknownAttributes(_) => ErrorCode::UNKNOWN_ATTRIBUTE,
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
        RequestFailure::Challenge { nonce, .. } => {
            let realm = Realm::new(REALM).expect("a short realm");
            response
                .add(&realm)
                .add(&Nonce::new(nonce).expect("a short nonce"))
        }
        RequestFailure::UnknownAttributes(types) => response.add(&UnknownAttributes::new(types)),
        RequestFailure::Code(_) => response,
    };
    response.finish(key)
}

/// Returns a Data indication, for a peer without a channel.
pub fn data_indication(peer: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let builder =
        // 64 bytes cover the header and the peer's address in IPv6.
        Message::builder_indication(DATA, MessageWriteVec::with_capacity(payload.len() + 64));
    let id: TransactionId = builder.transaction_id();
    Response(builder)
        .add(&XorPeerAddress::new(peer, id))
        .add(&Data::new(payload))
        .finish(None)
}
