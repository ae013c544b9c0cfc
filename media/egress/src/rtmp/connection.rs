//! Connection to a receiver, on a separate thread, so that a receiver that hangs delays nothing
//! else.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::client::RtmpClient;
use super::dialler::{RtmpDialler, RtmpEndpoint, RtmpSocket, describe};
use super::flv::FlvTag;

// Tags for some seconds: about 30 video frames and 47 AAC frames per second.
const MAX_QUEUED_TAGS: usize = 512;
/// Maximum tags per write.
const MAX_BATCH: usize = 32;
/// Maximum time from dialling until the stream is accepted.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(15);
/// Read timeout until the stream is accepted.
const IDLE_READ_TIMEOUT: Duration = Duration::from_millis(100);
// The thread writes and reads by turns, so reading must hardly wait while tags are queued.
const BUSY_READ_TIMEOUT: Duration = Duration::from_millis(1);
/// Maximum time for the receiver to close the connection after the stream's end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
// More than both systems' socket buffers hold, so beyond it, the receiver has certainly read
// something.
const MAX_UNREAD_BYTES: u64 = 8 * 1024 * 1024;
// At any usual bitrate, more than the socket buffers hold; a receiver that reads nothing has
// stalled a write by then.
const MAX_UNREAD_TIME: Duration = Duration::from_secs(45);

/// Connection state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RtmpConnectionState {
    /// The receiver has not accepted the stream yet.
    Connecting,
    /// The receiver accepted the stream.
    Accepted {
        /// Whether the receiver has certainly read something.
        is_read: bool,
    },
    /// The connection ended for this reason.
    Ended(String),
}

/// Connection to a receiver. Dropping it closes the socket at once.
pub struct RtmpConnection {
    queue: Option<SyncSender<Arc<FlvTag>>>,
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<SharedState>,
}

struct SharedState {
    state: RtmpConnectionState,
    /// Socket, through which a blocked thread can be interrupted.
    socket: Option<TcpStream>,
    is_dropped: bool,
}

impl Shared {
    /// Registers the socket. Fails if the connection was dropped meanwhile.
    fn register_socket(&self, socket: &TcpStream) -> Result<(), String> {
        let socket = socket.try_clone().map_err(|error| describe(&error))?;
        let mut inner = self.inner.lock();
        inner.socket = Some(socket);
        // The handle was dropped while this thread was connecting; nothing would close the socket.
        if inner.is_dropped {
            Err("the connection was dropped".into())
        } else {
            Ok(())
        }
    }
}

impl RtmpConnection {
    /// Starts to connect.
    ///
    /// # Errors
    /// Fails if the operating system refuses a thread.
    pub fn start(dialler: RtmpDialler, endpoint: Arc<RtmpEndpoint>) -> io::Result<Self> {
        let (queue, tags) = sync_channel(MAX_QUEUED_TAGS);
        let inner = SharedState {
            state: RtmpConnectionState::Connecting,
            socket: None,
            is_dropped: false,
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
        });
        let thread_shared = Arc::clone(&shared);
        thread::Builder::new()
            .name("egress-rtmp".into())
            .spawn(move || {
                // `rml_rtmp` may panic on malformed input.
                let run = || {
                    RtmpSession::connect(&dialler, endpoint, &thread_shared)
                        .and_then(|session| session.run(&tags))
                };
                let ended = catch_unwind(AssertUnwindSafe(run))
                    .unwrap_or_else(|_| Err("the receiver sent malformed RTMP".into()));
                let mut inner = thread_shared.inner.lock();
                inner.state = RtmpConnectionState::Ended(ended.err().unwrap_or_default());
                inner.socket = None;
            })?;
        Ok(Self {
            queue: Some(queue),
            shared,
        })
    }

    pub fn state(&self) -> RtmpConnectionState {
        self.shared.inner.lock().state.clone()
    }

    /// Queues a tag. Returns false if the queue is full or the connection has ended.
    pub fn try_send(&self, tag: Arc<FlvTag>) -> bool {
        match self.queue.as_ref().map(|queue| queue.try_send(tag)) {
            Some(Ok(())) => true,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => false,
        }
    }

    /// Closes the connection once all queued tags are sent.
    pub fn close(&mut self) {
        // The thread notices the disconnected channel after the queued tags.
        self.queue = None;
    }
}

