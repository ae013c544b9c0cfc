//! Threads that send as fast as they can over connections that they reopen.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::attacker::Done;
use crate::BenchError;

/// Connections per address.
pub const CONNECTIONS: usize = 16;
/// Time after which a stalled connection is dropped.
const STALLED: Duration = Duration::from_millis(500);
/// Pause before reopening a connection, so that the attack does not only hit `accept`.
const REOPEN: Duration = Duration::from_millis(5);

/// Uses each connection repeatedly until the end.
pub fn on_each_connection(
    address: &str,
    until: Instant,
    use_it: impl Fn(&mut TcpStream, &mut Done) -> std::io::Result<()> + Sync,
) -> Result<Done, BenchError> {
    let mut done = Done::default();
    thread::scope(|scope| {
        let flooding = || {
            let mut done = Done::default();
            while Instant::now() < until {
                if let Ok(mut stream) = TcpStream::connect(address) {
                    done.connections += 1;
                    let used = set_timeouts(&stream)
                        .and_then(|()| repeat(&mut stream, until, &mut done, &use_it));
                    done.closed += u64::from(used.is_err());
                }
                thread::sleep(REOPEN);
            }
            done
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(flooding)).collect();
        for thread in threads {
            done.add(
                &thread
                    .join()
                    .map_err(|_| "a thread of the attacker panicked")?,
            );
        }
        Ok::<_, BenchError>(())
    })?;
    Ok(done)
}

fn set_timeouts(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_write_timeout(Some(STALLED))?;
    stream.set_read_timeout(Some(STALLED))
}

fn repeat(
    stream: &mut TcpStream,
    until: Instant,
    done: &mut Done,
    use_it: impl Fn(&mut TcpStream, &mut Done) -> std::io::Result<()>,
) -> std::io::Result<()> {
    while Instant::now() < until {
        use_it(stream, done)?;
    }
    Ok(())
}

/// Sends bytes.
pub fn send(stream: &mut TcpStream, bytes: &[u8], done: &mut Done) -> std::io::Result<()> {
    stream.write_all(bytes)?;
    done.note_sent(bytes.len());
    Ok(())
}

/// Sends a request, and reads part of the response.
pub fn exchange(stream: &mut TcpStream, request: &[u8], done: &mut Done) -> std::io::Result<()> {
    send(stream, request, done)?;
    let read = stream.read(&mut [0; 4096])?;
    if read == 0 {
        Err(std::io::ErrorKind::UnexpectedEof.into())
    } else {
        Ok(())
    }
}
