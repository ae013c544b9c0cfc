//! What the plane keeps of a participant with a client of its own, as opposed to one of the sandbox: its tracks as clients
//! describe them, what it wants to receive, and whom it lets receive.

use std::collections::{HashMap, HashSet};

use conclave_model::participant::{Track, TrackKind};
use conclave_model::{Identity, ParticipantSid, TrackSid};

use super::data_track::{DataHandles, DataTracks};
use super::machine::media_tracks::MediaTracks;
use super::own_metadata::OwnMetadata;

/// Number of tracks about which a client can have a wish; more are ignored.
const MAX_WISHES: usize = 10_000;

/// A client that is connected by signalling and media.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// The client's version of the protocol between clients, for its peers.
    pub client_protocol: i32,
    /// What the client can do, for its peers.
    pub capabilities: Vec<i32>,
    /// What it says of itself when it joins. Empty once it has been applied.
    pub own_metadata: OwnMetadata,
    /// What it wants to receive, and receives.
    pub subscriptions: Subscriptions,
    /// Who may receive its tracks, as it says itself.
    pub permission: PublisherPermission,
    /// The tracks that it has announced, also those that are negotiated.
    pub tracks: MediaTracks,
    /// Its data tracks.
    pub data_tracks: DataTracks,
    /// The handles of the data tracks that it receives.
    pub data_handles: DataHandles,
    /// Whether the media worker has its transports.
    pub is_peer: bool,
}

impl Client {
    /// Returns the number of its tracks, also of those that it has announced only.
    pub fn track_count(&self) -> usize {
        self.tracks.len() + self.data_tracks.len()
    }
}

/// Whom a publisher lets receive its tracks (`SubscriptionPermission`). The default is everyone.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PublisherPermission(Option<PermittedTracks>);

/// The tracks that participants may receive, by the identity or the sid with which the publisher names them, so that the length of
/// the list costs nothing when it is applied. `None` for all tracks.
#[derive(Debug, Default, PartialEq, Eq)]
struct PermittedTracks {
    by_identity: HashMap<String, Option<HashSet<String>>>,
    by_sid: HashMap<String, Option<HashSet<String>>>,
}

/// What one participant may receive of a publisher.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReceiverPermission {
    /// The participant's identity; empty if it is named by its sid.
    pub identity: String,
    /// The participant's sid; empty if it is named by its identity.
    pub sid: String,
    /// The tracks; `None` for all.
    pub tracks: Option<HashSet<String>>,
}

impl PublisherPermission {
    /// Permits the listed participants only.
    pub fn listed(list: Vec<ReceiverPermission>) -> Self {
        let mut permitted = PermittedTracks::default();
        for ReceiverPermission {
            identity,
            sid,
            tracks,
        } in list
        {
            permit(&mut permitted.by_sid, sid, tracks.clone());
            permit(&mut permitted.by_identity, identity, tracks);
        }
        Self(Some(permitted))
    }

    /// Returns whether a participant may receive a track.
    pub fn allows(&self, identity: &Identity, sid: &ParticipantSid, track: &TrackSid) -> bool {
        let Some(permitted) = &self.0 else {
            return true;
        };
        let named = [
            permitted.by_identity.get(identity.as_str()),
            permitted.by_sid.get(sid.as_str()),
        ];
        let mut named = named.into_iter().flatten();
        named.any(|tracks| {
            tracks
                .as_ref()
                .is_none_or(|tracks| tracks.contains(track.as_str()))
        })
    }
}

/// Permits tracks to a participant, besides those that are permitted to it already. An empty name is none.
fn permit(
    permitted: &mut HashMap<String, Option<HashSet<String>>>,
    name: String,
    tracks: Option<HashSet<String>>,
) {
    if name.is_empty() {
        return;
    }
    let known = permitted
        .entry(name)
        .or_insert_with(|| Some(HashSet::new()));
    *known = known.take().zip(tracks).map(|(mut known, tracks)| {
        known.extend(tracks);
        known
    });
}

/// What a client wants to receive, and receives.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// Whether it wants the tracks of audio and video that it has said nothing about.
    is_auto: bool,
    /// The same of data tracks.
    is_auto_data: bool,
    wishes: HashMap<TrackSid, bool>,
    /// The tracks that are forwarded to it, with their publishers.
    current: HashMap<TrackSid, ParticipantSid>,
    /// The tracks that it wants and may not receive, with their publishers.
    denied: HashMap<TrackSid, ParticipantSid>,
}

