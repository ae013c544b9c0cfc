//! A worker's rooms and participants.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use conclave_model::{NamespacedRoom, ParticipantSid, TrackSid};
use slotmap::SlotMap;

use super::data_tracks::DataTracks;
use super::sections::{Negotiation, RequestedOffers, Sections};
use super::session_meter::SessionMeter;
use super::shared_room::SharedRoom;
use crate::codec::Codec;
use crate::command::{ConnectionMode, NewPeer, TrackSettings};
use crate::data::RecentMessages;
use crate::event::ConnectionQuality;
use crate::mirror::WorkerId;
use crate::sdp::OfferedSection;
use crate::track::NewTrack;
use crate::transport::{PeerKey, RoomKey, TrackKey, TransportKey};

/// A worker's rooms and participants, by key and by name.
#[derive(Default)]
pub struct Roster {
    rooms: SlotMap<RoomKey, Room>,
    room_by_name: HashMap<NamespacedRoom, RoomKey>,
    peers: SlotMap<PeerKey, Peer>,
    peer_by_sid: HashMap<ParticipantSid, PeerKey>,
    /// Number of participants that are on other workers.
    mirrors: usize,
}

/// Room on a worker: its participants and their tracks.
pub struct Room {
    /// Name with the project.
    name: NamespacedRoom,
    /// Participants on this worker, in joining order.
    peers: Vec<PeerKey>,
    /// Published tracks, each in its first codec.
    pub tracks: HashMap<TrackSid, TrackKey>,
    /// Offers that were requested from clients.
    pub requested: RequestedOffers,
    /// Recent reliable messages, for participants that resume.
    pub recent: RecentMessages,
    /// Whether user messages are reported.
    pub reports_messages: bool,
    /// The other workers of the room; `None` if there are none.
    pub shared: Option<Box<SharedRoom>>,
}

/// Participant on a worker.
pub struct Peer {
    /// Participant as announced by the control side, with its current permissions.
    pub info: NewPeer,
    pub room: RoomKey,
    /// The participant's worker; `None` if it is this one. On other workers, it has no transports and receives nothing.
    home: Option<WorkerId>,
    /// Time of joining. Earlier messages are not sent to it.
    pub joined_at: Instant,
    /// Connection that the client offers: the publisher's, or the only one. Null before the first offer.
    pub publisher: TransportKey,
    /// Connection on which the participant receives: the subscriber's, or the only one.
    pub subscriber: TransportKey,
    /// Admitted tracks without a known media section, in the order of their announcement.
    pub announced: Vec<NewTrack>,
    /// Sending sections of the last offer that no track claims.
    pub unclaimed: Vec<OfferedSection>,
    /// Tracks with a media section.
    pub published: Vec<TrackKey>,
    pub data_tracks: DataTracks,
    /// Tracks to receive, with the subscriber's settings.
    pub wanted: BTreeMap<TrackSid, TrackSettings>,
    /// Sections on which the server sends, in the order of their creation.
    pub sections: Sections,
    /// Negotiation of these sections.
    pub negotiation: Negotiation,
    /// Sequence number of the participant's last reliable message.
    pub last_message_seq: u32,
    /// Whether [`Connected`](crate::PeerEvent::Connected) was reported.
    pub is_active: bool,
    /// Silence, as last reported.
    pub silence: Silence,
    /// Speaking level, as last reported.
    pub speaking_level: f32,
    /// Connection quality, as last reported.
    pub reported_quality: Option<ConnectionQuality>,
    /// Publish bitrate in kbit/s, as last reported.
    pub reported_kbps: u32,
    /// Whether the transports were closed after a failure.
    pub has_failed: bool,
    /// Quality since the last sample, and of the whole session.
    pub meter: SessionMeter,
}

/// Time without packets from a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Too short to count.
    None,
    /// Long enough to report an interruption.
    Interrupted,
    /// Long enough to fail.
    Failed,
}