impl Drop for RtmpConnection {
    fn drop(&mut self) {
        let mut inner = self.shared.inner.lock();
        inner.is_dropped = true;
        // The socket may be closed already.
        inner
            .socket
            .take()
            .map(|socket| socket.shutdown(Shutdown::Both));
    }
}

/// Connection as its thread sees it.
struct RtmpSession<'a> {
    shared: &'a Shared,
    stream: RtmpSocket,
    client: RtmpClient,
    /// Time when the receiver accepted the stream, and the bytes written since.
    accepted: Option<(Instant, u64)>,
    /// Deadline for the acceptance.
    deadline: Instant,
}

impl<'a> RtmpSession<'a> {
    /// Connects and requests to publish. Returns once the receiver has accepted the stream.
    fn connect(
        dialler: &RtmpDialler,
        endpoint: Arc<RtmpEndpoint>,
        shared: &'a Shared,
    ) -> Result<Self, String> {
        let deadline = Instant::now() + ACCEPT_TIMEOUT;
        let stream = dialler.connect(&endpoint, deadline)?;
        shared.register_socket(stream.socket())?;
        stream
            .socket()
            .set_read_timeout(Some(IDLE_READ_TIMEOUT))
            .map_err(|error| describe(&error))?;
        let mut session = Self {
            shared,
            stream,
            client: RtmpClient::new(endpoint)?,
            accepted: None,
            deadline,
        };
        while !session.client.is_accepted() {
            session.flush()?;
            session.read()?;
            // A receiver could keep the loop alive with messages that change nothing.
            session.check_deadline()?;
        }
        session
            .stream
            .socket()
            .set_read_timeout(Some(BUSY_READ_TIMEOUT))
            .map_err(|error| describe(&error))?;
        session.accepted = Some((Instant::now(), 0));
        Ok(session)
    }

    /// Sends tags until the queue is closed.
    fn run(mut self, tags: &Receiver<Arc<FlvTag>>) -> Result<(), String> {
        loop {
            self.publish_state();
            match tags.recv_timeout(IDLE_READ_TIMEOUT) {
                Ok(tag) => {
                    self.client.send(&tag);
                    tags.try_iter()
                        // Bounded: a queue that is always full must not keep the thread from
                        // reading.
                        .take(MAX_BATCH)
                        .for_each(|tag| self.client.send(&tag));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
            self.flush()?;
            self.read()?;
        }
    }

    /// Makes the connection's state visible to other threads.
    fn publish_state(&self) {
        let Some((since, bytes)) = self.accepted else {
            return;
        };
        // Receivers need not acknowledge, so bytes and time count as well.
        let is_read = self.client.has_acknowledged()
            || bytes > MAX_UNREAD_BYTES
            || since.elapsed() >= MAX_UNREAD_TIME;
        self.shared.inner.lock().state = RtmpConnectionState::Accepted { is_read };
    }

    /// Sends the end of the stream and waits for the receiver to close: closing first may discard
    /// bytes that it has not read.
    fn finish(mut self) -> Result<(), String> {
        self.client.finish();
        self.flush()?;
        self.stream.end().map_err(|error| describe(&error))?;
        self.deadline = Instant::now() + CLOSE_TIMEOUT;
        let mut buffer = [0; 1_024];
        // Until the receiver closes; its messages no longer matter.
        while Instant::now() < self.deadline && !matches!(self.stream.read(&mut buffer), Ok(0)) {}
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        let output = self.client.take_output();
        let mut rest = &output[..];
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err("the receiver closed the connection".into()),
                Ok(written) => rest = &rest[written..],
                Err(error) => self.check_write_error(&error)?,
            }
        }
        if let Some((_, bytes)) = &mut self.accepted {
            *bytes += u64::try_from(output.len()).unwrap_or_default();
        }
        self.stream
            .flush()
            .or_else(|error| self.check_write_error(&error))
    }

