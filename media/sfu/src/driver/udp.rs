//! A worker's UDP socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Ipv6Addr, SocketAddr};

use mio::net::UdpSocket;
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use socket2::{Domain, Protocol, Socket, Type};
use str0m::net::Transmit;

use crate::worker::OUTBOX;

/// Requested size of the socket's buffers in bytes. The system may limit them to less.
const BUFFER_BYTES: usize = 16 * 1024 * 1024;

/// Maximum packets that wait for a busy socket. Further ones are dropped, as the network would.
const SEND_QUEUE: usize = 4096;

/// A worker's UDP socket.
pub struct UdpPort {
    pub socket: UdpSocket,
    /// Address known to clients, with which packets are marked.
    pub advertised: SocketAddr,
    /// Packets that wait until the socket is writable.
    waiting: VecDeque<Transmit>,
}

/// Opens a non-blocking socket with large buffers, bound to this address.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        // IPv4 has its own sockets at the same port.
        socket.set_only_v6(true)?;
    } else {
        // As with IPv6, routers must not fragment packets: clients keep them small enough for 1280 bytes. So the system
        // need not number them, which took 3 % of the forwarding time. If it rejects the option, it keeps numbering
        // them.
        let _ = set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE);
    }
    // A system that rejects the size uses its largest.
    let _ = (
        socket.set_recv_buffer_size(BUFFER_BYTES),
        socket.set_send_buffer_size(BUFFER_BYTES),
    );
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(UdpSocket::from_std(socket.into()))
}

impl UdpPort {
    /// Wraps an open socket.
    pub fn new(socket: UdpSocket, advertised: SocketAddr) -> Self {
        Self {
            socket,
            advertised,
            waiting: VecDeque::new(),
        }
    }

    /// Receives a datagram; `None` if there is none now. An unreachable client is not an error of the socket.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
        loop {
            match self.socket.recv_from(buffer) {
                Ok((length, source)) => return Ok(Some((length, normalize(source)))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error)
                    if matches!(
                        error.kind(),
                        // An ICMP error for an earlier packet, reported at the next call.
                        io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Queues a packet. Returns whether there was room for it.
    pub fn push(&mut self, packet: Transmit) -> bool {
        let has_room = self.waiting.len() < SEND_QUEUE;
        if has_room {
            self.waiting.push_back(packet);
        }
        has_room
    }

    /// Sends queued packets until the socket is busy. Returns packets and bytes sent, and packets dropped.
    pub fn send(&mut self) -> SendCounts {
        let mut sent = SendCounts::default();
        while !self.waiting.is_empty() {
            let batch = self.waiting.make_contiguous();
            // One system call per batch; its size bounds the lists that are built for it.
            let batch = &batch[..batch.len().min(OUTBOX)];
            match send_batch(&self.socket, batch) {
                Ok(count) => {
                    // Zero sent packets without an error must not loop forever.
                    let count = count.max(1);
                    sent.bytes += self
                        .waiting
                        .drain(..count)
                        .map(|packet| packet.contents.len())
                        .sum::<usize>();
                    sent.packets += count;
                }
                Err(Errno::AGAIN) => return sent,
                Err(Errno::INTR) => {}
                // The first packet cannot be sent, for example because its address is unreachable. The others may be.
                Err(_) => {
                    self.waiting.pop_front();
                    sent.dropped += 1;
                }
            }
        }
        sent
    }
}

/// Outcome of [`UdpPort::send`].
#[derive(Debug, Default, Clone, Copy)]
pub struct SendCounts {
    pub packets: usize,
    pub bytes: usize,
    pub dropped: usize,
}

fn send_batch(socket: &UdpSocket, batch: &[Transmit]) -> Result<usize, Errno> {
    let addresses: Vec<_> = batch
        .iter()
        .map(|packet| packet.destination.as_any())
        .collect();
    let slices: Vec<_> = batch
        .iter()
        .map(|packet| [IoSlice::new(&packet.contents)])
        .collect();
    let mut controls: Vec<_> = batch
        .iter()
        .map(|_| SendAncillaryBuffer::default())
        .collect();
    let parts = addresses.iter().zip(&slices).zip(&mut controls);
    let mut messages: Vec<_> = parts
        .map(|((address, slice), control)| MMsgHdr::new_with_addr(address, slice, control))
        .collect();
    sendmmsg(socket, &mut messages, SendFlags::DONTWAIT)
}

/// Returns the address in the form of candidates: IPv4 addresses are not mapped to IPv6.
pub fn normalize(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match Ipv6Addr::to_ipv4_mapped(v6.ip()) {
            Some(ip) => SocketAddr::from((ip, v6.port())),
            None => SocketAddr::from((*v6.ip(), v6.port())),
        },
        SocketAddr::V4(_) => address,
    }
}
