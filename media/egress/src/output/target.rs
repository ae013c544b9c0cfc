//! A receiver of a broadcast: one connection, which is made again when it is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::rtmp::RtmpUrl;

use crate::progress::TargetState;
use crate::rtmp::{Connection, ConnectionState, Dialler, Endpoint, Tag, TagKind};

/// The delay before the second attempt; it doubles up to the longest.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// A receiver of a broadcast.
pub struct Target {
    endpoint: Arc<Endpoint>,
    connection: Option<Active>,
    /// The delay before the next attempt, and when that is.
    delay: Duration,
    next_attempt: Instant,
    /// Whether the last connection that it accepted was also read: one that is accepted again and again, and never read, is none.
    is_trusted: bool,
    /// Why the last connection ended.
    pub failure: Option<String>,
}

struct Active {
    connection: Connection,
    state: ConnectionState,
    /// Whether it waits for a key frame to begin with.
    awaits_key_frame: bool,
    /// Whether it was sent the headers.
    has_begun: bool,
}

impl Target {
    pub fn new(url: &RtmpUrl, now: Instant) -> Self {
        Self {
            endpoint: Arc::new(Endpoint::from_url(url)),
            connection: None,
            delay: FIRST_DELAY,
            next_attempt: now,
            is_trusted: true,
            failure: None,
        }
    }

    pub fn state(&self) -> TargetState {
        match &self.connection {
            Some(Active {
                state: ConnectionState::Accepted { .. },
                ..
            }) => TargetState::Connected,
            Some(_) => TargetState::Connecting,
            None => TargetState::Waiting,
        }
    }

    /// Returns whether it has the stream, as far as is known.
    pub fn has_stream(&self) -> bool {
        let state = self.connection.as_ref().map(|active| &active.state);
        matches!(state, Some(ConnectionState::Accepted { is_read }) if *is_read || self.is_trusted)
    }

    /// Connects if it is time, and notices what has become of the connection.
    pub fn look_after(&mut self, dialler: &Dialler, has_video: bool, now: Instant) {
        let Some(active) = &mut self.connection else {
            if now >= self.next_attempt {
                self.connect(dialler, has_video, now);
            }
            return;
        };
        match active.connection.state() {
            ConnectionState::Ended(failure) => self.lose(failure, now),
            state => {
                if state == (ConnectionState::Accepted { is_read: true }) {
                    self.is_trusted = true;
                    self.delay = FIRST_DELAY;
                }
                active.state = state;
            }
        }
    }

    fn connect(&mut self, dialler: &Dialler, awaits_key_frame: bool, now: Instant) {
        match Connection::start(dialler.clone(), Arc::clone(&self.endpoint)) {
            Ok(connection) => {
                let state = ConnectionState::Connecting;
                self.connection = Some(Active {
                    connection,
                    state,
                    awaits_key_frame,
                    has_begun: false,
                });
            }
            Err(error) => self.lose(format!("a thread cannot be started: {error}"), now),
        }
    }

    fn lose(&mut self, failure: String, now: Instant) {
        let lost = self.connection.take().map(|active| active.state);
        if let Some(ConnectionState::Accepted { is_read }) = lost {
            self.is_trusted = is_read;
        }
        self.failure = Some(failure);
        self.next_attempt = now + self.delay;
        self.delay = (self.delay * 2).min(LONGEST_DELAY);
    }

    /// Sends a tag, the headers before the first one, unless there is no connection or it waits for a key frame. A connection that
    /// does not keep up is lost.
    pub fn send(&mut self, tag: &Arc<Tag>, headers: &[Arc<Tag>], now: Instant) {
        let Some(active) = &mut self.connection else {
            return;
        };
        if !matches!(active.state, ConnectionState::Accepted { .. })
            || (tag.kind == TagKind::Header && !active.has_begun)
        {
            return;
        }
        active.awaits_key_frame &= tag.kind != TagKind::KeyFrame;
        if active.awaits_key_frame {
            return;
        }
        let first = if std::mem::replace(&mut active.has_begun, true) {
            &[]
        } else {
            headers
        };
        let connection = &active.connection;
        if !first
            .iter()
            .chain([tag])
            .all(|tag| connection.try_send(Arc::clone(tag)))
        {
            let failure = match connection.state() {
                ConnectionState::Ended(failure) => failure,
                _ => "the receiver does not keep up".into(),
            };
            self.lose(failure, now);
        }
    }

