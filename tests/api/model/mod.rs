//! Random sequences of calls against the app and against a small model of the contract. A difference fails the test, and proptest shrinks
//! the sequence to a minimal scenario.
//!
//! [`reference`] is the model: rooms, participants, sessions, codes and events as the contract describes them, in memory and without
//! concurrency. [`driver`] makes the same calls to the app and compares every response, and all records after each.

mod driver;
mod reference;

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRng, TestRunner};

use self::driver::Driver;
use self::reference::Call;

/// Number of sequences per run.
const SEQUENCES: u32 = 20;
/// Maximum length.
const CALLS: usize = 60;
/// Number of sequences that show that the generator covers the compared behaviour. Only the model runs them, so there may be many.
const SAMPLE: u32 = 1000;

/// Creates a runner with a fixed seed, for tests about the search itself: they must not depend on chance.
fn repeatable(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(config.rng_algorithm);
    TestRunner::new_with_rng(config, random)
}

/// Generates calls with few rooms and participants, so that they interact. A room exists from the start: without one most calls are 404.
fn calls() -> impl Strategy<Value = Vec<Call>> {
    let (room, person) = (0..2_usize, 0..3_usize);
    let role = prop_oneof![Just("host"), Just("speaker")];
    let in_room = (room.clone(), person.clone());
    let call = prop_oneof![
        3 => (room.clone(), prop_oneof![Just(0_u32), Just(5), Just(60)], 0..3_u32)
            .prop_map(|(room, empty_timeout, max_participants)| Call::CreateRoom { room, empty_timeout, max_participants }),
        1 => room.clone().prop_map(|room| Call::EndRoom { room }),
        12 => (in_room.clone(), role.clone()).prop_map(|((room, person), role)| Call::Join { room, person, role }),
        4 => (in_room.clone(), any::<bool>()).prop_map(|((room, person), clean)| Call::Leave { room, person, clean }),
        3 => in_room.clone().prop_map(|(room, person)| Call::Remove { room, person }),
        3 => (in_room, role.clone()).prop_map(|((room, person), role)| Call::ChangeRole { room, person, role }),
        3 => (room, role, prop_oneof![Just(None), Just(Some(1_u32)), Just(Some(2))])
            .prop_map(|(room, role, max_uses)| Call::CreateCode { room, role, max_uses }),
        5 => (0..2_usize, person).prop_map(|(code, person)| Call::Exchange { code, person }),
        1 => (0..2_usize).prop_map(|code| Call::DisableCode { code }),
        2 => prop_oneof![Just(1_u32), Just(5), Just(61), Just(301)].prop_map(|seconds| Call::Advance { seconds }),
        1 => Just(Call::Restart),
    ];
    let first = Call::CreateRoom {
        room: 0,
        empty_timeout: 5,
        max_participants: 0,
    };
    prop::collection::vec(call, 1..CALLS).prop_map(move |calls| [vec![first], calls].concat())
}

/// Proves R-28.
#[test]
fn the_app_does_what_the_model_of_the_contract_does() {
    let config = Config {
        cases: SEQUENCES,
        max_shrink_iters: 60,
        failure_persistence: None,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&calls(), |calls| {
        Driver::start().run(&calls).map_err(TestCaseError::fail)
    });
    result.unwrap_or_else(|difference| panic!("{difference}"));
}

#[test]
fn the_sequences_reach_each_outcome_that_is_to_be_compared() {
    let seen = RefCell::new(BTreeSet::new());
    let apply = |calls: Vec<Call>| {
        let mut model = reference::Model::default();
        for call in &calls {
            let verb = format!("{call:?}")
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_owned();
            seen.borrow_mut()
                .insert(format!("{verb} {}", model.apply(call).status));
        }
        Ok(())
    };
    repeatable(SAMPLE).run(&calls(), apply).unwrap();
    for outcome in [
        "Join 201",
        "Join 409",
        "Leave 204",
        "Remove 204",
        "ChangeRole 200",
        "Exchange 201",
        "Exchange 404",
    ] {
        assert!(seen.borrow().contains(outcome), "no {outcome} in {seen:?}");
    }
}

#[test]
fn a_model_that_is_wrong_is_found_with_a_short_story() {
    let wrong = |calls: Vec<Call>| {
        let mut model = reference::Model::default();
        let ended = calls.iter().any(|call| model.apply(call).status == 409);
        if ended {
            Err(TestCaseError::fail("a refusal"))
        } else {
            Ok(())
        }
    };
    let found = repeatable(200).run(&calls(), wrong).unwrap_err();
    let proptest::test_runner::TestError::Fail(_, story) = found else {
        panic!("{found}")
    };
    assert!(story.len() <= 4, "{story:?}");
}