/// Whether a track is forwarded to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// The client is subscribed to the track.
    Subscribed,
    /// The client wants it, and may not have it.
    Denied,
    /// The client does not want it.
    Unwanted,
}

/// The tracks whose subscriptions are brought into line.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'a> {
    /// All tracks of the room.
    All,
    /// Those of one publisher.
    Publisher(&'a ParticipantSid),
    /// Some, of any publisher.
    Tracks(&'a HashSet<TrackSid>),
}

impl Scope<'_> {
    /// Returns whether a publisher's tracks may be among them.
    pub fn may_include(self, publisher: &ParticipantSid) -> bool {
        if let Self::Publisher(of) = self {
            of == publisher
        } else {
            true
        }
    }

    /// Returns whether a track of a publisher is one of them.
    pub fn includes(self, publisher: &ParticipantSid, track: &TrackSid) -> bool {
        match self {
            Self::All => true,
            Self::Publisher(of) => of == publisher,
            Self::Tracks(tracks) => tracks.contains(track),
        }
    }
}

/// How the subscriptions of a client have changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SubscriptionChanges {
    /// Tracks that are forwarded from now on, with their publishers.
    pub subscribed: Vec<(TrackSid, ParticipantSid)>,
    /// Tracks that are no longer forwarded.
    pub unsubscribed: Vec<TrackSid>,
    /// Tracks that the client may now receive, or may no longer receive.
    pub permissions: Vec<(TrackSid, ParticipantSid, bool)>,
}

impl Subscriptions {
    /// Returns the subscriptions of a client that receives nothing yet; whether it wants all tracks of audio and video.
    pub fn new(is_auto: bool) -> Self {
        Self {
            is_auto,
            ..Self::default()
        }
    }

    /// Sets whether it wants all data tracks.
    pub fn with_data(self, is_auto_data: bool) -> Self {
        Self {
            is_auto_data,
            ..self
        }
    }

    /// Records that the client wants a track, or does not. Returns whether that is new.
    pub fn wish(&mut self, track: TrackSid, is_wanted: bool) -> bool {
        let is_recorded = self.wishes.len() < MAX_WISHES || self.wishes.contains_key(&track);
        is_recorded && self.wishes.insert(track, is_wanted) != Some(is_wanted)
    }

    /// Forgets that the client wants a track. Returns whether it did.
    pub fn withdraw(&mut self, track: &TrackSid) -> bool {
        let is_wanted = self.wishes.get(track) == Some(&true);
        if is_wanted {
            self.wishes.remove(track);
        }
        is_wanted
    }

    /// Returns whether the client wants a track.
    pub fn wants(&self, track: &Track) -> bool {
        let is_auto = if track.kind == TrackKind::Data {
            self.is_auto_data
        } else {
            self.is_auto
        };
        self.wishes.get(&track.sid).copied().unwrap_or(is_auto)
    }

    /// Returns whether a track is forwarded to the client.
    pub fn receives(&self, track: &TrackSid) -> bool {
        self.current.contains_key(track)
    }

    /// Returns whether a track of this publisher is forwarded to the client.
    pub fn is_following(&self, publisher: &ParticipantSid) -> bool {
        self.current.values().any(|of| of == publisher)
    }

