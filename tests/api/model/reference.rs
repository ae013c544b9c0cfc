//! The model: the contract's rules for rooms, participants, sessions, codes and events.

use std::collections::{BTreeMap, BTreeSet};

/// Seconds for which an unjoined room stays open if its timeout is 0.
const DEFAULT_EMPTY_TIMEOUT: u64 = 300;
/// Lifetime of a code, in seconds.
pub const CODE_LIFE: u64 = 120;
/// Maximum number of participants with the role `speaker`; further tokens are refused.
pub const SPEAKERS: usize = 1;

/// A call. Rooms, participants and codes are numbers; the driver names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    CreateRoom {
        room: usize,
        empty_timeout: u32,
        max_participants: u32,
    },
    EndRoom {
        room: usize,
    },
    Join {
        room: usize,
        person: usize,
        role: &'static str,
    },
    Leave {
        room: usize,
        person: usize,
        clean: bool,
    },
    Remove {
        room: usize,
        person: usize,
    },
    ChangeRole {
        room: usize,
        person: usize,
        role: &'static str,
    },
    CreateCode {
        room: usize,
        role: &'static str,
        max_uses: Option<u32>,
    },
    Exchange {
        code: usize,
        person: usize,
    },
    DisableCode {
        code: usize,
    },
    Advance {
        seconds: u32,
    },
    Restart,
}

/// The response that the contract requires: its status and error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    pub status: u16,
    pub code: &'static str,
}

const DONE: Expected = Expected {
    status: 204,
    code: "",
};
const CREATED: Expected = Expected {
    status: 201,
    code: "",
};
const OK: Expected = Expected {
    status: 200,
    code: "",
};

const fn refused(status: u16, code: &'static str) -> Expected {
    Expected { status, code }
}

const NO_ROOM: Expected = refused(404, "room_not_found");
const NO_PARTICIPANT: Expected = refused(404, "participant_not_found");
const NO_CODE: Expected = refused(404, "code_not_found");
const ROOM_ENDED: Expected = refused(409, "room_ended");
const ROLE_FULL: Expected = refused(409, "role_capacity_reached");
const IDENTITY_TAKEN: Expected = refused(409, "identity_taken");

/// A room; its number is its position in creation order.
#[derive(Debug, Clone)]
pub struct Room {
    pub name: usize,
    pub open: bool,
    pub started: bool,
    empty_timeout: u64,
    max_participants: usize,
    deadline: Option<u64>,
    /// Role by connected participant.
    people: BTreeMap<usize, &'static str>,
    /// Participants with a changed role.
    changed: BTreeSet<usize>,
    /// Event types, each with its participant.
    pub events: Vec<(&'static str, Option<usize>)>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub room: usize,
    pub person: usize,
    pub role: &'static str,
    pub open: bool,
}

/// A room code.
#[derive(Debug, Clone)]
pub struct Code {
    pub room: usize,
    role: &'static str,
    max_uses: Option<u32>,
    pub uses: u32,
    pub disabled: bool,
    expires: u64,
}

/// The model's whole state.
#[derive(Debug, Clone, Default)]
pub struct Model {
    now: u64,
    /// In creation order.
    pub rooms: Vec<Room>,
    /// In join order.
    pub sessions: Vec<Session>,
    pub codes: Vec<Code>,
}

impl Model {
    /// Makes a call.
    pub fn apply(&mut self, call: &Call) -> Expected {
        match *call {
            Call::CreateRoom {
                room,
                empty_timeout,
                max_participants,
            } => self.create_room(room, empty_timeout.into(), max_participants as usize),
            Call::EndRoom { room } => self.with_room(room, |model, room| {
                model.end(room);
                DONE
            }),
            Call::Join { room, person, role } => {
                self.with_room(room, |model, at| model.join(at, person, role))
            }
            Call::Leave {
                room,
                person,
                clean,
            } => {
                let event = if clean {
                    "participant.left"
                } else {
                    "participant.connection_aborted"
                };
                self.disconnect(room, person, event)
            }
            Call::Remove { room, person } => self.disconnect(room, person, "participant.left"),
            Call::ChangeRole { room, person, role } => self.change_role(room, person, role),
            Call::CreateCode {
                room,
                role,
                max_uses,
            } => self.create_code(room, role, max_uses),
            Call::Exchange { code, person } => self.exchange(code, person),
            Call::DisableCode { code } => match self.codes.get_mut(code) {
                Some(code) => {
                    code.disabled = true;
                    DONE
                }
                None => NO_CODE,
            },
            Call::Advance { seconds } => {
                self.advance(seconds.into());
                OK
            }
            Call::Restart => {
                self.restart();
                OK
            }
        }
    }

    pub fn open_rooms(&self) -> usize {
        self.rooms.iter().filter(|room| room.open).count()
    }

    /// Returns whether the participant is connected to the room.
    pub fn is_connected(&self, room: usize, person: usize) -> bool {
        self.rooms
            .iter()
            .any(|known| known.name == room && known.people.contains_key(&person))
    }

    fn with_room(
        &mut self,
        name: usize,
        call: impl FnOnce(&mut Self, usize) -> Expected,
    ) -> Expected {
        match self.rooms.iter().position(|room| room.name == name) {
            Some(at) => call(self, at),
            None => NO_ROOM,
        }
    }

    fn create_room(
        &mut self,
        name: usize,
        empty_timeout: u64,
        max_participants: usize,
    ) -> Expected {
        if self.rooms.iter().any(|room| room.name == name) {
            return refused(409, "room_exists");
        }
        let unjoined = if empty_timeout == 0 {
            DEFAULT_EMPTY_TIMEOUT
        } else {
            empty_timeout
        };
        self.rooms.push(Room {
            name,
            open: true,
            started: false,
            empty_timeout,
            max_participants,
            deadline: Some(self.now + unjoined),
            people: BTreeMap::new(),
            changed: BTreeSet::new(),
            events: Vec::new(),
        });
        CREATED
    }

