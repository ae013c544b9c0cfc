//! A call between WebRTC clients, which continues during the test.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../api/webrtc/client.rs"]
mod client;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../media/sfu/tests/support/connection.rs"]
mod connection;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../media/sfu/tests/support/socket.rs"]
mod socket;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use str0m::media::MediaKind;

use crate::support::eventually;
use client::Client;

/// Two clients; the second receives the first one's audio. They leave when the value is dropped.
pub struct Call {
    packets: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    clients: Option<JoinHandle<()>>,
}

impl Call {
    /// Joins with these tokens. Returns once packets arrive.
    pub fn start(api: &str, tokens: [String; 2]) -> Self {
        let (packets, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (api, count, end) = (api.to_owned(), Arc::clone(&packets), Arc::clone(&is_over));
        let clients = thread::spawn(move || {
            let [mut speaker, mut listener] =
                tokens.map(|token| Client::join(&api, &token).unwrap());
            speaker.announce(MediaKind::Audio);
            while !end.load(Ordering::Relaxed) {
                speaker.drive();
                listener.drive();
                count.store(
                    listener.transport.connection.received.len(),
                    Ordering::Relaxed,
                );
            }
            for mut client in [speaker, listener] {
                client.leave();
                while !client.is_closed {
                    client.drive();
                }
            }
        });
        let call = Self {
            packets,
            is_over,
            clients: Some(clients),
        };
        eventually(|| call.packets() > 0);
        call
    }

    /// Returns the number of packets that the second client has received.
    pub fn packets(&self) -> usize {
        self.packets.load(Ordering::Relaxed)
    }

    /// Waits until this many more have arrived, calling `meanwhile` repeatedly.
    pub fn wait_for(&self, packets: usize, mut meanwhile: impl FnMut()) {
        let until = self.packets() + packets;
        while self.packets() < until {
            let before = self.packets();
            meanwhile();
            eventually(|| self.packets() > before);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let clients = self.clients.take().map(JoinHandle::join);
        if !thread::panicking() {
            clients.expect("a thread").expect("the clients leave");
        }
    }
}
