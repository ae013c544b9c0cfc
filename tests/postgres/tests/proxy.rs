//! The proxy's effects on connections.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use test_postgres::{Cut, Proxy};

/// Starts a server that echoes each byte and reports it on the channel.
fn start_echo() -> (SocketAddr, Receiver<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (read, reads) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            let read = read.clone();
            thread::spawn(move || {
                let mut byte = [0];
                // Reported first, so that the bytes of two connections have the order in which they were sent.
                while stream.read_exact(&mut byte).is_ok() {
                    read.send(byte[0]).unwrap();
                    if stream.write_all(&byte).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, reads)
}

/// Sends a text and reads a response of the same length.
fn ask(connection: &mut TcpStream, text: &str) -> io::Result<String> {
    connection.write_all(text.as_bytes())?;
    let mut answer = vec![0; text.len()];
    connection.read_exact(&mut answer)?;
    Ok(String::from_utf8(answer).unwrap())
}

/// Like [`ask`], on a new connection.
fn ask_anew(proxy: &Proxy, text: &str) -> io::Result<String> {
    ask(&mut TcpStream::connect(proxy.address())?, text)
}

fn start() -> (Proxy, TcpStream, Receiver<u8>) {
    let (server, reads) = start_echo();
    let proxy = Proxy::start(server);
    let mut connection = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(ask(&mut connection, "a").unwrap(), "a");
    assert_eq!(reads.recv().unwrap(), b'a');
    (proxy, connection, reads)
}

#[test]
fn a_delay_is_that_of_a_round_trip_and_holds_all_bytes_equally_long() {
    let (proxy, mut connection, _reads) = start();
    let delay = Duration::from_millis(40);
    proxy.delay(delay);
    let started = Instant::now();
    assert_eq!(ask(&mut connection, "b").unwrap(), "b");
    assert!(started.elapsed() >= delay, "{:?}", started.elapsed());
    assert_eq!(
        ask(&mut connection, &"c".repeat(1_000_000)).unwrap().len(),
        1_000_000
    );
}

#[test]
fn a_stalled_connection_goes_on_where_it_was() {
    let (proxy, mut connection, reads) = start();
    proxy.stall();
    connection.write_all(b"b").unwrap();
    let mut late = TcpStream::connect(proxy.address()).unwrap();
    late.write_all(b"c").unwrap();
    connection
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    connection.read_exact(&mut [0]).expect_err("nothing passes");
    assert!(reads.try_recv().is_err());
    proxy.resume();
    connection.set_read_timeout(None).unwrap();
    connection.read_exact(&mut [0]).unwrap();
    late.read_exact(&mut [0]).unwrap();
}

#[test]
fn connections_that_were_cut_end_and_new_ones_pass() {
    let (proxy, mut connection, _reads) = start();
    proxy.cut();
    ask(&mut connection, "b").expect_err("the connection has ended");
    let mut next = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(ask(&mut next, "c").unwrap(), "c");
    proxy.refuse();
    ask(&mut next, "d").expect_err("the connection has ended");
    ask_anew(&proxy, "e").expect_err("the connection has ended");
    proxy.accept();
    assert_eq!(ask_anew(&proxy, "f").unwrap(), "f");
}

#[test]
fn a_connection_is_cut_before_or_after_the_server_gets_some_bytes() {
    let (proxy, mut connection, reads) = start();
    proxy.cut_at("COMMIT", Cut::BeforeTheServer);
    assert_eq!(ask(&mut connection, "b").unwrap(), "b");
    assert!(proxy.waits_to_cut());
    ask(&mut connection, "COMMIT").expect_err("the connection has ended");
    assert!(!proxy.waits_to_cut());
    proxy.cut_at("COMMIT", Cut::AfterTheServer);
    let mut next = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(ask(&mut next, "d").unwrap(), "d");
    ask(&mut next, "COMMIT").expect_err("no answer");
    let read: Vec<_> = (0..2 + "COMMIT".len())
        .map(|_| reads.recv().unwrap())
        .collect();
    assert_eq!(String::from_utf8(read).unwrap(), "bdCOMMIT");
}

#[test]
fn a_connection_that_is_cut_after_the_server_ends_when_the_server_has_ended_its_side() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap());
    let mut connection = TcpStream::connect(proxy.address()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    proxy.cut_at("COMMIT", Cut::AfterTheServer);
    connection.write_all(b"COMMIT").unwrap();
    let mut read = [0; "COMMIT".len()];
    server.read_exact(&mut read).unwrap();
    server.write_all(&read).unwrap();
    connection
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let waiting = connection
        .read(&mut read)
        .expect_err("the server is not done")
        .kind();
    assert!(
        matches!(waiting, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
            && proxy.waits_to_cut()
    );
    drop(server);
    connection.set_read_timeout(None).unwrap();
    assert!(matches!(connection.read(&mut read), Ok(0) | Err(_)));
    assert!(!proxy.waits_to_cut());
}

#[test]
fn connections_that_are_there_go_on_while_new_ones_are_refused() {
    let (proxy, mut connection, _reads) = start();
    proxy.refuse_new();
    assert_eq!(ask(&mut connection, "b").unwrap(), "b");
    ask_anew(&proxy, "c").expect_err("the connection has ended");
}

#[test]
fn new_connections_lead_to_the_server_that_was_named_last() {
    let (proxy, mut connection, reads) = start();
    let (other, reads_of_other) = start_echo();
    proxy.lead_to(other);
    assert_eq!(ask_anew(&proxy, "b").unwrap(), "b");
    assert_eq!(ask(&mut connection, "c").unwrap(), "c");
    assert_eq!(
        (reads_of_other.recv().unwrap(), reads.recv().unwrap()),
        (b'b', b'c')
    );
}
