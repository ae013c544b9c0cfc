//! What is reported of rooms at regular times: speakers, connection qualities, bitrates.

use conclave_model::participant::TrackSource;

use super::Worker;
use super::roster::Silence;
use crate::event::{ConnectionQuality, Event, PeerQuality, PublishRate, RoomEvent, Speaker};
use crate::measure::LinkQuality;
use crate::measure::kilobits;
use crate::transport::{PeerKey, RoomKey};

impl Worker {
    /// Reports who began or ceased to speak, or speaks louder or lower.
    pub(super) fn report_speakers(&mut self) {
        self.report_each(Self::speaking, RoomEvent::SpeakersChanged);
    }

    /// Returns the level of a participant's audio if that has changed.
    fn speaking(&mut self, key: PeerKey) -> Option<Speaker> {
        let peer = self.peers.get_mut(key)?;
        let mut level: f32 = 0.0;
        for track in &peer.published {
            let Some(track) = self.tracks.get_mut(*track) else {
                continue;
            };
            let heard = track.speech.level(self.now);
            if track.source != TrackSource::ScreenShareAudio && !track.is_muted {
                level = level.max(heard);
            }
        }
        if (peer.speaking_level - level).abs() < f32::EPSILON {
            return None;
        }
        peer.speaking_level = level;
        Some(Speaker {
            peer: peer.info.sid.clone(),
            level,
            is_active: level > 0.0,
        })
    }

    /// Reports the connection qualities that have changed.
    pub(super) fn report_qualities(&mut self) {
        self.report_each(Self::connection_quality, RoomEvent::ConnectionQuality);
    }

    fn connection_quality(&mut self, key: PeerKey) -> Option<PeerQuality> {
        let peer = self.peers.get_mut(key).filter(|peer| peer.is_active)?;
        let connected = peer
            .transports()
            .filter_map(|key| self.transports.get(key))
            .filter(|transport| transport.is_connected);
        let score = connected
            .map(|transport| transport.quality.score())
            .min_by(f32::total_cmp)?;
        let is_lost = peer.silence != Silence::None || peer.has_failed;
        let quality = if is_lost {
            ConnectionQuality::Lost
        } else {
            LinkQuality::class(score)
        };
        if peer.reported_quality.replace(quality) == Some(quality) {
            return None;
        }
        Some(PeerQuality {
            peer: peer.info.sid.clone(),
            quality,
            score,
        })
    }

    /// Reports what the participants' publications have sent.
    pub(super) fn report_rates(&mut self) {
        self.report_each(Self::publish_rate, RoomEvent::PublishRates);
    }

    fn publish_rate(&mut self, key: PeerKey) -> Option<PublishRate> {
        let peer = self.peers.get_mut(key)?;
        let tracks = peer
            .published
            .iter()
            .filter_map(|track| self.tracks.get(*track));
        let bits: u64 = tracks
            .flat_map(|track| &track.layers)
            .map(|layer| layer.rate.bits_per_second)
            .sum();
        let kbps = kilobits(bits);
        let before = std::mem::replace(&mut peer.reported_kbps, kbps);
        (before > 0 || kbps > 0).then(|| PublishRate {
            peer: peer.info.sid.clone(),
            kbps,
        })
    }

    /// Asks something of every participant and reports the answers of each room.
    fn report_each<T>(
        &mut self,
        mut ask: impl FnMut(&mut Self, PeerKey) -> Option<T>,
        event: impl Fn(Vec<T>) -> RoomEvent,
    ) {
        let rooms: Vec<RoomKey> = self.rooms.keys().collect();
        for room in rooms {
            let Some((name, peers)) = self
                .rooms
                .get(room)
                .map(|room| (room.name.clone(), room.peers.clone()))
            else {
                continue;
            };
            let answers: Vec<_> = peers
                .into_iter()
                .filter_map(|peer| ask(self, peer))
                .collect();
            if !answers.is_empty() {
                self.events.push(Event::Room {
                    room: name,
                    event: event(answers),
                });
            }
        }
    }
}
