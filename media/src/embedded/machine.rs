//! The media plane as a state machine without I/O.
//!
//! Every call takes the time from its caller and leaves what happened as [`Report`]s, in order, for
//! [`Machine::take_reports`]. People are found by sid and rooms by name; no call looks at a room that it is not about.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::str::FromStr;

use conclave_model::event::{PublishLimit, TrackSummary};
use conclave_model::participant::{DataKind, Participant, Track};
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{EgressId, Identity, NamespacedRoom, ParticipantSid, ProjectId, RoleName, Timestamp, TrackSid};

use super::departed::Departed;
use super::endpoint::Endpoints;
use super::inbox::Notice;
use super::job::Jobs;
use super::person::Person;
use super::publish::{MachineError, NewTrack, permit, permit_data};
use super::room::Room;
use crate::port::{MediaEvent, Report};
use crate::token::Claims;

/// Rooms, the people in them, and what they publish.
#[derive(Debug, Default)]
pub(super) struct Machine {
    rooms: HashMap<NamespacedRoom, Room>,
    people: HashMap<ParticipantSid, Person>,
    departed: Departed,
    jobs: Jobs,
    endpoints: Endpoints,
    deadlines: BTreeSet<(Timestamp, Due)>,
    reports: Vec<Report>,
}

/// What a deadline is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// How much somebody publishes.
    Bitrate(ParticipantSid),
    /// What becomes of a recording or a broadcast by itself.
    Job(EgressId),
}

// Joining and leaving.
impl Machine {
    /// Starts a join: counted and reported, but seen by nobody until [`Machine::complete_join`]. Whoever is inside under
    /// the same identity goes first.
    pub fn begin_join(&mut self, claims: Claims, now: Timestamp) -> Result<ParticipantSid, MachineError> {
        let room = self.rooms.entry(claims.room.clone()).or_default();
        let replaced = room.admit(&claims.identity, claims.max_participants())?;
        let sid: ParticipantSid = fresh("PA_", |sid| self.people.contains_key(sid));
        room.enter(claims.identity.clone(), sid.clone());
        if let Some(old) = replaced {
            self.retire(&old, true, None, now);
        }
        let person = Person::joining(sid.clone(), claims, now);
        self.report(&person.room, now, MediaEvent::ParticipantJoined(Box::new(person.once_active())));
        self.people.insert(sid.clone(), person);
        Ok(sid)
    }

    /// Makes a join visible. Does nothing when whoever joined is gone already.
    pub fn complete_join(&mut self, sid: &ParticipantSid) {
        if let Some(person) = self.people.get_mut(sid) {
            person.activate();
        }
    }

    /// Takes a join back that the control plane refused, without a report.
    pub fn abort_join(&mut self, sid: &ParticipantSid) {
        self.departed.forget(sid);
        self.endpoints.let_go(sid);
        if let Some(person) = self.people.remove(sid) {
            self.vacate(&person.room, person.identity());
        }
    }

    /// Somebody goes, with a goodbye or without.
    pub fn leave(&mut self, sid: &ParticipantSid, clean: bool, now: Timestamp) -> Result<(), MachineError> {
        let person = self.active(sid)?;
        let (room, identity) = (person.room.clone(), person.identity().clone());
        self.retire(sid, clean, None, now);
        self.vacate(&room, &identity);
        Ok(())
    }

    /// The server disconnects somebody. Says whether there was anybody to disconnect.
    pub fn remove(&mut self, room: &NamespacedRoom, sid: &ParticipantSid, now: Timestamp) -> bool {
        let Some(person) = self.people.get(sid).filter(|person| person.room == *room) else { return false };
        let identity = person.identity().clone();
        self.retire(sid, true, Some(Notice::Removed), now);
        self.vacate(room, &identity);
        true
    }

    /// The server closes a room: everybody goes, its jobs end, and its rules are forgotten.
    pub fn close_room(&mut self, room: &NamespacedRoom, now: Timestamp) {
        self.end_jobs_of(room, now);
        let Some(closed) = self.rooms.remove(room) else { return };
        for sid in closed.into_members() {
            self.retire(&sid, true, Some(Notice::RoomEnded), now);
        }
    }

