//! Admission of encoders, for RTMP and WHIP alike. Attempts with a stream key have [rate
//! limits](super::stream_keys::StreamKeyRates), per address and per key. An endpoint has one encoder. If that encoder
//! has been silent for [`SILENT`], it may have lost its network and be reconnecting through another, so it is
//! disconnected in favour of the new one. Then the control plane decides, as for any client's join.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::ingress::{InputType, StreamKeyHash};
use conclave_model::{ClientAddress, ParticipantSid};
use conclave_sfu::{Command, PeerSnapshot, Reply};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::refusal::EncoderRefusal;
use super::stream_keys::SILENT;
use crate::embedded::error::RoomStateError;
use crate::embedded::join::phases;
use crate::embedded::plane::core::PlaneCore;
use crate::embedded::room::Room;
use crate::embedded::room_state::RoomState;
use crate::embedded::room_state::membership::EncoderJoin;

/// Time limit for a media worker's reply about an encoder.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks that an encoder may connect with a stream key from an address, before its request is read.
///
/// # Errors
/// `TooManyTries`, `UnknownKey`, `AlreadyConnected`.
pub(in crate::embedded) async fn check_stream_key(
    plane: &Arc<PlaneCore>,
    key: &StreamKeyHash,
    input: InputType,
    address: Option<ClientAddress>,
) -> Result<(), EncoderRefusal> {
    // Counted before the look-up: the response must not reveal at an unlimited rate which keys exist.
    let rates = &plane.stream_key_rates;
    let counted = address.map_or(Ok(()), |address| rates.check(address, key));
    counted.map_err(|retry_after| EncoderRefusal::TooManyTries { retry_after })?;
    let room = plane.common.room_of_key(key)?;
    match plane
        .call(&room, |room_state, _| {
            room_state.vacant_endpoint(key, input).map(|_| ())
        })
        .0
    {
        // Only checked here. `request_encoder` disconnects the silent one, once the new encoder's request is valid.
        Err(RoomStateError::EncoderConnected)
            if silent_encoder(plane, key, input).await.is_some() =>
        {
            Ok(())
        }
        checked => Ok(checked?),
    }
}

/// Returns the encoder with a stream key and its room, if it has been silent for [`SILENT`].
async fn silent_encoder(
    plane: &Arc<PlaneCore>,
    key: &StreamKeyHash,
    input: InputType,
) -> Option<(Arc<Room>, ParticipantSid)> {
    let name = plane.common.room_of_key(key).ok()?;
    let (room, connected, _) = plane.enter(&name, |room_state, _| {
        room_state.connected_encoder(key, input)
    });
    let (sid, activity) = connected?;
    // With WHIP, packets arrive at a media worker. Before the first packet, the encoder's request counts.
    let by_packets = if input == InputType::Whip {
        media_silence(&room, &sid).await
    } else {
        None
    };
    let is_silent = by_packets.unwrap_or_else(|| activity.silent_for()) >= SILENT;
    is_silent.then_some((room, sid))
}

/// Requests an encoder's join, after disconnecting a silent encoder from the endpoint. Returns the room with the
/// reserved seat, and the join.
pub(in crate::embedded) async fn request_encoder(
    plane: &Arc<PlaneCore>,
    key: &StreamKeyHash,
    input: InputType,
) -> Result<(Arc<Room>, EncoderJoin), EncoderRefusal> {
    let name = plane.common.room_of_key(key)?;
    if let Some((room, silent)) = silent_encoder(plane, key, input).await {
        log::info!(participant = silent.as_str(); "silent encoder disconnected in favour of another");
        plane.call_in(&room, |room_state, now| {
            room_state.replace_silent_encoder(&silent, now);
        });
    }
    let ask = |room_state: &mut RoomState, now| room_state.request_encoder(key, input, now);
    phases::request(plane, &name, ask, |join: &EncoderJoin| &join.sid).await
}

/// Returns the time since a media worker received anything from a participant; `None` if it never has.
async fn media_silence(room: &Room, sid: &ParticipantSid) -> Option<Duration> {
    let (sender, answer) = oneshot::channel();
    // Fails if the timeout has passed: then the reply is no longer needed.
    let reply = Reply::new(move |peers| drop(sender.send(peers)));
    room.send_command(Command::Snapshot {
        peers: vec![sid.clone()],
        reply,
    });
    let peers: Vec<PeerSnapshot> = timeout(SNAPSHOT_TIMEOUT, answer).await.ok()?.ok()?;
    // The most recent one counts: a participant may have several transports.
    peers
        .first()?
        .transports
        .iter()
        .filter_map(|transport| transport.silent_for)
        .min()
}
