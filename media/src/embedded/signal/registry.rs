//! The channels to the sessions of a room.

use std::collections::HashMap;
use std::sync::Arc;

use conclave_model::ParticipantSid;
use conclave_sfu::{Event, PeerEvent, PeerQuality, RoomEvent, Speaker};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::connection::Socket;
use super::join::JoinParameters;
use crate::embedded::effect::ClientNotice;

/// Number of inputs that wait for a session.
const CAPACITY: usize = 4_096;

/// What a session's task has to handle.
#[derive(Debug)]
pub(in crate::embedded) enum Input {
    /// The machine notifies the client.
    Notice(ClientNotice),
    /// The media worker reports an event of the participant's transports.
    Media(PeerEvent),
    /// Participants of the room began or ceased to speak.
    Speakers(Arc<[Speaker]>),
    /// The connections of participants of the room have changed.
    Qualities(Arc<[PeerQuality]>),
    /// What the participant published in the last second, in kilobits.
    PublishRate(u32),
    /// A new websocket, with which the client resumes.
    Attach(Box<(JoinParameters, Socket)>),
    /// The server stops.
    Stop,
}

/// The channels to the sessions of a room. Its lock is held for a look-up and never while another is taken.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Sessions(Mutex<HashMap<ParticipantSid, mpsc::Sender<Input>>>);

impl Sessions {
    /// Adds a session and returns its inputs.
    pub fn add(&self, sid: &ParticipantSid) -> mpsc::Receiver<Input> {
        let (channel, inputs) = mpsc::channel(CAPACITY);
        self.0.lock().insert(sid.clone(), channel);
        inputs
    }

    /// Removes a session that is over.
    pub fn remove(&self, sid: &ParticipantSid) {
        self.0.lock().remove(sid);
    }

    /// Sends an input to a session, and returns whether there is one that takes it. One that does not keep up loses its channel, by
    /// which it ends.
    pub fn send(&self, sid: &ParticipantSid, input: Input) -> bool {
        let mut channels = self.0.lock();
        let sent = channels
            .get(sid)
            .map(|channel| channel.try_send(input).is_ok());
        if sent == Some(false) {
            channels.remove(sid);
        }
        sent.unwrap_or_default()
    }

    /// Sends an input to all sessions.
    pub fn broadcast(&self, input: impl Fn() -> Input) {
        self.0
            .lock()
            .retain(|_, channel| channel.try_send(input()).is_ok());
    }

    /// Passes an event of a media worker to the sessions that it concerns.
    pub fn handle_event(&self, event: Event) {
        match event {
            Event::Peer { peer, event, .. } => {
                self.send(&peer, Input::Media(event));
            }
            Event::Room {
                event: RoomEvent::SpeakersChanged(speakers),
                ..
            } => {
                let speakers: Arc<[_]> = speakers.into();
                self.broadcast(|| Input::Speakers(Arc::clone(&speakers)));
            }
            Event::Room {
                event: RoomEvent::ConnectionQuality(qualities),
                ..
            } => {
                let qualities: Arc<[_]> = qualities.into();
                self.broadcast(|| Input::Qualities(Arc::clone(&qualities)));
            }
            Event::Room {
                event: RoomEvent::PublishRates(rates),
                ..
            } => {
                for rate in rates {
                    self.send(&rate.peer, Input::PublishRate(rate.kbps));
                }
            }
        }
    }
}
