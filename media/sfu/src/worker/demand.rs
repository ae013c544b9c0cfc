//! Requests to publishers: key frames, the qualities in use, and backup codecs for receivers that cannot decode the
//! first codec.

use conclave_model::TrackSid;
use str0m::media::Mid;

use super::Worker;
use super::sections::Section;
use super::tracks::{AwaitedCodec, BackupCodec, Feed, PublishedTrack};
use crate::allocate::QualityUse;
use crate::codec::{Codec, TrackMedium};
use crate::event::{CodecUse, PeerEvent};
use crate::track::NewTrack;
use crate::transport::{PeerKey, TrackKey, TransportKey};

impl PublishedTrack {
    /// Returns the use that was last reported; before the first report, all qualities. The highest existing layer
    /// represents all qualities above it.
    fn reported_use(&self) -> CodecUse {
        let used = self
            .quality_use
            .reported()
            // With as many layers in use as there are, all three qualities are enabled, as more layers may appear.
            .filter(|used| *used != self.layers.len())
            .unwrap_or(3);
        CodecUse {
            codec: self.codec,
            enabled: [used > 0, used > 1, used > 2],
        }
    }

    /// Returns the state of a backup codec.
    pub fn backup_of(&mut self, codec: Codec) -> Option<&mut BackupCodec> {
        self.backups.iter_mut().find(|backup| backup.codec == codec)
    }
}

impl Worker {
    /// Handles a receiver's key frame request (PLI or FIR) for one of its sections.
    pub(super) fn handle_key_frame_request(&mut self, key: TransportKey, mid: Mid) {
        let Some(transport) = self.connections.get(key) else {
            return;
        };
        let peer = transport.peer();
        let section = self
            .roster
            .get(peer)
            .and_then(|peer| peer.sections.by_mid(mid));
        let Some(track_key) = section.and_then(Section::sent) else {
            return;
        };
        let Some(track) = self.tracks.get_mut(track_key) else {
            return;
        };
        // A receiver that has no layer yet waits for its target.
        let layer = track
            .subscription_of(peer)
            .and_then(|subscription| subscription.choice.current.or(subscription.choice.target));
        let layer = layer.map(|layer| track.key_frame_layer(layer));
        if let Some(layer) = layer.and_then(|layer| track.layers.get_mut(layer)) {
            layer.key_frames.want();
        }
        self.send_key_frame_requests(track_key);
    }

    /// Requests the key frames that a track's receivers and recorders wait for.
    pub(super) fn request_key_frames(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get_mut(key) else {
            return;
        };
        // A muted publisher sends nothing, and unmuting requests key frames again.
        if track.medium() == TrackMedium::Audio || track.is_muted {
            return;
        }
        let (start, is_layered) = (track.starting_layer(self.now), track.is_layered());
        let waiting = track
            .choices()
            .filter_map(|choice| choice.waits_for(is_layered));
        let waited_for: Vec<_> = waiting.chain(start).collect();
        for layer in waited_for {
            let layer = track.key_frame_layer(layer);
            if let Some(layer) = track.layers.get_mut(layer) {
                layer.key_frames.want();
            }
        }
        self.send_key_frame_requests(key);
    }

    /// Requests the key frames that a participant waits for.
    pub(super) fn request_key_frames_of(&mut self, key: PeerKey) {
        let Some(peer) = self.roster.get(key) else {
            return;
        };
        let tracks: Vec<_> = peer.sections.sent().collect();
        for track in tracks {
            self.request_key_frames(track);
        }
    }

    /// Sends a track's pending key frame requests that are due.
    pub(super) fn send_key_frame_requests(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get_mut(key) else {
            return;
        };
        let (transport, mid) = match track.feed {
            Feed::Connection { transport, mid } => (transport, mid),
            // The control side's packets come without a way to request key frames: receivers wait for the next one.
            Feed::Source { .. } => return,
            Feed::Mirror(_) => return self.request_mirrored_key_frames(key),
        };
        let Some(publisher) = self.connections.get_mut(transport) else {
            return;
        };
        let mut was_sent = false;
        for layer in track
            .layers
            .iter_mut()
            .filter(|layer| layer.key_frames.is_due(self.now))
        {
            // A layer that has not sent yet starts with a key frame, so the request stays pending.
            if !publisher.request_key_frame(mid, layer.rid) {
                continue;
            }
            layer.key_frames.record_sent(self.now);
            self.outputs.count_key_frame_request();
            was_sent = true;
        }
        if was_sent {
            self.connections.touch(transport);
        }
    }

