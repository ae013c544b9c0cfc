//! The API's methods, performed on the double's state.

use std::net::TcpStream;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use livekit_protocol as proto;
use prost::Message;
use proto::egress_info::Request as EgressKind;
use serde_json::Value;
use test_http_server::{Request, Response};

use crate::faults::{self, EVERY, Fault};
use crate::{Double, LiveRoom, State};

const NOT_CONNECTED: &str = "egress not connected (redis required)";

/// Nanoseconds since the epoch.
pub(crate) fn nanos() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or_default()
}

impl Double {
    /// Answers a request, unless a fault prevents it.
    pub(crate) fn handle(&self, request: &Request, mut stream: TcpStream) {
        let (response, fault) = if request.target.starts_with("/rtc?") {
            let Err(response) = self.signalling(request, &mut stream) else {
                return;
            };
            (response, None)
        } else {
            self.call(request)
        };
        match fault {
            Some(Fault::Slow(wait)) => thread::sleep(wait),
            Some(Fault::Dropped) => return,
            _ => {}
        }
        // A disconnected client has lost the response.
        let _ = response.send(&mut stream);
    }

    /// Performs a call and returns its response, and the fault to apply when sending it.
    fn call(&self, request: &Request) -> (Response, Option<Fault>) {
        let Some((service, method)) = request
            .target
            .strip_prefix("/twirp/livekit.")
            .and_then(|path| path.split_once('/'))
        else {
            return (faults::twirp(404, "bad_route", "no handler for path"), None);
        };
        if request.header("content-type") != "application/protobuf" {
            return (
                faults::twirp(404, "bad_route", "unexpected Content-Type"),
                None,
            );
        }
        let fault = self.fault(method);
        if let Some(answer) = fault.as_ref().and_then(Fault::answer) {
            return (answer, None);
        }
        let grants = match self.claims(request.header("authorization")) {
            Ok(claims) => claims["video"].clone(),
            Err(refusal) => return (refusal, None),
        };
        if !granted(service, method, &grants, &request.body) {
            return (
                faults::twirp(401, "unauthenticated", "permissions denied"),
                None,
            );
        }
        let mut state = self.lock();
        state.calls.push((method.to_owned(), request.body.clone()));
        (state.perform(method, &request.body, self), fault)
    }

    /// Returns the fault for a method.
    pub(crate) fn fault(&self, method: &str) -> Option<Fault> {
        let state = self.lock();
        state
            .faults
            .get(method)
            .or_else(|| state.faults.get(EVERY))
            .cloned()
    }

    /// Returns the claims in a token signed with the double's key, with or without `Bearer` before it.
    pub(crate) fn claims(&self, token: &str) -> Result<Value, Response> {
        let token = token.strip_prefix("Bearer ").unwrap_or(token);
        let refused = || faults::text(401, "text/plain; charset=utf-8", "invalid token\n");
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_issuer(&[&self.api_key]);
        // The test's clock may differ from the machine's.
        validation.validate_exp = false;
        let key = DecodingKey::from_secret(self.api_secret.as_bytes());
        jsonwebtoken::decode::<Value>(token, &key, &validation)
            .map(|token| token.claims)
            .map_err(|_| refused())
    }
}

fn granted(service: &str, method: &str, grants: &Value, body: &[u8]) -> bool {
    let has = |grant: &str| grants[grant] == Value::Bool(true);
    match (service, method) {
        ("RoomService", "CreateRoom" | "DeleteRoom") => has("roomCreate"),
        ("RoomService", "ListRooms") => has("roomList"),
        // All of these name the room in field 1.
        ("RoomService", _) => {
            let room = read::<proto::DeleteRoomRequest>(body).room;
            has("roomAdmin") && grants["room"] == Value::String(room)
        }
        ("Egress", _) => has("roomRecord"),
        ("Ingress", _) => has("ingressAdmin"),
        _ => false,
    }
}

