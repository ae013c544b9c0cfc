//! The state of participants' transports and tracks, as `/debug/actors` shows it.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_model::{Identity, NamespacedRoom};
use conclave_rtc::{
    Codec, Command, LayerSnapshot, PeerSnapshot, PublishedSnapshot, Quality, Reply, SubscribedSnapshot,
    TransportSnapshot,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::plane::Inner;

/// Participants that a media worker is asked about at once, since packets wait meanwhile.
const AT_ONCE: usize = 16;

impl Inner {
    /// Returns the state of the transports and tracks of a room's participants; `None` if none of them has a client. Waits
    /// as long as a media worker does not answer.
    pub async fn inspect_room(&self, room: &NamespacedRoom) -> Option<Value> {
        let (clients, _) = self.call(|machine, _| machine.clients_of(room));
        if clients.is_empty() {
            return None;
        }
        let mut shown = Vec::new();
        for some in clients.chunks(AT_ONCE) {
            let (sender, answer) = oneshot::channel();
            // The receiver is gone if the time for the answer is over.
            let reply = Reply::new(move |peers| drop(sender.send(peers)));
            let peers = some.iter().map(|(sid, _)| sid.clone()).collect();
            self.send_command(room, Command::Snapshot { peers, reply });
            // The last client of the room may have left in the meantime.
            let Ok(answered) = answer.await else { break };
            let identity =
                |peer: &PeerSnapshot| some.iter().find(|(sid, _)| *sid == peer.sid).map(|(_, identity)| identity);
            shown.extend(answered.iter().filter_map(|peer| Some(participant(identity(peer)?, peer))));
        }
        Some(shown.into())
    }
}

fn participant(identity: &Identity, peer: &PeerSnapshot) -> Value {
    json!({
        "identity": identity,
        "sid": peer.sid,
        "transports": peer.transports.iter().map(transport).collect::<Vec<_>>(),
        "published": peer.published.iter().map(published).collect::<Vec<_>>(),
        "received": peer.subscribed.iter().map(received).collect::<Vec<_>>(),
    })
}

fn transport(transport: &TransportSnapshot) -> Value {
    let pair = transport.candidate_pair.as_ref().map(|pair| {
        let protocol = if pair.is_tcp { "tcp" } else { "udp" };
        json!({"protocol": protocol, "local": pair.local, "remote": pair.remote})
    });
    json!({
        "role": transport.role,
        "connected": transport.is_connected,
        "candidate_pair": pair,
        "silent_ms": transport.silent_for.map(millis),
        "round_trip_ms": transport.round_trip.map(millis),
        "sent_loss": transport.egress_loss,
        "received_loss": transport.ingress_loss,
        "estimate_kbps": transport.estimate_kbps,
        "wanted_kbps": transport.wanted_kbps,
        "media_sections": transport.media_sections,
        "dropped_packets": transport.dropped.iter().map(|(reason, packets)| (reason.label(), packets)).collect::<BTreeMap<_, _>>(),
    })
}

fn published(track: &PublishedSnapshot) -> Value {
    json!({
        "sid": track.sid,
        "codec": track.codec.map(Codec::mime_type),
        "muted": track.is_muted,
        "subscribers": track.subscribers,
        "layers": track.layers.iter().map(layer).collect::<Vec<_>>(),
    })
}

fn layer(layer: &LayerSnapshot) -> Value {
    json!({
        "quality": quality(layer.quality),
        "live": layer.is_live,
        "kbps": layer.kbps,
        "packets": layer.packets,
        "key_frame_requests": layer.key_frame_requests,
        "last_key_frame_ms": layer.last_key_frame.map(millis),
    })
}

fn received(track: &SubscribedSnapshot) -> Value {
    json!({
        "sid": track.sid,
        "mid": track.mid,
        "current": track.current.map(quality),
        "target": track.target.map(quality),
        "kbps": track.kbps,
        "packets": track.packets,
    })
}

const fn quality(quality: Quality) -> &'static str {
    match quality {
        Quality::Low => "low",
        Quality::Medium => "medium",
        Quality::High => "high",
    }
}

/// Milliseconds, which 64 bits hold for as long as a server runs.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use conclave_model::{Clock, ParticipantSid, Secret, Timestamp};

    use super::*;
    use crate::embedded::client::Client;
    use crate::embedded::machine::tests::{claims, room};
    use crate::embedded::{CommandSink, EmbeddedPlane};
    use crate::token::TokenSigner;

    /// A media worker that answers inspections, and keeps how many participants each was about.
    #[derive(Default)]
    struct Worker(Mutex<Vec<usize>>);

    impl CommandSink for Worker {
        fn send(&self, _: &NamespacedRoom, command: Command) {
            let Command::Snapshot { peers, reply } = command else { return };
            self.0.lock().unwrap().push(peers.len());
            reply.send(peers.into_iter().map(snapshot).collect());
        }
    }

    /// A media worker that has forgotten the room.
    struct Forgetful;

    impl CommandSink for Forgetful {
        fn send(&self, _: &NamespacedRoom, _: Command) {}
    }

    fn snapshot(sid: ParticipantSid) -> PeerSnapshot {
        PeerSnapshot { sid, transports: Vec::new(), published: Vec::new(), subscribed: Vec::new() }
    }

    fn plane_with(clients: usize, worker: Arc<dyn CommandSink>) -> EmbeddedPlane {
        let signer = Arc::new(TokenSigner::new("key", &Secret::new("secret")));
        let plane = EmbeddedPlane::new(Clock::manual(Timestamp::from_millis(0)), signer, "ws://localhost");
        assert!(plane.set_command_sink(worker));
        for client in 0..clients {
            plane.inner().call(|machine, now| {
                let sid =
                    machine.request_join(claims(&room(), &format!("p{client}"), None), Client::default(), now).unwrap();
                machine.admit(&sid, now).unwrap();
            });
        }
        plane
    }

    #[tokio::test]
    async fn a_worker_is_asked_about_a_few_participants_at_a_time() {
        let worker = Arc::new(Worker::default());
        let plane = plane_with(40, worker.clone());
        let shown = plane.inner().inspect_room(&room()).await.unwrap();
        assert_eq!(shown.as_array().unwrap().len(), 40);
        assert!(shown.as_array().unwrap().iter().any(|participant| participant["identity"] == "p39"));
        assert_eq!(*worker.0.lock().unwrap(), [16, 16, 8]);
    }

    #[tokio::test]
    async fn a_room_without_clients_has_nothing_to_show_and_one_that_is_being_closed_is_empty() {
        assert_eq!(plane_with(0, Arc::new(Worker::default())).inner().inspect_room(&room()).await, None);
        assert_eq!(plane_with(1, Arc::new(Forgetful)).inner().inspect_room(&room()).await, Some(json!([])));
    }
}
