//! Two versions of the server, measured alternately: what changed between them.
//!
//! A machine is faster or slower from minute to minute, so a figure of yesterday says little about a change of today. Each round measures
//! both programs one after the other, and the rounds take turns in which one comes first. A figure's change is the median of the changes of
//! its rounds; the smallest and the largest show how much of it is noise.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::BenchError;
use crate::figure::{Figure, Section};

/// With which other program the server is compared.
#[derive(Args)]
pub struct Against {
    /// Another version of the server: both are measured alternately, and the table shows what changed.
    #[arg(long, global = true)]
    against: Option<PathBuf>,
    /// How often both are measured.
    #[arg(long, global = true, requires = "against", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// By how many percent a figure may be worse than the other program's.
    #[arg(long, global = true, requires = "against", default_value_t = 10.0)]
    tolerance: f64,
}

/// What a measurement showed.
pub struct Outcome {
    /// The table for people at a terminal.
    pub text: String,
    /// The section of the server that is measured.
    pub section: Section,
    /// Whether every figure is within its limit, or, compared with another program, no worse than tolerated.
    pub passes: bool,
}

/// A figure of both programs.
struct Change {
    name: String,
    /// The median of this program's values, and of the other's, as they are written.
    texts: [String; 2],
    /// By how many percent this program's value is higher: least, median, most.
    percent: [f64; 3],
    is_better_when_higher: bool,
}

impl Against {
    /// Whether there is another program.
    pub fn is_wanted(&self) -> bool {
        self.against.is_some()
    }

    /// Measures the server, and the other program if one was named.
    pub fn measure(
        &self,
        conclave: &Path,
        mut measure: impl FnMut(&Path) -> Result<Section, BenchError>,
    ) -> Result<Outcome, BenchError> {
        let Some(other) = &self.against else {
            let section = measure(conclave)?;
            return Ok(Outcome {
                text: section.text(),
                passes: section.passes(),
                section,
            });
        };
        let mut rounds = Vec::new();
        for number in 0..self.rounds {
            // The second of two often finds a warmer machine.
            rounds.push(if number % 2 == 0 {
                let this = measure(conclave)?;
                [this, measure(other)?]
            } else {
                let other = measure(other)?;
                [measure(conclave)?, other]
            });
        }
        let changes = changes(&rounds);
        let [section, _] = rounds.pop().ok_or("no round")?;
        Ok(Outcome {
            text: table(section.title, &changes, self.tolerance),
            passes: !changes
                .iter()
                .any(|change| change.is_worse_by(self.tolerance)),
            section,
        })
    }
}

/// Compares the figures that every round has of both programs.
fn changes(rounds: &[[Section; 2]]) -> Vec<Change> {
    let Some([first, _]) = rounds.first() else {
        return Vec::new();
    };
    let change = |figure: &Figure| {
        let values = |program: usize| -> Option<Vec<f64>> {
            rounds
                .iter()
                .map(|round| round[program].value(&figure.name))
                .collect()
        };
        let (these, others) = (values(0)?, values(1)?);
        let pairs = these.iter().zip(&others);
        let mut percent: Vec<f64> = pairs
            .map(|(this, other)| (this / other - 1.0) * 100.0)
            .filter(|percent| percent.is_finite())
            .collect();
        percent.sort_by(f64::total_cmp);
        Some(Change {
            name: figure.name.clone(),
            texts: [these, others].map(|values| figure.unit.write(median(values))),
            percent: [*percent.first()?, median(percent.clone()), *percent.last()?],
            is_better_when_higher: figure.is_better_when_higher(),
        })
    };
    first.figures.iter().filter_map(change).collect()
}

impl Change {
    fn is_worse_by(&self, tolerance: f64) -> bool {
        let [_, percent, _] = self.percent;
        if self.is_better_when_higher {
            percent < -tolerance
        } else {
            percent > tolerance
        }
    }
}

fn table(title: &str, changes: &[Change], tolerance: f64) -> String {
    let width = |text: &dyn Fn(&Change) -> usize| changes.iter().map(text).max().unwrap_or(0);
    let name = width(&|change| change.name.chars().count());
    let value = width(&|change| {
        let [this, other] = &change.texts;
        this.chars().count().max(other.chars().count())
    });
    let value = value.max("other".len());
    let mut text = format!(
        "\n{title}\n  {:<name$}  {:>value$}  {:>value$}    change  of each round\n",
        "", "this", "other"
    );
    for change in changes {
        let ([this, other], [least, percent, most]) = (&change.texts, change.percent);
        let mark = if change.is_worse_by(tolerance) {
            "  worse"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "  {:<name$}  {this:>value$}  {other:>value$}  {percent:>+6.1} %  {least:+.1} to {most:+.1} %{mark}",
            change.name
        );
    }
    text
}

/// The median of some values; of an even number, the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.is_empty() {
        f64::NAN
    } else if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Unit;

    fn section(rate: f64, latency: f64) -> Section {
        Section {
            title: "Requests",
            about: "",
            figures: vec![
                Figure::new("get_room", rate, Unit::Ratio).at_least(0.4),
                Figure::new("get_room, p99", latency, Unit::Milliseconds),
            ],
            curves: Vec::new(),
        }
    }

    fn against(rounds: u32) -> Against {
        Against {
            against: Some("old".into()),
            rounds,
            tolerance: 10.0,
        }
    }

    /// Measures with these values of the server, round by round; the other program has always the same.
    fn outcome(values: &[(f64, f64)]) -> (Outcome, Vec<String>) {
        let (mut values, mut order) = (values.iter(), Vec::new());
        let rounds = u32::try_from(values.len()).unwrap();
        let outcome = against(rounds).measure(Path::new("new"), |program| {
            order.push(program.display().to_string());
            Ok(if program == Path::new("new") {
                let (rate, latency) = values.next().unwrap();
                section(*rate, *latency)
            } else {
                section(0.5, 2.0)
            })
        });
        (outcome.unwrap(), order)
    }

    #[test]
    fn programs_take_turns_and_the_median_of_the_rounds_counts() {
        let (outcome, order) = outcome(&[(0.25, 1.0), (0.5, 2.0), (0.75, 2.1)]);
        assert_eq!(order, ["new", "old", "old", "new", "new", "old"]);
        assert!(outcome.passes);
        let rows: Vec<_> = outcome.text.lines().skip(3).collect();
        assert_eq!(
            rows,
            [
                "  get_room          0.50     0.50    +0.0 %  -50.0 to +50.0 %",
                "  get_room, p99  2.00 ms  2.00 ms    +0.0 %  -50.0 to +5.0 %",
            ]
        );
    }

    #[test]
    fn a_lower_rate_and_a_higher_latency_are_worse() {
        assert!(!outcome(&[(0.44, 2.0)]).0.passes);
        assert!(outcome(&[(0.46, 2.0)]).0.passes);
        assert!(!outcome(&[(0.5, 2.3)]).0.passes);
        assert!(outcome(&[(0.9, 0.5)]).0.passes);
    }

    #[test]
    fn what_one_program_lacks_is_not_compared() {
        let mut other = section(0.5, 1.0);
        other.figures.truncate(1);
        let names: Vec<_> = changes(&[[section(0.5, 1.0), other]])
            .into_iter()
            .map(|change| change.name)
            .collect();
        assert_eq!(names, ["get_room"]);
    }
}
