//! Whether a participant may join: a question of the media plane that leaves no record, but keeps a seat.

use std::collections::BTreeMap;

use conclave_media::ReportError;
use conclave_model::RoleName;
use conclave_model::participant::Participant;
use conclave_model::role::Role;

use super::state::RoomState;
use super::{RoomActor, RoomMsg};
use crate::mailbox::Mailbox;
use crate::timer::Timer;

impl RoomActor {
    /// Decides whether a participant may join, and keeps a seat for it if asked to. The room's maximum of participants is
    /// enforced by the media plane.
    pub(super) async fn request_join(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        mut participant: Participant,
        reserves_seat: bool,
    ) -> Result<(), ReportError> {
        let (store, room) = (&self.context.store, &state.room);
        let roles = store
            .rooms()
            .roles(room.project_id.clone(), room.template_id.clone())
            .await;
        let roles = roles.map_err(|error| self.report_error(&error))?;
        let changed = self.take_last_role(state, &mut participant, &roles).await?;
        check_role(state, &participant, &roles)?;
        // A participant that connects could not be recorded otherwise.
        store
            .server()
            .ping()
            .await
            .map_err(|error| self.report_error(&error))?;
        if reserves_seat {
            self.set_rules_of_join(state, &roles).await?;
            self.set_role_of_join(state, &participant, changed).await?;
            let (sid, identity) = (participant.sid.clone(), participant.identity.clone());
            state.reservations.reserve(
                sid,
                identity,
                participant.role(),
                self.context.clock.monotonic(),
            );
            self.arm_reservation_timer(me, state);
        }
        Ok(())
    }

    /// Releases the seats whose time is over. Their joins have neither completed nor been reported as aborted.
    pub(super) fn drop_expired_reservations(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState) {
        state
            .reservations
            .release_expired(self.context.clock.monotonic());
        state.reservation_timer = None;
        self.arm_reservation_timer(me, state);
    }

    /// Arms the timer for the first seat that expires. An armed timer is kept: it fires early enough.
    pub(super) fn arm_reservation_timer(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState) {
        let clock = &self.context.clock;
        if state.reservation_timer.is_none()
            && let Some(expiry) = state.reservations.next_expiry()
        {
            let at = clock.now().after(expiry.saturating_sub(clock.monotonic()));
            state.reservation_timer = Some(Timer::arm(
                clock,
                "reservation",
                at,
                me,
                RoomMsg::ReservationExpired,
            ));
        }
    }
}

/// Checks whether the role with which a participant joins exists and has a free seat.
fn check_role(
    state: &RoomState,
    participant: &Participant,
    roles: &BTreeMap<RoleName, Role>,
) -> Result<(), ReportError> {
    if participant
        .role()
        .is_some_and(|role| !roles.contains_key(&role))
    {
        Err(ReportError::RoleRemoved)
    } else if role_is_full(state, participant, roles) {
        Err(ReportError::RoleFull)
    } else {
        Ok(())
    }
}

/// Returns whether the role of a participant has its maximum of other holders. A role that does not exist has none.
pub(super) fn role_is_full(
    state: &RoomState,
    participant: &Participant,
    roles: &BTreeMap<RoleName, Role>,
) -> bool {
    let Some(role) = participant.role().and_then(|name| roles.get(&name)) else {
        return false;
    };
    match usize::try_from(role.max_peer_count.get()) {
        Err(_) => true,
        Ok(0) => false,
        Ok(cap) => state.holders(&role.name, &participant.identity) >= cap,
    }
}
