//! Recorders of tracks: receivers without a transport, whose queues never hold a packet up.

use std::sync::Arc;

use conclave_model::{EgressId, TrackSid};

use super::Worker;
use super::allocate::best_live_layer;
use super::subscription::LayerChoice;
use super::subscription::Packet;
use super::tracks::{PublishedTrack, Recorder};
use crate::adapt::SequenceNumbers;
use crate::command::NewRecorder;
use crate::dropped::{DropReason, Drops};
use crate::recorder::RecordedPacket;
use crate::track::TrackMedium;
use crate::transport::{PeerKey, TrackKey};

impl Worker {
    /// Gives a track a recorder, or changes the layer that its recorder wants.
    pub(super) fn attach_recorder(&mut self, key: PeerKey, sid: &TrackSid, new: NewRecorder) {
        let Some(track_key) = self.track_of(key, sid) else {
            return;
        };
        let Some(track) = self.tracks.get_mut(track_key) else {
            return;
        };
        match track
            .recorders
            .iter_mut()
            .find(|recorder| recorder.egress == new.egress)
        {
            Some(known) => known.settings = new.settings,
            None => track.recorders.push(Recorder {
                egress: new.egress,
                settings: new.settings,
                sink: new.sink,
                choice: LayerChoice::default(),
                numbers: SequenceNumbers::new(0),
            }),
        }
        self.choose_recorded_layers(track_key);
        self.report_quality_use(track_key);
    }

    /// Takes a recorder from a track.
    pub(super) fn detach_recorder(&mut self, key: PeerKey, sid: &TrackSid, egress: &EgressId) {
        let Some(track_key) = self.track_of(key, sid) else {
            return;
        };
        if let Some(track) = self.tracks.get_mut(track_key) {
            track
                .recorders
                .retain(|recorder| recorder.egress != *egress);
        }
        self.report_quality_use(track_key);
    }

    /// Handles a recorder's need for a key frame.
    pub(super) fn request_recorded_key_frame(
        &mut self,
        key: PeerKey,
        sid: &TrackSid,
        egress: &EgressId,
    ) {
        let Some(track_key) = self.track_of(key, sid) else {
            return;
        };
        let Some(track) = self.tracks.get_mut(track_key) else {
            return;
        };
        let recorder = track
            .recorders
            .iter()
            .find(|recorder| recorder.egress == *egress);
        let Some(layer) =
            recorder.and_then(|recorder| recorder.choice.current.or(recorder.choice.target))
        else {
            return;
        };
        let layer = track.key_frame_layer(layer);
        if let Some(layer) = track.layers.get_mut(layer) {
            layer.key_frames.want();
        }
        self.request_key_frames(track_key);
    }

    /// Chooses the layers that the recorders of a track get, and requests the key frames with which they begin.
    pub(super) fn choose_recorded_layers(&mut self, key: TrackKey) {
        let now = self.now;
        let Some(track) = self
            .tracks
            .get_mut(key)
            .filter(|track| !track.recorders.is_empty())
        else {
            return;
        };
        for index in 0..track.recorders.len() {
            let wanted = track.wanted_layer(track.recorders[index].settings);
            let target = wanted.and_then(|wanted| best_live_layer(track, wanted, now));
            track.recorders[index].choice.set_target(target);
        }
        self.request_key_frames(key);
    }
}

impl Recorder {
    /// Returns the layer and the number of a packet that is recorded, and whether it is the last one of its picture. A stream with layers
    /// is one, of which the packets that are recorded have numbers without gaps.
    fn accept(&mut self, layer: usize, packet: &Packet<'_>) -> Option<(usize, u64, bool)> {
        let (media, before) = (&packet.media, self.choice.current);
        let Some(layered) = media.layered().filter(|_| packet.is_layered) else {
            let is_admitted = self.choice.admit(layer, media.is_entry_point);
            return is_admitted.then_some((layer, media.sequence, packet.is_last));
        };
        let Some(ends_picture) = self.choice.admit_layered(&layered) else {
            self.numbers.skip(media.sequence);
            return None;
        };
        if before.is_none() {
            // A gap shows that what came before has no end.
            self.numbers.insert();
            self.numbers.switch(media.sequence);
        }
        Some((
            0,
            self.numbers.rewrite(media.sequence)?,
            packet.is_last || ends_picture,
        ))
    }
}

/// Gives a packet to the recorders of its track, and counts those that it could not be given to.
pub fn record(track: &mut PublishedTrack, layer: usize, packet: &Packet<'_>, dropped: &mut Drops) {
    if track.recorders.is_empty() {
        return;
    }
    let media = &packet.media;
    let payload = if packet.incoming.is_red {
        media.primary.as_ref()
    } else {
        Some(&media.payload)
    };
    let Some(payload) = payload else {
        return dropped.count(DropReason::MalformedRedundancy);
    };
    let is_audio = track.info.medium == TrackMedium::Audio;
    for recorder in &mut track.recorders {
        let Some((layer, sequence, is_marked)) = recorder.accept(layer, packet) else {
            continue;
        };
        let recorded = RecordedPacket {
            track: track.sid.clone(),
            layer,
            codec: track.codec,
            sequence,
            timestamp: media.timestamp,
            is_marked,
            is_entry_point: media.is_entry_point,
            payload: Arc::clone(payload),
            arrived: media.arrived,
            report: packet.report,
        };
        if recorder.sink.try_send(recorded) {
            continue;
        }
        dropped.count(DropReason::RecorderFull);
        if !is_audio {
            recorder.choice.current = None;
        }
    }
}
