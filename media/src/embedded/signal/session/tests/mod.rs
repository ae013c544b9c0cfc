//! Sessions with the room state, called as by the driver.

mod backups;
mod data_tracks;
mod joining;
mod leaving;
mod messages;
mod metadata;
mod permissions;
mod recording;
mod simulate;
mod tracks;
mod updates;

use std::collections::BTreeMap;

use conclave_model::participant::{DataKind, TrackKind, TrackSource};
use conclave_model::role::RoleSubscribe;
use conclave_model::{RoleName, Secret, TrackSid};
use conclave_sfu::{
    Codec, Command, ConnectionQuality, FailureReason, PeerEvent, PeerQuality, Quality, Receivers,
    SentMessage, Speaker,
};
use proptest::prelude::*;
use prost::Message as _;
use proto::signal_request::Message as Request;
use proto::signal_response::Message as Response;
use proto::{AddTrackRequest, SignalRequest};

use super::*;
use crate::embedded::client::{Client, Subscriptions};
use crate::embedded::effect::{ClientNotice, RoomEffect};
use crate::embedded::inbox::Notice;
use crate::embedded::publish::NewTrack;
use crate::embedded::room_state::tests::{self as room_state_tests, room};
use crate::embedded::signal::connect_request::ConnectRequest;
use crate::port::{MediaEvent, RoleGrant, ServerData};
use crate::token::{Claims, Grants};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A room with clients, run as by the driver: notices reach the sessions, and commands are recorded.
struct Fixture {
    room_state: RoomState,
    signer: TokenSigner,
    now: Timestamp,
    sessions: BTreeMap<ParticipantSid, Session>,
    commands: Vec<Command>,
    events: Vec<MediaEvent>,
    turn: Arc<[TurnServers]>,
}

fn claims(identity: &str, role: Option<&str>) -> Claims {
    let attributes = role.map(|role| ("svc.role".to_owned(), role.to_owned()));
    Claims {
        attributes: attributes.into_iter().collect(),
        room_config: None,
        expires_at: START.after(Duration::from_secs(60)),
        ..room_state_tests::claims(&room(), identity, None)
    }
}

fn parameters(mode: ConnectionMode) -> JoinParameters {
    let request =
        ConnectRequest::new(ConnectionMode::Dual, "protocol=16", Some("Bearer jwt")).unwrap();
    JoinParameters {
        mode,
        ..request.parameters().unwrap()
    }
}

fn camera() -> AddTrackRequest {
    AddTrackRequest {
        cid: "camera-1".into(),
        r#type: proto::TrackType::Video.into(),
        source: proto::TrackSource::Camera.into(),
        ..AddTrackRequest::default()
    }
}

/// Returns the monotonic reading of a clock that was never set.
fn reading(now: Timestamp) -> Duration {
    now.since(START.before(Duration::from_secs(3_600)))
}

impl Fixture {
    fn new() -> Self {
        Self {
            room_state: room_state_tests::sandbox_room_state(),
            signer: TokenSigner::new(
                "key",
                &Secret::new("secret of the media plane, long enough"),
            ),
            now: START,
            sessions: BTreeMap::new(),
            commands: Vec::new(),
            events: Vec::new(),
            turn: Arc::default(),
        }
    }

    /// Joins a client, whose media is not connected yet.
    fn join(&mut self, identity: &str, role: Option<&str>) -> ParticipantSid {
        self.join_with(claims(identity, role), &parameters(ConnectionMode::Single))
    }

    fn join_with(&mut self, claims: Claims, parameters: &JoinParameters) -> ParticipantSid {
        let client = Client {
            subscriptions: Subscriptions::new(true),
            ..Client::default()
        };
        let identity = claims.identity.clone();
        self.room_state.set_reading(reading(self.now));
        let sid = self
            .room_state
            .request_join(claims, client, self.now)
            .unwrap();
        let mut session = Session::new(sid.clone(), identity, parameters.mode, reading(self.now))
            .with_turn(self.turn.clone());
        self.room_state.admit(&sid, self.now).unwrap();
        session.start(
            &mut Context {
                room_state: &mut self.room_state,
                signer: &self.signer,
                now: self.now,
            },
            parameters,
        );
        self.sessions.insert(sid.clone(), session);
        self.deliver();
        sid
    }

    /// Joins a client and connects its media.
    fn joined(&mut self, identity: &str, role: Option<&str>) -> ParticipantSid {
        let sid = self.join(identity, role);
        self.connect(&sid);
        sid
    }

    fn connect(&mut self, sid: &ParticipantSid) {
        if self.media(sid, PeerEvent::Connected) {
            self.room_state.complete_join(sid, self.now);
        }
        self.deliver();
    }

    /// Joins a participant of the sandbox that publishes a camera.
    fn simulated(&mut self, identity: &str) -> (ParticipantSid, TrackSid) {
        let sid = self
            .room_state
            .start_join(claims(identity, None), self.now)
            .unwrap();
        self.room_state.complete_join(&sid, self.now);
        let camera = NewTrack {
            kind: TrackKind::Video,
            source: TrackSource::Camera,
            name: None,
            muted: false,
        };
        let track = self.room_state.publish(&sid, camera, self.now).unwrap().sid;
        self.deliver();
        (sid, track)
    }

