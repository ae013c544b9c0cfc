//! Parts that several pages use: tables, badges, times, forms, empty states and plots.
//!
//! Plots are inline SVG, each with a sentence that describes it for screen readers.

use std::fmt::Display;

use conclave_model::Timestamp;
use maud::{Markup, html};
use serde_json::Value;
use serde_json::value::RawValue;

use super::visit::{OFFSET, Visit, page_path};

/// Rows per list page.
pub const ROWS: u32 = 50;

/// Renders a status as a word, coloured by its meaning.
pub fn badge(word: &str) -> Markup {
    // One mapping for all pages, so that a word has one colour everywhere.
    let meaning = match word {
        "open" | "active" | "standby" | "ok" | "included" | "running" | "delivered"
        | "complete" | "publishing" | "connected" | "live" | "good" | "excellent" => "good",
        "pending"
        | "starting"
        | "ending"
        | "joining"
        | "joined"
        | "busy"
        | "restarting"
        | "buffering"
        | "fair"
        | "exceeded"
        | "limit_reached"
        | "old"
        | "waiting_for_upgrade" => "warn",
        "failed" | "aborted" | "error" | "suspended" | "unavailable" | "revoked" | "expired"
        | "poor" | "failing" | "disabled" | "wrong_keys" => "bad",
        // Unknown words are shown without a judgement.
        _ => "idle",
    };
    html! { span class={ "badge " (meaning) } { (word.replace('_', " ")) } }
}

/// Renders an instant for quick reading.
pub fn time(at: impl Into<Option<Timestamp>>) -> Markup {
    let Some(at) = at.into() else {
        return nothing();
    };
    let text = at.to_string();
    let (day, rest) = text.split_once('T').unwrap_or((&text, ""));
    // Seconds suffice on a page; the attribute has the exact instant.
    html! { time datetime=(text) { (day) " " (rest.get(..8).unwrap_or(rest)) } }
}

/// Renders a future instant, which counts down if scripts run.
pub fn countdown(at: Timestamp) -> Markup {
    html! { time.until datetime=(at) data-until=(at) { (time(at)) } }
}

/// Renders the placeholder for an absent value.
pub fn nothing() -> Markup {
    // A dash for the eye, a word for screen readers.
    html! { span.none { span aria-hidden="true" { "–" } span.unseen { "none" } } }
}

/// Renders a value, or the placeholder.
pub fn or_nothing(value: Option<impl Display>) -> Markup {
    value.map_or_else(nothing, |value| html! { (value) })
}

/// Formats JSON with one value per line. JSON that serde cannot represent, because it nests too deep or has unusual numbers or
/// characters, stays as it is.
pub fn pretty(json: &RawValue) -> String {
    let value = serde_json::from_str::<Value>(json.get());
    value
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| json.get().to_owned())
}

/// Renders a table. Each row has a cell per column. On narrow screens, a row becomes a list of names and values.
pub fn table(caption: &str, columns: &[&str], rows: &[Vec<Markup>]) -> Markup {
    html! {
        table {
            // Hidden, because a heading names the table visibly.
            caption.unseen { (caption) }
            thead { tr { @for column in columns { th scope="col" { (column) } } } }
            tbody {
                @for row in rows {
                    // On narrow screens, the style sheet shows the column's name from this attribute.
                    tr { @for (cell, column) in row.iter().zip(columns) { td data-label=(column) { div { (cell) } } } }
                }
            }
        }
    }
}

/// Renders names with their values.
pub fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! { dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
}

/// Renders an empty list: what it would contain, and how entries get there.
pub fn empty(what: &str, how: &str) -> Markup {
    html! { div.empty { p { strong { (what) } } p { (how) } } }
}

/// Renders links to the next and previous page of a list that starts with the newest entry, with the same filters.
pub fn pager(visit: &Visit, offset: u64, has_more: bool) -> Markup {
    pager_with_names(visit, offset, has_more, ["Newer", "Older"])
}

