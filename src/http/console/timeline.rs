//! A timeline: a row for each session, with a bar for each of its tracks, as inline SVG. Names and times are text beside it, so that they
//! are readable on narrow screens.

use conclave_model::Timestamp;
use maud::{Markup, html};

/// Width and height of the picture of a row, in units of its view box. It is stretched to the width of the page.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 24.0;
/// Height of a track with the space below it.
const TRACK: f64 = 7.0;
/// Tracks that one row has place for.
const MOST_TRACKS: usize = 3;

/// A stretch of time, in milliseconds since the epoch.
pub struct Bar {
    /// The begin, in milliseconds since 1970.
    pub from: i64,
    /// The end, in milliseconds since 1970.
    pub to: i64,
    /// `session`, `audio`, `video` or `screen`.
    pub kind: &'static str,
}

/// A row of the timeline: a session with its tracks.
pub struct Row {
    /// The participant's identity.
    pub name: String,
    /// From its join to its end.
    pub whole: Bar,
    /// The tracks of the session, as bars below that of the session.
    pub tracks: Vec<Bar>,
}

/// A timeline with its legend.
pub fn timeline(name: &str, rows: &[Row]) -> Markup {
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
                span.ends { span { (clock(from)) } span { (end(from, to)) } }
            }
        }
        (legend())
    }
}

fn legend() -> Markup {
    html! {
        ul.legend aria-label="Colours" {
            @for (kind, name) in [("session", "in the room"), ("video", "camera"), ("audio", "sound"), ("screen", "screen")] {
                li {
                    svg viewBox="0 0 14 10" aria-hidden="true" { rect class={ "span " (kind) } width="14" height="10" rx="2" {} }
                    " " (name)
                }
            }
        }
    }
}

/// Where an instant is in the picture of a row.
struct Scale {
    from: i64,
    /// Seconds from the left edge to the right one.
    span: f64,
}

impl Scale {
    fn x(&self, at: i64) -> f64 {
        WIDTH * (seconds(at - self.from) / self.span).clamp(0.0, 1.0)
    }

    fn row(&self, row: &Row) -> Markup {
        html! {
            div {
                span.name title=(row.name) { (row.name) }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
                    (self.bar(&row.whole, 0.0, HEIGHT))
                    @for (at, track) in (0u32..).zip(row.tracks.iter().take(MOST_TRACKS)) {
                        (self.bar(track, 1.5 + f64::from(at) * TRACK, TRACK - 1.0))
                    }
                }
            }
        }
    }

    fn bar(&self, bar: &Bar, y: f64, height: f64) -> Markup {
        let (from, to) = (self.x(bar.from), self.x(bar.to));
        html! {
            rect class={ "span " (bar.kind) } x={ (format!("{from:.1}")) } y={ (format!("{y:.1}")) }
                width={ (format!("{:.1}", (to - from).max(1.5))) } height={ (format!("{height:.1}")) } {
                title { (bar.kind) ": " (clock(bar.from)) " to " (clock(bar.to)) }
            }
        }
    }
}

/// A length of time in seconds.
fn seconds(millis: i64) -> f64 {
    std::time::Duration::from_millis(u64::try_from(millis).unwrap_or_default()).as_secs_f64()
}

/// An instant as day and time of day.
fn clock(millis: i64) -> String {
    let text = Timestamp::from_millis(millis).to_string();
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

/// The end of a span of time: the time of day is enough if it is on the day of the begin.
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
        let row = Row {
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
            assert!(text.contains(&format!("<span>{end}</span>")), "{text}");
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
