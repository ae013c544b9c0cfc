//! An egress's inputs, as participants join and leave and tracks come and go.

use std::collections::{BTreeMap, BTreeSet};

use conclave_egress::{InputParticipant, InputTrack};
use conclave_model::egress::{CompositeMedia, EgressSource};
use conclave_model::participant::{Track, TrackKind};
use conclave_model::{EgressId, Identity, ParticipantSid, TrackSid};
use conclave_sfu::{Codec, PeerCommand};

use crate::embedded::effect::JobEffect;
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::room_state::outbox::Outbox;
use crate::embedded::room_state::roster::Roster;
use crate::port::MediaError;

/// Source and current inputs of an egress with ffmpeg.
#[derive(Debug, Clone)]
pub(in crate::embedded) struct EgressInputs {
    source: EgressSource,
    /// Whether it was sent any inputs.
    was_sent: bool,
    /// Whether the room had no participants at the last update.
    is_room_empty: bool,
    /// Participants in the last update.
    inputs: Vec<InputParticipant>,
    /// Attached tracks, with their publishers.
    attached: BTreeMap<TrackSid, ParticipantSid>,
    /// Tracks that were logged as left out because they are encrypted.
    encrypted: BTreeSet<TrackSid>,
}

impl EgressInputs {
    /// Creates the inputs of an egress that has not been sent any.
    pub const fn new(source: EgressSource) -> Self {
        Self {
            source,
            was_sent: false,
            is_room_empty: false,
            inputs: Vec::new(),
            attached: BTreeMap::new(),
            encrypted: BTreeSet::new(),
        }
    }

    /// Sends the egress its new inputs if they have changed, and attaches the tracks that it needs.
    pub fn follow(&mut self, egress: &EgressId, roster: &Roster, outbox: &mut Outbox) {
        let inputs = inputs(roster, &self.source);
        let is_room_empty = roster.active_members().next().is_none();
        self.leave_out(egress, encrypted(roster, &self.source));
        // The first update is sent even if it is empty: the egress's thread waits for it.
        let was_empty = std::mem::replace(&mut self.is_room_empty, is_room_empty);
        if std::mem::replace(&mut self.was_sent, true)
            && self.inputs == inputs
            && was_empty == is_room_empty
        {
            return;
        }
        self.inputs.clone_from(&inputs);
        let wanted: BTreeMap<_, _> = inputs
            .iter()
            .flat_map(|a| {
                a.tracks
                    .iter()
                    .map(|track| (track.sid.clone(), a.sid.clone()))
            })
            .collect();
        let attached = std::mem::replace(&mut self.attached, wanted.clone());
        // The egress must know a track before its packets arrive.
        outbox.inform_job(
            egress,
            JobEffect::SetInputs {
                inputs,
                is_room_empty,
            },
        );
        let (before, after): (BTreeSet<_>, BTreeSet<_>) =
            (attached.into_iter().collect(), wanted.into_iter().collect());
        // Only the difference, so that unchanged tracks continue without interruption.
        for (track, peer) in before.difference(&after).cloned() {
            detach(egress, track, &peer, outbox);
        }
        for (track, peer) in after.difference(&before).cloned() {
            outbox.inform_job(egress, JobEffect::Attach { peer, track });
        }
    }

    fn leave_out(&mut self, egress: &EgressId, encrypted: BTreeSet<TrackSid>) {
        // Logged once per track, so that an operator who misses a track in a recording finds the reason.
        for track in encrypted.difference(&self.encrypted) {
            log::warn!(
                egress = egress.as_str(), track = track.as_str();
                "a track that is encrypted end to end is left out of a recording or broadcast"
            );
        }
        // Never shrinks, so that a track that comes and goes is logged once.
        self.encrypted.extend(encrypted);
    }

    /// Detaches all tracks from an egress that ends.
    pub fn detach_all(&mut self, egress: &EgressId, outbox: &mut Outbox) {
        for (track, peer) in std::mem::take(&mut self.attached) {
            detach(egress, track, &peer, outbox);
        }
    }

    /// Returns the tracks that were left out because they are encrypted.
    #[cfg(test)]
    pub const fn encrypted(&self) -> &BTreeSet<TrackSid> {
        &self.encrypted
    }
}

fn detach(egress: &EgressId, track: TrackSid, peer: &ParticipantSid, outbox: &mut Outbox) {
    let egress = egress.clone();
    outbox.command(peer, PeerCommand::DetachRecorder { track, egress });
}

