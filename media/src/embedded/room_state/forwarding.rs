//! Which participant receives which track: depends on grants, role rules, publishers' permissions and clients'
//! subscriptions.
//!
//! A client's current subscriptions are in [`Subscriptions`](crate::embedded::client::Subscriptions). After each
//! change, [`Forwarding`] decides again on the tracks that it may affect, and sends the differences to the media
//! worker.

use std::collections::{HashMap, HashSet};

use conclave_model::{ParticipantSid, TrackSid};
use conclave_sfu::PeerCommand;

use super::outbox::Outbox;
use super::roster::Roster;
use crate::embedded::client::{
    ForwardingDecision, PublisherPermission, SubscriptionChanges, SubscriptionScope,
};
use crate::embedded::data_track::DataHandle;
use crate::embedded::effect::ClientNotice;

/// Forwarding of tracks in a room.
pub(super) struct Forwarding<'a> {
    roster: &'a mut Roster,
    outbox: &'a mut Outbox,
}

impl<'a> Forwarding<'a> {
    pub const fn new(roster: &'a mut Roster, outbox: &'a mut Outbox) -> Self {
        Self { roster, outbox }
    }

    /// Sets which tracks a participant's client requests, and updates forwarding.
    pub fn set_wanted(
        &mut self,
        sid: &ParticipantSid,
        tracks: impl IntoIterator<Item = TrackSid>,
        is_wanted: bool,
    ) {
        let Some(client) = self.roster.client_mut(sid) else {
            return;
        };
        let new: HashSet<_> = tracks
            .into_iter()
            // Only a new request needs a decision.
            .filter(|track| client.subscriptions.set_wanted(track.clone(), is_wanted))
            .collect();
        if !new.is_empty() {
            self.refresh(sid, SubscriptionScope::Tracks(&new));
        }
    }

    /// Sets which participants may receive a publisher's tracks.
    pub fn set_publisher_permission(
        &mut self,
        sid: &ParticipantSid,
        permission: PublisherPermission,
    ) {
        let Some(client) = self.roster.client_mut(sid) else {
            return;
        };
        // An unchanged permission needs no new decisions.
        if client.permission != permission {
            client.permission = permission;
            self.refresh_publisher(sid);
        }
    }

    /// Updates the tracks that are forwarded to a participant.
    pub fn refresh_receiver(&mut self, sid: &ParticipantSid) {
        self.refresh(sid, SubscriptionScope::All);
    }

    /// Updates the receivers of a publisher's tracks. The publisher may have left.
    pub fn refresh_publisher(&mut self, publisher: &ParticipantSid) {
        self.for_members(|forwarding, receiver| {
            forwarding.refresh(receiver, SubscriptionScope::Publisher(publisher));
        });
    }

    /// Updates permissions and forwarding for the whole room.
    pub fn refresh_room(&mut self) {
        self.for_members(Self::refresh_permissions_of);
        self.for_members(Self::refresh_receiver);
    }

    /// Sends a participant's current permissions to the media worker.
    pub fn refresh_permissions_of(&mut self, sid: &ParticipantSid) {
        if self.roster.client(sid).is_some()
            && let Some(permissions) = self.roster.permissions(sid)
        {
            self.outbox
                .command(sid, PeerCommand::SetPermissions(permissions));
        }
    }

    fn for_members(&mut self, mut call: impl FnMut(&mut Self, &ParticipantSid)) {
        // Copied, since each call borrows the roster mutably.
        let seats: Vec<_> = self.roster.seats().iter().cloned().collect();
        seats.iter().for_each(|member| call(self, member));
    }

    /// Updates which of the tracks in `scope` are forwarded to a participant.
    fn refresh(&mut self, receiver: &ParticipantSid, scope: SubscriptionScope<'_>) {
        let decided = self.decide(receiver, scope);
        let Some(client) = self.roster.client_mut(receiver) else {
            return;
        };
        let changes = client.subscriptions.apply(scope, &decided);
        self.carry_out(receiver, changes);
    }

