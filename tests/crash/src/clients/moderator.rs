//! A client's bans, removals with revoked tokens, and erasures. They are about guests: identities that no other call uses, so that the
//! order of the calls about a guest is known.

use fastrand::Rng;
use serde_json::json;

use super::requests::Requests;
use crate::journal::{Action, Answer};
use crate::service::Call;

/// Maximum guests of a client; others are left alone.
const GUESTS: usize = 6;
/// Maximum revoked tokens that a client tries.
const REVOKED: usize = 6;
/// The reason of every ban.
pub const REASON: &str = "too loud";

/// An identity that has joined a room.
struct Guest {
    room: String,
    identity: String,
    /// Token with which it has joined.
    token: String,
}

impl Guest {
    /// Returns the path of its ban.
    fn ban(&self) -> String {
        let Self { room, identity, .. } = self;
        format!("/ext/v1/rooms/{room}/bans/{identity}")
    }
}

/// A client's guests.
#[derive(Default)]
pub struct Moderator {
    guests: Vec<Guest>,
    /// Guests whose tokens are revoked, as acknowledged.
    revoked: Vec<Guest>,
}

impl Moderator {
    /// Performs a random action.
    pub fn act(&mut self, random: &mut Rng, requests: &mut Requests, rooms: &[String]) {
        match random.u32(0..21) {
            0..6 => self.invite(random, requests, rooms),
            6..10 => self.ban(random, requests),
            10..12 => self.lift_ban(random, requests),
            12..15 => self.mint(random, requests),
            15..17 => self.revoke(random, requests),
            17..19 => self.join_revoked(random, requests),
            _ => self.erase(random, requests),
        }
    }

    fn invite(&mut self, random: &mut Rng, requests: &mut Requests, rooms: &[String]) {
        let Some(room) = random.choice(rooms).cloned() else {
            return;
        };
        let identity = requests.next_name("guest");
        let Some(token) = requests.create_token(&room, &identity) else {
            return;
        };
        let action = Action::Join {
            room: room.clone(),
            identity: identity.clone(),
        };
        if requests.join(action, &token).is_some() {
            let guest = Guest {
                room,
                identity,
                token,
            };
            keep(&mut self.guests, guest, GUESTS);
        }
    }

    fn ban(&mut self, random: &mut Rng, requests: &mut Requests) {
        let Some(guest) = take(&mut self.guests, random) else {
            return;
        };
        let action = Action::PutBan {
            room: guest.room.clone(),
            identity: guest.identity.clone(),
        };
        let (path, body) = (guest.ban(), json!({"reason": REASON}));
        let answer = requests.call(&action, Call::new("PUT", &path).body(&body));
        self.keep_known(guest, answer.as_ref());
    }

    fn lift_ban(&mut self, random: &mut Rng, requests: &mut Requests) {
        let Some(guest) = take(&mut self.guests, random) else {
            return;
        };
        let action = Action::LiftBan {
            room: guest.room.clone(),
            identity: guest.identity.clone(),
        };
        let answer = requests.call(&action, Call::new("DELETE", &guest.ban()));
        self.keep_known(guest, answer.as_ref());
    }

    /// Mints a token, which a ban refuses.
    fn mint(&self, random: &mut Rng, requests: &mut Requests) {
        if let Some(guest) = random.choice(&self.guests) {
            requests.create_token(&guest.room, &guest.identity);
        }
    }

    fn revoke(&mut self, random: &mut Rng, requests: &mut Requests) {
        let Some(guest) = take(&mut self.guests, random) else {
            return;
        };
        let Guest { room, identity, .. } = &guest;
        let path = format!("/v1/rooms/{room}/participants/{identity}?revoke=true");
        let action = Action::Revoke {
            room: room.clone(),
            identity: identity.clone(),
        };
        let answer = requests.call(&action, Call::new("DELETE", &path));
        if answer.is_some_and(|answer| answer.is_success()) {
            keep(&mut self.revoked, guest, REVOKED);
        }
    }

    /// Joins with a revoked token.
    fn join_revoked(&self, random: &mut Rng, requests: &mut Requests) {
        if let Some(guest) = random.choice(&self.revoked) {
            let action = Action::JoinRevoked {
                room: guest.room.clone(),
                identity: guest.identity.clone(),
            };
            requests.join(action, &guest.token);
        }
    }

    /// Erases a guest whose session is recorded: a join that LiveKit reports later would write its identity again.
    fn erase(&mut self, random: &mut Rng, requests: &mut Requests) {
        let Some(guest) = take(&mut self.guests, random) else {
            return;
        };
        let identity = guest.identity.clone();
        let action = Action::ReadSessions {
            identity: identity.clone(),
        };
        let path = format!("/v1/sessions?identity={identity}");
        let answer = requests.call(&action, Call::new("GET", &path));
        let is_recorded = answer
            .filter(Answer::is_success)
            .is_some_and(|answer| !answer.json()["sessions"][0].is_null());
        if is_recorded {
            let path = format!("/ext/v1/identities/{identity}");
            requests.call_once(Action::Erase { identity }, "DELETE", path, None);
        } else {
            keep(&mut self.guests, guest, GUESTS);
        }
    }

    /// Keeps a guest whose state is known. A request without an outcome may still be performed after later requests.
    fn keep_known(&mut self, guest: Guest, answer: Option<&Answer>) {
        if answer.is_some_and(|answer| answer.status < 500) {
            keep(&mut self.guests, guest, GUESTS);
        }
    }
}

/// Removes a random guest from a list, and returns it.
fn take(guests: &mut Vec<Guest>, random: &mut Rng) -> Option<Guest> {
    (!guests.is_empty()).then(|| guests.swap_remove(random.usize(..guests.len())))
}

/// Adds a guest to a list, and drops the first one if there are more than `most`.
fn keep(guests: &mut Vec<Guest>, guest: Guest, most: usize) {
    guests.push(guest);
    if guests.len() > most {
        guests.remove(0);
    }
}