/// Returns a published track's codec.
pub(in crate::embedded) fn codec_of(roster: &Roster, track: &TrackSid) -> Option<Codec> {
    let mut tracks = roster
        .active_members()
        // Hidden participants are not recorded, so their tracks cannot be selected either.
        .filter(|local| !local.grants.hidden)
        .flat_map(recordable);
    tracks
        .find(|known| known.sid == *track)
        .map(|known| known.codec)
}

/// Rejects an egress all of whose tracks are encrypted end to end: its output would be empty.
///
/// # Errors
/// Names the request's field that selects the tracks.
pub(in crate::embedded) fn check_encryption(
    roster: &Roster,
    source: &EgressSource,
) -> Result<(), MediaError> {
    let field = match source {
        EgressSource::Track(_) => "track_id",
        EgressSource::Participant(_) => "identity",
        // Participants with unencrypted tracks may join later.
        EgressSource::RoomComposite { .. } => return Ok(()),
    };
    let mut tracks = media_tracks_of(roster, source).peekable();
    // A participant without tracks may publish an unencrypted one later.
    let is_empty = tracks.peek().is_some() && tracks.all(|(_, is_encrypted)| is_encrypted);
    if is_empty {
        Err(MediaError::Encrypted { field })
    } else {
        Ok(())
    }
}

/// Returns the participants that an egress records, with their tracks. Hidden participants are not recorded.
fn inputs(roster: &Roster, source: &EgressSource) -> Vec<InputParticipant> {
    let visible = roster.active_members().filter(|local| !local.grants.hidden);
    let inputs = visible.map(|local| InputParticipant {
        sid: local.sid().clone(),
        identity: local.identity().clone(),
        name: local.participant().name.clone(),
        tracks: recordable(local)
            .filter(|track| is_of(source, track))
            .collect(),
    });
    // A participant without tracks is an input of a composition, which may show its name, but not of a track's
    // recording.
    let is_contained = |input: &InputParticipant| match source {
        EgressSource::Track(_) => !input.tracks.is_empty(),
        source => may_contain(source, &input.identity),
    };
    inputs.filter(is_contained).collect()
}

/// Returns the tracks that an egress would record if they were not encrypted end to end.
fn encrypted(roster: &Roster, source: &EgressSource) -> BTreeSet<TrackSid> {
    media_tracks_of(roster, source)
        .filter(|(_, is_encrypted)| *is_encrypted)
        .map(|(track, _)| track.sid)
        .collect()
}

/// Returns the tracks within an egress's source, and whether they are encrypted end to end.
fn media_tracks_of(
    roster: &Roster,
    source: &EgressSource,
) -> impl Iterator<Item = (InputTrack, bool)> {
    let visible = roster
        .active_members()
        .filter(move |local| !local.grants.hidden && may_contain(source, local.identity()));
    visible
        .flat_map(media_tracks)
        .filter(move |(track, _)| is_of(source, track))
}

/// Returns whether a track belongs to an egress's source.
fn is_of(source: &EgressSource, track: &InputTrack) -> bool {
    // Opus is the only audio codec that the SFU forwards.
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

/// Returns whether an egress may record a participant's tracks.
fn may_contain(source: &EgressSource, participant: &Identity) -> bool {
    match source {
        // A track's publisher is not known in advance: `is_of` selects the track itself.
        EgressSource::RoomComposite { .. } | EgressSource::Track(_) => true,
        EgressSource::Participant(identity) => participant == identity,
    }
}

/// Returns a participant's tracks that can be decoded. Tracks that are encrypted end to end would be noise.
fn recordable(local: &LocalParticipant) -> impl Iterator<Item = InputTrack> {
    media_tracks(local)
        .filter(|(_, is_encrypted)| !is_encrypted)
        .map(|(track, _)| track)
}

/// Returns a participant's tracks with packets, and whether they are encrypted end to end.
fn media_tracks(local: &LocalParticipant) -> impl Iterator<Item = (InputTrack, bool)> {
    let is_media = |track: &&Track| track.kind != TrackKind::Data;
    local
        .participant()
        .tracks
        .iter()
        .filter(is_media)
        .filter_map(|track| {
            // Sandbox tracks have no MIME type, and no packets to record.
            let codec = track.mime_type.as_deref().and_then(Codec::from_mime_type)?;
            let is_encrypted = local
                .client
                .as_ref()
                .is_some_and(|client| client.tracks.is_encrypted(&track.sid));
            let track = InputTrack {
                sid: track.sid.clone(),
                source: track.source,
                codec,
                is_muted: track.muted,
            };
            Some((track, is_encrypted))
        })
}
