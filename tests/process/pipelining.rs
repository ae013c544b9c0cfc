//! The memory that a stranger takes who sends requests and reads no response.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::deployment::{Deployment, Running};
use crate::support::WAIT_LIMIT;

/// The connections, and the most memory that one may take, in KiB: what waits of a response, and the requests behind it.
const CONNECTIONS: u64 = 48;
const MOST: u64 = 256;

/// The resident memory in KiB.
fn resident(running: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.pid().as_raw_pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Sends as many requests as the server takes, and waits until it has begun to answer.
fn flood(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    // It blocks when the server reads no further.
    let _ = stream.write_all(request.repeat(256 * 1024 / request.len()).as_bytes());
    stream.read_exact(&mut [0; 12]).unwrap();
    stream
}

#[test]
fn a_client_that_pipelines_and_reads_nothing_takes_little_memory() {
    let deployment = Deployment::new();
    let running = deployment.start();
    let key = running.key.clone();
    running.get("/openapi.json").send().expect(200);
    for (address, head) in [
        (&running.api, "GET /openapi.json HTTP/1.1\r\nHost: h".to_owned()),
        (&running.api, "GET /call/livekit-client.umd.js HTTP/1.1\r\nHost: h".into()),
        (&running.api, format!("GET /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}")),
        (&running.api, "POST /nope HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0".into()),
        (&running.admin, "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost".into()),
    ] {
        let before = resident(&running);
        let flooding: Vec<_> = (0..CONNECTIONS).map(|_| flood(address, &format!("{head}\r\n\r\n"))).collect();
        let taken = resident(&running).saturating_sub(before);
        assert!(taken < CONNECTIONS * MOST, "{head}: {taken} KiB");
        drop(flooding);
    }
}
