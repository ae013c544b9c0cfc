//! TURN client messages as bytes.

use std::net::SocketAddr;

use stun_types::attribute::{ErrorCode, Nonce, Realm, Username, XorMappedAddress};
use stun_types::message::{
    BINDING, IntegrityAlgorithm, LongTermCredentials, Message, MessageClass, MessageWriteVec,
    Method,
};
use stun_types::prelude::{AttributeWrite, MessageWrite as _, MessageWriteExt as _};
use turn_types::attribute::{
    ChannelNumber, Data, Lifetime, RequestedTransport, XorPeerAddress, XorRelayedAddress,
};
use turn_types::message::{ALLOCATE, CHANNEL_BIND, CREATE_PERMISSION, REFRESH, SEND};

/// Builds a client's requests.
#[derive(Clone)]
pub struct Requests {
    username: String,
    password: String,
    /// Realm and nonce from the server.
    challenge: Option<(String, String)>,
}

/// Returns a response's error code; 0 for success.
pub fn code(response: &[u8]) -> u16 {
    let message = Message::from_bytes(response).unwrap();
    match message.class() {
        MessageClass::Success => 0,
        _ => message.attribute::<ErrorCode>().unwrap().code(),
    }
}

/// Returns the relayed address in a response.
pub fn relayed(response: &[u8]) -> SocketAddr {
    let message = Message::from_bytes(response).unwrap();
    message
        .attribute::<XorRelayedAddress>()
        .unwrap()
        .addr(message.transaction_id())
}

/// Returns the client's address as the server sees it.
pub fn mapped(response: &[u8]) -> SocketAddr {
    let message = Message::from_bytes(response).unwrap();
    message
        .attribute::<XorMappedAddress>()
        .unwrap()
        .addr(message.transaction_id())
}

/// Returns an allocation's lifetime in seconds.
pub fn lifetime(response: &[u8]) -> u32 {
    Message::from_bytes(response)
        .unwrap()
        .attribute::<Lifetime>()
        .unwrap()
        .seconds()
}

/// Returns the peer and payload in a Data indication.
pub fn indicated(bytes: &[u8]) -> (SocketAddr, Vec<u8>) {
    let message = Message::from_bytes(bytes).unwrap();
    let peer = message
        .attribute::<XorPeerAddress>()
        .unwrap()
        .addr(message.transaction_id());
    (
        peer,
        message.attribute::<Data<'_>>().unwrap().data().to_vec(),
    )
}

/// Returns channel data, padded for a stream.
pub fn channel_data(channel: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap();
    let mut bytes = [&channel.to_be_bytes(), &length.to_be_bytes(), payload].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns a Send indication.
pub fn send(peer: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut message = Message::builder_indication(SEND, MessageWriteVec::new());
    let peer = XorPeerAddress::new(peer, message.transaction_id());
    message.add_attribute(&peer).unwrap();
    message.add_attribute(&Data::new(payload)).unwrap();
    message.finish()
}

/// Returns a Binding request.
pub fn binding() -> Vec<u8> {
    Message::builder_request(BINDING, MessageWriteVec::new()).finish()
}

impl Requests {
    pub fn new(username: &str, password: &str) -> Self {
        Self {
            username: username.to_owned(),
            password: password.to_owned(),
            challenge: None,
        }
    }

    /// Records the realm and nonce in a response.
    pub fn take_challenge(&mut self, response: &[u8]) {
        let message = Message::from_bytes(response).unwrap();
        let realm = message.attribute::<Realm>().unwrap().realm().to_owned();
        self.challenge = Some((
            realm,
            message.attribute::<Nonce>().unwrap().nonce().to_owned(),
        ));
    }

    /// Returns a request, with credentials once the server has sent a challenge.
    pub fn request(
        &self,
        method: Method,
        peers: &[SocketAddr],
        attributes: &[&dyn AttributeWrite],
    ) -> Vec<u8> {
        let mut message = Message::builder_request(method, MessageWriteVec::new());
        let id = message.transaction_id();
        for attribute in attributes {
            message.add_attribute(*attribute).unwrap();
        }
        for peer in peers {
            message.push_attribute_unchecked(&XorPeerAddress::new(*peer, id));
        }
        if let Some((realm, nonce)) = &self.challenge {
            message
                .add_attribute(&Username::new(&self.username).unwrap())
                .unwrap();
            message.add_attribute(&Realm::new(realm).unwrap()).unwrap();
            message.add_attribute(&Nonce::new(nonce).unwrap()).unwrap();
            let credentials =
                LongTermCredentials::new(self.username.clone(), self.password.clone());
            let key = credentials
                .to_key(realm.clone())
                .make_key(IntegrityAlgorithm::Sha1);
            message
                .add_message_integrity_with_key(&key, IntegrityAlgorithm::Sha1)
                .unwrap();
        }
        message.finish()
    }

    pub fn allocate(&self) -> Vec<u8> {
        self.request(
            ALLOCATE,
            &[],
            &[&RequestedTransport::new(RequestedTransport::UDP)],
        )
    }

    pub fn refresh(&self, lifetime: u32) -> Vec<u8> {
        self.request(REFRESH, &[], &[&Lifetime::new(lifetime)])
    }

    pub fn permit(&self, peers: &[SocketAddr]) -> Vec<u8> {
        self.request(CREATE_PERMISSION, peers, &[])
    }

    pub fn bind(&self, channel: u16, peer: SocketAddr) -> Vec<u8> {
        self.request(CHANNEL_BIND, &[peer], &[&ChannelNumber::new(channel)])
    }
}
