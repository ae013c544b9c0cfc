//! Duration of importing a file with a million sessions and a million deliveries into PostgreSQL.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::BenchError;
use crate::figure::{Figure, Unit};
use crate::fill::Filler;

/// Session count; the delivery count is the same.
const ROWS: u32 = 1_000_000;

/// Imports into the empty database at a URL, and returns the duration.
pub async fn measure(conclave: &Path, scratch: &Path, url: &str) -> Result<Figure, BenchError> {
    let data = scratch.join("source");
    let filler = Filler::create(conclave, &data).await?;
    filler.past_rooms()?;
    filler.sessions(0, ROWS)?;
    filler.deliveries(0, ROWS)?;
    drop(filler);
    let mut import = Command::new(conclave);
    import
        .env("CONCLAVE_DATABASE__URL", url)
        .arg("--data")
        .arg(&data)
        .arg("import")
        .arg(data.join("conclave.db"));
    let begun = Instant::now();
    if !import.stdout(Stdio::null()).status()?.success() {
        return Err("the import failed".into());
    }
    let note = "with the comparison of all rows afterwards";
    Ok(Figure::new(
        "import of 1,000,000 sessions and 1,000,000 deliveries",
        begun.elapsed().as_secs_f64(),
        Unit::Seconds,
    )
    .under(600.0)
    .note(note))
}
