//! Who and what an egress contains, as participants join and leave and tracks come and go.

use std::collections::{BTreeMap, BTreeSet};

use conclave_egress::{Attendee, AttendeeTrack, JobEvent};
use conclave_model::egress::{CompositeMedia, EgressSource, EgressState, EgressStatus};
use conclave_model::participant::{Track, TrackKind};
use conclave_model::{EgressId, Identity, Timestamp, TrackSid};
use conclave_sfu::{Codec, PeerCommand};
use livekit_protocol::encryption::Type as EncryptionType;

use super::{Machine, unused_id};
use crate::embedded::common::Owned;
use crate::embedded::effect::{Effect, JobEffect};
use crate::embedded::egress::{Attendance, Egress};
use crate::embedded::local_participant::LocalParticipant;
use crate::port::MediaError;

impl Machine {
    /// Returns an id for a new egress.
    pub fn unused_egress_id(&self) -> EgressId {
        unused_id("EG_", |id: &EgressId| {
            self.common.room_of(&Owned::Egress(id.clone())).is_some()
        })
    }

    /// Records an egress that was started with ffmpeg, and lets it know who attends.
    pub fn begin_job(&mut self, id: EgressId, source: EgressSource, now: Timestamp) -> EgressState {
        let state = self.insert_egress(Egress::with_job(
            id,
            self.name.clone(),
            Attendance::new(source),
            now,
        ));
        self.note_change();
        state
    }

    /// Takes what has happened to an egress with ffmpeg.
    pub fn handle_job_event(&mut self, id: &EgressId, event: JobEvent, now: Timestamp) {
        let (status, error) = match event {
            JobEvent::Active => (EgressStatus::Active, None),
            JobEvent::Ended { status, error } => (status, error),
        };
        if status.is_final() {
            self.detach_all(id);
        }
        self.advance_egress(id, status, error, now);
    }

    /// Returns the codec of a track that is published.
    pub fn codec_of(&self, track: &TrackSid) -> Option<Codec> {
        let mut tracks = self
            .active_members()
            .filter(|local| !local.grants.hidden)
            .flat_map(recordable);
        tracks
            .find(|known| known.sid == *track)
            .map(|known| known.codec)
    }

    /// Refuses what would contain nothing, because all of its tracks are encrypted end to end.
    ///
    /// # Errors
    /// Which field of a request names the tracks.
    pub fn check_encryption(&self, source: &EgressSource) -> Result<(), MediaError> {
        let field = match source {
            EgressSource::Track(_) => "track_id",
            EgressSource::Participant(_) => "identity",
            // Others may come whose tracks are not.
            EgressSource::RoomComposite { .. } => return Ok(()),
        };
        let mut tracks = self.media_tracks_of(source).peekable();
        let is_empty = tracks.peek().is_some() && tracks.all(|(_, is_encrypted)| is_encrypted);
        if is_empty {
            Err(MediaError::Encrypted { field })
        } else {
            Ok(())
        }
    }

    /// Notes that the participants, or their tracks, have changed, so that the egresses follow.
    pub(super) fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// Lets the egresses know of a change of who attends, and gives them the tracks that they need.
    pub(super) fn follow_changes(&mut self) {
        if std::mem::take(&mut self.is_changed) {
            let ids: Vec<_> = self.egresses.keys().cloned().collect();
            ids.iter().for_each(|id| self.follow_change(id));
        }
    }

    fn follow_change(&mut self, id: &EgressId) {
        let Some(job) = self.egresses.get(id).and_then(|egress| egress.job.as_ref()) else {
            return;
        };
        let (attendees, is_room_empty) = (
            self.attendees(&job.source),
            self.active_members().next().is_none(),
        );
        let encrypted = self.encrypted(&job.source);
        let Some(job) = self
            .egresses
            .get_mut(id)
            .and_then(|egress| egress.job.as_mut())
        else {
            return;
        };
        for track in encrypted.difference(&job.encrypted) {
            log::warn!(
                egress = id.as_str(), track = track.as_str();
                "a track that is encrypted end to end is left out of a recording or broadcast"
            );
        }
        job.encrypted.extend(encrypted);
        let was_empty = std::mem::replace(&mut job.is_room_empty, is_room_empty);
        if std::mem::replace(&mut job.was_told, true)
            && job.attendees == attendees
            && was_empty == is_room_empty
        {
            return;
        }
        job.attendees.clone_from(&attendees);
        let wanted: BTreeMap<_, _> = attendees
            .iter()
            .flat_map(|a| {
                a.tracks
                    .iter()
                    .map(|track| (track.sid.clone(), a.sid.clone()))
            })
            .collect();
        let attached = std::mem::replace(&mut job.attached, wanted.clone());
        // The egress knows of a track before its packets arrive.
        self.effects.push(Effect::Job {
            egress: id.clone(),
            effect: JobEffect::Attend {
                attendees,
                is_room_empty,
            },
        });
        let (before, after): (BTreeSet<_>, BTreeSet<_>) =
            (attached.into_iter().collect(), wanted.into_iter().collect());
        for (track, peer) in before.difference(&after).cloned() {
            self.command(
                &peer,
                PeerCommand::DetachRecorder {
                    track,
                    egress: id.clone(),
                },
            );
        }
        for (track, peer) in after.difference(&before).cloned() {
            self.effects.push(Effect::Job {
                egress: id.clone(),
                effect: JobEffect::Attach { peer, track },
            });
        }
    }

