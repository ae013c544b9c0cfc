//! A project's recordings and broadcasts: lists with filters, and stopping one. Recordings on this machine can be played,
//! downloaded and deleted.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use actix_files::NamedFile;
use actix_web::http::header::{
    CONTENT_SECURITY_POLICY, ContentDisposition, DispositionParam, DispositionType,
    X_CONTENT_TYPE_OPTIONS,
};
use conclave_model::egress::{EgressKind, EgressStatus};
use conclave_model::project::Project;
use conclave_model::{ErrorCode, Problem, ProjectId, Timestamp};
use maud::{Markup, html};

use super::layout::{self, PagePosition};
use super::parts::{
    ROWS, badge, countdown, danger, empty, facts, field, live, nothing, or_nothing, pager, select,
    table, time,
};
use super::route::{self, Route};
use super::visit::{PageResult, Visit, encoded, log_change};
use crate::http::api::error::ApiError;
use crate::http::api::response::Json;
use crate::http::api::v1::broadcasts::Broadcast;
use crate::http::api::v1::egress::{self, EgressHead, EgressJson};
use crate::http::api::v1::recordings::Recording;
use crate::http::files::{download, link, removal};

pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/recordings", list),
        route::page("/projects/{project}/recordings/{id}", one),
        route::page("/projects/{project}/recordings/{id}/file", file),
        route::action(
            "/projects/{project}/recordings/{id}/stop",
            stop::<Recording>,
        ),
        route::action("/projects/{project}/recordings/{id}/delete", delete_file),
        route::page("/projects/{project}/broadcasts", list_broadcasts),
        route::action(
            "/projects/{project}/broadcasts/{id}/stop",
            stop::<Broadcast>,
        ),
    ]
}

async fn list(visit: Visit) -> PageResult {
    let list = EgressList {
        title: "Recordings",
        none: "There is no recording here.",
        columns: &[
            "File", "Room", "Status", "Type", "Started", "Ended", "Actions",
        ],
        row,
        path: "/recordings",
    };
    list.show(visit).await
}

fn row(visit: &Visit, project: &Project, recording: &Recording) -> Vec<Markup> {
    let Recording {
        head,
        recording_type,
        status,
        filepath,
        tail,
        paused,
    } = recording;
    let path = format!("/projects/{}", project.id);
    vec![
        html! { a href={ (path) "/recordings/" (head.egress_id) } { (filepath) } },
        html! { a href={ (path) "/rooms/" (head.room) } { (head.room) } },
        status_of(*status, *paused),
        html! { (recording_type.as_str().replace('_', " ")) },
        time(tail.started_at),
        time(tail.ended_at),
        stop_button::<Recording>(visit, head, *status),
    ]
}

/// Returns a recording's status, with whether it is paused.
fn status_of(status: EgressStatus, paused: Option<bool>) -> Markup {
    let is_paused = paused.unwrap_or_default();
    html! { (badge(status.as_str())) @if is_paused { " paused" } }
}

/// Reads the recording in the path, as last recorded.
async fn read(visit: &Visit, project: &ProjectId) -> Result<Recording, ApiError> {
    let call = visit
        .call(egress::get::<Recording>, project)
        .path("egress_id", &visit.param("id"));
    call.send().await.map(|Json(recording)| recording)
}

