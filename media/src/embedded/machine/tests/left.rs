//! What is kept of participants that left.

use super::*;

#[test]
fn a_bounded_number_of_participants_that_left_is_kept() {
    let mut machine = sandbox_machine();
    let first = joined(&mut machine, "alice");
    machine.leave(&first, Departure::Left, NOW).unwrap();
    for _ in 0..999 {
        let sid = joined(&mut machine, "bob");
        machine.leave(&sid, Departure::Left, NOW).unwrap();
    }
    assert!(machine.active_or_left(&first).is_ok());
    let sid = joined(&mut machine, "bob");
    machine.leave(&sid, Departure::Left, NOW).unwrap();
    assert!(machine.active_or_left(&first).is_err() && machine.active_or_left(&sid).is_ok());
}

/// Joins and leaves as often as `times`, each time with what a client may say of itself. Returns the sids.
fn come_and_go(machine: &mut Machine, times: usize, metadata: &str) -> Vec<ParticipantSid> {
    let come_and_go = |_| {
        let sid = join(
            machine,
            Claims {
                metadata: metadata.to_owned(),
                ..claims(&room(), "alice", None)
            },
        );
        machine.leave(&sid, Departure::Left, NOW).unwrap();
        sid
    };
    (0..times).map(come_and_go).collect()
}

/// Proves S-50.
#[test]
fn participants_that_left_are_kept_within_a_bound_of_bytes() {
    let mut machine = sandbox_machine();
    let sids = come_and_go(&mut machine, 40, &"a".repeat(1024 * 1024));
    let kept = sids
        .iter()
        .filter(|sid| machine.active_or_left(sid).is_ok())
        .count();
    assert!((10..=16).contains(&kept), "{kept} MiB");
    assert!(
        machine.active_or_left(sids.last().unwrap()).is_ok(),
        "the last ones"
    );
    assert!(
        come_and_go(&mut machine, 1, &"a".repeat(20 * 1024 * 1024))
            .iter()
            .all(|sid| machine.active_or_left(sid).is_err())
    );
}

/// Proves S-50.
#[test]
fn nothing_is_kept_of_who_left_without_the_sandbox() {
    let mut machine = Machine::default();
    let stays = joined(&mut machine, "bob");
    let message = ServerData {
        data: vec![1],
        topic: None,
        kind: DataKind::Reliable,
        to: Vec::new(),
    };
    machine.send_server_data(message, NOW);
    assert_eq!(inbox(&machine, &stays), []);
    let sids = come_and_go(&mut machine, 3, "");
    assert!(sids.iter().all(|sid| machine.active_or_left(sid).is_err()));
}
