//! How many files and sockets the process may open, and how many of them connections of clients may be.

use rustix::process::{Resource, getrlimit, setrlimit};

/// The most connections of the admin listener.
pub(super) const ADMIN_MAX_CONNECTIONS: usize = 1_024;
/// Descriptors for the admin listener, the database, and calls to LiveKit and to webhook receivers.
const RESERVED: usize = ADMIN_MAX_CONNECTIONS + 1_024;
/// Descriptors of a session with PostgreSQL: its socket, and those of its runtime.
const OF_SESSION: usize = 5;

/// Raises the limit to the highest that the process may set for itself. Shells set a low one by default, for the sake of old
/// programs.
pub(super) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        log::warn!("the limit of open files could not be raised: {error}");
    }
}

/// Returns how many connections the API listener may have beside these sessions with PostgreSQL: as configured, or fewer if the
/// process could not open as many.
pub(super) fn max_connections(configured: u32, sessions: usize) -> usize {
    let (allowed, problem) = allowed_connections(configured, sessions, getrlimit(Resource::Nofile).current);
    problem.iter().for_each(|problem| log::warn!("{problem}"));
    allowed
}

/// Returns why the API listener will have fewer connections than configured; `None` if it will not.
pub(crate) fn connections_problem(configured: u32, sessions: usize) -> Option<String> {
    allowed_connections(configured, sessions, getrlimit(Resource::Nofile).maximum).1
}

/// Returns how many connections are allowed with a limit of open files, and why they are fewer than configured, if they are.
fn allowed_connections(configured: u32, sessions: usize, limit: Option<u64>) -> (usize, Option<String>) {
    let open_files = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let configured = usize::try_from(configured).unwrap_or(usize::MAX);
    let allowed = within(configured, open_files.saturating_sub(sessions * OF_SESSION));
    let problem = || {
        format!(
            "http.max_connections is {configured}, but only {allowed} are allowed: the process may open {open_files} \
             files (ulimit -n)"
        )
    };
    (allowed, (allowed < configured).then(problem))
}

fn within(configured: usize, open_files: usize) -> usize {
    configured.min(open_files.saturating_sub(RESERVED).max(open_files / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest_of_the_server() {
        assert_eq!(within(16_384, usize::MAX), 16_384);
        assert_eq!(within(16_384, 20_000), 16_384);
        assert_eq!(within(16_384, 10_000), 7_952);
        assert_eq!(within(16_384, 1_024), 512);
        assert_eq!(within(100, 1_024), 100);
        assert_eq!(allowed_connections(16_384, 0, Some(1_024)).0, 512);
        assert_eq!(allowed_connections(16_384, 26, Some(1_024)).0, 447);
    }
}
