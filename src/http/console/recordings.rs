//! The recordings of a project; those on this machine are played and downloaded.

use std::path::Path;

use actix_files::NamedFile;
use actix_web::http::header::{
    CONTENT_SECURITY_POLICY, ContentDisposition, DispositionParam, DispositionType,
    X_CONTENT_TYPE_OPTIONS,
};
use conclave_model::project::Project;
use conclave_model::{ErrorCode, Problem, ProjectId, Timestamp};
use maud::{Markup, html};

use super::egress::{List, stop, stop_button};
use super::layout::{self, Place};
use super::parts::{badge, countdown, empty, facts, nothing, or_nothing, time};
use super::route::{self, Route};
use super::visit::{Answer, Visit, encoded};
use crate::http::api::error::ApiError;
use crate::http::api::response::Json;
use crate::http::api::v1::egress::{self, EgressHead};
use crate::http::api::v1::recordings::Recording;
use crate::http::files::{link, local};

/// The routes of the pages and their action.
pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/recordings", list),
        route::page("/projects/{project}/recordings/{id}", one),
        route::page("/projects/{project}/recordings/{id}/file", file),
        route::action(
            "/projects/{project}/recordings/{id}/stop",
            stop::<Recording>,
        ),
    ]
}

async fn list(visit: Visit) -> Answer {
    let list = List {
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
    } = recording;
    let path = format!("/projects/{}", project.id);
    vec![
        html! { a href={ (path) "/recordings/" (head.egress_id) } { (filepath) } },
        html! { a href={ (path) "/rooms/" (head.room) } { (head.room) } },
        badge(status.as_str()),
        html! { (recording_type.as_str().replace('_', " ")) },
        time(tail.started_at),
        time(tail.ended_at),
        stop_button::<Recording>(visit, head, *status),
    ]
}

/// Reads the recording that the path names, as it was recorded last.
async fn read(visit: &Visit, project: &ProjectId) -> Result<Recording, ApiError> {
    let call = visit
        .call(egress::get::<Recording>, project)
        .path("egress_id", &visit.param("id"));
    call.send().await.map(|Json(recording)| recording)
}

async fn one(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let recording = read(&visit, &project.id).await?;
    let path = format!("/projects/{}/recordings", project.id);
    let is_final = recording.tail.ended_at.is_some();
    let is_local = recording.tail.destination.is_none();
    let recordings = &visit.state.admin.recordings;
    let found = if is_final && is_local {
        local::open(recordings, &project.id, &recording.filepath)
            .await
            .ok()
    } else {
        None
    };
    let removed = removal(&visit, &recording).await?;
    let found = found.filter(|_| !matches!(removed, Some(Removal::Done(_))));
    let upload = upload(&visit, &recording).await;
    let Recording {
        head,
        recording_type,
        status,
        filepath,
        tail,
    } = &recording;
    let content = html! {
        h1 { (filepath) " " (badge(status.as_str())) }
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
        } @else if is_final && is_local {
            (empty("The file is not on this machine.", "It was moved, deleted, or never written."))
        }
    };
    Ok(visit.show(layout::page(
        &visit,
        Place::Project(&project, "/recordings"),
        "Recording",
        &content,
    )))
}

/// What `recordings.retention` does with a file.
#[derive(Debug, Clone, Copy)]
enum Removal {
    Done(Timestamp),
    Planned(Timestamp),
}

impl Removal {
    fn to_markup(self) -> Markup {
        match self {
            Self::Done(at) => html! { (time(at)) ", when it was removed (recordings.retention)" },
            Self::Planned(at) => html! { (time(at)) " (recordings.retention)" },
        }
    }
}

/// When the file of a recording on this machine was or will be removed; `None` if it stays.
async fn removal(
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

/// A link for those who have no API key. It is made when the page is shown.
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
    html! { p { a href=(url) rel="noreferrer" { "Link for an hour" } " " small { "(for those without an API key)" } } }
}

/// What an upload that is outstanding is doing, and when it is tried again; `None` if none is.
async fn upload(visit: &Visit, Recording { head, tail, .. }: &Recording) -> Option<Markup> {
    tail.destination.as_ref()?;
    let id = format!("{}/egress/{}", head.project_id, head.egress_id);
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
        @if is_media(file, "video") { video controls preload="metadata" src=(path) aria-label="The recording" {} }
        @if is_media(file, "audio") { audio controls preload="metadata" src=(path) aria-label="The recording" {} }
        p { a href={ (path) "?download=1" } { "Download" } " " small { "(" (size.div_ceil(1024)) " KiB)" } }
    }
}

fn is_media(file: &NamedFile, kind: &str) -> bool {
    file.content_type().type_() == kind
}

/// The file: shown by the browser's player, or with `download=1` saved. What is no picture or sound is only saved.
async fn file(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let recording = read(&visit, &project.id).await?;
    if recording.tail.destination.is_some() {
        return Err(
            Problem::new(ErrorCode::NotFound, "the recording is not on this machine").into(),
        );
    }
    let file = local::open(
        &visit.state.admin.recordings,
        &project.id,
        &recording.filepath,
    )
    .await?;
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
        file.set_content_type(actix_web::mime::APPLICATION_OCTET_STREAM)
    };
    let mut response = file.into_response(&visit.request);
    for (name, value) in [
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
