//! Follows the events of a project from a position on. What it has read it does not read again, also if the server restarts.

use conclave_model::{ProjectId, Secret};
use conclave_outbound::http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::admin_client::AdminClient;
use super::json_client::CallError;

/// An event in an answer of `/debug/projects/{id}/events`.
#[derive(Debug, Deserialize)]
pub(super) struct FollowedEvent {
    /// Its position among the events of the project.
    pub id: i64,
    #[serde(rename = "type")]
    pub event_type: String,
    pub room: String,
    /// The exact body of a webhook delivery.
    pub payload: String,
}

/// The events after a position.
#[derive(Debug, Deserialize)]
pub(super) struct EventsPage {
    pub events: Vec<FollowedEvent>,
    pub position: i64,
    #[serde(default)]
    pub gap: Option<Gap>,
}

/// Why events are missing before those of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Gap {
    /// They are older than `webhooks.retention`.
    Deleted,
    /// The server's records are older than the position.
    Restored,
}

#[derive(Deserialize)]
struct SecretJson {
    secret: Box<str>,
}

/// Reads the events of a project.
#[derive(Debug)]
pub(super) struct Follower<'a> {
    server: &'a AdminClient,
    path: String,
    position: i64,
}

impl<'a> Follower<'a> {
    /// Follows the events after `position`, or those from now on.
    pub(super) fn new(server: &'a AdminClient, project: &ProjectId, position: Option<u32>) -> Result<Self, CallError> {
        let path = format!("/debug/projects/{project}/events");
        let position = match position {
            Some(position) => position.into(),
            None => read::<EventsPage>(server, &path)?.position,
        };
        Ok(Self { server, path, position })
    }

    /// The position of the last event that was read.
    pub(super) const fn position(&self) -> i64 {
        self.position
    }

    /// Reads the next events. The server answers after some seconds without any.
    pub(super) fn read(&mut self) -> Result<EventsPage, CallError> {
        let page: EventsPage = read(self.server, &format!("{}?after={}", self.path, self.position))?;
        self.position = page.position;
        Ok(page)
    }
}

/// Reads the secret with which the events of a project are signed where they are forwarded.
pub(super) fn signing_secret(server: &AdminClient, project: &ProjectId) -> Result<Secret, CallError> {
    let SecretJson { secret } = read(server, &format!("/debug/projects/{project}/signing-secret"))?;
    Ok(Secret::new(secret))
}

fn read<T: DeserializeOwned>(server: &AdminClient, path: &str) -> Result<T, CallError> {
    let json: Value = server.call(Method::GET, path, None)?;
    serde_json::from_value(json).map_err(|_| CallError::Refused {
        status: 200,
        message: "the server is of another version: its events cannot be read".to_owned(),
    })
}
