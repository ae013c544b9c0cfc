//! The servers: Conclave, and a LiveKit server for comparison.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use conclave_media::token::{Grants, TokenRequest, TokenSigner};
use conclave_model::{Clock, Secret};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::tls::Identity;
use super::{Route, datagrams};
use crate::BenchError;
use crate::connection::Connection;
use crate::process::Process;

const KEY: &str = "bench-media";
const SECRET: &str = "a-secret-of-the-benchmark-that-is-long-enough";
/// Project in the room names, as Conclave's tokens need it; LiveKit does not check it.
const PROJECT: &str = "prj_0123456789ab";
/// Time limit for a server to listen.
const START: Duration = Duration::from_secs(20);

/// A server program.
#[derive(Clone, Debug)]
pub enum Program {
    Conclave(PathBuf),
    Livekit(PathBuf),
}

/// A running server.
pub struct Server {
    process: Process,
    /// Address for clients.
    pub address: SocketAddr,
    tokens: Tokens,
    _scratch: TempDir,
}

enum Tokens {
    /// Conclave mints the tokens.
    Api { address: String, key: String },
    /// The tokens are signed here.
    Signed(Box<TokenSigner>),
}

impl Program {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Conclave(_) => "Conclave",
            Self::Livekit(_) => "LiveKit",
        }
    }

    /// Starts the server, on one core if `core` is given. Clients will use this route; LiveKit has only the direct one.
    pub fn start(&self, core: Option<usize>, route: Route) -> Result<Server, BenchError> {
        match self {
            Self::Conclave(binary) => start_conclave(command(binary, core), route),
            Self::Livekit(binary) => start_livekit(command(binary, core)),
        }
    }
}

fn command(binary: &Path, core: Option<usize>) -> Command {
    let Some(core) = core else {
        return Command::new(binary);
    };
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &core.to_string()]).arg(binary);
    command
}

fn start_conclave(mut command: Command, route: Route) -> Result<Server, BenchError> {
    let scratch = tempfile::tempdir()?;
    command
        .env("CONCLAVE_MEDIA__RTC__ADDRESSES", "127.0.0.1")
        .env("CONCLAVE_MEDIA__RTC__UDP_PORTS", "0");
    if route != Route::Direct {
        command
            .env("CONCLAVE_MEDIA__RTC__TURN__SERVER", "on")
            .env("CONCLAVE_MEDIA__RTC__TURN__UDP_PORT", "0");
    }
    let identity = (route == Route::TurnByTls)
        .then(Identity::new)
        .transpose()?;
    if let Some(identity) = &identity {
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| scratch.path().join(name));
        identity.write(&certificate, &key)?;
        command
            .env("CONCLAVE_TLS__CERT", certificate)
            .env("CONCLAVE_TLS__KEY", key);
    }
    let process = Process::conclave_by(command, &scratch.path().join("data"))?;
    // A certificate may name the host.
    let port = process.api().rsplit(':').next().ok_or("no port")?.parse()?;
    let mut address = SocketAddr::from(([127, 0, 0, 1], port));
    if let Some(identity) = identity {
        address = identity.connect_to(address)?;
    }
    let tokens = Tokens::Api {
        address: address.to_string(),
        key: process.key(),
    };
    Ok(Server {
        address,
        process,
        tokens,
        _scratch: scratch,
    })
}

fn start_livekit(mut command: Command) -> Result<Server, BenchError> {
    let scratch = tempfile::tempdir()?;
    let port = free_port()?;
    // `ips`: another address would be advertised as 127.0.0.1 too, and clients would then reach a socket that does not expect them.
    let config = json!({
        "port": port, "bind_addresses": ["127.0.0.1"], "keys": {KEY: SECRET}, "logging": {"level": "error"},
        "rtc": {
            "udp_port": UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port(), "tcp_port": free_port()?,
            "use_ice_lite": true, "node_ip": "127.0.0.1", "enable_loopback_candidate": true,
            "ips": {"includes": ["127.0.0.1/32"]},
        },
    });
    // JSON is YAML.
    let file = scratch.path().join("livekit.yaml");
    std::fs::write(&file, config.to_string())?;
    let process = Process::silent(
        command.arg("--config").arg(file),
        &scratch.path().join("log"),
    )?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let until = Instant::now() + START;
    while TcpStream::connect(address).is_err() {
        if Instant::now() > until {
            return Err("livekit-server does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let tokens = Tokens::Signed(Box::new(TokenSigner::new(KEY, &Secret::new(SECRET))));
    Ok(Server {
        process,
        address,
        tokens,
        _scratch: scratch,
    })
}

fn free_port() -> Result<u16, BenchError> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Server {
    /// Creates a room, if the server needs it.
    pub async fn create_room(&self, room: &str) -> Result<(), BenchError> {
        if matches!(self.tokens, Tokens::Api { .. }) {
            self.request("POST /v1/rooms", &json!({"name": room}))
                .await?;
        }
        Ok(())
    }

    /// Calls Conclave's API.
    pub async fn request(&self, head: &str, body: &Value) -> Result<Value, BenchError> {
        let Tokens::Api { address, key } = &self.tokens else {
            return Err("LiveKit has another API".into());
        };
        Connection::open(address).await?.json(key, head, body).await
    }

    /// Returns tokens for a room, each with its own identity.
    pub async fn tokens(&self, room: &str, count: usize) -> Result<Vec<String>, BenchError> {
        let identities = (0..count).map(|number| format!("user-{number}"));
        match &self.tokens {
            Tokens::Signed(signer) => identities
                .map(|identity| sign(signer, room, &identity))
                .collect(),
            Tokens::Api { address, key } => {
                let mut api = Connection::open(address).await?;
                let mut tokens = Vec::new();
                for identity in identities {
                    let request = json!({"room": room, "identity": identity, "role": "host"});
                    let minted = api.json(key, "POST /v1/tokens", &request).await?;
                    tokens.push(minted["token"].as_str().ok_or("no token")?.to_owned());
                }
                Ok(tokens)
            }
        }
    }

    /// Returns the CPU time so far, in seconds.
    pub fn cpu(&self) -> Result<f64, BenchError> {
        self.process.cpu()
    }

    /// Returns the resident memory in KiB.
    pub fn resident(&self) -> Result<f64, BenchError> {
        self.process.resident()
    }

    /// Datagrams lost at its sockets.
    pub fn dropped(&self) -> Result<u64, BenchError> {
        datagrams::dropped(self.process.id())
    }
}

fn sign(signer: &TokenSigner, room: &str, identity: &str) -> Result<String, BenchError> {
    let request = TokenRequest {
        room: format!("{PROJECT}.{room}").parse()?,
        identity: identity.parse()?,
        name: String::new(),
        metadata: String::new(),
        attributes: std::collections::BTreeMap::new(),
        role: None,
        role_change: None,
        revocation: None,
        exchange: None,
        max_kbps: None,
        grants: Grants::default(),
        ttl: Duration::from_secs(3600),
        empty_timeout_seconds: 300,
        max_participants: None,
    };
    Ok(signer
        .mint(&request, Clock::system().now())?
        .token
        .reveal()
        .to_owned())
}
