//! Room for real events: the API creates it, and the sandbox simulates its participants.

use std::time::{Duration, Instant};

use conclave_model::Secret;
use conclave_model::event::EventType;
use conclave_model::secret::{UNAMBIGUOUS, random_text};
use conclave_outbound::http::Method;
use serde_json::{Value, json};

use crate::cli::admin_client::{AdminClient, CallError, JsonClient, TIMEOUT};
use crate::cli::follower::{FollowedEvent, Follower};
use crate::error::CliError;

/// The rooms' template, created once.
const TEMPLATE: &str = "conclave-trigger";
/// The participants' roles. Only `limited` has a bitrate limit.
const LIMITED: &str = "limited";
const OTHER: &str = "other";
/// Limit, in kilobits per second.
const LIMIT_KBPS: u32 = 500;
/// Destination of a simulated broadcast. Nothing connects to it, but other than public addresses are refused.
const BROADCAST_URL: &str = "rtmp://8.8.8.8/live/example";
/// Time limit for an event. A bitrate has to stay above its limit for five seconds.
const LONGEST: Duration = Duration::from_secs(60);
/// Length of a room name's random part.
const NAME_CHARACTERS: usize = 8;
/// Maximum number of templates to search for the command's own.
const TEMPLATES: u32 = 200;

/// A server's API, with a key of the project.
pub(super) struct Api {
    client: JsonClient,
    url: String,
    key: Secret,
}

impl Api {
    pub(super) fn new(url: String, key: Secret) -> Self {
        Self {
            client: JsonClient::new(TIMEOUT),
            url,
            key,
        }
    }

    fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, CallError> {
        self.client.call(
            method,
            &format!("{}/v1{path}", self.url),
            Some(&self.key),
            body,
        )
    }

    /// Returns the id of the command's template, which is created if missing.
    fn template(&self) -> Result<Value, CallError> {
        let listed = self.call(Method::GET, &format!("/templates?limit={TEMPLATES}"), None)?;
        let mut templates = listed["templates"].as_array().into_iter().flatten();
        // Reused, so that repeated runs do not fill the list of templates.
        if let Some(known) = templates.find(|template| template["name"] == TEMPLATE) {
            return Ok(known["id"].clone());
        }
        // Two roles: a limited one to exceed, and another to change to.
        let roles = json!({LIMITED: {"publish": {"max_kbps": LIMIT_KBPS}}, OTHER: {}});
        let created = self.call(
            Method::POST,
            "/templates",
            Some(&json!({"name": TEMPLATE, "roles": roles})),
        )?;
        Ok(created["id"].clone())
    }
}

/// The command's room.
pub(super) struct TriggerRoom<'a> {
    api: Api,
    server: &'a AdminClient,
    follower: Follower<'a>,
    name: String,
    /// Events in the room so far.
    happened: Vec<FollowedEvent>,
}