async fn one(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let recording = read(&visit, &project.id).await?;
    let path = format!("/projects/{}/recordings", project.id);
    let is_final = recording.tail.ended_at.is_some();
    let is_local = recording.tail.destination.is_none();
    let recordings = &visit.state.admin.recordings;
    // Opened only to learn whether it exists.
    let found = if is_final && is_local {
        download::open(recordings, &project.id, &recording.filepath)
            .await
            // Every error means the same here: there is nothing to play.
            .ok()
    } else {
        None
    };
    let removed = file_removal(&visit, &recording).await?;
    // After a removal, a file at this path belongs to a later recording.
    let found = found.filter(|_| !matches!(removed, Some(Removal::Done(_))));
    let upload = upload(&visit, &recording).await;
    let Recording {
        head,
        recording_type,
        status,
        filepath,
        tail,
        paused,
    } = &recording;
    let content = html! {
        h1 { (filepath) " " (status_of(*status, *paused)) }
        (facts(&[
            ("Room", html! { a href={ "/projects/" (project.id) "/rooms/" (head.room) } { (head.room) } }),
            ("Type", html! { (recording_type.as_str().replace('_', " ")) }),
            ("Destination", html! { (tail.destination.as_ref().map_or("this machine", |name| name.as_str())) }),
            ("Started", time(tail.started_at)),
            ("Ended", time(tail.ended_at)),
            ("Egress id", html! { code { (head.egress_id) } }),
            ("Upload", upload.unwrap_or_else(nothing)),
            ("Kept until", removed.map_or_else(nothing, Removal::to_markup)),
            ("Error", or_nothing(tail.error.as_ref())),
        ]))
        div.actions { (stop_button::<Recording>(&visit, head, *status)) }
        @if let Some(file) = found {
            (player(&format!("{path}/{}/file", head.egress_id), &file))
            (link_for_an_hour(&visit, head))
            (danger(&visit, &format!("{path}/{}/delete", head.egress_id), "Delete file",
                &format!("Delete the file {filepath}? It cannot be restored.")))
        } @else if is_final && is_local {
            (empty("The file is not on this machine.", "It was deleted, moved, or never written."))
        }
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/recordings"),
        "Recording",
        &content,
    )))
}

/// Removal of a file: in the console, or by `recordings.retention`.
#[derive(Debug, Clone, Copy)]
enum Removal {
    Done(Timestamp),
    Planned(Timestamp),
}

impl Removal {
    fn to_markup(self) -> Markup {
        match self {
            Self::Done(at) => html! { (time(at)) ", when it was removed" },
            Self::Planned(at) => html! { (time(at)) " (recordings.retention)" },
        }
    }
}

/// Returns when a recording's local file was or will be removed; `None` if it stays.
async fn file_removal(
    visit: &Visit,
    Recording { head, tail, .. }: &Recording,
) -> Result<Option<Removal>, ApiError> {
    let (project, id) = (head.project_id.clone(), head.egress_id.clone());
    if let Some(at) = visit
        .state
        .store
        .local_files()
        .removed_at(project, id)
        .await?
    {
        return Ok(Some(Removal::Done(at)));
    }
    let ended_at = tail.ended_at.filter(|_| tail.destination.is_none());
    let planned = ended_at.zip(visit.state.admin.recordings_retention);
    Ok(planned.map(|(ended_at, retention)| Removal::Planned(ended_at.after(retention))))
}

/// Renders a link for users without an API key. It is created when the page is shown.
fn link_for_an_hour(visit: &Visit, head: &EgressHead) -> Markup {
    let (keys, now) = (&visit.state.keys, visit.state.clock.now());
    let (path, _) = link::make(
        keys,
        &head.project_id,
        &head.egress_id,
        now,
        link::DEFAULT_LIFE,
    );
    let url = format!("{}{path}", visit.state.api.url);
    // `noreferrer`: the link contains a signature.
    html! { p { a href=(url) rel="noreferrer" { "Link for an hour" } " " small { "(for those without an API key)" } } }
}

/// Renders the state of a pending upload and its next attempt; `None` if there is none.
async fn upload(visit: &Visit, Recording { head, tail, .. }: &Recording) -> Option<Markup> {
    // Without a destination there is no upload.
    tail.destination.as_ref()?;
    let id = format!("{}/egress/{}", head.project_id, head.egress_id);
    // The actor's snapshot, because the record has no phase of the upload.
    let actor = visit.state.tree.actor(&id).await?;
    let phase = actor
        .state
        .get("upload")?
        .get("phase")?
        .as_str()?
        .to_owned();
    let next = actor.timers.iter().find(|timer| timer.name == "upload");
    Some(html! {
        a href={ "/actors/" (head.project_id) "/egress/" (encoded(head.egress_id.as_str())) } { (phase) }
        @if let Some(timer) = next { ", next attempt " (countdown(timer.fires_at)) }
    })
}

fn player(path: &str, file: &NamedFile) -> Markup {
    let size = file.metadata().len();
    html! {
        // `metadata` reads the duration only: a recording can have gigabytes.
        @if is_media(file, "video") { video controls preload="metadata" src=(path) aria-label="The recording" {} }
        @if is_media(file, "audio") { audio controls preload="metadata" src=(path) aria-label="The recording" {} }
        p { a href={ (path) "?download=1" } { "Download" } " " small { "(" (size.div_ceil(1024)) " KiB)" } }
    }
}

