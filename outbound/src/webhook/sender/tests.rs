//! Attempts against receivers on real sockets.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use conclave_model::webhook::PreviousSecret;
use conclave_model::{EndpointId, ProjectId, Secret};
use test_http_server::{Request, serve};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::ResolvedSocketAddrs;
use ureq::unversioned::transport::NextTimeout;

use super::*;

const PAYLOAD: &str = r#"{"type":"room.started","room":"Küche"}"#;
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// Longer than any successful attempt takes.
const AMPLE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

fn local_sender(timeout: Duration) -> DeliverySender {
    DeliverySender::new(
        AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()]),
        timeout,
        &TrustedRoots::default(),
    )
}

pub(in crate::webhook) fn request(url: &str) -> Delivery {
    let at = Timestamp::from_millis(1_700_000_000_999);
    let endpoint = WebhookEndpoint::new(
        EndpointId::new(),
        ProjectId::new(),
        url.to_owned(),
        Secret::new(SECRET),
        at,
    );
    Delivery {
        endpoint: Arc::new(endpoint),
        id: "0192f5a0-0000-7000-8000-000000000001".parse().unwrap(),
        event_type: "room.started".to_owned(),
        payload: PAYLOAD.into(),
        at,
    }
}

/// Starts a receiver that reports each request and passes the connection to `answer`.
fn receiver(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> (String, Receiver<Request>) {
    let (requests, received) = channel();
    let address = serve(move |request, stream| {
        let _ = requests.send(request);
        answer(stream);
    });
    (format!("http://{address}/hook?a=1"), received)
}

/// Returns the outcome of an attempt at a receiver that responds with these bytes and closes.
fn outcome_of(answer: &'static str) -> AttemptOutcome {
    let (url, _seen) = receiver(move |mut stream| stream.write_all(answer.as_bytes()).unwrap());
    local_sender(AMPLE).post(&request(&url))
}

/// Writes `bytes` repeatedly, every 20 ms, until the peer is gone, which the bounded read notices.
fn drip(mut stream: TcpStream, bytes: &[u8]) {
    stream
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    for byte in bytes.iter().cycle() {
        let gone = stream.write_all(&[*byte]).is_err() || matches!(stream.read(&mut [0]), Ok(0));
        if gone {
            return;
        }
    }
}

/// Keeps the connection open and silent until the peer is gone.
fn hang(mut stream: TcpStream) {
    let _ = stream.read(&mut [0]);
}

fn failed_outcome(error: &str) -> AttemptOutcome {
    let timed_out = error.starts_with("timed out");
    AttemptOutcome {
        response_status: None,
        error: Some(error.to_owned()),
        timed_out,
    }
}

#[test]
fn the_request_carries_the_contracts_headers_and_two_valid_signatures() {
    let (url, seen) = receiver(|mut stream| {
        stream
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .unwrap();
    });
    let outcome = local_sender(AMPLE).post(&request(&url));
    assert_eq!(
        outcome,
        AttemptOutcome {
            response_status: Some(204),
            error: None,
            timed_out: false
        }
    );

    let received = seen.recv_timeout(AMPLE).unwrap();
    assert_eq!(
        (received.method.as_str(), received.target.as_str()),
        ("POST", "/hook?a=1")
    );
    assert_eq!(received.body, PAYLOAD.as_bytes());
    let headers = received.headers.iter().filter(|(name, _)| name != "host");
    let mut headers: Vec<_> = headers
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    headers.sort_unstable();
    // Both signatures were computed elsewhere, for this body, id and second.
    assert_eq!(
        headers,
        [
            "accept: */*",
            "content-length: 39",
            "content-type: application/json",
            concat!("user-agent: Conclave/", env!("CARGO_PKG_VERSION")),
            "webhook-id: 0192f5a0-0000-7000-8000-000000000001",
            "webhook-signature: v1,BcWNxRo73ReRtLZivwN0a9jiLnblR6gUUQNnrlt5Kvs=",
            "webhook-timestamp: 1700000000",
            "x-svc-event: room.started",
            "x-svc-signature: sha256=dc708f41802ea3e01b0cee8af1f481b32827f88d4aca6f7164fdd82674a7d558",
        ]
    );
}

#[test]
fn the_previous_secret_signs_until_its_overlap_ends() {
    let (url, seen) = receiver(|mut stream| {
        stream
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .unwrap();
    });
    let mut delivery = request(&url);
    let previous = Secret::new("whsec_b2xkLW9sZC1vbGQtb2xkLW9sZC1vbGQtb2xkLW9sZA==");
    for (left, is_signed) in [(1, true), (0, false)] {
        let until = delivery.at.after(Duration::from_millis(left));
        let endpoint = WebhookEndpoint {
            previous_secret: Some(PreviousSecret {
                secret: previous.clone(),
                until,
            }),
            ..(*delivery.endpoint).clone()
        };
        delivery.endpoint = Arc::new(endpoint);
        let _ = local_sender(AMPLE).post(&delivery);
        let received = seen.recv_timeout(AMPLE).unwrap();
        let current = svc_signature(&Secret::new(SECRET), PAYLOAD.as_bytes());
        let old = svc_signature(&previous, PAYLOAD.as_bytes());
        let svc = [
            received.header("x-svc-signature"),
            received.header("x-svc-signature-next"),
        ];
        let standard: Vec<_> = received.header("webhook-signature").split(' ').collect();
        let by = |secret: &Secret| {
            let seconds = delivery.at.millis() / 1_000;
            standard_signature(
                secret,
                &delivery.id.to_string(),
                seconds,
                PAYLOAD.as_bytes(),
            )
        };
        if is_signed {
            assert_eq!(svc, [old.as_str(), current.as_str()]);
            assert_eq!(standard, [by(&Secret::new(SECRET)), by(&previous)]);
        } else {
            assert_eq!(svc, [current.as_str(), ""]);
            assert_eq!(standard, [by(&Secret::new(SECRET))]);
        }
    }
}

#[test]
fn every_2xx_is_delivered() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 299 Odd\r\n\r\nuntil the end",
    ] {
        let outcome = outcome_of(answer);
        assert!(
            matches!(outcome.response_status, Some(200..=299)) && outcome.error.is_none(),
            "{answer}: {outcome:?}"
        );
    }
}

