//! The benchmark that `scripts/bench` runs: the server compared with a bare actix-web handler that returns the same JSON.
//!
//! Both run as separate processes with the same number of workers and are measured alternately under the same load. The
//! result is the ratio, because absolute numbers differ between machines and from minute to minute. All traffic is on
//! loopback, and time and number of requests are bounded.

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

/// Concurrent connections of the load.
const CONNECTIONS: usize = 32;
/// Measured time of a round, after the warm-up.
const ROUND: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_millis(500);
/// Rounds for each server and operation.
const ROUNDS: usize = 3;
/// Rooms that are created to measure the memory of one.
const IDLE_ROOMS: usize = 10_000;
/// Worker threads of each server.
const WORKERS: &str = "2";

type BenchError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), BenchError> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("bare") => serve_bare(&arguments.next().ok_or("bare needs a file of responses")?),
        Some("--conclave") => bench(Path::new(&arguments.next().ok_or("--conclave needs a path")?)),
        _ => Err("usage: bench --conclave PATH".into()),
    }
}

/// A child process, killed when dropped.
struct Process {
    child: Child,
    /// The line of JSON that it printed when it was ready.
    ready: Value,
}

impl Process {
    fn start(command: &mut Command) -> Result<Self, BenchError> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
        Ok(Self { child, ready: serde_json::from_str(&line)? })
    }

    /// Address and port of the API.
    fn address(&self) -> String {
        self.ready["api"].as_str().unwrap_or_default().trim_start_matches("http://").to_owned()
    }

    /// Returns the resident memory in bytes.
    fn resident(&self) -> Result<u64, BenchError> {
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

fn start_conclave(binary: &Path, data: &Path) -> Result<Process, BenchError> {
    let mut command = Command::new(binary);
    command.arg("--data").arg(data).args(["dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.env("CONCLAVE_LIMITS__REQUESTS_PER_SECOND", "1000000").env("CONCLAVE_LIMITS__BURST", "1000000");
    command.env("CONCLAVE_HTTP__WORKERS", WORKERS);
    Process::start(&mut command)
}

/// Runs the bare server: three routes, each with a constant response.
fn serve_bare(file: &str) -> Result<(), BenchError> {
    let responses: Arc<Value> = Arc::new(serde_json::from_str(&std::fs::read_to_string(file)?)?);
    actix_web::rt::System::new().block_on(async {
        let server = HttpServer::new(move || {
            let response = |name: &str| web::Bytes::from(responses[name].to_string());
            let (room, token, created) = (response("get_room"), response("create_token"), response("create_room"));
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

/// One kind of request. `{n}` in the body is replaced by a number that is never repeated.
struct Load {
    name: &'static str,
    head: &'static str,
    body: &'static str,
    /// Lowest ratio that passes.
    limit: f64,
    /// Ratio to aim for; only printed.
    goal: f64,
}

const LOADS: [Load; 3] = [
    Load { name: "get_room", head: "GET /v1/rooms/bench", body: "", limit: 0.4, goal: 0.5 },
    Load {
        name: "create_token",
        head: "POST /v1/tokens",
        body: r#"{"room":"bench","identity":"user{n}","role":"host"}"#,
        limit: 0.3,
        goal: 0.4,
    },
    Load { name: "create_room", head: "POST /v1/rooms", body: r#"{"name":"room{n}"}"#, limit: 0.08, goal: 0.12 },
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

/// A keep-alive connection that sends one request at a time.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(8 * 1024) })
    }

    /// Sends a request and returns the body of its response.
    async fn exchange(&mut self, request: &[u8]) -> Result<&[u8], BenchError> {
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

/// Returns the requests per second that `address` answers in one round.
async fn measure_rate(address: &str, key: &str, load: &'static Load) -> Result<f64, BenchError> {
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
            Ok::<_, BenchError>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(counted.load(Ordering::Relaxed) as f64 / ROUND.as_secs_f64())
}

async fn send_request(address: &str, key: &str, head: &str, body: &str) -> Result<Value, BenchError> {
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let mut connection = Connection::open(address).await?;
    Ok(serde_json::from_slice(connection.exchange(request.as_bytes()).await?)?)
}

fn bench(binary: &Path) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let scratch = Scratch::new()?;
    runtime.block_on(async {
        let passes = compare_throughput(binary, &scratch.0).await? & measure_idle_rooms(binary, &scratch.0).await?;
        if passes { Ok(()) } else { Err("a result misses its limit".into()) }
    })
}

/// A temporary directory, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, BenchError> {
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

async fn compare_throughput(binary: &Path, scratch: &Path) -> Result<bool, BenchError> {
    let server = start_conclave(binary, &scratch.join("load"))?;
    let (address, key) = (server.address(), server.ready["api_key"].as_str().unwrap_or_default().to_owned());
    let room = send_request(&address, &key, "POST /v1/rooms", r#"{"name":"bench"}"#).await?;
    let token =
        send_request(&address, &key, "POST /v1/tokens", r#"{"room":"bench","identity":"a","role":"host"}"#).await?;
    let responses = scratch.join("responses.json");
    std::fs::write(&responses, json!({"get_room": room, "create_room": room, "create_token": token}).to_string())?;
    let bare = Process::start(Command::new(std::env::current_exe()?).arg("bare").arg(&responses))?;

    println!(
        "{:<14} {:>12} {:>12} {:>8} {:>8} {:>8}",
        "operation", "bare req/s", "conclave", "ratio", "wanted", "goal"
    );
    let mut passes = true;
    for load in &LOADS {
        let (mut bare_rate, mut conclave_rate) = (0.0, 0.0);
        for _ in 0..ROUNDS {
            bare_rate += measure_rate(&bare.address(), &key, load).await?;
            conclave_rate += measure_rate(&address, &key, load).await?;
        }
        let (bare_rate, conclave_rate) = (bare_rate / ROUNDS as f64, conclave_rate / ROUNDS as f64);
        let ratio = conclave_rate / bare_rate;
        passes &= ratio >= load.limit;
        println!(
            "{:<14} {bare_rate:>12.0} {conclave_rate:>12.0} {ratio:>8.3} {:>8} {:>8}",
            load.name, load.limit, load.goal
        );
    }
    Ok(passes)
}

async fn measure_idle_rooms(binary: &Path, scratch: &Path) -> Result<bool, BenchError> {
    let server = start_conclave(binary, &scratch.join("idle"))?;
    let (address, key) = (server.address(), server.ready["api_key"].as_str().unwrap_or_default().to_owned());
    let mut connection = Connection::open(&address).await?;
    let load = LOADS.iter().find(|load| load.name == "create_room").ok_or("no such load")?;
    // The first rooms are not measured: they also cause allocations that happen once.
    for _ in 0..200 {
        connection.exchange(&load.request(&key)).await?;
    }
    let before = server.resident()?;
    for _ in 0..IDLE_ROOMS {
        connection.exchange(&load.request(&key)).await?;
    }
    let kib_per_room = server.resident()?.saturating_sub(before) as f64 / IDLE_ROOMS as f64 / 1024.0;
    println!("{IDLE_ROOMS} idle open rooms: {kib_per_room:.2} KiB each (wanted: under 6)");
    Ok(kib_per_room < 6.0)
}