    /// Brings the subscriptions to some tracks into line with what is `decided` about each of them. A track about which nothing is
    /// decided does not exist any more.
    pub fn apply(
        &mut self,
        scope: Scope<'_>,
        decided: &HashMap<TrackSid, (ParticipantSid, Audience)>,
    ) -> SubscriptionChanges {
        let mut changes = SubscriptionChanges::default();
        let verdict = |track: &TrackSid| decided.get(track).map(|(_, audience)| *audience);
        let ended = self.current.extract_if(|track, of| {
            scope.includes(of, track) && verdict(track) != Some(Audience::Subscribed)
        });
        changes.unsubscribed.extend(ended.map(|(track, _)| track));
        self.denied.retain(|track, publisher| {
            let keeps =
                !scope.includes(publisher, track) || verdict(track) == Some(Audience::Denied);
            if !keeps && verdict(track).is_some() {
                changes
                    .permissions
                    .push((track.clone(), publisher.clone(), true));
            }
            keeps
        });
        for (track, (publisher, audience)) in decided {
            let entry = || (track.clone(), publisher.clone());
            match audience {
                Audience::Subscribed if !self.current.contains_key(track) => {
                    self.current.extend([entry()]);
                    changes.subscribed.push(entry());
                }
                Audience::Denied if !self.denied.contains_key(track) => {
                    self.denied.extend([entry()]);
                    changes
                        .permissions
                        .push((track.clone(), publisher.clone(), false));
                }
                Audience::Subscribed | Audience::Denied | Audience::Unwanted => {}
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::data_track::published;

    fn sid(text: &str) -> TrackSid {
        text.parse().unwrap()
    }

    fn decided(tracks: &[(&str, Audience)]) -> HashMap<TrackSid, (ParticipantSid, Audience)> {
        tracks
            .iter()
            .map(|(track, audience)| (sid(track), ("PA_1".parse().unwrap(), *audience)))
            .collect()
    }

    #[test]
    fn a_track_is_subscribed_once_and_unsubscribed_when_it_is_gone() {
        let mut subscriptions = Subscriptions::default();
        let publisher: ParticipantSid = "PA_1".parse().unwrap();
        let changes = subscriptions.apply(Scope::All, &decided(&[("TR_1", Audience::Subscribed)]));
        assert_eq!(changes.subscribed, [(sid("TR_1"), publisher.clone())]);
        let again = subscriptions.apply(Scope::All, &decided(&[("TR_1", Audience::Subscribed)]));
        assert_eq!(again, SubscriptionChanges::default());
        let other = "PA_2".parse().unwrap();
        assert_eq!(
            subscriptions.apply(Scope::Publisher(&other), &decided(&[])),
            SubscriptionChanges::default()
        );
        assert_eq!(
            subscriptions
                .apply(Scope::Publisher(&publisher), &decided(&[]))
                .unsubscribed,
            [sid("TR_1")]
        );
    }

    #[test]
    fn tracks_out_of_scope_stay_as_they_are() {
        let mut subscriptions = Subscriptions::default();
        let both = decided(&[
            ("TR_1", Audience::Subscribed),
            ("TR_2", Audience::Subscribed),
        ]);
        subscriptions.apply(Scope::All, &both);
        let one = HashSet::from([sid("TR_1")]);
        let changes = subscriptions.apply(
            Scope::Tracks(&one),
            &decided(&[("TR_1", Audience::Unwanted)]),
        );
        assert_eq!(changes.unsubscribed, [sid("TR_1")]);
    }

    #[test]
    fn a_denial_is_notified_once_and_again_when_it_ends() {
        let mut subscriptions = Subscriptions::default();
        let permissions =
            |changes: SubscriptionChanges| changes.permissions.into_iter().map(|(.., is)| is);
        let mut told = Vec::new();
        for audience in [
            Audience::Denied,
            Audience::Denied,
            Audience::Subscribed,
            Audience::Denied,
        ] {
            told.extend(permissions(
                subscriptions.apply(Scope::All, &decided(&[("TR_1", audience)])),
            ));
        }
        assert_eq!(told, [false, true, false]);
        assert!(
            subscriptions
                .apply(Scope::All, &decided(&[]))
                .permissions
                .is_empty(),
            "the track has ended"
        );
    }

    #[test]
    fn a_publishers_list_names_participants_by_identity_or_sid_and_their_tracks() {
        let (alice, alice_sid) = ("alice".parse().unwrap(), "PA_1".parse().unwrap());
        let entry = |identity: &str, sid: &str, tracks: Option<&str>| ReceiverPermission {
            identity: identity.into(),
            sid: sid.into(),
            tracks: tracks.map(|track| HashSet::from([track.to_owned()])),
        };
        let allows =
            |list| PublisherPermission::listed(list).allows(&alice, &alice_sid, &sid("TR_1"));
        assert!(PublisherPermission::default().allows(&alice, &alice_sid, &sid("TR_1")));
        assert!(
            allows(vec![entry("alice", "", None)]) && allows(vec![entry("", "PA_1", Some("TR_1"))])
        );
        assert!(
            !allows(vec![])
                && !allows(vec![
                    entry("bob", "", None),
                    entry("alice", "", Some("TR_2"))
                ])
        );
    }

    #[test]
    fn what_a_client_says_of_a_track_overrides_its_automatic_subscription() {
        let mut subscriptions = Subscriptions::new(true);
        assert!(subscriptions.wish(sid("TR_1"), false) && !subscriptions.wish(sid("TR_1"), false));
        let track = |name: &str, kind| Track {
            kind,
            ..published(sid(name), "")
        };
        assert!(!subscriptions.wants(&track("TR_1", TrackKind::Audio)));
        assert!(subscriptions.wants(&track("TR_2", TrackKind::Audio)));
        assert!(
            !subscriptions.wants(&track("TR_2", TrackKind::Data)),
            "data tracks are not wanted unasked"
        );
    }
}
