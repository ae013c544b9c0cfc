//! Quality of sessions: the plots of one session, and a project's worst sessions today.

use conclave_model::page::PageRequest;
use conclave_model::quality::MediaConnection;
use conclave_model::{ProjectId, SessionId, Timestamp};
use maud::{Markup, html};

use super::parts::{empty, facts, nothing, or_nothing, table, time};
use super::visit::Visit;
use crate::http::api::error::ApiError;
use crate::http::api::ext::quality::{
    self, DirectionQuality, MeasuredSessionJson, SessionQuality, SessionQualitySample,
    SessionQualitySummary,
};
use crate::http::api::response::Json;

/// Pages of samples that are plotted: the last two and a half hours.
const PAGES: u32 = 5;
/// Sessions in the list of the worst ones.
const WORST: u32 = 5;
/// Width and height of a plot in view box units. It is stretched to the page's width.
const SIZE: (f64, f64) = (720.0, 64.0);
/// Longest interval between two samples that a line bridges, in milliseconds: one sample may be missing.
const GAP: i64 = 25_000;

/// Renders a session's summary and plots.
pub async fn session(
    visit: &Visit,
    project: &ProjectId,
    session: SessionId,
) -> Result<Markup, ApiError> {
    let id = session.to_string();
    let Json(SessionQuality { summary, .. }) = visit
        .call(quality::get, project)
        .path("id", &id)
        .send()
        .await?;
    let samples = samples(visit, project, &id).await?;
    let Some(summary) = summary else {
        return Ok(html! {
            h2 { "Quality" }
            (empty(
                "Nothing was measured.",
                "The embedded media plane measures the sessions of WebRTC clients and encoders, from their first ten seconds on.",
            ))
        });
    };
    Ok(html! {
        h2 { "Quality" }
        (summary_facts(&summary))
        (table(
            "Media by direction",
            &["Media", "Packets", "Lost", "Jitter", "Bitrate", "Largest video", "Freezes", "Layer changes", "Codecs"],
            &[direction("From the client", &summary.sent), direction("To the client", &summary.received)],
        ))
        (plots(&samples))
    })
}

/// Renders a project's worst sessions today; nothing if none was measured.
pub async fn worst(visit: &Visit, project: &ProjectId) -> Result<Markup, ApiError> {
    let worst = visit
        .call(quality::list_worst, project)
        .page(WORST, 0)
        .send()
        .await?;
    let rows: Vec<_> = worst
        .items
        .iter()
        .map(|measured| worst_row(project, measured))
        .collect();
    Ok(html! {
        @if !rows.is_empty() {
            h2 { "Worst sessions today" }
            (table("Worst sessions today", &["Participant", "Room", "Joined", "Score", "Lost", "Round trip", "Freezes", "Reconnects"], &rows))
            h2 { "All sessions" }
        }
    })
}

fn worst_row(project: &ProjectId, measured: &MeasuredSessionJson) -> Vec<Markup> {
    let (session, quality) = (&measured.session, &measured.quality);
    let path = format!("/projects/{project}");
    vec![
        html! { a href={ (path) "/sessions/" (session.id) } { (session.participant_identity) } },
        html! { a href={ (path) "/rooms/" (session.room) } { (session.room) } },
        time(session.joined_at),
        or_nothing(quality.score.map(two_digits)),
        html! { (percent(quality.sent.loss.max(quality.received.loss))) },
        millis(quality.round_trip_ms),
        html! { (quality.received.freezes) },
        html! { (quality.reconnects.total) },
    ]
}

/// Reads the last samples, oldest first.
async fn samples(
    visit: &Visit,
    project: &ProjectId,
    session: &str,
) -> Result<Vec<SessionQualitySample>, ApiError> {
    let limit = PageRequest::MAX_LIMIT;
    let mut samples = Vec::new();
    for page in 0..PAGES {
        let listed = visit
            .call(quality::list_samples, project)
            .path("id", session)
            .page(limit, u64::from(page * limit))
            .send()
            .await?;
        samples.extend(listed.items);
        if !listed.has_more {
            break;
        }
    }
    samples.reverse();
    Ok(samples)
}