#[test]
fn the_length_of_a_body_and_the_number_of_headers_change_nothing() {
    for length in [
        "x",
        "-1",
        "+2",
        "99999999999999999999",
        "2, 3",
        "",
        "1000000000000",
    ] {
        for (status, is_success) in [(200, true), (500, false)] {
            let answer = format!("HTTP/1.1 {status} A\r\ncontent-length: {length}\r\n\r\nok");
            let (url, _seen) =
                receiver(move |mut stream| stream.write_all(answer.as_bytes()).unwrap());
            let outcome = local_sender(AMPLE).post(&request(&url));
            assert_eq!(
                (outcome.response_status, outcome.error.is_none()),
                (Some(status), is_success),
                "{length}"
            );
        }
    }
    let conflicting = "HTTP/1.1 204 A\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n";
    assert_eq!(outcome_of(conflicting).response_status, Some(204));
    for (count, status) in [(127, Some(200)), (256, Some(200)), (257, None)] {
        let headers: String = (0..count)
            .map(|number| format!("x-header-{number}: {}\r\n", "a".repeat(80)))
            .collect();
        let (url, _seen) = receiver(move |mut stream| {
            let answer = format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
            // In many packets, so that the head is incomplete at first.
            answer
                .as_bytes()
                .chunks(1_000)
                .for_each(|part| stream.write_all(part).unwrap());
        });
        assert_eq!(
            local_sender(AMPLE).post(&request(&url)).response_status,
            status,
            "{count} headers"
        );
    }
}

#[test]
fn any_other_status_is_a_failure_that_names_it() {
    for (answer, status) in [
        ("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", 500),
        ("HTTP/1.1 404 Gone\r\ncontent-length: 0\r\n\r\n", 404),
        ("HTTP/1.1 304 Same\r\n\r\n", 304),
    ] {
        let error = Some(format!("the receiver answered {status}"));
        assert_eq!(
            outcome_of(answer),
            AttemptOutcome {
                response_status: Some(status),
                error,
                timed_out: false
            }
        );
    }
}

