//! A PostgreSQL server with its own files.

mod replication;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use crate::database::Database;
use crate::engine::{Engine, print_skipped};
use crate::owner::Owner;
use crate::programs::{OLDEST_VERSION, Programs};
use crate::watchdog::Watchdog;
use crate::{eventually, tls};

/// User that owns the databases. A server without TLS does not ask for the password.
pub(crate) const USER: &str = "conclave";

/// Password in database URLs: no program output may contain it.
pub const PASSWORD: &str = "password-of-the-test-database";

/// Attempts to start with another port, because another program may take a port between its choice and its use.
const PORTS: usize = 10;

/// A server's differences from [`Cluster::shared`].
#[derive(Debug, Clone, Default)]
pub struct ClusterOptions {
    /// Whether clients must use TLS and the password.
    pub tls: bool,
    /// Server settings, such as `max_connections=20`.
    pub settings: Vec<String>,
}

/// A server on 127.0.0.1. It ends, and its files are removed, when the value is dropped or the process ends.
#[derive(Debug)]
pub struct Cluster {
    programs: Programs,
    options: ClusterOptions,
    owner: Option<Owner>,
    folder: PathBuf,
    port: AtomicU16,
    server: Mutex<Option<Child>>,
    databases: AtomicUsize,
    /// Template databases by the name of their content.
    templates: Mutex<HashMap<&'static str, Arc<OnceLock<String>>>>,
    _watchdog: Watchdog,
}

