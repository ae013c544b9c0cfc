//! A project's webhook endpoints. Each one reads its own queue, so it is rebuilt without its
//! record.

use std::sync::Arc;

use conclave_model::EndpointId;

use super::context::ProjectContext;
use crate::children::{Child, ChildSet, RestartCause};
use crate::info::ActorKind;
use crate::webhook_endpoint::{WebhookEndpointActor, WebhookEndpointMsg, purge_deleted};

/// A project's webhook endpoints.
pub(super) struct WebhookEndpoints {
    children: ChildSet<EndpointId, WebhookEndpointMsg>,
}

impl WebhookEndpoints {
    pub fn new(project: &ProjectContext) -> Self {
        Self {
            children: project.children(ActorKind::WebhookEndpoint, "webhook"),
        }
    }

    /// Counts the endpoints.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Spawns an endpoint's actor, for the first time or again.
    pub async fn spawn(&mut self, project: &mut ProjectContext, id: EndpointId) {
        let info = self.children.info(&id);
        let actor = WebhookEndpointActor {
            context: Arc::clone(&project.shared),
            info: Arc::clone(&info),
            project: project.id.clone(),
            id,
        };
        project.spawn(&mut self.children, id, info, actor, ()).await;
    }

    /// Forwards a message to an endpoint. If it has no actor, one is spawned, which reads its queue
    /// by itself.
    pub async fn forward(
        &mut self,
        project: &mut ProjectContext,
        id: EndpointId,
        message: WebhookEndpointMsg,
    ) {
        if !self.children.contains(&id) {
            self.spawn(project, id).await;
            // A new actor finds queued deliveries in the table.
            if matches!(message, WebhookEndpointMsg::Queued) {
                return;
            }
        }
        self.children.send(&id, message);
    }

    /// Stops the actor of an endpoint that was just deleted, and deletes its rows.
    pub fn deleted(&mut self, project: &ProjectContext, id: EndpointId) {
        self.forget(project, id);
        tokio::spawn(purge_deleted(Arc::clone(&project.shared)));
    }

    /// Stops the actor of a deleted endpoint.
    pub fn forget(&mut self, project: &ProjectContext, id: EndpointId) {
        let endpoint = self.children.remove(&project.shared, &id);
        if let Some(mailbox) = endpoint.as_ref().and_then(Child::mailbox) {
            mailbox.actor().stop(Some("deleted".into()));
        }
    }

    /// Schedules a failed endpoint to be rebuilt.
    pub fn failed(&mut self, project: &ProjectContext, id: EndpointId, reason: &str) {
        project.restore_later(&mut self.children, &id, RestartCause::Actor(reason));
    }

    /// Rebuilds an endpoint's actor, unless the endpoint was deleted meanwhile.
    pub async fn restore(&mut self, project: &mut ProjectContext, id: EndpointId) {
        if self.children.contains(&id) {
            self.spawn(project, id).await;
        }
    }
}
