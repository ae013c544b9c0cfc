//! The calls about what participants publish and receive, what they say of themselves, and what the server lets them do.

use conclave_model::event::TrackSummary;
use conclave_model::participant::{Participant, Track};
use conclave_model::{Identity, ParticipantSid, Timestamp, TrackSid};
use conclave_sfu::{Codec, PeerCommand, SentMessage};
use livekit_protocol::{AddTrackRequest, DataTrackInfo, PublishDataTrackRequest, TrackInfo};

use super::Machine;
use super::media_tracks::{AnnounceError, ClientMute};
use super::updates::Urgency;
use crate::embedded::announcement::MediaSection;
use crate::embedded::client::PublisherPermission;
use crate::embedded::data_track::{self, DataTrackError};
use crate::embedded::effect::ClientNotice;
use crate::embedded::error::MachineError;
use crate::embedded::ids::unused_id;
use crate::embedded::inbox::Notice;
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::own_metadata::{OwnMetadata, OwnMetadataError};
use crate::embedded::publish::{NewTrack, check_data, check_track};
use crate::port::{MediaEvent, RoleGrant, ServerData};

/// Tracks of participants without a client.
impl Machine {
    /// A participant publishes a track.
    pub fn publish(
        &mut self,
        sid: &ParticipantSid,
        new: NewTrack,
        now: Timestamp,
    ) -> Result<Track, MachineError> {
        let most = self.common.max_tracks();
        let publisher = self.roster.active_mut(sid)?;
        check_track(&publisher.grants, new.kind, new.source)?;
        let tracks = &publisher.participant().tracks;
        if tracks.len() >= most {
            return Err(MachineError::TooManyTracks);
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
            mime_type: None,
        };
        let summary = TrackSummary::from(&track);
        publisher.add_track(track.clone());
        self.report_published(sid, summary, now);
        self.refresh_tracks_of(sid);
        Ok(track)
    }

    /// A participant ends a track.
    pub fn unpublish(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        let ended = self.roster.active_mut(sid)?.remove_track(track)?;
        self.report_unpublished(sid, &ended, now);
        self.refresh_tracks_of(sid);
        Ok(())
    }

    /// A participant mutes or unmutes its own track.
    pub fn mute(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        muted: bool,
        now: Timestamp,
    ) -> Result<Track, MachineError> {
        let publisher = self.roster.present_mut(sid)?;
        let (track, changed) = publisher.set_muted(track, muted)?;
        let (participant, was_reported) = (publisher.to_ref(), publisher.is_active());
        let has_client = publisher.client.is_some();
        let Some(summary) = changed else {
            return Ok(track);
        };
        if has_client {
            let track = track.sid.clone();
            self.outbox
                .command(sid, PeerCommand::SetMuted { track, muted });
        }
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

    /// Lets all others know of the tracks of a publisher, and receive them.
    fn refresh_tracks_of(&mut self, sid: &ParticipantSid) {
        self.notify_changed(sid);
        self.forwarding().refresh_publisher(sid);
    }
}

/// Tracks of clients, which have packets.
impl Machine {
    /// Admits a track that a client announces, or a backup codec of one, and lets the media worker know it. Returns the track as clients see
    /// it.
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
        let (info, media) = if request.sid.is_empty() {
            client.tracks.announce(request, grants, is_full)
        } else {
            client.tracks.announce_backup(request, grants)
        }?;
        self.outbox.command(sid, PeerCommand::PublishTrack(media));
        Ok(info)
    }

