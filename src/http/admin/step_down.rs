//! `POST /step-down`: the active server gives up the lease, and comes back as a standby.

use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use conclave_db::lease::Role;
use serde_json::json;
use tokio::sync::Notify;

use crate::http::api::spec::Method;
use crate::http::lease::LeaseView;
use crate::http::resource::single_method_resource;
use crate::http::state::AppState;

/// Time in which the answer is sent. Then the listener stops.
const ANSWER_TIME: Duration = Duration::from_millis(100);
/// Time in which a server is looked for that could take over: it may have only just started.
const SEARCH: Duration = Duration::from_secs(3);

/// Adds the path, if servers share the database.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let Some(lease) = state.lease.clone() else {
        return;
    };
    let asked = Arc::clone(&state.admin.step_down);
    let step_down = web::post().to(move || {
        let (lease, asked) = (Arc::clone(&lease), Arc::clone(&asked));
        async move { step_down(&lease, asked).await.unwrap_or_else(refuse) }
    });
    config.service(single_method_resource(
        "/step-down",
        Method::Post,
        step_down,
    ));
}

async fn step_down(lease: &LeaseView, asked: Arc<Notify>) -> Result<HttpResponse, &'static str> {
    if lease.role() != Role::Active {
        return Err("this server is not the active one");
    }
    let standbys = lease.successors(SEARCH).await;
    if standbys.is_empty() {
        return Err("no other server could take over");
    }
    tokio::spawn(async move {
        tokio::time::sleep(ANSWER_TIME).await;
        asked.notify_one();
    });
    log::info!(caller = "operator"; "this server steps down");
    Ok(HttpResponse::Accepted().json(json!({"stepping_down": true, "standbys": standbys})))
}

/// 409, with the reason.
pub(super) fn refuse(reason: &str) -> HttpResponse {
    HttpResponse::Conflict().json(json!({"stepping_down": false, "reason": reason}))
}
