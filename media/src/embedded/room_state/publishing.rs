//! Calls that concern publishing, receiving, participants' own metadata, and permissions.

use conclave_model::event::TrackSummary;
use conclave_model::participant::{Participant, Track};
use conclave_model::{Identity, ParticipantSid, Timestamp, TrackSid};
use conclave_sfu::{Codec, PeerCommand, SentMessage};
use livekit_protocol::{AddTrackRequest, DataTrackInfo, PublishDataTrackRequest, TrackInfo};

use super::RoomState;
use super::media_tracks::{AnnounceError, ClientMute};
use super::updates::Urgency;
use crate::embedded::announcement::MediaSection;
use crate::embedded::client::PublisherPermission;
use crate::embedded::data_track::{self, DataTrackError};
use crate::embedded::effect::ClientNotice;
use crate::embedded::error::RoomStateError;
use crate::embedded::ids::unused_id;
use crate::embedded::inbox::Notice;
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::own_metadata::{OwnMetadata, OwnMetadataError};
use crate::embedded::publish::{NewTrack, check_data, check_track};
use crate::port::{MediaEvent, RoleGrant, ServerData};

/// Tracks without packets, published by participants without a client.
impl RoomState {
    /// Publishes a sandbox participant's track.
    pub fn publish(
        &mut self,
        sid: &ParticipantSid,
        new: NewTrack,
        now: Timestamp,
    ) -> Result<Track, RoomStateError> {
        let most = self.common.max_tracks();
        let publisher = self.roster.active_mut(sid)?;
        check_track(&publisher.grants, new.kind, new.source)?;
        let tracks = &publisher.participant().tracks;
        // Bounds memory and updates: each track is part of every update of its participant.
        if tracks.len() >= most {
            return Err(RoomStateError::TooManyTracks);
        }
        let track = Track {
            sid: unused_id("TR_", |sid| tracks.iter().any(|track| track.sid == *sid)),
            kind: new.kind,
            source: new.source,
            muted: new.muted,
            name: new.name,
            width: None,
            height: None,
            simulcast: None,
            // A sandbox track has no codec, and is never recorded.
            mime_type: None,
        };
        let summary = TrackSummary::from(&track);
        publisher.add_track(track.clone());
        self.report_published(sid, summary, now);
        self.refresh_tracks_of(sid);
        Ok(track)
    }

    /// Ends a participant's track.
    pub fn unpublish(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        now: Timestamp,
    ) -> Result<(), RoomStateError> {
        let ended = self.roster.active_mut(sid)?.remove_track(track)?;
        self.report_unpublished(sid, &ended, now);
        self.refresh_tracks_of(sid);
        Ok(())
    }

    /// Mutes or unmutes a track for its publisher.
    pub fn mute(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        muted: bool,
        now: Timestamp,
    ) -> Result<Track, RoomStateError> {
        let publisher = self.roster.present_mut(sid)?;
        let (track, changed) = publisher.set_muted(track, muted)?;
        let (participant, was_reported) = (publisher.to_ref(), publisher.is_active());
        let has_client = publisher.client.is_some();
        let Some(summary) = changed else {
            return Ok(track);
        };
        // The media worker drops a muted track's packets, even if the client continues to send.
        if has_client {
            let track = track.sid.clone();
            self.outbox
                .command(sid, PeerCommand::SetMuted { track, muted });
        }
        // A joined participant's tracks are reported, with their current state, when its join is complete.
        if was_reported {
            let track = summary;
            self.outbox
                .report(now, MediaEvent::TrackMuted { participant, track });
        }
        self.notify_changed(sid);
        Ok(track)
    }

    /// Reports that an active participant publishes a track.
    fn report_published(&mut self, sid: &ParticipantSid, track: TrackSummary, now: Timestamp) {
        if let Ok(publisher) = self.roster.active(sid) {
            let participant = publisher.to_ref();
            self.outbox
                .report(now, MediaEvent::TrackPublished { participant, track });
        }
    }

