//! Stored measurements: for the documentation, and for the next run on this machine.
//!
//! `performance.json` holds a table for each section, kind of machine and commit. `performance.md` and a plot for each curve are written
//! from it: first the ratios on all machines side by side, then the tables. One machine's tables are from one commit, so that a page never
//! shows a fast version's requests beside a slow version's calls. A plot belongs to the table that drew it, and stays until it is drawn again:
//! other pages' tests and the server's list of files name it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::figure::{Curve, Figure, Section, Unit};
use crate::plot;

const HEAD: &str = "# Performance

`scripts/bench server --report` and `scripts/bench media --report` write this page and `performance.json`, from which it is made: each run
replaces the tables that it measures. Do not edit it. The load runs on the same cores as the server. The SQL statements, messages,
commits and allocations of each operation do not depend on the machine; `tests/costs.rs` checks them.
";

const RATIOS: &str = "
## On every machine

A ratio compares the server with a program that does the same work, measured alternately on the same machine. It depends on the kind of
processor all the same: judge by the range, not by the best column. Absolute numbers, below, depend on the machine.
";

const DATA: &str = "performance.json";
const PAGE: &str = "performance.md";

/// Measurements in a directory, and the labels for a new one.
pub struct Report {
    directory: PathBuf,
    tables: Vec<Table>,
    machine: Machine,
    commit: String,
}

/// A section as measured on one machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Table {
    title: String,
    about: String,
    machine: Machine,
    /// The server's commit, shortened.
    commit: String,
    /// The date, as `2026-11-22`.
    date: String,
    /// Empty if only its plots are left: see [`Report::require_one_commit`].
    rows: Vec<Row>,
    /// Titles of the curves that it drew last, each a plot next to the page.
    curves: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    name: String,
    value: f64,
    unit: Unit,
    /// The value, its bound and its note, as shown on the page.
    text: String,
    wanted: String,
    note: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Machine {
    processor: String,
    cores: usize,
    memory_gib: u64,
    /// The first two numbers in the kernel's version.
    kernel: String,
}

impl Report {
    /// Opens a directory's measurements; measurements of `commit` on this machine will be added.
    pub fn open(directory: &Path, commit: &str) -> Result<Self, BenchError> {
        Self::open_on(directory, commit, Machine::current()?)
    }

    fn open_on(directory: &Path, commit: &str, machine: Machine) -> Result<Self, BenchError> {
        let data = directory.join(DATA);
        let tables = if data.exists() {
            serde_json::from_slice(&std::fs::read(data)?)?
        } else {
            Vec::new()
        };
        Ok(Self {
            directory: directory.to_owned(),
            tables,
            machine,
            commit: commit.to_owned(),
        })
    }

    /// Rejects misleading pages: a server with uncommitted changes, and tables from several commits on one machine. With `discard`, this
    /// machine's rows for other commits are removed instead. Their plots stay, with their commit, until a run replaces them.
    pub fn require_one_commit(&mut self, discard: bool) -> Result<(), BenchError> {
        let commit = &self.commit;
        if commit.ends_with("-dirty") {
            return Err(format!(
                "a report is of a commit, and the working tree differs from {commit}"
            )
            .into());
        }
        let machine = &self.machine;
        let is_other = |table: &Table| {
            !table.rows.is_empty() && table.machine.is_like(machine) && table.commit != *commit
        };
        if discard {
            for table in self.tables.iter_mut().filter(|table| is_other(table)) {
                table.rows.clear();
            }
            self.remove_empty();
        } else if let Some(other) = self.tables.iter().find(|table| is_other(table)) {
            return Err(format!(
                "the report has tables of commit {} on this kind of machine, as '{}', and this is {commit}; with \
                 --discard-other-commits they are removed: measure them again, too",
                other.commit, other.title
            )
            .into());
        }
        Ok(())
    }

