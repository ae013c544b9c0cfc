//! Sessions: a list with a room's timeline, and one session with its tracks.
//!
//! A timeline is inline SVG: a row per session, with a bar per track. Names and times are text beside it, so that they are readable on
//! narrow screens.

use conclave_model::participant::TrackSource;
use conclave_model::{ProjectId, Timestamp};
use maud::{Markup, html};

use super::layout::{self, PagePosition};
use super::parts::{
    ROWS, badge, empty, facts, field, length, or_nothing, pager, select, table, time,
};
use super::quality;
use super::route::{self, Route};
use super::visit::{PageResult, Visit};
use crate::http::api::error::ApiError;
use crate::http::api::response::Json;
use crate::http::api::v1::sessions::{self, SessionDetail, SessionJson, SessionTrackJson};

pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/sessions", list),
        route::page("/projects/{project}/sessions/{id}", one),
    ]
}

async fn list(visit: Visit) -> PageResult {
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
    // A timeline makes sense only for the sessions of one room.
    let plotted = if room.is_some() {
        rows_of_timeline(&visit, &project.id, &listed.items).await?
    } else {
        Vec::new()
    };
    // Not above a filtered list, or above its later pages.
    let is_first = visit.offset() == 0 && room.is_none() && identity.is_none() && active.is_none();
    let worst = if is_first {
        quality::worst(&visit, &project.id).await?
    } else {
        html! {}
    };
    let content = html! {
        h1 { "Sessions" }
        (filters(&path, room.as_deref(), identity.as_deref(), active.as_deref()))
        (worst)
        @if let (Some(room), false) = (&room, plotted.is_empty()) {
            h2 { "Timeline of " (room) }
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
        PagePosition::Project(&project, "/sessions"),
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

/// Returns the sessions with their tracks, earliest first.
async fn rows_of_timeline(
    visit: &Visit,
    project: &ProjectId,
    listed: &[SessionJson],
) -> Result<Vec<TimelineRow>, ApiError> {
    let now = visit.state.clock.now();
    let mut rows = Vec::new();
    for session in listed.iter().rev() {
        // A call per session: at most `ROWS` on a page.
        let Json(detail) = visit
            .call(sessions::get, project)
            .path("id", &session.id.to_string())
            .send()
            .await?;
        rows.push(timeline_row(&detail, now));
    }
    Ok(rows)
}

fn timeline_row(SessionDetail { session, tracks }: &SessionDetail, now: Timestamp) -> TimelineRow {
    let bar = |from: Timestamp, to: Option<Timestamp>, kind| Bar {
        from: from.millis(),
        to: to.unwrap_or(now).millis(),
        kind,
    };
    let track = |track: &SessionTrackJson| {
        let kind = match track.source {
            // Screen audio belongs to the shared screen.
            TrackSource::ScreenShare | TrackSource::ScreenShareAudio => "screen",
            _ => track.kind.as_str(),
        };
        bar(track.started_at, track.ended_at, kind)
    };
    TimelineRow {
        name: session.participant_identity.to_string(),
        whole: bar(session.joined_at, session.left_at, "session"),
        tracks: tracks.iter().map(track).collect(),
    }
}

async fn one(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let Json(detail) = visit
        .call(sessions::get, &project.id)
        .path("id", &visit.param("id"))
        .send()
        .await?;
    let quality = quality::session(&visit, &project.id, detail.session.id).await?;
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
        (quality)
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/sessions"),
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
            "It was a listener only.",
        );
    }
    table(
        "Tracks",
        &["Source", "Kind", "Track sid", "Started", "Ended"],
        &rows,
    )
}

/// Width and height of a row's SVG in view box units. It is stretched to the page's width.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 24.0;
/// Track height, including the space below it.
const TRACK: f64 = 7.0;
/// Maximum tracks drawn per row.
const MAX_TRACKS: usize = 3;

/// Time span in a row.
struct Bar {
    /// Start, in milliseconds since 1970.
    pub from: i64,
    /// End, in milliseconds since 1970.
    pub to: i64,
    /// `session`, `audio`, `video` or `screen`.
    pub kind: &'static str,
}

/// Timeline row: a session with its tracks.
struct TimelineRow {
    /// The participant's identity.
    pub name: String,
    /// From the join to the end.
    pub whole: Bar,
    /// The session's tracks, drawn over its bar.
    pub tracks: Vec<Bar>,
}

/// Renders a timeline with its legend.
fn timeline(name: &str, rows: &[TimelineRow]) -> Markup {
    let from = rows
        .iter()
        .map(|row| row.whole.from)
        .min()
        .unwrap_or_default();
    let to = rows
        .iter()
        .map(|row| row.whole.to)
        .max()
        .unwrap_or_default()
        // At least a second, because positions are divided by the span.
        .max(from + 1_000);
    let scale = Scale {
        from,
        span: seconds(to - from),
    };
    html! {
        div.timeline role="group" aria-label={ (name) ", as a timeline; the table below has the times" } {
            @for row in rows { (scale.row(row)) }
            div {
                span {}
                span.ends { span { (instant(from, &clock(from))) } span { (instant(to, &end(from, to))) } }
            }
        }
        (legend())
    }
}

fn legend() -> Markup {
    html! {
        ul.legend aria-label="Colours" {
            @for (kind, name) in [("session", "in the room"), ("video", "camera"), ("audio", "audio"), ("screen", "screen")] {
                li {
                    svg viewBox="0 0 14 10" aria-hidden="true" { rect class={ "span " (kind) } width="14" height="10" rx="2" {} }
                    " " (name)
                }
            }
        }
    }
}

/// The timeline's horizontal scale.
struct Scale {
    from: i64,
    /// Seconds from the left to the right edge.
    span: f64,
}

impl Scale {
    fn x(&self, at: i64) -> f64 {
        WIDTH * (seconds(at - self.from) / self.span).clamp(0.0, 1.0)
    }

    fn row(&self, row: &TimelineRow) -> Markup {
        html! {
            div {
                span.name title=(row.name) { (row.name) }
                // Hidden from screen readers, which have the table.
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
                    (self.bar(&row.whole, 0.0, HEIGHT))
                    // More would not fit into a row's height.
                    @for (at, track) in (0u32..).zip(row.tracks.iter().take(MAX_TRACKS)) {
                        (self.bar(track, 1.5 + f64::from(at) * TRACK, TRACK - 1.0))
                    }
                }
            }
        }
    }

    fn bar(&self, bar: &Bar, y: f64, height: f64) -> Markup {
        let (from, to) = (self.x(bar.from), self.x(bar.to));
        html! {
            // A short track stays visible.
            rect class={ "span " (bar.kind) } x={ (format!("{from:.1}")) } y={ (format!("{y:.1}")) }
                width={ (format!("{:.1}", (to - from).max(1.5))) } height={ (format!("{height:.1}")) } {
                title { (bar.kind) ": " (clock(bar.from)) " to " (clock(bar.to)) " UTC" }
            }
        }
    }
}