    /// Reports that an active participant has ended a track.
    fn report_unpublished(&mut self, sid: &ParticipantSid, ended: &Track, now: Timestamp) {
        if let Ok(publisher) = self.roster.active(sid) {
            let (participant, track) = (publisher.to_ref(), TrackSummary::from(ended));
            self.outbox
                .report(now, MediaEvent::TrackUnpublished { participant, track });
        }
    }

    /// Notifies all others of a publisher's tracks, and updates forwarding.
    fn refresh_tracks_of(&mut self, sid: &ParticipantSid) {
        // Clients must know a track before its packets arrive.
        self.notify_changed(sid);
        self.forwarding().refresh_publisher(sid);
    }
}

/// Clients' tracks, which have packets.
impl RoomState {
    /// Admits an announced track, or a track's backup codec, and announces it to the media worker. Returns the track
    /// for clients.
    pub fn announce_track(
        &mut self,
        sid: &ParticipantSid,
        request: &AddTrackRequest,
    ) -> Result<TrackInfo, AnnounceError> {
        let most = self.common.max_tracks();
        let publisher = self.roster.present_mut(sid);
        let LocalParticipant { grants, client, .. } =
            publisher.map_err(|_| AnnounceError::NotAllowed)?;
        let client = client.as_mut().ok_or(AnnounceError::NotAllowed)?;
        let is_full = client.track_count() >= most;
        // A request with a sid announces a backup codec: only the server assigns sids.
        let (info, media) = if request.sid.is_empty() {
            client.tracks.announce(request, grants, is_full)
        } else {
            client.tracks.announce_backup(request, grants)
        }?;
        self.outbox.command(sid, PeerCommand::PublishTrack(media));
        Ok(info)
    }

    /// Publishes an announced track, which now has a media section. Has no effect if the track is already published or
    /// gone.
    pub fn track_negotiated(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        section: MediaSection,
        now: Timestamp,
    ) {
        let Some(publisher) = self.roster.get_mut(sid) else {
            return;
        };
        let client = publisher.client.as_mut();
        let Some(published) = client.and_then(|client| client.tracks.negotiate(track, section))
        else {
            return;
        };
        let summary = TrackSummary::from(&published);
        publisher.add_track(published);
        self.report_published(sid, summary, now);
        // An encoder's endpoint is publishing once its first track is.
        self.report_publishing(sid, now);
        self.refresh_tracks_of(sid);
    }

    /// Ends or withdraws a client's track.
    pub fn track_ended(&mut self, sid: &ParticipantSid, track: &TrackSid, now: Timestamp) {
        let Some(publisher) = self.roster.get_mut(sid) else {
            return;
        };
        if let Some(client) = publisher.client.as_mut() {
            client.tracks.remove(track);
        }
        // A track that was only announced is unknown to others.
        if let Ok(ended) = publisher.remove_track(track) {
            self.report_unpublished(sid, &ended, now);
            self.refresh_tracks_of(sid);
        }
    }

    /// Withdraws a track that cannot be forwarded, and notifies the client.
    pub fn track_refused(&mut self, sid: &ParticipantSid, track: &TrackSid, now: Timestamp) {
        self.track_ended(sid, track, now);
        self.notify(sid, ClientNotice::TrackUnpublished(track.clone()));
    }

    /// Records that a backup codec has a media section.
    pub fn backup_negotiated(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        section: MediaSection,
    ) {
        let client = self.roster.client_mut(sid);
        if client.is_some_and(|client| client.tracks.negotiate_backup(track, section)) {
            self.notify_changed(sid);
        }
    }

    /// Ends or withdraws a backup codec, which can then be announced again.
    pub fn backup_ended(&mut self, sid: &ParticipantSid, track: &TrackSid, codec: Codec) {
        let client = self.roster.client_mut(sid);
        if client.is_some_and(|client| client.tracks.end_backup(track, codec)) {
            self.notify_changed(sid);
        }
    }

