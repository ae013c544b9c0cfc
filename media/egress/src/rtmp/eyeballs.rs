//! Connects to whichever of several addresses responds first ("Happy Eyeballs", RFC 8305).
//!
//! Attempts start 250 ms apart and run in parallel. An unresponsive address, such as an IPv6
//! address in a network without IPv6, thus costs one delay and not a whole timeout.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

// RFC 8305, section 5.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Maximum addresses tried.
const MAX_ATTEMPTS: usize = 32;

/// Attempt without a result.
struct Attempt {
    socket: Socket,
    /// Time at which the attempt is abandoned.
    until: Instant,
}

/// Connects to one of several addresses. Each attempt has `timeout`; all attempts end at
/// `deadline`. Blocks.
///
/// # Errors
/// Fails with the last attempt's error if none succeeds.
pub fn connect(
    addresses: &[SocketAddr],
    timeout: Duration,
    deadline: Instant,
) -> io::Result<TcpStream> {
    let mut untried = interleave_families(addresses);
    let (mut attempts, mut next, mut failure) = (Vec::<Attempt>::new(), Instant::now(), None);
    loop {
        let now = Instant::now();
        if now >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let before = attempts.len();
        attempts.retain(|attempt| now < attempt.until);
        if attempts.len() < before {
            failure = Some(io::ErrorKind::TimedOut.into());
        }
        if (now >= next || attempts.is_empty())
            && let Some(address) = untried.pop_front()
        {
            match start_attempt(address) {
                Ok(socket) => attempts.push(Attempt {
                    socket,
                    until: now + timeout,
                }),
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            }
            next = now + ATTEMPT_DELAY;
        }
        if attempts.is_empty() {
            return Err(failure.unwrap_or_else(|| io::ErrorKind::NotFound.into()));
        }
        let next_attempt = (!untried.is_empty()).then_some(next);
        // The next attempt, the first timeout, or the deadline.
        let wake = attempts
            .iter()
            .map(|attempt| attempt.until)
            .chain(next_attempt)
            .fold(deadline, Instant::min);
        for index in completed(&attempts, wake.saturating_duration_since(now))?
            // `swap_remove` moves the last element, so the indices are processed from the highest
            // down.
            .into_iter()
            .rev()
        {
            let Attempt { socket, .. } = attempts.swap_remove(index);
            match socket.take_error() {
                Ok(None) => {
                    // The connection's thread uses blocking reads and writes with timeouts.
                    socket.set_nonblocking(false)?;
                    return Ok(socket.into());
                }
                Ok(Some(error)) | Err(error) => failure = Some(error),
            }
            // An attempt failed, so the next one starts at once (RFC 8305, section 5).
            next = now;
        }
    }
}

/// Returns the addresses in their order, with IPv4 and IPv6 alternating (RFC 8305, section 4).
fn interleave_families(addresses: &[SocketAddr]) -> VecDeque<SocketAddr> {
    let is_first_family = |address: &SocketAddr| {
        addresses.first().map(SocketAddr::is_ipv4) == Some(address.is_ipv4())
    };
    let (mut first, mut second): (VecDeque<SocketAddr>, VecDeque<SocketAddr>) =
        addresses.iter().copied().partition(is_first_family);
    let mut ordered = VecDeque::new();
    while ordered.len() < MAX_ATTEMPTS && !(first.is_empty() && second.is_empty()) {
        ordered.extend(first.pop_front());
        ordered.extend(second.pop_front());
    }
    ordered.truncate(MAX_ATTEMPTS);
    ordered
}

/// Starts an attempt without waiting for its result.
fn start_attempt(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error)
            // A non-blocking connect reports EINPROGRESS while it waits.
            if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
        {
            Err(error)
        }
        _ => Ok(socket),
    }
}

/// Waits for results. Returns the indices of attempts that have one, in ascending order.
fn completed(attempts: &[Attempt], wait: Duration) -> io::Result<Vec<usize>> {
    let mut polled: Vec<_> = attempts
        .iter()
        .map(|attempt| PollFd::new(&attempt.socket, PollFlags::OUT))
        .collect();
    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match poll(&mut polled, Some(&wait)) {
        // After a signal, the caller computes the remaining time anew.
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let indices = polled
        .iter()
        .enumerate()
        .filter(|(_, polled)| !polled.revents().is_empty());
    Ok(indices.map(|(index, _)| index).collect())
}

#[cfg(test)]
pub mod tests {
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;

    /// Server whose backlog is full, so that it does not respond to further connections.
    pub struct UnresponsiveServer {
        _listener: Socket,
        _connections: Vec<Socket>,
        pub address: SocketAddr,
    }

    impl UnresponsiveServer {
        pub fn start() -> Self {
            let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
            listener
                .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
                .unwrap();
            listener.listen(0).unwrap();
            let address = listener.local_addr().unwrap().as_socket().unwrap();
            let connections = (0..4).map(|_| start_attempt(address).unwrap()).collect();
            Self {
                _listener: listener,
                _connections: connections,
                address,
            }
        }
    }

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn an_unresponsive_address_costs_one_attempt_delay() {
        let (dead, other) = (UnresponsiveServer::start(), UnresponsiveServer::start());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let (started, addresses) = (Instant::now(), [dead.address, other.address, good]);
        let stream = connect(&addresses, LIMIT, started + LIMIT).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        assert!(started.elapsed() >= ATTEMPT_DELAY * 2, "one after another");
        assert!(started.elapsed() < LIMIT / 2);
    }

    #[test]
    fn a_refusing_address_is_followed_by_the_next_at_once_and_the_last_error_is_returned() {
        let refusing = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let deadline = Instant::now() + LIMIT;
        let stream = connect(&[refusing, refusing, good], LIMIT, deadline).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        let refused = connect(&[refusing, refusing], LIMIT, deadline).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let dead = UnresponsiveServer::start();
        let short = Duration::from_millis(50);
        assert_eq!(
            connect(&[dead.address], short, deadline)
                .unwrap_err()
                .kind(),
            io::ErrorKind::TimedOut
        );
        assert_eq!(
            connect(&[dead.address], LIMIT, Instant::now() + short)
                .unwrap_err()
                .kind(),
            io::ErrorKind::TimedOut
        );
        assert!(connect(&[], LIMIT, deadline).is_err());
    }

    proptest! {
        #[test]
        fn families_take_turns_and_keep_their_order(are_v6 in prop::collection::vec(any::<bool>(), 0..20)) {
            let addresses: Vec<_> = are_v6.iter().zip(1..).map(|(is_v6, port)| {
                if *is_v6 { SocketAddr::from(([0_u16; 8], port)) } else { SocketAddr::from(([127, 0, 0, 1], port)) }
            }).collect();
            let ordered = interleave_families(&addresses);
            prop_assert_eq!(ordered.front(), addresses.first());
            let mut sorted: Vec<_> = ordered.iter().copied().collect();
            sorted.sort_by_key(SocketAddr::port);
            prop_assert_eq!(&sorted, &addresses);
            for is_v6 in [false, true] {
                prop_assert!(ordered.iter().filter(|address| address.is_ipv6() == is_v6).map(SocketAddr::port).is_sorted());
            }
            let fewer = are_v6.iter().filter(|is_v6| **is_v6).count().min(are_v6.iter().filter(|is_v6| !**is_v6).count());
            for pair in ordered.iter().take(fewer * 2).collect::<Vec<_>>().windows(2) {
                prop_assert_ne!(pair[0].is_ipv6(), pair[1].is_ipv6());
            }
        }
    }
}
