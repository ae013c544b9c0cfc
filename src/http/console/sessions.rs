//! Sessions: who was in which room, with a timeline of a room; and one session with its tracks.

use maud::{Markup, html};
use serde_json::Value;

use super::json::Fields;
use super::layout::{self, Place};
use super::parts::{ROWS, badge, empty, facts, field, length, or_nothing, pager, select, table, time};
use super::route::{self, Route};
use super::timeline::{Bar, Row, timeline};
use super::visit::{Answer, Visit};
use crate::http::error::ApiError;

/// The routes of the pages.
pub fn routes() -> Vec<Route> {
    vec![route::page("/projects/{project}/sessions", list), route::page("/projects/{project}/sessions/{id}", one)]
}

async fn list(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let (room, identity, active) = (visit.query("room"), visit.query("identity"), visit.query("active"));
    let call = visit.call("list_sessions", &project.id).page(ROWS, visit.offset());
    let call = call.query("room", room.as_deref()).query("identity", identity.as_deref());
    let sessions = call.query("active", active.as_deref()).send().await?;
    let listed = sessions.list("sessions");
    let path = format!("/projects/{}/sessions", project.id);
    let rows: Vec<_> = listed.iter().map(|session| row(&path, session)).collect();
    // Only the sessions of one room are beside each other in time.
    let plotted = if room.is_some() { rows_of_timeline(&visit, &project.id, listed).await? } else { Vec::new() };
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
        (pager(&visit, visit.offset(), sessions.flag("has_more")))
    };
    Ok(visit.show(layout::page(&visit, Place::Project(&project, "/sessions"), "Sessions", &content)))
}

fn filters(path: &str, room: Option<&str>, identity: Option<&str>, active: Option<&str>) -> Markup {
    let states = [("", "open and closed"), ("true", "open"), ("false", "closed")];
    html! {
        form.filters method="get" action=(path) {
            (field("room", "Room", &html! { input #room name="room" value=(room.unwrap_or_default()); }, ""))
            (field("identity", "Identity", &html! { input #identity name="identity" value=(identity.unwrap_or_default()); }, ""))
            (field("active", "State", &select("active", "active", &states, active.unwrap_or_default()), ""))
            button type="submit" { "Filter" }
        }
    }
}

fn row(path: &str, session: &Value) -> Vec<Markup> {
    vec![
        html! { a href={ (path) "/" (session.text("id")) } { (session.text("participant_identity")) } },
        html! { a href={ (path) "?room=" (session.text("room")) } { (session.text("room")) } },
        or_nothing(session.text("role")),
        time(session.text("joined_at")),
        left(session),
        html! { (length(session.whole("duration_seconds"))) },
        html! { (session.whole("track_count")) },
    ]
}

fn left(session: &Value) -> Markup {
    if session.text("left_at").is_empty() { badge("open") } else { time(session.text("left_at")) }
}

/// The sessions with their tracks, the earliest first.
async fn rows_of_timeline(
    visit: &Visit,
    project: &conclave_model::ProjectId,
    sessions: &[Value],
) -> Result<Vec<Row>, ApiError> {
    let now = visit.state.clock.now().to_string();
    let mut rows = Vec::new();
    for session in sessions.iter().rev() {
        let detail = visit.call("get_session", project).path("id", session.text("id")).send().await?;
        rows.extend(timeline_row(&detail, &now));
    }
    Ok(rows)
}

/// `None` for a session whose times cannot be read.
fn timeline_row(session: &Value, now: &str) -> Option<Row> {
    let until = |text: &str| Bar::millis(if text.is_empty() { now } else { text });
    let bar = |track: &Value| {
        let kind = if track.text("source").starts_with("screen") { "screen" } else { track.text("kind") };
        let (from, to) = (Bar::millis(track.text("started_at"))?, until(track.text("ended_at"))?);
        Some(Bar { from, to, kind: kind.to_owned() })
    };
    let whole = Bar {
        from: Bar::millis(session.text("joined_at"))?,
        to: until(session.text("left_at"))?,
        kind: "session".into(),
    };
    let tracks = session.list("tracks").iter().filter_map(bar).collect();
    Some(Row { name: session.text("participant_identity").to_owned(), whole, tracks })
}

async fn one(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let session = visit.call("get_session", &project.id).path("id", &visit.param("id")).send().await?;
    let now = visit.state.clock.now().to_string();
    let path = format!("/projects/{}", project.id);
    let room = session.text("room");
    let content = html! {
        p { a href={ (path) "/sessions?room=" (room) } { "Sessions in " (room) } }
        h1 { (session.text("participant_identity")) " in " (room) }
        (facts(&[
            ("Room", html! { a href={ (path) "/rooms/" (room) } { (room) } }),
            ("Role", or_nothing(session.text("role"))),
            ("Joined", time(session.text("joined_at"))),
            ("Left", left(&session)),
            ("Length", html! { (length(session.whole("duration_seconds"))) }),
            ("Participant sid", html! { code { (session.text("participant_sid")) } }),
        ]))
        @if let Some(row) = timeline_row(&session, &now) { (timeline("The session and its tracks", &[row])) }
        h2 { "Tracks" }
        (tracks(&session))
    };
    Ok(visit.show(layout::page(&visit, Place::Project(&project, "/sessions"), "Session", &content)))
}

fn tracks(session: &Value) -> Markup {
    let row = |track: &Value| {
        vec![
            html! { (track.text("source").replace('_', " ")) },
            html! { (track.text("kind")) },
            html! { code { (track.text("track_sid")) } },
            time(track.text("started_at")),
            if track.text("ended_at").is_empty() { badge("live") } else { time(track.text("ended_at")) },
        ]
    };
    let rows: Vec<_> = session.list("tracks").iter().map(row).collect();
    if rows.is_empty() {
        return empty("The participant published no track.", "It has listened only.");
    }
    table("Tracks", &["Source", "Kind", "Track sid", "Started", "Ended"], &rows)
}