    /// Mutes or unmutes a track for its client. Ignores an unmute that the client sent before it had followed a mute by
    /// the server.
    pub fn mute_by_client(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        muted: bool,
        now: Timestamp,
    ) {
        let Some(client) = self.roster.client_mut(sid) else {
            return;
        };
        match client.tracks.mute(track, muted) {
            ClientMute::Ignored => {}
            // Cannot fail, since the track exists.
            ClientMute::Published => drop(self.mute(sid, track, muted, now)),
            ClientMute::Announced => {
                if self.roster.present(sid).is_ok() {
                    let track = track.clone();
                    self.outbox
                        .command(sid, PeerCommand::SetMuted { track, muted });
                }
            }
        }
    }

    /// Publishes a client's data track. Returns the track for clients.
    pub fn publish_data_track(
        &mut self,
        sid: &ParticipantSid,
        request: &PublishDataTrackRequest,
        now: Timestamp,
    ) -> Result<DataTrackInfo, DataTrackError> {
        let most = self.common.max_tracks();
        let publisher = self.roster.present_mut(sid);
        let publisher = publisher.map_err(|_| DataTrackError::NotAllowed)?;
        check_data(&publisher.grants).map_err(|_| DataTrackError::NotAllowed)?;
        let client = publisher
            .client
            .as_mut()
            .ok_or(DataTrackError::NotAllowed)?;
        let is_full = client.track_count() >= most;
        let new = client.data_tracks.publish(request, is_full)?;
        // Data tracks have no media section: they are published at once.
        let published = data_track::published(new.sid.clone(), &new.info.name);
        let summary = TrackSummary::from(&published);
        publisher.add_track(published);
        let (track, handle) = (new.sid, new.handle);
        self.outbox
            .command(sid, PeerCommand::PublishDataTrack { track, handle });
        self.report_published(sid, summary, now);
        self.refresh_tracks_of(sid);
        Ok(new.info)
    }

    /// Ends a client's data track. Returns the track as clients saw it, or `None` if the client has no such track.
    pub fn unpublish_data_track(
        &mut self,
        sid: &ParticipantSid,
        handle: u32,
        now: Timestamp,
    ) -> Option<DataTrackInfo> {
        let publisher = self.roster.get_mut(sid)?;
        let info = publisher.client.as_mut()?.data_tracks.unpublish(handle)?;
        let track: TrackSid = info.sid.parse().ok()?;
        let ended = publisher.remove_track(&track);
        self.outbox
            .command(sid, PeerCommand::UnpublishDataTrack(track));
        if let Ok(ended) = ended {
            self.report_unpublished(sid, &ended, now);
            self.refresh_tracks_of(sid);
        }
        Some(info)
    }

    /// Ends the tracks that a client's grants forbid, at the media worker and at the client.
    fn end_forbidden_media(&mut self, sid: &ParticipantSid) {
        let Some(LocalParticipant { grants, client, .. }) = self.roster.get_mut(sid) else {
            return;
        };
        let Some(client) = client.as_mut() else {
            return;
        };
        for track in client.tracks.remove_forbidden(grants) {
            self.outbox
                .command(sid, PeerCommand::UnpublishTrack(track.clone()));
            self.outbox
                .notify(sid, ClientNotice::TrackUnpublished(track));
        }
        // The media worker stops forwarding these, and no longer requests them from the client.
        for (track, codec) in client.tracks.remove_forbidden_backups(grants) {
            self.outbox
                .command(sid, PeerCommand::UnpublishBackup { track, codec });
        }
        if check_data(grants).is_err() {
            for info in client.data_tracks.take_all() {
                if let Ok(track) = info.sid.parse() {
                    self.outbox
                        .command(sid, PeerCommand::UnpublishDataTrack(track));
                }
                self.outbox
                    .notify(sid, ClientNotice::DataTrackUnpublished(info));
            }
        }
    }
}

/// Subscriptions and participants' own metadata.
impl RoomState {
    /// Sets which tracks a participant's client requests, and updates forwarding.
    pub fn set_wanted(
        &mut self,
        sid: &ParticipantSid,
        tracks: impl IntoIterator<Item = TrackSid>,
        is_wanted: bool,
    ) {
        self.forwarding().set_wanted(sid, tracks, is_wanted);
    }

