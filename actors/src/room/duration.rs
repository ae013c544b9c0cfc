//! Maximum duration of a room: its participants are notified a minute before, then the room ends as by `DELETE`.
//!
//! The duration counts from the first join, which is in the record, so a restart changes nothing. An empty room has no actor: its project
//! wakes it at the earlier of both deadlines (`Room::deadline_when_empty`).
//!
//! The notice is a data message on the media plane, [`TOPIC`]. A participant that joins in the last minute gets it shortly after its join,
//! and a participant that was connected before a restart of the server may get it again. If the media plane refuses the message, it is
//! repeated.

use std::collections::HashSet;
use std::time::Duration;

use conclave_media::{MediaError, ServerData};
use conclave_model::participant::DataKind;
use conclave_model::room::NOTICE_BEFORE_END;
use conclave_model::{ParticipantSid, Timestamp};
use serde_json::json;

use super::commands::Target;
use super::{LiveRoom, RoomMsg};
use crate::mailbox::Timer;

/// Topic of the notice.
const TOPIC: &str = "conclave.room-ending";
/// Delay of a notice after a join, which the media plane completes only after the room's reply.
const AFTER_JOIN: Duration = Duration::from_secs(1);
/// Delay before a notice that could not be sent, and an end that could not be written, are repeated.
const RETRY: Duration = Duration::from_secs(5);

/// Timers of a room with a maximum duration, and the joins that were notified.
#[derive(Debug, Default)]
pub(super) struct DurationTimers {
    end: Option<Timer>,
    notice: Option<Timer>,
    notified: HashSet<ParticipantSid>,
}

impl DurationTimers {
    /// Returns the armed timers.
    pub fn timers(&self) -> impl Iterator<Item = &Timer> {
        self.end.iter().chain(&self.notice)
    }
}

impl LiveRoom {
    /// Arms the timer for the end of a room with a maximum duration, and the timer for the notice if a participant has not had it. Armed
    /// timers are kept: their times do not change.
    pub(super) fn arm_duration_timers(&mut self) {
        let now = self.context.clock.now();
        let Some(end) = self.roster.room().duration_end(now) else {
            return;
        };
        if self.duration.end.is_none() {
            let (clock, me) = (&self.context.clock, &self.me);
            let timer = Timer::arm(clock, "max_duration", end, me, RoomMsg::DurationEnd);
            self.duration.end = Some(timer);
        }
        let is_new = |sid| !self.duration.notified.contains(sid);
        if self.roster.participants().iter().any(|p| is_new(&p.sid)) {
            self.arm_notice(end.before(NOTICE_BEFORE_END).max(now.after(AFTER_JOIN)));
        }
    }

    fn arm_notice(&mut self, at: Timestamp) {
        if self.duration.notice.is_none() {
            let (clock, me) = (&self.context.clock, &self.me);
            let timer = Timer::arm(clock, "duration_notice", at, me, RoomMsg::DurationNotice);
            self.duration.notice = Some(timer);
        }
    }

    /// Sends the notice to the participants that have not had it.
    pub(super) fn notify_of_end(&mut self) {
        self.duration.notice = None;
        let (room, now) = (self.roster.room(), self.context.clock.now());
        let Some(end) = room.duration_end(now) else {
            return;
        };
        let connected = self.roster.participants();
        // Pruned here, so that the set does not outgrow the room.
        self.duration
            .notified
            .retain(|sid| connected.iter().any(|participant| participant.sid == *sid));
        let new: Vec<_> = connected
            .iter()
            .filter(|participant| !self.duration.notified.contains(&participant.sid))
            .collect();
        if new.is_empty() {
            return;
        }
        // Not more: if the clock was set back, the timers still fire after the delays for which they were armed.
        let left = end.since(now).min(NOTICE_BEFORE_END);
        // Rounded up: a timer fires some milliseconds late.
        let seconds = left.saturating_add(Duration::from_millis(999)).as_secs();
        let data = json!({"ends_at": now.after(left), "seconds_left": seconds});
        let notice = ServerData {
            data: data.to_string().into_bytes(),
            topic: Some(TOPIC.to_owned()),
            kind: DataKind::Reliable,
            to: new
                .iter()
                .map(|participant| participant.identity.clone())
                .collect(),
        };
        let joins: Vec<_> = new
            .iter()
            .map(|participant| participant.sid.clone())
            .collect();
        self.duration.notified.extend(joins.iter().cloned());
        let call = self.on_plane().notify_end(notice, joins);
        self.calls.run(&self.me, &self.path, Target::Room, call);
    }

    /// Handles the media plane's reply to a notice. A notice that was not sent is repeated.
    pub(super) fn notified(&mut self, joins: &[ParticipantSid], result: Result<(), MediaError>) {
        let Err(error) = result else {
            return;
        };
        log::warn!(room = self.name.as_str(); "the notice of the room's end was not sent: {error}");
        for sid in joins {
            self.duration.notified.remove(sid);
        }
        self.arm_notice(self.context.clock.now().after(RETRY));
    }

    /// Ends a room that has reached its maximum duration. If the store is unavailable, this is repeated until it succeeds.
    pub(super) async fn end_at_duration(&mut self) {
        self.duration.end = None;
        if let Err(error) = self.end().await {
            log::error!(room = self.name.as_str(); "a room could not be ended at its maximum duration: {error}");
            let at = self.context.clock.now().after(RETRY);
            let (clock, me) = (&self.context.clock, &self.me);
            let timer = Timer::arm(clock, "max_duration", at, me, RoomMsg::DurationEnd);
            self.duration.end = Some(timer);
        }
    }
}
