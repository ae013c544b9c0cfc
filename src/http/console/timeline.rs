//! A timeline: a row for each session, with a bar for each of its tracks, as inline SVG.

use conclave_model::Timestamp;
use maud::{Markup, html};

/// Width of the picture and of its column of names, in units of its view box.
const WIDTH: f64 = 1_000.0;
const NAMES: f64 = 170.0;
/// Height of a row, and of a bar of a track.
const ROW: f64 = 30.0;
const BAR: f64 = 7.0;
/// Bars of tracks that one row has place for.
const MOST_TRACKS: usize = 3;
/// Characters of a name that are shown.
const NAME_LENGTH: usize = 20;

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
    let from = rows.iter().map(|row| row.whole.from).min().unwrap_or_default();
    let to = rows.iter().map(|row| row.whole.to).max().unwrap_or_default().max(from + 1_000);
    let scale = Scale { from, span: seconds(to - from) };
    let height = ROW * f64::from(u32::try_from(rows.len()).unwrap_or(u32::MAX)) + 22.0;
    html! {
        div.timeline role="group" tabindex="0" aria-label={ (name) ", as a timeline" } {
            svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label={ (name) "; the table below has the times" } {
                @for (at, row) in (0u32..).zip(rows) { (scale.row(row, ROW * f64::from(at))) }
                text.label x=(NAMES) y=(height - 6.0) { (clock(from)) }
                text.label.end x=(WIDTH) y=(height - 6.0) { (clock(to)) }
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

/// Where an instant is in the picture.
struct Scale {
    from: i64,
    /// Seconds from the left edge to the right one.
    span: f64,
}

impl Scale {
    fn x(&self, at: i64) -> f64 {
        let share = (seconds(at - self.from) / self.span).clamp(0.0, 1.0);
        NAMES + share * (WIDTH - NAMES)
    }

    fn row(&self, row: &Row, top: f64) -> Markup {
        let shown: String = row.name.chars().take(NAME_LENGTH).collect();
        html! {
            text.label x="0" y=(top + 18.0) { (shown) @if row.name.chars().count() > NAME_LENGTH { "…" } title { (row.name) } }
            (self.bar(&row.whole, top + 3.0, ROW - 6.0))
            @for (at, track) in (0u32..).zip(row.tracks.iter().take(MOST_TRACKS)) {
                (self.bar(track, top + 4.5 + f64::from(at) * BAR, BAR - 1.0))
            }
        }
    }

    fn bar(&self, bar: &Bar, y: f64, height: f64) -> Markup {
        let (from, to) = (self.x(bar.from), self.x(bar.to));
        html! {
            rect class={ "span " (bar.kind) } x={ (format!("{from:.1}")) } y={ (format!("{y:.1}")) }
                width={ (format!("{:.1}", (to - from).max(1.5))) } height={ (format!("{height:.1}")) } rx="2" {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_within_the_picture_and_a_name_is_no_markup() {
        let bar = |from, to, kind| Bar { from, to, kind };
        let row =
            Row { name: "<b>&".into(), whole: bar(1_000, 5_000, "session"), tracks: vec![bar(0, 9_000, "video")] };
        let text = timeline("Sessions", &[row]).into_string();
        assert!(text.contains("&lt;b&gt;&amp;") && !text.contains("<b>"), "{text}");
        assert_eq!(text.matches(r#"x="170.0" y"#).count(), 2, "{text}");
        assert_eq!(text.matches(r#"width="830.0""#).count(), 2, "{text}");
    }
}
