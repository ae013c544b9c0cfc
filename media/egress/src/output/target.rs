//! Broadcast receiver: one connection, which is re-established when it is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::rtmp::RtmpUrl;

use crate::progress::TargetState;
use crate::rtmp::{
    FlvTag, FlvTagKind, RtmpConnection, RtmpConnectionState, RtmpDialler, RtmpEndpoint,
};

/// Delay before the second attempt, doubled for each further one.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Broadcast receiver.
pub struct BroadcastTarget {
    endpoint: Arc<RtmpEndpoint>,
    connection: Option<TargetConnection>,
    /// Delay before the attempt after the next one.
    delay: Duration,
    next_attempt: Instant,
    /// Whether the receiver read the last connection that it accepted. A receiver that accepts
    /// again and again and never reads counts as absent.
    was_read: bool,
    /// Reason why the last connection ended.
    pub failure: Option<String>,
}

struct TargetConnection {
    connection: RtmpConnection,
    state: RtmpConnectionState,
    /// Whether tags are skipped until a key frame.
    awaits_key_frame: bool,
    /// Whether the headers were sent.
    has_headers: bool,
}

impl BroadcastTarget {
    pub fn new(url: &RtmpUrl, now: Instant) -> Self {
        Self {
            endpoint: Arc::new(RtmpEndpoint::from_url(url)),
            connection: None,
            delay: FIRST_DELAY,
            next_attempt: now,
            was_read: true,
            failure: None,
        }
    }

    pub fn state(&self) -> TargetState {
        match &self.connection {
            Some(TargetConnection {
                state: RtmpConnectionState::Accepted { .. },
                ..
            }) => TargetState::Connected,
            Some(_) => TargetState::Connecting,
            None => TargetState::Waiting,
        }
    }

    /// Returns whether the receiver has the stream, as far as is known.
    pub fn has_stream(&self) -> bool {
        let state = self.connection.as_ref().map(|active| &active.state);
        // Until shown otherwise, a receiver that accepts the stream counts as reading.
        matches!(state, Some(RtmpConnectionState::Accepted { is_read }) if *is_read || self.was_read)
    }

    /// Connects if an attempt is due, and otherwise updates the connection's state.
    pub fn poll(&mut self, dialler: &RtmpDialler, has_video: bool, now: Instant) {
        let Some(active) = &mut self.connection else {
            if now >= self.next_attempt {
                self.connect(dialler, has_video, now);
            }
            return;
        };
        match active.connection.state() {
            RtmpConnectionState::Ended(failure) => self.disconnect(failure, now),
            state => {
                if state == (RtmpConnectionState::Accepted { is_read: true }) {
                    // Only now: a receiver that accepts and closes at once must not be dialled each
                    // second.
                    self.was_read = true;
                    self.delay = FIRST_DELAY;
                }
                active.state = state;
            }
        }
    }

    fn connect(&mut self, dialler: &RtmpDialler, awaits_key_frame: bool, now: Instant) {
        match RtmpConnection::start(dialler.clone(), Arc::clone(&self.endpoint)) {
            Ok(connection) => {
                let state = RtmpConnectionState::Connecting;
                self.connection = Some(TargetConnection {
                    connection,
                    state,
                    awaits_key_frame,
                    has_headers: false,
                });
            }
            Err(error) => self.disconnect(format!("a thread cannot be started: {error}"), now),
        }
    }

    fn disconnect(&mut self, failure: String, now: Instant) {
        let lost = self.connection.take().map(|active| active.state);
        if let Some(RtmpConnectionState::Accepted { is_read }) = lost {
            // Only an accepted connection shows whether the receiver reads.
            self.was_read = is_read;
        }
        self.failure = Some(failure);
        self.next_attempt = now + self.delay;
        self.delay = (self.delay * 2).min(MAX_DELAY);
    }

