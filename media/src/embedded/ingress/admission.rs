//! Admission of encoders, by RTMP and WHIP alike.
//!
//! A stream key may be tried at [a rate](super::stream_keys::StreamKeyRates), by each address and from all of them. An endpoint has one encoder. If that
//! one has been silent for [`SILENT`], it may have lost its network and come back by another one: so it gives way. Then the control
//! plane is asked, as at the join of any client.

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

/// How long a media worker may take to say what it knows of an encoder.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks that an encoder at an address may connect with a stream key, before its request is read.
///
/// # Errors
/// `TooManyTries`, `UnknownKey`, `AlreadyConnected`.
pub(in crate::embedded) async fn check_stream_key(
    plane: &Arc<PlaneCore>,
    key: &StreamKeyHash,
    input: InputType,
    address: Option<ClientAddress>,
) -> Result<(), EncoderRefusal> {
    let rates = &plane.stream_key_rates;
    let counted = address.map_or(Ok(()), |address| rates.check(address, key));
    counted.map_err(|retry_after| EncoderRefusal::TooManyTries { retry_after })?;
    let room = plane.common.room_of_key(key)?;
    match plane
        .call(&room, |machine, _| {
            machine.vacant_endpoint(key, input).map(|_| ())
        })
        .0
    {
        Err(RoomStateError::EncoderConnected)
            if silent_encoder(plane, key, input).await.is_some() =>
        {
            Ok(())
        }
        checked => Ok(checked?),
    }
}

/// Returns the encoder with a stream key, and its room, if it has been silent for as long as its network takes to be lost.
async fn silent_encoder(
    plane: &Arc<PlaneCore>,
    key: &StreamKeyHash,
    input: InputType,
) -> Option<(Arc<Room>, ParticipantSid)> {
    let name = plane.common.room_of_key(key).ok()?;
    let (room, connected, _) =
        plane.enter(&name, |machine, _| machine.connected_encoder(key, input));
    let (sid, activity) = connected?;
    // The packets of WebRTC arrive at a media worker. Before the first of them, the encoder is heard of by its request.
    let by_packets = if input == InputType::Whip {
        media_silence(&room, &sid).await
    } else {
        None
    };
    let is_silent = by_packets.unwrap_or_else(|| activity.silent_for()) >= SILENT;
    is_silent.then_some((room, sid))
}

/// Asks the control plane whether an encoder may join. Returns the room that holds its place, and its join. One that has the place and is
/// silent gives way.
pub(in crate::embedded) async fn request_encoder(
    plane: &Arc<PlaneCore>,
    key: &StreamKeyHash,
    input: InputType,
) -> Result<(Arc<Room>, EncoderJoin), EncoderRefusal> {
    let name = plane.common.room_of_key(key)?;
    if let Some((room, silent)) = silent_encoder(plane, key, input).await {
        log::info!(participant = silent.as_str(); "an encoder that has been silent gives way to another one");
        plane.call_in(&room, |machine, now| {
            machine.replace_silent_encoder(&silent, now)
        });
    }
    let ask = |machine: &mut RoomState, now| machine.request_encoder(key, input, now);
    phases::request(plane, &name, ask, |join: &EncoderJoin| &join.sid).await
}

/// Returns how long nothing of a participant has arrived at its media worker; `None` if nothing ever has.
async fn media_silence(room: &Room, sid: &ParticipantSid) -> Option<Duration> {
    let (sender, answer) = oneshot::channel();
    // The receiver is gone if the time for the answer is over.
    let reply = Reply::new(move |peers| drop(sender.send(peers)));
    room.send_command(Command::Snapshot {
        peers: vec![sid.clone()],
        reply,
    });
    let peers: Vec<PeerSnapshot> = timeout(SNAPSHOT_TIMEOUT, answer).await.ok()?.ok()?;
    peers
        .first()?
        .transports
        .iter()
        .filter_map(|transport| transport.silent_for)
        .min()
}