impl Cluster {
    /// Returns the server that this process's tests share, or none if PostgreSQL is not installed, with a message.
    ///
    /// # Panics
    /// As [`Cluster::shared`] if `TEST_DATABASE=postgres`.
    #[must_use]
    pub fn installed() -> Option<&'static Self> {
        static PROGRAMS: LazyLock<Option<Programs>> = LazyLock::new(Programs::find);
        if PROGRAMS.is_none() && Engine::chosen() == Engine::Sqlite {
            print_skipped(&format!(
                "PostgreSQL {OLDEST_VERSION} or newer is not installed"
            ));
            return None;
        }
        Some(Self::shared())
    }

    /// Returns the server that this process's tests share. The first caller starts it.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Cluster> =
            LazyLock::new(|| Cluster::start(ClusterOptions::default()));
        &SHARED
    }

    /// Starts another server, for tests that stop it or need other settings.
    ///
    /// # Panics
    /// As [`Cluster::shared`].
    #[must_use]
    pub fn start(options: ClusterOptions) -> Self {
        let programs = Programs::find().unwrap_or_else(|| {
            panic!("PostgreSQL {OLDEST_VERSION} or newer is not installed: no postgres, initdb, psql and pg_dump in one folder")
        });
        let cluster = Self::empty(programs, options);
        cluster.initialize();
        cluster.start_on_a_free_port();
        cluster.psql(
            "postgres",
            &format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'"),
        );
        cluster
    }

    /// Creates a server without files.
    fn empty(programs: Programs, options: ClusterOptions) -> Self {
        let owner = Owner::for_servers();
        let folder = tempfile::Builder::new()
            .prefix("conclave-postgres-")
            .tempdir()
            .expect("a folder")
            .keep();
        let watchdog = Watchdog::start(&folder);
        if let Some(owner) = owner {
            owner.own(&folder);
        }
        Self {
            programs,
            options,
            owner,
            folder,
            port: AtomicU16::new(0),
            server: Mutex::new(None),
            databases: AtomicUsize::new(0),
            templates: Mutex::new(HashMap::new()),
            _watchdog: watchdog,
        }
    }

    /// Returns the server's TCP address. Its Unix socket is used by this crate only.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.load(Ordering::Relaxed)).into()
    }

    /// Returns the root certificate that issued the server's certificate, if the server uses TLS.
    #[must_use]
    pub fn root_certificate(&self) -> PathBuf {
        self.folder.join("root.crt")
    }

    /// Creates an empty database.
    #[must_use]
    pub fn database(&self) -> Database<'_> {
        Database::create(self, self.new_name(), None)
    }

    /// Creates a database as a copy of `prepare`'s result; `prepare` is called once per `content`.
    ///
    /// # Panics
    /// `prepare` panics, or the database accepts no connections.
    #[must_use]
    pub fn prepared_database(
        &self,
        content: &'static str,
        prepare: impl FnOnce(&Database<'_>),
    ) -> Database<'_> {
        let template = Arc::clone(self.templates.lock().entry(content).or_default());
        let template = template.get_or_init(|| {
            let database = self.database();
            prepare(&database);
            database.into_template()
        });
        self.database_like(template)
    }

    pub(crate) fn database_like(&self, name: &str) -> Database<'_> {
        Database::create(self, self.new_name(), Some(name))
    }

    fn new_name(&self) -> String {
        format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn drop_database(&self, name: &str) {
        if self.server.lock().is_some() {
            let _ = self
                .psql_command("postgres")
                .args(["-c", &format!("DROP DATABASE {name} WITH (FORCE)")])
                .output();
        }
    }

    /// Kills the server as `kill -9` does. Its session processes notice that and exit.
    ///
    /// # Panics
    /// The server does not run.
    pub fn kill(&self) {
        self.end(Signal::KILL);
    }

    /// Stops the server without waiting for clients: transactions are rolled back.
    ///
    /// # Panics
    /// The server does not run.
    pub fn stop(&self) {
        self.end(Signal::INT);
    }

    fn end(&self, signal: Signal) {
        let mut server = self.server.lock().take().expect("a running server");
        send(&server, signal);
        server.wait().expect("the server's end is seen");
    }

    /// Starts the server again on the same port, after [`Cluster::stop`] or [`Cluster::kill`].
    ///
    /// # Panics
    /// The server does not start.
    pub fn start_again(&self) {
        let mut failure = String::new();
        let started = eventually(|| match self.try_start() {
            Ok(()) => true,
            // The killed server's sessions are still ending, or another program's connection occupies the port for a moment.
            Err(error) => {
                failure = error;
                false
            }
        });
        assert!(started, "{failure}");
    }

    fn start_on_a_free_port(&self) {
        let mut failure = String::new();
        for _ in 0..PORTS {
            let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            self.port
                .store(port.expect("a free port").port(), Ordering::Relaxed);
            match self.try_start() {
                Ok(()) => return,
                Err(error) => failure = error,
            }
        }
        panic!("PostgreSQL does not start: {failure}");
    }

    /// Starts the server and waits until it accepts sessions. The error is the end of its log.
    fn try_start(&self) -> Result<(), String> {
        let log = fs::File::create(self.folder.join("log")).expect("a log file");
        let mut postgres = self.command("postgres");
        postgres
            .arg("-D")
            .arg(self.folder.join("data"))
            .stdout(log.try_clone().expect("a file"))
            .stderr(log);
        for setting in self.settings() {
            postgres.arg("-c").arg(setting);
        }
        let mut server = postgres
            .stdin(Stdio::null())
            .spawn()
            .expect("postgres starts");
        let mut ended = false;
        let ready = eventually(|| {
            ended = server.try_wait().expect("the server's state").is_some();
            ended || is_ready(&self.folder, server.id())
        });
        if ready && !ended {
            *self.server.lock() = Some(server);
            return Ok(());
        }
        let _ = server.kill().and_then(|()| server.wait());
        Err(fs::read_to_string(self.folder.join("log")).unwrap_or_default())
    }

    fn settings(&self) -> Vec<String> {
        let port = self.port.load(Ordering::Relaxed);
        let folder = self.folder.display();
        let mut settings = vec![
            format!("port={port}"),
            "listen_addresses=127.0.0.1".to_owned(),
            format!("unix_socket_directories={folder}"),
            // A crash of the machine ends the tests, too.
            "fsync=off".to_owned(),
            "full_page_writes=off".to_owned(),
            "max_connections=500".to_owned(),
        ];
        if self.options.tls {
            settings.push("ssl=on".to_owned());
            settings.push(format!("ssl_cert_file={folder}/server.crt"));
            settings.push(format!("ssl_key_file={folder}/server.key"));
        }
        settings.extend(self.options.settings.iter().cloned());
        settings
    }

    /// Creates the server's files.
    fn initialize(&self) {
        let mut initdb = self.command("initdb");
        initdb.arg("-D").arg(self.folder.join("data"));
        initdb.args([
            "--no-sync",
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C",
        ]);
        if self.programs.version() >= 15 {
            // A locale with another sort order than SQLite's: queries that rely on an implicit collation fail.
            initdb.args(["--locale-provider=icu", "--icu-locale=en-US"]);
        }
        output(initdb);
        let tcp = if self.options.tls {
            "hostssl all all 127.0.0.1/32 scram-sha-256"
        } else {
            "host all all 127.0.0.1/32 trust"
        };
        let clients = format!("local all,replication postgres trust\n{tcp}\n");
        fs::write(self.folder.join("data/pg_hba.conf"), clients).expect("a file is written");
        if self.options.tls {
            self.write_certificates();
        }
    }

    fn write_certificates(&self) {
        tls::write_certificates(&self.folder);
        let key = self.folder.join("server.key");
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("a file's mode is set");
        if let Some(owner) = self.owner {
            owner.own(&key);
        }
    }

    /// Returns a command that runs as the owner of the server's files.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.path(program));
        if let Some(owner) = self.owner {
            owner.run(&mut command);
        }
        // The caller's folder may be inaccessible to that user.
        command.current_dir(&self.folder);
        command
    }

    /// Returns a psql command for the superuser: quiet, rows only, exits at an error.
    pub(crate) fn psql_command(&self, database: &str) -> Command {
        let mut psql = self.client("psql");
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            database,
        ]);
        psql
    }

    /// Returns a client program for the superuser, through the Unix socket.
    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.path(program));
        command.arg("-h").arg(&self.folder).args([
            "-p",
            &self.port.load(Ordering::Relaxed).to_string(),
            "-U",
            "postgres",
        ]);
        command
    }

    pub(crate) fn psql(&self, database: &str, text: &str) -> String {
        let mut psql = self.psql_command(database);
        psql.args(["-c", text]);
        output(psql)
    }

    pub(crate) fn dump(&self, database: &str) -> String {
        let mut dump = self.client("pg_dump");
        dump.arg(database);
        output(dump)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.lock().take() {
            send(&server, Signal::QUIT);
            let _ = server.wait();
        }
    }
}

fn send(server: &Child, signal: Signal) {
    let pid = Pid::from_raw(server.id().cast_signed()).expect("a process");
    kill_process(pid, signal).expect("the server gets a signal");
}

/// Returns whether the server accepts sessions, according to the eighth line of its pid file.
fn is_ready(folder: &Path, server: u32) -> bool {
    let state = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
    let mut lines = state.lines();
    lines.next() == Some(&server.to_string())
        && lines.nth(6).is_some_and(|status| status.trim() == "ready")
}

/// Runs a program and returns its output.
fn output(mut command: Command) -> String {
    let output: io::Result<_> = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .expect("the output is UTF-8")
        .trim_end()
        .to_owned()
}
