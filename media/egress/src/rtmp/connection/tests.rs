use std::sync::atomic::Ordering;

use conclave_model::address::AddressFilter;
use conclave_model::rtmp::RtmpUrl;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;
use crate::flv::TagKind;
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
            ConnectionState::Connecting => assert!(Instant::now() < end, "it is still being made"),
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
