//! `/files/recordings/{egress_id}`: the files of recordings on this machine, for backends and for those to whom they give a link.
//!
//! A request has an API key of the project, or is a *link*: the project, the time at which it expires, and their signature under a key
//! that only the servers of the deployment have ([`DerivedKeys`](super::derived_keys::DerivedKeys)). Nothing is stored of a link, so it
//! cannot be revoked before it expires.
//!
//! - [`link`]: links, made and checked.
//! - [`download`]: a file, and the response with it.

pub mod download;
pub mod link;

use std::sync::Arc;
use std::time::Duration;

use actix_files::NamedFile;
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::egress::{Egress, EgressDetail, EgressKind};
use conclave_model::filepath::FilePath;
use conclave_model::{EgressId, ErrorCode, Problem, ProjectId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::api::error::ApiError;
use super::api::input::FromQuery;
use super::api::spec::Method;
use super::frame::admission::{Admission, DOWNLOADS, Downloads};
use super::frame::credential;
use super::metrics::NO_OPERATION;
use super::resource::public_resource;
use super::state::AppState;
use link::{DEFAULT_LIFE, LinkQuery, checked_life};

/// When it is worth another try to begin a download.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What a request for a file has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credential {
    Key,
    Link,
}

/// Routes the files.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let file_state = Arc::clone(state);
    let file = move |request: HttpRequest| respond(Arc::clone(&file_state), request, file);
    let link_state = Arc::clone(state);
    let link = move |request: HttpRequest| respond(Arc::clone(&link_state), request, link);
    let fixed = &state.checks.fixed;
    config.service(public_resource(
        "/files/recordings/{egress_id}",
        Method::Get,
        web::get().to(file),
        fixed,
    ));
    config.service(public_resource(
        "/files/recordings/{egress_id}/link",
        Method::Get,
        web::get().to(link),
        fixed,
    ));
}

async fn respond(
    state: Arc<AppState>,
    request: HttpRequest,
    handle: impl AsyncFn(&Arc<AppState>, &HttpRequest) -> Result<HttpResponse, ApiError>,
) -> HttpResponse {
    let timed = state.metrics.time(NO_OPERATION);
    let response = handle(&state, &request)
        .await
        .unwrap_or_else(|error| error.to_http());
    timed.answered(response.status());
    response
}

fn egress_id(request: &HttpRequest) -> Result<EgressId, Problem> {
    request
        .match_info()
        .query("egress_id")
        .parse()
        .map_err(|_| EgressKind::Recording.not_found())
}

/// Responds with the file of a recording.
async fn file(state: &Arc<AppState>, request: &HttpRequest) -> Result<HttpResponse, ApiError> {
    let (credential, project, id) = authorize(state, request).await?;
    let Downloads {
        by_key,
        by_link,
        link_requests,
    } = &state.checks.downloads;
    let (admission, permits, kind) = match credential {
        Credential::Key => (&state.checks.admission, by_key, "with an API key"),
        Credential::Link => (link_requests, by_link, "by link"),
    };
    let (file, name) = find_in_turn(state, admission, &project, &id).await?;
    let Some(permit) = permits.take_free(&project) else {
        let most = DOWNLOADS.per_project;
        let message =
            format!("{most} downloads of the project {kind} are running, as many as may be");
        return Err(Problem::new(ErrorCode::RateLimited, message)
            .after(RETRY_AFTER)
            .into());
    };
    Ok(download::respond(request, file, &name, permit))
}

/// Returns what a request has shown, the project that it is for, and the recording.
async fn authorize(
    state: &AppState,
    request: &HttpRequest,
) -> Result<(Credential, ProjectId, EgressId), ApiError> {
    if request.query_string().is_empty() {
        let project = keyholder(state, request).await?;
        return Ok((Credential::Key, project, egress_id(request)?));
    }
    state.checks.limits.check_address(request)?;
    let id = egress_id(request)?;
    let link = LinkQuery::from_query(request.query_string())?;
    Ok((
        Credential::Link,
        link.check(&state.keys, &id, state.clock.now())?,
        id,
    ))
}

/// Returns the project of the API key that a request has.
async fn keyholder(state: &AppState, request: &HttpRequest) -> Result<ProjectId, ApiError> {
    let credential = credential::require_key(state, request).await?;
    state.checks.origins.check(request)?;
    state.checks.limits.check_key(&credential.prefix)?;
    Ok(credential.project_id.clone())
}

/// Finds the file of a recording when it is the project's turn.
async fn find_in_turn(
    state: &AppState,
    admission: &Arc<Admission>,
    project: &ProjectId,
    id: &EgressId,
) -> Result<(NamedFile, String), ApiError> {
    let admitted = admission.admit(Some(project.clone()))?;
    admitted
        .turn()
        .await?
        .handle(find(state, project, id))
        .await
}

/// Finds the file of a recording of the project, and its name.
async fn find(
    state: &AppState,
    project: &ProjectId,
    id: &EgressId,
) -> Result<(NamedFile, String), ApiError> {
    let recording = state
        .store
        .egresses()
        .get(project.clone(), EgressKind::Recording, id.clone())
        .await?;
    let path = path_of(&recording)?.clone();
    if let Some(at) = state
        .store
        .local_files()
        .removed_at(project.clone(), id.clone())
        .await?
    {
        return Err(without_file(format!(
            "its file was removed at {at}: recordings.retention"
        ))
        .into());
    }
    let file = download::open(&state.admin.recordings, project, &path).await?;
    let name = path
        .as_str()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    Ok((file, name))
}

/// Returns the path of a recording whose file is complete and stays on this machine.
fn path_of(recording: &Egress) -> Result<&FilePath, Problem> {
    let EgressDetail::Recording { filepath, .. } = &recording.detail else {
        return Err(EgressKind::Recording.not_found());
    };
    if !recording.status.is_final() {
        return Err(without_file(format!(
            "it is {}: its file is there once it has ended",
            recording.status
        )));
    }
    if let Some(destination) = &recording.destination {
        return Err(without_file(format!(
            "its file is at the destination {}",
            destination.name
        )));
    }
    Ok(filepath)
}

/// 404: the recording has no file on this machine.
fn without_file(reason: String) -> Problem {
    Problem::new(ErrorCode::RecordingNotFound, reason)
}

/// How long a link is valid.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct LifeQuery {
    /// In seconds
    expires_in_seconds: Option<u32>,
}

#[derive(Serialize)]
struct LinkJson {
    /// Behind the URL of the API.
    path: String,
    expires_at: Timestamp,
}

/// Responds with a link to the file of a recording, which has to exist.
async fn link(state: &Arc<AppState>, request: &HttpRequest) -> Result<HttpResponse, ApiError> {
    let project = keyholder(state, request).await?;
    let id = egress_id(request)?;
    let LifeQuery { expires_in_seconds } = LifeQuery::from_query(request.query_string())?;
    let life =
        expires_in_seconds.map_or(DEFAULT_LIFE, |seconds| Duration::from_secs(seconds.into()));
    let life =
        checked_life(life).map_err(|message| Problem::invalid("expires_in_seconds", message))?;
    find_in_turn(state, &state.checks.admission, &project, &id).await?;
    let (path, expires_at) = link::make(&state.keys, &project, &id, state.clock.now(), life);
    Ok(HttpResponse::Ok().json(LinkJson { path, expires_at }))
}
