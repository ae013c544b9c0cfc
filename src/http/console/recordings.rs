//! The recordings of a project; those on this machine are played and downloaded.

use std::io;
use std::path::{Path, PathBuf};

use actix_files::NamedFile;
use actix_web::http::header::{
    CONTENT_SECURITY_POLICY, ContentDisposition, DispositionParam, DispositionType, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web;
use conclave_model::{ErrorCode, Problem, ProjectId};
use maud::{Markup, html};
use serde_json::Value;

use super::broadcasts::{filters, stop_button};
use super::json::Fields;
use super::layout::{self, Place};
use super::parts::{ROWS, badge, countdown, empty, facts, live, nothing, or_nothing, pager, table, time};
use super::route::{self, Route};
use super::visit::{Answer, Visit, encoded};
use crate::http::error::ApiError;

/// Seconds between two readings.
const EVERY: u32 = 10;

/// The routes of the pages and their action.
pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/recordings", list),
        route::page("/projects/{project}/recordings/{id}", one),
        route::page("/projects/{project}/recordings/{id}/file", file),
        route::action("/projects/{project}/recordings/{id}/stop", stop),
    ]
}

async fn list(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let (room, status) = (visit.query("room"), visit.query("status"));
    let call = visit.call("list_recordings", &project.id).page(ROWS, visit.offset());
    let recordings = call.query("room", room.as_deref()).query("status", status.as_deref()).send().await?;
    let path = format!("/projects/{}/recordings", project.id);
    let rows: Vec<_> = recordings.list("recordings").iter().map(|one| row(&visit, &project.id, &path, one)).collect();
    let content = html! {
        h1 { "Recordings" }
        (filters(&path, room.as_deref(), status.as_deref()))
        (live(&visit, "recordings", EVERY, &html! {
            @if rows.is_empty() {
                (empty("There is no recording here.", "Start one on the page of an open room."))
            } @else {
                (table("Recordings", &["File", "Room", "Status", "Type", "Started", "Ended", "Actions"], &rows))
            }
            (pager(&visit, visit.offset(), recordings.flag("has_more")))
        }))
    };
    Ok(visit.show(layout::page(&visit, Place::Project(&project, "/recordings"), "Recordings", &content)))
}

fn row(visit: &Visit, project: &ProjectId, path: &str, recording: &Value) -> Vec<Markup> {
    let room = recording.text("room");
    vec![
        html! { a href={ (path) "/" (recording.text("egress_id")) } { (recording.text("filepath")) } },
        html! { a href={ "/projects/" (project) "/rooms/" (room) } { (room) } },
        badge(recording.text("status")),
        html! { (recording.text("type").replace('_', " ")) },
        time(recording.text("started_at")),
        time(recording.text("ended_at")),
        stop_button(visit, path, recording),
    ]
}

/// Reads the recording that the path names, as it was recorded last.
async fn read(visit: &Visit, project: &ProjectId) -> Result<Value, ApiError> {
    visit.call("get_recording", project).path("egress_id", &visit.param("id")).send().await
}

async fn one(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let recording = read(&visit, &project.id).await?;
    let path = format!("/projects/{}/recordings", project.id);
    let is_final = recording.some_text("ended_at").is_some();
    let is_local = recording.some_text("destination").is_none();
    let found = if is_final && is_local { local_file(&visit, &project.id, &recording).await.ok() } else { None };
    let upload = upload(&visit, &project.id, &recording).await;
    let content = html! {
        h1 { (recording.text("filepath")) " " (badge(recording.text("status"))) }
        (facts(&[
            ("Room", html! { a href={ "/projects/" (project.id) "/rooms/" (recording.text("room")) } { (recording.text("room")) } }),
            ("Type", html! { (recording.text("type").replace('_', " ")) }),
            ("Destination", html! { (recording.some_text("destination").unwrap_or("this machine")) }),
            ("Started", time(recording.text("started_at"))),
            ("Ended", time(recording.text("ended_at"))),
            ("Egress id", html! { code { (recording.text("egress_id")) } }),
            ("Upload", upload.unwrap_or_else(nothing)),
            ("Error", or_nothing(recording.text("error"))),
        ]))
        div.actions { (stop_button(&visit, &path, &recording)) }
        @if let Some(file) = found {
            (player(&format!("{path}/{}/file", recording.text("egress_id")), &file))
        } @else if is_final && is_local {
            (empty("The file is not on this machine.", "It was moved, deleted, or never written."))
        }
    };
    Ok(visit.show(layout::page(&visit, Place::Project(&project, "/recordings"), "Recording", &content)))
}

/// What an upload that is outstanding is doing, and when it is tried again; `None` if none is.
async fn upload(visit: &Visit, project: &ProjectId, recording: &Value) -> Option<Markup> {
    recording.some_text("destination")?;
    let id = format!("{project}/egress/{}", recording.text("egress_id"));
    let actor = visit.state.tree.actor(&id).await?;
    let phase = actor.state.get("upload")?.get("phase")?.as_str()?.to_owned();
    let next = actor.timers.iter().find(|timer| timer.name == "upload");
    Some(html! {
        a href={ "/actors/" (project) "/egress/" (encoded(recording.text("egress_id"))) } { (phase) }
        @if let Some(timer) = next { ", next attempt " (countdown(&timer.fires_at.to_string())) }
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
async fn local_file(visit: &Visit, project: &ProjectId, recording: &Value) -> Result<NamedFile, ApiError> {
    let directory = visit.state.recordings.join(project.as_str());
    let name = PathBuf::from(recording.text("filepath"));
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
    if recording.some_text("destination").is_some() {
        return Err(Problem::new(ErrorCode::NotFound, "the recording is not on this machine").into());
    }
    let file = local_file(&visit, &project.id, &recording).await?;
    let is_shown = visit.query("download").is_none() && (is_media(&file, "video") || is_media(&file, "audio"));
    let name =
        Path::new(recording.text("filepath")).file_name().map_or("recording".into(), |name| name.to_string_lossy());
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

async fn stop(visit: Visit) -> Answer {
    let project = visit.project_id()?;
    visit.call("stop_recording", &project).path("egress_id", &visit.param("id")).send().await?;
    Ok(visit.done(&format!("/projects/{project}/recordings"), "recording-stopped"))
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
