//! `/files/recordings/{egress_id}`: recording files on this machine, for backends and for recipients of a link.
//!
//! A request has the project's API key, or is a *link*: project, expiry, and their signature under a key that only the deployment's
//! servers have ([`DerivedKeys`](super::derived_keys::DerivedKeys)). Links are not stored, so they cannot be revoked before they
//! expire.
//!
//! - [`link`]: creating and checking links.
//! - [`download`]: opening a file, and the response.
//! - [`removal`]: removing a file.

pub mod download;
pub mod link;
pub mod removal;

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

/// `Retry-After` if too many downloads are running.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Credential in a file request.
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
        // Counted under one label: file requests are no operation of the description.
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

/// Responds with a recording's file.
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
    let (file, name) = find_admitted(state, admission, &project, &id).await?;
    // After the file was found, so that only a real download takes a permit. Not queued: a download can last for hours.
    let Some(permit) = permits.take_free(&project) else {
        let most = DOWNLOADS.per_project;
        let message = format!("at most {most} downloads {kind} can run per project");
        return Err(Problem::new(ErrorCode::RateLimited, message)
            .after(RETRY_AFTER)
            .into());
    };
    Ok(download::respond(request, file, &name, permit))
}

/// Returns a request's credential, its project, and the recording's id.
async fn authorize(
    state: &AppState,
    request: &HttpRequest,
) -> Result<(Credential, ProjectId, EgressId), ApiError> {
    // A query is a link, as requests with a key have none. A broken link is therefore a 400, not a missing key.
    if request.query_string().is_empty() {
        let project = require_project_key(state, request).await?;
        return Ok((Credential::Key, project, egress_id(request)?));
    }
    // By address: a link's project is known only after its signature was checked.
    state.checks.limits.check_address(request)?;
    let id = egress_id(request)?;
    let link = LinkQuery::from_query(request.query_string())?;
    Ok((
        Credential::Link,
        link.check(&state.keys, &id, state.clock.now())?,
        id,
    ))
}

/// Returns the project that a request's API key belongs to.
async fn require_project_key(
    state: &AppState,
    request: &HttpRequest,
) -> Result<ProjectId, ApiError> {
    let credential = credential::require_key(state, request).await?;
    // As in the frame: a key must not be used by another origin's page (S-73).
    state.checks.origins.check(request)?;
    state.checks.limits.check_key(&credential.prefix)?;
    Ok(credential.project_id.clone())
}

/// Finds a recording's file when the request has its project's permit.
async fn find_admitted(
    state: &AppState,
    admission: &Arc<Admission>,
    project: &ProjectId,
    id: &EgressId,
) -> Result<(NamedFile, String), ApiError> {
    // For the look-up only: the download has a permit of its own.
    let admitted = admission.admit(Some(project.clone()))?;
    admitted
        .acquire()
        .await?
        .handle(find(state, project, id))
        .await
}

/// Finds the file of a project's recording, and its name.
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
    // Checked first, because the reason is more helpful than a missing file.
    if let Some(at) = state
        .store
        .local_files()
        .removed_at(project.clone(), id.clone())
        .await?
    {
        return Err(without_file(format!("its file was removed at {at}")).into());
    }
    let file = download::open(&state.admin.recordings, project, &path).await?;
    let name = path
        .as_str()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        // The name alone: folders are the backend's affair, and browsers would replace the slashes.
        .to_owned();
    Ok((file, name))
}

/// Returns a recording's path, if its file is complete and on this machine.
fn path_of(recording: &Egress) -> Result<&FilePath, Problem> {
    let EgressDetail::Recording { filepath, .. } = &recording.detail else {
        return Err(EgressKind::Recording.not_found());
    };
    // A running file has no final length, and may become seekable at its end.
    if !recording.status.is_final() {
        return Err(without_file(format!(
            "the recording is {}: its file is available after it has ended",
            recording.status
        )));
    }
    if let Some(destination) = &recording.destination {
        return Err(without_file(format!(
            "the file is at the destination {}",
            destination.name
        )));
    }
    Ok(filepath)
}

/// Returns 404: the recording has no file on this machine.
fn without_file(reason: String) -> Problem {
    Problem::new(ErrorCode::RecordingNotFound, reason)
}

/// Query with a link's lifetime.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct LifeQuery {
    /// Lifetime in seconds
    expires_in_seconds: Option<u32>,
}

#[derive(Serialize)]
struct LinkJson {
    /// Relative to the API's URL.
    path: String,
    expires_at: Timestamp,
}

/// Responds with a link to a recording's file, which must exist.
async fn link(state: &Arc<AppState>, request: &HttpRequest) -> Result<HttpResponse, ApiError> {
    let project = require_project_key(state, request).await?;
    let id = egress_id(request)?;
    let LifeQuery { expires_in_seconds } = LifeQuery::from_query(request.query_string())?;
    let life =
        expires_in_seconds.map_or(DEFAULT_LIFE, |seconds| Duration::from_secs(seconds.into()));
    let life =
        checked_life(life).map_err(|message| Problem::invalid("expires_in_seconds", message))?;
    // The file must exist now, so that a link fails at its creation rather than at its recipient.
    find_admitted(state, &state.checks.admission, &project, &id).await?;
    let (path, expires_at) = link::make(&state.keys, &project, &id, state.clock.now(), life);
    Ok(HttpResponse::Ok().json(LinkJson { path, expires_at }))
}