    /// Takes all tracks from an egress that ends.
    fn detach_all(&mut self, id: &EgressId) {
        let Some(egress) = self.egresses.get_mut(id) else {
            return;
        };
        let attached = egress
            .job
            .as_mut()
            .map(|job| std::mem::take(&mut job.attached))
            .unwrap_or_default();
        for (track, peer) in attached {
            self.command(
                &peer,
                PeerCommand::DetachRecorder {
                    track,
                    egress: id.clone(),
                },
            );
        }
    }

    /// Returns the participants that an egress contains, with their tracks. Hidden ones are not recorded.
    fn attendees(&self, source: &EgressSource) -> Vec<Attendee> {
        let visible = self.active_members().filter(|local| !local.grants.hidden);
        let attendees = visible.map(|local| Attendee {
            sid: local.sid().clone(),
            identity: local.identity().clone(),
            name: local.participant().name.clone(),
            tracks: recordable(local)
                .filter(|track| is_of(source, track))
                .collect(),
        });
        let is_contained = |attendee: &Attendee| match source {
            EgressSource::Track(_) => !attendee.tracks.is_empty(),
            source => may_contain(source, &attendee.identity),
        };
        attendees.filter(is_contained).collect()
    }

    /// Returns the tracks that an egress would contain if they were not encrypted end to end.
    fn encrypted(&self, source: &EgressSource) -> BTreeSet<TrackSid> {
        self.media_tracks_of(source)
            .filter(|(_, is_encrypted)| *is_encrypted)
            .map(|(track, _)| track.sid)
            .collect()
    }

    /// Returns the tracks that an egress is about, and whether they are encrypted end to end.
    fn media_tracks_of(
        &self,
        source: &EgressSource,
    ) -> impl Iterator<Item = (AttendeeTrack, bool)> {
        let visible = self
            .active_members()
            .filter(move |local| !local.grants.hidden && may_contain(source, local.identity()));
        visible
            .flat_map(media_tracks)
            .filter(move |(track, _)| is_of(source, track))
    }
}

/// Returns whether a track of an attendee is part of an egress.
fn is_of(source: &EgressSource, track: &AttendeeTrack) -> bool {
    let is_audio = track.codec == Codec::Opus;
    match source {
        EgressSource::RoomComposite {
            media: CompositeMedia::AudioOnly,
            ..
        } => is_audio,
        EgressSource::RoomComposite {
            media: CompositeMedia::VideoOnly,
            ..
        } => !is_audio,
        EgressSource::RoomComposite {
            media: CompositeMedia::Both,
            ..
        }
        | EgressSource::Participant(_) => true,
        EgressSource::Track(sid) => track.sid == *sid,
    }
}

/// Returns whether an egress may contain tracks of a participant.
fn may_contain(source: &EgressSource, participant: &Identity) -> bool {
    match source {
        EgressSource::RoomComposite { .. } | EgressSource::Track(_) => true,
        EgressSource::Participant(identity) => participant == identity,
    }
}

/// Returns the tracks of a participant that can be decoded. What is encrypted end to end would be noise.
fn recordable(local: &LocalParticipant) -> impl Iterator<Item = AttendeeTrack> {
    media_tracks(local)
        .filter(|(_, is_encrypted)| !is_encrypted)
        .map(|(track, _)| track)
}

/// Returns the tracks of a participant that consist of packets, and whether they are encrypted end to end.
fn media_tracks(local: &LocalParticipant) -> impl Iterator<Item = (AttendeeTrack, bool)> {
    let is_media = |track: &&Track| track.kind != TrackKind::Data;
    local
        .participant()
        .tracks
        .iter()
        .filter(is_media)
        .filter_map(|track| {
            let codec = track.mime_type.as_deref().and_then(Codec::from_mime_type)?;
            let media = local
                .client
                .as_ref()
                .and_then(|client| client.tracks.get(&track.sid));
            let is_encrypted =
                media.is_some_and(|media| media.info.encryption() != EncryptionType::None);
            let track = AttendeeTrack {
                sid: track.sid.clone(),
                source: track.source,
                codec,
                is_muted: track.muted,
            };
            Some((track, is_encrypted))
        })
}

#[cfg(test)]
mod tests;
