//! Ten thousand idle connections next to active ones.

use std::time::Duration;

use serde_json::{Value, json};

use super::Deployment;
use super::clients::Latencies;
use crate::BenchError;
use crate::connection::{Connection, request};

/// Number of connections.
const CONNECTIONS: usize = 10_000;

/// Cost of idle connections.
pub struct IdleResult {
    pub connections: usize,
    /// Connections that the server closed.
    pub lost: usize,
    /// The server's memory per connection.
    pub kib_each: f64,
    /// Other clients' requests meanwhile.
    pub probe: Latencies,
}

impl IdleResult {
    pub fn to_json(&self) -> Value {
        json!({
            "connections": self.connections, "lost": self.lost, "kib_each": self.kib_each, "probe": self.probe.to_json()
        })
    }
}

/// Opens the connections, sends one request on each, and measures for a while.
pub async fn measure_idle_connections(
    deployment: &Deployment,
    time: Duration,
) -> Result<IdleResult, BenchError> {
    raise_limit()?;
    let before = deployment.server.resident()?;
    let address = deployment.server.api();
    let health = request("", "GET /healthz", "");
    let mut idle = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(&address).await?;
        connection.exchange(&health).await?;
        idle.push(connection);
    }
    let probe = deployment.probe(time).await?;
    let kib_each = (deployment.server.resident()? - before) / CONNECTIONS as f64;
    let mut lost = 0;
    for connection in &mut idle {
        lost += usize::from(connection.exchange(&health).await.is_err());
    }
    Ok(IdleResult {
        connections: CONNECTIONS,
        lost,
        kib_each,
        probe,
    })
}

/// Raises this process's limit for open files to its maximum.
fn raise_limit() -> Result<(), BenchError> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    let allowed = limit.current.unwrap_or(u64::MAX);
    if allowed < 2 * CONNECTIONS as u64 {
        Err("needs at least 20,000 open files (ulimit -Hn)".into())
    } else {
        Ok(())
    }
}
