//! Moderation of participants by the server: muting and changes of role.

use conclave_model::event::TrackSummary;
use conclave_model::participant::{Participant, Track};
use conclave_model::{Identity, ParticipantSid, Timestamp, TrackSid};

use super::Machine;
use crate::embedded::effect::ClientNotice;
use crate::embedded::error::MachineError;
use crate::embedded::inbox::Notice;
use crate::port::{MediaEvent, RoleGrant};

impl Machine {
    /// The server mutes or unmutes a track. The publisher receives a notice if the track's state changes.
    pub fn mute_by_server(
        &mut self,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
        now: Timestamp,
    ) -> Result<Track, MachineError> {
        let sid = self.active_by_identity(identity)?;
        let publisher = self.active_mut(&sid)?;
        if publisher.track_mut(track)?.muted != muted {
            let track_sid = track.clone();
            if let Some(media) = publisher
                .client
                .as_mut()
                .and_then(|client| client.tracks.get_mut(track))
            {
                media.awaits_mute = muted;
            }
            let notice = if muted {
                Notice::Muted { track_sid }
            } else {
                Notice::Unmuted { track_sid }
            };
            self.put_into_inbox(&sid, now, notice);
            self.notify(
                &sid,
                ClientNotice::Muted {
                    track: track.clone(),
                    muted,
                },
            );
        }
        self.mute(&sid, track, muted, now)
    }

    /// The server changes a participant's role. Tracks that the new role forbids are unpublished. Returns the participant
    /// afterwards.
    pub fn set_role(
        &mut self,
        identity: &Identity,
        grant: RoleGrant,
        now: Timestamp,
    ) -> Result<Participant, MachineError> {
        let sid = self.active_by_identity(identity)?;
        // A change that lasted until now is reported with the old limit.
        self.report_limit_change(&sid, now);
        let changed = self.active_mut(&sid)?;
        let (role, was_hidden) = (grant.role.clone(), changed.grants.hidden);
        changed.set_role(grant);
        let (forbidden, reference, kbps) = (
            changed.remove_forbidden_tracks(),
            changed.to_ref(),
            changed.meter.kbps(),
        );
        let participant = changed.participant().clone();
        if !was_hidden && changed.grants.hidden {
            self.notify_hidden(&sid);
        }
        self.put_into_inbox(&sid, now, Notice::RoleChanged { role: role.clone() });
        self.end_forbidden_media(&sid);
        for track in forbidden {
            let track = TrackSummary::from(&track);
            self.report(
                now,
                MediaEvent::TrackUnpublished {
                    participant: reference.clone(),
                    track,
                },
            );
        }
        self.refresh_permissions_of(&sid);
        self.notify_changed(&sid);
        self.notify(&sid, ClientNotice::RoleChanged(role));
        self.refresh_receiver(&sid);
        self.refresh_publisher(&sid);
        self.measure(&sid, kbps);
        Ok(participant)
    }

    /// Gives a participant that is joining another role than its token. Returns the participant afterwards.
    pub fn set_role_of_join(
        &mut self,
        sid: &ParticipantSid,
        grant: RoleGrant,
        now: Timestamp,
    ) -> Option<Participant> {
        let joining = self.participants.get_mut(sid)?;
        let (identity, role) = (joining.identity().clone(), grant.role.clone());
        if joining.is_active() {
            return self.set_role(&identity, grant, now).ok();
        }
        let has_session = joining.is_present();
        joining.set_role(grant);
        // They were not reported.
        joining.remove_forbidden_tracks();
        let participant = joining.participant().clone();
        if has_session {
            self.end_forbidden_media(sid);
            self.refresh_permissions_of(sid);
            self.notify(sid, ClientNotice::RoleChanged(role));
            self.refresh_receiver(sid);
        }
        Some(participant)
    }

    /// Returns the sid of the active participant with this identity.
    fn active_by_identity(&self, identity: &Identity) -> Result<ParticipantSid, MachineError> {
        let sid = self
            .members
            .get(identity)
            .ok_or(MachineError::NoSuchParticipant)?;
        self.active(sid)
            .map(|participant| participant.sid().clone())
    }
}

#[cfg(test)]
mod tests;