fn summary_facts(summary: &SessionQualitySummary) -> Markup {
    let connection = summary.connection.map(|connection| match connection {
        MediaConnection::Udp => "UDP",
        MediaConnection::Tcp => "TCP",
        MediaConnection::Turn => "TURN",
    });
    let client = summary.client.as_ref().map(|client| {
        let texts = [&client.sdk, &client.version, &client.browser, &client.os];
        let known: Vec<_> = texts
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(String::as_str)
            .collect();
        known.join(", ")
    });
    let reconnects = &summary.reconnects;
    let reasons = [
        ("signalling", reconnects.signal),
        ("publishing", reconnects.publisher),
        ("receiving", reconnects.subscriber),
        ("another network", reconnects.candidate),
    ];
    let reasons: Vec<_> = reasons
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    facts(&[
        (
            "Mean score",
            html! { (or_nothing(summary.score.map(two_digits))) " of 4.5, at least " (or_nothing(summary.lowest_score.map(two_digits))) },
        ),
        (
            "Round trip",
            html! { (millis(summary.round_trip_ms)) ", at most " (millis(summary.max_round_trip_ms)) },
        ),
        ("Connection", or_nothing(connection)),
        ("Client", or_nothing(client)),
        ("Interruptions", html! { (summary.interruptions) }),
        (
            "Reconnects",
            html! { (reconnects.total) @if !reasons.is_empty() { " (" (reasons.join(", ")) ")" } },
        ),
        (
            "Failure",
            or_nothing(
                summary
                    .failure
                    .as_deref()
                    .map(|failure| failure.replace('_', " ")),
            ),
        ),
    ])
}

fn direction(name: &str, quality: &DirectionQuality) -> Vec<Markup> {
    let video = || {
        html! {
            (quality.width) "×" (quality.height)
            @if let Some(rate) = quality.frame_rate { ", " (rate) "/s" }
        }
    };
    vec![
        html! { (name) },
        html! { (quality.packets) },
        html! { (percent(quality.loss)) },
        millis(quality.jitter_ms),
        html! { (quality.kbps) " kbit/s" },
        if quality.width > 0 {
            video()
        } else {
            or_nothing(quality.frame_rate.map(|rate| format!("{rate}/s")))
        },
        html! { (quality.freezes) @if quality.frozen_ms > 0 { ", " (format!("{:.1}", seconds(quality.frozen_ms))) " s" } },
        html! { (quality.layer_switches) },
        html! { (quality.codecs.join(", ")) },
    ]
}

fn millis(number: Option<u32>) -> Markup {
    number.map_or_else(nothing, |number| html! { (number) " ms" })
}

fn seconds(millis: u64) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}

fn two_digits(number: f64) -> String {
    format!("{number:.2}")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Value of a sample; `None` if it was not measured.
type Value = fn(&SessionQualitySample) -> Option<f64>;

/// Plots: name, unit, smallest top of the scale, digits, and one or two lines.
const PLOTS: [(&str, &str, f64, usize, &[Value]); 4] = [
    ("Score", "", 4.5, 2, &[|sample| sample.score]),
    (
        "Packets lost: from the client, and dashed to it",
        " %",
        5.0,
        1,
        &[
            |sample| Some(sample.sent.loss * 100.0),
            |sample| Some(sample.received.loss * 100.0),
        ],
    ),
    (
        "Round trip",
        " ms",
        200.0,
        0,
        &[|sample| sample.round_trip_ms.map(f64::from)],
    ),
    (
        "Bitrate: from the client, and dashed to it",
        " kbit/s",
        100.0,
        0,
        &[
            |sample| Some(f64::from(sample.sent.kbps)),
            |sample| Some(f64::from(sample.received.kbps)),
        ],
    ),
];

/// Renders the plots of samples, which are oldest first.
fn plots(samples: &[SessionQualitySample]) -> Markup {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return html! { p.help { "The samples were deleted because of quality.retention." } };
    };
    html! {
        @for (name, unit, top, digits, values) in PLOTS {
            (plot((name, unit, digits), top, values, samples))
        }
        p.help { "From " (time(first.at)) " to " (time(last.at)) ", a value for each ten seconds." }
    }
}