    fn call<T>(
        &mut self,
        sid: &ParticipantSid,
        call: impl FnOnce(&mut Session, &mut Context<'_>) -> T,
    ) -> T {
        self.room_state.set_reading(reading(self.now));
        let session = self.sessions.get_mut(sid).unwrap();
        let result = call(
            session,
            &mut Context {
                room_state: &mut self.room_state,
                signer: &self.signer,
                now: self.now,
            },
        );
        self.deliver();
        result
    }

    fn tick_room_state(&mut self) {
        self.room_state.set_reading(reading(self.now));
        self.room_state.tick(self.now);
        self.deliver();
    }

    fn request(&mut self, sid: &ParticipantSid, message: Request) {
        self.call(sid, |session, context| {
            session.handle_request(
                context,
                SignalRequest {
                    message: Some(message),
                },
            );
        });
    }

    fn media(&mut self, sid: &ParticipantSid, event: PeerEvent) -> bool {
        self.call(sid, |session, context| session.handle_media(context, event))
    }

    /// Attaches a new WebSocket, with a media worker that is ready at once.
    fn resume(&mut self, sid: &ParticipantSid) {
        self.call(sid, |session, context| {
            session.resume(context, parameters(ConnectionMode::Single));
        });
        self.media(
            sid,
            PeerEvent::Resumed {
                last_message_seq: 0,
            },
        );
    }

    /// Publishes a camera with a media section.
    fn publish(&mut self, sid: &ParticipantSid) -> TrackSid {
        self.request(sid, Request::AddTrack(camera()));
        let messages = self.take(sid);
        let Some(Response::TrackPublished(published)) = messages.last() else {
            panic!("{messages:?}")
        };
        let track: TrackSid = published.track.as_ref().unwrap().sid.parse().unwrap();
        let layers = vec![Quality::Low, Quality::High];
        self.media(
            sid,
            PeerEvent::TrackPublished {
                track: track.clone(),
                mid: "3".into(),
                codec: Codec::Vp8,
                layers,
            },
        );
        track
    }

    fn deliver(&mut self) {
        self.events.extend(
            self.room_state
                .take_reports()
                .into_iter()
                .map(|report| report.event),
        );
        loop {
            let effects = self.room_state.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    RoomEffect::Command(command) => self.commands.push(command),
                    RoomEffect::Notify { to, notice } => self.notify(&to, notice),
                    RoomEffect::OpenMedia => {}
                    RoomEffect::CloseMedia => self.commands.push(Command::CloseRoom),
                    RoomEffect::Job { .. } => panic!("{effect:?}"),
                }
            }
        }
    }

    fn notify(&mut self, to: &ParticipantSid, notice: ClientNotice) {
        if let Some(session) = self.sessions.get_mut(to) {
            session.handle_notice(
                &mut Context {
                    room_state: &mut self.room_state,
                    signer: &self.signer,
                    now: self.now,
                },
                notice,
            );
        }
    }

    fn take(&mut self, sid: &ParticipantSid) -> Vec<Response> {
        self.sessions.get_mut(sid).unwrap().take_messages()
    }

    fn take_all(&mut self) {
        self.sessions
            .values_mut()
            .for_each(|session| drop(session.take_messages()));
        self.commands.clear();
        self.events.clear();
    }

    fn is_subscribed(&self, sid: &ParticipantSid, track: &TrackSid) -> bool {
        let last = self
            .commands
            .iter()
            .rev()
            .find_map(|command| match command {
                Command::Peer {
                    peer,
                    command: PeerCommand::Subscribe(of),
                } if (peer, of) == (sid, track) => Some(true),
                Command::Peer {
                    peer,
                    command: PeerCommand::Unsubscribe(of),
                } if (peer, of) == (sid, track) => Some(false),
                _ => None,
            });
        last.unwrap_or_default()
    }

    fn set_role(&mut self, identity: &str, role: &str, grants: Grants) {
        let grant = RoleGrant {
            role: role.parse().unwrap(),
            grants,
            max_kbps: None,
        };
        self.room_state
            .set_role(&identity.parse().unwrap(), grant, self.now)
            .unwrap();
        self.deliver();
    }

    fn event_names(&mut self) -> Vec<&'static str> {
        let name = |event: MediaEvent| match event {
            MediaEvent::JoinRequested { .. } => "requested",
            MediaEvent::ParticipantJoined(_) => "joined",
            MediaEvent::ParticipantLeft {
                departure: Departure::Left,
                ..
            } => "left",
            MediaEvent::ParticipantLeft {
                departure: Departure::Lost,
                ..
            } => "lost",
            MediaEvent::JoinAborted { .. } => "aborted",
            MediaEvent::TrackPublished { .. } => "published",
            MediaEvent::TrackUnpublished { .. } => "unpublished",
            _ => "other",
        };
        std::mem::take(&mut self.events)
            .into_iter()
            .map(name)
            .collect()
    }
}

fn updates(messages: &[Response]) -> Vec<(String, i32, usize)> {
    let infos = messages.iter().filter_map(|message| match message {
        Response::Update(update) => Some(&update.participants),
        _ => None,
    });
    infos
        .flatten()
        .map(|info| (info.identity.clone(), info.state, info.tracks.len()))
        .collect()
}

fn leave_of(messages: &[Response]) -> Option<(DisconnectReason, Action)> {
    messages.iter().find_map(|message| match message {
        Response::Leave(leave) => Some((leave.reason(), leave.action())),
        _ => None,
    })
}
