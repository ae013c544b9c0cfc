//! A media worker and its clients in memory, as its unit tests have them.

#![allow(
    dead_code,
    missing_docs,
    reason = "the unit tests use what the targets do not"
)]

#[path = "../../../media/sfu/tests/support/commands.rs"]
pub mod commands;
#[path = "../../../media/sfu/tests/support/network.rs"]
pub mod network;
#[path = "../../../media/sfu/tests/support/connection.rs"]
pub mod support;
#[path = "../../../media/sfu/tests/support/world.rs"]
pub mod world;

use conclave_sfu::ConnectionMode;
use str0m::format::Codec;
use support::Abilities;
use world::{Publication, World};

/// The media workers of a world.
const WORKERS: usize = 1;

/// Two participants: alice speaks to bob.
pub struct Call {
    pub world: World,
    pub bob: usize,
    voice: Publication,
}

impl Call {
    /// Connects both.
    pub fn new() -> Self {
        Self::with_abilities(Abilities {
            red: true,
            ..Abilities::default()
        })
    }

    /// Connects both, and lets all clients have these abilities.
    pub fn with_abilities(abilities: Abilities) -> Self {
        let mut world = World::new();
        world.abilities = abilities;
        let alice = world.join_connected("PA_alice", ConnectionMode::Single);
        let bob = world.join_connected("PA_bob", ConnectionMode::Single);
        let voice = world.publish(alice, "TR_voice", Codec::Opus, &[]);
        world.subscribe(bob, &voice);
        let mut call = Self { world, bob, voice };
        while !call.speak() {}
        call
    }

    /// Lets alice say something; returns whether bob hears it.
    fn speak(&mut self) -> bool {
        self.world.receiver(self.bob).received.clear();
        self.world.send(&mut self.voice, None, &[0x78, 1, 2]);
        let heard = !self.world.received(self.bob, &self.voice).is_empty();
        self.world.run(std::time::Duration::from_millis(10));
        heard
    }

    /// Checks that nothing has happened to alice and bob.
    pub fn assert_audible(&mut self) {
        assert!(
            self.speak(),
            "{:?}",
            self.world
                .clients
                .iter()
                .map(|client| &client.events)
                .collect::<Vec<_>>()
        );
        for client in &mut self.world.clients {
            client.events.clear();
        }
    }
}

impl Default for Call {
    fn default() -> Self {
        Self::new()
    }
}