    /// Decides for each track in `scope` whether it is forwarded to a participant.
    fn decide(
        &self,
        receiver: &ParticipantSid,
        scope: SubscriptionScope<'_>,
    ) -> HashMap<TrackSid, (ParticipantSid, ForwardingDecision)> {
        let mut decided = HashMap::new();
        // Nothing is forwarded before the participant is admitted: its transports do not exist yet.
        let Ok(local) = self.roster.present(receiver) else {
            return decided;
        };
        let Some(client) = &local.client else {
            return decided;
        };
        let publishers = self
            .roster
            .active_members()
            // Filtered before the tracks are read: a publisher's change in a large room touches one publisher, not all.
            .filter(|p| scope.may_include(p.sid()));
        // A hidden publisher's tracks are not even denied: clients must not learn of them.
        for publisher in publishers.filter(|p| p.sid() != receiver && !p.grants.hidden) {
            let tracks = publisher.participant().tracks.iter();
            for track in tracks.filter(|track| scope.includes(publisher.sid(), &track.sid)) {
                let audience = match client.subscriptions.wants(track) {
                    true if self.roster.may_receive(local, publisher, &track.sid) => {
                        ForwardingDecision::Subscribed
                    }
                    // A client that may not subscribe at all is not notified of each denied track: its permission
                    // covers all of them.
                    true if local.grants.can_subscribe => ForwardingDecision::Denied,
                    _ => ForwardingDecision::Unwanted,
                };
                decided.insert(track.sid.clone(), (publisher.sid().clone(), audience));
            }
        }
        decided
    }

    fn carry_out(&mut self, receiver: &ParticipantSid, changes: SubscriptionChanges) {
        for (track, publisher, is_allowed) in changes.permissions {
            self.outbox.notify(
                receiver,
                ClientNotice::SubscriptionPermission {
                    publisher,
                    track,
                    is_allowed,
                },
            );
        }
        let mut has_other_handles = false;
        for track in changes.unsubscribed {
            has_other_handles |= self.unsubscribe(receiver, track);
        }
        let (data, media): (Vec<_>, Vec<_>) = changes
            .subscribed
            .into_iter()
            .partition(|(track, publisher)| self.is_data_track(publisher, track));
        let assigned: Vec<_> = data
            .into_iter()
            .filter_map(|(track, publisher)| self.assign_handle(receiver, track, publisher))
            .collect();
        // The client must know a handle before packets with it arrive.
        if has_other_handles || !assigned.is_empty() {
            self.outbox
                .notify(receiver, ClientNotice::DataHandlesChanged);
        }
        for command in assigned {
            self.outbox.command(receiver, command);
        }
        for (track, publisher) in media {
            // Sandbox participants send no packets.
            if self.roster.client(&publisher).is_some() {
                self.outbox.command(receiver, PeerCommand::Subscribe(track));
            }
        }
    }

    fn is_data_track(&self, publisher: &ParticipantSid, track: &TrackSid) -> bool {
        self.roster
            .client(publisher)
            .is_some_and(|client| client.data_tracks.contains(track.as_str()))
    }

    /// Assigns a handle to a data track for a subscriber, and returns the command to forward it.
    fn assign_handle(
        &mut self,
        receiver: &ParticipantSid,
        track: TrackSid,
        publisher: ParticipantSid,
    ) -> Option<PeerCommand> {
        // Without a free handle, the track is not forwarded: 65,535 are enough for any room.
        let client = self.roster.client_mut(receiver)?;
        let handle = client
            .data_handles
            .assign(track.clone(), publisher.clone())?;
        Some(PeerCommand::SubscribeDataTrack {
            publisher,
            track,
            handle,
        })
    }

    /// Stops forwarding a track. Returns whether it was a data track.
    fn unsubscribe(&mut self, receiver: &ParticipantSid, track: TrackSid) -> bool {
        let client = self.roster.client_mut(receiver);
        // The track may be unpublished already. Its handle is the only trace that it was a data track.
        let released = client.and_then(|client| client.data_handles.release(&track));
        let is_data = released.is_some();
        let command = match released {
            Some(known) => PeerCommand::UnsubscribeDataTrack {
                publisher: known.publisher,
                track,
            },
            None => PeerCommand::Unsubscribe(track),
        };
        self.outbox.command(receiver, command);
        is_data
    }
}

/// Returns the tracks that a participant may receive.
pub(super) fn subscriptions(roster: &Roster, sid: &ParticipantSid) -> Vec<TrackSid> {
    // The sandbox also asks for participants that have left.
    let Ok(receiver) = roster.active(sid) else {
        return Vec::new();
    };
    roster
        .active_members()
        .filter(|publisher| publisher.sid() != sid)
        .flat_map(|publisher| {
            let tracks = publisher.participant().tracks.iter();
            tracks.map(move |track| (publisher, &track.sid))
        })
        .filter(|(publisher, track)| roster.may_receive(receiver, publisher, track))
        .map(|(_, track)| track.clone())
        .collect()
}

