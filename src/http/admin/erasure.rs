//! `DELETE /debug/projects/{project}/identities/{identity}`: the operation `erase_identity`, for `conclave erase`, which has no API key.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::{ErrorCode, Identity, Problem};

use super::events::project;
use crate::http::api::error::ApiError;
use crate::http::api::ext::identities::ErasedIdentity;
use crate::http::api::spec::Method;
use crate::http::erasure;
use crate::http::resource::single_method_resource;
use crate::http::state::AppState;

/// Routes the endpoint.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let state = Arc::clone(state);
    let erase = web::delete().to(move |request: HttpRequest| erase(Arc::clone(&state), request));
    config.service(single_method_resource(
        "/debug/projects/{project}/identities/{identity}",
        Method::Delete,
        erase,
    ));
}

async fn erase(state: Arc<AppState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let project = project(&request)?;
    let identity: Identity = request
        .match_info()
        .query("identity")
        .parse()
        .map_err(|error| Problem::invalid("identity", format!("{error}")))?;
    let not_found = || Problem::new(ErrorCode::NotFound, "no project by that id");
    let found = state.store.projects().get(project.clone()).await?;
    found.ok_or_else(not_found)?;
    // In a task of its own, because actix drops a handler's future when the client disconnects.
    let erased =
        actix_web::rt::spawn(async move { erasure::erase(&state, project, identity).await });
    let erased = erased.await.map_err(ApiError::internal)??;
    Ok(HttpResponse::Ok().json(ErasedIdentity::try_from(erased)?))
}