pub(crate) fn read<M: Message + Default>(body: &[u8]) -> M {
    // Unknown fields are skipped, but a field with another type is an error: only the caller knows the message type.
    M::decode(body).unwrap_or_default()
}

impl State {
    fn perform(&mut self, method: &str, body: &[u8], double: &Double) -> Response {
        if !self.settings.redis && (method.contains("Egress") || method.contains("Ingress")) {
            return faults::twirp(500, "internal", NOT_CONNECTED);
        }
        match method {
            "CreateRoom" => self.create_room(&read(body), double),
            "ListRooms" => self.list_rooms(&read(body)),
            "DeleteRoom" => self.delete_room(&read(body), double),
            "ListParticipants" => self.list_participants(&read(body)),
            "GetParticipant" => match self.participant(&read(body)) {
                Some(participant) => faults::protobuf(participant),
                None => faults::not_found("participant does not exist"),
            },
            "RemoveParticipant" => self.remove(&read(body), double),
            "MutePublishedTrack" => self.mute(&read(body)),
            "UpdateParticipant" => self.update(&read(body), double),
            "UpdateSubscriptions" => {
                let proto::UpdateSubscriptionsRequest { room, identity, .. } = read(body);
                match self.on_live_node(&room, &identity) {
                    Some(_) => faults::protobuf(&proto::UpdateSubscriptionsResponse {}),
                    None => faults::no_response(),
                }
            }
            "SendData" => match self.rooms.get(&read::<proto::SendDataRequest>(body).room) {
                Some(_) => faults::protobuf(&proto::SendDataResponse {}),
                None => faults::no_response(),
            },
            "StartRoomCompositeEgress" => self.start(EgressKind::RoomComposite(read(body)), double),
            "StartParticipantEgress" => self.start(EgressKind::Participant(read(body)), double),
            "StartTrackEgress" => self.start(EgressKind::Track(read(body)), double),
            "ListEgress" => self.list_egress(&read(body)),
            "StopEgress" => self.stop(&read(body)),
            "UpdateStream" => match self
                .egresses
                .get(&read::<proto::UpdateStreamRequest>(body).egress_id)
            {
                Some(info) => faults::protobuf(info),
                None => faults::not_found("egress does not exist"),
            },
            "CreateIngress" => self.create_ingress(read(body)),
            "ListIngress" => self.list_ingress(&read(body)),
            "DeleteIngress" => match self.delete_ingress(body, double) {
                Some(gone) => faults::protobuf(&gone),
                None => faults::not_found("ingress does not exist"),
            },
            _ => faults::twirp(404, "bad_route", "no handler for path"),
        }
    }

    /// Creates a room, or returns the live one.
    pub(crate) fn open(&mut self, name: &str, double: &Double) -> proto::Room {
        if let Some(room) = self.rooms.get(name) {
            return room.info.clone();
        }
        let info = proto::Room {
            sid: self.id("RM_"),
            name: name.to_owned(),
            empty_timeout: 300,
            departure_timeout: 20,
            creation_time: nanos() / 1_000_000_000,
            turn_password: "the room's TURN password".into(),
            ..Default::default()
        };
        self.rooms.insert(
            name.to_owned(),
            LiveRoom {
                info: info.clone(),
                ..LiveRoom::default()
            },
        );
        let event = proto::WebhookEvent {
            event: "room_started".into(),
            room: Some(info.clone()),
            ..Default::default()
        };
        self.queue(event, double);
        info
    }

    fn create_room(&mut self, request: &proto::CreateRoomRequest, double: &Double) -> Response {
        let fresh = !self.rooms.contains_key(&request.name);
        self.open(&request.name, double);
        let room = self.rooms.entry(request.name.clone()).or_default();
        if std::mem::take(&mut room.node_is_dead) {
            room.count();
        }
        if fresh {
            room.info.empty_timeout = request.empty_timeout;
            room.info.departure_timeout = request.departure_timeout;
            room.info.max_participants = request.max_participants;
        }
        faults::protobuf(&room.info)
    }

