//! The tracks with packets that one client has: announced by the client, admitted here, and published once they have a media section.
//!
//! A track can have backup codecs: the client sends it in one more codec, for those who cannot decode the first one. For all but clients
//! and media workers it is one track.

#![expect(
    deprecated,
    reason = "clients of older versions read and write these fields"
)]

use std::collections::HashMap;

use conclave_model::TrackSid;
use conclave_model::participant::{Track, TrackKind};
use conclave_sfu::{Codec, NewTrack};
use livekit_protocol::encryption::Type as EncryptionType;
use livekit_protocol::{AddTrackRequest, TrackInfo};

use crate::embedded::announcement::{self, MediaSection};
use crate::embedded::ids::unused_id;
use crate::embedded::publish::{allowed_codecs, check_codec, check_mime_type, check_track};
use crate::token::Grants;

/// Why a track that a client announces is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum AnnounceError {
    /// The grants forbid it, or the participant is gone.
    NotAllowed,
    /// A backup codec of a track that the participant does not publish.
    UnknownTrack,
    /// The client has announced this track, or this codec of a track, before.
    Queued,
    /// The participant has as many tracks as one may have.
    LimitExceeded,
    /// The type is neither audio nor video, no codec of the track is forwarded, or the track has no such backup codec.
    UnsupportedType,
}

/// What follows when a client mutes or unmutes a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum ClientMute {
    /// Nothing: the client has no such track, or sent this before it had followed a mute of the server.
    Ignored,
    /// The track is published, so that others see the change.
    Published,
    /// The track is not published yet.
    Announced,
}

/// The tracks of a client, by their sids.
#[derive(Debug, Default)]
pub(in crate::embedded) struct MediaTracks(HashMap<TrackSid, MediaTrack>);

/// A track with packets.
#[derive(Debug)]
struct MediaTrack {
    /// The track as clients see it.
    info: TrackInfo,
    /// The client's id of the track.
    cid: String,
    /// Whether it has a media section, and so is published.
    is_negotiated: bool,
    /// The backup codecs that the client has announced, and sends or is about to send.
    backups: Vec<Codec>,
    /// Whether the server muted it and the client has not followed yet. Until then, the client's unmuting is not its will.
    awaits_mute: bool,
}

impl MediaTrack {
    fn new(info: TrackInfo, cid: String) -> Self {
        Self {
            info,
            cid,
            is_negotiated: false,
            backups: Vec::new(),
            awaits_mute: false,
        }
    }

    /// Takes a codec from those in which the track can be sent.
    fn forget_backup(&mut self, codec: Codec) {
        self.backups.retain(|backup| *backup != codec);
        announcement::remove_backup(&mut self.info, codec);
    }

    fn is_forbidden(&self, grants: &Grants) -> bool {
        let is_allowed = |(kind, source)| {
            check_track(grants, kind, source)
                .and_then(|()| check_mime_type(grants, &self.info.mime_type))
                .is_ok()
        };
        !announcement::kind_and_source(self.info.r#type, self.info.source).is_some_and(is_allowed)
    }
}

impl MediaTracks {
    /// Returns the number of tracks, also of those that were announced only.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the client has announced this track.
    pub fn has_announced(&self, track: &str) -> bool {
        self.0.keys().any(|known| known.as_str() == track)
    }

    /// Returns a track as clients see it.
    pub fn info(&self, track: &TrackSid) -> Option<&TrackInfo> {
        self.0.get(track).map(|media| &media.info)
    }

    /// Returns whether the client says that a track is encrypted end to end.
    pub fn is_encrypted(&self, track: &TrackSid) -> bool {
        self.info(track)
            .is_some_and(|info| info.encryption() != EncryptionType::None)
    }

