//! The test behind `scripts/check overload`: one project requests ten times the server's capacity, another works as always.
//!
//! The server and the first project's clients run in separate processes; these clients run at idle priority, so that they take no processor
//! time from the server. The second project's clients run in this process, at the highest priority: they do not wait for a processor that
//! the server uses, as if they were on another machine. All traffic is on loopback, and time and connections are bounded.

pub mod clients;
mod idle;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::connection::{Connection, request};
use crate::process::Process;
use crate::{BenchError, metrics};
use clients::{Latencies, LoadOptions, LoadResult, probe, run_clients};
use idle::{IdleResult, measure_idle_connections};

/// The first project's request rate relative to the server's capacity.
const OVERLOAD: f64 = 10.0;
/// The first project's connections to each listener.
const CONNECTIONS: usize = 400;
/// Connections for measuring the server's capacity.
const SERVING_CONNECTIONS: usize = 16;
/// The server's nice value: the second project's clients have none.
const SERVER_NICENESS: i32 = 5;
/// Limit for the second project's p99 at the first one's full load, and afterwards, relative to its quiet p99.
const SLOWER: f64 = 2.0;
/// The server's memory limit at full load, in KiB.
const MEMORY: f64 = 256.0 * 1024.0;
/// Limit for the additional memory that the server keeps afterwards, in KiB.
const KEPT_MEMORY: f64 = 48.0 * 1024.0;
/// Limit for the admitted requests' p99.
const ADMITTED: Duration = Duration::from_secs(2);

#[derive(Args)]
pub struct Options {
    /// Duration of full load, and of each other measurement, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

/// The program's role when it starts itself.
#[derive(Subcommand)]
enum Role {
    /// The first project's clients.
    Clients(LoadOptions),
}

/// Runs the test, and returns whether the server has kept its promises.
pub fn run(conclave: &Path, options: &Options) -> Result<bool, BenchError> {
    match &options.role {
        Some(Role::Clients(options)) => {
            println!("{}", serde_json::to_string(&run_clients(options)?)?);
            Ok(true)
        }
        None => test(conclave, options),
    }
}

fn test(conclave: &Path, options: &Options) -> Result<bool, BenchError> {
    let scratch = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let results = runtime.block_on(measure(conclave, options, scratch.path()))?;
    let broken = results.broken();
    if options.json {
        println!("{:#}", results.to_json(&broken));
    } else {
        results.print(&broken);
    }
    Ok(broken.is_empty())
}

/// This program in another role, with the idle scheduling policy; killed when dropped.
pub struct Helper(Child);

impl Helper {
    /// Starts it with these arguments.
    pub fn start(arguments: &[String]) -> Result<Self, BenchError> {
        let mut command = Command::new("chrt");
        command.args(["--idle", "0"]).arg(std::env::current_exe()?);
        Ok(Self(
            command.args(arguments).stdout(Stdio::piped()).spawn()?,
        ))
    }

    /// Waits for its output.
    pub async fn output(mut self) -> Result<String, BenchError> {
        let mut stdout = self.0.stdout.take().ok_or("no stdout")?;
        let read = move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        };
        Ok(tokio::task::spawn_blocking(read).await??)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server, and both projects' keys.
pub struct Deployment {
    pub server: Process,
    first: String,
    second: String,
}

impl Deployment {
    /// Starts the server with these settings, as environment variables.
    pub fn start(
        binary: &Path,
        scratch: &Path,
        settings: &[(&str, &str)],
    ) -> Result<Self, BenchError> {
        let data = scratch.join("data");
        let mut nice = Command::new("nice");
        nice.arg("-n").arg(SERVER_NICENESS.to_string()).arg(binary);
        nice.envs(settings.iter().copied());
        let server = Process::conclave_by(nice, &data)?;
        let command = |arguments: &[&str]| -> Result<Value, BenchError> {
            let output = Command::new(binary)
                .arg("--data")
                .arg(&data)
                .args(arguments)
                .arg("--json")
                .output()?;
            Ok(serde_json::from_slice(&output.stdout)?)
        };
        let project = command(&["project", "create", "--name", "second"])?;
        let project = project["project_id"]
            .as_str()
            .ok_or("no project")?
            .to_owned();
        let key = command(&["key", "create", &project])?;
        let (first, second) = (
            server.key(),
            key["key"].as_str().ok_or("no key")?.to_owned(),
        );
        Ok(Self {
            server,
            first,
            second,
        })
    }

