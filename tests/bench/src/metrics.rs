//! The server's own metrics at `/metrics`.

use std::collections::BTreeMap;

use crate::BenchError;
use crate::connection::{Connection, request};

/// Returns the metrics' values by name with labels.
pub async fn read(admin: &str) -> Result<BTreeMap<String, f64>, BenchError> {
    let mut connection = Connection::open(admin).await?;
    let body = connection
        .exchange(&request("", "GET /metrics", ""))
        .await?;
    let lines = std::str::from_utf8(body)?
        .lines()
        .filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').ok_or("no value")?;
            Ok((name.to_owned(), value.parse()?))
        })
        .collect()
}

/// Returns the mean number of jobs per write batch so far.
pub async fn mean_batch(admin: &str) -> Result<f64, BenchError> {
    let metrics = read(admin).await?;
    let value = |name: &str| metrics.get(name).copied().ok_or("no such metric");
    Ok(value("conclave_store_batch_jobs_sum")? / value("conclave_store_batch_jobs_count")?)
}
