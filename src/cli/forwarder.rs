//! Posts events to a receiver as the server would: the same headers, both signatures.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::address::AddressFilter;
use conclave_model::webhook::{AttemptOutcome, WebhookEndpoint};
use conclave_model::{DeliveryId, EndpointId, ProjectId, Secret, Timestamp};
use conclave_outbound::TrustedRoots;
use conclave_outbound::webhook::{Delivery, Sender};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::admin_client::checked_url;
use crate::error::CliError;

/// Posts the events of a project to one url.
pub(super) struct Forwarder {
    sender: Sender,
    endpoint: Arc<WebhookEndpoint>,
}

impl Forwarder {
    /// Returns a forwarder to the url that `argument` has. `timeout` covers a whole post.
    pub(super) fn new(
        argument: &'static str,
        url: &str,
        project: &ProjectId,
        secret: Secret,
        timeout: Duration,
    ) -> Result<Self, CliError> {
        checked_url(argument, url)?;
        let endpoint = WebhookEndpoint {
            id: EndpointId::new(),
            project_id: project.clone(),
            url: url.to_owned(),
            secret,
            active: true,
            created_at: now(),
        };
        // Whoever runs the command chooses the url, so no address is refused.
        let any = vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
        Ok(Self {
            sender: Sender::new(AddressFilter::new(any), timeout, &TrustedRoots::default()),
            endpoint: Arc::new(endpoint),
        })
    }

    /// Posts an event once. Blocks for the timeout at most.
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

/// Returns the id of the delivery of an event, which is the same each time that the event is forwarded.
pub(super) fn delivery_id(project: &ProjectId, event: i64) -> DeliveryId {
    let hash = blake3::hash(format!("{project} {event}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    DeliveryId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// Returns what came back, in a word or two.
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
    use super::*;

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
