//! A room of the media plane as a state machine without I/O.
//!
//! Each call takes the time of day as an argument, and appends what happened to a list of [`Report`]s in order, which the driver
//! fetches with [`Machine::take_reports`]; likewise what clients and media workers have to learn, as [`Effect`]s. Deadlines are by
//! the reading of the monotonic clock, which the driver sets before each call.
//!
//! A participant of the sandbox is joining, then active. One with a client of its own is joining while the control plane is
//! asked, joined while its media connects, and active once the control plane has accepted the report of its join
//! ([`join`](super::join)).
//!
//! # Parts
//!
//! Each part owns its state, which is private, and has its own tests. The machine knows in which order they act.
//!
//! - [`Roster`]: who has a seat, and the participants. A participant with a client has its [`MediaTracks`](media_tracks::MediaTracks),
//!   [`DataTracks`](super::data_track::DataTracks) and [`Subscriptions`](super::client::Subscriptions).
//! - [`RoomEgresses`], [`IngressEndpoints`]: the recordings and broadcasts of the room, and where encoders publish into it.
//! - [`Updates`]: what clients have to learn of participants, and what of it waits.
//! - [`Deadlines`]: what is due, and when.
//! - [`Outbox`]: the reports and effects.
//!
//! [`Forwarding`], [`Messages`] and [`Joins`] own nothing: each borrows the parts that it works on.
//!
//! The calls on a machine are in three files. Here are those about the room as a whole, in `membership.rs` those by which
//! participants and encoders come and go, and in `publishing.rs` those about what participants publish, receive and may do.

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
use super::effect::{ClientNotice, Effect};
use super::egress::{RoomEgresses, attendance};
use super::error::MachineError;
use super::ingress::endpoints::IngressEndpoints;
use super::join::Joins;
use super::local_participant::{LocalParticipant, ShownParticipant};
use crate::port::{MediaError, Report};
use deadlines::{Deadline, Deadlines};
use forwarding::Forwarding;
use messages::Messages;
use outbox::Outbox;
use roster::{Members, Roster};
use updates::{Updates, Urgency};

/// A room, its participants, and its egresses and ingress endpoints. Each part owns its state; the machine knows in which order they
/// act.
#[derive(Debug)]
pub(super) struct Machine {
    common: Arc<Common>,
    roster: Roster,
    egresses: RoomEgresses,
    endpoints: IngressEndpoints,
    updates: Updates,
    deadlines: Deadlines,
    outbox: Outbox,
}

impl Machine {
    /// Creates a room in which nothing has happened.
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

    /// Returns the name of the room.
    pub fn name(&self) -> &NamespacedRoom {
        self.outbox.room()
    }

    /// Returns whether nothing is left of the room, so that it can be dropped.
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

/// Time, and what the driver fetches.
impl Machine {
    /// Sets the monotonic reading of the clock for the next call.
    pub fn set_reading(&mut self, reading: Duration) {
        self.deadlines.set_reading(reading);
    }

    /// Returns the monotonic reading of the clock.
    pub fn reading(&self) -> Duration {
        self.deadlines.reading()
    }

    /// Returns the reading at which [`Machine::tick`] has to be called next.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.next()
    }

    /// Handles the deadlines that have passed.
    pub fn tick(&mut self, now: Timestamp) {
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

    /// Returns what the driver has to do besides, in order, since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.egresses.follow_changes(&self.roster, &mut self.outbox);
        if self.egresses.take_capture_change() {
            for client in self.roster.present_clients() {
                self.outbox.notify(client, ClientNotice::RoomChanged);
            }
        }
        self.outbox.take_effects()
    }
}

/// The participants of the room.
impl Machine {
    /// Returns the members of the room, and its subscription rules.
    pub fn members(&self) -> &Members {
        self.roster.members()
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

    /// Returns a participant that is joined or active.
    pub fn present(&self, sid: &ParticipantSid) -> Result<&LocalParticipant, MachineError> {
        self.roster.present(sid)
    }

    /// Returns the members that have clients, with their identities.
    pub fn clients(&self) -> Vec<(ParticipantSid, Identity)> {
        self.roster
            .clients()
            .map(|local| (local.sid().clone(), local.identity().clone()))
            .collect()
    }

    /// Returns whether the join of a participant, or of any if none is named, is being written by the control plane.
    pub fn is_join_reported(&self, identity: Option<&Identity>) -> bool {
        self.roster.is_join_reported(identity)
    }

    /// Returns what the sandbox shows of a participant that is active or left recently.
    pub fn active_or_left(&self, sid: &ParticipantSid) -> Result<ShownParticipant, MachineError> {
        self.roster
            .active(sid)
            .map(ShownParticipant::from)
            .or_else(|error| self.common.left(sid).ok_or(error))
    }

    /// Returns the active participants that a participant sees besides itself.
    pub fn visible_to(&self, sid: &ParticipantSid) -> Vec<&LocalParticipant> {
        if self.roster.get(sid).is_none() {
            return Vec::new();
        }
        self.roster
            .active_members()
            .filter(|other| other.sid() != sid && !other.grants.hidden)
            .collect()
    }

    /// Returns the tracks that a participant may receive.
    pub fn subscriptions(&self, sid: &ParticipantSid) -> Vec<TrackSid> {
        forwarding::subscriptions(&self.roster, sid)
    }

    /// Returns those of some tracks that no participant publishes.
    pub fn unpublished<'a>(&self, tracks: &'a [TrackSid]) -> Vec<&'a TrackSid> {
        forwarding::unpublished(&self.roster, tracks)
    }

    /// Returns those of some tracks that are forwarded to the client of a participant.
    pub fn received_tracks(
        &self,
        sid: &ParticipantSid,
        mut tracks: Vec<TrackSid>,
    ) -> Vec<TrackSid> {
        let client = self.roster.client(sid);
        tracks.retain(|track| client.is_some_and(|client| client.subscriptions.receives(track)));
        tracks
    }

    /// Returns whether a participant's client is notified of the speech and the connection of another one: it receives a track
    /// of it, or is that participant.
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

    /// Returns the data tracks that a client receives, each with its handle and the identity of its publisher.
    pub fn data_handles(&self, sid: &ParticipantSid) -> Vec<(TrackSid, DataHandle, String)> {
        forwarding::data_handles(&self.roster, sid)
    }

    /// Returns whether a client has ever received a data track.
    pub fn uses_data_handles(&self, sid: &ParticipantSid) -> bool {
        self.roster
            .client(sid)
            .is_some_and(|client| client.data_handles.are_used())
    }

    /// Returns what the media worker lets a participant do.
    pub fn peer_permissions(&self, sid: &ParticipantSid) -> Option<PeerPermissions> {
        self.roster.permissions(sid)
    }

    /// Sets the subscription rules of the room, which may have no members yet.
    pub fn set_subscription_rules(&mut self, rules: BTreeMap<RoleName, RoleSubscribe>) {
        if self.roster.members_mut().set_rules(rules.into()) {
            self.forwarding().refresh_room();
        }
    }
}

