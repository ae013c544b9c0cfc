//! Tracks with packets: announced by a client, admitted here, and published once they have a media section.

#![expect(
    deprecated,
    reason = "clients of older versions read and write these fields"
)]

use conclave_model::event::TrackSummary;
use conclave_model::participant::{Track, TrackKind};
use conclave_model::{ParticipantSid, Timestamp, TrackSid};
use conclave_sfu::{NewTrack, PeerCommand};
use livekit_protocol::{AddTrackRequest, TrackInfo};

use super::{Machine, unused_id};
use crate::embedded::announcement::{self, MediaSection};
use crate::embedded::client::MediaTrack;
use crate::embedded::effect::ClientNotice;
use crate::embedded::publish::{allowed_codecs, check_mime_type, check_track};
use crate::port::MediaEvent;

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

impl Machine {
    /// Admits a track that a client announces, and lets the media worker know it. Returns the track as clients see it.
    pub fn announce_track(
        &mut self,
        sid: &ParticipantSid,
        request: &AddTrackRequest,
    ) -> Result<TrackInfo, AnnounceError> {
        if !request.sid.is_empty() {
            return self.announce_backup(sid, request);
        }
        let publisher = self.present(sid).map_err(|_| AnnounceError::NotAllowed)?;
        let client = publisher.client.as_ref().ok_or(AnnounceError::NotAllowed)?;
        let (kind, source) = announcement::kind_and_source(request.r#type, request.source)
            .ok_or(AnnounceError::UnsupportedType)?;
        check_track(&publisher.grants, kind, source).map_err(|_| AnnounceError::NotAllowed)?;
        if client.tracks.values().any(|track| track.cid == request.cid) {
            return Err(AnnounceError::Queued);
        } else if client.track_count() >= self.common.max_tracks {
            return Err(AnnounceError::LimitExceeded);
        }
        let track_sid: TrackSid = unused_id(announcement::sid_prefix(kind, source), |sid| {
            client.tracks.contains_key(sid)
        });
        let codecs = allowed_codecs(&publisher.grants);
        let (info, media) = announcement::accept(request, &track_sid, (kind, source), &codecs);
        self.admit_track(sid, info.clone(), media);
        Ok(info)
    }

    fn admit_track(&mut self, sid: &ParticipantSid, info: TrackInfo, media: NewTrack) {
        let Some(publisher) = self.participants.get_mut(sid) else {
            return;
        };
        let Some(client) = publisher.client.as_mut() else {
            return;
        };
        let cid = media.cid.clone();
        client.tracks.insert(
            media.sid.clone(),
            MediaTrack {
                info,
                cid,
                is_negotiated: false,
                backups: Vec::new(),
                awaits_mute: false,
            },
        );
        self.command(sid, PeerCommand::PublishTrack(media));
    }

    /// A track of a client has a media section: it is published. Without effect if the track is published or gone.
    pub fn track_negotiated(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        section: MediaSection,
        now: Timestamp,
    ) {
        let Some(publisher) = self.participants.get_mut(sid) else {
            return;
        };
        let known = publisher
            .client
            .as_mut()
            .and_then(|client| client.tracks.get_mut(track));
        let Some(media) = known.filter(|media| !media.is_negotiated) else {
            return;
        };
        media.is_negotiated = true;
        announcement::describe_section(&mut media.info, section);
        let Some(published) = published_track(track, &media.info) else {
            return;
        };
        let summary = TrackSummary::from(&published);
        publisher.add_track(published);
        let participant = publisher.to_ref();
        if publisher.is_active() {
            self.report(
                now,
                MediaEvent::TrackPublished {
                    participant,
                    track: summary,
                },
            );
            self.note_publishing(sid, now);
        }
        self.notify_changed(sid);
        self.refresh_publisher(sid);
    }

    /// A client ended its track, or withdrew one that it had announced.
    pub fn track_ended(&mut self, sid: &ParticipantSid, track: &TrackSid, now: Timestamp) {
        let Some(publisher) = self.participants.get_mut(sid) else {
            return;
        };
        if let Some(client) = publisher.client.as_mut() {
            client.tracks.remove(track);
        }
        let Ok(ended) = publisher.remove_track(track) else {
            return;
        };
        let participant = publisher.to_ref();
        if publisher.is_active() {
            let track = TrackSummary::from(&ended);
            self.report(now, MediaEvent::TrackUnpublished { participant, track });
        }
        self.notify_changed(sid);
        self.refresh_publisher(sid);
    }

    /// A client offers a track that cannot be forwarded: it is withdrawn, and the client notified.
    pub fn track_refused(&mut self, sid: &ParticipantSid, track: &TrackSid, now: Timestamp) {
        self.track_ended(sid, track, now);
        self.notify(sid, ClientNotice::TrackUnpublished(track.clone()));
    }

    /// A client mutes or unmutes its track. An unmute that it sent before it had followed a mute of the server is ignored:
    /// clients answer an update that disagrees with their own state by that state.
    pub fn mute_by_client(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        muted: bool,
        now: Timestamp,
    ) {
        let known = self
            .participants
            .get_mut(sid)
            .and_then(|p| p.client.as_mut()?.tracks.get_mut(track));
        let Some(media) = known else { return };
        if std::mem::take(&mut media.awaits_mute) && !muted {
            media.awaits_mute = true;
            return;
        }
        let is_published = media.is_negotiated;
        media.info.muted = muted;
        if is_published {
            // The track exists, so the error cannot happen.
            let _ = self.mute(sid, track, muted, now);
        } else if self.present(sid).is_ok() {
            self.command(
                sid,
                PeerCommand::SetMuted {
                    track: track.clone(),
                    muted,
                },
            );
        }
    }

    /// Ends the tracks of a client that its grants forbid: at the media worker, and at the client.
    pub(super) fn end_forbidden_media(&mut self, sid: &ParticipantSid) {
        let Some(publisher) = self.participants.get_mut(sid) else {
            return;
        };
        let Some(client) = publisher.client.as_mut() else {
            return;
        };
        let grants = &publisher.grants;
        let is_forbidden = |info: &TrackInfo| {
            let is_allowed = |(kind, source)| {
                check_track(grants, kind, source)
                    .and_then(|()| check_mime_type(grants, &info.mime_type))
                    .is_ok()
            };
            !announcement::kind_and_source(info.r#type, info.source).is_some_and(is_allowed)
        };
        let ended: Vec<_> = client
            .tracks
            .extract_if(|_, media| is_forbidden(&media.info))
            .map(|(sid, _)| sid)
            .collect();
        for track in ended {
            self.command(sid, PeerCommand::UnpublishTrack(track.clone()));
            self.notify(sid, ClientNotice::TrackUnpublished(track));
        }
        self.end_forbidden_backups(sid);
        self.end_forbidden_data_tracks(sid);
    }

    /// Returns whether a client has announced this track.
    pub fn has_announced(&self, sid: &ParticipantSid, track: &str) -> bool {
        let client = self
            .participants
            .get(sid)
            .and_then(|participant| participant.client.as_ref());
        client.is_some_and(|client| client.tracks.keys().any(|known| known.as_str() == track))
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
