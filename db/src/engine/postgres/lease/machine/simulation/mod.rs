//! Random schedules of several servers on a simulated database: which requests are lost, late or answered twice, which servers are
//! paused, killed or stopped, and when the database hangs. The clocks of the servers run up to a third apart.

mod database;
mod world;

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use self::world::{Fault, World};

/// Milliseconds in which faults happen.
const FAULTS: u64 = 12_000;
/// Milliseconds after the last fault in which some server has to become active.
const RECOVERY: u64 = 25_000;

fn fault() -> impl Strategy<Value = Fault> {
    let server = 0..4_usize;
    prop_oneof![
        4 => (server.clone(), 100..20_000_u64).prop_map(|(server, millis)| Fault::Pause { server, millis }),
        2 => server.clone().prop_map(|server| Fault::Kill { server }),
        2 => server.clone().prop_map(|server| Fault::Stop { server }),
        2 => (100..8_000_u64).prop_map(|millis| Fault::Hang { millis }),
        1 => (100..8_000_u64).prop_map(|millis| Fault::ReadOnly { millis }),
        3 => (server, 0..=100_u32, 100..8_000_u64)
            .prop_map(|(server, percent, millis)| Fault::Lose { server, percent, millis }),
    ]
}

/// Rates of the clocks: milliseconds that pass on each while three seconds pass.
fn clocks() -> impl Strategy<Value = Vec<u64>> {
    vec(
        prop_oneof![Just(3_000), Just(4_000), 3_000..=4_000_u64],
        1..=3,
    )
}

/// The longest time of a request, and of an answer, on the way.
fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![1..=20_u64, 1..=400_u64]
}

/// So many schedules, or `PROPTEST_CASES`: `scripts/nightly` runs 100,000.
fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(usual);
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(5_000))]

    #[test]
    fn no_two_servers_have_an_epoch_none_trusts_itself_beside_another_and_one_becomes_active(
        seed: u64,
        clocks in clocks(),
        delay in delay(),
        faults in vec((0..FAULTS, fault()), 0..8),
    ) {
        let mut world = World::new(seed, &clocks, delay);
        faults.into_iter().for_each(|(at, fault)| world.schedule(at, fault));
        world.run_until(FAULTS);
        world.end_faults();
        world.run_until(FAULTS + RECOVERY);
        prop_assert_eq!(world.problems(), &BTreeSet::new());
        prop_assert!(world.has_trusted_server(), "nobody is active");
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn a_database_that_hangs_or_refuses_writes_deposes_nobody(
        seed: u64,
        clocks in clocks(),
        from in 6_000..9_000_u64,
        millis in 100..60_000_u64,
        hangs: bool,
    ) {
        let mut world = World::new(seed, &clocks, 100);
        world.run_until(6_000);
        let epoch = world.epoch();
        prop_assert!(epoch >= 1 && world.has_trusted_server());
        world.schedule(from, if hangs { Fault::Hang { millis } } else { Fault::ReadOnly { millis } });
        world.run_until(from + millis + RECOVERY);
        prop_assert_eq!(world.problems(), &BTreeSet::new());
        prop_assert!(world.has_trusted_server());
        prop_assert_eq!(world.epoch(), epoch, "another server took over");
    }
}
