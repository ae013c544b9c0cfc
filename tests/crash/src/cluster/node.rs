//! A node: a process that is restarted when it exits, and its links.

use std::net::SocketAddr;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::Value;
use test_postgres::Proxy;

use super::process::{Addresses, Launch, Process, Version};

/// Delay before a process is restarted.
const RESTART_AFTER: Duration = Duration::from_millis(500);
/// Timeout for a node's status.
const TIMEOUT: Duration = Duration::from_secs(2);
/// An address without a listener: the target of a link while its node does not run.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

/// A node's connections, each through a proxy.
pub struct Links {
    /// To the PostgreSQL servers.
    pub database: Vec<Proxy>,
    /// From other nodes.
    pub nodes: Proxy,
    /// To LiveKit.
    pub livekit: Proxy,
    /// From LiveKit.
    pub webhooks: Proxy,
}

/// A node.
pub struct Node {
    pub number: usize,
    pub links: Links,
    launch: Launch,
    /// Database URL, with `NAME` as a placeholder for the node's session name.
    database: String,
    /// Whether clients may call it before it is known to be ready.
    is_always_called: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    process: Option<Process>,
    starts: u32,
    addresses: Option<Addresses>,
    /// Whether a load balancer has noticed that it does not respond.
    is_avoided: bool,
    /// Time for its restart.
    restart: Option<Instant>,
    /// How later starts differ; absent while they do not.
    next: Option<Launch>,
    /// Exit statuses of its processes.
    exits: Vec<ExitStatus>,
}

/// The lease as a node reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub status: String,
    /// For the active node only.
    pub epoch: Option<i64>,
}

impl Links {
    pub fn start(database: Vec<Proxy>, livekit: SocketAddr) -> Self {
        let [nodes, livekit, webhooks] = [NOWHERE, livekit, NOWHERE].map(Proxy::start);
        Self {
            database,
            nodes,
            livekit,
            webhooks,
        }
    }
}

impl Node {
    pub fn new(
        number: usize,
        links: Links,
        launch: Launch,
        database: String,
        is_always_called: bool,
    ) -> Self {
        Self {
            number,
            links,
            launch,
            database,
            is_always_called,
            state: Mutex::default(),
        }
    }

    pub fn start(&self) {
        self.start_process(&mut self.state.lock());
    }

    fn start_process(&self, state: &mut State) {
        state.starts += 1;
        state.restart = None;
        let launch = state.next.as_ref().unwrap_or(&self.launch);
        state.process = Some(launch.start(state.starts, &self.url(state.starts)));
    }

    /// Returns the database URL with a session name for each process.
    fn url(&self, start: u32) -> String {
        self.database
            .replace("NAME", &session_name(self.number, start))
    }

    /// Returns the running process's session name.
    pub fn session_name(&self) -> String {
        session_name(self.number, self.state.lock().starts)
    }

    /// Runs a command next to the node.
    pub fn command(&self, arguments: &[&str]) -> String {
        self.launch
            .command(arguments, &self.database.replace("NAME", "command"))
    }

    /// Records the process's exit, and restarts it if it has exited.
    pub fn supervise(&self) {
        let state = &mut *self.state.lock();
        if let Some(process) = &mut state.process {
            if let Some(status) = process.ended() {
                self.note_end(state, status);
            } else if state.addresses.is_none() {
                state.addresses = process.addresses();
                if let Some(Addresses { api, .. }) = state.addresses {
                    state.is_avoided = !self.is_always_called;
                    self.links.nodes.lead_to(api);
                    self.links.webhooks.lead_to(api);
                }
            }
        }
        if state.restart.is_some_and(|at| at <= Instant::now()) {
            self.start_process(state);
        }
    }

    fn note_end(&self, state: &mut State, status: ExitStatus) {
        state.exits.push(status);
        state.restart = Some(Instant::now() + RESTART_AFTER);
        (state.process, state.addresses) = (None, None);
        self.links.nodes.lead_to(NOWHERE);
        self.links.webhooks.lead_to(NOWHERE);
    }

    /// Kills the process as `kill -9` does.
    pub fn kill(&self) {
        self.kill_process(&mut self.state.lock());
    }

    /// Kills the process, which is not restarted before [`Node::start`].
    pub fn kill_for_now(&self) {
        let mut state = self.state.lock();
        self.kill_process(&mut state);
        state.restart = None;
    }

    fn kill_process(&self, state: &mut State) {
        let status = state.process.as_mut().expect("a running process").kill();
        self.note_end(state, status);
    }

    /// Ends the process permanently.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        let ended = state
            .process
            .take()
            .map(|process| (process.signal(Signal::TERM), process));
        if let Some((_, mut process)) = ended {
            while process.ended().is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        (state.addresses, state.restart) = (None, None);
    }

    pub fn signal(&self, signal: Signal) {
        let state = self.state.lock();
        state
            .process
            .as_ref()
            .expect("a running process")
            .signal(signal)
            .expect("a signal that arrives");
    }

    /// Uses another version for later starts.
    pub fn upgrade(&self, version: Version) {
        self.state.lock().next = Some(self.launch.with(version));
    }

    /// Makes clients avoid the node until it has been restarted.
    pub fn avoid(&self) {
        self.state.lock().is_avoided = true;
    }

    /// Makes clients avoid the node unless it is ready.
    pub fn follow_readiness(&self) {
        let Some(Addresses { admin, .. }) = self.addresses() else {
            return;
        };
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .build()
            .into();
        let is_ready = agent.get(format!("http://{admin}/readyz")).call().is_ok();
        self.state.lock().is_avoided = !is_ready;
    }

    /// Returns the node's URL for clients, unless they avoid it.
    pub fn url_for_clients(&self) -> Option<String> {
        let state = self.state.lock();
        let addresses = state.addresses.filter(|_| !state.is_avoided)?;
        Some(format!("http://{}", addresses.api))
    }

    pub fn addresses(&self) -> Option<Addresses> {
        self.state.lock().addresses
    }

    pub fn process_id(&self) -> Option<u32> {
        self.state.lock().process.as_ref().map(Process::id)
    }

    pub fn exits(&self) -> Vec<ExitStatus> {
        self.state.lock().exits.clone()
    }

    /// Returns the process's log.
    pub fn log(&self) -> String {
        self.state
            .lock()
            .process
            .as_ref()
            .map(Process::log)
            .unwrap_or_default()
    }

    /// Returns the lease as the node reports it; `None` without a response.
    pub fn lease(&self) -> Option<Lease> {
        let admin = self.addresses()?.admin;
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .build()
            .into();
        let said: Value = agent
            .get(format!("http://{admin}/debug/lease"))
            .call()
            .ok()?
            .body_mut()
            .read_json()
            .ok()?;
        Some(Lease {
            status: said["status"].as_str()?.to_owned(),
            epoch: said["epoch"].as_i64(),
        })
    }
}

fn session_name(node: usize, start: u32) -> String {
    format!("node-{node}-{start}")
}
