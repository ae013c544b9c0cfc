//! Room state, without I/O.
//!
//! Each call receives the time of day and appends events to a list of [`Report`]s, which the driver fetches in order
//! with [`RoomState::take_reports`]. Changes for clients and media workers are appended likewise, as [`RoomEffect`]s.
//! Deadlines use the monotonic clock, whose reading the driver sets before each call.
//!
//! A sandbox participant is first joining, then active. A participant with a client is joining while the control plane
//! decides, joined while its media connects, and active once the control plane has accepted the join's report
//! ([`join`](super::join)).
//!
//! # Parts
//!
//! Each part owns its private state and has its own tests. The room state calls them in the right order.
//!
//! - [`Roster`]: seats and participants. A participant with a client has [`MediaTracks`](media_tracks::MediaTracks),
//!   [`DataTracks`](super::data_track::DataTracks) and [`Subscriptions`](super::client::Subscriptions).
//! - [`RoomEgresses`], [`IngressEndpoints`]: the room's recordings and broadcasts, and the endpoints through which
//!   encoders publish.
//! - [`Updates`]: participant updates for clients, including delayed ones.
//! - [`Deadlines`] owns the timers.
//! - [`Outbox`]: reports and effects.
//!
//! [`Forwarding`], [`Messages`] and [`Joins`] own nothing: each borrows the parts that it works on.
//!
//! The calls are in three files. This one has the calls on the room as a whole, `membership.rs` the calls by which
//! participants and encoders come and go, and `publishing.rs` the calls about publishing, receiving and permissions.

pub(super) mod deadlines;
mod forwarding;
pub(super) mod media_tracks;
pub(super) mod membership;
mod messages;
pub(super) mod outbox;
mod publishing;
pub(super) mod roster;
pub(super) mod updates;

#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_egress::EgressEvent;
use conclave_model::egress::{EgressSource, EgressState, EgressStatus};
use conclave_model::participant::Participant;
use conclave_model::role::RoleSubscribe;
use conclave_model::{
    EgressId, Identity, NamespacedRoom, ParticipantSid, RoleName, Timestamp, TrackSid,
};
use conclave_sfu::{Codec, NewPeer, PeerCommand, PeerPermissions};

use super::common::Common;
use super::data_track::DataHandle;
use super::effect::{ClientNotice, RoomEffect};
use super::egress::{RoomEgresses, inputs};
use super::error::RoomStateError;
use super::ingress::endpoints::IngressEndpoints;
use super::join::Joins;
use super::local_participant::{LocalParticipant, ParticipantSnapshot};
use crate::port::{MediaError, Report};
use deadlines::{Deadline, Deadlines};
use forwarding::Forwarding;
use messages::Messages;
use outbox::Outbox;
use roster::{Roster, Seats};
use updates::{Updates, Urgency};

/// A room with its participants, egresses and ingress endpoints. Calls its parts in the right order.
#[derive(Debug)]
pub(super) struct RoomState {
    common: Arc<Common>,
    roster: Roster,
    egresses: RoomEgresses,
    endpoints: IngressEndpoints,
    updates: Updates,
    deadlines: Deadlines,
    outbox: Outbox,
}

impl RoomState {
    /// Creates the state of an empty room.
    pub fn new(name: NamespacedRoom, common: Arc<Common>) -> Self {
        Self {
            roster: Roster::new(common.has_sandbox()),
            egresses: RoomEgresses::new(name.clone(), Arc::clone(&common)),
            endpoints: IngressEndpoints::new(name.clone(), Arc::clone(&common)),
            updates: Updates::default(),
            deadlines: Deadlines::default(),
            outbox: Outbox::new(name),
            common,
        }
    }

    pub fn name(&self) -> &NamespacedRoom {
        self.outbox.room()
    }

    /// Returns whether the room is empty and can be dropped.
    pub fn is_unused(&self) -> bool {
        self.roster.is_unused() && self.egresses.is_empty() && self.endpoints.is_empty()
    }