/// Converts milliseconds to seconds.
fn seconds(millis: i64) -> f64 {
    std::time::Duration::from_millis(u64::try_from(millis).unwrap_or_default()).as_secs_f64()
}

/// Formats an instant as day and time.
fn clock(millis: i64) -> String {
    let text = Timestamp::from_millis(millis).to_string();
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

/// Renders an instant as `text`.
fn instant(millis: i64, text: &str) -> Markup {
    html! { time datetime=(Timestamp::from_millis(millis)) { (text) } }
}

/// Formats the end of a span: only the time if it is on the start's day.
fn end(from: i64, to: i64) -> String {
    let (begin, end) = (clock(from), clock(to));
    match (begin.split_once(' '), end.split_once(' ')) {
        (Some((day, _)), Some((same, time))) if day == same => time.to_owned(),
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_within_the_picture_and_a_name_is_no_markup() {
        let bar = |from, to, kind| Bar { from, to, kind };
        let row = TimelineRow {
            name: "<b>&".into(),
            whole: bar(1_000, 5_000, "session"),
            tracks: vec![bar(0, 9_000, "video")],
        };
        let text = timeline("Sessions", &[row]).into_string();
        assert!(
            text.contains("&lt;b&gt;&amp;") && !text.contains("<b>"),
            "{text}"
        );
        assert_eq!(text.matches(r#"x="0.0" y"#).count(), 2, "{text}");
        assert_eq!(text.matches(r#"width="1000.0""#).count(), 2, "{text}");
        for end in ["1970-01-01 00:00:01", "00:00:05"] {
            assert!(text.contains(&format!(">{end}</time>")), "{text}");
        }
    }

    #[test]
    fn the_end_has_its_day_if_that_is_another_one() {
        let day = 24 * 3_600_000;
        assert_eq!(
            (end(0, day - 1_000), end(0, day)),
            ("23:59:59".to_owned(), "1970-01-02 00:00:00".to_owned())
        );
    }
}
