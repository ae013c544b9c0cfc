//! The recordings of a project; those on this machine are played and downloaded.

use std::io;
use std::path::{Path, PathBuf};

use actix_files::NamedFile;
use actix_web::http::header::{
    CONTENT_SECURITY_POLICY, ContentDisposition, DispositionParam, DispositionType, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web;
use conclave_model::filepath::FilePath;
use conclave_model::project::Project;
use conclave_model::{ErrorCode, Problem, ProjectId};
use maud::{Markup, html};

use super::egress::{List, stop, stop_button};
use super::layout::{self, Place};
use super::parts::{badge, countdown, empty, facts, nothing, or_nothing, time};
use super::route::{self, Route};
use super::visit::{Answer, Visit, encoded};
use crate::http::error::ApiError;
use crate::http::response::Json;
use crate::http::v1::egress;
use crate::http::v1::recordings::Recording;

/// The routes of the pages and their action.
pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/recordings", list),
        route::page("/projects/{project}/recordings/{id}", one),
        route::page("/projects/{project}/recordings/{id}/file", file),
        route::action("/projects/{project}/recordings/{id}/stop", stop::<Recording>),
    ]
}

async fn list(visit: Visit) -> Answer {
    let list = List {
        title: "Recordings",
        none: "There is no recording here.",
        columns: &["File", "Room", "Status", "Type", "Started", "Ended", "Actions"],
        row,
        path: "/recordings",
    };
    list.show(visit).await
}

fn row(visit: &Visit, project: &Project, recording: &Recording) -> Vec<Markup> {
    let Recording { head, recording_type, status, filepath, tail } = recording;
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
    let call = visit.call(egress::get::<Recording>, project).path("egress_id", &visit.param("id"));
    call.send().await.map(|Json(recording)| recording)
}

async fn one(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let recording = read(&visit, &project.id).await?;
    let path = format!("/projects/{}/recordings", project.id);
    let is_final = recording.tail.ended_at.is_some();
    let is_local = recording.tail.destination.is_none();
    let found =
        if is_final && is_local { local_file(&visit, &project.id, &recording.filepath).await.ok() } else { None };
    let upload = upload(&visit, &recording).await;
    let Recording { head, recording_type, status, filepath, tail } = &recording;
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
            ("Error", or_nothing(tail.error.as_ref())),
        ]))
        div.actions { (stop_button::<Recording>(&visit, head, *status)) }
        @if let Some(file) = found {
            (player(&format!("{path}/{}/file", head.egress_id), &file))
        } @else if is_final && is_local {
            (empty("The file is not on this machine.", "It was moved, deleted, or never written."))
        }
    };
    Ok(visit.show(layout::page(&visit, Place::Project(&project, "/recordings"), "Recording", &content)))
}

/// What an upload that is outstanding is doing, and when it is tried again; `None` if none is.
async fn upload(visit: &Visit, Recording { head, tail, .. }: &Recording) -> Option<Markup> {
    tail.destination.as_ref()?;
    let id = format!("{}/egress/{}", head.project_id, head.egress_id);
    let actor = visit.state.tree.actor(&id).await?;
    let phase = actor.state.get("upload")?.get("phase")?.as_str()?.to_owned();
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

/// Opens the file of a recording on this machine.
///
/// # Errors
/// 404 if there is none, or it is not inside the project's directory of recordings.
async fn local_file(visit: &Visit, project: &ProjectId, path: &FilePath) -> Result<NamedFile, ApiError> {
    let directory = visit.state.admin.recordings.join(project.as_str());
    let name = PathBuf::from(path.as_str());
    let opened = web::block(move || open_inside(&directory, &name)).await.map_err(ApiError::internal)?;
    opened.map_err(|_| Problem::new(ErrorCode::NotFound, "the recording has no file on this machine").into())
}

/// Opens a file that is inside a directory, also after symbolic links were followed.
fn open_inside(directory: &Path, name: &Path) -> io::Result<NamedFile> {
    let directory = directory.canonicalize()?;
    let path = directory.join(name).canonicalize()?;
    if !path.starts_with(&directory) || !path.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    NamedFile::open(path)
}

/// The file: shown by the browser's player, or with `download=1` saved. What is no picture or sound is only saved.
async fn file(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let recording = read(&visit, &project.id).await?;
    if recording.tail.destination.is_some() {
        return Err(Problem::new(ErrorCode::NotFound, "the recording is not on this machine").into());
    }
    let file = local_file(&visit, &project.id, &recording.filepath).await?;
    let is_shown = visit.query("download").is_none() && (is_media(&file, "video") || is_media(&file, "audio"));
    let name = Path::new(recording.filepath.as_str()).file_name();
    let name = name.map_or("recording".into(), |name| name.to_string_lossy());
    let disposition = ContentDisposition {
        disposition: if is_shown { DispositionType::Inline } else { DispositionType::Attachment },
        parameters: vec![DispositionParam::Filename(name.into_owned())],
    };
    let file = file.set_content_disposition(disposition);
    let file = if is_shown { file } else { file.set_content_type(actix_web::mime::APPLICATION_OCTET_STREAM) };
    let mut response = file.into_response(&visit.request);
    for (name, value) in [(X_CONTENT_TYPE_OPTIONS, "nosniff"), (CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox")]
    {
        response.headers_mut().insert(name, actix_web::http::header::HeaderValue::from_static(value));
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_inside_the_directory_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("prj");
        std::fs::create_dir_all(directory.join("sub")).unwrap();
        for name in ["prj/a.mp4", "prj/sub/b.mp4", "outside.mp4"] {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        std::os::unix::fs::symlink(folder.path().join("outside.mp4"), directory.join("link.mp4")).unwrap();
        for inside in ["a.mp4", "sub/b.mp4"] {
            assert!(open_inside(&directory, Path::new(inside)).is_ok(), "{inside}");
        }
        let absolute = folder.path().join("outside.mp4");
        for outside in
            [Path::new("../outside.mp4"), Path::new("link.mp4"), Path::new("sub"), Path::new("none"), &absolute]
        {
            assert!(open_inside(&directory, outside).is_err(), "{outside:?}");
        }
    }
}