    fn joins(&mut self) -> Joins<'_> {
        Joins::new(
            &mut self.roster,
            &mut self.deadlines,
            &mut self.outbox,
            &self.common,
        )
    }

    fn forwarding(&mut self) -> Forwarding<'_> {
        Forwarding::new(&mut self.roster, &mut self.outbox)
    }

    fn messages(&mut self) -> Messages<'_> {
        Messages::new(&mut self.roster, &mut self.outbox)
    }
}

/// Time, reports and effects.
impl RoomState {
    /// Sets the monotonic clock's reading for the next call.
    pub fn set_reading(&mut self, reading: Duration) {
        self.deadlines.set_reading(reading);
    }

    /// Returns the monotonic clock's reading.
    pub fn reading(&self) -> Duration {
        self.deadlines.reading()
    }

    /// Returns the reading at which [`RoomState::tick`] must be called next.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.next()
    }

    /// Handles expired deadlines.
    pub fn tick(&mut self, now: Timestamp) {
        // One at a time: a transition may set another deadline that is due as well.
        while let Some(due) = self.deadlines.take_due() {
            match due {
                Deadline::Bitrate(sid) => self.report_limit_change(&sid, now),
                Deadline::Egress(id) => {
                    let (deadlines, outbox) = (&mut self.deadlines, &mut self.outbox);
                    self.egresses
                        .apply_due_transition(&id, now, deadlines, outbox);
                }
                Deadline::Join(sid) => self.abort_late_join(&sid, now),
                Deadline::Updates => {
                    let (deadlines, outbox) = (&mut self.deadlines, &mut self.outbox);
                    self.updates.end_interval(&self.roster, deadlines, outbox);
                }
            }
        }
    }

    /// Returns the reports since the last call, in order.
    pub fn take_reports(&mut self) -> Vec<Report> {
        self.outbox.take_reports()
    }

    /// Returns the effects since the last call, in order.
    pub fn take_effects(&mut self) -> Vec<RoomEffect> {
        // Both run here and not after each change: a call may change the roster several times, but egresses and clients
        // need only the result.
        self.egresses.follow_changes(&self.roster, &mut self.outbox);
        if self.egresses.take_capture_change() {
            for client in self.roster.present_clients() {
                // Clients show whether a call is recorded.
                self.outbox.notify(client, ClientNotice::RoomChanged);
            }
        }
        self.outbox.take_effects()
    }
}

/// Participants.
impl RoomState {
    /// Returns the room's seats and its subscription rules.
    pub fn seats(&self) -> &Seats {
        self.roster.seats()
    }

    /// Returns the active participants, including hidden ones.
    pub fn participants(&self) -> Vec<Participant> {
        self.roster
            .active_members()
            .map(|participant| participant.participant().clone())
            .collect()
    }

    /// Returns an active participant.
    pub fn participant(&self, identity: &Identity) -> Option<Participant> {
        let local = self.roster.active_by_identity(identity).ok()?;
        Some(local.participant().clone())
    }

    /// Returns a joined or active participant.
    pub fn present(&self, sid: &ParticipantSid) -> Result<&LocalParticipant, RoomStateError> {
        self.roster.present(sid)
    }

    /// Returns the members with clients, and their identities.
    pub fn clients(&self) -> Vec<(ParticipantSid, Identity)> {
        self.roster
            .clients()
            .map(|local| (local.sid().clone(), local.identity().clone()))
            .collect()
    }

    /// Returns whether the control plane is writing the join of this participant, or of any if `identity` is `None`.
    pub fn is_join_reported(&self, identity: Option<&Identity>) -> bool {
        self.roster.is_join_reported(identity)
    }

    /// Returns the sandbox's view of a participant that is active or left recently.
    pub fn active_or_left(
        &self,
        sid: &ParticipantSid,
    ) -> Result<ParticipantSnapshot, RoomStateError> {
        self.roster
            .active(sid)
            .map(ParticipantSnapshot::from)
            // Its room may still exist although the participant has left.
            .or_else(|error| self.common.left(sid).ok_or(error))
    }

    /// Returns the active participants that a participant sees, without itself.
    pub fn visible_to(&self, sid: &ParticipantSid) -> Vec<&LocalParticipant> {
        // A participant that has left sees nobody, also while the sandbox still shows it.
        if self.roster.get(sid).is_none() {
            return Vec::new();
        }
        self.roster
            .active_members()
            // Hidden participants see others, but others do not see them.
            .filter(|other| other.sid() != sid && !other.grants.hidden)
            .collect()
    }

