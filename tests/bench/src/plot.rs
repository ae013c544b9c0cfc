//! Curves as SVG with logarithmic axes, readable on light and dark pages.

use std::fmt::Write as _;

use crate::figure::{Curve, thousands};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
/// The margins: left, right (for the names), top, bottom.
const MARGINS: (f64, f64, f64, f64) = (64.0, 170.0, 36.0, 44.0);
/// Distinguishable with red-green colour blindness.
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

/// The powers of ten on an axis.
struct Axis {
    from: f64,
    to: f64,
    /// Positions of both ends.
    at: (f64, f64),
}

impl Axis {
    fn around(values: impl Iterator<Item = f64> + Clone, at: (f64, f64)) -> Self {
        let from = values.clone().fold(f64::INFINITY, f64::min).log10().floor();
        let to = values.fold(f64::NEG_INFINITY, f64::max).log10().ceil();
        Self {
            from,
            to: to.max(from + 1.0),
            at,
        }
    }

    fn position(&self, value: f64) -> f64 {
        let part = (value.log10() - self.from) / (self.to - self.from);
        self.at.0 + part * (self.at.1 - self.at.0)
    }

    /// Returns the powers of ten.
    fn marks(&self) -> impl Iterator<Item = f64> + use<> {
        (self.from as i32..=self.to as i32).map(|power| 10_f64.powi(power))
    }
}

/// Draws a curve.
pub fn svg(curve: &Curve) -> String {
    let (left, right, top, bottom) = MARGINS;
    let points = || {
        curve
            .lines
            .iter()
            .flat_map(|(_, points)| points.iter().copied())
    };
    let x = Axis::around(points().map(|point| point.0), (left, WIDTH - right));
    let y = Axis::around(points().map(|point| point.1), (HEIGHT - bottom, top));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\" role=\"img\" aria-label=\"{0}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{left}\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{0}</text>\n",
        curve.title
    );
    for mark in x.marks() {
        let at = x.position(mark);
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {top}V{:.1}\" stroke=\"#dddddd\"/>",
            y.at.0
        );
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y.at.0 + 16.0,
            thousands(mark)
        );
    }
    for mark in y.marks() {
        let at = y.position(mark);
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {at:.1}H{:.1}\" stroke=\"#dddddd\"/>",
            x.at.1
        );
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{mark} {}</text>",
            left - 6.0,
            at + 4.0,
            curve.unit
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        x.at.1,
        HEIGHT - 8.0,
        curve.size
    );
    for (number, (name, points)) in curve.lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let path: Vec<String> = points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x.position(point.0), y.position(point.1)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        let at = top + 14.0 + 18.0 * number as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{at:.1}\" fill=\"{colour}\">{name}</text>",
            x.at.1 + 12.0
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_axes_span_whole_powers_of_ten_and_hold_every_point() {
        let lines = vec![("a", vec![(1.0, 0.2), (100_000.0, 3.0)])];
        let svg = svg(&Curve {
            title: "Cost",
            size: "rooms",
            unit: "ms",
            lines,
        });
        for text in ["0.1 ms", "10 ms", "100,000", "<polyline points=\"64.0,"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert!(!svg.contains("NaN"));
    }
}
