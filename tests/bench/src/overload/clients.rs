//! Clients for `scripts/check overload`: those in the overloading project, and those in the other one.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::LocalSet;

use crate::BenchError;
use crate::connection::{Connection, request};
use crate::load;

/// The normal project's requests per second.
const PROBE_RATE: f64 = 100.0;
/// Number of requests in its repeated sequence.
const ROUNDS: usize = 5;
/// A room ends after this many later rooms.
const ENDED_AFTER: usize = 40;

/// Options for the first project's clients.
#[derive(Args)]
pub struct LoadOptions {
    #[arg(long)]
    api: String,
    #[arg(long)]
    admin: String,
    #[arg(long)]
    key: String,
    /// Connections to each listener.
    #[arg(long)]
    connections: usize,
    /// Requests per second, over all connections.
    #[arg(long)]
    rate: f64,
    #[arg(long)]
    seconds: u64,
}

/// Results from the first project's clients. Times are in microseconds.
#[derive(Default, Serialize, Deserialize)]
pub struct LoadResult {
    /// Requests that were due while their connection waited for a response.
    unsent: u64,
    by_status: BTreeMap<u16, u64>,
    /// Those among them with 429 or 503 and without the header.
    pub without_retry_after: u64,
    admitted: Vec<u32>,
    refused: Vec<u32>,
}

impl LoadResult {
    /// Returns the number of served requests.
    pub fn served(&self) -> u64 {
        self.count(|status| status / 100 == 2)
    }

    fn refusals(&self) -> u64 {
        self.count(|status| matches!(status, 429 | 503))
    }

    /// Returns the number of other responses.
    pub fn other(&self) -> u64 {
        self.count(|status| status / 100 != 2 && !matches!(status, 429 | 503))
    }

    fn count(&self, of: impl Fn(u16) -> bool) -> u64 {
        self.by_status
            .iter()
            .filter(|(status, _)| of(**status))
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns the p99 latency of admitted requests.
    pub fn admitted_p99(&self) -> Duration {
        percentile(&self.admitted, 99.0)
    }

    fn add(&mut self, status: u16, head: &str, took: Duration) {
        *self.by_status.entry(status).or_default() += 1;
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        if matches!(status, 429 | 503) {
            self.without_retry_after += u64::from(!head.contains("\r\nretry-after: "));
            self.refused.push(micros);
        } else {
            self.admitted.push(micros);
        }
    }

    pub fn to_json(&self, seconds: u64) -> Value {
        let rate = |count: u64| count / seconds;
        json!({
            "due_per_second": rate(self.unsent + self.served() + self.refusals() + self.other()),
            "served_per_second": rate(self.served()), "refused_per_second": rate(self.refusals()),
            "by_status": self.by_status, "without_retry_after": self.without_retry_after,
            "admitted_us": spread(&self.admitted), "refused_us": spread(&self.refused),
        })
    }

    pub fn print(&self, seconds: u64) {
        let sent = self.served() + self.refusals() + self.other();
        println!(
            "  due {}/s, sent {}/s",
            (self.unsent + sent) / seconds,
            sent / seconds
        );
        let share = |count: u64| 100.0 * count as f64 / sent.max(1) as f64;
        let rows = [
            ("admitted", self.served(), &self.admitted),
            ("refused", self.refusals(), &self.refused),
        ];
        for (name, count, times) in rows {
            let [p50, p99, most] = [50.0, 99.0, 100.0].map(|percent| percentile(times, percent));
            let rate = count / seconds;
            println!(
                "  {name:<9} {rate:>6}/s {:>5.1} %  p50 {p50:.1?}, p99 {p99:.1?}, at most {most:.1?}",
                share(count)
            );
        }
        println!(
            "  statuses {:?}, without Retry-After {}",
            self.by_status, self.without_retry_after
        );
    }
}

fn percentile(times: &[u32], percent: f64) -> Duration {
    Duration::from_micros(load::percentile(times, percent).unwrap_or(0).into())
}

fn spread(times: &[u32]) -> Value {
    json!({"p50": percentile(times, 50.0).as_micros(), "p99": percentile(times, 99.0).as_micros(), "count": times.len()})
}

/// Runs the first project's clients until each has finished its started work.
pub fn run_clients(options: &LoadOptions) -> Result<LoadResult, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = Rc::new(RefCell::new(LoadResult::default()));
    LocalSet::new().block_on(&runtime, async {
        let until = Instant::now() + Duration::from_secs(options.seconds);
        let interval = Duration::from_secs_f64(options.connections as f64 / options.rate);
        let mut tasks = Vec::new();
        for number in 0..options.connections {
            let client = Client {
                number,
                api: Connection::open(&options.api).await?,
                admin: Connection::open(&options.admin).await?,
                key: options.key.clone(),
                result: Rc::clone(&result),
                due: Instant::now(),
                interval,
                until,
            };
            tasks.push(tokio::task::spawn_local(client.run()));
        }
        for task in tasks {
            task.await??;
        }
        Ok::<_, BenchError>(())
    })?;
    Ok(result.take())
}