    /// Returns the tracks that a participant may receive.
    pub fn subscriptions(&self, sid: &ParticipantSid) -> Vec<TrackSid> {
        forwarding::subscriptions(&self.roster, sid)
    }

    /// Returns the tracks in `tracks` that no participant publishes.
    pub fn unpublished<'a>(&self, tracks: &'a [TrackSid]) -> Vec<&'a TrackSid> {
        forwarding::unpublished(&self.roster, tracks)
    }

    /// Filters `tracks` to the ones forwarded to a participant's client.
    pub fn received_tracks(
        &self,
        sid: &ParticipantSid,
        mut tracks: Vec<TrackSid>,
    ) -> Vec<TrackSid> {
        let client = self.roster.client(sid);
        tracks.retain(|track| client.is_some_and(|client| client.subscriptions.receives(track)));
        tracks
    }

    /// Returns whether a participant's client is notified of another participant's speech and connection quality: it
    /// receives one of that participant's tracks, or `other` is itself.
    pub fn follows(&self, sid: &ParticipantSid, other: &ParticipantSid) -> bool {
        let client = self.roster.client(sid);
        sid == other || client.is_some_and(|client| client.subscriptions.is_following(other))
    }

    /// Returns whether a client has announced this track.
    pub fn has_announced(&self, sid: &ParticipantSid, track: &str) -> bool {
        self.roster
            .client(sid)
            .is_some_and(|client| client.tracks.has_announced(track))
    }

    /// Returns whether a client has published this data track.
    pub fn has_data_track(&self, sid: &ParticipantSid, track: &str) -> bool {
        self.roster
            .client(sid)
            .is_some_and(|client| client.data_tracks.contains(track))
    }

    /// Returns the data tracks that a client receives, each with its handle and its publisher's identity.
    pub fn data_handles(&self, sid: &ParticipantSid) -> Vec<(TrackSid, DataHandle, String)> {
        forwarding::data_handles(&self.roster, sid)
    }

    /// Returns whether a client has ever received a data track.
    pub fn uses_data_handles(&self, sid: &ParticipantSid) -> bool {
        self.roster
            .client(sid)
            .is_some_and(|client| client.data_handles.are_used())
    }

    /// Returns a participant's permissions at the media worker.
    pub fn peer_permissions(&self, sid: &ParticipantSid) -> Option<PeerPermissions> {
        self.roster.permissions(sid)
    }

    /// Sets the room's subscription rules. The room may have no members yet.
    pub fn set_subscription_rules(&mut self, rules: BTreeMap<RoleName, RoleSubscribe>) {
        // The control plane may set the same rules again.
        if self.roster.seats_mut().set_rules(rules.into()) {
            self.forwarding().refresh_room();
        }
    }
}

/// Notices for clients and commands for the media worker.
impl RoomState {
    /// Notifies a participant's client, if it has one.
    fn notify(&mut self, to: &ParticipantSid, notice: ClientNotice) {
        // Sandbox participants and encoders have no session that would take the notice.
        if self.roster.client(to).is_some() {
            self.outbox.notify(to, notice);
        }
    }

    /// Sends a participant's command to the media worker.
    pub fn command(&mut self, sid: &ParticipantSid, command: PeerCommand) {
        self.outbox.command(sid, command);
    }

    /// Adds a participant's transports to the media worker. The first ones open the room there.
    pub fn add_peer(&mut self, peer: NewPeer) {
        let client = self.roster.client_mut(&peer.sid);
        // The outbox counts peers and closes the room at the media worker after the last one, so no peer may count twice.
        if let Some(client) = client.filter(|client| !client.is_peer) {
            client.is_peer = true;
            self.outbox.add_peer(peer);
        }
    }

    /// Notifies a participant's own client, and all clients that see it, of its current state.
    fn notify_changed(&mut self, sid: &ParticipantSid) {
        self.send_changed(sid, Urgency::Immediate);
    }

