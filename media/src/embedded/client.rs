//! State of a participant with a real client, as opposed to a sandbox participant: its tracks as clients describe them,
//! its subscriptions, and its permissions for subscribers.

use std::collections::{HashMap, HashSet};

use conclave_model::participant::{Track, TrackKind};
use conclave_model::{Identity, ParticipantSid, TrackSid};

use super::data_track::{DataHandles, DataTracks};
use super::own_metadata::OwnMetadata;
use super::room_state::media_tracks::MediaTracks;

/// Maximum number of tracks that a client can explicitly subscribe to or unsubscribe from. More are ignored.
const MAX_REQUESTED: usize = 10_000;

/// Client that is connected through signalling and media.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// The client's version of the client-to-client protocol, for other clients.
    pub client_protocol: i32,
    /// The client's capabilities, for other clients.
    pub capabilities: Vec<i32>,
    /// Metadata that the client sends with its join. Empty once applied.
    pub own_metadata: OwnMetadata,
    pub subscriptions: Subscriptions,
    /// Permissions that the client sets for its subscribers.
    pub permission: PublisherPermission,
    /// The client's announced and published tracks.
    pub tracks: MediaTracks,
    pub data_tracks: DataTracks,
    /// Handles of the data tracks that the client receives.
    pub data_handles: DataHandles,
    /// Whether the media worker has its transports.
    pub is_peer: bool,
}

impl Client {
    /// Returns the number of its tracks, including announced ones.
    pub fn track_count(&self) -> usize {
        self.tracks.len() + self.data_tracks.len()
    }
}

/// A publisher's permissions for its subscribers (`SubscriptionPermission`). By default, everyone may receive its
/// tracks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PublisherPermission(Option<PermittedTracks>);

/// Permitted tracks by a participant's identity or sid, whichever the publisher used. Maps, so that applying a long
/// list costs no more than a short one. `None` for all tracks.
#[derive(Debug, Default, PartialEq, Eq)]
struct PermittedTracks {
    by_identity: HashMap<String, Option<HashSet<String>>>,
    by_sid: HashMap<String, Option<HashSet<String>>>,
}

/// Permission for one subscriber.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReceiverPermission {
    /// The subscriber's identity; empty if it is listed by sid.
    pub identity: String,
    /// The subscriber's sid; empty if it is listed by identity.
    pub sid: String,
    /// Permitted tracks; `None` for all.
    pub tracks: Option<HashSet<String>>,
}

impl PublisherPermission {
    /// Permits only the listed subscribers.
    pub fn listed(list: Vec<ReceiverPermission>) -> Self {
        let mut permitted = PermittedTracks::default();
        for ReceiverPermission {
            identity,
            sid,
            tracks,
        } in list
        {
            // Each entry has either name. `permit` ignores the empty one.
            permit(&mut permitted.by_sid, sid, tracks.clone());
            permit(&mut permitted.by_identity, identity, tracks);
        }
        Self(Some(permitted))
    }

    /// Returns whether a participant may receive a track.
    pub fn allows(&self, identity: &Identity, sid: &ParticipantSid, track: &TrackSid) -> bool {
        // The client has not sent any permission: everyone is allowed.
        let Some(permitted) = &self.0 else {
            return true;
        };
        // The publisher may have listed the participant by either name.
        let named = [
            permitted.by_identity.get(identity.as_str()),
            permitted.by_sid.get(sid.as_str()),
        ];
        let mut named = named.into_iter().flatten();
        // A participant that is listed both by identity and by sid gets the union.
        named.any(|tracks| {
            tracks
                .as_ref()
                .is_none_or(|tracks| tracks.contains(track.as_str()))
        })
    }
}

/// Permits further tracks to a participant. Ignores an empty name.
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
    // `zip` gives `None`, all tracks, if either side is `None`.
    *known = known.take().zip(tracks).map(|(mut known, tracks)| {
        known.extend(tracks);
        known
    });
}

/// A client's requested and current subscriptions.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// Whether the client receives audio and video tracks without an explicit request (LiveKit's `autoSubscribe`).
    is_auto: bool,
    /// Whether the client receives data tracks without an explicit request.
    is_auto_data: bool,
    requested: HashMap<TrackSid, bool>,
    /// Tracks that are forwarded to the client, with their publishers.
    current: HashMap<TrackSid, ParticipantSid>,
    /// Requested tracks that it may not receive, with their publishers.
    denied: HashMap<TrackSid, ParticipantSid>,
}