    fn end(&mut self, at: usize) {
        if !self.rooms[at].open {
            return;
        }
        let room = &mut self.rooms[at];
        for session in self
            .sessions
            .iter_mut()
            .filter(|session| session.open && session.room == room.name)
        {
            session.open = false;
            room.events.push(("participant.left", Some(session.person)));
        }
        room.people.clear();
        (room.open, room.deadline) = (false, None);
        room.events.push(("room.finished", None));
    }

    /// Returns the refusal of a participant's token; the participant's own seat does not count.
    fn token(&self, at: usize, person: usize, role: &str) -> Option<Expected> {
        let room = &self.rooms[at];
        let speakers = room
            .people
            .iter()
            .filter(|(other, held)| **other != person && **held == "speaker")
            .count();
        match role {
            _ if !room.open => Some(ROOM_ENDED),
            "speaker" if speakers >= SPEAKERS => Some(ROLE_FULL),
            _ => None,
        }
    }

    fn join(&mut self, at: usize, person: usize, role: &'static str) -> Expected {
        if let Some(refusal) = self.token(at, person, role) {
            return refusal;
        }
        let room = &self.rooms[at];
        let others = room.people.keys().filter(|other| **other != person).count();
        if room.max_participants > 0 && others >= room.max_participants {
            return ROLE_FULL;
        }
        self.close_session(at, person, "participant.left");
        let room = &mut self.rooms[at];
        if !room.started {
            room.started = true;
            room.events.push(("room.started", None));
        }
        room.events.push(("participant.joined", Some(person)));
        room.people.insert(person, role);
        room.deadline = None;
        let room = room.name;
        self.sessions.push(Session {
            room,
            person,
            role,
            open: true,
        });
        CREATED
    }

    fn close_session(&mut self, at: usize, person: usize, event: &'static str) -> bool {
        let room = &mut self.rooms[at];
        if room.people.remove(&person).is_none() {
            return false;
        }
        room.events.push((event, Some(person)));
        let of_person = |session: &&mut Session| {
            session.open && session.room == room.name && session.person == person
        };
        self.sessions
            .iter_mut()
            .filter(of_person)
            .for_each(|session| session.open = false);
        true
    }

    fn disconnect(&mut self, room: usize, person: usize, event: &'static str) -> Expected {
        self.with_room(room, |model, at| {
            if !model.close_session(at, person, event) {
                return NO_PARTICIPANT;
            }
            model.start_empty_timer(at);
            model.end_due_rooms();
            DONE
        })
    }

    fn start_empty_timer(&mut self, at: usize) {
        let room = &mut self.rooms[at];
        if room.people.is_empty() {
            room.deadline = Some(self.now + room.empty_timeout);
        }
    }

    fn change_role(&mut self, room: usize, person: usize, role: &'static str) -> Expected {
        self.with_room(room, |model, at| {
            let room = &mut model.rooms[at];
            let Some(held) = room.people.get_mut(&person) else {
                return NO_PARTICIPANT;
            };
            *held = role;
            room.changed.insert(person);
            room.events.push(("participant.role_changed", Some(person)));
            let of_person = |session: &&mut Session| {
                session.open && session.room == room.name && session.person == person
            };
            model
                .sessions
                .iter_mut()
                .filter(of_person)
                .for_each(|session| session.role = role);
            OK
        })
    }

    fn create_code(&mut self, room: usize, role: &'static str, max_uses: Option<u32>) -> Expected {
        self.with_room(room, |model, at| {
            if !model.rooms[at].open {
                return NO_ROOM;
            }
            let expires = model.now + CODE_LIFE;
            model.codes.push(Code {
                room,
                role,
                max_uses,
                uses: 0,
                disabled: false,
                expires,
            });
            CREATED
        })
    }

    fn exchange(&mut self, code: usize, person: usize) -> Expected {
        let now = self.now;
        let usable = |code: &&Code| {
            !code.disabled
                && now < code.expires
                && code.max_uses.is_none_or(|max_uses| code.uses < max_uses)
        };
        let Some(found) = self.codes.get(code).filter(usable).cloned() else {
            return NO_CODE;
        };
        let refusal = self.with_room(found.room, |model, at| {
            let room = &model.rooms[at];
            let is_taken = room.people.contains_key(&person) || room.changed.contains(&person);
            model.token(at, person, found.role).unwrap_or(if is_taken {
                IDENTITY_TAKEN
            } else {
                CREATED
            })
        });
        if refusal == CREATED {
            self.codes[code].uses += 1;
        }
        refusal
    }

    fn advance(&mut self, seconds: u64) {
        self.now += seconds;
        self.end_due_rooms();
    }

    fn end_due_rooms(&mut self) {
        for at in 0..self.rooms.len() {
            if self.rooms[at]
                .deadline
                .is_some_and(|deadline| deadline <= self.now)
            {
                self.end(at);
            }
        }
    }

    /// Restarts the server: the embedded media plane disconnects all participants, in join order.
    fn restart(&mut self) {
        for at in 0..self.rooms.len() {
            let connected: Vec<usize> = self
                .sessions
                .iter()
                .filter(|session| session.open && session.room == self.rooms[at].name)
                .map(|session| session.person)
                .collect();
            for person in connected {
                self.close_session(at, person, "participant.connection_aborted");
                self.start_empty_timer(at);
            }
        }
        self.end_due_rooms();
    }
}
