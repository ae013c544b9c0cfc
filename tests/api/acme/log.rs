//! The app's TLS log lines, from all tests in this process.

use std::sync::{Mutex, Once};

use log::{LevelFilter, Log, Metadata, Record};

/// Collects log lines about certificates.
struct Kept(Mutex<Vec<String>>);

static KEPT: Kept = Kept(Mutex::new(Vec::new()));
static STARTED: Once = Once::new();

impl Log for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("conclave::tls")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let domain = record
                .key_values()
                .get("domain".into())
                .map(|domain| domain.to_string())
                .unwrap_or_default();
            self.0
                .lock()
                .unwrap()
                .push(format!("{} {domain} {}", record.level(), record.args()));
        }
    }

    fn flush(&self) {}
}

/// Starts collecting log lines.
pub fn keep() {
    STARTED.call_once(|| {
        log::set_logger(&KEPT).unwrap();
        log::set_max_level(LevelFilter::Info);
    });
}

/// Returns the log lines about a domain, with their levels.
pub fn about(domain: &str) -> Vec<String> {
    KEPT.0
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.contains(&format!(" {domain} ")))
        .cloned()
        .collect()
}
