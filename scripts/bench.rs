//! What `scripts/bench` runs: the server against a bare actix-web handler that returns the same JSON.
//!
//! Both run as processes of their own with the same number of workers, take turns under the same load in one run, and
//! what counts is the ratio: machines differ, and one machine differs from minute to minute. Everything is on loopback
//! and bounded in time and count.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 32;
const ROUND: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_millis(500);
const ROUNDS: usize = 3;
const IDLE_ROOMS: usize = 10_000;
const WORKERS: &str = "2";

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("bare") => serve_bare(&arguments.next().ok_or("bare wants a file of answers")?),
        Some("--conclave") => bench(Path::new(&arguments.next().ok_or("--conclave wants a path")?)),
        _ => Err("usage: bench --conclave PATH".into()),
    }
}

/// A process that is ended with the bench.
struct Process {
    child: Child,
    /// The line it printed when it was ready.
    ready: Value,
}

impl Process {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
        Ok(Self { child, ready: serde_json::from_str(&line)? })
    }

    fn address(&self) -> String {
        self.ready["api"].as_str().unwrap_or_default().trim_start_matches("http://").to_owned()
    }

    /// Resident memory in bytes.
    fn resident(&self) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn conclave(binary: &Path, data: &Path) -> Result<Process, Failure> {
    let mut command = Command::new(binary);
    command.arg("--data").arg(data).args(["dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.env("CONCLAVE_LIMITS__REQUESTS_PER_SECOND", "1000000").env("CONCLAVE_LIMITS__BURST", "1000000");
    command.env("CONCLAVE_HTTP__WORKERS", WORKERS);
    Process::start(&mut command)
}

/// The bare server: three routes, each with the bytes it answers.
fn serve_bare(file: &str) -> Result<(), Failure> {
    let answers: Arc<Value> = Arc::new(serde_json::from_str(&std::fs::read_to_string(file)?)?);
    actix_web::rt::System::new().block_on(async {
        let server = HttpServer::new(move || {
            let answer = |name: &str| web::Bytes::from(answers[name].to_string());
            let (room, token, created) = (answer("get_room"), answer("create_token"), answer("create_room"));
            App::new()
                .route("/v1/rooms/{name}", web::get().to(move || bare(200, room.clone())))
                .route("/v1/tokens", web::post().to(move |_: web::Bytes| bare(201, token.clone())))
                .route("/v1/rooms", web::post().to(move |_: web::Bytes| bare(201, created.clone())))
        });
        let server = server.workers(WORKERS.parse()?).bind("127.0.0.1:0")?;
        println!("{}", json!({"api": format!("http://{}", server.addrs()[0])}));
        Ok(server.run().await?)
    })
}

async fn bare(status: u16, body: web::Bytes) -> HttpResponse {
    let status = actix_web::http::StatusCode::from_u16(status).unwrap_or_default();
    HttpResponse::build(status).content_type("application/json").body(body)
}

/// One kind of request. `{n}` in the body becomes a number that never comes twice.
struct Load {
    name: &'static str,
    head: &'static str,
    body: &'static str,
    wanted: f64,
    goal: f64,
}

const LOADS: [Load; 3] = [
    Load { name: "get_room", head: "GET /v1/rooms/bench", body: "", wanted: 0.4, goal: 0.5 },
    Load {
        name: "create_token",
        head: "POST /v1/tokens",
        body: r#"{"room":"bench","identity":"user{n}","role":"host"}"#,
        wanted: 0.3,
        goal: 0.4,
    },
    Load { name: "create_room", head: "POST /v1/rooms", body: r#"{"name":"room{n}"}"#, wanted: 0.08, goal: 0.12 },
];

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Load {
    fn request(&self, key: &str) -> Vec<u8> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
        let body = self.body.replace("{n}", &number);
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len())
        };
        format!("{} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n{length}\r\n{body}", self.head)
            .into_bytes()
    }
}