    /// Withdraws a client's request for an unpublished track. Returns whether there was such a request.
    pub fn withdraw_request(&mut self, sid: &ParticipantSid, track: &TrackSid) -> bool {
        // The request for a published track has been decided on, and stays.
        if self.unpublished(std::slice::from_ref(track)).is_empty() {
            return false;
        }
        let local = self.roster.present_mut(sid).ok();
        let client = local.and_then(|local| local.client.as_mut());
        client.is_some_and(|client| client.subscriptions.withdraw(track))
    }

    /// Sets which participants may receive a publisher's tracks.
    pub fn set_publisher_permission(
        &mut self,
        sid: &ParticipantSid,
        permission: PublisherPermission,
    ) {
        self.forwarding().set_publisher_permission(sid, permission);
    }

    /// Updates the tracks that are forwarded to a participant. Must be called once the media worker has its transports:
    /// earlier commands for it are lost.
    pub fn refresh_receiver(&mut self, sid: &ParticipantSid) {
        self.forwarding().refresh_receiver(sid);
    }

    /// Sends a sandbox participant's data message to all others in the room that may subscribe.
    pub fn send_data(
        &mut self,
        sid: &ParticipantSid,
        data: Vec<u8>,
        topic: Option<&str>,
        now: Timestamp,
    ) -> Result<(), RoomStateError> {
        self.messages().send(sid, data, topic, now)
    }

    /// Delivers a client's data message to participants without a client.
    pub fn message_sent(&mut self, sid: &ParticipantSid, message: &SentMessage, now: Timestamp) {
        self.messages().sent_by_client(sid, message, now);
    }

    /// Enables the media worker's message reports while a sandbox participant is there to receive them.
    pub fn refresh_message_reports(&mut self) {
        self.messages().refresh_reports();
    }

    /// Changes a participant's name, metadata or attributes for its client. Notifies all that see the participant, then
    /// confirms the client's request.
    pub fn update_own_metadata(
        &mut self,
        sid: &ParticipantSid,
        change: OwnMetadata,
        request_id: u32,
    ) -> Result<(), OwnMetadataError> {
        let local = self.roster.present_mut(sid);
        let local = local.map_err(|_| OwnMetadataError::Gone)?;
        // The client gets a confirmation even if nothing changed: its call waits for one.
        if local.set_own_metadata(change)? {
            self.notify_changed_without_tracks(sid);
        }
        self.notify(sid, ClientNotice::MetadataUpdated { request_id });
        Ok(())
    }

    /// Sets a participant's measured bitrate, in kbit/s.
    pub fn set_bitrate(
        &mut self,
        sid: &ParticipantSid,
        kbps: u32,
        now: Timestamp,
    ) -> Result<(), RoomStateError> {
        self.roster.active(sid)?;
        // A change that lasted long enough by now counts even if no tick came in between.
        self.report_limit_change(sid, now);
        self.measure(sid, kbps);
        Ok(())
    }

    fn measure(&mut self, sid: &ParticipantSid, kbps: u32) {
        if let Some(publisher) = self.roster.get_mut(sid) {
            publisher.measure(kbps, &mut self.deadlines);
        }
    }

    /// Reports that a bitrate has exceeded its limit, or fallen back below it, for long enough.
    pub(super) fn report_limit_change(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let Some(publisher) = self.roster.get_mut(sid) else {
            return;
        };
        if let Some(limit) = publisher.take_limit_change(&mut self.deadlines) {
            let participant = publisher.to_ref();
            self.outbox
                .report(now, MediaEvent::PublishLimit { participant, limit });
        }
    }
}