    /// Reports a video's used qualities for all of its codecs, if they have changed. `key` is the first codec.
    pub(super) fn report_quality_use(&mut self, key: TrackKey) {
        let is_video =
            // Cloned, since the updates below borrow all tracks.
            |track: &&PublishedTrack| track.medium() == TrackMedium::Video && !track.info.is_backup;
        let Some(track) = self.tracks.get(key).filter(is_video) else {
            return;
        };
        let backups = track.backups.clone();
        let mut has_changed = self.update_quality_use(key);
        for (index, backup) in backups.into_iter().enumerate() {
            has_changed |= match backup.streams {
                Some(streams) => self.update_quality_use(streams),
                None => self.update_request(key, index),
            };
        }
        if has_changed {
            self.emit_quality_use(key);
        }
    }

    /// Updates the number of layers in use. Returns whether it must be reported.
    fn update_quality_use(&mut self, key: TrackKey) -> bool {
        let Some(track) = self.tracks.get(key) else {
            return false;
        };
        // Wanted, not current, layers count: a receiver short of bandwidth may need the layer again at any time.
        let settings = track
            .subscriptions
            .iter()
            .filter_map(|subscription| self.roster.get(subscription.peer)?.wanted.get(&track.sid));
        let recorded = track.recorders.iter().map(|recorder| &recorder.settings);
        let best = settings
            .chain(recorded)
            .filter_map(|settings| track.wanted_layer(*settings))
            .max();
        // Subscribers on other workers count by their mirrors' reports.
        let mirrored = track.taps.iter().map(|tap| tap.used_layers).max();
        let used = best.map_or(0, |best| best + 1).max(mirrored.unwrap_or(0));
        // The publisher's worker adds up all workers and reports to the publisher.
        if track.is_mirror() {
            self.notify_used_layers(key, used);
            return false;
        }
        self.tracks
            .get_mut(key)
            .is_some_and(|track| track.quality_use.update(used, self.now).is_some())
    }

    /// Updates whether a backup codec is requested. Returns whether this must be reported.
    fn update_request(&mut self, key: TrackKey, index: usize) -> bool {
        let Some(track) = self.tracks.get(key) else {
            return false;
        };
        let Some(BackupCodec {
            codec, awaited_on, ..
        }) = track.backups.get(index)
        else {
            return false;
        };
        let waits = |awaiting: &AwaitedCodec| {
            let settings = self
                .roster
                .get(awaiting.peer)
                .and_then(|peer| peer.wanted.get(&track.sid));
            // A receiver that has disabled the track needs no codec.
            awaiting.codec == *codec && settings.is_some_and(|settings| !settings.is_disabled)
        };
        let is_requested = track.awaiting.iter().any(waits) || !awaited_on.is_empty();
        let (codec, is_mirror) = (*codec, track.is_mirror());
        let backup = self
            .tracks
            .get_mut(key)
            .and_then(|track| track.backups.get_mut(index));
        let has_changed = backup.is_some_and(|backup| {
            std::mem::replace(&mut backup.is_requested, is_requested) != is_requested
        });
        if has_changed && is_mirror {
            self.notify_awaited_codec(key, codec, is_requested);
        }
        has_changed && !is_mirror
    }

    /// Reports a video's used qualities for all of its codecs.
    pub(super) fn emit_quality_use(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get(key) else {
            return;
        };
        let of_backup = |backup: &BackupCodec| {
            let streams = backup.streams.and_then(|streams| self.tracks.get(streams));
            let requested = CodecUse {
                codec: backup.codec,
                enabled: [backup.is_requested; 3],
            };
            streams.map_or(requested, PublishedTrack::reported_use)
        };
        let codecs = std::iter::once(track.reported_use())
            .chain(track.backups.iter().map(of_backup))
            .collect();
        let (publisher, event) = (
            track.peer,
            PeerEvent::SubscribedQuality {
                track: track.sid.clone(),
                codecs,
            },
        );
        self.emit(publisher, event);
    }

