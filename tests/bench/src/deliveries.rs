//! Deliveries to receivers on the same machine, compared with a loop that only posts, with the same client.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conclave_model::address::AddressFilter;
use conclave_model::webhook::WebhookEndpoint;
use conclave_model::{DeliveryId, EndpointId, ProjectId, Secret, Timestamp};
use conclave_outbound::TrustedRoots;
use conclave_outbound::webhook::{Delivery, DeliverySender};
use futures_util::future::try_join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::BenchError;
use crate::connection::Connection;
use crate::figure::{Figure, Section, Unit, thousands};
use crate::participant::Participant;
use crate::process::Process;

/// Number of receivers.
const RECEIVERS: usize = 20;
/// Participants that join and leave concurrently.
const PARTICIPANTS: usize = 20;
/// Joins and leaves per participant; their events are delivered to each receiver.
const PAIRS: usize = 50;
/// The bare loop's duration.
const ROUND: Duration = Duration::from_secs(3);

/// Receivers that respond to everything with 204.
struct Receivers {
    urls: Vec<String>,
    received: Arc<AtomicU64>,
}

/// Measures the deliveries per second.
pub async fn measure(conclave: &Path, scratch: &Path) -> Result<Section, BenchError> {
    let receivers = Receivers::start()?;
    let before = receivers.post_in_a_loop();
    let seen = deliver(conclave, scratch, &receivers).await?;
    let ceiling = f64::midpoint(before, receivers.post_in_a_loop());
    let rates = format!("{} of {} posts/s", thousands(seen), thousands(ceiling));
    Ok(Section {
        title: "Deliveries",
        about: "The events of 2,000 joins and leaves, each delivered to 20 receivers on the same machine, signed and \
                recorded. The ceiling is 20 threads that only post the same bytes with the same client.",
        figures: vec![
            Figure::new("deliveries", seen / ceiling, Unit::Ratio)
                .at_least(0.6)
                .note(rates),
            Figure::new("deliveries each second", seen, Unit::PerSecond).at_least(8_000.0),
        ],
        curves: Vec::new(),
    })
}

/// Returns the server's deliveries per second.
async fn deliver(
    conclave: &Path,
    scratch: &Path,
    receivers: &Receivers,
) -> Result<f64, BenchError> {
    let server = Process::conclave(conclave, &scratch.join("data"))?;
    let (mut api, key) = (Connection::open(&server.api()).await?, server.key());
    for url in &receivers.urls {
        api.json(&key, "POST /v1/webhook-endpoints", &json!({"url": url}))
            .await?;
    }
    api.json(&key, "POST /v1/rooms", &json!({"name": "bench"}))
        .await?;
    let before = receivers.received.load(Ordering::Relaxed);
    let participants = (0..PARTICIPANTS).map(|number| join_and_leave(&server, number));
    try_join_all(participants).await?;
    let posts = (2 * PARTICIPANTS * PAIRS * RECEIVERS) as u64;
    // Posted at the next tick, whenever that is. Earlier ticks' posts are not measured.
    let first = receivers
        .wait_for_more_than(receivers.received.load(Ordering::Relaxed))
        .await?;
    let (begun, started) = (first - before, Instant::now());
    receivers.wait_for_more_than(before + posts - 1).await?;
    Ok((posts - begun) as f64 / started.elapsed().as_secs_f64())
}

/// Joins and leaves the room repeatedly.
async fn join_and_leave(server: &Process, number: usize) -> Result<(), BenchError> {
    let mut participant =
        Participant::new(server, &server.key(), "bench", &format!("user-{number}")).await?;
    for _ in 0..PAIRS {
        let sid = participant.join().await?;
        participant.leave(&sid).await?;
    }
    Ok(())
}

impl Receivers {
    fn start() -> Result<Self, BenchError> {
        let received = Arc::new(AtomicU64::new(0));
        let listeners: Vec<_> = (0..RECEIVERS)
            .map(|_| std::net::TcpListener::bind("127.0.0.1:0"))
            .collect::<Result<_, _>>()?;
        let urls = listeners
            .iter()
            .map(|listener| listener.local_addr().map(|at| format!("http://{at}/")))
            .collect::<Result<_, _>>()?;
        let counter = Arc::clone(&received);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // Ends with the program.
        std::thread::spawn(move || {
            runtime.block_on(async {
                let accepting: Vec<_> = listeners
                    .into_iter()
                    .map(|listener| tokio::spawn(accept(listener, Arc::clone(&counter))))
                    .collect();
                for task in accepting {
                    let _ = task.await;
                }
            });
        });
        Ok(Self { urls, received })
    }

    /// Waits until they have received more requests than `number`, and returns the new count.
    async fn wait_for_more_than(&self, number: u64) -> Result<u64, BenchError> {
        let started = Instant::now();
        loop {
            let received = self.received.load(Ordering::Relaxed);
            if received > number {
                return Ok(received);
            }
            if started.elapsed() > Duration::from_secs(60) {
                return Err("the deliveries did not arrive within a minute".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Returns the posts per second of a loop with one thread per receiver.
    fn post_in_a_loop(&self) -> f64 {
        let (sender, over) = (
            DeliverySender::new(
                allow_loopback(),
                Duration::from_secs(5),
                &TrustedRoots::default(),
            ),
            AtomicBool::new(false),
        );
        let (before, started) = (self.received.load(Ordering::Relaxed), Instant::now());
        std::thread::scope(|scope| {
            for url in &self.urls {
                let (sender, over) = (&sender, &over);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let _ = sender.post(&delivery(url));
                    }
                });
            }
            std::thread::sleep(ROUND);
            over.store(true, Ordering::Relaxed);
        });
        (self.received.load(Ordering::Relaxed) - before) as f64 / started.elapsed().as_secs_f64()
    }
}

fn delivery(url: &str) -> Delivery {
    let payload =
        json!({"type": "participant.joined", "room": "bench", "padding": "x".repeat(180)});
    let at = Timestamp::from_millis(0);
    let endpoint = WebhookEndpoint::new(
        EndpointId::new(),
        ProjectId::new(),
        url.to_owned(),
        Secret::new("whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"),
        at,
    );
    Delivery {
        endpoint: Arc::new(endpoint),
        id: DeliveryId::new(),
        event_type: "participant.joined".into(),
        payload: payload.to_string().into(),
        at,
    }
}

async fn accept(
    listener: std::net::TcpListener,
    received: Arc<AtomicU64>,
) -> Result<(), BenchError> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream, Arc::clone(&received)));
    }
}

/// Responds to each request on a connection with 204.
async fn answer(mut stream: TcpStream, received: Arc<AtomicU64>) -> Result<(), BenchError> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 * 1024);
    loop {
        buffer.clear();
        while !is_whole(&buffer) {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        received.fetch_add(1, Ordering::Relaxed);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
}

/// Returns whether a request has arrived with its body.
fn is_whole(buffer: &[u8]) -> bool {
    let Some(head) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let text = String::from_utf8_lossy(&buffer[..head]).to_lowercase();
    let length = text.lines().find_map(|line| {
        line.strip_prefix("content-length: ")?
            .trim()
            .parse::<usize>()
            .ok()
    });
    buffer.len() >= head + 4 + length.unwrap_or(0)
}

fn allow_loopback() -> AddressFilter {
    AddressFilter::new("127.0.0.0/8".parse().into_iter().collect())
}
