//! What the server says of itself at `/metrics`.

use crate::BenchError;
use crate::connection::{Connection, request};

/// The mean number of jobs in a batch of writes so far.
pub async fn mean_batch(admin: &str) -> Result<f64, BenchError> {
    let mut connection = Connection::open(admin).await?;
    let body = connection.exchange(&request("", "GET /metrics", "")).await?;
    let text = std::str::from_utf8(body)?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).ok_or("no such metric");
        line.and_then(|value| value.parse::<f64>().map_err(|_| "no number"))
    };
    Ok(value("conclave_store_batch_jobs_sum")? / value("conclave_store_batch_jobs_count")?)
}