/// Returns the tracks in `tracks` that no participant publishes.
pub(super) fn unpublished<'a>(roster: &Roster, tracks: &'a [TrackSid]) -> Vec<&'a TrackSid> {
    let published = roster
        .active_members()
        .flat_map(|publisher| &publisher.participant().tracks);
    let published: HashSet<_> = published.map(|track| &track.sid).collect();
    tracks
        .iter()
        .filter(|track| !published.contains(track))
        .collect()
}

/// Returns the data tracks that a client receives, each with its handle and its publisher's identity.
pub(super) fn data_handles(
    roster: &Roster,
    sid: &ParticipantSid,
) -> Vec<(TrackSid, DataHandle, String)> {
    let Some(client) = roster
        .client(sid)
        .filter(|client| client.data_handles.are_used())
    else {
        return Vec::new();
    };
    let known = client.data_handles.iter();
    let named = known.map(|(track, known)| {
        let publisher = roster.get(&known.publisher);
        let identity = publisher
            // A publisher that has just left is no longer in the roster; the client gets the next list without its
            // tracks.
            .map(|publisher| publisher.identity().to_string())
            .unwrap_or_default();
        (track.clone(), known.clone(), identity)
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use conclave_model::participant::{Track, TrackKind};
    use conclave_sfu::Command;

    use super::*;
    use crate::embedded::client::{Client, Subscriptions};
    use crate::embedded::data_track::published;
    use crate::embedded::effect::RoomEffect;
    use crate::embedded::local_participant::LocalParticipant;
    use crate::embedded::room_state::tests::{NOW, claims, room};

    /// Adds an active participant with a client that receives all audio and video.
    fn add(roster: &mut Roster, identity: &str) -> ParticipantSid {
        let sid: ParticipantSid = format!("PA_{identity}").parse().unwrap();
        let client = Client {
            subscriptions: Subscriptions::new(true),
            ..Client::default()
        };
        let claims = claims(&room(), identity, None);
        let mut local = LocalParticipant::new(sid.clone(), claims, NOW).with_client(client);
        local.activate();
        roster
            .seats_mut()
            .insert(local.identity().clone(), sid.clone(), NOW);
        roster.add(local);
        sid
    }

    /// Returns the commands as texts: `+` and `-` with the track.
    fn commands(outbox: &mut Outbox) -> Vec<String> {
        let text = |effect| match effect {
            RoomEffect::Command(Command::Peer { command, .. }) => match command {
                PeerCommand::Subscribe(track) => format!("+{track}"),
                PeerCommand::Unsubscribe(track) => format!("-{track}"),
                _ => "other".into(),
            },
            _ => "notice".into(),
        };
        outbox.take_effects().into_iter().map(text).collect()
    }

    #[test]
    fn a_track_is_forwarded_while_it_is_wanted_permitted_and_published() {
        let (mut roster, mut outbox) = (Roster::new(false), Outbox::new(room()));
        let (alice, bob) = (add(&mut roster, "alice"), add(&mut roster, "bob"));
        let track: TrackSid = "TR_1".parse().unwrap();
        roster.get_mut(&alice).unwrap().add_track(Track {
            kind: TrackKind::Video,
            ..published(track.clone(), "")
        });
        let mut refresh = |run: &dyn Fn(&mut Forwarding<'_>)| {
            run(&mut Forwarding::new(&mut roster, &mut outbox));
            commands(&mut outbox)
        };
        assert_eq!(refresh(&|f| f.refresh_publisher(&alice)), ["+TR_1"]);
        assert_eq!(
            refresh(&|f| f.refresh_receiver(&bob)),
            [""; 0],
            "nothing has changed"
        );
        assert_eq!(
            refresh(&|f| f.set_wanted(&bob, [track.clone()], false)),
            ["-TR_1"]
        );
        assert_eq!(
            refresh(&|f| f.set_wanted(&bob, [track.clone()], true)),
            ["+TR_1"]
        );
        let nobody = || PublisherPermission::listed(Vec::new());
        let denied = refresh(&|f| f.set_publisher_permission(&alice, nobody()));
        assert_eq!(denied, ["notice", "-TR_1"]);
        assert_eq!(
            refresh(&|f| f.set_publisher_permission(&alice, nobody())),
            [""; 0]
        );
        assert!(subscriptions(&roster, &bob).is_empty());
        assert_eq!(
            unpublished(&roster, &[track, "TR_2".parse().unwrap()]).len(),
            1
        );
    }
}