impl Roster {
    /// Adds a participant, and opens its room if necessary. `None` if the sid is known already.
    pub fn add(&mut self, room: &NamespacedRoom, info: NewPeer, now: Instant) -> Option<PeerKey> {
        if self.peer_by_sid.contains_key(&info.sid) {
            return None;
        }
        let room = self.open_room(room);
        let sid = info.sid.clone();
        let key = self.peers.insert(Peer::new(info, room, now));
        self.peer_by_sid.insert(sid, key);
        if let Some(room) = self.rooms.get_mut(room) {
            room.peers.push(key);
        }
        Some(key)
    }

    /// Returns the room with this name, and opens it if necessary.
    pub fn open_room(&mut self, name: &NamespacedRoom) -> RoomKey {
        let rooms = &mut self.rooms;
        let room = self.room_by_name.entry(name.clone());
        *room.or_insert_with(|| rooms.insert(Room::new(name.clone())))
    }

    /// Adds a participant of another worker to a shared room. `None` if the sid is known already.
    pub fn add_mirror(
        &mut self,
        room: RoomKey,
        info: NewPeer,
        home: WorkerId,
        now: Instant,
    ) -> Option<PeerKey> {
        // `AddMirror` and the introduction by its worker may both announce a participant.
        if self.peer_by_sid.contains_key(&info.sid) {
            return None;
        }
        let shared = self.rooms.get_mut(room)?.shared.as_mut()?;
        let sid = info.sid.clone();
        let key = self.peers.insert(Peer {
            home: Some(home),
            ..Peer::new(info, room, now)
        });
        shared.add_mirror(key);
        self.peer_by_sid.insert(sid, key);
        self.mirrors += 1;
        Some(key)
    }

    /// Removes a participant. Its room stays open.
    pub fn remove(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.remove(key) else {
            return;
        };
        self.peer_by_sid.remove(&peer.info.sid);
        self.mirrors -= usize::from(!peer.is_here());
        if let Some(room) = self.rooms.get_mut(peer.room) {
            room.peers.retain(|other| *other != key);
            // Makes its share available to other clients' offers.
            room.requested.remove(key);
            if let Some(shared) = &mut room.shared {
                shared.remove_mirror(key);
            }
        }
    }

    /// Removes a room's name, and returns its participants. They must be removed before [`Roster::forget_room`].
    /// Nothing is signalled to the others, since the room no longer has members.
    pub fn close_room(&mut self, name: &NamespacedRoom) -> Option<(RoomKey, Vec<PeerKey>)> {
        let key = self.room_by_name.remove(name)?;
        let room = self.rooms.get_mut(key)?;
        let mut peers = std::mem::take(&mut room.peers);
        // Without this state, removing the participants sends no notices: each worker closes the room itself.
        let shared = room.shared.take();
        peers.extend(shared.iter().flat_map(|shared| shared.mirrors()));
        Some((key, peers))
    }

    /// Removes a closed room.
    pub fn forget_room(&mut self, key: RoomKey) {
        self.rooms.remove(key);
    }

    pub fn get(&self, key: PeerKey) -> Option<&Peer> {
        self.peers.get(key)
    }

    pub fn get_mut(&mut self, key: PeerKey) -> Option<&mut Peer> {
        self.peers.get_mut(key)
    }

    pub fn by_sid(&self, sid: &ParticipantSid) -> Option<PeerKey> {
        self.peer_by_sid.get(sid).copied()
    }

    /// Returns the participants on this worker.
    pub fn keys(&self) -> impl Iterator<Item = PeerKey> {
        let here = self.peers.iter().filter(|(_, peer)| peer.is_here());
        here.map(|(key, _)| key)
    }

    /// Returns the number of participants on this worker.
    pub fn len(&self) -> usize {
        // Not counted each time: the driver reads this after each batch of commands.
        self.peers.len() - self.mirrors
    }

    /// Returns whether there are no participants on this worker.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether there are neither participants nor rooms.
    #[cfg(test)]
    pub fn has_nothing(&self) -> bool {
        let has_names = !self.room_by_name.is_empty() || !self.peer_by_sid.is_empty();
        self.rooms.is_empty() && self.peers.is_empty() && !has_names
    }

    pub fn room(&self, key: RoomKey) -> Option<&Room> {
        self.rooms.get(key)
    }

    pub fn room_mut(&mut self, key: RoomKey) -> Option<&mut Room> {
        self.rooms.get_mut(key)
    }

