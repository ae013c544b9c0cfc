//! Console pages on a server with many rows, and the cost of open pages.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde_json::Value;

use crate::BenchError;
use crate::connection::{Connection, request};
use crate::figure::{Figure, Section, Unit};
use crate::fill::Filler;
use crate::load;
use crate::participant::Participant;
use crate::process::Process;

const OPEN_ROOMS: u32 = 100_000;
const SESSIONS: u32 = 1_000_000;
const DELIVERIES: u32 = 1_000_000;
/// Participants in the measured room page.
const PARTICIPANTS: usize = 20;
/// Sequential reads per page.
const READINGS: usize = 50;
/// Unmeasured reads before them.
const WARM_UP: usize = 3;
/// Time with open pages.
const OPEN: Duration = Duration::from_secs(60);
/// Time without open pages.
const CLOSED: Duration = Duration::from_secs(30);

/// Pages below the project's path: a name, and a path in which `{project}`, `{template}` and so on are replaced.
const PAGES: [(&str, &str); 27] = [
    ("overview", "/"),
    ("projects", "/projects"),
    ("rooms", "/projects/{project}"),
    ("rooms, searched", "/projects/{project}?q=filled-A1"),
    ("rooms, searched in vain", "/projects/{project}?q=nothing"),
    ("room", ROOM),
    ("room that has ended", "/projects/{project}/rooms/past-17"),
    ("sessions", "/projects/{project}/sessions"),
    (
        "sessions of a room, with timeline",
        "/projects/{project}/sessions?room=past-17",
    ),
    (
        "sessions of an identity",
        "/projects/{project}/sessions?identity=person-7",
    ),
    (
        "sessions, page 2,000",
        "/projects/{project}/sessions?offset=100000",
    ),
    ("session", "/projects/{project}/sessions/{session}"),
    ("recordings", "/projects/{project}/recordings"),
    ("broadcasts", "/projects/{project}/broadcasts"),
    ("ingress", "/projects/{project}/ingress"),
    ("templates", "/projects/{project}/templates"),
    ("template", "/projects/{project}/templates/{template}"),
    ("webhooks", "/projects/{project}/webhooks"),
    (
        "webhooks, failed deliveries",
        "/projects/{project}/webhooks?status=failed",
    ),
    (
        "webhooks, page 2,000",
        "/projects/{project}/webhooks?offset=100000",
    ),
    ("delivery", "/projects/{project}/deliveries/{delivery}"),
    ("usage", "/projects/{project}/usage"),
    ("settings", "/projects/{project}/settings"),
    ("actors", "/actors"),
    ("actors, searched", "/actors?q=filled-A1"),
    ("actor", "/actors/{project}/room/bench"),
    ("server", "/server"),
];
/// Pages to keep open.
const OPEN_PAGES: [&str; 3] = ["/", ROOM, "/actors"];
/// The page of the room with participants. It streams the room's events.
const ROOM: &str = "/projects/{project}/rooms/bench";

/// Measures a server with all rows.
pub async fn measure(conclave: &Path, scratch: &Path) -> Result<Section, BenchError> {
    let data = scratch.join("data");
    prepare(conclave, &data).await?;
    let server = Process::conclave(conclave, &data)?;
    let mut participants = Vec::new();
    for number in 0..PARTICIPANTS {
        let mut participant =
            Participant::new(&server, &server.key(), "bench", &format!("person-{number}")).await?;
        participant.join().await?;
        participants.push(participant);
    }
    let names = Names::read(&server).await?;
    let mut figures = Vec::new();
    for (name, path) in PAGES {
        let request = get(&names.fill(path));
        let sample =
            load::one_after_the_other(&server.admin(), (WARM_UP, READINGS), |_| request.clone())
                .await?;
        let p99 = Figure::new(
            format!("{name}, p99"),
            sample.percentile(99.0),
            Unit::Milliseconds,
        )
        .under(100.0);
        figures.push(p99.note(format!("median {:.2} ms", sample.percentile(50.0))));
    }
    figures.extend(open_pages(&server, &names).await?);
    server.stop()?;
    Ok(Section {
        title: "The console with 100,000 rooms, 1,000,000 sessions and 1,000,000 deliveries",
        about: "50 sequential requests to each page. Then the overview, a room of 20 participants and the list of \
                actors are open at once for a minute: their scripts reload them and stream the room's events.",
        figures,
        curves: Vec::new(),
    })
}

