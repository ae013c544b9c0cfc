//! Which qualities of a video anyone uses in which codec, so that the publisher can stop to send the others.

use super::Worker;
use super::tracks::{AwaitedCodec, BackupCodec, PublishedTrack};
use crate::event::{CodecUse, PeerEvent};
use crate::track::TrackMedium;
use crate::transport::{PeerKey, TrackKey};

impl PublishedTrack {
    /// Returns the use that was reported last: all qualities before the first report. The best layer that there is stands for the
    /// qualities above it, too.
    fn reported_use(&self) -> CodecUse {
        let used = self
            .quality_use
            .reported()
            .filter(|used| *used != self.layers.len())
            .unwrap_or(3);
        CodecUse {
            codec: self.codec,
            enabled: [used > 0, used > 1, used > 2],
        }
    }
}

impl Worker {
    /// Reports which qualities of a video are used in its codecs, if that has changed. The track is that of the first codec.
    pub(super) fn report_quality_use(&mut self, key: TrackKey) {
        let is_video =
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
            self.tell_quality_use(key);
        }
    }

    /// Counts the layers that are used. Returns whether that is to be reported.
    fn update_quality_use(&mut self, key: TrackKey) -> bool {
        let Some(track) = self.tracks.get(key) else {
            return false;
        };
        let settings = track
            .subscriptions
            .iter()
            .filter_map(|subscription| self.peers.get(subscription.peer)?.wanted.get(&track.sid));
        let recorded = track.recorders.iter().map(|recorder| &recorder.settings);
        let best = settings
            .chain(recorded)
            .filter_map(|settings| track.wanted_layer(*settings))
            .max();
        let used = best.map_or(0, |best| best + 1);
        self.tracks
            .get_mut(key)
            .is_some_and(|track| track.quality_use.update(used, self.now).is_some())
    }

    /// Notes whether anyone waits for a backup codec. Returns whether that is to be reported.
    fn update_request(&mut self, key: TrackKey, index: usize) -> bool {
        let Some(track) = self.tracks.get(key) else {
            return false;
        };
        let Some(codec) = track.backups.get(index).map(|backup| backup.codec) else {
            return false;
        };
        let waits = |awaiting: &AwaitedCodec| {
            let settings = self
                .peers
                .get(awaiting.peer)
                .and_then(|peer| peer.wanted.get(&track.sid));
            awaiting.codec == codec && settings.is_some_and(|settings| !settings.is_disabled)
        };
        let is_requested = track.awaiting.iter().any(waits);
        let backup = self
            .tracks
            .get_mut(key)
            .and_then(|track| track.backups.get_mut(index));
        backup.is_some_and(|backup| {
            std::mem::replace(&mut backup.is_requested, is_requested) != is_requested
        })
    }

    /// Reports which qualities of a video are used in its codecs.
    pub(super) fn tell_quality_use(&mut self, key: TrackKey) {
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

    /// Reports again what a publisher knows of the use of its videos: its client may not have got the last report.
    pub(super) fn repeat_quality_use(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(key) else {
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
            .for_each(|track| self.tell_quality_use(track));
    }
}
