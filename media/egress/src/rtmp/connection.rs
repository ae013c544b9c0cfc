//! A connection to a receiver, on a thread of its own: a receiver that hangs holds nothing else up.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::client::Client;
use super::dialler::{Dialler, Endpoint, Stream, describe};
use super::flv::Tag;

/// Tags that wait for a receiver: some seconds.
const QUEUE: usize = 512;
/// Tags that are written at once.
const AT_ONCE: usize = 32;
/// How long a receiver may take until it takes the stream.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long the receiver is listened to before it takes the stream, and while nothing is to be sent.
const IDLE: Duration = Duration::from_millis(100);
/// How long it is listened to between tags.
const GLANCE: Duration = Duration::from_millis(1);
/// How long a receiver may take to close the connection after the end of the stream.
const CLOSING: Duration = Duration::from_secs(2);
/// Bytes that no receiver has without reading them: more than the system keeps for both ends.
const BUFFERED: u64 = 8 * 1024 * 1024;
/// A connection that has lasted so long has been read, whatever the bitrate.
const LASTING: Duration = Duration::from_secs(45);

/// What a connection is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionState {
    /// The receiver has not accepted the stream yet.
    Connecting,
    /// It has accepted the stream.
    Accepted {
        /// Whether it has certainly read something of it.
        is_read: bool,
    },
    /// It has ended; holds the reason.
    Ended(String),
}

/// A connection to a receiver. Dropping it ends it at once.
pub struct Connection {
    queue: Option<SyncSender<Arc<Tag>>>,
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<Inner>,
}

struct Inner {
    state: ConnectionState,
    /// The socket, to end what waits for it.
    socket: Option<TcpStream>,
    is_dropped: bool,
}

impl Shared {
    /// Keeps the socket; an error if the connection is not wanted any more.
    fn keep(&self, socket: &TcpStream) -> Result<(), String> {
        let socket = socket.try_clone().map_err(|error| describe(&error))?;
        let mut inner = self.inner.lock();
        inner.socket = Some(socket);
        if inner.is_dropped {
            Err("the connection is not wanted any more".into())
        } else {
            Ok(())
        }
    }
}

impl Connection {
    /// Begins to connect.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(dialler: Dialler, endpoint: Arc<Endpoint>) -> io::Result<Self> {
        let (queue, tags) = sync_channel(QUEUE);
        let inner = Inner {
            state: ConnectionState::Connecting,
            socket: None,
            is_dropped: false,
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
        });
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("egress-rtmp".into())
            .spawn(move || {
                // The parser of the protocol may panic over what a receiver sends.
                let run = || {
                    Session::connect(&dialler, endpoint, &of_thread)
                        .and_then(|session| session.run(&tags))
                };
                let ended = catch_unwind(AssertUnwindSafe(run))
                    .unwrap_or_else(|_| Err("the receiver sent nonsense".into()));
                let mut inner = of_thread.inner.lock();
                inner.state = ConnectionState::Ended(ended.err().unwrap_or_default());
                inner.socket = None;
            })?;
        Ok(Self {
            queue: Some(queue),
            shared,
        })
    }

    /// Returns what it is doing.
    pub fn state(&self) -> ConnectionState {
        self.shared.inner.lock().state.clone()
    }

    /// Puts a tag into the queue. Returns false if that is full, or the connection has ended.
    pub fn try_send(&self, tag: Arc<Tag>) -> bool {
        match self.queue.as_ref().map(|queue| queue.try_send(tag)) {
            Some(Ok(())) => true,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => false,
        }
    }

    /// Lets the connection end once what waits has been sent.
    pub fn close(&mut self) {
        self.queue = None;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut inner = self.shared.inner.lock();
        inner.is_dropped = true;
        // One that has ended already does not care.
        inner
            .socket
            .take()
            .map(|socket| socket.shutdown(Shutdown::Both));
    }
}

/// The connection, on its thread.
struct Session<'a> {
    shared: &'a Shared,
    stream: Stream,
    client: Client,
    /// When the receiver accepted the stream, and the bytes that were written since.
    accepted: Option<(Instant, u64)>,
    /// When it has to have accepted it.
    deadline: Instant,
}