    /// Moves somebody to the departed and reports it. The place in the room is the caller's to free.
    fn retire(&mut self, sid: &ParticipantSid, clean: bool, last: Option<Notice>, now: Timestamp) {
        let Some(mut person) = self.people.remove(sid) else { return };
        self.disarm(&person);
        if let Some(notice) = last {
            person.inbox.put(now, notice);
        }
        for track in person.depart() {
            let event = MediaEvent::TrackUnpublished { participant: person.who(), track: TrackSummary::from(&track) };
            self.report(&person.room, now, event);
        }
        self.report(&person.room, now, MediaEvent::ParticipantLeft { participant: person.who(), clean });
        if let Some(state) = self.endpoints.let_go(sid) {
            self.report(&person.room, now, MediaEvent::Ingress(state));
        }
        self.departed.keep(person);
    }

    /// Frees somebody's place, and forgets the room when nothing is left of it.
    fn vacate(&mut self, room: &NamespacedRoom, who: &Identity) {
        if let Some(left) = self.rooms.get_mut(room) {
            left.leave(who);
            if left.is_idle() {
                self.rooms.remove(room);
            }
        }
    }
}

// What people do inside.
impl Machine {
    /// Publishes a track.
    pub fn publish(&mut self, sid: &ParticipantSid, wanted: NewTrack, now: Timestamp) -> Result<Track, MachineError> {
        let person = self.active_mut(sid)?;
        permit(&person.grants, wanted.kind, wanted.source)?;
        let track = Track {
            sid: fresh("TR_", |sid| person.participant().tracks.iter().any(|track| track.sid == *sid)),
            kind: wanted.kind,
            source: wanted.source,
            muted: wanted.muted,
            name: wanted.name,
            width: None,
            height: None,
            simulcast: None,
            mime_type: None,
        };
        let event = MediaEvent::TrackPublished { track: person.add_track(track.clone()), participant: person.who() };
        let room = person.room.clone();
        self.report(&room, now, event);
        Ok(track)
    }

    /// Takes a track back.
    pub fn unpublish(&mut self, sid: &ParticipantSid, track: &TrackSid, now: Timestamp) -> Result<(), MachineError> {
        let person = self.active_mut(sid)?;
        let track = person.take_track(track)?;
        let event = MediaEvent::TrackUnpublished { participant: person.who(), track: TrackSummary::from(&track) };
        let room = person.room.clone();
        self.report(&room, now, event);
        Ok(())
    }

    /// Somebody mutes or unmutes its own track.
    pub fn mute(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        muted: bool,
        now: Timestamp,
    ) -> Result<Track, MachineError> {
        let person = self.active_mut(sid)?;
        let track = person.track_mut(track)?;
        if track.muted == muted {
            return Ok(track.clone());
        }
        track.muted = muted;
        let track = track.clone();
        let event = MediaEvent::TrackMuted { participant: person.who(), track: TrackSummary::from(&track) };
        let room = person.room.clone();
        self.report(&room, now, event);
        Ok(track)
    }

    /// Somebody sends a message to everybody else in its room who may receive.
    pub fn send_data(
        &mut self,
        sid: &ParticipantSid,
        data: &str,
        topic: Option<&str>,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        let sender = self.active(sid)?;
        permit_data(&sender.grants)?;
        let notice = Notice::Data {
            data: data.into(),
            topic: topic.map(Into::into),
            kind: DataKind::Reliable,
            from_identity: (!sender.grants.hidden).then(|| sender.identity().clone()),
        };
        let Some(room) = self.rooms.get(&sender.room) else { return Ok(()) };
        for other in room.members().filter(|other| *other != sid) {
            if let Some(person) = self.people.get_mut(other).filter(|p| p.is_active() && p.grants.can_subscribe) {
                person.inbox.put(now, notice.clone());
            }
        }
        Ok(())
    }
}

// Measured bitrates.
impl Machine {
    /// Takes in how much somebody publishes, in kilobits a second.
    pub fn set_bitrate(&mut self, sid: &ParticipantSid, kbps: u32, now: Timestamp) -> Result<(), MachineError> {
        self.active(sid)?;
        // What lasted until this measure counts, though no tick came in between.
        self.settle(sid, now);
        self.measure(sid, kbps, now);
        Ok(())
    }

    /// Holds a bitrate against the ceiling as it is now, and keeps the deadline in step.
    fn measure(&mut self, sid: &ParticipantSid, kbps: u32, now: Timestamp) {
        let Some(person) = self.people.get_mut(sid) else { return };
        let before = person.meter.deadline();
        person.meter.measure(kbps, person.max_kbps(), now);
        let after = person.meter.deadline();
        if before != after {
            before.map(|at| self.deadlines.remove(&(at, Due::Bitrate(sid.clone()))));
            after.map(|at| self.deadlines.insert((at, Due::Bitrate(sid.clone()))));
        }
    }

