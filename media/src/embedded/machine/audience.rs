//! Who receives which track: the grants, the rules of roles, what publishers permit and what clients want.

use std::collections::{HashMap, HashSet};

use conclave_model::{ParticipantSid, TrackSid};
use conclave_sfu::PeerCommand;

use super::Machine;
use super::members::Members;
use crate::embedded::client::{Audience, PublisherPermission, Scope, SubscriptionChanges};
use crate::embedded::effect::ClientNotice;
use crate::embedded::local_participant::LocalParticipant;

impl Machine {
    /// Sets what the client of a participant wants to receive, and updates what is forwarded to it.
    pub fn wish(
        &mut self,
        sid: &ParticipantSid,
        tracks: impl IntoIterator<Item = TrackSid>,
        is_wanted: bool,
    ) {
        let Some(client) = self
            .participants
            .get_mut(sid)
            .and_then(|p| p.client.as_mut())
        else {
            return;
        };
        let new: HashSet<_> = tracks
            .into_iter()
            .filter(|track| client.subscriptions.wish(track.clone(), is_wanted))
            .collect();
        if !new.is_empty() {
            self.refresh(sid, Scope::Tracks(&new));
        }
    }

    /// Returns those of some tracks that are forwarded to the client of a participant.
    pub fn received_tracks(
        &self,
        sid: &ParticipantSid,
        mut tracks: Vec<TrackSid>,
    ) -> Vec<TrackSid> {
        let client = self
            .participants
            .get(sid)
            .and_then(|participant| participant.client.as_ref());
        tracks.retain(|track| client.is_some_and(|client| client.subscriptions.receives(track)));
        tracks
    }

