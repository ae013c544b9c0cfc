//! The rows of deleted webhook endpoints are deleted in small steps, between which other writes run.

use std::sync::Arc;

use crate::context::ActorContext;

/// Deletes the pending deliveries of deleted webhook endpoints, then the endpoints. What is left when the store does not
/// answer or the server stops is deleted by the next housekeeping.
pub(crate) async fn purge_deleted(context: Arc<ActorContext>) {
    loop {
        match context.store.purge_deleted_endpoint().await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                log::warn!("the deliveries of deleted webhook endpoints wait for the store: {error}");
                break;
            }
        }
    }
}
