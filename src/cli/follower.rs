//! Events for `conclave listen` and `conclave trigger`. [`Follower`] reads a project's events from a position on. It reads each event once,
//! also if the server restarts. [`Forwarder`] posts them to a receiver as the server would: with the same headers and both signatures.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::address::AddressFilter;
use conclave_model::webhook::{AttemptOutcome, WebhookEndpoint};
use conclave_model::{DeliveryId, EndpointId, ProjectId, Secret, Timestamp};
use conclave_outbound::TrustedRoots;
use conclave_outbound::http::Method;
use conclave_outbound::webhook::{Delivery, DeliverySender};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::admin_client::{AdminClient, CallError, checked_url};
use crate::error::CliError;

/// Event in a response of `/debug/projects/{id}/events`.
#[derive(Debug, Deserialize)]
pub(super) struct FollowedEvent {
    /// Position among the project's events.
    pub id: i64,
    #[serde(rename = "type")]
    pub event_type: String,
    pub room: String,
    /// Exact body of a webhook delivery.
    pub payload: String,
}

/// Events after a position.
#[derive(Debug, Deserialize)]
pub(super) struct EventsPage {
    pub events: Vec<FollowedEvent>,
    pub position: i64,
    #[serde(default)]
    pub gap: Option<Gap>,
}

/// Reason for missing events before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Gap {
    /// The events are older than `events.retention`.
    Deleted,
    /// The server's records are older than the position.
    Restored,
}

#[derive(Deserialize)]
struct SecretJson {
    secret: Box<str>,
}

/// Where a [`Follower`] starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartPoint {
    /// With the next event.
    Now,
    /// After this position.
    After(i64),
    /// With the first event that was recorded at this time or later.
    Since(Timestamp),
}

/// Reads a project's events.
#[derive(Debug)]
pub(super) struct Follower<'a> {
    server: &'a AdminClient,
    path: String,
    position: i64,
    /// Whether the last request failed because the server was unavailable.
    is_unavailable: bool,
}

impl<'a> Follower<'a> {
    /// Follows the events from a point on.
    pub(super) fn new(
        server: &'a AdminClient,
        project: &ProjectId,
        start: StartPoint,
    ) -> Result<Self, CallError> {
        let path = format!("/debug/projects/{project}/events");
        let position = match start {
            StartPoint::Now => newest(server, &path)?,
            StartPoint::After(position) => position,
            StartPoint::Since(time) => {
                read::<EventsPage>(server, &format!("{path}?since={time}"))?.position
            }
        };
        Ok(Self {
            server,
            path,
            position,
            is_unavailable: false,
        })
    }

    /// Returns the last event's position.
    pub(super) const fn position(&self) -> i64 {
        self.position
    }

    /// Reads the next events. The server holds the request for some seconds if there are none. After an outage, this sends a request that
    /// the server does not hold, so that its return is noticed at once; the page has no events then.
    pub(super) fn read(&mut self) -> Result<EventsPage, CallError> {
        if self.is_unavailable {
            // This request has no `after`, so the server does not hold it.
            newest(self.server, &self.path)?;
            self.is_unavailable = false;
            return Ok(EventsPage {
                events: Vec::new(),
                position: self.position,
                gap: None,
            });
        }
        let page = read::<EventsPage>(
            self.server,
            &format!("{}?after={}", self.path, self.position),
        );
        let page = page.inspect_err(|error| {
            self.is_unavailable = matches!(error, CallError::Unavailable(_));
        })?;
        // Not the last event's number: the page may be empty, or its events deleted.
        self.position = page.position;
        Ok(page)
    }
}

/// Reads the newest event's position.
fn newest(server: &AdminClient, path: &str) -> Result<i64, CallError> {
    Ok(read::<EventsPage>(server, path)?.position)
}

/// Reads the secret that signs a project's forwarded events.
pub(super) fn signing_secret(
    server: &AdminClient,
    project: &ProjectId,
) -> Result<Secret, CallError> {
    let SecretJson { secret } = read(server, &format!("/debug/projects/{project}/signing-secret"))?;
    Ok(Secret::new(secret))
}