    /// Returns those of some tracks that no participant publishes.
    pub fn unpublished<'a>(&self, tracks: &'a [TrackSid]) -> Vec<&'a TrackSid> {
        let published = self
            .active_members()
            .flat_map(|publisher| &publisher.participant().tracks);
        let published: HashSet<_> = published.map(|track| &track.sid).collect();
        tracks
            .iter()
            .filter(|track| !published.contains(track))
            .collect()
    }

    /// Withdraws the wish of a client for a track that is not published. Returns whether there was one.
    pub fn withdraw_wish(&mut self, sid: &ParticipantSid, track: &TrackSid) -> bool {
        let is_published = self.unpublished(std::slice::from_ref(track)).is_empty();
        let local = self
            .participants
            .get_mut(sid)
            .filter(|local| local.is_present());
        let client = local.and_then(|local| local.client.as_mut());
        client.is_some_and(|client| !is_published && client.subscriptions.withdraw(track))
    }

    /// Sets whom a publisher lets receive its tracks.
    pub fn set_publisher_permission(
        &mut self,
        sid: &ParticipantSid,
        permission: PublisherPermission,
    ) {
        let Some(client) = self
            .participants
            .get_mut(sid)
            .and_then(|p| p.client.as_mut())
        else {
            return;
        };
        if client.permission != permission {
            client.permission = permission;
            self.refresh_publisher(sid);
        }
    }

    /// Returns whether a participant's client is notified of the speech and the connection of another one: it receives a track
    /// of it, or is that participant.
    pub fn follows(&self, sid: &ParticipantSid, other: &ParticipantSid) -> bool {
        let client = self
            .participants
            .get(sid)
            .and_then(|participant| participant.client.as_ref());
        sid == other || client.is_some_and(|client| client.subscriptions.is_following(other))
    }

    /// Updates what is forwarded to a participant. What is commanded for it before its transports are with the media workers
    /// is lost, so it is called once they are.
    pub fn refresh_receiver(&mut self, sid: &ParticipantSid) {
        self.refresh(sid, Scope::All);
    }

    /// Updates to whom the tracks of a publisher are forwarded, who may have left.
    pub(super) fn refresh_publisher(&mut self, publisher: &ParticipantSid) {
        self.for_members(|machine, receiver| {
            machine.refresh(receiver, Scope::Publisher(publisher));
        });
    }

    /// Updates what is forwarded in the room.
    pub(super) fn refresh_room(&mut self) {
        self.for_members(Self::refresh_receiver);
    }

    /// Commands the media worker what the participants may do now.
    pub(super) fn refresh_permissions(&mut self) {
        self.for_members(Self::refresh_permissions_of);
    }

    /// Commands the media worker what a participant may do now.
    pub(super) fn refresh_permissions_of(&mut self, sid: &ParticipantSid) {
        if let Some(permissions) = self.peer_permissions(sid) {
            self.command_if_client(sid, PeerCommand::SetPermissions(permissions));
        }
    }

    fn for_members(&mut self, mut call: impl FnMut(&mut Self, &ParticipantSid)) {
        let members: Vec<_> = self.members.iter().cloned().collect();
        members.iter().for_each(|member| call(self, member));
    }

    /// Updates what is forwarded to a participant, of some tracks.
    fn refresh(&mut self, receiver: &ParticipantSid, scope: Scope<'_>) {
        let decided = self.decide(receiver, scope);
        let Some(local) = self.participants.get_mut(receiver) else {
            return;
        };
        let Some(client) = local.client.as_mut() else {
            return;
        };
        let changes = client.subscriptions.apply(scope, &decided);
        self.carry_out(receiver, changes);
    }

    /// Decides about each of some tracks whether it is forwarded to a participant.
    fn decide(
        &self,
        receiver: &ParticipantSid,
        scope: Scope<'_>,
    ) -> HashMap<TrackSid, (ParticipantSid, Audience)> {
        let mut decided = HashMap::new();
        let Some(local) = self.participants.get(receiver).filter(|p| p.is_present()) else {
            return decided;
        };
        let Some(client) = &local.client else {
            return decided;
        };
        let publishers = self.active_members().filter(|p| scope.may_include(p.sid()));
        for publisher in publishers.filter(|p| p.sid() != receiver && !p.grants.hidden) {
            let tracks = publisher.participant().tracks.iter();
            for track in tracks.filter(|track| scope.includes(publisher.sid(), &track.sid)) {
                let audience = match client.subscriptions.wants(track) {
                    true if may_receive(&self.members, local, publisher, &track.sid) => {
                        Audience::Subscribed
                    }
                    true if local.grants.can_subscribe => Audience::Denied,
                    _ => Audience::Unwanted,
                };
                decided.insert(track.sid.clone(), (publisher.sid().clone(), audience));
            }
        }
        decided
    }

    fn carry_out(&mut self, receiver: &ParticipantSid, changes: SubscriptionChanges) {
        for (track, publisher, is_allowed) in changes.permissions {
            self.notify(
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
            .partition(|(track, publisher)| self.has_data_track(publisher, track.as_str()));
        let assigned: Vec<_> = data
            .into_iter()
            .filter_map(|(track, publisher)| self.assign_handle(receiver, track, publisher))
            .collect();
        // A client learns of a handle before packets with it arrive.
        if has_other_handles || !assigned.is_empty() {
            self.notify(receiver, ClientNotice::DataHandlesChanged);
        }
        for command in assigned {
            self.command(receiver, command);
        }
        for (track, publisher) in media {
            // A participant of the sandbox sends no packets.
            if self
                .participants
                .get(&publisher)
                .is_some_and(|publisher| publisher.client.is_some())
            {
                self.command(receiver, PeerCommand::Subscribe(track));
            }
        }
    }

    /// Ends the forwarding of a track. Returns whether it was a data track.
    fn unsubscribe(&mut self, receiver: &ParticipantSid, track: TrackSid) -> bool {
        let client = self
            .participants
            .get_mut(receiver)
            .and_then(|local| local.client.as_mut());
        let released = client.and_then(|client| client.data_handles.release(&track));
        let is_data = released.is_some();
        let command = match released {
            Some(known) => PeerCommand::UnsubscribeDataTrack {
                publisher: known.publisher,
                track,
            },
            None => PeerCommand::Unsubscribe(track),
        };
        self.command(receiver, command);
        is_data
    }
}

/// Returns whether a participant may receive a track of another one that it sees.
pub(super) fn may_receive(
    room: &Members,
    receiver: &LocalParticipant,
    publisher: &LocalParticipant,
    track: &TrackSid,
) -> bool {
    let everyone = PublisherPermission::default();
    let permission = publisher
        .client
        .as_ref()
        .map_or(&everyone, |client| &client.permission);
    receiver.grants.can_subscribe
        && !publisher.grants.hidden
        && room.rules().receives(receiver.role(), publisher.role())
        && permission.allows(receiver.identity(), receiver.sid(), track)
}
