//! A participant of a worker.

use std::collections::BTreeMap;
use std::time::Instant;

use conclave_model::TrackSid;
use str0m::change::SdpPendingOffer;
use str0m::media::Mid;

use super::data_tracks::DataTrack;
use crate::command::{ConnectionMode, NewPeer, TrackSettings};
use crate::event::ConnectionQuality;
use crate::sdp::OfferedSection;
use crate::track::{NewTrack, TrackMedium};
use crate::transport::{RoomKey, TrackKey, TransportKey};

/// A participant of a worker.
pub struct Peer {
    /// What the control side said of it, with the permissions of now.
    pub info: NewPeer,
    /// The room that the participant is in.
    pub room: RoomKey,
    /// When it came. It gets no message from before.
    pub joined_at: Instant,
    /// The connection that the client offers: the publisher's, or the only one. The null key before the first offer.
    pub publisher: TransportKey,
    /// The connection on which it receives: the subscriber's, or the only one.
    pub subscriber: TransportKey,
    /// Tracks that are admitted, but whose media section is not known yet, in the order of their announcement.
    pub announced: Vec<NewTrack>,
    /// The sections of its last offer that send, and that no track claims.
    pub unclaimed: Vec<OfferedSection>,
    /// Its tracks that have a media section.
    pub published: Vec<TrackKey>,
    /// Its data tracks.
    pub data_tracks: Vec<DataTrack>,
    /// The tracks that it is to receive, with what it asked of them.
    pub wanted: BTreeMap<TrackSid, TrackSettings>,
    /// The sections on which the server sends to it, in the order of their creation.
    pub sections: Vec<Section>,
    /// The state of the negotiation of what the server sends.
    pub negotiation: Negotiation,
    /// The number of the last reliable message that it sent.
    pub last_message_seq: u32,
    /// Whether [`Connected`](crate::PeerEvent::Connected) was sent.
    pub is_active: bool,
    /// Whether nothing arrives.
    pub silence: Silence,
    /// The level at which it was last reported to speak.
    pub speaking_level: f32,
    /// The connection quality that was last reported.
    pub reported_quality: Option<ConnectionQuality>,
    /// The bitrate that was last reported, in kilobits a second.
    pub reported_kbps: u32,
    /// Whether its transports are closed after a failure.
    pub has_failed: bool,
}

/// How long nothing has arrived of a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// For less time than counts.
    None,
    /// Long enough to say so.
    Interrupted,
    /// Long enough to give up.
    Failed,
}

/// A section of the session description on which the server sends to a participant. It exists as long as the connection and
/// carries one track after another, so that the description does not grow with every participant that comes and goes.
#[derive(Debug)]
pub struct Section {
    /// The id; `None` until it is first offered.
    pub mid: Option<Mid>,
    /// Sound or pictures.
    pub medium: TrackMedium,
    /// The track that it is to carry, in its first codec.
    pub track: Option<TrackKey>,
    /// The same track in the codec in which it is sent; `None` while it is not.
    pub sent: Option<TrackKey>,
    /// The track that was last signalled to the client.
    pub signalled: Option<TrackKey>,
    /// Whether the client can receive on it. In single mode it is its offer that says so.
    pub is_usable: bool,
    /// Whether its sources have retransmissions, as the client negotiated it.
    pub has_retransmissions: bool,
    /// Since when its track is to be sent; `None` once it has been attached.
    pub waits_since: Option<Instant>,
}

/// The state of the negotiation of what the server sends.
#[derive(Default)]
pub struct Negotiation {
    /// Dual mode: the offer that the client has not answered.
    pub outstanding: Option<OutstandingOffer>,
    /// The `id` of the last offer.
    pub last_offer_id: u32,
    /// Dual mode: whether the next offer restarts ICE.
    pub wants_ice_restart: bool,
    /// Single mode: whether the client has made an offer.
    pub has_offer: bool,
    /// Single mode: when the client was asked for an offer, if that has not come.
    pub asked_at: Option<Instant>,
    /// Dual mode: when the last offer was made.
    pub last_offer_at: Option<Instant>,
    /// When what has changed has to be signalled to the client, if anything has.
    pub needed_at: Option<Instant>,
}

/// An offer of the server that the client has not answered.
pub struct OutstandingOffer {
    /// What str0m applies when the answer comes.
    pub pending: SdpPendingOffer,
    /// The `id` of the offer.
    pub offer_id: u32,
    /// When it was made.
    pub at: Instant,
    /// The sections that it adds, by their index.
    pub new_sections: Vec<usize>,
    /// Whether it adds the data channels.
    pub has_channels: bool,
}

impl Section {
    /// Creates a section that carries nothing.
    pub fn new(mid: Option<Mid>, medium: TrackMedium) -> Self {
        Self {
            mid,
            medium,
            track: None,
            sent: None,
            signalled: None,
            is_usable: true,
            has_retransmissions: false,
            waits_since: None,
        }
    }

    /// Returns whether a track can be put on it: nothing is on it, and the client knows that.
    pub fn is_free(&self, medium: TrackMedium) -> bool {
        self.is_usable && self.medium == medium && self.track.is_none() && self.signalled.is_none()
    }
}

impl Peer {
    /// Creates a participant without transports' state.
    pub fn new(info: NewPeer, room: RoomKey, joined_at: Instant) -> Self {
        let (publisher, subscriber) = (TransportKey::default(), TransportKey::default());
        Self {
            info,
            room,
            joined_at,
            publisher,
            subscriber,
            announced: Vec::new(),
            unclaimed: Vec::new(),
            published: Vec::new(),
            data_tracks: Vec::new(),
            wanted: BTreeMap::new(),
            sections: Vec::new(),
            negotiation: Negotiation::default(),
            last_message_seq: 0,
            is_active: false,
            silence: Silence::None,
            speaking_level: 0.0,
            reported_quality: None,
            reported_kbps: 0,
            has_failed: false,
        }
    }

    /// Returns whether the participant uses one connection for both directions.
    pub fn is_single(&self) -> bool {
        self.info.mode == ConnectionMode::Single
    }

    /// Returns whether the participant has no connection: the control side sends its packets.
    pub fn is_source(&self) -> bool {
        self.info.mode == ConnectionMode::Source
    }

    /// Returns the connection whose coming up makes the participant ACTIVE.
    pub fn primary(&self) -> TransportKey {
        if self.is_single() || !self.info.is_subscriber_primary {
            self.publisher
        } else {
            self.subscriber
        }
    }

    /// Returns the connections: two, one, or none of a source.
    pub fn transports(&self) -> impl Iterator<Item = TransportKey> + use<> {
        let first = (!self.is_source()).then_some(self.publisher);
        let second = (self.info.mode == ConnectionMode::Dual).then_some(self.subscriber);
        first.into_iter().chain(second)
    }

    /// Forgets an offer that was not answered: what it adds does not exist. Returns whether the data channels are among it.
    pub fn discard_offer(&mut self) -> bool {
        let Some(offer) = self.negotiation.outstanding.take() else {
            return false;
        };
        for index in offer.new_sections {
            if let Some(section) = self.sections.get_mut(index) {
                (section.mid, section.signalled) = (None, None);
            }
        }
        offer.has_channels
    }

    /// Returns whether a section differs from what was signalled to the client.
    pub fn has_news(&self) -> bool {
        self.sections
            .iter()
            .any(|section| section.track != section.signalled)
    }

    /// Returns the index of the section that carries a track.
    pub fn section_of(&self, track: TrackKey) -> Option<usize> {
        self.sections
            .iter()
            .position(|section| section.track == Some(track))
    }
}
