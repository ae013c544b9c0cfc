//! A PostgreSQL that is temporarily stopped or hangs: no server takes over, none ends, and changes succeed soon after it returns.

use std::thread;
use std::time::{Duration, Instant};

use test_postgres::{Cluster, Database};

use crate::Outcome;
use crate::server::Server;

/// Measurements per outage kind.
const ROUNDS: u32 = 3;
/// Limit for the time until a change succeeds after PostgreSQL's return.
const LONGEST_RETURN: Duration = Duration::from_secs(2);

/// Kind of PostgreSQL outage.
#[derive(Debug, Clone, Copy)]
enum Outage {
    /// PostgreSQL is stopped, and started again.
    Away,
    /// PostgreSQL keeps its connections, but does not respond.
    Hang,
}

impl Outage {
    const fn name(self) -> &'static str {
        match self {
            Self::Away => "PostgreSQL away for 30 s",
            Self::Hang => "PostgreSQL hung for 20 s",
        }
    }

    const fn length(self) -> Duration {
        match self {
            Self::Away => Duration::from_secs(30),
            Self::Hang => Duration::from_secs(20),
        }
    }

    fn happen(self, servers: [&Server; 2]) {
        match self {
            Self::Away => Cluster::shared().stop(),
            Self::Hang => servers.iter().for_each(|server| server.proxy().stall()),
        }
        thread::sleep(self.length());
        match self {
            Self::Away => Cluster::shared().start_again(),
            Self::Hang => servers.iter().for_each(|server| server.proxy().resume()),
        }
    }
}

/// Measures the time until the active server writes again.
pub fn measure(database: &Database<'_>, active: &Server, standby: &Server) -> Vec<Outcome> {
    [Outage::Away, Outage::Hang]
        .map(|outage| rounds(outage, database, [active, standby]))
        .into()
}

fn rounds(outage: Outage, database: &Database<'_>, servers: [&Server; 2]) -> Outcome {
    let epoch = || database.run("SELECT epoch FROM leadership");
    let (mut outcome, before) = (Outcome::new(outage.name()), epoch());
    for number in 0..ROUNDS {
        outage.happen(servers);
        let returned = Instant::now();
        let name = format!("{outage:?}-{number}");
        // 409: the previous attempt's response was lost.
        while !matches!(servers[0].create_room(&name), Some(201 | 409)) {
            thread::yield_now();
        }
        let took = returned.elapsed();
        outcome.times.push(took);
        if took > LONGEST_RETURN {
            outcome
                .problems
                .push(format!("a change took {took:.1?} after the return"));
        }
        servers[1].wait_until_standby();
        if epoch() != before {
            outcome
                .problems
                .push("another server has taken over".into());
        }
    }
    outcome.times.sort_unstable();
    outcome
}