/// A client in the first project: it opens rooms, joins, reads, and ends them again.
struct Client {
    number: usize,
    api: Connection,
    admin: Connection,
    key: String,
    result: Rc<RefCell<LoadResult>>,
    due: Instant,
    interval: Duration,
    until: Instant,
}

impl Client {
    async fn run(mut self) -> Result<(), BenchError> {
        let mut left = Vec::new();
        for round in 0.. {
            if Instant::now() >= self.until {
                break;
            }
            let room = format!("load-{}-{}-{round}", std::process::id(), self.number);
            if self
                .call("POST /v1/rooms", &json!({"name": room}))
                .await?
                .is_none()
            {
                continue;
            }
            let token = json!({"room": room, "identity": "alice", "role": "host"});
            let token = self.call("POST /v1/tokens", &token).await?;
            let joined = match token {
                Some(token) => {
                    self.sandbox("POST /sandbox/join", &json!({"token": token["token"]}))
                        .await?
                }
                None => None,
            };
            self.call(&format!("GET /v1/rooms/{room}"), &Value::Null)
                .await?;
            self.call("GET /v1/rooms", &Value::Null).await?;
            if let Some(sid) = joined.as_ref().and_then(|joined| joined["sid"].as_str()) {
                self.sandbox(
                    &format!("POST /sandbox/participants/{sid}/leave"),
                    &json!({"clean": true}),
                )
                .await?;
            }
            if self
                .call(&format!("DELETE /v1/rooms/{room}"), &Value::Null)
                .await?
                .is_none()
            {
                left.push(room);
            }
        }
        self.end(left).await
    }

    /// Ends rooms, each as soon as the server accepts the request.
    async fn end(mut self, rooms: Vec<String>) -> Result<(), BenchError> {
        for room in rooms {
            let end = request(&self.key, &format!("DELETE /v1/rooms/{room}"), "");
            while self.api.send(&end).await?.status != 204 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }

    /// Sends an API request when it is due. Returns the body of a 2xx.
    async fn call(&mut self, head: &str, body: &Value) -> Result<Option<Value>, BenchError> {
        self.wait().await;
        let request = request(&self.key, head, &text(body));
        send(&mut self.api, &request, &self.result).await
    }

    async fn sandbox(&mut self, head: &str, body: &Value) -> Result<Option<Value>, BenchError> {
        self.wait().await;
        send(
            &mut self.admin,
            &request("", head, &text(body)),
            &self.result,
        )
        .await
    }

    /// Waits until a request is due. Requests that became due meanwhile are not sent.
    async fn wait(&mut self) {
        let late = Instant::now()
            .saturating_duration_since(self.due)
            .as_secs_f64()
            / self.interval.as_secs_f64();
        self.result.borrow_mut().unsent += late as u64;
        self.due += self.interval.mul_f64(late.floor());
        tokio::time::sleep_until(self.due.into()).await;
        self.due += self.interval;
    }
}

fn text(body: &Value) -> String {
    if body.is_null() {
        String::new()
    } else {
        body.to_string()
    }
}

async fn send(
    connection: &mut Connection,
    request: &[u8],
    result: &RefCell<LoadResult>,
) -> Result<Option<Value>, BenchError> {
    let sent = Instant::now();
    let response = connection.send(request).await?;
    result
        .borrow_mut()
        .add(response.status, response.head, sent.elapsed());
    Ok((response.status / 100 == 2)
        .then(|| serde_json::from_slice(response.body).unwrap_or_default()))
}

/// The other project's request latencies, in microseconds.
#[derive(Default)]
pub struct Latencies {
    reads: Vec<u32>,
    writes: Vec<u32>,
    pub refused: u64,
}

impl Latencies {
    fn add(&mut self, is_read: bool, status: u16, took: Duration) {
        let times = if is_read {
            &mut self.reads
        } else {
            &mut self.writes
        };
        times.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        self.refused += u64::from(status / 100 != 2);
    }

    /// Returns the p99 over all.
    pub fn p99(&self) -> Duration {
        percentile(&[&*self.reads, &*self.writes].concat(), 99.0)
    }

