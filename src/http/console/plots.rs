//! Plots as inline SVG. Each has a sentence that says the same to those who do not see it.

use maud::{Markup, html};

/// Width and height of a small plot, in units of its view box.
const SMALL: (f64, f64) = (240.0, 48.0);
/// Points with which a line is plotted.
const FEWEST: usize = 3;
/// Width and height of a plot of days.
const DAYS: (f64, f64) = (720.0, 160.0);

/// A line through `values`, oldest first, of which there are at most `most`; the newest is at the right edge.
pub fn line(name: &str, values: &[u32], most: usize) -> Markup {
    let (width, height) = SMALL;
    let top = f64::from(values.iter().copied().max().unwrap_or(0).max(1));
    let step = width / f64::from(u32::try_from(most.max(2) - 1).unwrap_or(u32::MAX));
    let point = |(back, value): (u32, &u32)| {
        let x = width - step * f64::from(back);
        let y = height - 2.0 - f64::from(*value) / top * (height - 4.0);
        format!("{x:.1},{y:.1}")
    };
    let points: Vec<String> = (0u32..).zip(values.iter().rev()).map(point).collect();
    let (now, highest) = (
        values.last().copied().unwrap_or(0),
        values.iter().copied().max().unwrap_or(0),
    );
    let said = format!("{name}, the last day: now {now}, at most {highest}");
    if points.len() < FEWEST {
        return html! { p.help { "A plot of the last day comes here, with a point every five minutes." } };
    }
    html! {
        figure.plot {
            svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(said) preserveAspectRatio="none" {
                line.axis x1="0" x2=(width) y1=(height - 1.0) y2=(height - 1.0) {}
                polyline.line points=(points.join(" ")) {}
            }
            figcaption { "Last day, at most " (highest) }
        }
    }
}

/// A bar for each day: its name and its value.
pub fn bars(name: &str, days: &[(String, f64)]) -> Markup {
    let (width, height) = DAYS;
    let top = days.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let count = f64::from(u32::try_from(days.len().max(1)).unwrap_or(u32::MAX));
    let step = width / count;
    let bar = |value: f64| {
        if top > 0.0 {
            value / top * (height - 4.0)
        } else {
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
