//! Participants come, fail and go.

use conclave_model::NamespacedRoom;
use slotmap::Key;
use str0m::Output;

use super::Worker;
use super::room::Room;
use super::roster::Peer;
use crate::command::{ConnectionMode, NewPeer, PeerPermissions};
use crate::event::{FailureReason, PeerEvent};
use crate::transport::{PeerKey, RoomKey, Transport, TransportKey, TransportRole};

/// The most packets that a connection sends when it is closed.
const LAST_PACKETS: usize = 32;

impl Worker {
    /// Creates a participant with its connections. A sid that is known already is ignored.
    pub(super) fn add_peer(&mut self, room: &NamespacedRoom, info: NewPeer) {
        if self.peer_by_sid.contains_key(&info.sid) {
            return;
        }
        let has_capacity = self.peers.len() < self.limits.peers;
        let room = self.open_room(room);
        let sid = info.sid.clone();
        let mode = info.mode;
        let key = self.peers.insert(Peer::new(info, room, self.now));
        self.peer_by_sid.insert(sid, key);
        if let Some(room) = self.rooms.get_mut(room) {
            room.peers.push(key);
        }
        if !has_capacity {
            self.fail_peer(key, FailureReason::Capacity);
        } else if mode == ConnectionMode::Source {
            self.activate_source(key);
        } else {
            self.create_first_transport(key, mode == ConnectionMode::Single);
        }
    }

    fn open_room(&mut self, name: &NamespacedRoom) -> RoomKey {
        let rooms = &mut self.rooms;
        *self
            .room_by_name
            .entry(name.clone())
            .or_insert_with(|| rooms.insert(Room::new(name.clone())))
    }

    fn create_first_transport(&mut self, key: PeerKey, single: bool) {
        let role = if single {
            TransportRole::Single
        } else {
            TransportRole::Subscriber
        };
        let transport = self.create_transport(key, role);
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        peer.subscriber = transport;
        if single {
            peer.publisher = transport;
        } else {
            self.create_channels(transport);
            self.request_negotiation(key);
        }
    }

    /// Returns the connection that a client offers; `None` of a source. In dual mode its first offer creates that: who only
    /// receives makes none.
    pub(super) fn publisher_transport(&mut self, key: PeerKey) -> Option<TransportKey> {
        let peer = self.peers.get(key).filter(|peer| !peer.is_source())?;
        if !peer.publisher.is_null() {
            return Some(peer.publisher);
        }
        let transport = self.create_transport(key, TransportRole::Publisher);
        self.peers.get_mut(key)?.publisher = transport;
        Some(transport)
    }

    fn create_transport(&mut self, peer: PeerKey, role: TransportRole) -> TransportKey {
        let full_ice = self
            .peers
            .get(peer)
            .is_some_and(|peer| peer.info.needs_full_ice);
        let transport = Box::new(Transport::new(
            &self.settings,
            peer,
            role,
            full_ice,
            self.now,
        ));
        let ufrags: Vec<_> = transport
            .credentials
            .iter()
            .map(|credentials| credentials.ufrag.clone())
            .collect();
        let key = self.transports.insert(transport);
        for ufrag in ufrags {
            self.demux.add_ufrag(ufrag, key);
        }
        key
    }

    /// Registers the ICE credentials of a connection if they are new. The replaced ones stay valid until the next restart,
    /// since the client uses them until it has the new ones.
    pub(super) fn register_credentials(&mut self, key: TransportKey) {
        const KNOWN: usize = 3;
        let Some(transport) = self.transports.get_mut(key) else {
            return;
        };
        let Some(credentials) = transport.new_credentials() else {
            return;
        };
        self.demux.add_ufrag(credentials.ufrag.clone(), key);
        transport.credentials.push_back(credentials);
        if transport.credentials.len() > KNOWN
            && let Some(oldest) = transport.credentials.pop_front()
        {
            self.demux.remove_ufrag(&oldest.ufrag);
        }
    }

    /// Closes a participant's connections, ends its tracks and forgets it.
    pub(super) fn remove_peer(&mut self, key: PeerKey) {
        self.disconnect_peer(key);
        let Some(peer) = self.peers.remove(key) else {
            return;
        };
        self.peer_by_sid.remove(&peer.info.sid);
        if let Some(room) = self.rooms.get_mut(peer.room) {
            room.peers.retain(|other| *other != key);
            room.asked.remove(key);
        }
    }

    /// Closes a participant's connections and ends its tracks, and says why. It stays known until it is removed.
    pub(super) fn fail_peer(&mut self, key: PeerKey, reason: FailureReason) {
        let Some(peer) = self.peers.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        peer.has_failed = true;
        self.disconnect_peer(key);
        self.emit(key, PeerEvent::Failed(reason));
    }

    /// Fails a participant whose client sends more than it may.
    pub(super) fn refuse_client(&mut self, key: PeerKey, reason: FailureReason) {
        if self.peers.get(key).is_some_and(|peer| !peer.has_failed) {
            self.counters.refused_clients += 1;
            self.fail_peer(key, reason);
        }
    }

    fn disconnect_peer(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let tracks = std::mem::take(&mut peer.published);
        peer.announced.clear();
        peer.wanted.clear();
        let transports: Vec<_> = peer.transports().collect();
        for section in 0..peer.sections.len() {
            self.clear_section(key, section);
        }
        self.end_tracks(tracks);
        for transport in transports {
            self.remove_transport(transport);
        }
    }

    fn remove_transport(&mut self, key: TransportKey) {
        self.end_handshake(key);
        let Some(mut transport) = self.transports.remove(key) else {
            return;
        };
        self.has_backlog_shrunk = true;
        for credentials in &transport.credentials {
            self.demux.remove_ufrag(&credentials.ufrag);
        }
        for source in &transport.sources {
            self.demux.unbind(*source, key);
        }
        transport.close();
        for _ in 0..LAST_PACKETS {
            match transport.poll() {
                Ok(Output::Transmit(packet)) => self.outbox.push(packet),
                Ok(Output::Event(_)) => {}
                Ok(Output::Timeout(_)) | Err(_) => return,
            }
        }
    }

    /// Removes the participants of a room and forgets it.
    pub(super) fn close_room(&mut self, name: &NamespacedRoom) {
        let Some(key) = self.room_by_name.remove(name) else {
            return;
        };
        let peers = self
            .rooms
            .get_mut(key)
            .map(|room| std::mem::take(&mut room.peers))
            .unwrap_or_default();
        for peer in peers {
            self.remove_peer(peer);
        }
        self.rooms.remove(key);
    }

    /// Applies what a participant may do.
    pub(super) fn set_permissions(&mut self, key: PeerKey, permissions: PeerPermissions) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.info.permissions = permissions;
            self.allocate(key);
        }
    }

    /// Prepares a participant that resumes.
    pub(super) fn resume_peer(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        let single = peer.is_single();
        // The offer that was outstanding, or was asked for, may have been lost with the signalling.
        let lacks_channels = peer.discard_offer();
        peer.negotiation.asked_at = None;
        peer.negotiation.wants_ice_restart = !single;
        let subscriber = peer.subscriber;
        let last_message_seq = peer.last_message_seq;
        if lacks_channels {
            self.create_channels(subscriber);
        }
        self.emit(key, PeerEvent::Resumed { last_message_seq });
        self.repeat_quality_use(key);
        self.request_negotiation(key);
    }
}
