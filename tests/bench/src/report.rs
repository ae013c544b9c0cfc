//! The report: a Markdown file with tables, and an SVG file for each curve.

use std::fmt::Write as _;
use std::path::Path;

use crate::BenchError;
use crate::figure::{Curve, Figure, Section};
use crate::plot;

const HEAD: &str = "# Performance

Written by `scripts/bench --report`, which measures everything below in one run; do not edit. Ratios compare the server with a
bare program that does the same work and nothing else, measured alternately on the same machine: they hold on other machines,
absolute numbers do not. What each operation costs in SQL statements, messages, commits and allocations does not depend on the
machine at all; `tests/costs.rs` holds it.
";

/// Writes `performance.md` and its plots into a directory.
pub fn write(directory: &Path, sections: &[Section]) -> Result<(), BenchError> {
    let mut text = format!("{HEAD}\n{}\n", machine()?);
    for section in sections {
        let _ = write!(text, "\n## {}\n\n{}\n\n| | | wanted | |\n|---|---|---|---|\n", section.title, section.about);
        for [name, value, bound, note] in section.figures.iter().map(Figure::columns) {
            let _ = writeln!(text, "| {name} | {value} | {bound} | {note} |");
        }
        for curve in &section.curves {
            let file = file_name(curve);
            std::fs::write(directory.join(&file), plot::svg(curve))?;
            let _ = write!(text, "\n![{}]({file})\n", curve.title);
        }
    }
    std::fs::write(directory.join("performance.md"), text)?;
    Ok(())
}

fn file_name(curve: &Curve) -> String {
    format!("{}.svg", curve.title.to_lowercase().replace(' ', "-"))
}

/// The date, the processor, the number of cores, the memory and the version of the kernel.
fn machine() -> Result<String, BenchError> {
    let read = |path: &str| std::fs::read_to_string(path);
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    let (processor, memory) =
        (field(&read("/proc/cpuinfo")?, "model name"), field(&read("/proc/meminfo")?, "MemTotal"));
    let kib: f64 = memory.split_whitespace().next().unwrap_or_default().parse()?;
    let kernel = read("/proc/sys/kernel/osrelease")?;
    let version: Vec<&str> = kernel.split('.').take(2).collect();
    Ok(format!(
        "Measured on {}: {processor}, {} cores, {:.0} GiB, Linux {}. The load runs on the same cores.",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        std::thread::available_parallelism()?,
        kib / 1024.0 / 1024.0,
        version.join("."),
    ))
}
