//! Cost of each hot operation, in numbers that do not depend on the machine: SQL statements, jobs for the store's other threads, actor
//! messages, batches (each is one fsync), allocations, allocated bytes, and the sizes and polls of the request's futures.
//!
//! The first four are counted in the program's own trace log. Requests are sent sequentially, and the clock stands still, so the numbers
//! are exact; a higher number must be justified here. Allocations vary slightly with the state of hash tables, and polls with
//! the response time of other threads, so these have a bound: the lowest observed value, rounded up. A bound is lowered with each change
//! that allows it, and raised only for a change that a client notices.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use log::{LevelFilter, Log, Metadata, Record};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::TestApp;
use test_postgres::Engine;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Requests per operation and count.
const RUNS: usize = 64;
/// Number of counts. One of them must be exact: on a busy machine, a read occasionally finds that the connection with its cached key is
/// still in use, and takes another one.
const COUNTS: usize = 3;

/// Expected costs per request.
struct Expected {
    operation: &'static str,
    /// SQL statements without the statements around a read transaction, jobs for another thread of the store, messages, batches.
    counts: [usize; 4],
    most: Bounds,
}

/// Upper bounds per request.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Allocations and reallocations, which may copy.
    allocations: usize,
    /// Bytes of both.
    bytes: usize,
    /// Total size of the request's futures; each is moved at least once.
    futures: usize,
    /// Polls of these futures.
    polls: usize,
}

impl Bounds {
    const fn new([allocations, bytes, futures, polls]: [usize; 4]) -> Self {
        Self {
            allocations,
            bytes,
            futures,
            polls,
        }
    }

    /// No measurement yet.
    const ALL: Self = Self::new([usize::MAX; 4]);

    /// Returns the element-wise minimum.
    fn min(self, other: Self) -> Self {
        Self {
            allocations: self.allocations.min(other.allocations),
            bytes: self.bytes.min(other.bytes),
            futures: self.futures.min(other.futures),
            polls: self.polls.min(other.polls),
        }
    }

    /// Returns whether each value is within its counterpart in `most`.
    fn are_within(self, most: Self) -> bool {
        self.allocations <= most.allocations
            && self.bytes <= most.bytes
            && self.futures <= most.futures
            && self.polls <= most.polls
    }
}

const fn costs(operation: &'static str, counts: [usize; 4], most: [usize; 4]) -> Expected {
    Expected {
        operation,
        counts,
        most: Bounds::new(most),
    }
}

/// Rooms and roles are cached until the next write, so no statement reads a room. A token and a join read the identity's last role change.
/// A join and a leave use the admin listener, whose handlers are not operations.
const EXPECTED: [Expected; 5] = [
    costs("get_room", [0, 0, 0, 0], [21, 3_850, 2_048, 4]),
    costs("create_token", [1, 0, 0, 0], [33, 7_150, 2_456, 8]),
    costs("create_room", [6, 1, 2, 1], [56, 9_800, 3_888, 14]),
    costs("join", [14, 1, 3, 1], [164, 38_200, 16, 5]),
    costs("leave", [9, 1, 2, 1], [94, 15_900, 16, 5]),
];

/// The same with PostgreSQL: reads are not cached, each read runs on another thread, a job has two extra statements, which check the epoch
/// and record the job's id, and the protocol allocates. How often depends on the pieces in which a response arrives, so up to a tenth is added to
/// the lowest observed value; one more statement costs more.
const EXPECTED_OF_POSTGRES: [Expected; 5] = [
    costs("get_room", [2, 2, 0, 0], [115, 10_400, 2_048, 13]),
    costs("create_token", [4, 2, 0, 0], [165, 16_000, 2_456, 15]),
    costs("create_room", [5, 2, 2, 1], [200, 22_800, 3_888, 15]),
    costs("join", [14, 3, 3, 1], [490, 74_000, 16, 6]),
    costs("leave", [9, 1, 2, 1], [285, 41_500, 16, 6]),
];

/// Counts lines in the trace log.
#[derive(Default)]
struct Counter {
    statements: AtomicUsize,
    jobs: AtomicUsize,
    messages: AtomicUsize,
    batches: AtomicUsize,
    /// Total future size in bytes.
    futures: AtomicUsize,
    polls: AtomicUsize,
}

