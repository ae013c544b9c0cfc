//! Check of LiveKit's configuration. LiveKit has no call that returns its configuration, so the check observes its
//! behaviour: it joins a room that belongs to no project, makes the calls that depend on a setting, and deletes the
//! room.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::Clock;
use conclave_model::secret::{BASE62, random_text};
use livekit_protocol as proto;

use super::access_token::join_token;
use super::rooms::{HEALTH_CHECK_ROOM, Rooms};
use super::signal_connection::{ConnectError, SignalConnection, connect};
use super::twirp::{self, CallError, TwirpClient};
use crate::port::MediaError;
use crate::token::TokenSigner;

/// Prefix of rooms that checks open. A project's rooms start with the project's id instead.
const ROOM_PREFIX: &str = "conclave.check-";
/// Identity with which a check joins.
const CHECK_IDENTITY: &str = "conclave";
/// Sid of a nonexistent track.
const UNKNOWN_TRACK: &str = "TR_none";
/// Seconds after which LiveKit itself closes a check's room, in case its deletion fails.
const EMPTY_SECONDS: u32 = 10;

/// Result of a configuration check. Displays as `ok`, or as advice for each problem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigCheck {
    /// Settings with wrong values for Conclave, fatal ones first.
    pub problems: Vec<ConfigMismatch>,
    /// Aspects that could not be checked, with reasons.
    pub unknown: Vec<String>,
}

/// A LiveKit setting with a wrong value for Conclave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMismatch {
    /// Problem, and setting to change.
    pub advice: String,
    /// Whether it prevents participants from joining any room.
    pub is_fatal: bool,
}

impl ConfigCheck {
    /// Returns whether everything was checked and no setting has to change.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty() && self.unknown.is_empty()
    }

    fn add_problem(&mut self, advice: impl Into<String>, is_fatal: bool) {
        self.problems.push(ConfigMismatch {
            advice: advice.into(),
            is_fatal,
        });
    }
}

impl fmt::Display for ConfigCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ok() {
            return f.write_str("ok");
        }
        let problems = self.problems.iter().map(|problem| problem.advice.as_str());
        let texts: Vec<_> = problems
            .chain(self.unknown.iter().map(String::as_str))
            .collect();
        f.write_str(&texts.join("; "))
    }
}

/// Checks one LiveKit server's configuration.
#[derive(Debug, Clone)]
pub(super) struct ConfigChecker {
    client: Arc<TwirpClient>,
    rooms: Rooms,
    signaling: Signaling,
}

/// Parameters for joining a room.
#[derive(Clone)]
pub(super) struct Signaling {
    /// The setting `media.url`, LiveKit's API address.
    pub url: String,
    /// The setting `media.timeout`, for each call.
    pub timeout: Duration,
    pub signer: Arc<TokenSigner>,
    pub clock: Clock,
}

impl fmt::Debug for Signaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        f.debug_struct("Signaling")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl ConfigChecker {
    pub fn new(client: Arc<TwirpClient>, rooms: Rooms, signaling: Signaling) -> Self {
        Self {
            client,
            rooms,
            signaling,
        }
    }

    /// Runs the check.
    ///
    /// # Errors
    /// If LiveKit is unavailable, or rejects the credentials.
    pub async fn run(&self) -> Result<ConfigCheck, MediaError> {
        // First, so that wrong credentials or an unavailable server end the check with an error.
        self.rooms.check_health().await?;
        let mut check = ConfigCheck::default();
        match self.check_redis().await {
            Ok(()) => {}
            Err(error) if error.is_redis_missing() => {
                check.add_problem(
                    format!("recordings, broadcasts and ingress do not work: {error}"),
                    false,
                );
            }
            // Any other error is an outage, which makes the check itself impossible.
            Err(error) => return Err(error.into()),
        }
        // A new room each time: two servers may check the same LiveKit at once.
        let room = format!("{ROOM_PREFIX}{}", random_text(12, BASE62));
        self.check_join_and_unmute(&room, &mut check).await;
        // Deleted even after a failed join: a join that timed out may have opened the room.
        self.rooms.delete(&room).await?;
        // Stable, so that problems of equal weight keep their order.
        check.problems.sort_by_key(|problem| !problem.is_fatal);
        Ok(check)
    }

    /// Tests whether LiveKit has Redis, which egress and ingress need.
    async fn check_redis(&self) -> Result<(), CallError> {
        let request = proto::ListEgressRequest {
            room_name: HEALTH_CHECK_ROOM.into(),
            ..Default::default()
        };
        // Filtered by a room that no project can have: only the error matters, not the list.
        self.client.call(twirp::list_egress(&request)).await?;
        let request = proto::ListIngressRequest {
            room_name: HEALTH_CHECK_ROOM.into(),
            ..Default::default()
        };
        self.client.call(twirp::list_ingress(&request)).await?;
        Ok(())
    }

    async fn check_join_and_unmute(&self, room: &str, check: &mut ConfigCheck) {
        let joined = match self.signaling.join(room).await {
            // LiveKit responds with 404 to a join if the room does not exist and it may not create rooms.
            Err(ConnectError::Status(404)) => self.join_created_room(room, check).await,
            joined => joined.map_err(|error| error.to_string()),
        };
        match joined {
            // Held until the end of the check: closing it removes the participant from the room.
            Ok(_connection) => self.check_unmute(room, check).await,
            Err(error) => {
                check.unknown.push(format!(
                    "could not check whether clients can join and be unmuted: {error}"
                ));
            }
        }
    }

    /// Creates the room and joins again. If that succeeds, LiveKit does not create rooms on join.
    async fn join_created_room(
        &self,
        room: &str,
        check: &mut ConfigCheck,
    ) -> Result<SignalConnection, String> {
        // Creating a room through the API is permitted whatever `room.auto_create` is.
        let request = proto::CreateRoomRequest {
            name: room.to_owned(),
            empty_timeout: EMPTY_SECONDS,
            departure_timeout: EMPTY_SECONDS,
            ..Default::default()
        };
        self.client
            .call(twirp::create_room(&request))
            .await
            .map_err(|error| error.to_string())?;
        let connection = self
            .signaling
            .join(room)
            .await
            .map_err(|error| error.to_string())?;
        check.add_problem(
            "participants cannot join: set room.auto_create to true in LiveKit's configuration",
            true,
        );
        Ok(connection)
    }

    /// Tests whether LiveKit permits a server to unmute tracks.
    async fn check_unmute(&self, room: &str, check: &mut ConfigCheck) {
        let request = proto::MuteRoomTrackRequest {
            room: room.to_owned(),
            identity: CHECK_IDENTITY.to_owned(),
            track_sid: UNKNOWN_TRACK.to_owned(),
            muted: false,
        };
        match self.client.call(twirp::mute_track(&request)).await {
            // LiveKit checks the setting before it looks for the track, so an unknown track suffices.
            Ok(_) => {}
            Err(error) if error.is_failed_precondition() => {
                check.add_problem(error.to_string(), false);
            }
            Err(error) => {
                check.unknown.push(format!(
                    "could not check whether a server may unmute: {error}"
                ));
            }
        }
    }
}

impl Signaling {
    async fn join(&self, room: &str) -> Result<SignalConnection, ConnectError> {
        let token = join_token(
            &self.signer,
            (room, CHECK_IDENTITY),
            EMPTY_SECONDS,
            self.clock.now(),
        );
        let token = token.map_err(|error| ConnectError::Failed(error.to_string()))?;
        connect(&self.url, token, self.timeout).await
    }
}