    /// Returns the figures that are worse than this machine's last ones by more than `tolerance` percent, each described. Only ratios and
    /// the processor time per packet are compared: latencies vary more than that from minute to minute.
    pub fn worse(&self, section: &Section, tolerance: f64) -> BTreeMap<String, String> {
        let last = self.tables.iter().find(|table| self.is_of(table, section));
        let mut worse = BTreeMap::new();
        for figure in &section.figures {
            let row = last.and_then(|table| table.rows.iter().find(|row| row.name == figure.name));
            let Some(row) = row.filter(|_| figure.unit.is_steady()) else {
                continue;
            };
            let percent = (figure.value / row.value - 1.0) * 100.0;
            if figure.is_worse_by(percent, tolerance) {
                let (now, before) = (figure.unit.write(figure.value), &row.text);
                worse.insert(
                    figure.name.clone(),
                    format!("{}, {now} after {before}", figure.name),
                );
            }
        }
        worse
    }

    /// Adds sections, replacing those with the same title on the same kind of machine, and writes data, page and plots.
    pub fn add(mut self, sections: &[Section]) -> Result<(), BenchError> {
        std::fs::create_dir_all(&self.directory)?;
        for section in sections {
            for curve in &section.curves {
                let file = self.directory.join(file_name(curve.title));
                std::fs::write(file, plot::svg(curve))?;
                for table in &mut self.tables {
                    table.curves.retain(|title| title != curve.title);
                }
            }
            let table = Table::new(section, &self.machine, &self.commit);
            let known = (self.tables.iter()).position(|known| self.is_of(known, section));
            match known {
                Some(at) => self.tables[at] = table,
                None => self.tables.push(table),
            }
        }
        self.remove_empty();
        let mut data = serde_json::to_string_pretty(&self.tables)?;
        data.push('\n');
        std::fs::write(self.directory.join(DATA), data)?;
        std::fs::write(self.directory.join(PAGE), page(&self.tables))?;
        Ok(())
    }

    /// Removes tables without rows and plots.
    fn remove_empty(&mut self) {
        let is_empty = |table: &Table| table.rows.is_empty() && table.curves.is_empty();
        self.tables.retain(|table| !is_empty(table));
    }

    fn is_of(&self, table: &Table, section: &Section) -> bool {
        table.title == section.title && table.machine.is_like(&self.machine)
    }
}

impl Table {
    fn new(section: &Section, machine: &Machine, commit: &str) -> Self {
        Self {
            title: section.title.to_owned(),
            about: section.about.to_owned(),
            machine: machine.clone(),
            commit: commit.to_owned(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            rows: section.figures.iter().map(Row::new).collect(),
            curves: (section.curves.iter())
                .map(|curve: &Curve| curve.title.to_owned())
                .collect(),
        }
    }
}

impl Row {
    fn new(figure: &Figure) -> Self {
        let [name, text, wanted, note] = figure.columns();
        Self {
            name,
            value: figure.value,
            unit: figure.unit,
            text,
            wanted,
            note,
        }
    }
}

impl Machine {
    fn current() -> Result<Self, BenchError> {
        let read = |path: &str| std::fs::read_to_string(path);
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':'))
                .map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo")?, "MemTotal");
        let kib: u64 = memory
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .parse()?;
        let kernel = read("/proc/sys/kernel/osrelease")?;
        let version: Vec<&str> = kernel.split('.').take(2).collect();
        Ok(Self {
            processor: field(&read("/proc/cpuinfo")?, "model name"),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: (kib + 512 * 1024) / (1024 * 1024),
            kernel: version.join("."),
        })
    }

    /// Returns whether both machines' figures can be compared. A newer kernel does not make another machine.
    fn is_like(&self, other: &Self) -> bool {
        (&self.processor, self.cores) == (&other.processor, other.cores)
    }

    fn name(&self) -> String {
        format!("{}, {} cores", self.processor, self.cores)
    }
}

