//! Records in a remote PostgreSQL, compared with SQLite: the write throughput of many projects and of one, and the duration of a read.

use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use test_postgres::{Cluster, ClusterOptions, Proxy};

use crate::BenchError;
use crate::connection::{Connection, request};
use crate::figure::{Figure, Section, Unit, thousands};
use crate::load::{self, Sample};
use crate::participant::Participant;
use crate::process::Process;
use crate::{import, joins};

/// Round trip to the database, which runs on this machine behind a delaying proxy.
const ROUND_TRIP: Duration = Duration::from_micros(500);
/// Settings with which the cluster writes as durably as in production.
const DURABLE: [&str; 2] = ["fsync=on", "full_page_writes=on"];
/// Projects in measurements with many projects.
const PROJECTS: usize = 32;
/// Rooms per project.
const ROOMS: usize = 8;
/// Number of the load's connections, or of its participants.
const CLIENTS: usize = 64;
/// Measured time per round.
const ROUND: Duration = Duration::from_secs(3);
/// Rounds per server, alternately.
const ROUNDS: usize = 3;
/// Number of unmeasured sequential reads of a room, and of measured ones.
const READS: (usize, usize) = (50, 500);

/// A server with its projects.
struct Server {
    process: Process,
    /// API key by project.
    keys: Vec<String>,
    /// The next room's number.
    next: Cell<u64>,
}

/// The load in each round.
#[derive(Clone, Copy)]
enum Load {
    Creates,
    Joins,
}

/// Measures a server on PostgreSQL and one on SQLite, alternately.
pub async fn measure(conclave: &Path, scratch: &Path) -> Result<Section, BenchError> {
    let settings = DURABLE.map(str::to_owned).into();
    let cluster = Cluster::start(ClusterOptions {
        settings,
        ..ClusterOptions::default()
    });
    let (database, proxy) = (cluster.database(), Proxy::start(cluster.address()));
    proxy.delay(ROUND_TRIP);
    let url = database.url_at(proxy.address());
    let server = Server::start(conclave, &scratch.join("server"), Some(&url)).await?;
    let file = Server::start(conclave, &scratch.join("file"), None).await?;
    let both = [&server, &file];
    let mut figures = vec![
        written("creates, 32 projects", both, Load::Creates, PROJECTS)
            .await?
            .at_least(1_800.0),
        written("joins and leaves, 32 projects", both, Load::Joins, PROJECTS)
            .await?
            .at_least(900.0),
        written("creates, one project", both, Load::Creates, 1).await?,
        written("joins and leaves, one project", both, Load::Joins, 1)
            .await?
            .at_least(170.0),
    ];
    figures.push(read(both).await?.under(3.0));
    let empty = cluster.database();
    figures.push(import::measure(conclave, scratch, &empty.url_at(cluster.address())).await?);
    Ok(Section {
        title: "Records in PostgreSQL, 0.5 ms away",
        about: "`scripts/bench server --only postgres`. A proxy delays each round trip to a PostgreSQL on the same two cores, \
                which writes durably. 64 clients create rooms, or join and leave through the sandbox; the reads are \
                sequential. A server on a file does the same, alternately. The load uses both cores: about a quarter of \
                that is the server's, a quarter the load's with the proxy, the rest PostgreSQL's, and half of all is \
                the kernel's for waking threads and processes up. The import is without the proxy.",
        figures,
        curves: Vec::new(),
    })
}

/// Returns the first server's changes per second, with the second's in the note.
async fn written(
    name: &str,
    servers: [&Server; 2],
    load: Load,
    projects: usize,
) -> Result<Figure, BenchError> {
    let [seen, file] = alternate(servers, load, projects).await?;
    let note = format!(
        "median {:.1} ms, p99 {:.1} ms; on a file {}/s",
        seen.percentile(50.0),
        seen.percentile(99.0),
        thousands(file.rate())
    );
    Ok(Figure::new(name, seen.rate(), Unit::PerSecond).note(note))
}

