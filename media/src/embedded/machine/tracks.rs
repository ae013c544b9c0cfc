//! Tracks that participants publish.

use conclave_model::event::TrackSummary;
use conclave_model::participant::Track;
use conclave_model::{ParticipantSid, Timestamp, TrackSid};
use conclave_sfu::PeerCommand;

use super::{Machine, unused_id};
use crate::embedded::error::MachineError;
use crate::embedded::publish::{NewTrack, check_track};
use crate::port::MediaEvent;

impl Machine {
    /// A participant publishes a track.
    pub fn publish(
        &mut self,
        sid: &ParticipantSid,
        new: NewTrack,
        now: Timestamp,
    ) -> Result<Track, MachineError> {
        let most = self.common.max_tracks;
        let publisher = self.active_mut(sid)?;
        check_track(&publisher.grants, new.kind, new.source)?;
        if publisher.participant().tracks.len() >= most {
            return Err(MachineError::TooManyTracks);
        }
        let track = Track {
            sid: unused_id("TR_", |sid| {
                publisher
                    .participant()
                    .tracks
                    .iter()
                    .any(|track| track.sid == *sid)
            }),
            kind: new.kind,
            source: new.source,
            muted: new.muted,
            name: new.name,
            width: None,
            height: None,
            simulcast: None,
            mime_type: None,
        };
        publisher.add_track(track.clone());
        let participant = publisher.to_ref();
        self.report(
            now,
            MediaEvent::TrackPublished {
                participant,
                track: TrackSummary::from(&track),
            },
        );
        self.notify_changed(sid);
        self.refresh_publisher(sid);
        Ok(track)
    }

    /// A participant ends a track.
    pub fn unpublish(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        let publisher = self.active_mut(sid)?;
        let track = TrackSummary::from(&publisher.remove_track(track)?);
        let participant = publisher.to_ref();
        self.report(now, MediaEvent::TrackUnpublished { participant, track });
        self.notify_changed(sid);
        self.refresh_publisher(sid);
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
        let publisher = self.participants.get_mut(sid).filter(|p| p.is_present());
        let publisher = publisher.ok_or(MachineError::NoSuchParticipant)?;
        let (track, changed) = publisher.set_muted(track, muted)?;
        let (participant, was_reported) = (publisher.to_ref(), publisher.is_active());
        let Some(summary) = changed else {
            return Ok(track);
        };
        self.command_if_client(
            sid,
            PeerCommand::SetMuted {
                track: track.sid.clone(),
                muted,
            },
        );
        if was_reported {
            self.report(
                now,
                MediaEvent::TrackMuted {
                    participant,
                    track: summary,
                },
            );
        }
        self.notify_changed(sid);
        Ok(track)
    }
}