/// Renders links to the next and previous page of a list that starts with the oldest entry.
pub fn history_pager(visit: &Visit, offset: u64, has_more: bool) -> Markup {
    pager_with_names(visit, offset, has_more, ["Earlier", "Later"])
}

/// Renders links to the next and previous page of a list, with the same filters. `names` are the texts of the links: backward, forward.
pub fn pager_with_names(visit: &Visit, offset: u64, has_more: bool, names: [&str; 2]) -> Markup {
    links(offset, has_more, names, |offset| {
        page_path(&visit.request, Some((OFFSET, &offset.to_string())))
    })
}

/// Renders links to the next and previous page of a list in a section of the page, which starts with the newest entry. The section's id
/// is also the query parameter for the rows to skip.
pub fn section_pager(visit: &Visit, id: &str, has_more: bool) -> Markup {
    let names = ["Newer", "Older"];
    links(visit.offset_in(id), has_more, names, |offset| {
        let path = page_path(&visit.request, Some((id, &offset.to_string())));
        format!("{path}#{id}")
    })
}

fn links(
    offset: u64,
    has_more: bool,
    [backward, forward]: [&str; 2],
    to: impl Fn(u64) -> String,
) -> Markup {
    html! {
        @if offset > 0 || has_more {
            nav.pager aria-label="Pages of the list" {
                @if offset > 0 { a rel="prev" href=(to(offset.saturating_sub(u64::from(ROWS)))) { (backward) } }
                @if has_more { a rel="next" href=(to(offset + u64::from(ROWS))) { (forward) } }
            }
        }
    }
}

/// Renders a form for an action. With scripts, a failure is shown without leaving the page.
pub fn form(visit: &Visit, path: &str, content: &Markup) -> Markup {
    html! {
        // Disabled while the request runs, so that a double click does not repeat the action.
        form method="post" action=(path) hx-post=(path) hx-target="#notice" hx-disabled-elt="find button" {
            input type="hidden" name="csrf" value=(visit.operator.csrf);
            (content)
        }
    }
}

/// Renders a button for an action. Its id keeps the focus across a refresh. `about` names its object for screen readers.
pub fn button(visit: &Visit, path: &str, label: &str, about: &str) -> Markup {
    form(
        visit,
        path,
        &html! { button type="submit" id=(path) aria-label={ (label) ": " (about) } { (label) } },
    )
}

/// Renders a button for an irreversible action, with a confirmation.
pub fn danger(visit: &Visit, path: &str, label: &str, question: &str) -> Markup {
    form(
        // A script asks the question; without scripts, the button acts at once.
        visit,
        path,
        &html! {
            button.danger type="submit" id=(path) aria-label={ (label) ": " (question) } data-confirm=(question) { (label) }
        },
    )
}

/// Renders a labelled input.
pub fn field(id: &str, label: &str, input: &Markup, help: &str) -> Markup {
    html! {
        p.field {
            label for=(id) { (label) }
            (input)
            @if !help.is_empty() { small { (help) } }
        }
    }
}

/// Renders a choice.
pub fn select(id: &str, name: &str, options: &[(&str, &str)], chosen: &str) -> Markup {
    html! {
        select id=(id) name=(name) {
            @for (value, label) in options { option value=(value) selected[*value == chosen] { (label) } }
        }
    }
}

/// Renders a part of a page that refreshes every `seconds`, while the page is visible and no input in it is being edited.
pub fn live(visit: &Visit, id: &str, seconds: u32, content: &Markup) -> Markup {
    let query = visit.request.query_string();
    let path = visit.request.path();
    let path = if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    };
    html! {
        // The page itself is requested and this part selected from it, so that a part needs no route of its own.
        // The id lets the refreshed part replace this one.
        div id=(id) data-every=(seconds) hx-get=(path) hx-trigger="refresh" hx-select={ "#" (id) } hx-swap="outerHTML" {
            (content)
        }
    }
}