impl<'a> Session<'a> {
    /// Connects, and requests to publish. Returns once the receiver has accepted.
    fn connect(
        dialler: &Dialler,
        endpoint: Arc<Endpoint>,
        shared: &'a Shared,
    ) -> Result<Self, String> {
        let deadline = Instant::now() + PATIENCE;
        let stream = dialler.connect(&endpoint, deadline)?;
        shared.keep(stream.socket())?;
        stream
            .socket()
            .set_read_timeout(Some(IDLE))
            .map_err(|error| describe(&error))?;
        let mut session = Self {
            shared,
            stream,
            client: Client::new(endpoint)?,
            accepted: None,
            deadline,
        };
        while !session.client.is_accepted() {
            session.flush()?;
            session.read()?;
            session.check_deadline()?;
        }
        session
            .stream
            .socket()
            .set_read_timeout(Some(GLANCE))
            .map_err(|error| describe(&error))?;
        session.accepted = Some((Instant::now(), 0));
        Ok(session)
    }

    /// Sends what comes, until nothing more does.
    fn run(mut self, tags: &Receiver<Arc<Tag>>) -> Result<(), String> {
        loop {
            self.tell();
            match tags.recv_timeout(IDLE) {
                Ok(tag) => {
                    self.client.send(&tag);
                    tags.try_iter()
                        .take(AT_ONCE)
                        .for_each(|tag| self.client.send(&tag));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
            self.flush()?;
            self.read()?;
        }
    }

    /// Tells the other threads how the connection is.
    fn tell(&self) {
        let Some((since, bytes)) = self.accepted else {
            return;
        };
        let is_read =
            self.client.has_acknowledged() || bytes > BUFFERED || since.elapsed() >= LASTING;
        self.shared.inner.lock().state = ConnectionState::Accepted { is_read };
    }

    /// Ends the stream, and waits for the receiver: a connection that is closed at once may lose its last bytes.
    fn finish(mut self) -> Result<(), String> {
        self.client.finish();
        self.flush()?;
        self.stream.end().map_err(|error| describe(&error))?;
        self.deadline = Instant::now() + CLOSING;
        let mut buffer = [0; 1_024];
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
                Err(error) => self.tolerate(&error)?,
            }
        }
        if let Some((_, bytes)) = &mut self.accepted {
            *bytes += u64::try_from(output.len()).unwrap_or_default();
        }
        self.stream.flush().or_else(|error| self.tolerate(&error))
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

    /// Waits on after a write that was interrupted, or that waits for the handshake of TLS.
    fn tolerate(&self, error: &io::Error) -> Result<(), String> {
        match (is_temporary(error), self.accepted) {
            (false, _) => Err(describe(error)),
            (true, Some(_)) if error.kind() != io::ErrorKind::Interrupted => {
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
    use crate::rtmp::TagKind;
    use crate::rtmp::double::{Behaviour, KEY, Receiver, tag};
    use crate::rtmp::eyeballs::tests::Dead;

    /// How long something may take that comes at once.
    const LIMIT: Duration = Duration::from_secs(60);

    fn loopback() -> AddressFilter {
        AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()])
    }

    /// Returns a dialler for whom every name is the address of a receiver.
    fn dialler(
        filter: AddressFilter,
        roots: &[CertificateDer<'static>],
        receiver: &Receiver,
    ) -> Dialler {
        let address = receiver.address;
        Dialler::new(filter, roots)
            .unwrap()
            .with_resolver(move |_, _| Ok(vec![address]))
    }

    fn connect(dialler: Dialler, url: &str) -> Connection {
        let url = RtmpUrl::parse(&format!("{url}/live/{KEY}")).unwrap();
        Connection::start(dialler, Arc::new(Endpoint::from_url(&url))).unwrap()
    }

    /// Waits until a connection is not being made any more.
    #[track_caller]
    fn settled(connection: &Connection) -> ConnectionState {
        let end = Instant::now() + LIMIT;
        loop {
            match connection.state() {
                ConnectionState::Connecting => {
                    assert!(Instant::now() < end, "it is still being made");
                }
                state => return state,
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The settings of a server with a certificate for a name from an authority that nobody knows, and the certificate of the authority.
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
            let receiver = Receiver::start(Behaviour::Takes, tls);
            let mut connection = connect(dialler(loopback(), &root, &receiver), url);
            assert_eq!(
                settled(&connection),
                ConnectionState::Accepted { is_read: false }
            );
            let sent: Vec<_> = (0..100)
                .map(|number| (number * 40, vec![0x27, 1, u8::try_from(number).unwrap()]))
                .collect();
            for (time, body) in &sent {
                assert!(connection.try_send(Arc::new(tag(TagKind::Frame, (9, *time), body))));
            }
            connection.close();
            let end = Instant::now() + LIMIT;
            while !matches!(connection.state(), ConnectionState::Ended(_)) {
                assert!(Instant::now() < end);
                thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(connection.state(), ConnectionState::Ended(String::new()));
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
            let receiver = Receiver::start(Behaviour::Takes, Some(Arc::clone(&tls)));
            let ended = settled(&connect(dialler(loopback(), roots, &receiver), url));
            let ConnectionState::Ended(reason) = ended else {
                panic!("{url}: {ended:?}")
            };
            assert!(reason.contains(expected), "{url}: {reason}");
            assert!(receiver.media.lock().unwrap().is_empty());
        }
    }

    /// Proves S-68.
    #[test]
    fn an_address_that_is_not_public_is_not_dialled_whatever_the_name_was_before() {
        let receiver = Receiver::start(Behaviour::Takes, None);
        let address = receiver.address;
        let mixed = Dialler::new(AddressFilter::default(), &[]).unwrap();
        let mixed = mixed.with_resolver(move |_, _| Ok(vec![([8, 8, 8, 8], 1).into(), address]));
        for dialler in [dialler(AddressFilter::default(), &[], &receiver), mixed] {
            for url in ["rtmp://rebound.example.com", "rtmps://rebound.example.com"] {
                let blocked =
                    ConnectionState::Ended("the receiver has an address that is not public".into());
                assert_eq!(settled(&connect(dialler.clone(), url)), blocked);
            }
        }
        let literal = format!("rtmp://{address}");
        let system = Dialler::new(AddressFilter::default(), &[]).unwrap();
        assert!(matches!(
            settled(&connect(system, &literal)),
            ConnectionState::Ended(_)
        ));
        assert_eq!(receiver.connections.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_receiver_that_refuses_or_does_not_exist_is_told_in_words_without_addresses() {
        let receiver = Receiver::start(Behaviour::Refuses, None);
        let refused = settled(&connect(dialler(loopback(), &[], &receiver), "rtmp://a"));
        let reason = "the receiver refused the stream: NetStream.Publish.BadName";
        assert_eq!(refused, ConnectionState::Ended(reason.into()));
        let nobody = Dialler::new(loopback(), &[])
            .unwrap()
            .with_resolver(|_, _| Ok(vec![([127, 0, 0, 1], 1).into()]));
        let reason = "the receiver refused the connection";
        assert_eq!(
            settled(&connect(nobody, "rtmp://a")),
            ConnectionState::Ended(reason.into())
        );
        let unknown = Dialler::new(loopback(), &[])
            .unwrap()
            .with_resolver(|_, _| Err(io::Error::other("no")));
        let reason = "the name of the receiver is not known";
        assert_eq!(
            settled(&connect(unknown, "rtmp://a")),
            ConnectionState::Ended(reason.into())
        );
    }

    #[test]
    fn a_connection_that_is_dropped_ends_at_once_whatever_it_waits_for() {
        let receiver = Receiver::start(Behaviour::NeverReads, None);
        let connection = connect(dialler(loopback(), &[], &receiver), "rtmp://a");
        settled(&connection);
        let body = vec![0; 60_000];
        while connection.try_send(Arc::new(tag(TagKind::Frame, (9, 0), &body))) {}
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
        let error =
            |roots: &[CertificateDer<'static>]| Dialler::new(AddressFilter::default(), roots).err();
        assert!(error(&[CertificateDer::from(vec![0, 0, 0])]).is_some());
        assert_eq!(error(&encrypted("a").1), None);
    }

    #[test]
    fn a_receiver_whose_first_addresses_do_not_answer_gets_the_stream() {
        let (receiver, dead) = (
            Receiver::start(Behaviour::Takes, None),
            [Dead::start(), Dead::start()],
        );
        let addresses = vec![dead[0].address, dead[1].address, receiver.address];
        let dialler = Dialler::new(loopback(), &[])
            .unwrap()
            .with_resolver(move |_, _| Ok(addresses.clone()));
        let begun = Instant::now();
        let connection = connect(dialler, "rtmp://live.example.com");
        assert_eq!(
            settled(&connection),
            ConnectionState::Accepted { is_read: false }
        );
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    }
}
