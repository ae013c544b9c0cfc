//! Pipelined requests from unauthenticated clients: the memory for unread responses, and the rate of fixed responses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Pid;
use serde_json::json;
use test_postgres::Cluster;

use crate::cluster::{Standby, active};
use crate::deployment::Deployment;
use crate::standby::Waiting;
use crate::support::{Request, WAIT_LIMIT};

/// Number of connections, and the maximum memory for each in KiB: the buffered part of a response, and the requests behind it.
const CONNECTIONS: u64 = 48;
const MOST: u64 = 256;
/// Burst of fixed responses per client address, and the number that is pipelined before reading.
const BURST: usize = 2_000;
const BATCH: usize = 100;

/// Returns a process's resident memory in KiB.
fn resident(process: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

/// Sends as many requests as the server accepts, and waits until it has started to respond.
fn flood(address: &str, request: &str) -> TcpStream {
    let mut stream = connect(address);
    stream
        .set_write_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    // The write blocks when the server stops reading.
    let _ = stream.write_all(request.repeat(256 * 1024 / request.len()).as_bytes());
    stream.read_exact(&mut [0; 12]).unwrap();
    stream
}

/// Floods a server from many connections, and fails if one of them takes too much of a process's memory.
#[track_caller]
fn expect_little_memory(process: Pid, address: &str, head: &str) {
    let before = resident(process);
    let flooding: Vec<_> = (0..CONNECTIONS)
        .map(|_| flood(address, &format!("{head}\r\n\r\n")))
        .collect();
    let taken = resident(process).saturating_sub(before);
    assert!(taken < CONNECTIONS * MOST, "{head}: {taken} KiB");
    drop(flooding);
}

/// Pipelines requests until one is refused for its rate, and returns the number of accepted ones.
fn until_limited(address: &str, request: &str) -> usize {
    let mut stream = connect(address);
    let mut text = String::new();
    for before in (0..).step_by(BATCH) {
        assert!(before < 20 * BURST, "there is no rate of {request}");
        stream.write_all(request.repeat(BATCH).as_bytes()).unwrap();
        text.clear();
        while text.matches("HTTP/1.1 ").count() < BATCH || !text.ends_with("\r\n\r\n") {
            let mut bytes = [0; 4096];
            let length = stream.read(&mut bytes).unwrap();
            text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
            if let Some(end) = text.find("HTTP/1.1 429") {
                return before + text[..end].matches("HTTP/1.1 ").count();
            }
        }
    }
    unreachable!()
}

/// Proves S-9.
#[test]
fn a_client_that_pipelines_and_reads_nothing_takes_little_memory() {
    let deployment = Deployment::new();
    let running = deployment.start();
    let key = running.key.clone();
    running.get("/openapi.json").send().expect(200);
    for (address, head) in [
        (
            &running.api,
            "GET /openapi.json HTTP/1.1\r\nHost: h".to_owned(),
        ),
        (
            &running.api,
            "GET /call/livekit-client.umd.js HTTP/1.1\r\nHost: h".into(),
        ),
        (
            &running.api,
            format!("GET /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}"),
        ),
        (
            &running.api,
            "POST /nope HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0".into(),
        ),
        (
            &running.admin,
            "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost".into(),
        ),
    ] {
        expect_little_memory(running.pid(), address, &head);
    }
}

/// Proves S-9.
#[test]
fn a_standby_bounds_what_a_client_takes_as_the_active_server_does() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, active) = active(&database, |deployment| deployment);
    let standby = Standby::start(&first, &database.url());
    // Responses with nearly as many bytes as a standby collects.
    for number in 0..60 {
        let body = json!({"name": format!("room-{number}"), "metadata": "a".repeat(4_000), "empty_timeout_seconds": 600});
        active.post("/v1/rooms").json(body).send().expect(201);
    }
    let api = standby.waiting.api.as_str();
    let process = standby.starting.pid();
    Request::new("GET", format!("{api}/openapi.json"))
        .send()
        .expect(200);
    for head in [
        "GET /healthz HTTP/1.1\r\nHost: h".to_owned(),
        "GET /openapi.json HTTP/1.1\r\nHost: h".into(),
        "GET /call/livekit-client.umd.js HTTP/1.1\r\nHost: h".into(),
        format!(
            "GET /v1/rooms?limit=60 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}",
            active.key
        ),
    ] {
        expect_little_memory(process, api, &head);
    }
}

#[test]
fn a_standby_has_a_rate_of_what_it_answers_itself() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, _active) = active(&database, |deployment| deployment);
    let of_cluster = Standby::start(&first, &database.url());
    // Without a cluster URL, it forwards nothing.
    let alone = Deployment::new().sharing(database.url());
    alone.copy_keys(&first);
    let _starting = alone.spawn();
    let waiting = Waiting::of(&alone);
    waiting.until_role("standby");
    for (api, paths) in [
        (&of_cluster.waiting.api, &["/healthz"][..]),
        (&waiting.api, &["/openapi.json", "/healthz", "/v1/rooms"]),
    ] {
        let served = until_limited(
            api,
            &format!("HEAD {} HTTP/1.1\r\nHost: h\r\n\r\n", paths[0]),
        );
        assert!(served >= BURST, "{served}");
        for path in paths {
            until_limited(api, &format!("HEAD {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        }
    }
    waiting.get("/healthz").send().expect(200);
}