/// Renders a secret, which is shown only this once.
pub fn secret(label: &str, value: &str) -> Markup {
    html! {
        div.secret {
            p { strong { (label) } " is shown this once. Store it now." }
            // Copied by a script, as selecting a long secret is error-prone.
            p.copy { code #secret { (value) } button type="button" data-copy="#secret" { "Copy" } }
        }
    }
}

/// Formats minutes, with one decimal below 10.
pub fn minutes(minutes: f64) -> String {
    if minutes < 10.0 {
        format!("{minutes:.1}")
    } else {
        format!("{minutes:.0}")
    }
}

/// Formats an integer in groups of three digits, separated by narrow no-break spaces.
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if number < 0 {
        format!("−{text}")
    } else {
        text
    }
}

/// Formats a duration in its two largest units.
pub fn length(seconds: u64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Width and height for a small plot, in view box units.
const SMALL: (f64, f64) = (240.0, 48.0);
/// Minimum points for a line.
// Fewer points would draw a line that shows nothing.
const MIN_POINTS: usize = 3;
/// Size of a plot by day.
const DAYS: (f64, f64) = (720.0, 160.0);

/// Renders a line through `values`, oldest first and at most `most`; the newest is at the right edge.
pub fn line(name: &str, values: &[u32], most: usize) -> Markup {
    let (width, height) = SMALL;
    // At least 1, because the values are divided by it.
    let top = f64::from(values.iter().copied().max().unwrap_or(0).max(1));
    let step = width / f64::from(u32::try_from(most.max(2) - 1).unwrap_or(u32::MAX));
    let point = |(back, value): (u32, &u32)| {
        let x = width - step * f64::from(back);
        // Two units of margin, so that the line's width stays visible at top and bottom.
        let y = height - 2.0 - f64::from(*value) / top * (height - 4.0);
        format!("{x:.1},{y:.1}")
    };
    let points: Vec<String> = (0u32..).zip(values.iter().rev()).map(point).collect();
    let (now, highest) = (
        values.last().copied().unwrap_or(0),
        values.iter().copied().max().unwrap_or(0),
    );
    let description = format!("{name}, the last day: now {now}, at most {highest}");
    if points.len() < MIN_POINTS {
        return html! { p.help { "A plot of the last day comes here, with a point every five minutes." } };
    }
    html! {
        figure.plot {
            // Stretched to the tile, so the aspect ratio is not kept.
            svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(description) preserveAspectRatio="none" {
                line.axis x1="0" x2=(width) y1=(height - 1.0) y2=(height - 1.0) {}
                polyline.line points=(points.join(" ")) {}
            }
            figcaption { "Last day, at most " (highest) }
        }
    }
}

/// Renders a bar per day.
pub fn bars(name: &str, days: &[(String, f64)]) -> Markup {
    let (width, height) = DAYS;
    let top = days.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let count = f64::from(u32::try_from(days.len().max(1)).unwrap_or(u32::MAX));
    let step = width / count;
    let bar = |value: f64| {
        if top > 0.0 {
            value / top * (height - 4.0)
        } else {
            // A month without use has only zeros.
            0.0
        }
    };
    html! {
        figure.plot.wide {
            svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label={ (name) ", by day; the table below has the numbers" }
                preserveAspectRatio="none" {
                line.axis x1="0" x2=(width) y1=(height - 1.0) y2=(height - 1.0) {}
                @for (at, (day, value)) in (0u32..).zip(days) {
                    rect.bar x={ (format!("{:.1}", step * f64::from(at) + step * 0.1)) } y={ (format!("{:.1}", height - 1.0 - bar(*value))) }
                        width={ (format!("{:.1}", step * 0.8)) } height={ (format!("{:.1}", bar(*value))) } {
                        title { (day) ": " (format!("{value:.1}")) }
                    }
                }
            }
            @if let (Some((first, _)), Some((last, _))) = (days.first(), days.last()) {
                div.ends { span { (first) } span { (last) } }
            }
            figcaption { (name) ", at most " (format!("{top:.1}")) " in a day" }
        }
    }
}