    /// Notifies the same clients of a change that concerns no track. In a large room, the notice may be delayed if the
    /// participant publishes nothing.
    fn notify_changed_without_tracks(&mut self, sid: &ParticipantSid) {
        let publishes = self
            .roster
            .get(sid)
            // Clients drop media from a participant that they do not know yet, so a publisher's update cannot wait.
            .is_some_and(|changed| changed.participant().is_publisher);
        self.send_changed(sid, Urgency::without_tracks(publishes));
    }

    fn send_changed(&mut self, sid: &ParticipantSid, urgency: Urgency) {
        let is_known = self.updates.send_changed(
            sid,
            urgency,
            &mut self.roster,
            &mut self.deadlines,
            &mut self.outbox,
        );
        // Egresses show names, so they follow every change, not only changes of tracks.
        if is_known {
            self.egresses.record_change();
        }
    }

    /// Notifies all other clients that a participant, which is no longer in the roster, has left or become hidden.
    fn notify_gone(&mut self, gone: &LocalParticipant, urgency: Urgency) {
        self.egresses.record_change();
        self.updates.send_gone(
            gone,
            urgency,
            &self.roster,
            &mut self.deadlines,
            &mut self.outbox,
        );
    }
}

/// Recordings and broadcasts.
impl RoomState {
    /// Returns an id for a new egress.
    pub fn unused_egress_id(&self) -> EgressId {
        self.egresses.unused_id()
    }

    /// Starts a simulated egress.
    pub fn start_egress(&mut self, now: Timestamp) -> EgressState {
        self.egresses.simulate(&mut self.deadlines, now)
    }

    /// Records an egress that was started with ffmpeg, and starts sending it its inputs.
    pub fn add_job(&mut self, id: EgressId, source: EgressSource, now: Timestamp) -> EgressState {
        self.egresses.add_job(id, source, now)
    }

    /// Handles an event from an egress with ffmpeg.
    pub fn handle_job_event(&mut self, id: &EgressId, event: EgressEvent, now: Timestamp) {
        let (deadlines, outbox) = (&mut self.deadlines, &mut self.outbox);
        self.egresses
            .handle_job_event(id, event, now, deadlines, outbox);
    }

    /// Returns an egress's state; ended egresses are kept for a while.
    pub fn egress(&self, id: &EgressId) -> Option<EgressState> {
        self.egresses.get(id)
    }

    /// Returns the egresses that have not ended, with the room's name.
    pub fn running_egresses(&self) -> impl Iterator<Item = (NamespacedRoom, EgressState)> {
        self.egresses.running()
    }

    /// Returns whether an egress records the room's media, or is about to.
    pub fn is_recorded(&self) -> bool {
        self.egresses.is_recorded()
    }

    /// Stops an egress on the server's request. Returns its new state.
    pub fn stop_egress(&mut self, id: &EgressId, now: Timestamp) -> Option<EgressState> {
        self.egresses
            .stop(id, now, &mut self.deadlines, &mut self.outbox)
    }

    /// Pauses or resumes an egress. Returns its state; `None` if it is unknown.
    pub fn set_egress_paused(&mut self, id: &EgressId, paused: bool) -> Option<EgressState> {
        self.egresses.set_paused(id, paused, &mut self.outbox)
    }

    /// Sets an egress's status for the sandbox. Returns its new state.
    pub fn set_egress_status(
        &mut self,
        id: &EgressId,
        status: EgressStatus,
        error: Option<String>,
        now: Timestamp,
    ) -> Option<EgressState> {
        let (deadlines, outbox) = (&mut self.deadlines, &mut self.outbox);
        self.egresses
            .set_status(id, (status, error), now, deadlines, outbox)
    }

    /// Returns a published track's codec.
    pub fn codec_of(&self, track: &TrackSid) -> Option<Codec> {
        inputs::codec_of(&self.roster, track)
    }

    /// Rejects an egress all of whose tracks are encrypted end to end: its output would be empty.
    ///
    /// # Errors
    /// Names the request's field that selects the tracks.
    pub fn check_encryption(&self, source: &EgressSource) -> Result<(), MediaError> {
        inputs::check_encryption(&self.roster, source)
    }
}
