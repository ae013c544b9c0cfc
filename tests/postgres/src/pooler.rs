//! PgBouncer in front of a server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::owner::Owner;
use crate::{Cluster, eventually};

/// A pooler, stopped when dropped.
pub struct Pooler {
    process: Child,
    address: SocketAddr,
    _settings: TempDir,
}

impl Pooler {
    /// Starts `pgbouncer` with a mode (`session`, `transaction` or `statement`) and a maximum number of sessions per database; `None` if it
    /// is not installed.
    ///
    /// # Panics
    /// The pooler does not start.
    #[must_use]
    pub fn start(cluster: &Cluster, mode: &str, sessions: u32) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .into_iter()
            .find(|path| Path::new(path).exists());
        let Some(program) = program else {
            eprintln!("skipped: pgbouncer is not installed");
            return None;
        };
        let free =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let (address, server) = (free.expect("a free port"), cluster.address().port());
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={server} user=conclave\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\ndefault_pool_size = {sessions}\n",
            address.port()
        );
        let settings = tempfile::tempdir().expect("a folder");
        let file = settings.path().join("pgbouncer.ini");
        fs::write(&file, text).expect("the settings are written");
        let mut command = Command::new(program);
        // PgBouncer does not run as root.
        if let Some(owner) = Owner::for_servers() {
            owner.own(settings.path());
            owner.own(&file);
            owner.run(&mut command);
        }
        let process = command
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pgbouncer starts");
        let pooler = Self {
            process,
            address,
            _settings: settings,
        };
        assert!(
            eventually(|| TcpStream::connect(address).is_ok()),
            "pgbouncer does not listen"
        );
        Some(pooler)
    }

    /// Returns the pooler's address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