/// What clients and the media worker learn.
impl Machine {
    /// Notifies the client of a participant, if it has one.
    fn notify(&mut self, to: &ParticipantSid, notice: ClientNotice) {
        if self.roster.client(to).is_some() {
            self.outbox.notify(to, notice);
        }
    }

    /// Commands the media worker about a participant.
    pub fn command(&mut self, sid: &ParticipantSid, command: PeerCommand) {
        self.outbox.command(sid, command);
    }

    /// Gives the transports of a participant to the media worker, which gets the room with the first ones.
    pub fn add_peer(&mut self, peer: NewPeer) {
        let client = self.roster.client_mut(&peer.sid);
        if let Some(client) = client.filter(|client| !client.is_peer) {
            client.is_peer = true;
            self.outbox.add_peer(peer);
        }
    }

    /// Notifies a participant's own client, and those of the others if they see it, of its state now.
    fn notify_changed(&mut self, sid: &ParticipantSid) {
        self.send_changed(sid, Urgency::AtOnce);
    }

    /// The same of a change that concerns no track. If the participant publishes none, it may wait in a large room.
    fn notify_changed_beside_tracks(&mut self, sid: &ParticipantSid) {
        let publishes = self
            .roster
            .get(sid)
            .is_some_and(|changed| changed.participant().is_publisher);
        self.send_changed(sid, Urgency::beside_tracks(publishes));
    }

    fn send_changed(&mut self, sid: &ParticipantSid, urgency: Urgency) {
        let is_known = self.updates.send_changed(
            sid,
            urgency,
            &mut self.roster,
            &mut self.deadlines,
            &mut self.outbox,
        );
        if is_known {
            self.egresses.note_change();
        }
    }

    /// Notifies the clients of all others that a participant, which is not in the roster, has left or become hidden.
    fn notify_gone(&mut self, gone: &LocalParticipant, urgency: Urgency) {
        self.egresses.note_change();
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
impl Machine {
    /// Returns an id for a new egress.
    pub fn unused_egress_id(&self) -> EgressId {
        self.egresses.unused_id()
    }

    /// Starts a simulated egress.
    pub fn start_egress(&mut self, now: Timestamp) -> EgressState {
        self.egresses.simulate(&mut self.deadlines, now)
    }

    /// Records an egress that was started with ffmpeg, and lets it know who attends.
    pub fn begin_job(&mut self, id: EgressId, source: EgressSource, now: Timestamp) -> EgressState {
        self.egresses.begin_job(id, source, now)
    }

    /// Takes what has happened to an egress with ffmpeg.
    pub fn handle_job_event(&mut self, id: &EgressId, event: EgressEvent, now: Timestamp) {
        let (deadlines, outbox) = (&mut self.deadlines, &mut self.outbox);
        self.egresses
            .handle_job_event(id, event, now, deadlines, outbox);
    }

    /// Returns the state of an egress of the room, also for a while after it has ended.
    pub fn egress(&self, id: &EgressId) -> Option<EgressState> {
        self.egresses.get(id)
    }

    /// Returns the egresses that have not ended, with the name of the room.
    pub fn running_egresses(&self) -> impl Iterator<Item = (NamespacedRoom, EgressState)> {
        self.egresses.running()
    }

    /// Returns whether an egress takes the room's media, or is about to.
    pub fn is_recorded(&self) -> bool {
        self.egresses.is_recorded()
    }

    /// The server tells an egress to finish. Returns its state afterwards.
    pub fn stop_egress(&mut self, id: &EgressId, now: Timestamp) -> Option<EgressState> {
        self.egresses
            .stop(id, now, &mut self.deadlines, &mut self.outbox)
    }

    /// The sandbox sets the status of an egress. Returns the state afterwards.
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

    /// Returns the codec of a track that is published.
    pub fn codec_of(&self, track: &TrackSid) -> Option<Codec> {
        attendance::codec_of(&self.roster, track)
    }

    /// Refuses what would contain nothing, because all of its tracks are encrypted end to end.
    ///
    /// # Errors
    /// Which field of a request names the tracks.
    pub fn check_encryption(&self, source: &EgressSource) -> Result<(), MediaError> {
        attendance::check_encryption(&self.roster, source)
    }
}