    fn clients(&self, connections: usize, rate: f64, seconds: u64) -> Result<Helper, BenchError> {
        let (api, admin) = (self.server.api(), self.server.admin());
        Helper::start(&[
            "overload".into(),
            "clients".into(),
            format!("--api={api}"),
            format!("--admin={admin}"),
            format!("--key={}", self.first),
            format!("--connections={connections}"),
            format!("--rate={rate}"),
            format!("--seconds={seconds}"),
        ])
    }

    /// Returns a token for the first project's room, which is created if it does not exist.
    pub async fn token_of_first(&self, room: &str, identity: &str) -> Result<String, BenchError> {
        self.token(&self.first, room, identity).await
    }

    /// Returns a token for the second project's room, which is created if it does not exist.
    pub async fn token_of_second(&self, room: &str, identity: &str) -> Result<String, BenchError> {
        self.token(&self.second, room, identity).await
    }

    async fn token(&self, key: &str, room: &str, identity: &str) -> Result<String, BenchError> {
        let mut api = Connection::open(&self.server.api()).await?;
        // 409 if it exists.
        api.send(&request(
            key,
            "POST /v1/rooms",
            &json!({"name": room}).to_string(),
        ))
        .await?;
        let wanted = json!({"room": room, "identity": identity});
        let minted = api.json(key, "POST /v1/tokens", &wanted).await?;
        Ok(minted["token"].as_str().ok_or("no token")?.to_owned())
    }

    /// Measures the second project's requests.
    pub async fn probe(&self, time: Duration) -> Result<Latencies, BenchError> {
        probe(&self.server.api(), &self.second, time).await
    }

    /// Returns the number of actors by kind and status, and of queued messages.
    async fn actors(&self) -> Result<BTreeMap<String, f64>, BenchError> {
        let mut metrics = metrics::read(&self.server.admin()).await?;
        let counted = [
            "conclave_actors{",
            "conclave_actor_mailbox{",
            "conclave_store_writes",
        ];
        metrics.retain(|name, _| counted.iter().any(|counted| name.starts_with(counted)));
        Ok(metrics)
    }

