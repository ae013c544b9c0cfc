//! Recorders: receivers without a transport. A full queue never delays other receivers.

use std::sync::Arc;
use std::time::Instant;

use conclave_model::EgressId;

use super::subscription::LayerChoice;
use super::tracks::{PublishedTrack, Recorder};
use crate::adapt::SequenceNumbers;
use crate::codec::TrackMedium;
use crate::command::NewRecorder;
use crate::dropped::{DropReason, Drops};
use crate::packet::Packet;
use crate::recorder::RecordedPacket;

impl PublishedTrack {
    /// Adds a recorder, or changes its settings.
    pub fn attach_recorder(&mut self, new: NewRecorder) {
        let mut recorders = self.recorders.iter_mut();
        match recorders.find(|recorder| recorder.egress == new.egress) {
            // Attached again: the choice and the numbers stay, so the recording has no gap.
            Some(known) => known.settings = new.settings,
            None => self.recorders.push(Recorder {
                egress: new.egress,
                settings: new.settings,
                sink: new.sink,
                choice: LayerChoice::default(),
                numbers: SequenceNumbers::new(0),
            }),
        }
    }

    /// Removes a recorder.
    pub fn detach_recorder(&mut self, egress: &EgressId) {
        self.recorders.retain(|recorder| recorder.egress != *egress);
    }

    /// Requests a key frame for a recorder. Returns whether the recorder receives anything.
    pub fn want_recorded_key_frame(&mut self, egress: &EgressId) -> bool {
        let mut recorders = self.recorders.iter();
        let recorder = recorders.find(|recorder| recorder.egress == *egress);
        let Some(layer) =
            recorder.and_then(|recorder| recorder.choice.current.or(recorder.choice.target))
        else {
            return false;
        };
        let layer = self.key_frame_layer(layer);
        if let Some(layer) = self.layers.get_mut(layer) {
            layer.key_frames.want();
        }
        true
    }

    /// Chooses the recorders' layers. Returns whether there are recorders.
    pub fn choose_recorded_layers(&mut self, now: Instant) -> bool {
        for index in 0..self.recorders.len() {
            let wanted = self.wanted_layer(self.recorders[index].settings);
            let target = wanted.and_then(|wanted| self.best_live_layer(wanted, now));
            self.recorders[index].choice.set_target(target);
        }
        !self.recorders.is_empty()
    }
}

impl Recorder {
    /// Returns a recorded packet's layer, number and end-of-frame flag; `None` if it is left out. A stream with layers
    /// counts as one layer, and its recorded packets are numbered without gaps.
    fn accept(&mut self, layer: usize, packet: &Packet<'_>) -> Option<(usize, u64, bool)> {
        let (media, before) = (&packet.media, self.choice.current);
        if !packet.is_layered {
            // Numbers are the publisher's: gaps show real losses.
            let is_admitted = self.choice.admit(layer, media.is_entry_point);
            return is_admitted.then_some((layer, media.sequence, packet.is_last));
        }
        let ends_frame = match media.layered() {
            // Padding only probes the publisher's bandwidth.
            _ if media.is_padding() => None,
            Some(layered) => self.choice.admit_layered(&layered),
            // A packet that names no layer is recorded along with the others.
            None => (before.is_some() || self.choice.admit(layer, media.is_entry_point))
                .then_some(false),
        };
        let Some(ends_frame) = ends_frame else {
            self.numbers.skip(media.sequence);
            return None;
        };
        if before.is_none() {
            // The gap shows the recorder that the previous frame is incomplete.
            self.numbers.insert();
            self.numbers.switch(media.sequence);
        }
        Some((
            0,
            self.numbers.rewrite(media.sequence)?,
            packet.is_last || ends_frame,
        ))
    }
}

/// Passes a packet to a track's recorders, and counts those whose queue is full.
pub fn record(track: &mut PublishedTrack, layer: usize, packet: &Packet<'_>, dropped: &mut Drops) {
    if track.recorders.is_empty() {
        return;
    }
    let media = &packet.media;
    // Egresses decode plain Opus, without redundancy.
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
        // Nothing after a gap can be decoded, so recording continues at the next key frame. The tick requests it.
        if !is_audio {
            recorder.choice.current = None;
        }
    }
}