    /// Returns the state of a shared room; `None` if the room is on this worker only.
    pub fn shared(&self, key: RoomKey) -> Option<&SharedRoom> {
        self.rooms.get(key)?.shared.as_deref()
    }

    /// Returns the state of a shared room, to change.
    pub fn shared_mut(&mut self, key: RoomKey) -> Option<&mut SharedRoom> {
        self.rooms.get_mut(key)?.shared.as_deref_mut()
    }

    /// Returns the open room with this name.
    pub fn room_named(&self, name: &NamespacedRoom) -> Option<RoomKey> {
        self.room_by_name.get(name).copied()
    }

    /// Returns a participant and its room, to change.
    pub fn with_room(&mut self, key: PeerKey) -> Option<(&mut Peer, &mut Room)> {
        let peer = self.peers.get_mut(key)?;
        let room = self.rooms.get_mut(peer.room)?;
        Some((peer, room))
    }

    /// Returns a room's participants on this worker, in joining order.
    pub fn members(&self, room: RoomKey) -> Vec<PeerKey> {
        self.rooms
            .get(room)
            .map(|room| room.peers.clone())
            .unwrap_or_default()
    }

    /// Returns the rooms with their participants on this worker.
    pub fn rooms(&self) -> Vec<(NamespacedRoom, Vec<PeerKey>)> {
        self.rooms
            .values()
            .map(|room| (room.name.clone(), room.peers.clone()))
            .collect()
    }

    /// Returns a track in a participant's room, in its first codec.
    pub fn track_in_room(&self, key: PeerKey, sid: &TrackSid) -> Option<TrackKey> {
        let room = self.rooms.get(self.peers.get(key)?.room)?;
        room.tracks.get(sid).copied()
    }

    /// Returns a participant and the name of its room.
    pub fn named(&self, key: PeerKey) -> Option<(&NamespacedRoom, &Peer)> {
        let peer = self.peers.get(key)?;
        Some((&self.rooms.get(peer.room)?.name, peer))
    }
}

impl Room {
    pub const fn name(&self) -> &NamespacedRoom {
        &self.name
    }

    /// Creates an empty room.
    fn new(name: NamespacedRoom) -> Self {
        Self {
            name,
            peers: Vec::new(),
            tracks: HashMap::new(),
            requested: RequestedOffers::default(),
            recent: RecentMessages::default(),
            reports_messages: false,
            shared: None,
        }
    }
}

impl Peer {
    /// Creates a participant without connections.
    pub fn new(info: NewPeer, room: RoomKey, joined_at: Instant) -> Self {
        let (publisher, subscriber) = (TransportKey::default(), TransportKey::default());
        let meter = SessionMeter::new(info.client.clone());
        Self {
            info,
            room,
            home: None,
            joined_at,
            publisher,
            subscriber,
            announced: Vec::new(),
            unclaimed: Vec::new(),
            published: Vec::new(),
            data_tracks: DataTracks::default(),
            wanted: BTreeMap::new(),
            sections: Sections::default(),
            negotiation: Negotiation::default(),
            last_message_seq: 0,
            is_active: false,
            silence: Silence::None,
            speaking_level: 0.0,
            reported_quality: None,
            reported_kbps: 0,
            has_failed: false,
            meter,
        }
    }

    /// Returns whether the participant is on this worker.
    pub const fn is_here(&self) -> bool {
        self.home.is_none()
    }

    /// Returns the participant's worker; `None` if it is this one.
    pub const fn home(&self) -> Option<WorkerId> {
        self.home
    }

    /// Returns whether the participant uses one connection for both directions.
    pub fn is_single(&self) -> bool {
        self.info.mode == ConnectionMode::Single
    }

    /// Returns whether the participant has no connection: the control side sends its packets.
    pub fn is_source(&self) -> bool {
        self.info.mode == ConnectionMode::Source
    }

    /// Returns the connection that makes the participant ACTIVE once it is established.
    pub fn primary(&self) -> TransportKey {
        // LiveKit's clients wait for this connection after a join (`subscriber_primary`).
        if self.is_single() || !self.info.is_subscriber_primary {
            self.publisher
        } else {
            self.subscriber
        }
    }