/// Decision on forwarding a track to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForwardingDecision {
    /// Requested and permitted.
    Subscribed,
    /// Requested, but not permitted.
    Denied,
    /// Not requested.
    Unwanted,
}

/// Tracks whose subscriptions are updated.
#[derive(Debug, Clone, Copy)]
pub(super) enum SubscriptionScope<'a> {
    /// All tracks in the room.
    All,
    /// One publisher's tracks.
    Publisher(&'a ParticipantSid),
    /// These tracks, from any publisher.
    Tracks(&'a HashSet<TrackSid>),
}

impl SubscriptionScope<'_> {
    /// Returns whether any of a publisher's tracks may be in scope.
    pub fn may_include(self, publisher: &ParticipantSid) -> bool {
        if let Self::Publisher(of) = self {
            of == publisher
        } else {
            true
        }
    }

    /// Returns whether a publisher's track is in scope.
    pub fn includes(self, publisher: &ParticipantSid, track: &TrackSid) -> bool {
        match self {
            Self::All => true,
            Self::Publisher(of) => of == publisher,
            Self::Tracks(tracks) => tracks.contains(track),
        }
    }
}

/// Changes to a client's subscriptions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SubscriptionChanges {
    /// Tracks to start forwarding, with their publishers.
    pub subscribed: Vec<(TrackSid, ParticipantSid)>,
    /// Tracks to stop forwarding.
    pub unsubscribed: Vec<TrackSid>,
    /// Tracks that the client may or may no longer receive.
    pub permissions: Vec<(TrackSid, ParticipantSid, bool)>,
}

impl Subscriptions {
    /// Creates the subscriptions of a client that receives nothing yet. `is_auto`: all audio and video tracks count as
    /// requested.
    pub fn new(is_auto: bool) -> Self {
        Self {
            is_auto,
            ..Self::default()
        }
    }

    /// Sets whether all data tracks count as requested.
    pub fn with_data(self, is_auto_data: bool) -> Self {
        Self {
            is_auto_data,
            ..self
        }
    }

    /// Records whether the client requests a track. Returns whether that is new.
    pub fn set_wanted(&mut self, track: TrackSid, is_wanted: bool) -> bool {
        // At the limit, known tracks can still change: a client must always be able to unsubscribe.
        let is_recorded =
            self.requested.len() < MAX_REQUESTED || self.requested.contains_key(&track);
        // A repeated request changes nothing, so no subscription needs to be decided again.
        is_recorded && self.requested.insert(track, is_wanted) != Some(is_wanted)
    }

    /// Forgets the client's request for a track. Returns whether there was one.
    pub fn withdraw(&mut self, track: &TrackSid) -> bool {
        let is_wanted = self.requested.get(track) == Some(&true);
        // An explicit "unsubscribe" stays: the track must not be forwarded automatically once it is published.
        if is_wanted {
            self.requested.remove(track);
        }
        is_wanted
    }

    /// Returns whether the client requests a track, explicitly or automatically.
    pub fn wants(&self, track: &Track) -> bool {
        let is_auto = if track.kind == TrackKind::Data {
            self.is_auto_data
        } else {
            self.is_auto
        };
        self.requested.get(&track.sid).copied().unwrap_or(is_auto)
    }

    /// Returns whether a track is forwarded to the client.
    pub fn receives(&self, track: &TrackSid) -> bool {
        self.current.contains_key(track)
    }

    /// Returns whether any of this publisher's tracks is forwarded to the client.
    pub fn is_following(&self, publisher: &ParticipantSid) -> bool {
        self.current.values().any(|of| of == publisher)
    }

