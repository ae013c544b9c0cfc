//! One client's tracks with packets: announced by the client, admitted here, and published once they have a media
//! section.
//!
//! A track can have backup codecs, in which the client also sends it for receivers that cannot decode the first codec.
//! To everything but clients and media workers, it is one track.

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

/// Reason why an announced track is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum AnnounceError {
    /// Not granted, or the participant is gone.
    NotAllowed,
    /// Backup codec for a track that the participant does not publish.
    UnknownTrack,
    /// The client has already announced this track, or this codec for the track.
    Queued,
    /// The participant has the maximum number of tracks.
    LimitExceeded,
    /// The type is neither audio nor video, none of the track's codecs is forwarded, or the track has no such backup
    /// codec.
    UnsupportedType,
}

/// Effect of a mute or unmute by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum ClientMute {
    /// None: the client has no such track, or has not yet followed a mute by the server.
    Ignored,
    /// The track is published: others must be notified.
    Published,
    /// The track is announced only.
    Announced,
}

/// A client's tracks, by sid.
#[derive(Debug, Default)]
pub(in crate::embedded) struct MediaTracks(HashMap<TrackSid, MediaTrack>);

/// A track with packets.
#[derive(Debug)]
struct MediaTrack {
    /// The track as clients see it.
    info: TrackInfo,
    /// The client's own id for the track.
    cid: String,
    /// Whether the track has a media section, and so is published.
    is_negotiated: bool,
    /// Backup codecs that the client has announced.
    backups: Vec<Codec>,
    /// Whether the server muted the track and the client has not followed yet. Until then, an unmute from the client
    /// does not express its user's intent.
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

    /// Removes a codec from the track's backup codecs.
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
    /// Returns the number of tracks, including announced ones.
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

    /// Returns whether the client declares a track to be encrypted end to end.
    pub fn is_encrypted(&self, track: &TrackSid) -> bool {
        self.info(track)
            .is_some_and(|info| info.encryption() != EncryptionType::None)
    }

