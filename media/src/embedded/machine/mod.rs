//! A room of the media plane as a state machine without I/O.
//!
//! Each call takes the time of day as an argument, and appends what happened to a list of [`Report`]s in order, which the driver
//! fetches with [`Machine::take_reports`]; likewise what clients and media workers have to learn, as [`Effect`]s. Deadlines are by
//! the reading of the monotonic clock, which the driver sets before each call.
//!
//! A participant of the sandbox is joining, then active. One with a client of its own is joining while the control plane is
//! asked, joined while its media connects, and active once the control plane has accepted the report of its join.

mod admission;
mod attendance;
mod audience;
mod backup_codecs;
mod bitrate;
mod data_tracks;
mod egress;
pub(super) mod encoders;
pub(super) mod ingress;
pub(super) mod media_tracks;
mod members;
mod membership;
mod messages;
mod metadata;
mod moderation;
mod notices;
mod queries;
mod tracks;
pub(super) mod update_batch;

#[cfg(test)]
mod properties;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeSet, HashMap};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::secret::{BASE62, random_text};
use conclave_model::{EgressId, NamespacedRoom, ParticipantSid, Timestamp};

use super::common::Common;
use super::effect::Effect;
use super::egress::Egress;
use super::error::MachineError;
use super::inbox::Notice;
use super::ingress::endpoints::IngressEndpoints;
use super::local_participant::LocalParticipant;
use crate::port::{MediaEvent, Report};
use members::Members;
use update_batch::UpdateBatch;

/// A room, its participants, and its egresses and ingress endpoints.
#[derive(Debug)]
pub(super) struct Machine {
    name: NamespacedRoom,
    members: Members,
    /// The participants that are joining or active.
    participants: HashMap<ParticipantSid, LocalParticipant>,
    /// The participants whose transports the media worker has.
    peers: usize,
    /// The egresses that have not ended.
    egresses: HashMap<EgressId, Egress>,
    endpoints: IngressEndpoints,
    deadlines: BTreeSet<(Duration, Deadline)>,
    /// The monotonic reading of the clock, which no step of the clock changes.
    reading: Duration,
    /// Whether the egresses have to follow a change.
    is_changed: bool,
    common: Arc<Common>,
    /// Participant updates that wait to be sent together.
    batch: UpdateBatch,
    reports: Vec<Report>,
    effects: Vec<Effect>,
}

/// What happens at a deadline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Deadline {
    /// A participant's bitrate has been above or below its limit long enough.
    Bitrate(ParticipantSid),
    /// The next transition of an egress by time is due.
    Egress(EgressId),
    /// A client's media has to be connected.
    Join(ParticipantSid),
    /// The participant updates that wait are sent.
    Updates,
}

impl Machine {
    /// Creates a room in which nothing has happened.
    pub fn new(name: NamespacedRoom, common: Arc<Common>) -> Self {
        Self {
            name,
            members: Members::default(),
            participants: HashMap::new(),
            peers: 0,
            egresses: HashMap::new(),
            endpoints: IngressEndpoints::default(),
            deadlines: BTreeSet::new(),
            reading: Duration::ZERO,
            is_changed: false,
            common,
            batch: UpdateBatch::default(),
            reports: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Returns the name of the room.
    pub fn name(&self) -> &NamespacedRoom {
        &self.name
    }

    /// Returns whether nothing is left of the room, so that it can be dropped.
    pub fn is_unused(&self) -> bool {
        let is_empty = self.participants.is_empty() && self.members.is_unused();
        is_empty && self.egresses.is_empty() && self.endpoints.is_empty()
    }

    /// Puts a notice into a participant's inbox, if the sandbox shows inboxes.
    fn put_into_inbox(&mut self, sid: &ParticipantSid, now: Timestamp, notice: Notice) {
        if let Some(receiver) = self
            .participants
            .get_mut(sid)
            .filter(|_| self.common.has_sandbox())
        {
            receiver.inbox.push(now, notice);
        }
    }

    /// Sets the monotonic reading of the clock for the next call.
    pub fn set_reading(&mut self, reading: Duration) {
        self.reading = reading;
    }

    /// Returns the monotonic reading of the clock.
    pub fn reading(&self) -> Duration {
        self.reading
    }

    /// Returns the reading at which [`Machine::tick`] has to be called next.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Handles the deadlines that have passed.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some((_, deadline)) = self
            .deadlines
            .first()
            .filter(|(at, _)| *at <= self.reading)
            .cloned()
        {
            match deadline {
                Deadline::Bitrate(sid) => self.report_limit_change(&sid, now),
                Deadline::Egress(id) => self.apply_due_transition(&id, now),
                Deadline::Join(sid) => self.abort_late_join(&sid, now),
                Deadline::Updates => self.end_update_interval(),
            }
        }
    }

    /// Returns the reports since the last call, in order.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// Returns what the driver has to do besides, in order, since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.follow_changes();
        std::mem::take(&mut self.effects)
    }

    fn report(&mut self, at: Timestamp, event: MediaEvent) {
        self.reports.push(Report {
            room: self.name.clone(),
            at,
            event,
        });
    }

    /// Adds a participant that is joining.
    fn insert(&mut self, mut participant: LocalParticipant) {
        self.common.note_joining(participant.sid(), &self.name);
        participant.relay_access = self.common.relay_access(participant.sid(), &self.name);
        self.participants
            .insert(participant.sid().clone(), participant);
    }

    /// Returns an active participant.
    fn active(&self, sid: &ParticipantSid) -> Result<&LocalParticipant, MachineError> {
        let participant = self
            .participants
            .get(sid)
            .filter(|participant| participant.is_active());
        participant.ok_or(MachineError::NoSuchParticipant)
    }

    fn active_mut(&mut self, sid: &ParticipantSid) -> Result<&mut LocalParticipant, MachineError> {
        let participant = self
            .participants
            .get_mut(sid)
            .filter(|participant| participant.is_active());
        participant.ok_or(MachineError::NoSuchParticipant)
    }
}

/// Returns an id that is not in use: the prefix and 12 random characters.
fn unused_id<Id: FromStr>(prefix: &str, is_used: impl Fn(&Id) -> bool) -> Id {
    loop {
        // Parsing never fails, since the text is short and printable. A second iteration is all but impossible.
        if let Ok(id) = format!("{prefix}{}", random_text(12, BASE62)).parse()
            && !is_used(&id)
        {
            return id;
        }
    }
}