fn is_media(file: &NamedFile, kind: &str) -> bool {
    file.content_type().type_() == kind
}

/// Responds with the file: for the browser's player, or as a download with `download=1`. Anything but audio and video is only
/// downloaded.
async fn file(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let recording = read(&visit, &project.id).await?;
    if recording.tail.destination.is_some() {
        return Err(
            Problem::new(ErrorCode::NotFound, "the recording is not on this machine").into(),
        );
    }
    let file = download::open(
        &visit.state.admin.recordings,
        &project.id,
        &recording.filepath,
    )
    .await?;
    // By type and not by extension alone: other content could run scripts.
    let is_shown =
        visit.query("download").is_none() && (is_media(&file, "video") || is_media(&file, "audio"));
    let name = Path::new(recording.filepath.as_str()).file_name();
    let name = name.map_or("recording".into(), |name| name.to_string_lossy());
    let disposition = ContentDisposition {
        disposition: if is_shown {
            DispositionType::Inline
        } else {
            DispositionType::Attachment
        },
        parameters: vec![DispositionParam::Filename(name.into_owned())],
    };
    let file = file.set_content_disposition(disposition);
    let file = if is_shown {
        file
    } else {
        // A browser saves this type instead of displaying it.
        file.set_content_type(actix_web::mime::APPLICATION_OCTET_STREAM)
    };
    // `NamedFile` supports ranges, which players need for seeking.
    let mut response = file.into_response(&visit.request);
    for (name, value) in [
        // Opened by itself, a file must not run scripts with the console's origin.
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    ] {
        response.headers_mut().insert(
            name,
            actix_web::http::header::HeaderValue::from_static(value),
        );
    }
    Ok(response)
}

/// Deletes the file of an ended recording on this machine. Not an API operation: backends use `recordings.retention`.
async fn delete_file(visit: Visit) -> PageResult {
    let project = visit.project_id()?;
    let recording = read(&visit, &project).await?;
    let without_file =
        |message: &str| Problem::new(ErrorCode::RecordingNotFound, message.to_owned());
    let Some(ended_at) = recording.tail.ended_at else {
        return Err(without_file("the recording has not ended; stop it first").into());
    };
    if recording.tail.destination.is_some() {
        return Err(without_file("the file is at its destination").into());
    }
    let removed = file_removal(&visit, &recording).await?;
    if matches!(removed, Some(Removal::Done(_))) {
        return Err(without_file("the file was removed before").into());
    }
    let (state, id) = (Arc::clone(&visit.state), recording.head.egress_id.clone());
    let (owner, path) = (project.clone(), recording.filepath.clone());
    let latest_write = ended_at.after(removal::COMPLETION_TIME);
    // A task of its own, so that a browser that disconnects leaves no removed file without its record.
    let deletion = actix_web::rt::spawn(async move {
        match removal::remove(&state.admin.recordings, &owner, &path, latest_write).await {
            Ok(true) => Ok(state.store.local_files().record_removed(owner, id).await?),
            Ok(false) => Err(without_file(
                "the file at this path was written after the recording's end, so it may be another recording's",
            )
            .into()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(without_file("the file is not on this machine").into())
            }
            Err(error) => Err(ApiError::internal(error)),
        }
    });
    deletion.await??;
    // Not an API operation, so `OperatorCall` does not log it.
    log_change("delete_recording_file", &project);
    Ok(visit.done(
        &format!(
            "/projects/{project}/recordings/{}",
            recording.head.egress_id
        ),
        "recording-deleted",
    ))
}

/// Refresh interval in seconds.
const REFRESH_INTERVAL: u32 = 10;
/// Statuses of recordings and broadcasts, for the filter.
const STATUSES: [(&str, &str); 8] = [
    ("", "every status"),
    ("starting", "starting"),
    ("active", "active"),
    ("ending", "ending"),
    ("complete", "complete"),
    ("failed", "failed"),
    ("aborted", "aborted"),
    ("limit_reached", "limit reached"),
];

