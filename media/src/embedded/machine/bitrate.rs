//! Measured bitrates and their limits.

use conclave_model::event::PublishLimit;
use conclave_model::{ParticipantSid, Timestamp};

use super::{Deadline, Machine};
use crate::embedded::error::MachineError;
use crate::embedded::local_participant::LocalParticipant;
use crate::port::MediaEvent;

impl Machine {
    /// Sets a participant's measured bitrate, in kilobits per second.
    pub fn set_bitrate(
        &mut self,
        sid: &ParticipantSid,
        kbps: u32,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        self.active(sid)?;
        // A change that lasted until now counts, although no tick came in between.
        self.report_limit_change(sid, now);
        self.measure(sid, kbps);
        Ok(())
    }

    /// Compares a bitrate with the participant's current limit, and updates the deadline.
    pub(super) fn measure(&mut self, sid: &ParticipantSid, kbps: u32) {
        let Some(participant) = self.participants.get_mut(sid) else {
            return;
        };
        let before = participant.meter.deadline();
        participant
            .meter
            .measure(kbps, participant.max_kbps(), self.reading);
        let after = participant.meter.deadline();
        if before != after {
            before.map(|at| self.deadlines.remove(&(at, Deadline::Bitrate(sid.clone()))));
            after.map(|at| self.deadlines.insert((at, Deadline::Bitrate(sid.clone()))));
        }
    }

    /// Reports that a bitrate has exceeded its limit, or has fallen back below it, if that has lasted long enough.
    pub(super) fn report_limit_change(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let Some(publisher) = self.participants.get_mut(sid) else {
            return;
        };
        let Some(deadline) = publisher.meter.deadline() else {
            return;
        };
        let Some(change) = publisher.meter.take_change(self.reading) else {
            return;
        };
        let limit = PublishLimit {
            exceeded: change.exceeded,
            kbps: change.kbps,
            max_kbps: change.max_kbps,
            track: publisher.only_track(),
        };
        let participant = publisher.to_ref();
        self.deadlines
            .remove(&(deadline, Deadline::Bitrate(sid.clone())));
        self.report(now, MediaEvent::PublishLimit { participant, limit });
    }

    pub(super) fn cancel_bitrate_deadline(&mut self, participant: &LocalParticipant) {
        if let Some(at) = participant.meter.deadline() {
            self.deadlines
                .remove(&(at, Deadline::Bitrate(participant.sid().clone())));
        }
    }
}