    /// When [`Machine::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some((_, due)) = self.deadlines.first().filter(|(at, _)| *at <= now).cloned() {
            match due {
                Due::Bitrate(sid) => self.settle(&sid, now),
                Due::Job(id) => self.job_due(&id, now),
            }
        }
    }

    fn settle(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let Some(person) = self.people.get_mut(sid) else { return };
        let Some(due) = person.meter.deadline() else { return };
        let Some(crossing) = person.meter.settle(now) else { return };
        let limit = PublishLimit {
            exceeded: crossing.exceeded,
            kbps: crossing.kbps,
            max_kbps: crossing.max_kbps,
            track: person.only_track(),
        };
        let (room, participant) = (person.room.clone(), person.who());
        self.deadlines.remove(&(due, Due::Bitrate(sid.clone())));
        self.report(&room, now, MediaEvent::PublishLimit { participant, limit });
    }

    fn disarm(&mut self, person: &Person) {
        if let Some(at) = person.meter.deadline() {
            self.deadlines.remove(&(at, Due::Bitrate(person.sid().clone())));
        }
    }
}

// What can be asked, and told.
impl Machine {
    /// Says which roles receive which in a room, whether or not anybody is in it yet.
    pub fn set_subscription_rules(&mut self, room: &NamespacedRoom, rules: BTreeMap<RoleName, Option<Vec<RoleName>>>) {
        let entry = self.rooms.entry(room.clone()).or_default();
        entry.set_rules(rules.into());
        if entry.is_idle() {
            self.rooms.remove(room);
        }
    }

    /// Everybody who was let into a room, hidden ones too.
    pub fn participants(&self, room: &NamespacedRoom) -> Vec<Participant> {
        self.present(room).map(|person| person.participant().clone()).collect()
    }

    /// A project's rooms that somebody is in.
    pub fn live_rooms(&self, project: &ProjectId) -> Vec<NamespacedRoom> {
        let crowded = self.rooms.iter().filter(|(_, room)| room.members().next().is_some()).map(|(name, _)| name);
        crowded.filter(|name| name.split().0 == *project).cloned().collect()
    }

    /// Somebody who was let into a room.
    pub fn participant(&self, room: &NamespacedRoom, who: &Identity) -> Option<Participant> {
        let sid = self.rooms.get(room)?.member(who)?;
        self.active(sid).ok().map(|person| person.participant().clone())
    }

    /// Somebody who is in a room, or was until lately.
    pub fn person(&self, sid: &ParticipantSid) -> Result<&Person, MachineError> {
        self.active(sid).or_else(|denied| self.departed.get(sid).ok_or(denied))
    }

    /// The tracks somebody may receive.
    pub fn subscriptions(&self, sid: &ParticipantSid) -> Vec<TrackSid> {
        let Some(me) = self.people.get(sid).filter(|me| me.is_active() && me.grants.can_subscribe) else {
            return Vec::new();
        };
        let Some(room) = self.rooms.get(&me.room) else { return Vec::new() };
        self.present(&me.room)
            .filter(|other| other.sid() != sid && !other.grants.hidden)
            .filter(|other| room.rules().receives(me.role(), other.role()))
            .flat_map(|other| other.participant().tracks.iter().map(|track| track.sid.clone()))
            .collect()
    }

    /// What happened since the last time this was asked, in order.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    fn present(&self, room: &NamespacedRoom) -> impl Iterator<Item = &Person> {
        let members = self.rooms.get(room).into_iter().flat_map(Room::members);
        members.filter_map(|sid| self.active(sid).ok())
    }

    fn active(&self, sid: &ParticipantSid) -> Result<&Person, MachineError> {
        self.people.get(sid).filter(|person| person.is_active()).ok_or(MachineError::NoSuchParticipant)
    }

    fn active_mut(&mut self, sid: &ParticipantSid) -> Result<&mut Person, MachineError> {
        self.people.get_mut(sid).filter(|person| person.is_active()).ok_or(MachineError::NoSuchParticipant)
    }

    fn report(&mut self, room: &NamespacedRoom, at: Timestamp, event: MediaEvent) {
        self.reports.push(Report { room: room.clone(), at, event });
    }
}

/// A sid nobody has yet: a prefix and 12 random characters.
fn fresh<Sid: FromStr>(prefix: &str, taken: impl Fn(&Sid) -> bool) -> Sid {
    loop {
        // Printable and short, so it always parses; one draw is all but certain to be free as well.
        if let Ok(sid) = format!("{prefix}{}", random_text(12, BASE62)).parse()
            && !taken(&sid)
        {
            return sid;
        }
    }
}

pub(super) mod ingress;
mod jobs;
mod moderation;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