    /// Admits a track that the client announces with these grants; `is_full` if it has as many tracks as one may have. Returns the track as
    /// clients see it, and as the media worker has to know it.
    pub fn announce(
        &mut self,
        request: &AddTrackRequest,
        grants: &Grants,
        is_full: bool,
    ) -> Result<(TrackInfo, NewTrack), AnnounceError> {
        let (kind, source) = announcement::kind_and_source(request.r#type, request.source)
            .ok_or(AnnounceError::UnsupportedType)?;
        check_track(grants, kind, source).map_err(|_| AnnounceError::NotAllowed)?;
        if self.is_cid_used(&request.cid) {
            return Err(AnnounceError::Queued);
        } else if is_full {
            return Err(AnnounceError::LimitExceeded);
        }
        let sid: TrackSid = unused_id(announcement::sid_prefix(kind, source), |sid| {
            self.0.contains_key(sid)
        });
        let codecs = allowed_codecs(grants);
        let (info, media) = announcement::accept(request, &sid, (kind, source), &codecs);
        self.0
            .insert(sid, MediaTrack::new(info.clone(), media.cid.clone()));
        Ok((info, media))
    }

    /// Admits a backup codec of a track. It must be one of those that the client named with the track. Returns the track as clients see it,
    /// and the backup as the media worker has to know it.
    pub fn announce_backup(
        &mut self,
        request: &AddTrackRequest,
        grants: &Grants,
    ) -> Result<(TrackInfo, NewTrack), AnnounceError> {
        let track: TrackSid = request
            .sid
            .parse()
            .map_err(|_| AnnounceError::UnknownTrack)?;
        let is_cid_used = self.is_cid_used(&request.cid);
        let media = self.0.get_mut(&track).ok_or(AnnounceError::UnknownTrack)?;
        let (kind, source) = announcement::kind_and_source(media.info.r#type, media.info.source)
            .ok_or(AnnounceError::UnsupportedType)?;
        let codec = announcement::requested_backup(request, &media.info)
            .ok_or(AnnounceError::UnsupportedType)?;
        check_track(grants, kind, source)
            .and_then(|()| check_codec(grants, codec))
            .map_err(|_| AnnounceError::NotAllowed)?;
        if is_cid_used || media.backups.contains(&codec) {
            return Err(AnnounceError::Queued);
        }
        media.backups.push(codec);
        let backup = announcement::accept_backup(request, &track, &mut media.info, codec);
        Ok((media.info.clone(), backup))
    }

    fn is_cid_used(&self, cid: &str) -> bool {
        self.0.values().any(|track| track.cid == cid)
    }

    /// A track has a media section. Returns the track as reports and lists show it, once.
    pub fn negotiate(&mut self, track: &TrackSid, section: MediaSection) -> Option<Track> {
        let media = self.0.get_mut(track).filter(|media| !media.is_negotiated)?;
        media.is_negotiated = true;
        announcement::describe_section(&mut media.info, section);
        published_track(track, &media.info)
    }

    /// A backup codec of a track has a media section. Returns whether there is one such.
    pub fn negotiate_backup(&mut self, track: &TrackSid, section: MediaSection) -> bool {
        let media = self.0.get_mut(track);
        let backup =
            media.and_then(|media| announcement::backup_of(&mut media.info, section.codec));
        backup.map(|backup| backup.mid = section.mid).is_some()
    }

    /// The client ended a backup codec of its track, or withdrew one that it had announced. It can announce it again. Returns whether clients
    /// see a change.
    pub fn end_backup(&mut self, track: &TrackSid, codec: Codec) -> bool {
        let Some(media) = self.0.get_mut(track) else {
            return false;
        };
        media.backups.retain(|backup| *backup != codec);
        announcement::backup_of(&mut media.info, codec)
            .map(|backup| *backup = announcement::unsent_backup(codec))
            .is_some()
    }

    /// The client ended a track, or withdrew one that it had announced.
    pub fn remove(&mut self, track: &TrackSid) {
        self.0.remove(track);
    }

    /// The client mutes or unmutes a track. An unmute that it sent before it had followed a mute of the server is ignored:
    /// clients answer an update that disagrees with their own state by that state.
    pub fn mute(&mut self, track: &TrackSid, muted: bool) -> ClientMute {
        let Some(media) = self.0.get_mut(track) else {
            return ClientMute::Ignored;
        };
        if media.awaits_mute && !muted {
            return ClientMute::Ignored;
        }
        media.awaits_mute = false;
        media.info.muted = muted;
        if media.is_negotiated {
            ClientMute::Published
        } else {
            ClientMute::Announced
        }
    }

    /// The server mutes a track, which the client is to follow, or unmutes it.
    pub fn mute_by_server(&mut self, track: &TrackSid, muted: bool) {
        if let Some(media) = self.0.get_mut(track) {
            media.awaits_mute = muted;
        }
    }

    /// Removes the tracks that the grants forbid, and returns their sids.
    pub fn remove_forbidden(&mut self, grants: &Grants) -> Vec<TrackSid> {
        self.0
            .extract_if(|_, media| media.is_forbidden(grants))
            .map(|(sid, _)| sid)
            .collect()
    }

    /// Removes the backup codecs that the grants forbid, and returns them with their tracks.
    pub fn remove_forbidden_backups(&mut self, grants: &Grants) -> Vec<(TrackSid, Codec)> {
        let mut removed = Vec::new();
        for (track, media) in &mut self.0 {
            for codec in Codec::ALL
                .into_iter()
                .filter(|codec| check_codec(grants, *codec).is_err())
            {
                if announcement::backup_of(&mut media.info, codec).is_some() {
                    media.forget_backup(codec);
                    removed.push((track.clone(), codec));
                }
            }
        }
        removed
    }

    /// Adds a track that has a media section.
    #[cfg(test)]
    pub fn insert_negotiated(&mut self, sid: TrackSid, info: TrackInfo) {
        let cid = sid.to_string();
        let media = MediaTrack {
            is_negotiated: true,
            ..MediaTrack::new(info, cid)
        };
        self.0.insert(sid, media);
    }
}

/// Returns the track as reports and lists show it.
fn published_track(sid: &TrackSid, info: &TrackInfo) -> Option<Track> {
    let (kind, source) = announcement::kind_and_source(info.r#type, info.source)?;
    let size = |pixels: u32| (kind == TrackKind::Video && pixels > 0).then_some(pixels);
    Some(Track {
        sid: sid.clone(),
        kind,
        source,
        muted: info.muted,
        name: (!info.name.is_empty()).then(|| info.name.clone()),
        width: size(info.width),
        height: size(info.height),
        simulcast: (kind == TrackKind::Video).then_some(info.simulcast),
        mime_type: Some(info.mime_type.clone()),
    })
}

#[cfg(test)]
mod tests {
    use conclave_model::role::PublishCodec;
    use livekit_protocol::{SimulcastCodec, TrackSource, TrackType};

    use super::*;

    /// A video in VP9, with VP8 as its backup codec.
    fn camera(cid: &str) -> AddTrackRequest {
        let codec = |codec: &str| SimulcastCodec {
            codec: codec.into(),
            ..SimulcastCodec::default()
        };
        AddTrackRequest {
            cid: cid.into(),
            r#type: TrackType::Video.into(),
            source: TrackSource::Camera.into(),
            simulcast_codecs: vec![codec("vp9"), codec("vp8")],
            ..AddTrackRequest::default()
        }
    }

    fn backup(track: &TrackSid) -> AddTrackRequest {
        AddTrackRequest {
            sid: track.to_string(),
            simulcast_codecs: vec![SimulcastCodec {
                codec: "vp8".into(),
                ..SimulcastCodec::default()
            }],
            ..camera("backup")
        }
    }

    fn section(codec: Codec) -> MediaSection {
        MediaSection {
            mid: "0".into(),
            codec,
            layers: Vec::new(),
        }
    }

    /// Returns the tracks of a client that has announced one.
    fn announced() -> (MediaTracks, TrackSid) {
        let mut tracks = MediaTracks::default();
        let (info, _) = tracks
            .announce(&camera("camera"), &Grants::default(), false)
            .unwrap();
        (tracks, info.sid.parse().unwrap())
    }

    #[test]
    fn a_track_is_announced_once_and_published_once_it_has_a_section() {
        let (mut tracks, sid) = announced();
        let grants = Grants::default();
        let mut announce = |cid, is_full| tracks.announce(&camera(cid), &grants, is_full).map(drop);
        assert_eq!(announce("camera", true), Err(AnnounceError::Queued));
        assert_eq!(announce("other", true), Err(AnnounceError::LimitExceeded));
        let published = tracks.negotiate(&sid, section(Codec::Vp9)).unwrap();
        assert_eq!(
            (published.sid, published.mime_type.as_deref()),
            (sid.clone(), Some("video/VP9"))
        );
        assert_eq!(tracks.negotiate(&sid, section(Codec::Vp9)), None);
    }

    #[test]
    fn an_unmute_before_the_client_has_followed_a_mute_of_the_server_is_ignored() {
        let (mut tracks, sid) = announced();
        assert_eq!(tracks.mute(&sid, true), ClientMute::Announced);
        tracks.negotiate(&sid, section(Codec::Vp9));
        assert_eq!(tracks.mute(&sid, false), ClientMute::Published);
        tracks.mute_by_server(&sid, true);
        for _ in 0..2 {
            assert_eq!(tracks.mute(&sid, false), ClientMute::Ignored);
        }
        assert_eq!(tracks.mute(&sid, true), ClientMute::Published);
        assert_eq!(
            tracks.mute(&sid, false),
            ClientMute::Published,
            "it has followed"
        );
        assert_eq!(
            tracks.mute(&"TR_x".parse().unwrap(), true),
            ClientMute::Ignored
        );
    }

    #[test]
    fn a_backup_codec_can_be_announced_again_once_it_has_ended() {
        let (mut tracks, sid) = announced();
        let grants = Grants::default();
        let (_, media) = tracks.announce_backup(&backup(&sid), &grants).unwrap();
        assert!(media.is_backup && media.codec == Some(Codec::Vp8));
        let again = tracks.announce_backup(&backup(&sid), &grants);
        assert_eq!(again.map(drop), Err(AnnounceError::Queued));
        assert!(tracks.negotiate_backup(&sid, section(Codec::Vp8)));
        assert!(
            !tracks.negotiate_backup(&sid, section(Codec::Av1)),
            "it was not named"
        );
        assert!(tracks.end_backup(&sid, Codec::Vp8));
        assert!(tracks.announce_backup(&backup(&sid), &grants).is_ok());
    }

    #[test]
    fn what_new_grants_forbid_is_removed() {
        let (mut tracks, sid) = announced();
        let only_vp9 = Grants {
            video_codecs: Some(vec![PublishCodec::Vp9]),
            ..Grants::default()
        };
        let removed = tracks.remove_forbidden_backups(&only_vp9);
        assert_eq!(removed, [(sid.clone(), Codec::Vp8)]);
        assert_eq!(tracks.remove_forbidden(&only_vp9), []);
        let silent = Grants {
            can_publish: false,
            ..Grants::default()
        };
        assert_eq!(tracks.remove_forbidden(&silent), [sid]);
        assert_eq!(tracks.len(), 0);
    }
}