    /// A track of a client has a media section: it is published. Without effect if the track is published or gone.
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
        self.note_publishing(sid, now);
        self.refresh_tracks_of(sid);
    }

    /// A client ended its track, or withdrew one that it had announced.
    pub fn track_ended(&mut self, sid: &ParticipantSid, track: &TrackSid, now: Timestamp) {
        let Some(publisher) = self.roster.get_mut(sid) else {
            return;
        };
        if let Some(client) = publisher.client.as_mut() {
            client.tracks.remove(track);
        }
        if let Ok(ended) = publisher.remove_track(track) {
            self.report_unpublished(sid, &ended, now);
            self.refresh_tracks_of(sid);
        }
    }

    /// A client offers a track that cannot be forwarded: it is withdrawn, and the client notified.
    pub fn track_refused(&mut self, sid: &ParticipantSid, track: &TrackSid, now: Timestamp) {
        self.track_ended(sid, track, now);
        self.notify(sid, ClientNotice::TrackUnpublished(track.clone()));
    }

    /// A backup codec of a track has a media section.
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

    /// A client ended a backup codec of its track, or withdrew one that it had announced. It can announce it again.
    pub fn backup_ended(&mut self, sid: &ParticipantSid, track: &TrackSid, codec: Codec) {
        let client = self.roster.client_mut(sid);
        if client.is_some_and(|client| client.tracks.end_backup(track, codec)) {
            self.notify_changed(sid);
        }
    }

    /// A client mutes or unmutes its track. An unmute that it sent before it had followed a mute of the server is ignored.
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
            // The track exists, so the error cannot happen.
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

    /// Publishes a data track of a client. Returns the track as clients see it.
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

    /// Ends a data track of a client. Returns the track as clients saw it; `None` if it has no such track.
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

    /// Ends the tracks of a client that its grants forbid: at the media worker, and at the client.
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
        // The media worker forwards these no more, and asks for none of them.
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

/// What clients receive, and what they say of themselves.
impl Machine {
    /// Sets what the client of a participant wants to receive, and updates what is forwarded to it.
    pub fn wish(
        &mut self,
        sid: &ParticipantSid,
        tracks: impl IntoIterator<Item = TrackSid>,
        is_wanted: bool,
    ) {
        self.forwarding().wish(sid, tracks, is_wanted);
    }

    /// Withdraws the wish of a client for a track that is not published. Returns whether there was one.
    pub fn withdraw_wish(&mut self, sid: &ParticipantSid, track: &TrackSid) -> bool {
        if self.unpublished(std::slice::from_ref(track)).is_empty() {
            return false;
        }
        let local = self.roster.present_mut(sid).ok();
        let client = local.and_then(|local| local.client.as_mut());
        client.is_some_and(|client| client.subscriptions.withdraw(track))
    }

    /// Sets whom a publisher lets receive its tracks.
    pub fn set_publisher_permission(
        &mut self,
        sid: &ParticipantSid,
        permission: PublisherPermission,
    ) {
        self.forwarding().set_publisher_permission(sid, permission);
    }

    /// Updates what is forwarded to a participant. What is commanded for it before its transports are with the media workers
    /// is lost, so it is called once they are.
    pub fn refresh_receiver(&mut self, sid: &ParticipantSid) {
        self.forwarding().refresh_receiver(sid);
    }

    /// A participant of the sandbox sends a data message to all others in its room that may subscribe.
    pub fn send_data(
        &mut self,
        sid: &ParticipantSid,
        data: Vec<u8>,
        topic: Option<&str>,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        self.messages().send(sid, data, topic, now)
    }

    /// A participant with a client sent a data message: those without one receive it.
    pub fn message_sent(&mut self, sid: &ParticipantSid, message: &SentMessage, now: Timestamp) {
        self.messages().sent_by_client(sid, message, now);
    }

    /// Lets the media worker report messages if a participant of the sandbox is there to receive them.
    pub fn refresh_message_reports(&mut self) {
        self.messages().refresh_reports();
    }

    /// A client changes the name, metadata or attributes of its participant. All who see it are notified, and then the client that its
    /// request has been carried out.
    pub fn update_own_metadata(
        &mut self,
        sid: &ParticipantSid,
        change: OwnMetadata,
        request_id: u32,
    ) -> Result<(), OwnMetadataError> {
        let local = self.roster.present_mut(sid);
        let local = local.map_err(|_| OwnMetadataError::Gone)?;
        if local.set_own_metadata(change)? {
            self.notify_changed_beside_tracks(sid);
        }
        self.notify(sid, ClientNotice::MetadataUpdated { request_id });
        Ok(())
    }

