//! Which qualities of a video anyone uses, so that the publisher can stop to send the others.

use super::Worker;
use crate::event::PeerEvent;
use crate::track::TrackMedium;
use crate::transport::TrackKey;

impl Worker {
    /// Reports which qualities of a video are used, if that has changed.
    pub(super) fn report_quality_use(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get(key).filter(|track| track.medium() == TrackMedium::Video) else { return };
        let settings = track
            .subscriptions
            .iter()
            .filter_map(|subscription| self.peers.get(subscription.peer)?.wanted.get(&track.sid));
        let recorded = track.recorders.iter().map(|recorder| &recorder.settings);
        let best = settings.chain(recorded).filter_map(|settings| track.wanted_layer(*settings)).max();
        let used = best.map_or(0, |best| best + 1);
        let Some(track) = self.tracks.get_mut(key) else { return };
        let Some(used) = track.quality_use.update(used, self.now) else { return };
        // The best layer that there is stands for the qualities above it, too.
        let used = if used == track.layers.len() { 3 } else { used };
        let enabled = [used > 0, used > 1, used > 2];
        let (publisher, event) =
            (track.peer, PeerEvent::SubscribedQuality { track: track.sid.clone(), codec: track.codec, enabled });
        self.emit(publisher, event);
    }
}