    /// Updates the subscriptions in scope to match `decided`. A track that is not in `decided` no longer exists.
    pub fn apply(
        &mut self,
        scope: SubscriptionScope<'_>,
        decided: &HashMap<TrackSid, (ParticipantSid, ForwardingDecision)>,
    ) -> SubscriptionChanges {
        let mut changes = SubscriptionChanges::default();
        let verdict = |track: &TrackSid| decided.get(track).map(|(_, audience)| *audience);
        // Tracks out of scope were not decided on, and stay as they are.
        let ended = self.current.extract_if(|track, of| {
            scope.includes(of, track) && verdict(track) != Some(ForwardingDecision::Subscribed)
        });
        changes.unsubscribed.extend(ended.map(|(track, _)| track));
        self.denied.retain(|track, publisher| {
            let keeps = !scope.includes(publisher, track)
                || verdict(track) == Some(ForwardingDecision::Denied);
            // A track that no longer exists needs no notice of permission: the client learns of its end.
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
                ForwardingDecision::Subscribed if !self.current.contains_key(track) => {
                    self.current.extend([entry()]);
                    changes.subscribed.push(entry());
                }
                ForwardingDecision::Denied if !self.denied.contains_key(track) => {
                    self.denied.extend([entry()]);
                    changes
                        .permissions
                        .push((track.clone(), publisher.clone(), false));
                }
                // Already in that state, or not wanted: the removals above have handled the rest.
                ForwardingDecision::Subscribed
                | ForwardingDecision::Denied
                | ForwardingDecision::Unwanted => {}
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

    fn decided(
        tracks: &[(&str, ForwardingDecision)],
    ) -> HashMap<TrackSid, (ParticipantSid, ForwardingDecision)> {
        tracks
            .iter()
            .map(|(track, audience)| (sid(track), ("PA_1".parse().unwrap(), *audience)))
            .collect()
    }

    #[test]
    fn a_track_is_subscribed_once_and_unsubscribed_when_it_is_gone() {
        let mut subscriptions = Subscriptions::default();
        let publisher: ParticipantSid = "PA_1".parse().unwrap();
        let changes = subscriptions.apply(
            SubscriptionScope::All,
            &decided(&[("TR_1", ForwardingDecision::Subscribed)]),
        );
        assert_eq!(changes.subscribed, [(sid("TR_1"), publisher.clone())]);
        let again = subscriptions.apply(
            SubscriptionScope::All,
            &decided(&[("TR_1", ForwardingDecision::Subscribed)]),
        );
        assert_eq!(again, SubscriptionChanges::default());
        // A publisher without tracks here: nothing is in scope.
        let other = "PA_2".parse().unwrap();
        assert_eq!(
            subscriptions.apply(SubscriptionScope::Publisher(&other), &decided(&[])),
            SubscriptionChanges::default()
        );
        assert_eq!(
            subscriptions
                .apply(SubscriptionScope::Publisher(&publisher), &decided(&[]))
                .unsubscribed,
            [sid("TR_1")]
        );
    }

    #[test]
    fn tracks_out_of_scope_stay_as_they_are() {
        let mut subscriptions = Subscriptions::default();
        let both = decided(&[
            ("TR_1", ForwardingDecision::Subscribed),
            ("TR_2", ForwardingDecision::Subscribed),
        ]);
        subscriptions.apply(SubscriptionScope::All, &both);
        let one = HashSet::from([sid("TR_1")]);
        let changes = subscriptions.apply(
            SubscriptionScope::Tracks(&one),
            &decided(&[("TR_1", ForwardingDecision::Unwanted)]),
        );
        assert_eq!(changes.unsubscribed, [sid("TR_1")]);
    }

    #[test]
    fn a_denial_is_notified_once_and_again_when_it_ends() {
        let mut subscriptions = Subscriptions::default();
        let permissions =
            |changes: SubscriptionChanges| changes.permissions.into_iter().map(|(.., is)| is);
        let mut permissions_sent = Vec::new();
        for audience in [
            ForwardingDecision::Denied,
            ForwardingDecision::Denied,
            ForwardingDecision::Subscribed,
            ForwardingDecision::Denied,
        ] {
            permissions_sent.extend(permissions(
                subscriptions.apply(SubscriptionScope::All, &decided(&[("TR_1", audience)])),
            ));
        }
        assert_eq!(permissions_sent, [false, true, false]);
        assert!(
            subscriptions
                .apply(SubscriptionScope::All, &decided(&[]))
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
        assert!(
            subscriptions.set_wanted(sid("TR_1"), false)
                && !subscriptions.set_wanted(sid("TR_1"), false)
        );
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
