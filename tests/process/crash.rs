//! A short run of the crash test; `scripts/check crash` makes a long one.

use std::time::Duration;

use crash_test::{Engine, Options, run};

/// Proves R-1.
#[test]
fn nothing_acknowledged_is_lost_at_a_kill_and_all_events_arrive() {
    let options = Options {
        binary: env!("CARGO_BIN_EXE_conclave").into(),
        engine: Engine::chosen(),
        kills: 6,
        clients: 4,
        uptime: (Duration::from_millis(50), Duration::from_millis(700)),
        least_acknowledged: 30,
        seed: 11,
    };
    let report = run(&options, |_| {});
    assert!(report.violations.is_empty(), "{report:#?}");
    // The run covered its purpose.
    assert!(
        report.acknowledged > 100 && report.unanswered > 0 && report.sessions > 10,
        "{report:#?}"
    );
    let beyond_the_contract = [
        "PutBan",
        "LiftBan",
        "Revoke",
        "Erase",
        "DisableCode",
        "ReadEvents",
    ];
    let acknowledged = beyond_the_contract
        .iter()
        .filter_map(|action| report.actions.get(*action));
    assert!(acknowledged.sum::<usize>() > 0, "{report:#?}");
}