/// Proves S-66.
#[test]
fn a_redirect_is_not_followed() {
    let (target, reached) = receiver(hang);
    for status in [301, 302, 303, 307, 308] {
        let answer =
            format!("HTTP/1.1 {status} Moved\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
        let (url, _seen) = receiver(move |mut stream| stream.write_all(answer.as_bytes()).unwrap());
        let error = Some(format!("the receiver answered {status}"));
        let expected = AttemptOutcome {
            response_status: Some(status),
            error,
            timed_out: false,
        };
        assert_eq!(local_sender(AMPLE).post(&request(&url)), expected);
    }
    assert!(reached.try_recv().is_err());
}

#[test]
fn a_receiver_that_never_answers_ends_at_the_timeout() {
    let (url, _seen) = receiver(hang);
    let started = Instant::now();
    assert_eq!(
        local_sender(SHORT).post(&request(&url)),
        failed_outcome("timed out after 300ms")
    );
    assert!(started.elapsed() >= SHORT);
}

#[test]
fn a_tls_receiver_that_never_shakes_hands_ends_at_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    // The backlog accepts the connection, but nothing is ever read from it.
    assert_eq!(
        local_sender(SHORT).post(&request(&url)),
        failed_outcome("timed out after 300ms")
    );
}

#[test]
fn headers_that_drip_end_at_the_timeout() {
    let (url, _seen) = receiver(|stream| {
        drip(
            stream,
            b"HTTP/1.1 200 OK\r\nx-a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        );
    });
    assert_eq!(
        local_sender(SHORT).post(&request(&url)),
        failed_outcome("timed out after 300ms")
    );
}

#[test]
fn a_body_that_drips_past_the_timeout_does_not_change_the_status() {
    let (url, _seen) = receiver(|mut stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
            .unwrap();
        drip(stream, b"x");
    });
    let outcome = local_sender(SHORT).post(&request(&url));
    assert!(outcome.error.is_none() && outcome.timed_out);
    // Once the status is known, the body is only waited for briefly.
    let start = Instant::now();
    let outcome = local_sender(AMPLE).post(&request(&url));
    assert!(outcome.error.is_none() && !outcome.timed_out && start.elapsed() < AMPLE);
}

/// Proves S-76.
#[test]
fn a_huge_body_is_not_read_to_its_end() {
    let (url, _seen) = receiver(|mut stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n")
            .unwrap();
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert!(local_sender(AMPLE).post(&request(&url)).error.is_none());
}

#[test]
fn endless_headers_are_cut_off() {
    let (url, _seen) = receiver(|mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx-a: ").unwrap();
        while stream.write_all(&[b'a'; 4096]).is_ok() {}
    });
    assert_eq!(
        local_sender(AMPLE).post(&request(&url)),
        failed_outcome("the answer's headers are too large")
    );
}

#[test]
fn responses_that_are_not_http_and_missing_responses_are_failures() {
    assert_eq!(
        outcome_of("220 mail.example ESMTP\r\n\r\n"),
        failed_outcome("the answer is not valid HTTP")
    );
    assert_eq!(
        outcome_of(""),
        failed_outcome("connection closed before an answer")
    );
}

#[test]
fn a_refused_connection_is_named_as_the_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The local end of a connection occupies a port without listening, and no listener can take it.
    let held = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let url = format!("http://{}/", held.local_addr().unwrap());
    assert_eq!(
        local_sender(AMPLE).post(&request(&url)),
        failed_outcome("connection refused")
    );
}

/// Proves S-66.
#[test]
fn a_blocked_address_is_never_dialled() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let sender = DeliverySender::new(AddressFilter::default(), AMPLE, &TrustedRoots::default());
    for host in [
        "127.0.0.1",
        "localhost",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "127.1",
    ] {
        assert_eq!(
            sender.post(&request(&format!("http://{host}:{port}/"))),
            failed_outcome("address blocked"),
            "{host}"
        );
    }
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
}

#[test]
fn a_name_that_does_not_resolve_is_named_as_the_cause() {
    assert_eq!(
        local_sender(AMPLE).post(&request("https://nowhere.invalid/")),
        failed_outcome("name not resolved")
    );
}

