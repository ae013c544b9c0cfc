//! Inspection of participants' transports and tracks, for `/debug/actors`.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_model::{Identity, ParticipantSid};
use conclave_sfu::{
    Codec, Command, LayerSnapshot, PeerSnapshot, PublishedSnapshot, Quality, Reply,
    SubscribedSnapshot, TransportSnapshot,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::room::Room;

/// Participants per snapshot request. The media worker handles no packets meanwhile, so one request must stay short.
const AT_ONCE: usize = 16;

/// Returns the state of the transports and tracks of a room's participants; `None` if none has a client. Waits for the
/// media worker without a timeout.
pub(super) async fn inspect(room: &Room) -> Option<Value> {
    let clients = room.lock().room_state.clients();
    show(&clients, |command| room.send_command(command)).await
}

/// Returns clients' state from the media worker that receives `send`'s commands.
async fn show(clients: &[(ParticipantSid, Identity)], send: impl Fn(Command)) -> Option<Value> {
    // A room without clients is on no worker, which could not reply.
    if clients.is_empty() {
        return None;
    }
    let mut shown = Vec::new();
    // One chunk after another, so that the worker handles packets in between.
    for some in clients.chunks(AT_ONCE) {
        let (sender, answer) = oneshot::channel();
        // Ignored: the receiver is gone after the caller's timeout.
        let reply = Reply::new(move |peers| drop(sender.send(peers)));
        send(Command::Snapshot {
            peers: some.iter().map(|(sid, _)| sid.clone()).collect(),
            reply,
        });
        // The worker drops the reply if the room's last client has left in the meantime.
        let Ok(answered) = answer.await else { break };
        // The worker knows sids only.
        let identity = |peer: &PeerSnapshot| {
            some.iter()
                .find(|(sid, _)| *sid == peer.sid)
                .map(|(_, identity)| identity)
        };
        shown.extend(
            answered
                .iter()
                .filter_map(|peer| Some(participant(identity(peer)?, peer))),
        );
    }
    Some(shown.into())
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
        // From the server's point of view: sent to the client.
        "sent_loss": transport.egress_loss,
        "received_loss": transport.ingress_loss,
        "estimate_kbps": transport.estimate_kbps,
        "wanted_kbps": transport.wanted_kbps,
        "media_sections": transport.media_sections,
        // By reason, as in the metrics, but for one transport.
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
        "codec": track.codec.map(Codec::mime_type),
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

/// Returns milliseconds. 64 bits suffice for any uptime.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn clients(number: usize) -> Vec<(ParticipantSid, Identity)> {
        (0..number)
            .map(|client| {
                (
                    format!("PA_{client}").parse().unwrap(),
                    format!("p{client}").parse().unwrap(),
                )
            })
            .collect()
    }

    fn snapshot(sid: ParticipantSid) -> PeerSnapshot {
        PeerSnapshot {
            sid,
            transports: Vec::new(),
            published: Vec::new(),
            subscribed: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_worker_is_asked_about_a_few_participants_at_a_time() {
        let asked = RefCell::new(Vec::new());
        let worker = |command| {
            let Command::Snapshot { peers, reply } = command else {
                return;
            };
            asked.borrow_mut().push(peers.len());
            reply.send(peers.into_iter().map(snapshot).collect());
        };
        let shown = show(&clients(40), worker).await.unwrap();
        assert_eq!(shown.as_array().unwrap().len(), 40);
        assert!(
            shown
                .as_array()
                .unwrap()
                .iter()
                .any(|participant| participant["identity"] == "p39")
        );
        assert_eq!(*asked.borrow(), [16, 16, 8]);
    }

    #[tokio::test]
    async fn a_room_without_clients_has_nothing_to_show_and_one_that_is_being_closed_is_empty() {
        assert_eq!(show(&clients(0), |_| {}).await, None);
        assert_eq!(
            show(&clients(1), |_| {}).await,
            Some(json!([])),
            "the worker has forgotten the room"
        );
    }
}