/// Writes the page: all machines' ratios, then each section with its tables.
fn page(tables: &[Table]) -> String {
    let mut titles: Vec<&str> = Vec::new();
    let mut machines: Vec<&Machine> = Vec::new();
    for table in tables {
        if !titles.contains(&table.title.as_str()) {
            titles.push(&table.title);
        }
        let is_known = machines.iter().any(|known| known.is_like(&table.machine));
        if !is_known && !table.rows.is_empty() {
            machines.push(&table.machine);
        }
    }
    let mut page = format!("{HEAD}{RATIOS}\n| |");
    for machine in &machines {
        let _ = write!(page, " {} |", machine.name());
    }
    let _ = write!(page, "\n|---|{}", "---|".repeat(machines.len()));
    for title in &titles {
        let of_title = || tables.iter().filter(|table| table.title == *title);
        let mut names: Vec<&str> = Vec::new();
        for row in of_title().flat_map(|table| &table.rows) {
            if row.unit == Unit::Ratio && !names.contains(&row.name.as_str()) {
                names.push(&row.name);
            }
        }
        for name in names {
            let _ = write!(page, "\n| {title}: {name} |");
            for machine in &machines {
                let row = of_title()
                    .find(|table| table.machine.is_like(machine))
                    .and_then(|table| table.rows.iter().find(|row| row.name == name));
                let _ = write!(page, " {} |", row.map_or("–", |row| &row.text));
            }
        }
    }
    page.push('\n');
    for title in titles {
        let of_title = tables.iter().filter(|table| table.title == title);
        let newest = of_title.clone().max_by_key(|table| &table.date);
        let about = newest.map_or("", |table| &table.about);
        let _ = write!(page, "\n## {title}\n\n{about}\n");
        for table in of_title.clone().filter(|table| !table.rows.is_empty()) {
            write_table(&mut page, table);
        }
        for table in of_title.filter(|table| !table.curves.is_empty()) {
            write_plots(&mut page, table);
        }
    }
    page
}

fn write_table(page: &mut String, table: &Table) {
    let machine = &table.machine;
    let _ = write!(
        page,
        "\nCommit `{}` on {}: {}, {} GiB, Linux {}.\n\n| | | wanted | |\n|---|---|---|---|\n",
        table.commit,
        table.date,
        machine.name(),
        machine.memory_gib,
        machine.kernel
    );
    for row in &table.rows {
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} |",
            row.name, row.text, row.wanted, row.note
        );
    }
}

fn write_plots(page: &mut String, table: &Table) {
    let (commit, date) = (&table.commit, &table.date);
    let _ = write!(
        page,
        "\nPlotted from commit `{commit}` on {date}: {}.\n",
        table.machine.name()
    );
    for curve in &table.curves {
        let _ = write!(page, "\n![{curve}]({})\n", file_name(curve));
    }
}