    /// Lets the connection end once what waits has been sent.
    pub fn close(&mut self) {
        self.connection
            .iter_mut()
            .for_each(|active| active.connection.close());
    }

    /// Returns whether the connection has ended.
    pub fn has_ended(&self) -> bool {
        let state = self
            .connection
            .as_ref()
            .map(|active| active.connection.state());
        !matches!(state, Some(ConnectionState::Accepted { .. }))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use conclave_model::address::AddressFilter;

    use super::*;
    use crate::rtmp::double::{Behaviour, KEY, Receiver, tag};

    /// How long something may take that comes at once.
    const LIMIT: Duration = Duration::from_secs(60);

    fn loopback() -> Dialler {
        Dialler::new(
            AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()]),
            &[],
        )
        .unwrap()
    }

    fn target(receiver: &Receiver, now: Instant) -> Target {
        let url = RtmpUrl::parse(&format!("rtmp://{}/live/{KEY}", receiver.address)).unwrap();
        Target::new(&url, now)
    }

    /// Looks after a receiver at this time until it does something.
    #[track_caller]
    fn wait_until(target: &mut Target, now: Instant, expected: TargetState) {
        let end = Instant::now() + LIMIT;
        while target.state() != expected {
            assert!(Instant::now() < end, "{:?}", target.failure);
            thread::sleep(Duration::from_millis(5));
            target.look_after(&loopback(), true, now);
        }
    }

    #[test]
    fn a_receiver_that_accepts_again_and_again_and_never_reads_has_no_stream() {
        for behaviour in [Behaviour::NeverReads, Behaviour::Closes] {
            let (receiver, mut now) = (Receiver::start(behaviour, None), Instant::now());
            let mut target = target(&receiver, now);
            wait_until(&mut target, now, TargetState::Connected);
            assert!(target.has_stream(), "as far as is known");
            for _ in 0..3 {
                let frame = Arc::new(tag(TagKind::KeyFrame, (9, 0), &[0; 60_000]));
                let end = Instant::now() + LIMIT;
                while target.state() == TargetState::Connected {
                    assert!(Instant::now() < end);
                    target.send(&frame, &[], now);
                    target.look_after(&loopback(), true, now);
                }
                now += LONGEST_DELAY;
                wait_until(&mut target, now, TargetState::Connected);
                assert!(!target.has_stream(), "{behaviour:?}");
            }
        }
    }

    #[test]
    fn a_connection_begins_with_the_headers_and_a_key_frame() {
        let (receiver, now) = (Receiver::start(Behaviour::Takes, None), Instant::now());
        let mut target = target(&receiver, now);
        let header = Arc::new(tag(TagKind::Header, (9, 0), &[0x17, 0]));
        let tags = [
            (TagKind::Header, 0, 2),
            (TagKind::Frame, 40, 3),
            (TagKind::KeyFrame, 80, 4),
            (TagKind::Frame, 120, 5),
        ];
        let tags = tags.map(|(kind, time, body)| Arc::new(tag(kind, (9, time), &[body])));
        target.send(&header, &[], now);
        wait_until(&mut target, now, TargetState::Connected);
        tags.iter()
            .for_each(|tag| target.send(tag, &[Arc::clone(&header), Arc::clone(&tags[0])], now));
        target.close();
        let end = Instant::now() + LIMIT;
        while !target.has_ended() {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(5));
        }
        let expected = [
            (0, vec![0x17, 0]),
            (0, vec![2]),
            (0, vec![4]),
            (40, vec![5]),
        ];
        assert_eq!(*receiver.media.lock().unwrap(), expected);
    }

    #[test]
    fn attempts_have_growing_delays() {
        let url = RtmpUrl::parse(&format!("rtmp://127.0.0.1:1/live/{KEY}")).unwrap();
        let mut now = Instant::now();
        let mut target = Target::new(&url, now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            target.look_after(&loopback(), true, now);
            assert_eq!(target.state(), TargetState::Connecting);
            wait_until(&mut target, now, TargetState::Waiting);
            now += Duration::from_secs(seconds);
            target.look_after(&loopback(), true, now - Duration::from_millis(1));
            assert_eq!(target.state(), TargetState::Waiting);
        }
    }
}
