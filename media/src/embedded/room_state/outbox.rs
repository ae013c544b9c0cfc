//! A room's output since the last call: reports for the control plane, and effects for clients, egresses and the media
//! worker, each in order.

use conclave_model::{EgressId, NamespacedRoom, ParticipantSid, Timestamp};
use conclave_sfu::{Command, NewPeer, PeerCommand};

use crate::embedded::effect::{ClientNotice, DisconnectCause, JobEffect, RoomEffect};
use crate::embedded::local_participant::LocalParticipant;
use crate::port::{MediaEvent, Report};

/// Reports and effects that the driver has not fetched yet.
#[derive(Debug)]
pub(in crate::embedded) struct Outbox {
    room: NamespacedRoom,
    reports: Vec<Report>,
    effects: Vec<RoomEffect>,
    /// Number of participants whose transports the media worker has.
    peers: usize,
}

impl Outbox {
    pub const fn new(room: NamespacedRoom) -> Self {
        Self {
            room,
            reports: Vec::new(),
            effects: Vec::new(),
            peers: 0,
        }
    }

    pub const fn room(&self) -> &NamespacedRoom {
        &self.room
    }

    /// Reports an event to the control plane.
    pub fn report(&mut self, at: Timestamp, event: MediaEvent) {
        self.reports.push(Report {
            room: self.room.clone(),
            at,
            event,
        });
    }

    /// Notifies a participant's client.
    pub fn notify(&mut self, to: &ParticipantSid, notice: ClientNotice) {
        self.effects.push(RoomEffect::Notify {
            to: to.clone(),
            notice,
        });
    }

    /// Sends a command to the media worker.
    pub fn send(&mut self, command: Command) {
        self.effects.push(RoomEffect::Command(command));
    }

    /// Sends a participant's command to the media worker.
    pub fn command(&mut self, sid: &ParticipantSid, command: PeerCommand) {
        self.send(command.for_peer(sid.clone()));
    }

    /// Sends a change to an egress with ffmpeg.
    pub fn inform_job(&mut self, egress: &EgressId, effect: JobEffect) {
        self.effects.push(RoomEffect::Job {
            egress: egress.clone(),
            effect,
        });
    }

    /// Adds a participant's transports to the media worker. The first ones open the room there.
    pub fn add_peer(&mut self, peer: NewPeer) {
        self.peers += 1;
        // Rooms with sandbox participants or egresses only, and rooms without a connected client, are on no media
        // worker.
        if self.peers == 1 {
            self.effects.push(RoomEffect::OpenMedia);
        }
        self.send(Command::AddPeer(peer));
    }

    /// Sends the cause of a disconnection to a participant's client, and closes its transports. The last ones close the
    /// room at the media worker. Has no effect without a client.
    pub fn disconnect(&mut self, gone: &LocalParticipant, cause: DisconnectCause) {
        let Some(client) = &gone.client else { return };
        // The session ends at this notice, so it must be the last one for this client.
        self.notify(gone.sid(), ClientNotice::Disconnected(cause));
        self.command(gone.sid(), PeerCommand::Remove);
        // A client that never connected its media was not counted.
        if client.is_peer {
            self.peers -= 1;
            if self.peers == 0 {
                self.effects.push(RoomEffect::CloseMedia);
            }
        }
    }

    /// Returns the reports since the last call, in order.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// Returns the effects since the last call, in order.
    pub fn take_effects(&mut self) -> Vec<RoomEffect> {
        std::mem::take(&mut self.effects)
    }
}

#[cfg(test)]
mod tests {
    use conclave_sfu::{ConnectionMode, PeerPermissions};

    use super::*;
    use crate::embedded::client::Client;
    use crate::embedded::room_state::tests::{NOW, claims, room};

    fn participant(sid: &str, is_peer: bool) -> LocalParticipant {
        let client = Client {
            is_peer,
            ..Client::default()
        };
        LocalParticipant::new(sid.parse().unwrap(), claims(&room(), sid, None), NOW)
            .with_client(client)
    }

    fn peer(sid: &str) -> NewPeer {
        NewPeer {
            sid: sid.parse().unwrap(),
            identity: sid.parse().unwrap(),
            mode: ConnectionMode::Source,
            is_subscriber_primary: false,
            needs_full_ice: false,
            allows_pause: false,
            permissions: PeerPermissions {
                can_transcribe_others: false,
                can_publish_data: true,
                can_subscribe: true,
                is_hidden: false,
                subscribe_max_kbps: None,
            },
            client: None,
        }
    }

    #[test]
    fn the_media_worker_has_the_room_from_its_first_peer_to_its_last() {
        let mut outbox = Outbox::new(room());
        let mut names = |run: &dyn Fn(&mut Outbox)| -> Vec<&'static str> {
            run(&mut outbox);
            let name = |effect| match effect {
                RoomEffect::OpenMedia => "open",
                RoomEffect::CloseMedia => "close",
                RoomEffect::Notify { .. } => "notify",
                RoomEffect::Command(_) => "command",
                RoomEffect::Job { .. } => "job",
            };
            outbox.take_effects().into_iter().map(name).collect()
        };
        assert_eq!(
            names(&|outbox| outbox.add_peer(peer("PA_1"))),
            ["open", "command"]
        );
        assert_eq!(names(&|outbox| outbox.add_peer(peer("PA_2"))), ["command"]);
        let leave = |sid: &'static str, is_peer| {
            move |outbox: &mut Outbox| {
                outbox.disconnect(&participant(sid, is_peer), DisconnectCause::Left);
            }
        };
        assert_eq!(names(&leave("PA_1", true)), ["notify", "command"]);
        assert_eq!(
            names(&leave("PA_3", false)),
            ["notify", "command"],
            "its media was not connected"
        );
        assert_eq!(names(&leave("PA_2", true)), ["notify", "command", "close"]);
    }

    #[test]
    fn reports_name_the_room_and_are_fetched_once_in_order() {
        let mut outbox = Outbox::new(room());
        let participant = participant("PA_1", false).to_ref();
        outbox.report(NOW, MediaEvent::InvalidIdentity);
        outbox.report(NOW, MediaEvent::JoinAborted { participant });
        let reports = outbox.take_reports();
        assert!(matches!(
            &reports[..],
            [
                Report { room: first, event: MediaEvent::InvalidIdentity, .. },
                Report { event: MediaEvent::JoinAborted { .. }, .. }
            ] if *first == room()
        ));
        assert!(outbox.take_reports().is_empty());
    }
}