    /// Sets a participant's measured bitrate, in kilobits per second.
    pub fn set_bitrate(
        &mut self,
        sid: &ParticipantSid,
        kbps: u32,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        self.roster.active(sid)?;
        // A change that lasted until now counts, although no tick came in between.
        self.report_limit_change(sid, now);
        self.measure(sid, kbps);
        Ok(())
    }

    fn measure(&mut self, sid: &ParticipantSid, kbps: u32) {
        if let Some(publisher) = self.roster.get_mut(sid) {
            publisher.measure(kbps, &mut self.deadlines);
        }
    }

    /// Reports that a bitrate has exceeded its limit, or has fallen back below it, if that has lasted long enough.
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
impl Machine {
    /// The server mutes or unmutes a track. The publisher receives a notice if the track's state changes.
    pub fn mute_by_server(
        &mut self,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
        now: Timestamp,
    ) -> Result<Track, MachineError> {
        let sid = self.roster.active_by_identity(identity)?.sid().clone();
        let publisher = self.roster.active_mut(&sid)?;
        if publisher.track_mut(track)?.muted != muted {
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

    /// The server changes a participant's role. Tracks that the new role forbids are unpublished. Returns the participant
    /// afterwards.
    pub fn set_role(
        &mut self,
        identity: &Identity,
        grant: RoleGrant,
        now: Timestamp,
    ) -> Result<Participant, MachineError> {
        let sid = self.roster.active_by_identity(identity)?.sid().clone();
        // A change that lasted until now is reported with the old limit.
        self.report_limit_change(&sid, now);
        let changed = self.roster.active_mut(&sid)?;
        let (role, was_hidden) = (grant.role.clone(), changed.grants.hidden);
        changed.set_role(grant);
        let forbidden = changed.remove_forbidden_tracks();
        let (kbps, participant) = (changed.kbps(), changed.participant().clone());
        if !was_hidden && changed.grants.hidden {
            self.notify_hidden(&sid);
        }
        let notice = Notice::RoleChanged { role: role.clone() };
        self.roster.put_into_inbox(&sid, now, notice);
        self.end_forbidden_media(&sid);
        for track in forbidden {
            self.report_unpublished(&sid, &track, now);
        }
        self.forwarding().refresh_permissions_of(&sid);
        self.notify_changed(&sid);
        self.notify(&sid, ClientNotice::RoleChanged(role));
        self.forwarding().refresh_receiver(&sid);
        self.forwarding().refresh_publisher(&sid);
        self.measure(&sid, kbps);
        Ok(participant)
    }

    /// Gives a participant that is joining another role than its token. Returns the participant afterwards.
    pub fn set_role_of_join(
        &mut self,
        sid: &ParticipantSid,
        grant: RoleGrant,
        now: Timestamp,
    ) -> Option<Participant> {
        let joining = self.roster.get_mut(sid)?;
        let (identity, role) = (joining.identity().clone(), grant.role.clone());
        if joining.is_active() {
            return self.set_role(&identity, grant, now).ok();
        }
        let has_session = joining.is_present();
        joining.set_role(grant);
        // They were not reported.
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

    /// Notifies the clients of all others that a participant has become hidden.
    fn notify_hidden(&mut self, sid: &ParticipantSid) {
        if let Some(hidden) = self.roster.take(sid) {
            self.notify_gone(&hidden, Urgency::AtOnce);
            self.roster.add(hidden);
        }
    }

    /// The server sends a data message to all participants, or to those it names. Grants do not restrict who receives
    /// it.
    pub fn send_server_data(&mut self, message: ServerData, now: Timestamp) {
        self.messages().send_by_server(message, now);
    }
}
