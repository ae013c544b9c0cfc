//! A worker's UDP socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use mio::net::UdpSocket;
use nix::sys::socket::sockopt::UdpGsoSegment;
use nix::sys::socket::{
    ControlMessage, MsgFlags, SockaddrStorage, getsockopt, sendmsg, setsockopt,
};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg, sendto};
use socket2::{Domain, Protocol, Socket, Type};
use str0m::net::Transmit;

use crate::worker::OUTBOX;

/// Requested size of the socket's buffers in bytes. The system may limit them to less.
const BUFFER_BYTES: usize = 16 * 1024 * 1024;

/// Maximum packets that wait for a busy socket. Further ones are dropped, as the network would.
const SEND_QUEUE: usize = 4096;

/// Maximum bytes of a datagram that the system divides. An IP packet's length has 16 bits.
const MAX_RUN_BYTES: usize = 60_000;

/// Any segment size, to find out whether the system has the option.
const TRIED_SEGMENT: i32 = 1200;

/// A worker's UDP socket.
pub struct UdpPort {
    pub socket: UdpSocket,
    /// Address known to clients, with which packets are marked.
    pub advertised: SocketAddr,
    /// Packets that wait until the socket is writable.
    waiting: VecDeque<Transmit>,
    /// Whether the system divides a datagram into packets of one size (UDP GSO).
    divides: bool,
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
            divides: can_divide(&socket),
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
            let run = if self.divides { run_length(batch) } else { 1 };
            let outcome = if run > 1 {
                match send_run(&self.socket, &batch[..run]) {
                    // Either the network device cannot divide datagrams, or only this destination is unsuitable, such as
                    // one beyond a device with a small MTU. One packet, sent alone, shows which.
                    Err(Errno::IO | Errno::INVAL) => {
                        let alone = send_batch(&self.socket, &batch[..1]);
                        self.divides = alone.is_err();
                        alone
                    }
                    outcome => outcome,
                }
            } else if self.divides {
                send_batch(&self.socket, &batch[..length_before_run(batch)])
            } else {
                send_batch(&self.socket, batch)
            };
            match outcome {
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

/// Returns whether the system divides datagrams (Linux 4.18).
fn can_divide(socket: &UdpSocket) -> bool {
    // Read back, since an emulated system may accept any option without having it.
    let has_option = setsockopt(socket, UdpGsoSegment, &TRIED_SEGMENT).is_ok()
        && getsockopt(socket, UdpGsoSegment).is_ok_and(|size| size == TRIED_SEGMENT);
    // From here on, only messages that name a size are divided.
    has_option && setsockopt(socket, UdpGsoSegment, &0).is_ok()
}

/// Returns how many packets, from the first on, fit into one datagram that the system divides: packets of one size to
/// one address; the last one may be smaller. A video frame's packets are mostly such a run.
fn run_length(batch: &[Transmit]) -> usize {
    let Some(first) = batch.first() else {
        return 0;
    };
    let size = first.contents.len();
    let most = (MAX_RUN_BYTES / size.max(1)).max(1);
    let mut length = 1;
    for packet in batch.iter().take(most).skip(1) {
        let is_next =
            packet.destination == first.destination && (1..=size).contains(&packet.contents.len());
        if !is_next {
            break;
        }
        length += 1;
        if packet.contents.len() < size {
            break;
        }
    }
    length
}

/// Returns the number of packets before the next run, given that none starts at the first packet.
fn length_before_run(batch: &[Transmit]) -> usize {
    (1..batch.len())
        .find(|start| run_length(&batch[*start..]) > 1)
        .unwrap_or(batch.len())
}

/// Sends a run as one datagram that the system divides into its packets: it passes through the network stack once.
fn send_run(socket: &UdpSocket, run: &[Transmit]) -> Result<usize, Errno> {
    let first = run.first().ok_or(Errno::INVAL)?;
    let size = u16::try_from(first.contents.len()).map_err(|_| Errno::INVAL)?;
    let slices: Vec<_> = run
        .iter()
        .map(|packet| IoSlice::new(&packet.contents))
        .collect();
    sendmsg(
        socket.as_raw_fd(),
        &slices,
        &[ControlMessage::UdpGsoSegments(&size)],
        MsgFlags::MSG_DONTWAIT,
        Some(&SockaddrStorage::from(first.destination)),
    )
    .map(|_| run.len())
    .map_err(|error| Errno::from_raw_os_error(error as i32))
}

fn send_batch(socket: &UdpSocket, batch: &[Transmit]) -> Result<usize, Errno> {
    // Frequent in small calls: a single packet needs no lists.
    if let [packet] = batch {
        let flags = SendFlags::DONTWAIT;
        return sendto(socket, &packet.contents, flags, &packet.destination).map(|_| 1);
    }
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

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as StdSocket;
    use std::time::Duration;

    use str0m::net::Protocol;

    use super::*;

    fn packet(destination: SocketAddr, size: usize, content: u8) -> Transmit {
        Transmit {
            proto: Protocol::Udp,
            source: destination,
            destination,
            contents: vec![content; size].into(),
        }
    }

    #[test]
    fn a_run_has_packets_of_one_size_to_one_address_and_perhaps_a_smaller_one() {
        let packets = |packets: &[(u16, usize)]| -> Vec<Transmit> {
            let to = |port| SocketAddr::from(([192, 0, 2, 1], port));
            packets
                .iter()
                .map(|(port, size)| packet(to(*port), *size, 0))
                .collect()
        };
        let length = |named: &[(u16, usize)]| run_length(&packets(named));
        assert_eq!(length(&[]), 0);
        assert_eq!(length(&[(1, 100)]), 1);
        assert_eq!(length(&[(1, 100), (1, 100), (1, 60), (1, 60)]), 3);
        assert_eq!(length(&[(1, 100), (1, 101)]), 1, "a larger packet");
        assert_eq!(length(&[(1, 100), (2, 100)]), 1, "another address");
        assert_eq!(length(&[(1, 100), (1, 0)]), 1, "an empty packet");
        assert_eq!(length(&[(1, 2000); OUTBOX]), 30, "too many bytes");
        let mixed = packets(&[(1, 100), (2, 100), (3, 90), (3, 90), (4, 90)]);
        assert_eq!(length_before_run(&mixed), 2);
        assert_eq!(length_before_run(&mixed[4..]), 1);
    }

    #[test]
    fn a_destination_that_cannot_be_sent_to_ends_the_division_for_no_other() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let receiver = StdSocket::bind(here).unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut port = UdpPort::new(bind(here).unwrap(), here);
        let divides = port.divides;
        // Linux answers with EINVAL to port 0, as it does to a run whose packets are larger than a device's MTU.
        for number in 0..3 {
            assert!(port.push(packet(here, 1100, number)));
        }
        assert!(port.push(packet(receiver.local_addr().unwrap(), 90, 3)));
        let counts = port.send();
        assert_eq!((counts.packets, counts.dropped), (1, 3));
        assert_eq!(port.divides, divides);
        let mut buffer = [0; 2000];
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], [3; 90]);
    }

    #[test]
    fn packets_arrive_one_by_one_and_in_order_however_they_are_sent() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let receivers = [
            StdSocket::bind(here).unwrap(),
            StdSocket::bind(here).unwrap(),
        ];
        for receiver in &receivers {
            receiver
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
        }
        // Singles, runs with and without a smaller end, and a run in two pieces.
        let sent = [
            (0, 300),
            (0, 1100),
            (0, 1100),
            (0, 1100),
            (0, 700),
            (1, 1100),
            (1, 1100),
            (0, 80),
            (1, 1101),
            (1, 1101),
            (1, 1100),
            (0, 90),
        ];
        for divides in [true, false] {
            let mut port = UdpPort::new(bind(here).unwrap(), here);
            port.divides &= divides;
            for ((receiver, size), number) in sent.into_iter().zip(0..) {
                let to: &StdSocket = &receivers[receiver];
                assert!(port.push(packet(to.local_addr().unwrap(), size, number)));
            }
            let counts = port.send();
            assert_eq!((counts.packets, counts.dropped), (sent.len(), 0));
            let bytes = sent.iter().map(|(_, size)| size).sum::<usize>();
            assert_eq!(counts.bytes, bytes);
            for ((receiver, size), number) in sent.into_iter().zip(0..) {
                let mut buffer = [0; 2000];
                let length = receivers[receiver].recv(&mut buffer).unwrap();
                assert_eq!(buffer[..length], vec![number; size]);
            }
        }
    }
}
