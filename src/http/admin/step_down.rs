//! `POST /step-down`: the active server gives up the lease, and comes back as a standby.

use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use conclave_db::lease::Role;
use serde_json::json;

use crate::http::lease::LeaseView;
use crate::http::resource::single_method_resource;
use crate::http::spec::Method;
use crate::http::state::AppState;

/// Time in which the answer is sent. Then the listener stops.
const ANSWER_TIME: Duration = Duration::from_millis(100);

/// Adds the path, if servers share the database.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let Some(lease) = state.lease.clone() else { return };
    let asked = Arc::clone(&state.admin.step_down);
    let step_down = web::post().to(move || {
        let response = match successors(&lease) {
            Ok(standbys) => {
                let asked = Arc::clone(&asked);
                tokio::spawn(async move {
                    tokio::time::sleep(ANSWER_TIME).await;
                    asked.notify_one();
                });
                log::info!(caller = "operator"; "this server steps down");
                HttpResponse::Accepted().json(json!({"stepping_down": true, "standbys": standbys}))
            }
            Err(reason) => refuse(reason),
        };
        async move { response }
    });
    config.service(single_method_resource("/step-down", Method::Post, step_down));
}

/// Returns the servers that can take over.
fn successors(lease: &LeaseView) -> Result<Vec<String>, &'static str> {
    if lease.role() != Role::Active {
        return Err("this server is not the active one");
    }
    let cluster = lease.cluster();
    let standbys = cluster.iter().flat_map(|cluster| &cluster.nodes).filter(|node| node.role == Role::Standby);
    let standbys: Vec<_> = standbys.map(|node| node.info.url.clone()).collect();
    if standbys.is_empty() { Err("no other server could take over") } else { Ok(standbys) }
}

/// 409, with the reason.
pub(super) fn refuse(reason: &str) -> HttpResponse {
    HttpResponse::Conflict().json(json!({"stepping_down": false, "reason": reason}))
}