static COUNTER: Counter = Counter {
    statements: AtomicUsize::new(0),
    jobs: AtomicUsize::new(0),
    messages: AtomicUsize::new(0),
    batches: AtomicUsize::new(0),
    futures: AtomicUsize::new(0),
    polls: AtomicUsize::new(0),
};

impl Log for Counter {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let is = |text| record.args().as_str() == Some(text);
        // The lease is renewed every second, independently of requests.
        if thread::current().name() == Some("store-lease") {
            return;
        }
        match record.target() {
            "conclave_db::sql" | "conclave_db::sql::postgres::session" => {
                self.statements.fetch_add(1, Relaxed)
            }
            "conclave_actors::info" => self.messages.fetch_add(1, Relaxed),
            "conclave_db::engine::sqlite::writer" if is("a batch has ended") => {
                self.batches.fetch_add(1, Relaxed)
            }
            "conclave_db::engine::postgres::lanes" if is("a transaction has ended") => {
                self.batches.fetch_add(1, Relaxed)
            }
            "conclave_db::engine::writer" if is("a write is handed to the writer") => {
                self.jobs.fetch_add(1, Relaxed)
            }
            "conclave_db::engine::sqlite::reader::lists"
            | "conclave_db::engine::postgres::readers"
                if is("a read is handed to a thread") =>
            {
                self.jobs.fetch_add(1, Relaxed)
            }
            "conclave::http::measured" if is("a future is made") => {
                self.futures.fetch_add(bytes(record), Relaxed)
            }
            "conclave::http::measured" if is("a future is polled") => {
                self.polls.fetch_add(1, Relaxed)
            }
            _ => 0,
        };
    }

    fn flush(&self) {}
}

/// Parses the size in a log line.
fn bytes(record: &Record<'_>) -> usize {
    let bytes = record.key_values().get("bytes".into());
    bytes
        .and_then(|bytes| bytes.to_u64())
        .unwrap()
        .try_into()
        .unwrap()
}

impl Counter {
    /// Returns the counts since the last call.
    fn take(&self) -> [usize; 4] {
        [&self.statements, &self.jobs, &self.messages, &self.batches]
            .map(|count| count.swap(0, Relaxed))
    }
}

/// Allocations and futures over a number of requests.
struct Usage<'a> {
    region: Region<'a, System>,
}

impl Usage<'_> {
    fn start() -> Self {
        COUNTER.futures.store(0, Relaxed);
        COUNTER.polls.store(0, Relaxed);
        Self {
            region: Region::new(ALLOCATOR),
        }
    }

    /// Returns the usage per request. One allocation is the body that is kept here.
    fn of_each(self, requests: usize, kept: usize) -> Bounds {
        let change = self.region.change();
        let allocations = change.allocations + change.reallocations;
        Bounds {
            allocations: allocations / requests - 1,
            bytes: (change.bytes_allocated - kept) / requests,
            futures: COUNTER.futures.load(Relaxed) / requests,
            polls: COUNTER.polls.load(Relaxed) / requests,
        }
    }
}

/// A connection that allocates nothing while it sends and receives.
struct Connection {
    stream: TcpStream,
    buffer: [u8; 16 * 1024],
}

impl Connection {
    fn open(url: &str) -> Self {
        let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: [0; 16 * 1024],
        }
    }

    /// Sends a request, and returns the body of its response.
    fn exchange(&mut self, request: &[u8]) -> &[u8] {
        self.stream.write_all(request).unwrap();
        let mut received = 0;
        loop {
            received += self.stream.read(&mut self.buffer[received..]).unwrap();
            let seen = std::str::from_utf8(&self.buffer[..received]).unwrap();
            assert!(seen.starts_with("HTTP/1.1 20"), "{seen}");
            let Some(head) = seen.find("\r\n\r\n") else {
                continue;
            };
            let length = seen[..head]
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            if received >= head + 4 + length {
                return &self.buffer[head + 4..received];
            }
        }
    }
}

/// An app, and the differences found.
struct Bench {
    app: TestApp,
    differences: Vec<String>,
}

