//! Two versions of the server, measured alternately, and the changes between them.
//!
//! A machine's speed varies from minute to minute, so yesterday's figure is no reference for today's change. Each round measures both
//! programs one after the other, and rounds alternate which one comes first. A figure's change is the median over its rounds; the smallest
//! and the largest show how much is noise.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::slice;

use clap::Args;

use crate::BenchError;
use crate::figure::{Figure, Section};
use crate::report::Report;

/// Reference besides the bare programs: another version of the server, or its last figures on this machine.
#[derive(Args)]
pub struct Against {
    /// Another version of the server: both are measured alternately, and the table shows the changes.
    #[arg(long, global = true)]
    against: Option<PathBuf>,
    /// Number of rounds, each with both programs.
    #[arg(long, global = true, requires = "against", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Directory for the figures. A ratio or a processor time per packet that is worse than the last run on this kind of machine fails. A
    /// part's new figures replace the stored ones, unless one is worse.
    #[arg(long, global = true, conflicts_with = "against")]
    record: Option<PathBuf>,
    /// Tolerated deterioration of a figure in percent, against the other program or the last run; 10 by default.
    #[arg(long, global = true)]
    tolerance: Option<f64>,
    /// The server's commit, for stored or reported figures.
    #[arg(long, global = true, default_value = "unknown")]
    pub commit: String,
}

/// A measurement's outcome.
pub struct Outcome {
    /// Table for terminals.
    pub text: String,
    /// The measured server's figures.
    pub section: Section,
    /// Whether every figure is within its limit, or, compared with another program, no worse than tolerated.
    pub passes: bool,
    /// Whether a figure is worse than the reference's by more than the tolerance.
    pub is_worse: bool,
}

/// A figure for both programs.
struct Change {
    name: String,
    /// Median of this program's values, and of the other's, as written in the table.
    texts: [String; 2],
    /// Increase of this program's value in percent: least, median, most.
    percent: [f64; 3],
    is_worse: bool,
}

impl Against {
    /// Returns whether a tolerance was given without a reference.
    pub fn is_pointless(&self) -> bool {
        self.tolerance.is_some() && self.against.is_none() && self.record.is_none()
    }

    fn tolerance(&self) -> f64 {
        self.tolerance.unwrap_or(10.0)
    }

    /// Returns whether another program was given.
    pub fn is_wanted(&self) -> bool {
        self.against.is_some()
    }

    /// Measures the server, and the other program if one was given.
    pub fn measure(
        &self,
        conclave: &Path,
        mut measure: impl FnMut(&Path) -> Result<Section, BenchError>,
    ) -> Result<Outcome, BenchError> {
        let Some(other) = &self.against else {
            return self.measure_alone(conclave, measure);
        };
        let mut rounds = Vec::new();
        for number in 0..self.rounds {
            // The second measurement often finds a warmer machine.
            rounds.push(if number % 2 == 0 {
                let this = measure(conclave)?;
                [this, measure(other)?]
            } else {
                let other = measure(other)?;
                [measure(conclave)?, other]
            });
        }
        let changes = changes(&rounds, self.tolerance());
        let [section, _] = rounds.pop().ok_or("no round")?;
        let is_worse = changes.iter().any(|change| change.is_worse);
        Ok(Outcome {
            text: table(section.title, &changes),
            passes: !is_worse,
            is_worse,
            section,
        })
    }

    fn measure_alone(
        &self,
        conclave: &Path,
        mut measure: impl FnMut(&Path) -> Result<Section, BenchError>,
    ) -> Result<Outcome, BenchError> {
        let mut section = measure(conclave)?;
        let mut worse = Vec::new();
        if let Some(record) = self.open_record()? {
            let first = record.worse(&section, self.tolerance());
            if !first.is_empty() {
                // A busy minute on the machine is no change in the program. Only a figure that is worse twice counts.
                section = measure(conclave)?;
                let mut second = record.worse(&section, self.tolerance());
                second.retain(|name, _| first.contains_key(name));
                worse.extend(second.into_values());
            }
        }
        let mut text = section.text();
        for change in &worse {
            let _ = writeln!(text, "  worse than the last time: {change}");
        }
        Ok(Outcome {
            passes: section.passes() && worse.is_empty(),
            is_worse: !worse.is_empty(),
            text,
            section,
        })
    }