    fn list_rooms(&self, request: &proto::ListRoomsRequest) -> Response {
        let wanted =
            |room: &&LiveRoom| request.names.is_empty() || request.names.contains(&room.info.name);
        let rooms = self
            .rooms
            .values()
            .filter(wanted)
            .map(|room| room.info.clone())
            .collect();
        faults::protobuf(&proto::ListRoomsResponse { rooms })
    }

    fn delete_room(&mut self, request: &proto::DeleteRoomRequest, double: &Double) -> Response {
        if !self.rooms.contains_key(&request.room) {
            return faults::not_found("requested room does not exist");
        }
        if self
            .rooms
            .get(&request.room)
            .is_some_and(|room| room.node_is_dead)
        {
            return faults::no_response();
        }
        self.close(&request.room, double);
        faults::protobuf(&proto::DeleteRoomResponse {})
    }

    fn list_participants(&self, request: &proto::ListParticipantsRequest) -> Response {
        let room = self.rooms.get(&request.room);
        if self.settings.node_lists && room.is_none_or(|room| room.node_is_dead) {
            return faults::no_response();
        }
        let listed = |room: &LiveRoom| {
            let listed = room
                .participants
                .values()
                .filter(|participant| !room.unlisted.contains(&participant.identity));
            listed.cloned().collect()
        };
        let participants = room.map(listed);
        faults::protobuf(&proto::ListParticipantsResponse {
            participants: participants.unwrap_or_default(),
        })
    }

    fn participant(
        &self,
        named: &proto::RoomParticipantIdentity,
    ) -> Option<&proto::ParticipantInfo> {
        self.rooms
            .get(&named.room)?
            .participants
            .get(&named.identity)
    }

    /// Returns a participant whose node is alive.
    fn on_live_node(&mut self, room: &str, identity: &str) -> Option<&mut proto::ParticipantInfo> {
        let room = self.rooms.get_mut(room)?;
        room.participants
            .get_mut(identity)
            .filter(|_| !room.ghosts.contains(identity))
    }

    fn remove(&mut self, named: &proto::RoomParticipantIdentity, double: &Double) -> Response {
        if self.participant(named).is_none() {
            return faults::not_found("participant does not exist");
        }
        if self.on_live_node(&named.room, &named.identity).is_none() {
            return faults::no_response();
        }
        self.remove_participant(
            &named.room,
            &named.identity,
            proto::DisconnectReason::ParticipantRemoved,
            double,
        );
        faults::protobuf(&proto::RemoveParticipantResponse {})
    }

    fn mute(&mut self, request: &proto::MuteRoomTrackRequest) -> Response {
        let remote_unmute = self.settings.remote_unmute;
        let Some(participant) = self.on_live_node(&request.room, &request.identity) else {
            return faults::no_response();
        };
        if !request.muted && !remote_unmute {
            return faults::twirp(412, "failed_precondition", "remote unmute not enabled");
        }
        let track = participant
            .tracks
            .iter_mut()
            .find(|track| track.sid == request.track_sid);
        let track = track.map(|track| {
            track.muted = request.muted;
            track.clone()
        });
        faults::protobuf(&proto::MuteRoomTrackResponse { track })
    }

    fn update(&mut self, request: &proto::UpdateParticipantRequest, double: &Double) -> Response {
        let participant = self
            .rooms
            .get_mut(&request.room)
            .and_then(|room| room.participants.get_mut(&request.identity));
        let Some(participant) = participant else {
            return faults::not_found("participant does not exist");
        };
        for (name, value) in &request.attributes {
            match value.as_str() {
                "" => participant.attributes.remove(name),
                value => participant
                    .attributes
                    .insert(name.clone(), value.to_owned()),
            };
        }
        if let Some(permission) = &request.permission {
            participant.permission = Some(permission.clone());
            self.stop_forbidden(&request.room, &request.identity, permission, double);
        }
        let named = proto::RoomParticipantIdentity {
            room: request.room.clone(),
            identity: request.identity.clone(),
            ..Default::default()
        };
        self.participant(&named)
            .map_or_else(faults::no_response, faults::protobuf)
    }

