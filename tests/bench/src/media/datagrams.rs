//! UDP sockets that report datagrams' arrival times.

use std::collections::HashSet;
use std::fs;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::BenchError;

/// Socket buffer size, large enough for the packets that arrive while the load sends.
const BUFFER_BYTES: usize = 2 * 1024 * 1024;

/// Buffer for received datagrams.
pub struct Buffer {
    bytes: Vec<u8>,
    control: Vec<u8>,
}

/// A received datagram.
pub struct Datagram<'a> {
    pub source: SocketAddr,
    /// Wall-clock time in nanoseconds at which the system received it.
    pub arrived: u64,
    pub contents: &'a [u8],
}

impl Buffer {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; 2048],
            control: nix::cmsg_space!(nix::sys::time::TimeSpec),
        }
    }
}

/// Opens a socket at a free port of an address.
pub fn bind(address: IpAddr) -> Result<UdpSocket, BenchError> {
    let socket = Socket::new(
        Domain::for_address((address, 0).into()),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    // A system that rejects the size uses its maximum.
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((address, 0)).into())?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    Ok(socket.into())
}

/// Receives a datagram; `None` if there is none.
pub fn receive<'a>(socket: &UdpSocket, buffer: &'a mut Buffer) -> io::Result<Option<Datagram<'a>>> {
    let capacity = buffer.control.capacity();
    buffer.control.resize(capacity, 0);
    let mut slices = [IoSliceMut::new(&mut buffer.bytes)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let (length, source, arrived) = match recvmsg::<SockaddrIn>(
        socket.as_raw_fd(),
        &mut slices,
        Some(&mut buffer.control),
        flags,
    ) {
        Ok(message) => {
            let source = message.address.ok_or(io::ErrorKind::InvalidData)?;
            let time = message.cmsgs()?.find_map(|control| match control {
                ControlMessageOwned::ScmTimestampns(time) => Some(time),
                _ => None,
            });
            let time = time.ok_or(io::ErrorKind::InvalidData)?;
            (
                message.bytes,
                source,
                time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64,
            )
        }
        Err(Errno::EAGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let source = SocketAddr::from((source.ip(), source.port()));
    Ok(Some(Datagram {
        source,
        arrived,
        contents: &buffer.bytes[..length],
    }))
}

/// Returns the number of datagrams that a process's UDP sockets have lost because their buffers were full.
pub fn dropped(process: u32) -> Result<u64, BenchError> {
    let mut inodes = HashSet::new();
    for file in fs::read_dir(format!("/proc/{process}/fd"))? {
        let Ok(target) = fs::read_link(file?.path()) else {
            continue;
        };
        let target = target.to_string_lossy().into_owned();
        inodes.extend(
            target
                .strip_prefix("socket:[")
                .map(|inode| inode.trim_end_matches(']').to_owned()),
        );
    }
    let mut dropped = 0;
    for table in ["/proc/net/udp", "/proc/net/udp6"] {
        for row in fs::read_to_string(table)?.lines().skip(1) {
            let columns: Vec<&str> = row.split_whitespace().collect();
            if columns.get(9).is_some_and(|inode| inodes.contains(*inode)) {
                dropped += columns.last().ok_or("no count of drops")?.parse::<u64>()?;
            }
        }
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::source::wall_clock;

    #[test]
    fn a_datagram_carries_the_time_of_its_arrival() {
        let (from, to) = (
            bind([127, 0, 0, 1].into()).unwrap(),
            bind([127, 0, 0, 1].into()).unwrap(),
        );
        let before = wall_clock();
        from.send_to(b"hello", to.local_addr().unwrap()).unwrap();
        let mut buffer = Buffer::new();
        let received = receive(&to, &mut buffer)
            .unwrap()
            .expect("loopback delivers at once");
        assert_eq!(
            (received.contents, received.source),
            (&b"hello"[..], from.local_addr().unwrap())
        );
        assert!((before..=wall_clock()).contains(&received.arrived));
        assert!(receive(&to, &mut buffer).unwrap().is_none());
        assert_eq!(dropped(std::process::id()).unwrap(), 0);
    }
}
