//! The report: a Markdown file with tables, and an SVG file for each curve.

use std::fmt::Write as _;
use std::path::Path;

use crate::BenchError;
use crate::figure::{Curve, Figure, Section};
use crate::plot;

const HEAD: &str = "# Performance

`scripts/bench server --report` and `scripts/bench media --report` write this page: each run replaces the sections that it measures. Do not
edit it. A ratio compares the server with a program that does the same work, measured alternately on the same machine, so it holds
on other machines; absolute numbers do not. The load runs on the same cores. The SQL statements, messages, commits and allocations
of each operation do not depend on the machine; `tests/costs.rs` checks them.
";

/// Writes sections and their plots into the `performance.md` of a directory. Sections with other titles stay as they are.
pub fn write(directory: &Path, sections: &[Section]) -> Result<(), BenchError> {
    let file = directory.join("performance.md");
    let known = if file.exists() {
        std::fs::read_to_string(&file)?
    } else {
        String::new()
    };
    let machine = machine()?;
    let mut texts: Vec<String> = known
        .split("\n## ")
        .skip(1)
        .map(|text| text.trim_end().to_owned())
        .collect();
    for section in sections {
        for curve in &section.curves {
            std::fs::write(directory.join(file_name(curve)), plot::svg(curve))?;
        }
        let text = markdown(section, &machine);
        match texts
            .iter_mut()
            .find(|known| known.lines().next() == Some(section.title))
        {
            Some(known) => *known = text,
            None => texts.push(text),
        }
    }
    let sections: String = texts.iter().map(|text| format!("\n## {text}\n")).collect();
    std::fs::write(file, format!("{HEAD}{sections}"))?;
    Ok(())
}

/// The text of a section, behind the marks of its heading.
fn markdown(section: &Section, machine: &str) -> String {
    let mut text = format!(
        "{}\n\n{} {machine}\n\n| | | wanted | |\n|---|---|---|---|",
        section.title, section.about
    );
    for [name, value, bound, note] in section.figures.iter().map(Figure::columns) {
        let _ = write!(text, "\n| {name} | {value} | {bound} | {note} |");
    }
    for curve in &section.curves {
        let _ = write!(text, "\n\n![{}]({})", curve.title, file_name(curve));
    }
    text
}

fn file_name(curve: &Curve) -> String {
    format!("{}.svg", curve.title.to_lowercase().replace(' ', "-"))
}

/// The date, the processor, the number of cores, the memory and the version of the kernel.
fn machine() -> Result<String, BenchError> {
    let read = |path: &str| std::fs::read_to_string(path);
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':'))
            .map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    let (processor, memory) = (
        field(&read("/proc/cpuinfo")?, "model name"),
        field(&read("/proc/meminfo")?, "MemTotal"),
    );
    let kib: f64 = memory
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .parse()?;
    let kernel = read("/proc/sys/kernel/osrelease")?;
    let version: Vec<&str> = kernel.split('.').take(2).collect();
    Ok(format!(
        "Measured on {}: {processor}, {} cores, {:.0} GiB, Linux {}.",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        std::thread::available_parallelism()?,
        kib / 1024.0 / 1024.0,
        version.join("."),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Unit;

    fn section(title: &'static str, value: f64) -> Section {
        let figures = vec![Figure::new("figure", value, Unit::Count)];
        Section {
            title,
            about: "About.",
            figures,
            curves: Vec::new(),
        }
    }

    #[test]
    fn a_report_replaces_the_sections_that_were_measured() {
        let directory = tempfile::tempdir().unwrap();
        write(
            directory.path(),
            &[section("One", 1.0), section("Two", 2.0)],
        )
        .unwrap();
        write(directory.path(), &[section("One", 3.0)]).unwrap();
        let text = std::fs::read_to_string(directory.path().join("performance.md")).unwrap();
        let rows: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("## ") || line.contains("figure |"))
            .collect();
        assert_eq!(
            rows,
            [
                "## One",
                "| figure | 3 |  |  |",
                "## Two",
                "| figure | 2 |  |  |"
            ]
        );
        assert!(text.starts_with("# Performance\n") && text.ends_with("|\n"));
    }
}