/// Moderation by the server.
impl RoomState {
    /// Mutes or unmutes a track on the server's request. The publisher is notified if the track's state changes.
    pub fn mute_by_server(
        &mut self,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
        now: Timestamp,
    ) -> Result<Track, RoomStateError> {
        let sid = self.roster.active_by_identity(identity)?.sid().clone();
        let publisher = self.roster.active_mut(&sid)?;
        if publisher.track_mut(track)?.muted != muted {
            // Set before the client is notified, so that an unmute that is already on its way is ignored.
            if let Some(client) = publisher.client.as_mut() {
                client.tracks.mute_by_server(track, muted);
            }
            let track_sid = track.clone();
            let notice = if muted {
                Notice::Muted { track_sid }
            } else {
                Notice::Unmuted { track_sid }
            };
            self.roster.put_into_inbox(&sid, now, notice);
            let track = track.clone();
            self.notify(&sid, ClientNotice::Muted { track, muted });
        }
        self.mute(&sid, track, muted, now)
    }

    /// Changes a participant's role on the server's request. Tracks that the new role forbids are unpublished. Returns
    /// the participant's new state.
    pub fn set_role(
        &mut self,
        identity: &Identity,
        grant: RoleGrant,
        now: Timestamp,
    ) -> Result<Participant, RoomStateError> {
        let sid = self.roster.active_by_identity(identity)?.sid().clone();
        // A change that lasted long enough by now is reported with the old limit.
        self.report_limit_change(&sid, now);
        let changed = self.roster.active_mut(&sid)?;
        let (role, was_hidden) = (grant.role.clone(), changed.grants.hidden);
        changed.set_role(grant);
        let forbidden = changed.remove_forbidden_tracks();
        let (kbps, participant) = (changed.kbps(), changed.participant().clone());
        // The others are notified of a leave; the update with the new role goes to the participant alone.
        if !was_hidden && changed.grants.hidden {
            self.notify_hidden(&sid);
        }
        let notice = Notice::RoleChanged { role: role.clone() };
        self.roster.put_into_inbox(&sid, now, notice);
        self.end_forbidden_media(&sid);
        for track in forbidden {
            self.report_unpublished(&sid, &track, now);
        }
        // The media worker applies the new permissions before clients learn of the role, so that a client that reacts
        // at once is judged by the new ones.
        self.forwarding().refresh_permissions_of(&sid);
        self.notify_changed(&sid);
        self.notify(&sid, ClientNotice::RoleChanged(role));
        self.forwarding().refresh_receiver(&sid);
        self.forwarding().refresh_publisher(&sid);
        // The role may have another bitrate limit, to which the last measurement is compared at once.
        self.measure(&sid, kbps);
        Ok(participant)
    }

    /// Changes the role of a joining participant. Returns the participant's new state.
    pub fn set_role_of_join(
        &mut self,
        sid: &ParticipantSid,
        grant: RoleGrant,
        now: Timestamp,
    ) -> Option<Participant> {
        let joining = self.roster.get_mut(sid)?;
        let (identity, role) = (joining.identity().clone(), grant.role.clone());
        // The join may have completed while the control plane decided on the role.
        if joining.is_active() {
            return self.set_role(&identity, grant, now).ok();
        }
        let has_session = joining.is_present();
        joining.set_role(grant);
        // Tracks are reported once the join is complete, so their end needs no report.
        joining.remove_forbidden_tracks();
        let participant = joining.participant().clone();
        if has_session {
            self.end_forbidden_media(sid);
            self.forwarding().refresh_permissions_of(sid);
            self.notify(sid, ClientNotice::RoleChanged(role));
            self.forwarding().refresh_receiver(sid);
        }
        Some(participant)
    }

    /// Notifies all other clients that a participant has become hidden.
    fn notify_hidden(&mut self, sid: &ParticipantSid) {
        // Taken out for a moment, since it must not get the notice of its own leave.
        if let Some(hidden) = self.roster.take(sid) {
            self.notify_gone(&hidden, Urgency::Immediate);
            self.roster.add(hidden);
        }
    }

    /// Sends a data message from the server to all participants, or to the listed ones, regardless of their grants.
    pub fn send_server_data(&mut self, message: ServerData, now: Timestamp) {
        self.messages().send_by_server(message, now);
    }
}
