//! Whether LiveKit is set as the control plane needs it. LiveKit has no call that reads its configuration, so this looks at
//! what it does: in a room of its own, which is no project's and is deleted afterwards, with nobody but itself inside.

use std::fmt;

use conclave_model::secret::{BASE62, random_text};
use livekit_protocol as proto;

use super::access;
use super::calls;
use super::plane::Inner;
use super::signalling::{self, Door, Unopened};
use crate::port::MediaError;

/// Rooms to look around in. Not the form of a room of ours, whose part before the dot is a project's id.
const ROOM_PREFIX: &str = "conclave.check-";
/// Who looks around.
const PROBE: &str = "conclave";
/// A track that nobody has.
const NO_TRACK: &str = "TR_none";
/// Seconds after which LiveKit closes such a room by itself, should it not be deleted.
const ROOM_SECONDS: u32 = 10;

/// How LiveKit's settings fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigCheck {
    /// What does not fit, worst first.
    pub problems: Vec<ConfigMismatch>,
    /// What could not be found out, and why.
    pub unknown: Vec<String>,
}

/// A setting of LiveKit's that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMismatch {
    /// What does not work, and the setting to change.
    pub advice: String,
    /// Whether rooms do not work because of it.
    pub is_fatal: bool,
}

impl ConfigCheck {
    /// Nothing is known to be problems or unknown.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty() && self.unknown.is_empty()
    }

    fn note(&mut self, advice: impl Into<String>, is_fatal: bool) {
        self.problems.push(ConfigMismatch { advice: advice.into(), is_fatal });
    }
}

impl fmt::Display for ConfigCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ok() {
            return f.write_str("ok");
        }
        let texts = self
            .problems
            .iter()
            .map(|mismatch| mismatch.advice.as_str())
            .chain(self.unknown.iter().map(String::as_str));
        f.write_str(&texts.collect::<Vec<_>>().join("; "))
    }
}

impl Inner {
    /// How LiveKit's settings fit.
    ///
    /// # Errors
    /// It does not answer, or does not take the credentials.
    pub async fn check_config(&self) -> Result<ConfigCheck, MediaError> {
        self.health().await?;
        let mut fit = ConfigCheck::default();
        match self.jobs_health().await {
            Ok(()) => {}
            Err(failure) if failure.is_not_connected() => {
                fit.note(format!("recordings, broadcasts and ingress do not work: {}", failure.in_words()), false);
            }
            Err(failure) => return Err(failure.into()),
        }
        let room = format!("{ROOM_PREFIX}{}", random_text(12, BASE62));
        self.look_around(&room, &mut fit).await;
        // Also when nobody came in: a join that was given up may have opened it all the same.
        let deleted = self.twirp.call(calls::delete_room(&proto::DeleteRoomRequest { room })).await;
        match deleted {
            Err(failure) if !failure.is_not_found() => Err(failure.into()),
            _ => {
                fit.problems.sort_by_key(|mismatch| !mismatch.is_fatal);
                Ok(fit)
            }
        }
    }

    /// Joins as a client would, and acts on itself as the control plane does.
    async fn look_around(&self, room: &str, fit: &mut ConfigCheck) {
        // Held until the end: who has no connection is in no room.
        let inside = match self.enter(room).await {
            Err(Unopened::Status(404)) => self.enter_created(room, fit).await,
            entered => entered.map_err(|unopened| unopened.to_string()),
        };
        match inside {
            Ok(_inside) => self.look_at_unmute(room, fit).await,
            Err(why) => fit.unknown.push(format!("whether clients can join and be unmuted was not found out: {why}")),
        }
    }

    /// A room that does not exist opens for nobody when LiveKit makes none by itself.
    async fn enter_created(&self, room: &str, fit: &mut ConfigCheck) -> Result<Door, String> {
        let request = proto::CreateRoomRequest {
            name: room.to_owned(),
            empty_timeout: ROOM_SECONDS,
            departure_timeout: ROOM_SECONDS,
            ..Default::default()
        };
        if let Err(failure) = self.twirp.call(calls::create_room(&request)).await {
            return Err(failure.in_words());
        }
        let inside = self.enter(room).await.map_err(|unopened| unopened.to_string())?;
        fit.note("nobody can join: set room.auto_create to true in LiveKit's configuration", true);
        Ok(inside)
    }

    async fn enter(&self, room: &str) -> Result<Door, Unopened> {
        let token = access::join_token(&self.signer, (room, PROBE), ROOM_SECONDS, self.clock.now());
        let token = token.map_err(|error| Unopened::Failed(error.to_string()))?;
        signalling::enter(&self.url, token, self.timeout).await
    }

    async fn look_at_unmute(&self, room: &str, fit: &mut ConfigCheck) {
        let request = proto::MuteRoomTrackRequest {
            room: room.to_owned(),
            identity: PROBE.to_owned(),
            track_sid: NO_TRACK.to_owned(),
            muted: false,
        };
        match self.twirp.call(calls::mute_track(&request)).await {
            Ok(_) => {}
            Err(failure) if failure.is_precondition() => {
                fit.note(failure.in_words(), false);
            }
            Err(failure) => {
                fit.unknown.push(format!("whether a server may unmute was not found out: {}", failure.in_words()));
            }
        }
    }
}
