//! A server with clients in its rooms, and its measurements.

use std::time::{Duration, Instant};

use str0m::format::Codec;
use tokio::runtime::Runtime;

use super::client::Participation;
use super::load::{ClientId, Load};
use super::received::Count;
use super::server::{Program, Server};
use super::{Route, datagrams};
use crate::BenchError;
use crate::load::percentile;

/// Time limit until clients receive everything.
const SETTLE: Duration = Duration::from_secs(30);
/// Interval between joins.
const BETWEEN_JOINS: Duration = Duration::from_millis(10);

/// A room's participants.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Participants that publish, and receive all others.
    pub publishers: usize,
    /// Participants that only receive.
    pub subscribers: usize,
    /// Display size of videos; the best layer if absent.
    pub view: Option<(u32, u32)>,
    /// Camera codec.
    pub video: Codec,
    /// Route of all clients' media to the server.
    pub route: Route,
}

impl Shape {
    /// Creates a shape whose cameras send VP8, without relays.
    pub const fn new(publishers: usize, subscribers: usize, view: Option<(u32, u32)>) -> Self {
        Self {
            publishers,
            subscribers,
            view,
            video: Codec::Vp8,
            route: Route::Direct,
        }
    }
}

/// A server with clients in its rooms.
pub struct Call {
    pub server: Server,
    pub load: Load,
    runtime: Runtime,
    rooms: usize,
}

/// Measured work of a server and of its load.
#[derive(Default, Clone)]
pub struct Measurement {
    pub seconds: f64,
    /// CPU time used by the server and by the load, in seconds.
    pub cpu: [f64; 2],
    /// Packets that the clients received.
    pub count: Count,
    /// Datagrams lost at the sockets of the server and of the load.
    pub dropped: [u64; 2],
}

impl Call {
    /// Starts a server without clients, on one core if `core` is given. Clients will use `route`.
    pub fn start(program: &Program, core: Option<usize>, route: Route) -> Result<Self, BenchError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            server: program.start(core, route)?,
            load: Load::new()?,
            runtime,
            rooms: 0,
        })
    }

    /// Returns tokens for a new room.
    pub fn new_room(&mut self, participants: usize) -> Result<Vec<String>, BenchError> {
        let room = format!("room-{}", self.rooms);
        self.rooms += 1;
        self.runtime.block_on(async {
            self.server.create_room(&room).await?;
            self.server.tokens(&room, participants).await
        })
    }

    /// Calls the server's API.
    pub fn request(
        &mut self,
        head: &str,
        body: &serde_json::Value,
    ) -> Result<serde_json::Value, BenchError> {
        self.runtime.block_on(self.server.request(head, body))
    }

    /// Joins all participants of a new room, and waits until each receives all others.
    pub fn add_room(&mut self, shape: Shape) -> Result<Vec<ClientId>, BenchError> {
        let tokens = self.new_room(shape.publishers + shape.subscribers)?;
        let mut joined = Vec::new();
        for (number, token) in tokens.iter().enumerate() {
            let publishes = (number < shape.publishers).then_some(shape.video);
            let participation = Participation {
                publishes,
                view: shape.view,
                route: shape.route,
            };
            joined.push(self.load.join(self.server.address, token, &participation)?);
            self.load.run(BETWEEN_JOINS)?;
            if number + 1 == shape.publishers {
                self.wait_until_received(&joined, |_| 0)?;
            }
        }
        let publishers = shape.publishers;
        self.wait_until_received(&joined, |number| {
            2 * (publishers - usize::from(number < publishers))
        })?;
        Ok(joined)
    }

    /// Waits until clients are connected and receive as many streams as `streams` returns for their index.
    fn wait_until_received(
        &mut self,
        clients: &[ClientId],
        streams: impl Fn(usize) -> usize,
    ) -> Result<(), BenchError> {
        let end = Instant::now() + SETTLE;
        loop {
            let mut waiting = Vec::new();
            for (number, id) in clients.iter().enumerate() {
                let client = self.load.client(*id)?;
                let received = client.received.streams();
                if !client.is_connected() || received < streams(number) {
                    waiting.push((client.is_connected(), received));
                }
            }
            let Some((is_connected, received)) = waiting.first() else {
                return Ok(());
            };
            if Instant::now() > end {
                return Err(format!(
                    "{} of {} clients do not receive all media; one is connected: {is_connected}, and has {received} streams",
                    waiting.len(),
                    clients.len(),
                )
                .into());
            }
            self.load.run(BETWEEN_JOINS)?;
        }
    }

    /// Measures after an unmeasured warm-up.
    pub fn measure(
        &mut self,
        warm_up: Duration,
        time: Duration,
    ) -> Result<Measurement, BenchError> {
        self.load.run(warm_up)?;
        self.load.take_count();
        let (cpu, dropped, begun) = (self.cpu()?, self.dropped()?, Instant::now());
        self.load.run(time)?;
        let (cpu_then, seconds, count) = (
            self.cpu()?,
            begun.elapsed().as_secs_f64(),
            self.load.take_count(),
        );
        let dropped_then = self.dropped()?;
        Ok(Measurement {
            seconds,
            cpu: [0, 1].map(|of| cpu_then[of] - cpu[of]),
            count,
            dropped: [0, 1].map(|of| dropped_then[of] - dropped[of]),
        })
    }

    fn cpu(&self) -> Result<[f64; 2], BenchError> {
        Ok([self.server.cpu()?, crate::process::cpu(std::process::id())?])
    }

    fn dropped(&self) -> Result<[u64; 2], BenchError> {
        Ok([
            self.server.dropped()?,
            datagrams::dropped(std::process::id())?,
        ])
    }
}

impl Measurement {
    /// Adds another measurement.
    pub fn add(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.count.add(other.count);
        for of in [0, 1] {
            self.cpu[of] += other.cpu[of];
            self.dropped[of] += other.dropped[of];
        }
    }

    /// Returns the packets per second.
    pub fn rate(&self) -> f64 {
        self.count.packets as f64 / self.seconds
    }

    /// Returns the shares of a core that the server and the load use.
    pub fn shares(&self) -> [f64; 2] {
        self.cpu.map(|cpu| cpu / self.seconds)
    }

    /// Returns the milliseconds within which this percentage of the packets arrived.
    pub fn delay(&self, percent: f64) -> f64 {
        percentile(&self.count.delays, percent)
            .map_or(f64::NAN, |micros| f64::from(micros) / 1_000.0)
    }
}