/// Recording or broadcast list.
struct EgressList<J> {
    /// Heading.
    pub title: &'static str,
    /// Text for an empty list.
    pub none: &'static str,
    /// Column names.
    pub columns: &'static [&'static str],
    /// Renders a row's cells.
    pub row: fn(&Visit, &Project, &J) -> Vec<Markup>,
    /// The page's path, below the project's.
    pub path: &'static str,
}

impl<J: EgressJson> EgressList<J> {
    /// Responds with the page.
    pub async fn show(self, visit: Visit) -> PageResult {
        let project = visit.project().await?;
        let (room, status) = (visit.query("room"), visit.query("status"));
        let call = visit
            .call(egress::list::<J>, &project.id)
            .page(ROWS, visit.offset());
        let listed = call
            .query("room", room.as_deref())
            .query("status", status.as_deref())
            .send()
            .await?;
        let rows: Vec<_> = listed
            .items
            .iter()
            .map(|one| (self.row)(&visit, &project, one))
            .collect();
        let content = html! {
            h1 { (self.title) }
            (filters(&format!("/projects/{}{}", project.id, self.path), room.as_deref(), status.as_deref()))
            (live(&visit, J::COLLECTION, REFRESH_INTERVAL, &html! {
                @if rows.is_empty() {
                    (empty(self.none, "Start one on the page of an open room."))
                } @else {
                    (table(self.title, self.columns, &rows))
                }
                (pager(&visit, visit.offset(), listed.has_more))
            }))
        };
        Ok(visit.show(layout::page(
            &visit,
            PagePosition::Project(&project, self.path),
            self.title,
            &content,
        )))
    }
}

fn filters(path: &str, room: Option<&str>, status: Option<&str>) -> Markup {
    html! {
        form.filters method="get" action=(path) {
            (field("room", "Room", &html! { input #room name="room" value=(room.unwrap_or_default()); }, ""))
            (field("status", "Status", &select("status", "status", &STATUSES, status.unwrap_or_default()), ""))
            button type="submit" { "Filter" }
        }
    }
}

/// Renders the button that stops a running recording or broadcast.
fn stop_button<J: EgressJson>(visit: &Visit, head: &EgressHead, status: EgressStatus) -> Markup {
    if !is_stoppable(status) {
        return Markup::default();
    }
    let question = format!("Stop {} in {}?", head.egress_id, head.room);
    danger(visit, &stop_path::<J>(head), "Stop", &question)
}

/// Returns whether a recording or broadcast can be stopped.
pub fn is_stoppable(status: EgressStatus) -> bool {
    // Ending ones stop already, and final ones have stopped.
    matches!(status, EgressStatus::Starting | EgressStatus::Active)
}

/// Returns the stop action's path.
pub fn stop_path<J: EgressJson>(head: &EgressHead) -> String {
    format!(
        "/projects/{}/{}/{}/stop",
        head.project_id,
        J::COLLECTION,
        head.egress_id
    )
}

/// Handles the stop action.
pub async fn stop<J: EgressJson>(visit: Visit) -> PageResult {
    let project = visit.project_id()?;
    visit
        .call(egress::stop::<J>, &project)
        .path("egress_id", &visit.param("id"))
        .send()
        .await?;
    let note = match J::KIND {
        EgressKind::Recording => "recording-stopped",
        EgressKind::Broadcast => "broadcast-stopped",
    };
    Ok(visit.done(&format!("/projects/{project}/{}", J::COLLECTION), note))
}

async fn list_broadcasts(visit: Visit) -> PageResult {
    let list = EgressList {
        title: "Broadcasts",
        none: "There is no broadcast here.",
        columns: &["Room", "Status", "Receivers", "Started", "Ended", "Actions"],
        row: broadcast_row,
        path: "/broadcasts",
    };
    list.show(visit).await
}

fn broadcast_row(visit: &Visit, _: &Project, broadcast: &Broadcast) -> Vec<Markup> {
    let Broadcast {
        head,
        urls,
        status,
        tail,
    } = broadcast;
    vec![
        html! { (head.room) },
        badge(status.as_str()),
        html! {
            (or_nothing(Some(urls.join(", ")).filter(|urls| !urls.is_empty())))
            @if let Some(error) = &tail.error { div { small { (error) } } }
        },
        time(tail.started_at),
        time(tail.ended_at),
        stop_button::<Broadcast>(visit, head, *status),
    ]
}