    pub fn to_json(&self) -> Value {
        json!({
            "p99_us": self.p99().as_micros(), "reads_us": spread(&self.reads), "writes_us": spread(&self.writes),
            "refused": self.refused,
        })
    }

    pub fn print(&self, phase: &str) {
        let milliseconds = |times, percent| percentile(times, percent).as_secs_f64() * 1e3;
        let [read, reads, write, writes] = [
            (&self.reads, 50.0),
            (&self.reads, 99.0),
            (&self.writes, 50.0),
            (&self.writes, 99.0),
        ]
        .map(|(times, percent)| milliseconds(times, percent));
        let all = self.p99().as_secs_f64() * 1e3;
        println!(
            "{phase:<34} {all:>6.2} ms {read:>6.2} ms {reads:>6.2} ms {write:>6.2} ms {writes:>6.2} ms {:>8}",
            self.refused
        );
    }
}

/// Sends the other project's requests at a fixed rate: rooms are created and, two seconds later, ended; in between, a room is read, the
/// rooms are listed, and tokens are minted. Ends the remaining rooms.
pub async fn probe(api: &str, key: &str, time: Duration) -> Result<Latencies, BenchError> {
    let latencies = Rc::new(RefCell::new(Latencies::default()));
    let probe = Probe {
        api: api.to_owned(),
        key: key.to_owned(),
        name: format!("probe-{:x}", UNIX_EPOCH.elapsed()?.as_millis()),
        free: Rc::default(),
        latencies: Rc::clone(&latencies),
    };
    LocalSet::new().run_until(probe.run(time)).await?;
    Ok(latencies.take())
}

#[derive(Clone)]
struct Probe {
    api: String,
    key: String,
    name: String,
    /// Idle connections.
    free: Rc<RefCell<VecDeque<Connection>>>,
    latencies: Rc<RefCell<Latencies>>,
}

impl Probe {
    async fn run(self, time: Duration) -> Result<(), BenchError> {
        self.call("POST /v1/rooms", &json!({"name": self.name}).to_string())
            .await?;
        let (mut due, mut tasks) = (Instant::now(), Vec::new());
        let until = due + time;
        for round in 0.. {
            if due >= until {
                break;
            }
            tokio::time::sleep_until(due.into()).await;
            tasks.push(tokio::task::spawn_local(self.clone().measure(round)));
            due += Duration::from_secs_f64(1.0 / PROBE_RATE);
        }
        let rounds = tasks.len();
        for task in tasks {
            task.await??;
        }
        for round in (0..rounds).step_by(ROUNDS).map(|round| round / ROUNDS) {
            self.call(&format!("DELETE /v1/rooms/{}-{round}", self.name), "")
                .await?;
        }
        self.call(&format!("DELETE /v1/rooms/{}", self.name), "")
            .await?;
        Ok(())
    }

    /// Sends a round's request and measures it.
    async fn measure(self, round: usize) -> Result<(), BenchError> {
        let (name, number) = (&self.name, round / ROUNDS);
        let room = json!({"name": format!("{name}-{number}")}).to_string();
        let (head, body) = match (round % ROUNDS, number.checked_sub(ENDED_AFTER)) {
            (0, _) => ("POST /v1/rooms".to_owned(), room),
            (1, Some(old)) => (format!("DELETE /v1/rooms/{name}-{old}"), String::new()),
            (2, _) => ("GET /v1/rooms".to_owned(), String::new()),
            (3, _) => (
                "POST /v1/tokens".to_owned(),
                json!({"room": name, "identity": "bob"}).to_string(),
            ),
            _ => (format!("GET /v1/rooms/{name}"), String::new()),
        };
        // Not from its due time: the timer is up to a millisecond late, which would hide the duration of reads. No request waits for
        // another's response.
        let sent = Instant::now();
        let status = self.call(&head, &body).await?;
        let is_read = head.starts_with("GET") || head.ends_with("tokens");
        self.latencies
            .borrow_mut()
            .add(is_read, status, sent.elapsed());
        Ok(())
    }

    /// Sends a request. Returns the response's status; 0 if the server closed the connection instead.
    async fn call(&self, head: &str, body: &str) -> Result<u16, BenchError> {
        let free = self.free.borrow_mut().pop_front();
        let mut connection = match free {
            Some(connection) => connection,
            None => Connection::open(&self.api).await?,
        };
        let Ok(response) = connection.send(&request(&self.key, head, body)).await else {
            return Ok(0);
        };
        let status = response.status;
        self.free.borrow_mut().push_back(connection);
        Ok(status)
    }
}