fn read<T: DeserializeOwned>(server: &AdminClient, path: &str) -> Result<T, CallError> {
    let json: Value = server.call(Method::GET, path, None)?;
    // Not worth a retry: the server's format will not change.
    serde_json::from_value(json).map_err(|_| CallError::Refused {
        status: 200,
        message: "the server is of another version: its events cannot be read".to_owned(),
    })
}

/// Posts a project's events to one URL.
pub(super) struct Forwarder {
    sender: DeliverySender,
    endpoint: Arc<WebhookEndpoint>,
}

impl Forwarder {
    /// Creates a forwarder to an argument's URL. `timeout` limits a whole post.
    pub(super) fn new(
        argument: &'static str,
        url: &str,
        project: &ProjectId,
        secret: Secret,
        timeout: Duration,
    ) -> Result<Self, CliError> {
        checked_url(argument, url)?;
        let endpoint = WebhookEndpoint::new(
            // Not a record: nothing on the server knows this endpoint.
            EndpointId::new(),
            project.clone(),
            url.to_owned(),
            secret,
            now(),
        );
        // The URL comes from the command's user, so no address is refused.
        let any = vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
        Ok(Self {
            sender: DeliverySender::new(AddressFilter::new(any), timeout, &TrustedRoots::default()),
            endpoint: Arc::new(endpoint),
        })
    }

    /// Posts an event once. Blocks for at most the timeout.
    pub(super) fn post(&self, id: DeliveryId, event_type: &str, payload: &str) -> AttemptOutcome {
        self.sender.post(&Delivery {
            endpoint: Arc::clone(&self.endpoint),
            id,
            event_type: event_type.to_owned(),
            payload: payload.into(),
            at: now(),
        })
    }
}

/// Returns an event's delivery id. It is the same each time the event is forwarded, so receivers can detect duplicates.
pub(super) fn delivery_id(project: &ProjectId, event: i64) -> DeliveryId {
    // Both, since event numbers are per project.
    let hash = blake3::hash(format!("{project} {event}").as_bytes());
    let mut bytes = [0; 16];
    // A UUID, as the server's own delivery ids are.
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    DeliveryId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// Returns the response in a word or two.
pub(super) fn shown(outcome: &AttemptOutcome) -> String {
    match (outcome.response_status, &outcome.error) {
        (Some(status), _) => status.to_string(),
        (None, error) => error.clone().unwrap_or_default(),
    }
}

fn now() -> Timestamp {
    conclave_model::Clock::system().now()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use test_http_server::{Response, serve};

    use super::super::admin_client::TIMEOUT;
    use super::*;
    use crate::config::{Config, Mode};

    #[test]
    fn a_server_that_was_away_is_first_asked_for_what_it_answers_at_once_and_no_event_is_skipped() {
        let (asked, targets) = channel();
        let away = Arc::new(AtomicBool::new(true));
        let address = serve(move |request, mut stream| {
            let answer = Response::new(200).body(r#"{"events": [], "position": 7}"#);
            // The first connection is closed without a response.
            asked.send(request.target).unwrap();
            if !away.swap(false, Ordering::SeqCst) {
                answer.send(&mut stream).unwrap();
            }
        });
        let server = AdminClient::at(address, &Config::defaults(Mode::Dev), TIMEOUT);
        let project = "prj_0123456789ab".parse().unwrap();
        let mut follower = Follower::new(&server, &project, StartPoint::After(5)).unwrap();
        assert!(matches!(follower.read(), Err(CallError::Unavailable(_))));
        assert_eq!(
            (follower.read().unwrap().position, follower.position()),
            (5, 5)
        );
        assert_eq!(
            (follower.read().unwrap().position, follower.position()),
            (7, 7)
        );
        let path = "/debug/projects/prj_0123456789ab/events";
        let expected = [
            format!("{path}?after=5"),
            path.to_owned(),
            format!("{path}?after=5"),
        ];
        assert_eq!(targets.try_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_event_has_one_id_however_often_it_is_forwarded() {
        let (project, other) = (ProjectId::new(), ProjectId::new());
        let id = delivery_id(&project, 7);
        assert_eq!(delivery_id(&project, 7), id);
        assert_ne!(delivery_id(&project, 8), id);
        assert_ne!(delivery_id(&other, 7), id);
        assert_eq!(id.to_string().parse::<DeliveryId>().unwrap(), id);
    }
}
