//! Backup codecs of tracks: the publisher sends a track in one more codec, for receivers that cannot decode the first one.

use conclave_model::TrackSid;

use super::Worker;
use super::tracks::{BackupCodec, PublishedTrack};
use crate::allocate::QualityUse;
use crate::event::PeerEvent;
use crate::track::{Codec, NewTrack};
use crate::transport::{PeerKey, TrackKey};

impl PublishedTrack {
    /// Returns the entry of a backup codec.
    fn backup_of(&mut self, codec: Codec) -> Option<&mut BackupCodec> {
        self.backups.iter_mut().find(|backup| backup.codec == codec)
    }
}

impl Worker {
    /// Returns whether an announced backup codec is none of its track, which has been published in the same codec, or was withdrawn.
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

    /// Adds a track in a backup codec to its publisher, and reports it.
    pub(super) fn insert_backup(
        &mut self,
        key: PeerKey,
        mut track: PublishedTrack,
        mid: String,
    ) -> TrackKey {
        track.quality_use = QualityUse::requested(track.layers.len(), self.now);
        let (sid, codec, layers) = (track.sid.clone(), track.codec, track.qualities());
        let streams = self.tracks.insert(track);
        if let Some(peer) = self.peers.get_mut(key) {
            peer.published.push(streams);
        }
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

    /// Lets the first codec of a track know the backup codecs in which it is sent, and gives receivers those that they need.
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
            if let Some(backup) = backup.filter(|backup| backup.streams.is_none()) {
                (backup.streams, backup.is_requested) = (Some(streams), true);
                let receivers = self.receivers_of(first);
                self.choose_codecs(first, receivers);
            }
        }
    }

    /// Ends a track in a backup codec. Its receivers get another codec, or wait until the publisher sends this one again.
    pub(super) fn end_backup(&mut self, streams: TrackKey) {
        let Some(track) = self.tracks.get(streams) else {
            return;
        };
        let codec = track.codec;
        if let Some(first) = self.track_of(track.peer, &track.sid.clone()) {
            let receivers = self.receivers_of(first);
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

    /// Stops a track in a backup codec because the control side says so, and asks for it no more.
    pub(super) fn unpublish_backup(&mut self, key: PeerKey, sid: &TrackSid, codec: Codec) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        peer.announced
            .retain(|track| track.sid != *sid || !track.is_backup || track.codec != Some(codec));
        let Some(first) = self.track_of(key, sid) else {
            return;
        };
        let receivers = self.receivers_of(first);
        let backup = self
            .tracks
            .get_mut(first)
            .and_then(|first| first.backup_of(codec));
        let streams = backup.and_then(|backup| {
            backup.is_requested = false;
            backup.streams.take()
        });
        self.tell_quality_use(first);
        if let Some(first) = self.tracks.get_mut(first) {
            first.backups.retain(|backup| backup.codec != codec);
        }
        self.choose_codecs(first, receivers);
        streams
            .into_iter()
            .for_each(|streams| self.remove_streams(streams));
    }
}
