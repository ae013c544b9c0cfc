//! What is read of messages of clients.

use std::net::SocketAddr;

use stun_types::attribute::{
    AttributeType, ErrorCode, Fingerprint, MessageIntegrity, Nonce, Realm, Software, Username,
};
use stun_types::message::{Message, MessageHeader};
use stun_types::prelude::{Attribute as _, AttributeStaticType as _};
use turn_types::attribute::{
    ChannelNumber, Data, Lifetime, RequestedAddressFamily, RequestedTransport, XorPeerAddress,
};

use crate::messages::Failure;

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