    pub(crate) fn start(&mut self, request: EgressKind, double: &Double) -> Response {
        let room_name = match &request {
            EgressKind::RoomComposite(request) => request.room_name.clone(),
            EgressKind::Participant(request) => request.room_name.clone(),
            EgressKind::Track(request) => request.room_name.clone(),
            _ => String::new(),
        };
        if !self.rooms.contains_key(&room_name) {
            return faults::not_found("requested room does not exist");
        }
        let (egress_id, request) = (self.id("EG_"), Some(request));
        let info = proto::EgressInfo {
            egress_id,
            room_name,
            request,
            started_at: nanos(),
            ..Default::default()
        };
        self.egresses.insert(info.egress_id.clone(), info.clone());
        self.report_egress("egress_started", info.clone(), double);
        faults::protobuf(&info)
    }

    fn list_egress(&self, request: &proto::ListEgressRequest) -> Response {
        if !request.egress_id.is_empty() && !self.egresses.contains_key(&request.egress_id) {
            return faults::not_found("egress not found");
        }
        let running =
            |info: &proto::EgressInfo| info.status <= proto::EgressStatus::EgressEnding as i32;
        let wanted = self.egresses.values().filter(|info| {
            (request.egress_id.is_empty() || info.egress_id == request.egress_id)
                && (request.room_name.is_empty() || info.room_name == request.room_name)
                && (!request.active || running(info))
        });
        faults::protobuf(&proto::ListEgressResponse {
            items: wanted.cloned().collect(),
            next_page_token: None,
        })
    }

    fn stop(&mut self, request: &proto::StopEgressRequest) -> Response {
        let Some(info) = self.egresses.get_mut(&request.egress_id) else {
            return faults::not_found("egress does not exist");
        };
        if info.status > proto::EgressStatus::EgressActive as i32 {
            return faults::twirp(
                412,
                "failed_precondition",
                "egress with status EGRESS_COMPLETE cannot be stopped",
            );
        }
        info.status = proto::EgressStatus::EgressEnding as i32;
        faults::protobuf(info)
    }

    pub(crate) fn create_ingress(&mut self, request: proto::CreateIngressRequest) -> Response {
        let whip = request.input_type == proto::IngressInput::WhipInput as i32;
        let info = proto::IngressInfo {
            ingress_id: self.id("IN_"),
            stream_key: self.id("key"),
            url: if whip {
                "http://127.0.0.1:8080/w"
            } else {
                "rtmp://127.0.0.1:1935/live"
            }
            .into(),
            input_type: request.input_type,
            room_name: request.room_name,
            participant_identity: request.participant_identity,
            participant_name: request.participant_name,
            enable_transcoding: request.enable_transcoding,
            reusable: true,
            state: Some(proto::IngressState::default()),
            ..Default::default()
        };
        self.ingresses.insert(info.ingress_id.clone(), info.clone());
        faults::protobuf(&info)
    }

    fn list_ingress(&self, request: &proto::ListIngressRequest) -> Response {
        if !request.ingress_id.is_empty() && !self.ingresses.contains_key(&request.ingress_id) {
            return faults::not_found("ingress does not exist");
        }
        let wanted = self.ingresses.values().filter(|info| {
            (request.ingress_id.is_empty() || info.ingress_id == request.ingress_id)
                && (request.room_name.is_empty() || info.room_name == request.room_name)
        });
        faults::protobuf(&proto::ListIngressResponse {
            items: wanted.cloned().collect(),
            ..Default::default()
        })
    }
}