    /// Sends a tag, preceded by the headers on a new connection. Tags are skipped without a
    /// connection or while it waits for a key frame. A connection whose queue is full is closed.
    pub fn send(&mut self, tag: &Arc<FlvTag>, headers: &[Arc<FlvTag>], now: Instant) {
        let Some(active) = &mut self.connection else {
            return;
        };
        if !matches!(active.state, RtmpConnectionState::Accepted { .. })
            // The first media tag brings all headers along, including this one.
            || (tag.kind == FlvTagKind::Header && !active.has_headers)
        {
            return;
        }
        active.awaits_key_frame &= tag.kind != FlvTagKind::KeyFrame;
        if active.awaits_key_frame {
            return;
        }
        let first = if std::mem::replace(&mut active.has_headers, true) {
            &[]
        } else {
            headers
        };
        let connection = &active.connection;
        if !first
            .iter()
            .chain([tag])
            // One tag that does not fit ends the connection: a stream must not have gaps.
            .all(|tag| connection.try_send(Arc::clone(tag)))
        {
            let failure = match connection.state() {
                RtmpConnectionState::Ended(failure) => failure,
                // The queue is full. The tags in it are stale by then, so a new connection serves
                // the viewers better.
                _ => "the receiver does not keep up".into(),
            };
            self.disconnect(failure, now);
        }
    }

    /// Closes the connection once all queued tags are sent.
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
        !matches!(state, Some(RtmpConnectionState::Accepted { .. }))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use conclave_model::address::AddressFilter;

    use super::*;
    use crate::rtmp::double::{Behaviour, KEY, Receiver, tag};

    /// Bound for events that happen at once.
    const LIMIT: Duration = Duration::from_secs(60);

    fn loopback() -> RtmpDialler {
        RtmpDialler::new(
            AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()]),
            &[],
        )
        .unwrap()
    }

    fn target(receiver: &Receiver, now: Instant) -> BroadcastTarget {
        let url = RtmpUrl::parse(&format!("rtmp://{}/live/{KEY}", receiver.address)).unwrap();
        BroadcastTarget::new(&url, now)
    }

    /// Polls the target at this time until it reaches a state.
    #[track_caller]
    fn wait_until(target: &mut BroadcastTarget, now: Instant, expected: TargetState) {
        let end = Instant::now() + LIMIT;
        while target.state() != expected {
            assert!(Instant::now() < end, "{:?}", target.failure);
            thread::sleep(Duration::from_millis(5));
            target.poll(&loopback(), true, now);
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
                let frame = Arc::new(tag(FlvTagKind::KeyFrame, (9, 0), &[0; 60_000]));
                let end = Instant::now() + LIMIT;
                while target.state() == TargetState::Connected {
                    assert!(Instant::now() < end);
                    target.send(&frame, &[], now);
                    target.poll(&loopback(), true, now);
                }
                now += MAX_DELAY;
                wait_until(&mut target, now, TargetState::Connected);
                assert!(!target.has_stream(), "{behaviour:?}");
            }
        }
    }

    #[test]
    fn a_connection_starts_with_the_headers_and_a_key_frame() {
        let (receiver, now) = (Receiver::start(Behaviour::Accepts, None), Instant::now());
        let mut target = target(&receiver, now);
        let header = Arc::new(tag(FlvTagKind::Header, (9, 0), &[0x17, 0]));
        let tags = [
            (FlvTagKind::Header, 0, 2),
            (FlvTagKind::InterFrame, 40, 3),
            (FlvTagKind::KeyFrame, 80, 4),
            (FlvTagKind::InterFrame, 120, 5),
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
        let mut target = BroadcastTarget::new(&url, now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            target.poll(&loopback(), true, now);
            assert_eq!(target.state(), TargetState::Connecting);
            wait_until(&mut target, now, TargetState::Waiting);
            now += Duration::from_secs(seconds);
            target.poll(&loopback(), true, now - Duration::from_millis(1));
            assert_eq!(target.state(), TargetState::Waiting);
        }
    }
}
