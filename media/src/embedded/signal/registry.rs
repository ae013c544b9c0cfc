//! The channels to all sessions.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_model::{NamespacedRoom, ParticipantSid};
use conclave_rtc::{Event, PeerEvent, PeerQuality, RoomEvent, Speaker};
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

/// The channels to all sessions. Its lock is held for a look-up and never while another is taken.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Sessions(Mutex<Channels>);

#[derive(Debug, Default)]
struct Channels {
    sessions: HashMap<ParticipantSid, (NamespacedRoom, mpsc::Sender<Input>)>,
    rooms: HashMap<NamespacedRoom, HashSet<ParticipantSid>>,
}

impl Channels {
    fn remove(&mut self, sid: &ParticipantSid) {
        let Some((room, _)) = self.sessions.remove(sid) else { return };
        if let Some(sids) = self.rooms.get_mut(&room) {
            sids.remove(sid);
            if sids.is_empty() {
                self.rooms.remove(&room);
            }
        }
    }

    /// Sends an input. The channel of a session that does not keep up is removed, by which the session ends.
    fn send(&mut self, sid: &ParticipantSid, input: Input) -> bool {
        let sent = self.sessions.get(sid).map(|(_, channel)| channel.try_send(input).is_ok());
        if sent == Some(false) {
            self.remove(sid);
        }
        sent.unwrap_or_default()
    }
}

impl Sessions {
    /// Adds a session and returns its inputs.
    pub fn add(&self, sid: &ParticipantSid, room: &NamespacedRoom) -> mpsc::Receiver<Input> {
        let (channel, inputs) = mpsc::channel(CAPACITY);
        let mut channels = self.lock();
        channels.sessions.insert(sid.clone(), (room.clone(), channel));
        channels.rooms.entry(room.clone()).or_default().insert(sid.clone());
        inputs
    }

    /// Removes a session that is over.
    pub fn remove(&self, sid: &ParticipantSid) {
        self.lock().remove(sid);
    }

    /// Sends an input to a session, and returns whether there is one that takes it.
    pub fn send(&self, sid: &ParticipantSid, input: Input) -> bool {
        self.lock().send(sid, input)
    }

    /// Sends an input to the sessions of a room.
    pub fn send_to_room(&self, room: &NamespacedRoom, input: impl Fn() -> Input) {
        let mut channels = self.lock();
        let sids: Vec<_> = channels.rooms.get(room).into_iter().flatten().cloned().collect();
        for sid in sids {
            channels.send(&sid, input());
        }
    }

    /// Sends an input to all sessions.
    pub fn broadcast(&self, input: impl Fn() -> Input) {
        let mut channels = self.lock();
        let sids: Vec<_> = channels.sessions.keys().cloned().collect();
        for sid in sids {
            channels.send(&sid, input());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    /// Passes an event of a media worker to the sessions that it concerns. Called on the worker's thread: it takes no lock of
    /// the machine, and does not wait.
    pub fn handle_event(&self, event: Event) {
        match event {
            Event::Peer { peer, event, .. } => {
                self.send(&peer, Input::Media(event));
            }
            Event::Room { room, event: RoomEvent::SpeakersChanged(speakers) } => {
                let speakers: Arc<[_]> = speakers.into();
                self.send_to_room(&room, || Input::Speakers(Arc::clone(&speakers)));
            }
            Event::Room { room, event: RoomEvent::ConnectionQuality(qualities) } => {
                let qualities: Arc<[_]> = qualities.into();
                self.send_to_room(&room, || Input::Qualities(Arc::clone(&qualities)));
            }
            Event::Room { event: RoomEvent::PublishRates(rates), .. } => {
                for rate in rates {
                    self.send(&rate.peer, Input::PublishRate(rate.kbps));
                }
            }
        }
    }
}