impl<'a> TriggerRoom<'a> {
    /// Creates a room. `follower` must not have read any of its events.
    pub(super) fn create(
        api: Api,
        server: &'a AdminClient,
        follower: Follower<'a>,
    ) -> Result<Self, CallError> {
        // Random, since a project can use a room name only once.
        let name = format!("trigger-{}", random_text(NAME_CHARACTERS, UNAMBIGUOUS));
        // The metadata shows operators where the room comes from.
        let body = json!({"name": name, "template_id": api.template()?, "metadata": {"created_by": TEMPLATE}});
        api.call(Method::POST, "/rooms", Some(&body))?;
        Ok(Self {
            api,
            server,
            follower,
            name,
            happened: Vec::new(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Causes an event, waits for it and returns its body.
    pub(super) fn trigger(&mut self, event: EventType) -> Result<String, CliError> {
        self.cause(event)?;
        self.wait_for(event)
    }

    /// Ends the room.
    pub(super) fn end(&self) -> Result<(), CallError> {
        match self.call_room(Method::DELETE, "", None) {
            // The event may have ended it already.
            Err(CallError::Refused {
                status: 404 | 409, ..
            }) => Ok(()),
            ended => ended.map(drop),
        }
    }

    fn cause(&mut self, event: EventType) -> Result<(), CliError> {
        use EventType as E;
        match event {
            E::RoomFinished => self.end()?,
            // The first join starts the room.
            E::RoomStarted | E::ParticipantJoined => drop(self.join()?),
            E::ParticipantLeft => self.leave(true)?,
            E::ParticipantConnectionAborted => self.leave(false)?,
            E::ParticipantRoleChanged => self.change_role()?,
            E::ParticipantPublishLimitExceeded => drop(self.exceed_limit()?),
            E::ParticipantPublishLimitCleared => self.clear_limit()?,
            E::TrackPublished => drop(self.publish(&self.join()?)?),
            E::TrackUnpublished => self.unpublish()?,
            E::RecordingStarted => drop(self.record()?),
            // The sandbox moves an egress to its next status only on request.
            E::RecordingUpdated => self.drive(&self.record()?, &["active"])?,
            E::RecordingEnded => self.drive(&self.record()?, &["active", "complete"])?,
            E::RecordingFailed => self.drive(&self.record()?, &["active", "failed"])?,
            E::BroadcastStarted => drop(self.broadcast()?),
            E::BroadcastUpdated => self.drive(&self.broadcast()?, &["active"])?,
            E::BroadcastEnded => self.drive(&self.broadcast()?, &["active", "complete"])?,
            E::BroadcastFailed => self.drive(&self.broadcast()?, &["active", "failed"])?,
            E::IngressStarted => drop(self.connect_encoder()?),
            E::IngressEnded => {
                // An encoder has to be connected before it can disconnect.
                let stream_key = self.connect_encoder()?;
                self.sandbox(
                    Method::POST,
                    &format!("/ingress/{stream_key}/disconnect"),
                    None,
                )?;
            }
        }
        Ok(())
    }

    /// Waits until an event has happened in the room, and returns its body.
    fn wait_for(&mut self, event: EventType) -> Result<String, CliError> {
        let started = Instant::now();
        loop {
            if let Some(found) = self
                .happened
                .iter()
                .find(|happened| happened.event_type == event.as_str())
            {
                return Ok(found.payload.clone());
            }
            if started.elapsed() > LONGEST {
                return Err(CliError::failed(format!(
                    "{event} did not happen within {} s",
                    LONGEST.as_secs()
                )));
            }
            // The server holds the request until there are events, so this loop needs no pause.
            let page = self.follower.read()?;
            self.happened.extend(
                page.events
                    .into_iter()
                    .filter(|event| event.room == self.name),
            );
        }
    }

    fn call_room(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CallError> {
        self.api
            .call(method, &format!("/rooms/{}{path}", self.name), body)
    }

    fn sandbox(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CallError> {
        self.server
            .call(method, &format!("/sandbox{path}"), body)
            .map_err(|error| match error {
                CallError::Refused {
                    status: 404,
                    message,
                    // The route exists only with `media.sandbox`.
                } if message.starts_with("no such route") => {
                    let message = "the server has no sandbox: media.sandbox is off".to_owned();
                    CallError::Refused {
                        status: 404,
                        message,
                    }
                }
                error => error,
            })
    }

    /// Makes a participant join, and returns its path in the sandbox.
    fn join(&self) -> Result<String, CallError> {
        let token = json!({"room": self.name, "identity": "alice", "role": LIMITED});
        let token = self.api.call(Method::POST, "/tokens", Some(&token))?;
        let joined = self.sandbox(
            Method::POST,
            "/join",
            Some(&json!({"token": token["token"]})),
        )?;
        Ok(format!("/participants/{}", text(&joined, "sid")))
    }

    fn leave(&self, clean: bool) -> Result<(), CallError> {
        let participant = self.join()?;
        self.sandbox(
            Method::POST,
            &format!("{participant}/leave"),
            Some(&json!({"clean": clean})),
        )
        .map(drop)
    }

    fn change_role(&self) -> Result<(), CallError> {
        self.join()?;
        self.call_room(
            Method::POST,
            "/participants/alice/role",
            Some(&json!({"role": OTHER})),
        )
        .map(drop)
    }

    /// Makes a participant publish a track, and returns the track's path in the sandbox.
    fn publish(&self, participant: &str) -> Result<String, CallError> {
        let track = json!({"kind": "video", "source": "camera"});
        let track = self.sandbox(Method::POST, &format!("{participant}/tracks"), Some(&track))?;
        Ok(format!("{participant}/tracks/{}", text(&track, "sid")))
    }

    fn unpublish(&self) -> Result<(), CallError> {
        let track = self.publish(&self.join()?)?;
        self.sandbox(Method::DELETE, &track, None).map(drop)
    }

    /// Makes a participant publish more than its role allows, and returns its path in the sandbox.
    fn exceed_limit(&self) -> Result<String, CallError> {
        let participant = self.join()?;
        self.publish(&participant)?;
        // Far above the limit, so that no tolerance matters.
        self.set_bitrate(&participant, 2 * LIMIT_KBPS)?;
        Ok(participant)
    }

    fn clear_limit(&mut self) -> Result<(), CliError> {
        let participant = self.exceed_limit()?;
        // The limit is cleared only after it was exceeded for a while.
        self.wait_for(EventType::ParticipantPublishLimitExceeded)?;
        Ok(self.set_bitrate(&participant, LIMIT_KBPS / 2)?)
    }

    fn set_bitrate(&self, participant: &str, kbps: u32) -> Result<(), CallError> {
        self.sandbox(
            Method::POST,
            &format!("{participant}/bitrate"),
            Some(&json!({"kbps": kbps})),
        )
        .map(drop)
    }

    /// Starts a recording and returns its egress id.
    fn record(&self) -> Result<String, CallError> {
        let started = self.call_room(
            Method::POST,
            "/recordings",
            Some(&json!({"type": "room_composite"})),
        )?;
        Ok(text(&started, "egress_id"))
    }

    /// Starts a broadcast and returns its egress id.
    fn broadcast(&self) -> Result<String, CallError> {
        let started = self.call_room(
            Method::POST,
            "/broadcasts",
            Some(&json!({"urls": [BROADCAST_URL]})),
        )?;
        Ok(text(&started, "egress_id"))
    }

    /// Puts a recording or a broadcast into each of these statuses, one after another.
    fn drive(&self, egress: &str, statuses: &[&str]) -> Result<(), CallError> {
        let to = |status: &&str| {
            self.sandbox(
                Method::POST,
                &format!("/egress/{egress}"),
                Some(&json!({"status": status})),
            )
        };
        statuses.iter().try_for_each(|status| to(status).map(drop))
    }

    /// Connects an encoder, and returns its stream key.
    fn connect_encoder(&self) -> Result<String, CallError> {
        let endpoint = json!({"input_type": "rtmp", "participant_identity": "encoder"});
        let stream_key = text(
            &self.call_room(Method::POST, "/ingress", Some(&endpoint))?,
            "stream_key",
        );
        self.sandbox(
            Method::POST,
            &format!("/ingress/{stream_key}/connect"),
            None,
        )?;
        Ok(stream_key)
    }
}

fn text(json: &Value, field: &str) -> String {
    json[field].as_str().unwrap_or_default().to_owned()
}