    /// Repeats the last report for a publisher's videos, which its client may have missed.
    pub(super) fn repeat_quality_use(&mut self, key: PeerKey) {
        let Some(peer) = self.roster.get(key) else {
            return;
        };
        let is_reported = |key: &TrackKey| {
            self.tracks.get(*key).is_some_and(|track| {
                let is_requested = track.backups.iter().any(|backup| backup.is_requested);
                !track.info.is_backup && (track.quality_use.reported().is_some() || is_requested)
            })
        };
        let reported: Vec<_> = peer.published.iter().copied().filter(is_reported).collect();
        reported
            .into_iter()
            .for_each(|track| self.emit_quality_use(track));
    }

    /// Returns whether an announced backup codec does not belong to its track: it was withdrawn, or the track is
    /// published in this codec.
    pub(super) fn is_unknown_backup(&self, key: PeerKey, info: &NewTrack) -> bool {
        let first = self
            .track_of(key, &info.sid)
            .and_then(|first| self.tracks.get(first));
        let is_known = |first: &PublishedTrack| {
            first
                .backups
                .iter()
                .any(|backup| info.codec == Some(backup.codec))
        };
        info.is_backup && first.is_some_and(|first| !is_known(first))
    }

    /// Adds a backup codec to its publisher, and reports it.
    pub(super) fn insert_backup(
        &mut self,
        key: PeerKey,
        mut track: PublishedTrack,
        mid: String,
    ) -> TrackKey {
        // It was sent on request, so there is no initial time in which all qualities are sent.
        track.quality_use = QualityUse::requested(track.layers.len(), self.now);
        let (sid, codec, layers) = (track.sid.clone(), track.codec, track.qualities());
        let streams = self.tracks.insert(track);
        if let Some(peer) = self.roster.get_mut(key) {
            peer.published.push(streams);
            peer.meter.record_sent_codec(codec.name());
        }
        self.share_track(streams);
        self.emit(
            key,
            PeerEvent::BackupPublished {
                track: sid,
                mid,
                codec,
                layers,
            },
        );
        streams
    }

    /// Registers newly published backup codecs with their first codec, and switches the receivers that need them.
    pub(super) fn use_backups(&mut self, key: PeerKey, sid: &TrackSid) {
        let Some(first) = self.track_of(key, sid) else {
            return;
        };
        for streams in self
            .tracks_of(key, sid)
            .into_iter()
            .filter(|streams| *streams != first)
        {
            let Some(codec) = self.tracks.get(streams).map(|track| track.codec) else {
                continue;
            };
            let backup = self
                .tracks
                .get_mut(first)
                .and_then(|first| first.backup_of(codec));
            // Already registered, unless it has just been published.
            if let Some(backup) = backup.filter(|backup| backup.streams.is_none()) {
                (backup.streams, backup.is_requested) = (Some(streams), true);
                backup.awaited_on.clear();
                let receivers = self.tracks.receivers(first);
                self.choose_codecs(first, receivers);
            }
        }
    }

    /// Ends a backup codec. Its receivers switch to another codec, or wait until this one is sent again.
    pub(super) fn end_backup(&mut self, streams: TrackKey) {
        let Some(track) = self.tracks.get(streams) else {
            return;
        };
        let codec = track.codec;
        if let Some(first) = self.track_of(track.peer, &track.sid.clone()) {
            // Collected before `streams` is cleared: afterwards, they could not be found.
            let receivers = self.tracks.receivers(first);
            let backup = self
                .tracks
                .get_mut(first)
                .and_then(|first| first.backup_of(codec));
            if let Some(backup) = backup.filter(|backup| backup.streams == Some(streams)) {
                (backup.streams, backup.is_requested) = (None, false);
            }
            self.choose_codecs(first, receivers);
        }
        self.remove_streams(streams);
    }

    /// Withdraws a backup codec at the control side's request. It is not requested again.
    pub(super) fn unpublish_backup(&mut self, key: PeerKey, sid: &TrackSid, codec: Codec) {
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        peer.withdraw_backup(sid, codec);
        let Some(first) = self.track_of(key, sid) else {
            return;
        };
        let receivers = self.tracks.receivers(first);
        let backup = self
            .tracks
            .get_mut(first)
            .and_then(|first| first.backup_of(codec));
        let streams = backup.and_then(|backup| {
            backup.is_requested = false;
            backup.streams.take()
        });
        // Reported before the codec is removed from the list: the publisher must be notified that it is off.
        self.emit_quality_use(first);
        if let Some(first) = self.tracks.get_mut(first) {
            first.backups.retain(|backup| backup.codec != codec);
        }
        self.choose_codecs(first, receivers);
        streams
            .into_iter()
            .for_each(|streams| self.remove_streams(streams));
    }
}
