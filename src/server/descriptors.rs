//! Limit of open files and sockets, and the clients' share.

use conclave_media::embedded::turn_server::MAX_ALLOCATIONS;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::config::Config;

/// Maximum connections to the admin listener.
pub(super) const ADMIN_MAX_CONNECTIONS: usize = 1_024;
/// Descriptors for the admin listener, the database, and calls to LiveKit and webhook receivers.
const RESERVED: usize = ADMIN_MAX_CONNECTIONS + 1_024;
/// Maximum share of all descriptors for the TURN server's sockets: one in four.
const RELAY_SHARE: usize = 4;
/// Maximum share of all descriptors for TCP connections to the media workers: one in eight.
const MEDIA_SHARE: usize = 8;
/// Descriptors of a server without clients: threads, listeners and files. With a low limit, connections leave at least this many.
const SERVER_DESCRIPTORS: usize = 96;
/// Descriptors per PostgreSQL session: its socket, and the descriptors of its runtime.
const PER_SESSION: usize = 5;

/// Raises the soft limit to the hard limit. Shells set a low soft limit by default, for old programs that use `select`.
pub(super) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    // Allowed without privileges.
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        log::warn!("the limit of open files could not be raised: {error}");
    }
}

/// Returns the maximum number of TURN allocations: fewer than usual if the process could not open as many sockets.
pub(super) fn max_allocations() -> usize {
    relays(open_files(getrlimit(Resource::Nofile).current))
}

/// Returns the maximum number of TCP connections from clients to all media workers.
pub(super) fn max_media_connections() -> usize {
    open_files(getrlimit(Resource::Nofile).current) / MEDIA_SHARE
}

fn relays(open_files: usize) -> usize {
    MAX_ALLOCATIONS.min(open_files / RELAY_SHARE)
}

fn open_files(limit: Option<u64>) -> usize {
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

/// Returns the maximum number of connections to the API listener, besides PostgreSQL sessions: as configured, or fewer if the process could
/// not open as many.
pub(super) fn max_connections(config: &Config) -> usize {
    let (allowed, problem) = allowed_connections(
        RequiredDescriptors::from_config(config),
        getrlimit(Resource::Nofile).current,
    );
    // Only a warning: fewer connections are better than no server.
    problem.iter().for_each(|problem| log::warn!("{problem}"));
    allowed
}

/// Returns a warning if the API listener will have fewer connections than configured; `None` otherwise. A start raises the soft limit
/// first, so the hard one counts.
pub(crate) fn connections_problem(config: &Config) -> Option<String> {
    allowed_connections(
        RequiredDescriptors::from_config(config),
        getrlimit(Resource::Nofile).maximum,
    )
    .1
}

/// Number of descriptors that the settings require.
#[derive(Debug, Clone, Copy)]
struct RequiredDescriptors {
    connections: u32,
    /// Sockets per connection.
    sockets: usize,
    /// PostgreSQL sessions.
    sessions: usize,
    /// Whether there is a TURN server.
    has_turn: bool,
}

impl RequiredDescriptors {
    fn from_config(config: &Config) -> Self {
        // A standby's client connection needs another one to the active node.
        let sockets = if config.cluster.url.is_some() { 2 } else { 1 };
        Self {
            connections: config.http.max_connections,
            sockets,
            sessions: config.database.sessions(),
            has_turn: config.has_turn_server(),
        }
    }
}

/// Returns the number of connections that a limit of open files allows, and a warning if they are fewer than configured.
fn allowed_connections(wanted: RequiredDescriptors, limit: Option<u64>) -> (usize, Option<String>) {
    let RequiredDescriptors {
        connections,
        sockets,
        sessions,
        has_turn,
    } = wanted;
    let open_files = open_files(limit);
    let configured = usize::try_from(connections).unwrap_or(usize::MAX);
    // Each allocation has a socket of its own.
    let relays = if has_turn { relays(open_files) } else { 0 };
    let allowed = within(
        configured,
        sockets,
        open_files.saturating_sub(sessions * PER_SESSION + relays),
    );
    let problem = || {
        format!(
            "http.max_connections is {configured}, but only {allowed} are allowed: the process may open {open_files} \
             files (ulimit -n)"
        )
    };
    (allowed, (allowed < configured).then(problem))
}

fn within(configured: usize, sockets: usize, open_files: usize) -> usize {
    // With a low limit, the reserve would leave nothing: then half of the files, or all but the server's own, but never less than a
    // quarter.
    let with_few_files = (open_files / 2)
        .min(open_files.saturating_sub(SERVER_DESCRIPTORS))
        // A server with very few files should still accept some clients.
        .max(open_files / 4);
    configured.min(open_files.saturating_sub(RESERVED).max(with_few_files) / sockets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest_of_the_server() {
        assert_eq!(within(16_384, 1, usize::MAX), 16_384);
        assert_eq!(within(16_384, 1, 20_000), 16_384);
        assert_eq!(within(16_384, 1, 10_000), 7_952);
        assert_eq!(within(16_384, 1, 1_024), 512);
        assert_eq!(within(16_384, 1, 126), 31, "the server itself has some 60");
        assert_eq!(within(16_384, 1, 160), 64);
        assert_eq!(within(100, 1, 1_024), 100);
        assert_eq!(
            within(16_384, 2, 10_000),
            3_976,
            "of a node, each may have one to the active node"
        );
        let wanted = |sessions, has_turn| RequiredDescriptors {
            connections: 16_384,
            sockets: 1,
            sessions,
            has_turn,
        };
        let allowed =
            |sessions, has_turn| allowed_connections(wanted(sessions, has_turn), Some(1_024)).0;
        assert_eq!(
            (allowed(0, false), allowed(26, false), allowed(0, true)),
            (512, 447, 384)
        );
    }

    /// Proves S-30.
    #[test]
    fn allocations_of_the_turn_server_take_a_quarter_of_few_descriptors() {
        let allowed = |limit| relays(open_files(limit));
        assert_eq!(
            [None, Some(1_048_576), Some(4_096), Some(1_024)].map(allowed),
            [4_096, 4_096, 1_024, 256]
        );
    }
}