async fn alternate(
    [server, file]: [&Server; 2],
    load: Load,
    projects: usize,
) -> Result<[Sample; 2], BenchError> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push([
            server.round(load, projects).await?,
            file.round(load, projects).await?,
        ]);
    }
    let join =
        |[one, two]: [Sample; 2], [other, another]: [Sample; 2]| [one.and(other), two.and(another)];
    rounds
        .into_iter()
        .reduce(join)
        .ok_or_else(|| "no round".into())
}

/// Returns the median duration of a read from the first server, with the second's in the note.
async fn read([server, file]: [&Server; 2]) -> Result<Figure, BenchError> {
    let (seen, file) = (server.read().await?, file.read().await?);
    let note = format!(
        "p99 {:.2} ms; on a file {:.2} ms",
        seen.percentile(99.0),
        file.percentile(50.0)
    );
    Ok(Figure::new(
        "get_room, median",
        seen.percentile(50.0),
        Unit::Milliseconds,
    )
    .note(note))
}

impl Server {
    /// Starts a server with its records at a URL or in a file, and creates its projects and their rooms.
    async fn start(binary: &Path, data: &Path, url: Option<&str>) -> Result<Self, BenchError> {
        let program = || {
            let mut program = Command::new(binary);
            program.envs(url.map(|url| ("CONCLAVE_DATABASE__URL", url)));
            program
        };
        let process = Process::conclave_by(program(), data)?;
        let command = |arguments: &[&str]| -> Result<Value, BenchError> {
            let output = program()
                .arg("--data")
                .arg(data)
                .args(arguments)
                .arg("--json")
                .output()?;
            Ok(serde_json::from_slice(&output.stdout)?)
        };
        let (mut keys, mut api) = (Vec::new(), Connection::open(&process.api()).await?);
        for number in 0..PROJECTS {
            let project = command(&["project", "create", "--name", &format!("project-{number}")])?;
            let key = command(&[
                "key",
                "create",
                project["project_id"].as_str().ok_or("no project")?,
            ])?;
            let key = key["key"].as_str().ok_or("no key")?.to_owned();
            let template = json!({"name": "bench", "roles": {"host": {}}});
            let template = api.json(&key, "POST /v1/templates", &template).await?;
            for room in 0..ROOMS {
                let name = format!("room-{room}");
                let room = json!({"name": name, "empty_timeout_seconds": 36_000, "template_id": template["id"]});
                api.json(&key, "POST /v1/rooms", &room).await?;
            }
            keys.push(key);
        }
        Ok(Self {
            process,
            keys,
            next: Cell::new(0),
        })
    }

    async fn round(&self, load: Load, projects: usize) -> Result<Sample, BenchError> {
        match load {
            Load::Creates => self.create(projects).await,
            Load::Joins => self.join(projects).await,
        }
    }

    async fn create(&self, projects: usize) -> Result<Sample, BenchError> {
        let (keys, number) = (self.keys[..projects].to_vec(), Cell::new(self.next.get()));
        // A round creates fewer rooms than this, so the rounds' names differ.
        self.next.set(number.get() + 10_000_000);
        let next = move |client: usize| {
            number.set(number.get() + 1);
            let body = format!(r#"{{"name":"new-{}"}}"#, number.get());
            request(&keys[client % keys.len()], "POST /v1/rooms", &body)
        };
        load::run(&self.process.api(), CLIENTS, ROUND, next).await
    }

    async fn join(&self, projects: usize) -> Result<Sample, BenchError> {
        let mut participants = Vec::new();
        for number in 0..CLIENTS {
            let (key, room) = (
                &self.keys[number % projects],
                format!("room-{}", number % ROOMS),
            );
            participants.push(
                Participant::new(&self.process, key, &room, &format!("user-{number}")).await?,
            );
        }
        joins::join_and_leave(participants, ROUND).await
    }

    async fn read(&self) -> Result<Sample, BenchError> {
        let next = |_| request(&self.keys[0], "GET /v1/rooms/room-0", "");
        load::one_after_the_other(&self.process.api(), READS, next).await
    }
}
