//! Muted tracks of which a participant has received nothing yet.

use std::time::Instant;

use super::codecs::negotiated;
use super::subscription::Subscription;
use super::{Worker, touch};
use crate::track::Codec;
use crate::transport::{PeerKey, Transport};

/// The most empty packets of a muted track to one receiver: more than one, since any can be lost.
const MOST: u8 = 5;

impl Worker {
    /// Sends an empty packet of each muted track that a participant receives, if nothing of it was sent to it yet. Clients that
    /// use Pion, as LiveKit's SDK for Go, tell their application of a track only at its first packet. Browsers drop an empty
    /// packet (RFC 6263, section 4.1).
    pub(super) fn introduce_muted(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(key) else {
            return;
        };
        for track in peer.sections.iter().filter_map(|section| section.sent) {
            let Some(track) = self.tracks.get_mut(track).filter(|track| track.is_muted) else {
                continue;
            };
            let codec = track.codec;
            let is_new = |subscription: &&mut Subscription| {
                subscription.rate.packets == 0 && subscription.empty_packets < MOST
            };
            let Some(subscription) = track.subscription_of(key).filter(is_new) else {
                continue;
            };
            let receiver = self
                .transports
                .get_mut(subscription.transport)
                .filter(|receiver| receiver.can_send());
            let Some(receiver) = receiver else { continue };
            send_empty(receiver, subscription, codec, self.now);
            touch(
                &mut self.transports,
                &mut self.touched,
                subscription.transport,
            );
        }
    }
}

fn send_empty(
    receiver: &mut Transport,
    subscription: &mut Subscription,
    codec: Codec,
    now: Instant,
) {
    let Some(params) = negotiated(receiver, subscription.mid, codec) else {
        return;
    };
    let numbers = subscription.rewriter.insert(now, codec.clock_rate());
    subscription.empty_packets += 1;
    receiver.write_empty(subscription.mid, params.pt(), &numbers, now, false);
}