/// A keep-alive connection that sends one request after another.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(8 * 1024) })
    }

    /// Sends a request and reads its answer to the end. Gives the body.
    async fn exchange(&mut self, request: &[u8]) -> Result<&[u8], Failure> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            let Some(head) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
            let text = std::str::from_utf8(&self.buffer[..head])?;
            if !text.starts_with("HTTP/1.1 20") {
                return Err(format!("refused: {}", String::from_utf8_lossy(&self.buffer)).into());
            }
            let length = text.lines().find_map(|l| l.strip_prefix("content-length: ")).ok_or("no length")?;
            let (from, length) = (head + 4, length.parse::<usize>()?);
            if self.buffer.len() >= from + length {
                return Ok(&self.buffer[from..from + length]);
            }
        }
    }
}

/// Requests a second that `address` answers within one round.
async fn rate(address: &str, key: &str, load: &'static Load) -> Result<f64, Failure> {
    let counted = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let (from, until) = (started + WARM_UP, started + WARM_UP + ROUND);
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let (address, key, counted) = (address.to_owned(), key.to_owned(), Arc::clone(&counted));
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(&address).await?;
            while Instant::now() < until {
                connection.exchange(&load.request(&key)).await?;
                if Instant::now() >= from {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok::<_, Failure>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(counted.load(Ordering::Relaxed) as f64 / ROUND.as_secs_f64())
}

async fn one(address: &str, key: &str, head: &str, body: &str) -> Result<Value, Failure> {
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let mut connection = Connection::open(address).await?;
    Ok(serde_json::from_slice(connection.exchange(request.as_bytes()).await?)?)
}

fn bench(binary: &Path) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let scratch = Scratch::new()?;
    runtime.block_on(async {
        let good = compare(binary, &scratch.0).await? & idle_rooms(binary, &scratch.0).await?;
        if good { Ok(()) } else { Err("a figure is below what is wanted".into()) }
    })
}

/// A directory that goes with the bench.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("conclave-bench-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn compare(binary: &Path, scratch: &Path) -> Result<bool, Failure> {
    let server = conclave(binary, &scratch.join("load"))?;
    let (address, key) = (server.address(), server.ready["api_key"].as_str().unwrap_or_default().to_owned());
    let room = one(&address, &key, "POST /v1/rooms", r#"{"name":"bench"}"#).await?;
    let token = one(&address, &key, "POST /v1/tokens", r#"{"room":"bench","identity":"a","role":"host"}"#).await?;
    let answers = scratch.join("answers.json");
    std::fs::write(&answers, json!({"get_room": room, "create_room": room, "create_token": token}).to_string())?;
    let bare = Process::start(Command::new(std::env::current_exe()?).arg("bare").arg(&answers))?;

    println!(
        "{:<14} {:>12} {:>12} {:>8} {:>8} {:>8}",
        "operation", "bare req/s", "conclave", "ratio", "wanted", "goal"
    );
    let mut good = true;
    for load in &LOADS {
        let (mut theirs, mut ours) = (0.0, 0.0);
        for _ in 0..ROUNDS {
            theirs += rate(&bare.address(), &key, load).await?;
            ours += rate(&address, &key, load).await?;
        }
        let (theirs, ours) = (theirs / ROUNDS as f64, ours / ROUNDS as f64);
        let ratio = ours / theirs;
        good &= ratio >= load.wanted;
        println!("{:<14} {theirs:>12.0} {ours:>12.0} {ratio:>8.3} {:>8} {:>8}", load.name, load.wanted, load.goal);
    }
    Ok(good)
}

async fn idle_rooms(binary: &Path, scratch: &Path) -> Result<bool, Failure> {
    let server = conclave(binary, &scratch.join("idle"))?;
    let (address, key) = (server.address(), server.ready["api_key"].as_str().unwrap_or_default().to_owned());
    let mut connection = Connection::open(&address).await?;
    let make = LOADS.iter().find(|load| load.name == "create_room").ok_or("no such load")?;
    // A few first, so that what any server needs once is not counted as the rooms'.
    for _ in 0..200 {
        connection.exchange(&make.request(&key)).await?;
    }
    let before = server.resident()?;
    for _ in 0..IDLE_ROOMS {
        connection.exchange(&make.request(&key)).await?;
    }
    let each = server.resident()?.saturating_sub(before) as f64 / IDLE_ROOMS as f64 / 1024.0;
    println!("{IDLE_ROOMS} idle open rooms: {each:.2} KiB each (wanted: under 6)");
    Ok(each < 6.0)
}
