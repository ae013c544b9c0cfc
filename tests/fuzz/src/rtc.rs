//! A media worker and its clients in memory, as in its unit tests.

#![allow(
    dead_code,
    missing_docs,
    reason = "the unit tests use what the targets do not"
)]

#[path = "../../../media/sfu/tests/support/commands.rs"]
pub mod commands;
#[path = "../../../media/sfu/tests/support/fixture.rs"]
pub mod fixture;
#[path = "../../../media/sfu/tests/support/network.rs"]
pub mod network;
#[path = "../../../media/sfu/tests/support/connection.rs"]
pub mod support;

use conclave_sfu::ConnectionMode;
use fixture::{Fixture, Publication};
use str0m::format::Codec;
use support::Abilities;

/// Number of media workers.
const WORKERS: usize = 1;

/// Two participants: alice speaks to bob.
pub struct Call {
    pub fixture: Fixture,
    pub bob: usize,
    voice: Publication,
}

impl Call {
    /// Connects both participants.
    pub fn new() -> Self {
        Self::with_abilities(Abilities {
            red: true,
            ..Abilities::default()
        })
    }

    /// Connects both participants, with these abilities for all clients.
    pub fn with_abilities(abilities: Abilities) -> Self {
        let mut fixture = Fixture::new();
        fixture.abilities = abilities;
        let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
        let bob = fixture.join_connected("PA_bob", ConnectionMode::Single);
        let voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &voice);
        let mut call = Self {
            fixture,
            bob,
            voice,
        };
        while !call.speak() {}
        call
    }

    /// Sends audio from alice; returns whether bob receives it.
    fn speak(&mut self) -> bool {
        self.fixture.receiver(self.bob).received.clear();
        self.fixture.send(&mut self.voice, None, &[0x78, 1, 2]);
        let heard = !self.fixture.received(self.bob, &self.voice).is_empty();
        self.fixture.run(std::time::Duration::from_millis(10));
        heard
    }

    /// Checks that alice and bob are still connected and hear each other.
    pub fn assert_audible(&mut self) {
        assert!(
            self.speak(),
            "{:?}",
            self.fixture
                .clients
                .iter()
                .map(|client| &client.events)
                .collect::<Vec<_>>()
        );
        for client in &mut self.fixture.clients {
            client.events.clear();
        }
    }
}

impl Default for Call {
    fn default() -> Self {
        Self::new()
    }
}