fn plot(
    (name, unit, digits): (&str, &str, usize),
    top: f64,
    values: &[Value],
    samples: &[SessionQualitySample],
) -> Markup {
    let measured = || {
        samples
            .iter()
            .flat_map(|sample| values.iter().filter_map(|value| value(sample)))
    };
    let (lowest, highest) = (
        measured().fold(f64::INFINITY, f64::min),
        measured().fold(0.0, f64::max),
    );
    if lowest.is_infinite() {
        return html! {};
    }
    let caption =
        format!("{name}; lowest {lowest:.digits$}{unit}, highest {highest:.digits$}{unit}");
    let (width, height) = SIZE;
    let classes = ["line", "line second"];
    html! {
        figure.plot.wide.low {
            svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(caption) preserveAspectRatio="none" {
                line.axis x1="0" x2=(width) y1=(height - 1.0) y2=(height - 1.0) {}
                @for (value, class) in values.iter().zip(classes) {
                    @for points in lines(samples, *value, top.max(highest)) {
                        polyline class=(class) points=(points) {}
                    }
                }
            }
            figcaption { (caption) }
        }
    }
}

/// Returns the points of lines through the values, interrupted where samples are missing.
fn lines(samples: &[SessionQualitySample], value: Value, top: f64) -> Vec<String> {
    let (width, height) = SIZE;
    let at = |sample: &SessionQualitySample| sample.at.millis();
    let (from, to) = (samples.first().map_or(0, at), samples.last().map_or(0, at));
    let span = seconds_between(from, to).max(1.0);
    let (mut lines, mut before) = (Vec::<Vec<String>>::new(), None::<i64>);
    for sample in samples {
        let Some(value) = value(sample) else {
            continue;
        };
        let x = width * seconds_between(from, at(sample)) / span;
        // Two units of margin, so that the line's width stays visible at top and bottom.
        let y = height - 2.0 - value / top * (height - 4.0);
        if before.is_none_or(|before| at(sample) - before > GAP) {
            lines.push(Vec::new());
        }
        before = Some(at(sample));
        if let Some(line) = lines.last_mut() {
            line.push(format!("{x:.1},{y:.1}"));
        }
    }
    lines.into_iter().map(|points| points.join(" ")).collect()
}

fn seconds_between(from: i64, to: i64) -> f64 {
    Timestamp::from_millis(to)
        .since(Timestamp::from_millis(from))
        .as_secs_f64()
}

#[cfg(test)]
mod tests {
    use conclave_db::StoredSample;
    use conclave_model::quality::QualitySample;

    use super::*;

    fn sample(second: i64, score: u32) -> SessionQualitySample {
        SessionQualitySample::from(StoredSample {
            at: Timestamp::from_millis(second * 1_000),
            sample: QualitySample {
                score: Some(score),
                ..QualitySample::default()
            },
        })
    }

    #[test]
    fn a_line_spans_the_plot_and_is_interrupted_where_samples_are_missing() {
        let samples = [
            sample(0, 450),
            sample(10, 450),
            sample(90, 0),
            sample(100, 225),
        ];
        let lines = lines(&samples, PLOTS[0].4[0], 4.5);
        assert_eq!(lines, ["0.0,2.0 72.0,2.0", "648.0,62.0 720.0,32.0"]);
    }

    #[test]
    fn plots_without_values_are_left_out() {
        let text = plots(&[sample(0, 431), sample(10, 420)]).into_string();
        assert!(text.contains("lowest 4.20, highest 4.31"), "{text}");
        assert!(!text.contains("Round trip"), "{text}");
        assert!(plots(&[]).into_string().contains("quality.retention"));
    }
}