    fn open_record(&self) -> Result<Option<Report>, BenchError> {
        let open = |directory: &PathBuf| Report::open(directory, &self.commit);
        self.record.as_ref().map(open).transpose()
    }

    /// Stores a part's measurements for the next comparison, unless a figure is worse than the stored one. A missed bound is stored: a
    /// machine that never reaches it would otherwise have nothing to compare with.
    pub fn write_record(&self, outcome: &Outcome) -> Result<(), BenchError> {
        match self.open_record()? {
            Some(record) if !outcome.is_worse => record.add(slice::from_ref(&outcome.section)),
            _ => Ok(()),
        }
    }
}

/// Compares the figures that exist for both programs in every round.
fn changes(rounds: &[[Section; 2]], tolerance: f64) -> Vec<Change> {
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
        let change = median(percent.clone());
        Some(Change {
            name: figure.name.clone(),
            texts: [these, others].map(|values| figure.unit.write(median(values))),
            percent: [*percent.first()?, change, *percent.last()?],
            is_worse: figure.is_worse_by(change, tolerance),
        })
    };
    first.figures.iter().filter_map(change).collect()
}

fn table(title: &str, changes: &[Change]) -> String {
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
        let mark = if change.is_worse { "  worse" } else { "" };
        let _ = writeln!(
            text,
            "  {:<name$}  {this:>value$}  {other:>value$}  {percent:>+6.1} %  {least:+.1} to {most:+.1} %{mark}",
            change.name
        );
    }
    text
}

/// Returns the median; for an even number of values, the mean of the middle two.
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
            record: None,
            tolerance: None,
            commit: "1".to_owned(),
        }
    }

    /// Measures with these server values by round; the other program's values are constant.
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
    fn only_a_ratio_that_is_worse_than_the_last_time_twice_fails() {
        let directory = tempfile::tempdir().unwrap();
        let comparison = Against {
            against: None,
            record: Some(directory.path().to_owned()),
            ..against(1)
        };
        let measured = |values: &[f64]| {
            let mut values = values.iter();
            let outcome = comparison.measure(Path::new("new"), |_| {
                Ok(section(*values.next().unwrap(), 2.0))
            });
            assert_eq!(values.next(), None, "each value is measured");
            outcome.unwrap()
        };
        let first = measured(&[0.8]);
        assert!(first.passes, "there is nothing to compare with");
        comparison.write_record(&first).unwrap();

        assert!(measured(&[0.75]).passes);
        assert!(measured(&[0.6, 0.75]).passes);
        let worse = measured(&[0.6, 0.65]);
        assert!(!worse.passes);
        let line = "worse than the last time: get_room, 0.65 after 0.80";
        assert!(worse.text.contains(line), "{}", worse.text);
        comparison.write_record(&worse).unwrap();
        assert!(!measured(&[0.65, 0.65]).passes, "the reference is the same");
    }

    #[test]
    fn figures_below_their_bound_are_stored_and_compared() {
        let directory = tempfile::tempdir().unwrap();
        let comparison = Against {
            against: None,
            record: Some(directory.path().to_owned()),
            ..against(1)
        };
        let measured = |value: f64| {
            let measure = |_: &Path| Ok(section(value, 2.0));
            comparison.measure(Path::new("new"), measure).unwrap()
        };
        let first = measured(0.3);
        assert!(!first.passes, "the bound is 0.4");
        comparison.write_record(&first).unwrap();
        let second = measured(0.2);
        let line = "worse than the last time: get_room, 0.20 after 0.30";
        assert!(second.text.contains(line), "{}", second.text);
    }

    #[test]
    fn what_one_program_lacks_is_not_compared() {
        let mut other = section(0.5, 1.0);
        other.figures.truncate(1);
        let names: Vec<_> = changes(&[[section(0.5, 1.0), other]], 10.0)
            .into_iter()
            .map(|change| change.name)
            .collect();
        assert_eq!(names, ["get_room"]);
    }
}
