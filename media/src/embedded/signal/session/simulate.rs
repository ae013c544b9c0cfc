//! What clients ask the server to simulate, to be tested: `simulateScenario` of LiveKit's SDKs. Permitted in development only.

use conclave_model::event::Departure;
use conclave_sfu::PeerCommand;
use livekit_protocol as proto;
use proto::DisconnectReason;
use proto::leave_request::Action;
use proto::simulate_scenario::Scenario;

use super::{Context, Session};
use crate::embedded::signal::messages;

/// When the websocket of the next resume is closed, in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClosedResume {
    /// Before anything is sent on it.
    BeforeMessages,
    /// After the client got what it has missed.
    AfterMessages,
}

impl Session {
    /// Lets the client simulate failures of the server.
    pub fn permit_simulations(&mut self) {
        self.permits_simulations = true;
    }

    /// Simulates what the client asks for, if that is permitted. Speech and a change of the transport protocol are not simulated.
    pub(super) fn simulate(&mut self, context: &mut Context<'_>, request: proto::SimulateScenario) {
        let Some(scenario) = request.scenario.filter(|_| self.permits_simulations) else {
            return;
        };
        match scenario {
            // Nobody says goodbye, and there is nothing to resume.
            Scenario::NodeFailure(_) => self.end(context, Departure::Lost),
            Scenario::ServerLeave(_) => self.shut_down(),
            Scenario::LeaveRequestFullReconnect(_) => self.reconnect(context),
            Scenario::Migration(_) => {
                self.send(messages::leave(DisconnectReason::Migration, Action::Resume));
                self.closes_socket = true;
            }
            Scenario::DisconnectSignalOnResume(_) => {
                self.closed_resume = Some(ClosedResume::AfterMessages);
            }
            Scenario::DisconnectSignalOnResumeNoMessages(_) => {
                self.closed_resume = Some(ClosedResume::BeforeMessages);
            }
            Scenario::SubscriberBandwidth(bits_per_second) => {
                self.limit_bandwidth(context, bits_per_second);
            }
            Scenario::SpeakerUpdate(_) | Scenario::SwitchCandidateProtocol(_) => {}
        }
    }

    /// Limits what is sent to the client, until its role changes; 0 ends the limit.
    fn limit_bandwidth(&self, context: &mut Context<'_>, bits_per_second: i64) {
        let Some(mut permissions) = context.machine.peer_permissions(&self.sid) else {
            return;
        };
        let limit = u32::try_from(bits_per_second / 1_000)
            .ok()
            .filter(|_| bits_per_second > 0);
        permissions.subscribe_max_kbps = [limit, permissions.subscribe_max_kbps]
            .into_iter()
            .flatten()
            .min();
        self.command(context, PeerCommand::SetPermissions(permissions));
    }

    /// Closes the websocket of a resume if that is simulated at this point of it. Returns whether it does.
    pub(super) fn closes_resume(&mut self, at: ClosedResume) -> bool {
        let closes = self.closed_resume.take_if(|closed| *closed == at).is_some();
        self.closes_socket |= closes;
        closes
    }
}