/// The listener for a request.
#[derive(Clone, Copy)]
enum Listener {
    Api,
    Admin,
}

impl Bench {
    fn start() -> Self {
        let app = TestApp::start();
        app.room_with_roles("stage", &json!({"host": {}}));
        Self {
            app,
            differences: Vec::new(),
        }
    }

    fn request(&self, head: &str, body: &Value) -> Vec<u8> {
        let (key, body) = (
            &self.app.key,
            if body.is_null() {
                String::new()
            } else {
                body.to_string()
            },
        );
        let length = body.len();
        let head = format!("{head} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}");
        format!(
            "{head}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Sends an operation's numbered requests, first to warm up and then to count, and compares their costs with the expected ones. Returns
    /// the response bodies.
    fn check(
        &mut self,
        name: &str,
        listener: Listener,
        request: impl Fn(&Self, usize) -> Vec<u8>,
    ) -> Vec<Value> {
        let requests: Vec<_> = (0..(1 + COUNTS) * RUNS)
            .map(|number| request(self, number))
            .collect();
        // Opened now: the server closes a connection whose first request is late.
        let mut connection = Connection::open(match listener {
            Listener::Api => &self.app.api,
            Listener::Admin => &self.app.admin,
        });
        let mut bodies = Vec::with_capacity(requests.len());
        requests[..RUNS]
            .iter()
            .for_each(|request| bodies.push(connection.exchange(request).to_vec()));
        COUNTER.take();
        let (mut costs, mut used) = (Vec::new(), Bounds::ALL);
        for counted in requests[RUNS..].chunks(RUNS) {
            for round in counted.chunks(RUNS / 4) {
                let (usage, mut kept) = (Usage::start(), 0);
                for request in round {
                    let body = connection.exchange(request).to_vec();
                    kept += body.len();
                    bodies.push(body);
                }
                // The minimum over several rounds, since other threads occasionally allocate, too.
                used = used.min(usage.of_each(round.len(), kept));
            }
            costs.push(COUNTER.take());
        }
        let of_engine = if Engine::chosen() == Engine::Sqlite {
            EXPECTED
        } else {
            EXPECTED_OF_POSTGRES
        };
        let expected = of_engine
            .into_iter()
            .find(|row| row.operation == name)
            .unwrap();
        println!("{name}: {costs:?} for {RUNS} requests, for each {used:?}");
        let (counts, most) = (expected.counts.map(|each| each * RUNS), expected.most);
        if !costs.contains(&counts) || !used.are_within(most) {
            self.differences.push(format!(
                "{name}: {costs:?} instead of {counts:?}, {used:?} of {most:?}"
            ));
        }
        bodies
            .iter()
            .map(|body| serde_json::from_slice(body).unwrap_or_default())
            .collect()
    }
}

#[test]
fn hot_operations_cost_what_they_did() {
    log::set_logger(&COUNTER).unwrap();
    log::set_max_level(LevelFilter::Trace);
    let mut bench = Bench::start();
    bench.check("get_room", Listener::Api, |bench, _| {
        bench.request("GET /v1/rooms/stage", &Value::Null)
    });
    bench.check("create_token", Listener::Api, |bench, number| {
        let token = json!({"room": "stage", "identity": format!("user-{number}"), "role": "host"});
        bench.request("POST /v1/tokens", &token)
    });
    bench.check("create_room", Listener::Api, |bench, number| {
        bench.request("POST /v1/rooms", &json!({"name": format!("room-{number}")}))
    });
    // Each into its own room: a join reads the connected participants.
    let joined = bench.check("join", Listener::Admin, |bench, number| {
        let token = json!({"room": format!("room-{number}"), "identity": "user"});
        let token = bench.app.post("/v1/tokens").json(token).send().expect(201);
        bench.request("POST /sandbox/join", &json!({"token": token["token"]}))
    });
    bench.check("leave", Listener::Admin, |bench, number| {
        let sid = joined[number]["sid"].as_str().unwrap();
        bench.request(
            &format!("POST /sandbox/participants/{sid}/leave"),
            &json!({"clean": true}),
        )
    });
    assert!(bench.differences.is_empty(), "{:#?}", bench.differences);
}
