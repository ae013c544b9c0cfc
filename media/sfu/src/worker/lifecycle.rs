//! Participants: join, failure, leave.

use conclave_model::NamespacedRoom;
use slotmap::Key;

use super::Worker;
use crate::command::{ConnectionMode, NewPeer, PeerPermissions};
use crate::event::{FailureReason, PeerEvent};
use crate::transport::{PeerKey, TransportError, TransportKey, TransportRole};

impl Worker {
    /// Adds a participant with its connections. A known sid is ignored.
    pub(super) fn add_peer(&mut self, room: &NamespacedRoom, info: NewPeer) {
        // Counted before it is added. It is added even without capacity: a failure is reported for a known participant
        // only, and the control side then removes it.
        let has_capacity = self.roster.len() < self.limits.peers;
        let mode = info.mode;
        let Some(key) = self.roster.add(room, info, self.now) else {
            return;
        };
        if !has_capacity {
            self.fail_peer(key, FailureReason::Capacity);
        } else if mode == ConnectionMode::Source {
            self.activate_source(key);
        } else {
            self.create_first_transport(key, mode == ConnectionMode::Single);
        }
    }

    fn create_first_transport(&mut self, key: PeerKey, single: bool) {
        let role = if single {
            TransportRole::Single
        } else {
            TransportRole::Subscriber
        };
        let transport = self.create_transport(key, role);
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        peer.subscriber = transport;
        if single {
            peer.publisher = transport;
        } else {
            // In dual mode the server offers first. In single mode the client does, and creates the data channels.
            self.create_channels(transport);
            self.request_negotiation(key);
        }
    }

    /// Returns the connection that a client offers; `None` for a source. In dual mode it is created by the client's
    /// first offer, which a client that only receives never makes.
    pub(super) fn publisher_transport(&mut self, key: PeerKey) -> Option<TransportKey> {
        let peer = self.roster.get(key).filter(|peer| !peer.is_source())?;
        if !peer.publisher.is_null() {
            return Some(peer.publisher);
        }
        let transport = self.create_transport(key, TransportRole::Publisher);
        self.roster.get_mut(key)?.publisher = transport;
        Some(transport)
    }

    fn create_transport(&mut self, peer: PeerKey, role: TransportRole) -> TransportKey {
        let full_ice = self
            .roster
            .get(peer)
            .is_some_and(|peer| peer.info.needs_full_ice);
        self.connections.create(peer, role, full_ice, self.now)
    }

    /// Closes a participant's connections, ends its tracks and removes it.
    pub(super) fn remove_peer(&mut self, key: PeerKey) {
        self.disconnect_peer(key);
        self.roster.remove(key);
    }

    /// Closes a participant's connections, ends its tracks and reports the reason. The participant stays known until it
    /// is removed.
    pub(super) fn fail_peer(&mut self, key: PeerKey, reason: FailureReason) {
        let Some(peer) = self.roster.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        // Set first: everything below ignores failed participants, and the failure is reported once.
        peer.has_failed = true;
        peer.meter.record_failure(reason);
        self.share_failure(key);
        self.disconnect_peer(key);
        self.report(key, PeerEvent::Failed(reason));
    }

    /// Fails a participant whose client exceeds a limit.
    pub(super) fn refuse_client(&mut self, key: PeerKey, reason: FailureReason) {
        if self.roster.get(key).is_some_and(|peer| !peer.has_failed) {
            self.outputs.count_refused_client();
            self.fail_peer(key, reason);
        }
    }

    pub(super) fn disconnect_peer(&mut self, key: PeerKey) {
        // First, since it reads the connections and tracks that are removed below.
        self.report_last_quality(key);
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        let tracks = std::mem::take(&mut peer.published);
        // Without wishes, the sections below are not assigned again.
        peer.announced.clear();
        peer.wanted.clear();
        let transports: Vec<_> = peer.transports().collect();
        // Before the connections are removed: sections release their sources on them.
        for section in 0..peer.sections.len() {
            self.clear_section(key, section);
        }
        self.end_tracks(tracks);
        for transport in transports {
            self.connections.remove(transport, self.outputs.outbox());
        }
    }

    /// Removes a room with its participants.
    pub(super) fn close_room(&mut self, name: &NamespacedRoom) {
        let Some((room, peers)) = self.roster.close_room(name) else {
            return;
        };
        for peer in peers {
            self.remove_peer(peer);
        }
        // Last, since removing a participant needs its room.
        self.roster.forget_room(room);
    }

    /// Applies a participant's permissions.
    pub(super) fn set_permissions(&mut self, key: PeerKey, permissions: PeerPermissions) {
        if let Some(peer) = self.roster.get_mut(key) {
            peer.info.permissions = permissions;
            // The role may limit the bitrate to the participant.
            self.allocate(key);
        }
    }

    /// Prepares a participant that resumes.
    pub(super) fn resume_peer(&mut self, key: PeerKey) {
        let Some(peer) = self.roster.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        let single = peer.is_single();
        // The outstanding or requested offer may have been lost with the signalling connection.
        let lacks_channels = peer.discard_offer();
        peer.negotiation.requested_at = None;
        // In single mode, the client's own offer restarts ICE.
        peer.negotiation.wants_ice_restart = !single;
        let subscriber = peer.subscriber;
        let last_message_seq = peer.last_message_seq;
        peer.meter.count_reconnect();
        if lacks_channels {
            self.create_channels(subscriber);
        }
        self.emit(key, PeerEvent::Resumed { last_message_seq });
        self.repeat_quality_use(key);
        self.request_negotiation(key);
    }

    /// Activates a participant without a connection immediately.
    fn activate_source(&mut self, key: PeerKey) {
        if let Some(peer) = self.roster.get_mut(key) {
            peer.is_active = true;
            peer.meter.start(self.now);
        }
        self.emit(key, PeerEvent::Connected);
    }

    pub(super) fn handle_connected(&mut self, key: TransportKey) {
        let Some(peer_key) = self.connections.connect(key) else {
            return;
        };
        let Some(peer) = self.roster.get_mut(peer_key) else {
            return;
        };
        // The other connection of dual mode may come up much later, or never.
        if peer.primary() == key && !peer.is_active {
            peer.is_active = true;
            peer.meter.start(self.now);
            self.emit(peer_key, PeerEvent::Connected);
        }
        // Key frame requests before this moment were pointless: nothing could be sent.
        self.request_key_frames_of(peer_key);
    }

    pub(super) fn handle_closed(&mut self, key: TransportKey) {
        if let Some(transport) = self.connections.get(key) {
            self.fail_peer(transport.peer(), FailureReason::Closed);
        }
    }

    pub(super) fn fail_transport(&mut self, key: TransportKey, error: &TransportError) {
        let Some(transport) = self.connections.get(key) else {
            return;
        };
        let peer = transport.peer();
        self.warn(peer, "a media connection failed", error);
        self.fail_peer(peer, FailureReason::Closed);
    }
}
