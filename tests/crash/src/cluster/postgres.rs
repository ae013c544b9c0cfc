//! A cluster's database: on one server, or on two with replication.

use std::net::SocketAddr;

use parking_lot::RwLock;
use test_postgres::{Cluster, ClusterOptions, Database, Proxy};

/// The servers, which end with the process.
pub struct Postgres {
    servers: RwLock<Servers>,
    database: Database<'static>,
}

#[derive(Clone, Copy)]
struct Servers {
    /// Each at its position in URLs.
    places: [Option<&'static Cluster>; 2],
    /// The primary's position.
    primary: usize,
}

impl Servers {
    fn primary(&self) -> &'static Cluster {
        self.places[self.primary].expect("a primary")
    }
}

impl Postgres {
    /// Starts a server, and a standby for it if `is_replicated`.
    pub fn start(is_replicated: bool) -> Self {
        let primary: &'static Cluster =
            Box::leak(Box::new(Cluster::start(ClusterOptions::default())));
        let standby = is_replicated.then(|| follow(primary));
        let servers = RwLock::new(Servers {
            places: [Some(primary), standby],
            primary: 0,
        });
        Self {
            servers,
            database: primary.database(),
        }
    }

    /// Starts a proxy in front of each server.
    pub fn proxies(&self) -> Vec<Proxy> {
        self.servers
            .read()
            .places
            .iter()
            .flatten()
            .map(|server| Proxy::start(server.address()))
            .collect()
    }

    /// Returns the database's URL through proxies, with `NAME` as a placeholder for the session name.
    pub fn url(&self, proxies: &[Proxy]) -> String {
        let first = proxies[0].address();
        let all: Vec<_> = proxies
            .iter()
            .map(|proxy| proxy.address().to_string())
            .collect();
        let url = self.database.url_at(first).replacen(
            &format!("@{first}/"),
            &format!("@{}/", all.join(",")),
            1,
        );
        format!("{url}?application_name=NAME")
    }

    /// Runs statements as the superuser.
    pub fn run(&self, text: &str) -> String {
        let primary = self.servers.read().primary();
        primary.copied_database(self.database.name()).run(text)
    }

    pub fn kill(&self) {
        self.servers.read().primary().kill();
    }

    pub fn start_again(&self) {
        self.servers.read().primary().start_again();
    }

    /// Promotes the standby.
    pub fn promote(&self) {
        let mut servers = self.servers.write();
        servers.primary = 1 - servers.primary;
        servers.primary().promote();
    }

    /// Starts a standby in place of the killed server. Returns its position and its address.
    pub fn replace_lost(&self) -> (usize, SocketAddr) {
        let mut servers = self.servers.write();
        let (place, standby) = (1 - servers.primary, follow(servers.primary()));
        servers.places[place] = Some(standby);
        (place, standby.address())
    }
}

fn follow(primary: &Cluster) -> &'static Cluster {
    Box::leak(Box::new(primary.synchronous_standby()))
}
