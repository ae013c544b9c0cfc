//! The other project during an attack: a continuous call, a participant that joins and leaves, and a backend.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::BenchError;
use crate::media::client::Participation;
use crate::media::load::Load;
use crate::overload::Deployment;
use crate::overload::clients::Latencies;

/// Interval between joins.
const BETWEEN_JOINS: Duration = Duration::from_millis(500);
/// Time after which a join has failed.
const PATIENCE: Duration = Duration::from_secs(8);
/// Time limit for the call's start.
const START: Duration = Duration::from_secs(20);
/// Interval at which a thread checks for requests to observe.
const LOOK: Duration = Duration::from_millis(20);

/// Observations on the project over a time.
pub struct Observed {
    pub api: Latencies,
    pub joins: Joins,
    /// Longest time between two microphone packets.
    pub longest_gap: Duration,
}

/// The joins over a time.
#[derive(Default)]
pub struct Joins {
    /// Longest time from a WebSocket's connection until its media is connected.
    pub longest: Duration,
    pub failed: usize,
}

impl Observed {
    pub fn to_json(&self) -> Value {
        json!({
            "api": self.api.to_json(), "longest_join_ms": self.joins.longest.as_millis(), "failed_joins": self.joins.failed,
            "longest_gap_ms": self.longest_gap.as_millis(),
        })
    }
}

/// A project with its call and joins on separate threads, so that neither delays the other.
pub struct Neighbour {
    call: Observer<Duration>,
    joins: Observer<Joins>,
}

impl Neighbour {
    /// Starts the call, and waits until its participants are connected.
    pub async fn start(deployment: &Deployment) -> Result<Self, BenchError> {
        let server = deployment.server.api().parse()?;
        let [alice, bob, carol] =
            ["alice", "bob", "carol"].map(|name| deployment.token_of_second("call", name));
        let (publishers, listener) = ([alice.await?, bob.await?], carol.await?);
        let call = Observer::start(
            "call",
            move || Call::start(server, &publishers),
            Call::observe,
            Call::go_on,
        )
        .await?;
        let joining = move || {
            Ok(Joining {
                server,
                token: listener,
                load: Load::new()?,
            })
        };
        let joins = Observer::start("joins", joining, Joining::observe, |_| {
            thread::sleep(LOOK);
            Ok(())
        });
        Ok(Self {
            call,
            joins: joins.await?,
        })
    }

    /// Observes the call, joins and requests for a time.
    pub async fn observe(
        &self,
        deployment: &Deployment,
        time: Duration,
    ) -> Result<Observed, BenchError> {
        let (api, joins, longest_gap) = tokio::join!(
            deployment.probe(time),
            self.joins.observe(time),
            self.call.observe(time)
        );
        Ok(Observed {
            api: api?,
            joins: joins?,
            longest_gap: longest_gap?,
        })
    }
}

/// A thread that observes on request. It ends when this is dropped.
struct Observer<T>(mpsc::Sender<(Duration, oneshot::Sender<Result<T, String>>)>);

impl<T: Send + 'static> Observer<T> {
    /// Starts the thread, and waits until it has created its subject. Between requests, the subject keeps running.
    async fn start<S: 'static>(
        name: &str,
        make: impl FnOnce() -> Result<S, BenchError> + Send + 'static,
        observe: fn(&mut S, Duration) -> Result<T, BenchError>,
        go_on: fn(&mut S) -> Result<(), BenchError>,
    ) -> Result<Self, BenchError> {
        let (sender, requests) = mpsc::channel::<(Duration, oneshot::Sender<_>)>();
        let (started, has_started) = oneshot::channel();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let mut observed = match make() {
                    Ok(made) => made,
                    Err(error) => return drop(started.send(Err(error.to_string()))),
                };
                let _ = started.send(Ok(()));
                loop {
                    match requests.try_recv() {
                        Ok((time, answer)) => {
                            let seen =
                                observe(&mut observed, time).map_err(|error| error.to_string());
                            let _ = answer.send(seen);
                        }
                        Err(mpsc::TryRecvError::Empty) if go_on(&mut observed).is_ok() => {}
                        Err(_) => return,
                    }
                }
            })?;
        has_started.await??;
        Ok(Self(sender))
    }

    async fn observe(&self, time: Duration) -> Result<T, BenchError> {
        let (answer, seen) = oneshot::channel();
        self.0
            .send((time, answer))
            .map_err(|_| "the call has ended")?;
        Ok(seen.await??)
    }
}

/// The call's clients.
struct Call(Load);

impl Call {
    fn start(server: SocketAddr, tokens: &[String]) -> Result<Self, BenchError> {
        let mut load = Load::new()?;
        let publishing = Participation::PUBLISHER;
        for token in tokens {
            let id = load.join(server, token, &publishing)?;
            load.run_until("a participant of the call is connected", START, |load| {
                Ok(load.client(id)?.is_connected())
            })?;
        }
        load.run(Duration::from_secs(1))?;
        Ok(Self(load))
    }

    fn go_on(&mut self) -> Result<(), BenchError> {
        self.0.run(LOOK)
    }

    fn observe(&mut self, time: Duration) -> Result<Duration, BenchError> {
        self.0.take_count();
        self.0.run(time)?;
        let count = self.0.take_count();
        Ok(if count.packets == 0 {
            time
        } else {
            count.longest_silence
        })
    }
}

/// The participant that joins and leaves.
struct Joining {
    server: SocketAddr,
    token: String,
    load: Load,
}

impl Joining {
    fn observe(&mut self, time: Duration) -> Result<Joins, BenchError> {
        let (mut joins, end) = (Joins::default(), Instant::now() + time);
        while Instant::now() < end {
            let next = Instant::now() + BETWEEN_JOINS;
            match self.join()? {
                Some(took) => joins.longest = joins.longest.max(took),
                None => joins.failed += 1,
            }
            self.load
                .run(next.saturating_duration_since(Instant::now()))?;
        }
        Ok(joins)
    }

    /// Joins and leaves. Returns the join's duration; `None` if it failed.
    fn join(&mut self) -> Result<Option<Duration>, BenchError> {
        let begun = Instant::now();
        let listening = Participation::SUBSCRIBER;
        let Ok(id) = self.load.join(self.server, &self.token, &listening) else {
            return Ok(None);
        };
        while !self.load.client(id)?.is_connected() && begun.elapsed() < PATIENCE {
            self.load.run(Duration::from_millis(1))?;
        }
        let took = self
            .load
            .client(id)?
            .is_connected()
            .then(|| begun.elapsed());
        self.load.leave(id)?;
        Ok(took)
    }
}