    fn read(&mut self) -> Result<(), String> {
        let mut buffer = [0; 16 * 1_024];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err("the receiver closed the connection".into()),
            Ok(bytes) => self.client.receive(&buffer[..bytes]),
            Err(error) if is_temporary(&error) => Ok(()),
            Err(error) => Err(describe(&error)),
        }
    }

    /// Returns whether to retry a failed write: after an interruption, or while the TLS handshake
    /// waits for the receiver.
    fn check_write_error(&self, error: &io::Error) -> Result<(), String> {
        match (is_temporary(error), self.accepted) {
            (false, _) => Err(describe(error)),
            (true, Some(_)) if error.kind() != io::ErrorKind::Interrupted => {
                // A write timed out: the receiver has accepted no data for ten seconds.
                Err("the receiver does not read".into())
            }
            (true, _) => self.check_deadline(),
        }
    }

    fn check_deadline(&self) -> Result<(), String> {
        let has_time = self.accepted.is_some() || Instant::now() < self.deadline;
        if has_time {
            Ok(())
        } else {
            Err("the receiver did not answer in time".into())
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use conclave_model::address::AddressFilter;
    use conclave_model::rtmp::RtmpUrl;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use super::*;
    use crate::rtmp::FlvTagKind;
    use crate::rtmp::double::{Behaviour, KEY, Receiver, tag};
    use crate::rtmp::eyeballs::tests::UnresponsiveServer;

    /// Bound for events that happen at once.
    const LIMIT: Duration = Duration::from_secs(60);

    fn loopback() -> AddressFilter {
        AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()])
    }

    /// Returns a dialler that resolves every name to a receiver's address.
    fn dialler(
        filter: AddressFilter,
        roots: &[CertificateDer<'static>],
        receiver: &Receiver,
    ) -> RtmpDialler {
        let address = receiver.address;
        RtmpDialler::new(filter, roots)
            .unwrap()
            .with_resolver(move |_, _| Ok(vec![address]))
    }

    fn connect(dialler: RtmpDialler, url: &str) -> RtmpConnection {
        let url = RtmpUrl::parse(&format!("{url}/live/{KEY}")).unwrap();
        RtmpConnection::start(dialler, Arc::new(RtmpEndpoint::from_url(&url))).unwrap()
    }

    /// Waits until a connection attempt has ended.
    #[track_caller]
    fn settled(connection: &RtmpConnection) -> RtmpConnectionState {
        let end = Instant::now() + LIMIT;
        loop {
            match connection.state() {
                RtmpConnectionState::Connecting => {
                    assert!(Instant::now() < end, "it is still being made");
                }
                state => return state,
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns TLS settings for a server whose certificate an unknown authority signed, and the
    /// authority's certificate.
    fn encrypted(name: &str) -> (Arc<ServerConfig>, [CertificateDer<'static>; 1]) {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let root = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let signed = params.signed_by(&key, &root).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = config
            .with_no_client_auth()
            .with_single_cert(
                vec![signed.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        (Arc::new(config), [root.der().clone()])
    }

    #[test]
    fn a_stream_reaches_its_receiver_to_the_end() {
        let (tls, root) = encrypted("live.example.com");
        for (tls, url) in [
            (None, "rtmp://live.example.com"),
            (Some(tls), "rtmps://live.example.com"),
        ] {
            let receiver = Receiver::start(Behaviour::Accepts, tls);
            let mut connection = connect(dialler(loopback(), &root, &receiver), url);
            assert_eq!(
                settled(&connection),
                RtmpConnectionState::Accepted { is_read: false }
            );
            let sent: Vec<_> = (0..100)
                .map(|number| (number * 40, vec![0x27, 1, u8::try_from(number).unwrap()]))
                .collect();
            for (time, body) in &sent {
                assert!(connection.try_send(Arc::new(tag(
                    FlvTagKind::InterFrame,
                    (9, *time),
                    body
                ))));
            }
            connection.close();
            let end = Instant::now() + LIMIT;
            while !matches!(connection.state(), RtmpConnectionState::Ended(_)) {
                assert!(Instant::now() < end);
                thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(
                connection.state(),
                RtmpConnectionState::Ended(String::new())
            );
            assert_eq!(*receiver.media.lock().unwrap(), sent, "{url}");
        }
    }

    /// Proves S-69.
    #[test]
    fn a_receiver_without_a_trusted_certificate_of_its_name_gets_nothing() {
        let (tls, root) = encrypted("other.example.com");
        for (url, roots, expected) in [
            (
                "rtmps://live.example.com",
                &root[..],
                "the receiver's certificate is for another name",
            ),
            ("rtmps://other.example.com", &[], "not trusted"),
            (
                "rtmps://127.0.0.1",
                &root[..],
                "the receiver's certificate is for another name",
            ),
        ] {
            let receiver = Receiver::start(Behaviour::Accepts, Some(Arc::clone(&tls)));
            let ended = settled(&connect(dialler(loopback(), roots, &receiver), url));
            let RtmpConnectionState::Ended(reason) = ended else {
                panic!("{url}: {ended:?}")
            };
            assert!(reason.contains(expected), "{url}: {reason}");
            assert!(receiver.media.lock().unwrap().is_empty());
        }
    }

    /// Proves S-68.
    #[test]
    fn an_address_that_is_not_public_is_not_dialled_whatever_the_name_was_before() {
        let receiver = Receiver::start(Behaviour::Accepts, None);
        let address = receiver.address;
        let mixed = RtmpDialler::new(AddressFilter::default(), &[]).unwrap();
        let mixed = mixed.with_resolver(move |_, _| Ok(vec![([8, 8, 8, 8], 1).into(), address]));
        for dialler in [dialler(AddressFilter::default(), &[], &receiver), mixed] {
            for url in ["rtmp://rebound.example.com", "rtmps://rebound.example.com"] {
                let blocked = RtmpConnectionState::Ended(
                    "the receiver has an address that is not public".into(),
                );
                assert_eq!(settled(&connect(dialler.clone(), url)), blocked);
            }
        }
        let literal = format!("rtmp://{address}");
        let system = RtmpDialler::new(AddressFilter::default(), &[]).unwrap();
        assert!(matches!(
            settled(&connect(system, &literal)),
            RtmpConnectionState::Ended(_)
        ));
        assert_eq!(receiver.connections.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_error_for_a_refusing_or_missing_receiver_has_no_addresses() {
        let receiver = Receiver::start(Behaviour::Refuses, None);
        let refused = settled(&connect(dialler(loopback(), &[], &receiver), "rtmp://a"));
        let reason = "the receiver refused the stream: NetStream.Publish.BadName";
        assert_eq!(refused, RtmpConnectionState::Ended(reason.into()));
        let nobody = RtmpDialler::new(loopback(), &[])
            .unwrap()
            .with_resolver(|_, _| Ok(vec![([127, 0, 0, 1], 1).into()]));
        let reason = "the receiver refused the connection";
        assert_eq!(
            settled(&connect(nobody, "rtmp://a")),
            RtmpConnectionState::Ended(reason.into())
        );
        let unknown = RtmpDialler::new(loopback(), &[])
            .unwrap()
            .with_resolver(|_, _| Err(io::Error::other("no")));
        let reason = "the receiver's name cannot be resolved";
        assert_eq!(
            settled(&connect(unknown, "rtmp://a")),
            RtmpConnectionState::Ended(reason.into())
        );
    }

    #[test]
    fn a_connection_that_is_dropped_ends_at_once_whatever_it_waits_for() {
        let receiver = Receiver::start(Behaviour::NeverReads, None);
        let connection = connect(dialler(loopback(), &[], &receiver), "rtmp://a");
        settled(&connection);
        let body = vec![0; 60_000];
        while connection.try_send(Arc::new(tag(FlvTagKind::InterFrame, (9, 0), &body))) {}
        let shared = Arc::downgrade(&connection.shared);
        drop(connection);
        let end = Instant::now() + LIMIT;
        while shared.strong_count() > 0 {
            assert!(Instant::now() < end, "its thread has ended");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_root_certificate_has_to_be_one() {
        let error = |roots: &[CertificateDer<'static>]| {
            RtmpDialler::new(AddressFilter::default(), roots).err()
        };
        assert!(error(&[CertificateDer::from(vec![0, 0, 0])]).is_some());
        assert_eq!(error(&encrypted("a").1), None);
    }

    #[test]
    fn a_receiver_with_unresponsive_first_addresses_gets_the_stream() {
        let (receiver, dead) = (
            Receiver::start(Behaviour::Accepts, None),
            [UnresponsiveServer::start(), UnresponsiveServer::start()],
        );
        let addresses = vec![dead[0].address, dead[1].address, receiver.address];
        let dialler = RtmpDialler::new(loopback(), &[])
            .unwrap()
            .with_resolver(move |_, _| Ok(addresses.clone()));
        let started = Instant::now();
        let connection = connect(dialler, "rtmp://live.example.com");
        assert_eq!(
            settled(&connection),
            RtmpConnectionState::Accepted { is_read: false }
        );
        assert!(
            started.elapsed() < ACCEPT_TIMEOUT,
            "{:?}",
            started.elapsed()
        );
    }
}