#[test]
fn a_url_or_an_event_name_that_cannot_be_sent_is_a_failure_and_no_panic() {
    let outcome = local_sender(AMPLE).post(&request("not a url"));
    assert_eq!(
        outcome,
        failed_outcome("the url is not usable: must be an absolute http or https url")
    );
    let mut split = request("http://127.0.0.1:9/");
    split.event_type = "room\r\nstarted".to_owned();
    assert_eq!(
        local_sender(AMPLE).post(&split),
        failed_outcome("the request could not be made")
    );
}

/// Reads another request on the same connection.
fn read_next(stream: &mut TcpStream) {
    let mut read = Vec::new();
    while !read.ends_with(PAYLOAD.as_bytes()) {
        let mut part = [0; 4_096];
        let count = stream.read(&mut part).unwrap();
        assert!(
            count > 0,
            "the connection was closed: {}",
            String::from_utf8_lossy(&read)
        );
        read.extend_from_slice(&part[..count]);
    }
}

const NO_CONTENT: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[test]
fn attempts_in_quick_succession_share_a_connection() {
    let (url, seen) = receiver(|mut stream| {
        stream.write_all(NO_CONTENT).unwrap();
        read_next(&mut stream);
        stream.write_all(NO_CONTENT).unwrap();
    });
    let sender = local_sender(AMPLE);
    assert!(sender.post(&request(&url)).error.is_none());
    assert!(sender.post(&request(&url)).error.is_none());
    assert_eq!(seen.try_iter().count(), 1, "connections");
}

#[test]
fn a_kept_connection_that_the_receiver_closes_is_replaced() {
    let (url, seen) = receiver(|mut stream| {
        stream.write_all(NO_CONTENT).unwrap();
        read_next(&mut stream);
    });
    let sender = local_sender(AMPLE);
    assert!(sender.post(&request(&url)).error.is_none());
    assert!(sender.post(&request(&url)).error.is_none());
    assert_eq!(seen.try_iter().count(), 2, "connections");
}

/// Resolver with scripted results, one per lookup.
#[derive(Debug, Clone, Default)]
struct Names(Arc<Mutex<Vec<SocketAddr>>>);

impl Resolver for Names {
    fn resolve(
        &self,
        _: &Uri,
        _: &Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut found = self.empty();
        found.push(self.0.lock().unwrap().remove(0));
        Ok(found)
    }
}

/// Proves F-16.
#[test]
fn an_address_is_looked_up_once_for_each_attempt_and_what_was_checked_is_dialled() {
    let (url, seen) = receiver(|mut stream| stream.write_all(NO_CONTENT).unwrap());
    let port = url.parse::<Uri>().unwrap().port_u16().unwrap();
    // The forbidden target: another local address with the same port.
    let internal = TcpListener::bind(("127.0.0.2", port)).unwrap();
    internal.set_nonblocking(true).unwrap();
    let (public, names) = (SocketAddr::from(([127, 0, 0, 1], port)), Names::default());
    let filter = AddressFilter::new(vec!["127.0.0.1/32".parse().unwrap()]);
    let sender = DeliverySender::with_resolver(
        || FilteredResolver::with_resolver(names.clone(), filter.clone()),
        AMPLE,
        &TrustedRoots::default(),
    );
    let request = request(&format!("http://rebound.example:{port}/hook"));
    let set = |addresses: &[SocketAddr]| *names.0.lock().unwrap() = addresses.to_vec();

    // The name changes right after the check.
    set(&[public, internal.local_addr().unwrap()]);
    assert!(sender.post(&request).error.is_none());
    assert_eq!(
        (seen.try_iter().count(), names.0.lock().unwrap().len()),
        (1, 1)
    );
    // The next attempt notices the change, even though its connection was kept.
    assert_eq!(sender.post(&request), failed_outcome("address blocked"));
    assert_eq!(
        internal.accept().unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    // When the name is back, the kept connection is used, or a new one if it was closed.
    set(&[public; 2]);
    assert!(sender.post(&request).error.is_none());
}