    /// Returns the same, once no message is queued.
    async fn actors_at_rest(&self) -> Result<BTreeMap<String, f64>, BenchError> {
        loop {
            let actors = self.actors().await?;
            let waiting = |name: &str| !name.starts_with("conclave_actors");
            if actors
                .iter()
                .all(|(name, count)| *count == 0.0 || !waiting(name))
            {
                return Ok(actors);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until there are no more actors than before. Returns the counts that are still higher after a minute.
    async fn settle(&self, before: &BTreeMap<String, f64>) -> Result<Vec<String>, BenchError> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let now = self.actors().await?;
            let differing = now
                .iter()
                .filter(|(name, count)| before.get(*name).is_none_or(|before| before < count));
            let differing: Vec<_> = differing
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            if differing.is_empty() || Instant::now() > until {
                return Ok(differing);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

struct Results {
    /// The server's capacity in requests per second.
    served: f64,
    quiet: Latencies,
    full_load: Latencies,
    afterwards: Latencies,
    clients: LoadResult,
    seconds: u64,
    /// Resident memory before, at most, and afterwards.
    memory: [f64; 3],
    /// Counts of actors and messages that are higher than before.
    other_actors: Vec<String>,
    idle: IdleResult,
}

async fn measure(
    conclave: &Path,
    options: &Options,
    scratch: &Path,
) -> Result<Results, BenchError> {
    let deployment = Deployment::start(conclave, scratch, &[])?;
    let (seconds, time) = (options.seconds, Duration::from_secs(options.seconds));
    let warm_up = deployment
        .clients(SERVING_CONNECTIONS, 1e6, 5)?
        .output()
        .await?;
    let served = serde_json::from_str::<LoadResult>(&warm_up)?.served() as f64 / 5.0;
    let quiet = deployment.probe(time).await?;
    let actors = deployment.actors_at_rest().await?;
    let before = deployment.server.resident()?;
    let clients = deployment.clients(CONNECTIONS, OVERLOAD * served, seconds)?;
    let (full_load, most) = tokio::join!(
        deployment.probe(time),
        most_memory(&deployment.server, time)
    );
    let clients = serde_json::from_str(&clients.output().await?)?;
    let other_actors = deployment.settle(&actors).await?;
    let afterwards = deployment.probe(time).await?;
    let memory = [before, most?, deployment.server.resident()?];
    let idle = measure_idle_connections(&deployment, time).await?;
    Ok(Results {
        served,
        quiet,
        full_load: full_load?,
        afterwards,
        clients,
        seconds,
        memory,
        other_actors,
        idle,
    })
}

/// Returns a server's maximum resident memory over a time, in KiB.
pub async fn most_memory(server: &Process, time: Duration) -> Result<f64, BenchError> {
    let (until, mut most) = (Instant::now() + time, 0.0_f64);
    while Instant::now() < until {
        most = most.max(server.resident()?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(most)
}

impl Results {
    /// Returns the broken promises.
    fn broken(&self) -> Vec<String> {
        let [before, most, after] = self.memory;
        let quiet = self.quiet.p99();
        let mut broken = Vec::new();
        for (when, p99) in [
            ("at full load", self.full_load.p99()),
            ("afterwards", self.afterwards.p99()),
        ] {
            if p99 > quiet.mul_f64(SLOWER) {
                broken.push(format!(
                    "{when}: p99 of the second project's requests {p99:.1?}, quiet {quiet:.1?}"
                ));
            }
        }
        let mut check = |holds: bool, what: &str| broken.extend((!holds).then(|| what.to_owned()));
        check(
            self.full_load.refused == 0,
            "requests of the second project are refused",
        );
        check(
            self.clients.without_retry_after == 0,
            "refusals without Retry-After",
        );
        check(
            self.clients.other() == 0,
            "responses other than 2xx, 429 and 503",
        );
        check(
            self.clients.admitted_p99() <= ADMITTED,
            "admitted requests take too long",
        );
        check(most <= MEMORY, "too much memory at full load");
        check(after <= before + KEPT_MEMORY, "memory is kept afterwards");
        check(
            self.other_actors.is_empty(),
            "there are more actors afterwards",
        );
        check(self.idle.lost == 0, "idle connections are closed");
        check(
            self.idle.probe.refused == 0,
            "requests are refused while connections are idle",
        );
        broken
    }

    fn to_json(&self, broken: &[String]) -> Value {
        json!({
            "served_per_second": self.served, "quiet": self.quiet.to_json(), "full_load": self.full_load.to_json(), "afterwards": self.afterwards.to_json(),
            "clients": self.clients.to_json(self.seconds), "memory": self.memory,
            "other_actors": self.other_actors, "idle": self.idle.to_json(), "broken": broken,
        })
    }

    fn print(&self, broken: &[String]) {
        println!(
            "The server serves {:.0} requests/s of the first project.",
            self.served
        );
        println!(
            "\n{:<34} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}",
            "the second project", "p99", "read p50", "p99", "write p50", "p99", "refused"
        );
        self.quiet.print("quiet");
        self.full_load.print("at the first project's full load");
        self.afterwards.print("afterwards");
        self.idle
            .probe
            .print(&format!("{} idle connections", self.idle.connections));
        println!("\nthe first project, over {CONNECTIONS} connections");
        self.clients.print(self.seconds);
        let [before, most, after] = self.memory.map(|kib| (kib / 1024.0).round());
        println!(
            "\nmemory: {before} MiB before, at most {most} MiB at full load, {after} MiB afterwards"
        );
        println!(
            "an idle connection takes {:.1} KiB, {} are lost",
            self.idle.kib_each, self.idle.lost
        );
        println!(
            "kinds of actors with more afterwards: {}",
            self.other_actors.len()
        );
        self.other_actors
            .iter()
            .for_each(|actors| println!("  {actors}"));
        println!("\nbroken promises: {}", broken.len());
        broken.iter().for_each(|promise| println!("  {promise}"));
    }
}