    /// Admits an announced track under these grants; `is_full` if the participant has the maximum number of tracks.
    /// Returns the track for clients and for the media worker.
    pub fn announce(
        &mut self,
        request: &AddTrackRequest,
        grants: &Grants,
        is_full: bool,
    ) -> Result<(TrackInfo, NewTrack), AnnounceError> {
        let (kind, source) = announcement::kind_and_source(request.r#type, request.source)
            .ok_or(AnnounceError::UnsupportedType)?;
        // Refused at the announcement, before the client negotiates the track.
        check_track(grants, kind, source).map_err(|_| AnnounceError::NotAllowed)?;
        // A repeated announcement adds no track, so the limit does not apply to it.
        if self.is_cid_used(&request.cid) {
            return Err(AnnounceError::Queued);
        } else if is_full {
            return Err(AnnounceError::LimitExceeded);
        }
        let sid: TrackSid = unused_id(announcement::sid_prefix(kind, source), |sid| {
            self.0.contains_key(sid)
        });
        // The media worker negotiates from these, whatever codec the client names.
        let codecs = allowed_codecs(grants);
        let (info, media) = announcement::accept(request, &sid, (kind, source), &codecs);
        self.0
            .insert(sid, MediaTrack::new(info.clone(), media.cid.clone()));
        Ok((info, media))
    }

    /// Admits a track's backup codec, which must be among the codecs that the client named with the track. Returns the
    /// track for clients, and the backup for the media worker.
    pub fn announce_backup(
        &mut self,
        request: &AddTrackRequest,
        grants: &Grants,
    ) -> Result<(TrackInfo, NewTrack), AnnounceError> {
        let track: TrackSid = request
            .sid
            .parse()
            .map_err(|_| AnnounceError::UnknownTrack)?;
        // Computed here, since `media` borrows the map mutably below.
        let is_cid_used = self.is_cid_used(&request.cid);
        let media = self.0.get_mut(&track).ok_or(AnnounceError::UnknownTrack)?;
        let (kind, source) = announcement::kind_and_source(media.info.r#type, media.info.source)
            .ok_or(AnnounceError::UnsupportedType)?;
        let codec = announcement::requested_backup(request, &media.info)
            .ok_or(AnnounceError::UnsupportedType)?;
        // The role may have changed since the track was announced, so the grants are checked again.
        check_track(grants, kind, source)
            .and_then(|()| check_codec(grants, codec))
            .map_err(|_| AnnounceError::NotAllowed)?;
        if is_cid_used || media.backups.contains(&codec) {
            return Err(AnnounceError::Queued);
        }
        // Counted as sent from now on: a second announcement must not negotiate it twice.
        media.backups.push(codec);
        let backup = announcement::accept_backup(request, &track, &mut media.info, codec);
        Ok((media.info.clone(), backup))
    }

    fn is_cid_used(&self, cid: &str) -> bool {
        self.0.values().any(|track| track.cid == cid)
    }

    /// Records a track's media section. Returns the track for reports and lists, once.
    pub fn negotiate(&mut self, track: &TrackSid, section: MediaSection) -> Option<Track> {
        // Each renegotiation repeats all media sections; only the first one publishes the track.
        let media = self.0.get_mut(track).filter(|media| !media.is_negotiated)?;
        media.is_negotiated = true;
        announcement::describe_section(&mut media.info, section);
        published_track(track, &media.info)
    }

    /// Records a backup codec's media section. Returns false if the track has no such backup.
    pub fn negotiate_backup(&mut self, track: &TrackSid, section: MediaSection) -> bool {
        let media = self.0.get_mut(track);
        let backup =
            media.and_then(|media| announcement::backup_of(&mut media.info, section.codec));
        backup.map(|backup| backup.mid = section.mid).is_some()
    }

    /// Ends or withdraws a track's backup codec, which can then be announced again. Returns whether clients see a
    /// change.
    pub fn end_backup(&mut self, track: &TrackSid, codec: Codec) -> bool {
        let Some(media) = self.0.get_mut(track) else {
            return false;
        };
        // The client may announce the codec again, when a subscriber needs it.
        media.backups.retain(|backup| *backup != codec);
        // The codec stays listed, without a cid: a client may announce only listed codecs.
        announcement::backup_of(&mut media.info, codec)
            .map(|backup| *backup = announcement::unsent_backup(codec))
            .is_some()
    }

    /// Removes a track that the client ended or withdrew.
    pub fn remove(&mut self, track: &TrackSid) {
        // Its backup codecs end with it.
        self.0.remove(track);
    }

    /// Mutes or unmutes a track for the client. Ignores an unmute that the client sent before it had followed a mute by
    /// the server: clients react to an update that contradicts their own state by sending that state.
    pub fn mute(&mut self, track: &TrackSid, muted: bool) -> ClientMute {
        let Some(media) = self.0.get_mut(track) else {
            return ClientMute::Ignored;
        };
        if media.awaits_mute && !muted {
            return ClientMute::Ignored;
        }
        // A mute from the client follows the server's mute; later unmutes express the user's intent again.
        media.awaits_mute = false;
        media.info.muted = muted;
        if media.is_negotiated {
            ClientMute::Published
        } else {
            ClientMute::Announced
        }
    }

    /// Records that the server mutes a track, which the client must follow, or unmutes it.
    pub fn mute_by_server(&mut self, track: &TrackSid, muted: bool) {
        if let Some(media) = self.0.get_mut(track) {
            // The track's own flag changes when the mute is reported: this only remembers the open request.
            media.awaits_mute = muted;
        }
    }

    /// Removes the tracks that the grants forbid. Returns their sids.
    pub fn remove_forbidden(&mut self, grants: &Grants) -> Vec<TrackSid> {
        self.0
            .extract_if(|_, media| media.is_forbidden(grants))
            .map(|(sid, _)| sid)
            .collect()
    }

    /// Removes the backup codecs that the grants forbid. Returns them with their tracks.
    pub fn remove_forbidden_backups(&mut self, grants: &Grants) -> Vec<(TrackSid, Codec)> {
        let mut removed = Vec::new();
        for (track, media) in &mut self.0 {
            for codec in Codec::ALL
                .into_iter()
                .filter(|codec| check_codec(grants, *codec).is_err())
            {
                // The first codec is not touched here: `remove_forbidden` has removed the tracks whose first codec is
                // forbidden.
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

/// Returns the track for reports and lists.
fn published_track(sid: &TrackSid, info: &TrackInfo) -> Option<Track> {
    let (kind, source) = announcement::kind_and_source(info.r#type, info.source)?;
    // Zero pixels mean that the client did not announce a size.
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

    /// A VP9 video with VP8 as its backup codec.
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

    /// Returns a client's tracks after it has announced one.
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
            "the client has muted the track, too"
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
            "this backup codec was not announced"
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