async fn prepare(conclave: &Path, data: &Path) -> Result<(), BenchError> {
    let filler = Filler::create(conclave, data).await?;
    filler.open_rooms(OPEN_ROOMS)?;
    filler.past_rooms()?;
    filler.sessions(0, SESSIONS)?;
    filler.deliveries(0, DELIVERIES)
}

fn get(path: &str) -> Vec<u8> {
    request("", &format!("GET {path}"), "")
}

/// Values for the pages' path parameters.
struct Names([(&'static str, String); 4]);

impl Names {
    async fn read(server: &Process) -> Result<Self, BenchError> {
        let mut connection = Connection::open(&server.api()).await?;
        let mut first = async |list: &'static str, path: &str, field: &str| {
            let listed = connection
                .json(&server.key(), &format!("GET {path}"), &Value::Null)
                .await?;
            let found = listed[list][0][field].as_str().map(str::to_owned);
            found.ok_or_else(|| BenchError::from(format!("{path} lists nothing")))
        };
        Ok(Self([
            (
                "{project}",
                first("rooms", "/v1/rooms", "project_id").await?,
            ),
            ("{session}", first("sessions", "/v1/sessions", "id").await?),
            (
                "{delivery}",
                first("webhook_deliveries", "/v1/webhook-deliveries", "id").await?,
            ),
            (
                "{template}",
                first("templates", "/v1/templates", "id").await?,
            ),
        ]))
    }

    fn fill(&self, path: &str) -> String {
        self.0.iter().fold(path.to_owned(), |path, (name, value)| {
            path.replace(name, value)
        })
    }
}

/// Measures the CPU of a server whose console is not open, and the additional CPU for open pages.
async fn open_pages(server: &Process, names: &Names) -> Result<[Figure; 2], BenchError> {
    let sleep = async {
        tokio::time::sleep(CLOSED).await;
        Ok(())
    };
    let closed = cpu_of(server, sleep).await?;
    let mut stream = Connection::open(&server.admin()).await?;
    stream
        .start(&get(&format!("{}/events", names.fill(ROOM))))
        .await?;
    let address = server.admin();
    let pages = OPEN_PAGES.map(|path| keep_open(&address, names.fill(path)));
    let open = cpu_of(server, async { try_join_all(pages).await.map(drop) }).await?;
    let each = (open - closed) / OPEN_PAGES.len() as f64;
    Ok([
        Figure::new("no page is open, CPU", closed, Unit::Percent).note("of one core"),
        Figure::new("an open page adds, CPU", each, Unit::Percent)
            .under(0.1)
            .note(format!(
                "of one core; with all {} pages it uses {open:.2} %",
                OPEN_PAGES.len()
            )),
    ])
}

/// Reads a page as its script does.
async fn keep_open(address: &str, path: String) -> Result<(), BenchError> {
    let mut connection = Connection::open(address).await?;
    let begun = Instant::now();
    let every = interval(connection.exchange(&get(&path)).await?)
        .ok_or("the page does not read itself again")?;
    while begun.elapsed() + every <= OPEN {
        tokio::time::sleep(every).await;
        connection.exchange(&get(&path)).await?;
    }
    tokio::time::sleep(OPEN.saturating_sub(begun.elapsed())).await;
    Ok(())
}

/// Returns a page's refresh interval, from its text.
fn interval(page: &[u8]) -> Option<Duration> {
    let (_, rest) = std::str::from_utf8(page)
        .ok()?
        .split_once("data-every=\"")?;
    rest.split('"')
        .next()?
        .parse()
        .ok()
        .map(Duration::from_secs)
}

/// Measures the server's share of a core during `meanwhile`, in percent.
async fn cpu_of(
    server: &Process,
    meanwhile: impl Future<Output = Result<(), BenchError>>,
) -> Result<f64, BenchError> {
    let (before, begun) = (server.cpu()?, Instant::now());
    meanwhile.await?;
    Ok((server.cpu()? - before) / begun.elapsed().as_secs_f64() * 100.0)
}
