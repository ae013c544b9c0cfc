//! Sessions: who was in which room, with a timeline of a room; and one session with its tracks.

use conclave_model::participant::TrackSource;
use conclave_model::{ProjectId, Timestamp};
use maud::{Markup, html};

use super::layout::{self, Place};
use super::parts::{
    ROWS, badge, empty, facts, field, length, or_nothing, pager, select, table, time,
};
use super::route::{self, Route};
use super::timeline::{Bar, Row, timeline};
use super::visit::{Answer, Visit};
use crate::http::api::error::ApiError;
use crate::http::api::response::Json;
use crate::http::api::v1::sessions::{self, SessionDetail, SessionJson, SessionTrackJson};

/// The routes of the pages.
pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/sessions", list),
        route::page("/projects/{project}/sessions/{id}", one),
    ]
}

async fn list(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let (room, identity, active) = (
        visit.query("room"),
        visit.query("identity"),
        visit.query("active"),
    );
    let call = visit
        .call(sessions::list, &project.id)
        .page(ROWS, visit.offset());
    let call = call
        .query("room", room.as_deref())
        .query("identity", identity.as_deref());
    let listed = call.query("active", active.as_deref()).send().await?;
    let path = format!("/projects/{}/sessions", project.id);
    let rows: Vec<_> = listed
        .items
        .iter()
        .map(|session| row(&path, session))
        .collect();
    // Only the sessions of one room are beside each other in time.
    let plotted = if room.is_some() {
        rows_of_timeline(&visit, &project.id, &listed.items).await?
    } else {
        Vec::new()
    };
    let content = html! {
        h1 { "Sessions" }
        (filters(&path, room.as_deref(), identity.as_deref(), active.as_deref()))
        @if let (Some(room), false) = (&room, plotted.is_empty()) {
            h2 { "Who was in " (room) " when" }
            (timeline(&format!("Sessions in {room}"), &plotted))
            h2 { "Sessions" }
        }
        @if rows.is_empty() {
            (empty("There is no session here.", "A session is recorded when a participant joins a room."))
        } @else {
            (table("Sessions", &["Participant", "Room", "Role", "Joined", "Left", "Length", "Tracks"], &rows))
        }
        (pager(&visit, visit.offset(), listed.has_more))
    };
    Ok(visit.show(layout::page(
        &visit,
        Place::Project(&project, "/sessions"),
        "Sessions",
        &content,
    )))
}

fn filters(path: &str, room: Option<&str>, identity: Option<&str>, active: Option<&str>) -> Markup {
    let states = [
        ("", "open and closed"),
        ("true", "open"),
        ("false", "closed"),
    ];
    html! {
        form.filters method="get" action=(path) {
            (field("room", "Room", &html! { input #room name="room" value=(room.unwrap_or_default()); }, ""))
            (field("identity", "Identity", &html! { input #identity name="identity" value=(identity.unwrap_or_default()); }, ""))
            (field("active", "State", &select("active", "active", &states, active.unwrap_or_default()), ""))
            button type="submit" { "Filter" }
        }
    }
}

fn row(path: &str, session: &SessionJson) -> Vec<Markup> {
    vec![
        html! { a href={ (path) "/" (session.id) } { (session.participant_identity) } },
        html! { a href={ (path) "?room=" (session.room) } { (session.room) } },
        or_nothing(session.role.as_ref()),
        time(session.joined_at),
        left(session),
        html! { (length(session.duration_seconds)) },
        html! { (session.track_count) },
    ]
}

fn left(session: &SessionJson) -> Markup {
    session.left_at.map_or_else(|| badge("open"), time)
}

/// The sessions with their tracks, the earliest first.
async fn rows_of_timeline(
    visit: &Visit,
    project: &ProjectId,
    listed: &[SessionJson],
) -> Result<Vec<Row>, ApiError> {
    let now = visit.state.clock.now();
    let mut rows = Vec::new();
    for session in listed.iter().rev() {
        let Json(detail) = visit
            .call(sessions::get, project)
            .path("id", &session.id.to_string())
            .send()
            .await?;
        rows.push(timeline_row(&detail, now));
    }
    Ok(rows)
}

fn timeline_row(SessionDetail { session, tracks }: &SessionDetail, now: Timestamp) -> Row {
    let bar = |from: Timestamp, to: Option<Timestamp>, kind| Bar {
        from: from.millis(),
        to: to.unwrap_or(now).millis(),
        kind,
    };
    let track = |track: &SessionTrackJson| {
        let kind = match track.source {
            TrackSource::ScreenShare | TrackSource::ScreenShareAudio => "screen",
            _ => track.kind.as_str(),
        };
        bar(track.started_at, track.ended_at, kind)
    };
    Row {
        name: session.participant_identity.to_string(),
        whole: bar(session.joined_at, session.left_at, "session"),
        tracks: tracks.iter().map(track).collect(),
    }
}

async fn one(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let Json(detail) = visit
        .call(sessions::get, &project.id)
        .path("id", &visit.param("id"))
        .send()
        .await?;
    let plotted = timeline_row(&detail, visit.state.clock.now());
    let path = format!("/projects/{}", project.id);
    let session = &detail.session;
    let room = &session.room;
    let content = html! {
        p { a href={ (path) "/sessions?room=" (room) } { "Sessions in " (room) } }
        h1 { (session.participant_identity) " in " (room) }
        (facts(&[
            ("Room", html! { a href={ (path) "/rooms/" (room) } { (room) } }),
            ("Role", or_nothing(session.role.as_ref())),
            ("Joined", time(session.joined_at)),
            ("Left", left(session)),
            ("Length", html! { (length(session.duration_seconds)) }),
            ("Participant sid", html! { code { (session.participant_sid) } }),
        ]))
        (timeline("The session and its tracks", &[plotted]))
        h2 { "Tracks" }
        (tracks(&detail.tracks))
    };
    Ok(visit.show(layout::page(
        &visit,
        Place::Project(&project, "/sessions"),
        "Session",
        &content,
    )))
}

fn tracks(tracks: &[SessionTrackJson]) -> Markup {
    let row = |track: &SessionTrackJson| {
        vec![
            html! { (track.source.as_str().replace('_', " ")) },
            html! { (track.kind) },
            html! { code { (track.track_sid) } },
            time(track.started_at),
            track.ended_at.map_or_else(|| badge("live"), time),
        ]
    };
    let rows: Vec<_> = tracks.iter().map(row).collect();
    if rows.is_empty() {
        return empty(
            "The participant published no track.",
            "It has listened only.",
        );
    }
    table(
        "Tracks",
        &["Source", "Kind", "Track sid", "Started", "Ended"],
        &rows,
    )
}
