//! Admission of encoders, by RTMP and WHIP alike.
//!
//! A stream key may be tried at [a rate](StreamKeyRates), by each address and from all of them. An endpoint has one encoder. If that
//! one has been silent for [`SILENT`], it may have lost its network and come back by another one: so it gives way. Then the control
//! plane is asked, as at the join of any client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::ingress::{InputType, StreamKeyHash};
use conclave_model::{ClientAddress, Clock, ParticipantSid, Rate, RateLimits};
use conclave_sfu::{Command, PeerSnapshot, Reply};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::embedded::error::MachineError;
use crate::embedded::join;
use crate::embedded::machine::Machine;
use crate::embedded::machine::membership::EncoderJoin;
use crate::embedded::plane::Inner;
use crate::embedded::room::Room;
use crate::port::ReportError;

/// How long a media worker may take to say what it knows of an encoder.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks that an encoder at an address may connect with a stream key, before its request is read.
///
/// # Errors
/// `TooManyTries`, `UnknownKey`, `AlreadyConnected`.
pub(in crate::embedded) async fn check_stream_key(
    plane: &Arc<Inner>,
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
        Err(MachineError::EncoderConnected)
            if silent_encoder(plane, key, input).await.is_some() =>
        {
            Ok(())
        }
        checked => Ok(checked?),
    }
}

/// Returns the encoder with a stream key, and its room, if it has been silent for as long as its network takes to be lost.
async fn silent_encoder(
    plane: &Arc<Inner>,
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
    plane: &Arc<Inner>,
    key: &StreamKeyHash,
    input: InputType,
) -> Result<(Arc<Room>, EncoderJoin), EncoderRefusal> {
    let name = plane.common.room_of_key(key)?;
    if let Some((room, silent)) = silent_encoder(plane, key, input).await {
        log::info!(participant = silent.as_str(); "an encoder that has been silent gives way to another one");
        plane.call_in(&room, |machine, now| machine.give_way(&silent, now));
    }
    let ask = |machine: &mut Machine, now| machine.request_encoder(key, input, now);
    join::request(plane, &name, ask, |join: &EncoderJoin| &join.sid).await
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

/// Why an encoder may not connect. The text is for the encoder; it contains nothing of its stream key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncoderRefusal {
    /// No ingress endpoint of this protocol has the stream key, or it was deleted.
    #[error("no ingress endpoint has this stream key")]
    UnknownKey,
    /// Too many stream keys came from this address, or this one came too often.
    #[error("too many stream keys were tried")]
    TooManyTries {
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// Another encoder is connected to the endpoint.
    #[error("an encoder is connected with this stream key already")]
    AlreadyConnected,
    /// The room has ended.
    #[error("the room has ended")]
    RoomEnded,
    /// The room has its maximum of participants.
    #[error("the room is full")]
    RoomFull,
    /// The stream cannot be published.
    #[error("{0}")]
    BadStream(&'static str),
    /// The join could not be written, or no media worker answered. The encoder may try again.
    #[error("the server cannot take encoders now")]
    Unavailable,
}

impl From<MachineError> for EncoderRefusal {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::RoomFull => Self::RoomFull,
            MachineError::EncoderConnected => Self::AlreadyConnected,
            MachineError::Stopping => Self::Unavailable,
            // The endpoint was deleted while the control plane was asked.
            MachineError::NoSuchIngress
            | MachineError::NoSuchParticipant
            | MachineError::NoSuchTrack
            | MachineError::Forbidden(_)
            | MachineError::TooManyTracks
            // An encoder has no token.
            | MachineError::IdentityTaken => Self::UnknownKey,
        }
    }
}

impl From<ReportError> for EncoderRefusal {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::RoomEnded | ReportError::UnknownRoom => Self::RoomEnded,
            ReportError::RoleFull => Self::RoomFull,
            // An encoder has no role, and its identity was checked when its endpoint was created.
            ReportError::RoleRemoved | ReportError::InvalidIdentity | ReportError::Unavailable => {
                Self::Unavailable
            }
        }
    }
}

/// For how long an encoder is silent that gives way to another one. Encoders send several packets a second, also without a picture.
pub const SILENT: Duration = Duration::from_secs(2);

/// When an encoder was last heard of, in real time. Clones share it.
#[derive(Debug, Clone)]
pub struct EncoderActivity(Arc<Mutex<Instant>>);

impl EncoderActivity {
    /// The encoder is heard of now.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// Records that the encoder is heard of now.
    pub fn note(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Returns how long it has been silent.
    pub fn silent_for(&self) -> Duration {
        self.0.lock().elapsed()
    }
}

impl PartialEq for EncoderActivity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for EncoderActivity {}

/// Tries from one address: all encoders of a studio may come back at once.
const ADDRESS: Rate = Rate {
    per_second: 2,
    burst: 64,
};
/// Tries of one key: an encoder that lost its connection tries it again.
const KEY: Rate = Rate {
    per_second: 1,
    burst: 10,
};

/// The rates of a server.
pub struct StreamKeyRates {
    addresses: RateLimits<ClientAddress>,
    keys: RateLimits<[u8; 32]>,
}

impl StreamKeyRates {
    /// Nothing has been tried.
    pub fn new(clock: &Clock) -> Self {
        Self {
            addresses: RateLimits::new(clock, ADDRESS),
            keys: RateLimits::new(clock, KEY),
        }
    }

    /// Counts a try of a key, which need not exist.
    ///
    /// # Errors
    /// How long to wait. The key must not be looked up.
    pub fn check(
        &self,
        address: ClientAddress,
        StreamKeyHash(key): &StreamKeyHash,
    ) -> Result<(), Duration> {
        self.addresses.check(&address)?;
        self.keys.check(key)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use conclave_model::Timestamp;

    use super::*;

    fn rates() -> (StreamKeyRates, Clock) {
        let clock = Clock::manual(Timestamp::from_millis(0));
        (StreamKeyRates::new(&clock), clock)
    }

    fn key(number: usize) -> StreamKeyHash {
        StreamKeyHash::from_key(&number.to_string())
    }

    #[test]
    fn an_address_that_guesses_is_refused_and_others_are_not() {
        let (rates, clock) = rates();
        let address = |text: &str| ClientAddress::from(text.parse::<IpAddr>().unwrap());
        let taken = (0..1_000)
            .filter(|guess| rates.check(address("2001:db8::1"), &key(*guess)).is_ok())
            .count();
        assert_eq!(taken, 64);
        assert!(
            rates.check(address("2001:db8::2"), &key(2_000)).is_err(),
            "of the same network"
        );
        assert!(rates.check(address("2001:db8:0:1::1"), &key(2_001)).is_ok());
        assert!(rates.check(address("127.0.0.1"), &key(2_002)).is_ok());
        clock.advance(Duration::from_secs(1));
        let taken = (0..10)
            .filter(|guess| {
                rates
                    .check(address("2001:db8::1"), &key(3_000 + guess))
                    .is_ok()
            })
            .count();
        assert_eq!(taken, 2);
    }

    /// Proves S-78.
    #[test]
    fn a_key_is_tried_at_its_rate_from_all_addresses_together() {
        let (rates, clock) = rates();
        let tries = |of: usize| {
            let addresses = (0..100_u8).map(|host| IpAddr::from([203, 0, 113, host]).into());
            addresses
                .filter(|address| rates.check(*address, &key(of)).is_ok())
                .count()
        };
        assert_eq!(tries(1), 10);
        assert_eq!(tries(2), 10);
        clock.advance(Duration::from_secs(3));
        assert_eq!(tries(1), 3);
    }
}
