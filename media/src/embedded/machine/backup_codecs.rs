//! Backup codecs of tracks: a client sends a track in one more codec, for those who cannot decode the first one. For all but clients
//! and media workers it is one track.

use conclave_model::{ParticipantSid, TrackSid};
use conclave_sfu::{Codec, PeerCommand};
use livekit_protocol::{AddTrackRequest, TrackInfo};

use super::Machine;
use super::media_tracks::AnnounceError;
use crate::embedded::announcement::{self, MediaSection};
use crate::embedded::client::MediaTrack;
use crate::embedded::publish::{check_codec, check_track};

impl Machine {
    /// Admits a backup codec of a track, and lets the media worker know it. It must be one of those that the client named with the track.
    /// Returns the track as clients see it.
    pub(super) fn announce_backup(
        &mut self,
        sid: &ParticipantSid,
        request: &AddTrackRequest,
    ) -> Result<TrackInfo, AnnounceError> {
        self.present(sid).map_err(|_| AnnounceError::NotAllowed)?;
        let publisher = self
            .participants
            .get_mut(sid)
            .ok_or(AnnounceError::NotAllowed)?;
        let client = publisher.client.as_mut().ok_or(AnnounceError::NotAllowed)?;
        let track: TrackSid = request
            .sid
            .parse()
            .map_err(|_| AnnounceError::UnknownTrack)?;
        let is_cid_used = client.tracks.values().any(|track| track.cid == request.cid);
        let media = client
            .tracks
            .get_mut(&track)
            .ok_or(AnnounceError::UnknownTrack)?;
        let (kind, source) = announcement::kind_and_source(media.info.r#type, media.info.source)
            .ok_or(AnnounceError::UnsupportedType)?;
        let codec = announcement::requested_backup(request, &media.info)
            .ok_or(AnnounceError::UnsupportedType)?;
        check_track(&publisher.grants, kind, source)
            .and_then(|()| check_codec(&publisher.grants, codec))
            .map_err(|_| AnnounceError::NotAllowed)?;
        if is_cid_used || media.backups.contains(&codec) {
            return Err(AnnounceError::Queued);
        }
        media.backups.push(codec);
        let backup = announcement::accept_backup(request, &track, &mut media.info, codec);
        let info = media.info.clone();
        self.command(sid, PeerCommand::PublishTrack(backup));
        Ok(info)
    }

    /// A backup codec of a track has a media section.
    pub fn backup_negotiated(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        section: MediaSection,
    ) {
        let Some(media) = self.media_track(sid, track) else {
            return;
        };
        if let Some(backup) = announcement::backup_of(&mut media.info, section.codec) {
            backup.mid = section.mid;
            self.notify_changed(sid);
        }
    }

    /// A client ended a backup codec of its track, or withdrew one that it had announced. It can announce it again.
    pub fn backup_ended(&mut self, sid: &ParticipantSid, track: &TrackSid, codec: Codec) {
        let Some(media) = self.media_track(sid, track) else {
            return;
        };
        media.backups.retain(|backup| *backup != codec);
        if let Some(backup) = announcement::backup_of(&mut media.info, codec) {
            *backup = announcement::unsent_backup(codec);
            self.notify_changed(sid);
        }
    }

    /// Ends the backup codecs that the grants of a client forbid: the media worker forwards them no more, and asks for none of them.
    pub(super) fn end_forbidden_backups(&mut self, sid: &ParticipantSid) {
        let Some(publisher) = self.participants.get_mut(sid) else {
            return;
        };
        let Some(client) = publisher.client.as_mut() else {
            return;
        };
        let mut ended = Vec::new();
        for (track, media) in &mut client.tracks {
            for codec in Codec::ALL
                .into_iter()
                .filter(|codec| check_codec(&publisher.grants, *codec).is_err())
            {
                if announcement::backup_of(&mut media.info, codec).is_some() {
                    media.forget_backup(codec);
                    ended.push((track.clone(), codec));
                }
            }
        }
        for (track, codec) in ended {
            self.command(sid, PeerCommand::UnpublishBackup { track, codec });
        }
    }

    fn media_track(&mut self, sid: &ParticipantSid, track: &TrackSid) -> Option<&mut MediaTrack> {
        self.participants
            .get_mut(sid)?
            .client
            .as_mut()?
            .tracks
            .get_mut(track)
    }
}

impl MediaTrack {
    /// Takes a codec from those in which the track can be sent.
    fn forget_backup(&mut self, codec: Codec) {
        self.backups.retain(|backup| *backup != codec);
        announcement::remove_backup(&mut self.info, codec);
    }
}