    /// Returns the connections: two, one, or none for a source and for a mirror.
    pub fn transports(&self) -> impl Iterator<Item = TransportKey> + use<> {
        // In dual mode, the key is null before the client's first offer, and leads to nothing.
        let first = (!self.is_source() && self.is_here()).then_some(self.publisher);
        // In single mode, both keys are the same.
        let is_dual = self.info.mode == ConnectionMode::Dual && self.is_here();
        let second = is_dual.then_some(self.subscriber);
        first.into_iter().chain(second)
    }

    /// Withdraws the admission of a backup codec.
    pub fn withdraw_backup(&mut self, sid: &TrackSid, codec: Codec) {
        self.announced
            .retain(|track| track.sid != *sid || !track.is_backup || track.codec != Some(codec));
    }

    /// Discards an unanswered offer and the sections it added. Returns whether it also added the data channels.
    pub fn discard_offer(&mut self) -> bool {
        let Some(offer) = self.negotiation.outstanding.take() else {
            return false;
        };
        // Their tracks stay assigned, so the next offer adds the sections again.
        self.sections.discard(offer.new_sections);
        offer.has_channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::tests::commands::new_peer;

    fn room(name: &str) -> NamespacedRoom {
        format!("prj_0123456789ab.{name}").parse().unwrap()
    }

    fn add(roster: &mut Roster, name: &str, sid: &str) -> Option<PeerKey> {
        let info = new_peer(sid, ConnectionMode::Single);
        roster.add(&room(name), info, Instant::now())
    }

    #[test]
    fn participants_are_members_of_their_rooms_until_they_are_removed() {
        let mut roster = Roster::default();
        let alice = add(&mut roster, "one", "PA_alice").unwrap();
        let bob = add(&mut roster, "one", "PA_bob").unwrap();
        let carol = add(&mut roster, "two", "PA_carol").unwrap();
        assert_eq!(add(&mut roster, "two", "PA_bob"), None, "it is known");
        let one = roster.room_named(&room("one")).unwrap();
        assert_eq!(roster.members(one), [alice, bob]);
        let (named, peer) = roster.named(carol).unwrap();
        assert_eq!((named, peer.info.sid.as_str()), (&room("two"), "PA_carol"));
        roster.remove(alice);
        assert_eq!(roster.members(one), [bob]);
        assert_eq!(roster.by_sid(&"PA_alice".parse().unwrap()), None);
        assert!(add(&mut roster, "one", "PA_alice").is_some());
        assert_eq!((roster.len(), roster.rooms().len()), (3, 2));
    }

    #[test]
    fn a_room_that_closes_makes_way_for_another_one_of_its_name() {
        let mut roster = Roster::default();
        let alice = add(&mut roster, "one", "PA_alice").unwrap();
        let (closed, members) = roster.close_room(&room("one")).unwrap();
        assert_eq!((members, roster.members(closed)), (vec![alice], Vec::new()));
        assert!(roster.close_room(&room("one")).is_none());
        let bob = add(&mut roster, "one", "PA_bob").unwrap();
        let opened = roster.room_named(&room("one")).unwrap();
        assert!(opened != closed && roster.members(opened) == [bob]);
        roster.remove(alice);
        roster.forget_room(closed);
        assert!(!roster.has_nothing() && roster.members(opened) == [bob]);
        roster.remove(bob);
        roster.close_room(&room("one"));
        roster.forget_room(opened);
        assert!(roster.has_nothing());
    }

    #[test]
    fn a_track_is_found_by_those_in_its_room_only() {
        let mut roster = Roster::default();
        let alice = add(&mut roster, "one", "PA_alice").unwrap();
        let bob = add(&mut roster, "two", "PA_bob").unwrap();
        let (sid, track) = ("TR_VC1".parse().unwrap(), TrackKey::default());
        let (_, room) = roster.with_room(alice).unwrap();
        room.tracks.insert(sid, track);
        let sid = "TR_VC1".parse().unwrap();
        assert_eq!(roster.track_in_room(alice, &sid), Some(track));
        assert_eq!(roster.track_in_room(bob, &sid), None);
    }
}
