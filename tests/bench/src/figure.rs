//! Results: figures with their limits, in tables, and curves.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Results for one part.
pub struct Section {
    pub title: &'static str,
    /// The measurement's subject and reference, in a sentence or two.
    pub about: &'static str,
    pub figures: Vec<Figure>,
    pub curves: Vec<Curve>,
}

/// A measured value with its bound.
pub struct Figure {
    pub name: String,
    pub value: f64,
    pub unit: Unit,
    /// Bound for the value, if there is one.
    pub bound: Option<Bound>,
    /// Details, as in `61,000 of 155,000 requests/s`.
    pub note: String,
}

/// Notation for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Relative to the ceiling.
    Ratio,
    Microseconds,
    Milliseconds,
    Seconds,
    PerSecond,
    KibiBytes,
    Percent,
    /// A count.
    Count,
}

/// A value's bound.
#[derive(Clone, Copy)]
pub enum Bound {
    AtLeast(f64),
    Under(f64),
}

/// A cost's growth: points with size and cost, for each line.
pub struct Curve {
    pub title: &'static str,
    pub size: &'static str,
    /// Unit for the cost.
    pub unit: &'static str,
    pub lines: Vec<(&'static str, Vec<(f64, f64)>)>,
}

impl Figure {
    pub fn new(name: impl Into<String>, value: f64, unit: Unit) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            bound: None,
            note: String::new(),
        }
    }

    pub fn at_least(mut self, bound: f64) -> Self {
        self.bound = Some(Bound::AtLeast(bound));
        self
    }

    pub fn under(mut self, bound: f64) -> Self {
        self.bound = Some(Bound::Under(bound));
        self
    }

    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    pub fn passes(&self) -> bool {
        match self.bound {
            Some(Bound::AtLeast(bound)) => self.value >= bound,
            Some(Bound::Under(bound)) => self.value < bound,
            None => true,
        }
    }

    /// Returns whether a higher value is better: according to its bound or, without one, for rates.
    pub fn is_better_when_higher(&self) -> bool {
        match self.bound {
            Some(Bound::AtLeast(_)) => true,
            Some(Bound::Under(_)) => false,
            None => matches!(self.unit, Unit::PerSecond),
        }
    }

    /// Returns whether a value that is higher by this percentage is worse by more than `tolerance` percent.
    pub fn is_worse_by(&self, percent: f64, tolerance: f64) -> bool {
        if self.is_better_when_higher() {
            percent < -tolerance
        } else {
            percent > tolerance
        }
    }

    /// Returns columns in a table: name, value, bound, note.
    pub fn columns(&self) -> [String; 4] {
        let bound = match self.bound {
            Some(Bound::AtLeast(bound)) => format!("at least {}", self.unit.write(bound)),
            Some(Bound::Under(bound)) => format!("under {}", self.unit.write(bound)),
            None => String::new(),
        };
        let missed = if self.passes() { "" } else { " (missed)" };
        [
            self.name.clone(),
            self.unit.write(self.value),
            format!("{bound}{missed}"),
            self.note.clone(),
        ]
    }
}

impl Unit {
    /// Returns whether a value hardly changes from minute to minute: a ratio to a program measured alongside, and processor time.
    pub fn is_steady(self) -> bool {
        matches!(self, Self::Ratio | Self::Microseconds)
    }

    /// Formats a value with this unit for people.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.2}"),
            Self::Microseconds => format!("{value:.2} µs"),
            Self::Milliseconds => format!("{value:.2} ms"),
            Self::Seconds => format!("{value:.2} s"),
            Self::PerSecond => format!("{}/s", thousands(value)),
            Self::KibiBytes => format!("{value:.2} KiB"),
            Self::Percent => format!("{value:.2} %"),
            Self::Count => thousands(value),
        }
    }
}

impl Section {
    pub fn passes(&self) -> bool {
        self.figures.iter().all(Figure::passes)
    }

    /// Returns a figure's value.
    pub fn value(&self, name: &str) -> Option<f64> {
        let figure = self.figures.iter().find(|figure| figure.name == name);
        figure.map(|figure| figure.value)
    }

    /// Returns the figures as JSON.
    pub fn to_json(&self) -> Value {
        let figure = |figure: &Figure| {
            let [_, text, bound, note] = figure.columns();
            json!({"name": figure.name, "value": figure.value, "text": text, "bound": bound, "note": note, "passes": figure.passes()})
        };
        json!({"title": self.title, "figures": self.figures.iter().map(figure).collect::<Vec<_>>()})
    }

    /// Returns the table for terminals.
    pub fn text(&self) -> String {
        let rows: Vec<_> = self.figures.iter().map(Figure::columns).collect();
        let width = |column: usize| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths = [width(0), width(1), width(2)];
        let mut text = format!("\n{}\n", self.title);
        for [name, value, bound, note] in &rows {
            let line = format!(
                "  {name:<0$}  {value:>1$}  {bound:<2$}  {note}",
                widths[0], widths[1], widths[2]
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

/// Writes a number without decimals, with separators.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        let texts = [0.4, 999.0, 1_000.0, 1_234_567.0].map(thousands);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_figure_outside_its_bound_is_marked() {
        let missed = Figure::new("ratio", 0.59, Unit::Ratio).at_least(0.6);
        assert!(!missed.passes());
        assert_eq!(missed.columns()[2], "at least 0.60 (missed)");
        assert!(
            Figure::new("p99", 4.9, Unit::Milliseconds)
                .under(5.0)
                .passes()
        );
    }
}