fn file_name(curve: &str) -> String {
    format!("{}.svg", curve.to_lowercase().replace(' ', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(processor: &str) -> Machine {
        Machine {
            processor: processor.to_owned(),
            cores: 2,
            memory_gib: 24,
            kernel: "6.18".to_owned(),
        }
    }

    fn section(title: &'static str, value: f64) -> Section {
        let figures = vec![
            Figure::new("reads", value, Unit::Ratio).at_least(0.1),
            Figure::new("p99", value, Unit::Milliseconds),
        ];
        Section {
            title,
            about: "About.",
            figures,
            curves: Vec::new(),
        }
    }

    fn open(directory: &Path, processor: &str, commit: &str) -> Report {
        Report::open_on(directory, commit, machine(processor)).unwrap()
    }

    fn rows(directory: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(directory.join(PAGE)).unwrap();
        let is_row = |line: &&str| {
            ["## ", "Commit", "| reads", "| One: reads"]
                .iter()
                .any(|head| line.starts_with(head))
        };
        text.lines().filter(is_row).map(str::to_owned).collect()
    }

    #[test]
    fn each_kind_of_machine_has_its_table_which_a_new_measurement_replaces() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        open(path, "A", "1").add(&[section("One", 0.5)]).unwrap();
        open(path, "B", "1").add(&[section("One", 0.25)]).unwrap();
        open(path, "A", "1").add(&[section("One", 0.75)]).unwrap();
        let table = |name: &str| {
            let date = jiff::Timestamp::now().strftime("%Y-%m-%d");
            format!("Commit `1` on {date}: {name}, 2 cores, 24 GiB, Linux 6.18.")
        };
        assert_eq!(
            rows(path),
            [
                "## On every machine",
                "| One: reads | 0.75 | 0.25 |",
                "## One",
                &table("A"),
                "| reads | 0.75 | at least 0.10 |  |",
                &table("B"),
                "| reads | 0.25 | at least 0.10 |  |",
            ]
        );
    }

    #[test]
    fn tables_of_several_commits_on_one_machine_are_refused_or_discarded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        open(path, "A", "1").add(&[section("One", 0.5)]).unwrap();
        open(path, "B", "1").add(&[section("One", 0.5)]).unwrap();

        let refused = open(path, "A", "2").require_one_commit(false).unwrap_err();
        assert!(refused.to_string().contains("commit 1"), "{refused}");
        open(path, "C", "2").require_one_commit(false).unwrap();
        let dirty = open(path, "C", "2-dirty").require_one_commit(true);
        assert!(dirty.unwrap_err().to_string().contains("2-dirty"));

        let mut report = open(path, "A", "2");
        report.require_one_commit(true).unwrap();
        report.add(&[section("Two", 0.5)]).unwrap();
        let text = std::fs::read_to_string(path.join(PAGE)).unwrap();
        assert_eq!(text.matches("Commit `1`").count(), 1, "B's: {text}");
        assert_eq!(text.matches("Commit `2`").count(), 1, "{text}");
    }

    #[test]
    fn a_plot_stays_with_its_commit_until_it_is_drawn_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let with_plot = || Section {
            curves: vec![Curve {
                title: "Cost by size",
                size: "rooms",
                unit: "ms",
                lines: vec![("reads", vec![(1.0, 0.2), (10.0, 0.3)])],
            }],
            ..section("One", 0.5)
        };
        let plots = || {
            let text = std::fs::read_to_string(path.join(PAGE)).unwrap();
            let heads = ["Commit", "Plotted", "!["];
            let is_of_plot = |line: &&str| heads.iter().any(|head| line.starts_with(head));
            let short = |line: &str| line.split(" on ").next().unwrap_or_default().to_owned();
            Vec::from_iter(text.lines().filter(is_of_plot).map(short))
        };
        let plot = "![Cost by size](cost-by-size.svg)";
        open(path, "A", "1").add(&[with_plot()]).unwrap();

        let mut report = open(path, "A", "2");
        report.require_one_commit(true).unwrap();
        report.add(&[section("Two", 0.5)]).unwrap();
        assert_eq!(
            plots(),
            ["Plotted from commit `1`", plot, "Commit `2`"],
            "the first part is written, and the part with the plot is not"
        );

        let mut report = open(path, "A", "2");
        report.require_one_commit(false).unwrap();
        report.add(&[with_plot()]).unwrap();
        let drawn = ["Commit `2`", "Plotted from commit `2`", plot, "Commit `2`"];
        assert_eq!(plots(), drawn);

        open(path, "B", "3").add(&[with_plot()]).unwrap();
        let drawn = [
            "Commit `2`",
            "Commit `3`",
            "Plotted from commit `3`",
            plot,
            "Commit `2`",
        ];
        assert_eq!(plots(), drawn, "one file has one origin");
    }

    #[test]
    fn the_page_in_the_documentation_is_written_from_its_data() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let report = open(&docs, "A", "1");
        let (written, file) = (page(&report.tables), docs.join(PAGE));
        if std::env::var_os("CONCLAVE_UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(file, written).unwrap();
            return;
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), written);
    }

    #[test]
    fn a_worse_ratio_is_found_and_a_worse_latency_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        open(path, "A", "1").add(&[section("One", 0.5)]).unwrap();
        let worse =
            |processor: &str, value| open(path, processor, "2").worse(&section("One", value), 10.0);
        assert_eq!(worse("A", 0.46), BTreeMap::new());
        assert_eq!(
            Vec::from_iter(worse("A", 0.44).into_values()),
            ["reads, 0.44 after 0.50"]
        );
        assert_eq!(worse("A", 5.0), BTreeMap::new());
        assert_eq!(worse("B", 0.1), BTreeMap::new());
    }
}
