//! Single steps of the lease.

use uuid::Uuid;

use super::*;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn candidate(holder: u128) -> Candidate {
    let keys = KeyIds {
        encryption: vec!["e".into()],
        media: "m".into(),
    };
    Candidate {
        holder: Holder(Uuid::from_u128(holder)),
        predecessor: None,
        keys,
        schema: 1,
    }
}

fn lease() -> LeaseMachine {
    LeaseMachine::new(LeaseTiming::default(), candidate(1))
}

fn row(epoch: i64, number: i64, holder: Option<u128>) -> LeaseRow {
    LeaseRow {
        beat: Beat { epoch, number },
        holder: holder.map(|holder| Holder(Uuid::from_u128(holder))),
        url: "https://other.example.org".into(),
        encryption_key_id: "e".into(),
        media_key_id: "m".into(),
        schema: 1,
        is_read_only: false,
    }
}

/// Makes the next request, which has to be `expected`.
fn make(lease: &mut LeaseMachine, now: Duration, expected: Request) -> RequestNumber {
    match lease.step(now) {
        LeaseStep::Make(number, request, _) if request == expected => number,
        other => panic!("{other:?} instead of {expected:?}"),
    }
}

fn answer_read(lease: &mut LeaseMachine, now: Duration, row: LeaseRow) {
    let number = make(lease, now, Request::Read);
    lease.answered(number, LeaseReply::Row(row), now);
}

fn active(now: Duration) -> LeaseMachine {
    let mut lease = lease();
    answer_read(&mut lease, now, row(4, 9, None));
    let claim = make(
        &mut lease,
        now,
        Request::Claim {
            seen: Beat {
                epoch: 4,
                number: 9,
            },
        },
    );
    lease.answered(claim, LeaseReply::Done, now);
    lease
}

#[test]
fn the_lease_of_a_process_that_has_ended_is_taken_at_once_and_no_other() {
    let predecessor = Some(Holder(Uuid::from_u128(7)));
    for (holder, is_taken) in [(7, true), (8, false)] {
        let candidate = Candidate {
            predecessor,
            ..candidate(1)
        };
        let mut lease = LeaseMachine::new(LeaseTiming::default(), candidate);
        answer_read(&mut lease, seconds(1.), row(4, 9, Some(holder)));
        let claims = matches!(
            lease.step(seconds(1.)),
            LeaseStep::Make(_, Request::Claim { .. }, _)
        );
        assert_eq!(claims, is_taken, "holder {holder}");
    }
}

#[test]
fn a_released_lease_is_taken_at_once_and_renewed_each_second() {
    let mut lease = active(seconds(1.));
    assert_eq!(
        lease.standing(),
        Standing::Active {
            epoch: 5,
            trusted_until: Some(seconds(4.))
        }
    );
    assert_eq!(lease.step(seconds(1.5)), LeaseStep::WaitUntil(seconds(2.)));
    let renewal = make(&mut lease, seconds(2.), Request::Renew { epoch: 5 });
    assert_eq!(lease.step(seconds(2.)), LeaseStep::AwaitReply);
    lease.answered(renewal, LeaseReply::Done, seconds(3.5));
    assert_eq!(
        lease.standing(),
        Standing::Active {
            epoch: 5,
            trusted_until: Some(seconds(5.))
        },
        "from its sending"
    );
    make(&mut lease, seconds(3.5), Request::Renew { epoch: 5 });
}

#[test]
fn a_silent_server_is_replaced_after_four_seconds_and_one_that_renews_is_not() {
    let mut lease = lease();
    for half in 0..20 {
        answer_read(
            &mut lease,
            seconds(f64::from(half) / 2.),
            row(4, i64::from(half / 2), Some(2)),
        );
    }
    for half in 20..27 {
        answer_read(
            &mut lease,
            seconds(f64::from(half) / 2.),
            row(4, 9, Some(2)),
        );
    }
    // The last renewal was seen at the ninth second.
    make(
        &mut lease,
        seconds(13.),
        Request::Claim {
            seen: Beat {
                epoch: 4,
                number: 9,
            },
        },
    );
}

#[test]
fn an_answer_that_is_late_or_comes_twice_changes_nothing() {
    let mut lease = active(seconds(0.));
    let first = make(&mut lease, seconds(1.), Request::Renew { epoch: 5 });
    lease.answered(first, LeaseReply::Failed, seconds(3.));
    let standing = lease.standing();
    lease.answered(first, LeaseReply::Done, seconds(3.1));
    lease.answered(first, LeaseReply::Refused, seconds(3.1));
    assert_eq!(lease.standing(), standing);
    assert_eq!(
        lease.step(seconds(3.1)),
        LeaseStep::WaitUntil(seconds(3.25))
    );
    make(&mut lease, seconds(3.25), Request::Renew { epoch: 5 });
}

#[test]
fn a_claim_whose_answer_was_lost_is_found_by_the_next_read_and_trusted_after_a_renewal() {
    let mut lease = lease();
    answer_read(&mut lease, seconds(0.), row(4, 9, None));
    let claim = make(
        &mut lease,
        seconds(0.),
        Request::Claim {
            seen: Beat {
                epoch: 4,
                number: 9,
            },
        },
    );
    lease.answered(claim, LeaseReply::Failed, seconds(10.));
    answer_read(&mut lease, seconds(10.25), row(5, 0, Some(1)));
    assert_eq!(
        lease.standing(),
        Standing::Active {
            epoch: 5,
            trusted_until: None
        }
    );
    let renewal = make(&mut lease, seconds(10.25), Request::Renew { epoch: 5 });
    lease.answered(renewal, LeaseReply::Done, seconds(10.3));
    assert_eq!(
        lease.standing(),
        Standing::Active {
            epoch: 5,
            trusted_until: Some(seconds(13.25))
        }
    );
}

#[test]
fn a_standby_that_comes_second_waits_again() {
    let mut lease = lease();
    answer_read(&mut lease, seconds(0.), row(4, 9, None));
    let claim = make(
        &mut lease,
        seconds(0.),
        Request::Claim {
            seen: Beat {
                epoch: 4,
                number: 9,
            },
        },
    );
    lease.answered(claim, LeaseReply::Refused, seconds(0.1));
    answer_read(&mut lease, seconds(0.1), row(5, 0, Some(2)));
    assert_eq!(lease.standing(), Standing::Standby { obstacle: None });
    assert_eq!(lease.step(seconds(0.1)), LeaseStep::WaitUntil(seconds(0.6)));
}

#[test]
fn a_renewal_that_finds_another_epoch_ends_it() {
    let mut lease = active(seconds(0.));
    let renewal = make(&mut lease, seconds(1.), Request::Renew { epoch: 5 });
    lease.answered(renewal, LeaseReply::Refused, seconds(1.));
    assert_eq!(lease.standing(), Standing::Lost { epoch: 5 });
    assert_eq!(lease.step(seconds(9.)), LeaseStep::End);
}

#[test]
fn a_database_that_does_not_answer_leaves_the_server_active_and_untrusted() {
    let mut lease = active(seconds(0.));
    for second in 1..20 {
        let renewal = make(
            &mut lease,
            seconds(f64::from(second)),
            Request::Renew { epoch: 5 },
        );
        lease.answered(
            renewal,
            LeaseReply::Failed,
            seconds(f64::from(second) + 0.5),
        );
    }
    assert_eq!(
        lease.standing(),
        Standing::Active {
            epoch: 5,
            trusted_until: Some(seconds(3.))
        }
    );
}

#[test]
fn a_standby_whose_claim_was_refused_counts_anew() {
    let mut lease = lease();
    let silent = |half: u32| (seconds(f64::from(half) / 2.), row(4, 9, Some(2)));
    for half in 0..9 {
        let (now, row) = silent(half);
        answer_read(&mut lease, now, row);
    }
    let claim = Request::Claim {
        seen: Beat {
            epoch: 4,
            number: 9,
        },
    };
    let refused = make(&mut lease, seconds(4.), claim);
    lease.answered(refused, LeaseReply::Failed, seconds(4.));
    for half in 9..16 {
        let (now, row) = silent(half);
        answer_read(&mut lease, now, row);
        assert!(
            !matches!(lease.step(now), LeaseStep::Make(..)),
            "after {now:?}"
        );
    }
    let (now, row) = silent(16);
    answer_read(&mut lease, now, row);
    make(&mut lease, now, claim);
}

#[test]
fn a_standby_counts_no_silence_while_the_database_refuses_writes() {
    let mut lease = lease();
    for half in 0..40 {
        let now = seconds(f64::from(half) / 2.);
        let refusing = LeaseRow {
            is_read_only: true,
            ..row(4, 9, Some(2).filter(|_| half < 20))
        };
        answer_read(&mut lease, now, refusing);
        assert!(
            !matches!(lease.step(now), LeaseStep::Make(..)),
            "after {now:?}"
        );
        if half % 6 == 0 {
            lease.write_refused();
        }
    }
    for half in 40..47 {
        let now = seconds(f64::from(half) / 2.);
        answer_read(&mut lease, now, row(4, 9, Some(2)));
        assert!(
            !matches!(lease.step(now), LeaseStep::Make(..)),
            "after {now:?}"
        );
    }
}

#[test]
fn a_stop_releases_the_lease_and_trusts_no_more_and_a_standby_ends_at_once() {
    let mut lease = active(seconds(0.));
    lease.stop();
    let release = make(&mut lease, seconds(0.1), Request::Release { epoch: 5 });
    assert_eq!(
        lease.standing(),
        Standing::Active {
            epoch: 5,
            trusted_until: None
        }
    );
    lease.answered(release, LeaseReply::Failed, seconds(0.2));
    assert_eq!(
        (lease.standing(), lease.step(seconds(0.2))),
        (Standing::Released, LeaseStep::End)
    );

    let mut standby = self::lease();
    standby.stop();
    assert_eq!(
        (standby.step(seconds(0.)), standby.standing()),
        (LeaseStep::End, Standing::Released)
    );
}

#[test]
fn a_server_that_is_stopped_while_it_claims_releases_what_it_got() {
    let mut lease = lease();
    answer_read(&mut lease, seconds(0.), row(4, 9, None));
    let claim = make(
        &mut lease,
        seconds(0.),
        Request::Claim {
            seen: Beat {
                epoch: 4,
                number: 9,
            },
        },
    );
    lease.stop();
    lease.answered(claim, LeaseReply::Done, seconds(0.1));
    make(&mut lease, seconds(0.1), Request::Release { epoch: 5 });
}

#[test]
fn a_server_with_other_keys_or_an_older_schema_waits_for_ever_and_says_why() {
    let with = |change: fn(&mut LeaseRow)| {
        let mut row = row(4, 9, None);
        change(&mut row);
        row
    };
    let obstacles = [
        (
            with(|row| row.encryption_key_id = "f".into()),
            Obstacle::WrongKey(WrongKey::Encryption),
        ),
        (
            with(|row| row.media_key_id = "n".into()),
            Obstacle::WrongKey(WrongKey::Media),
        ),
        (with(|row| row.schema = 2), Obstacle::NewerSchema),
    ];
    for (row, obstacle) in obstacles {
        let mut lease = lease();
        for half in 0..40 {
            answer_read(&mut lease, seconds(f64::from(half) / 2.), row.clone());
            assert_eq!(
                lease.standing(),
                Standing::Standby {
                    obstacle: Some(obstacle)
                }
            );
        }
    }
}

#[test]
fn a_server_that_gets_the_right_keys_takes_over_without_a_restart() {
    let mut lease = lease();
    let rotated = LeaseRow {
        encryption_key_id: "f".into(),
        ..row(4, 9, None)
    };
    answer_read(&mut lease, seconds(0.), rotated.clone());
    lease.set_keys(KeyIds {
        encryption: vec!["f".into()],
        media: "m".into(),
    });
    answer_read(&mut lease, seconds(0.5), rotated);
    make(
        &mut lease,
        seconds(0.5),
        Request::Claim {
            seen: Beat {
                epoch: 4,
                number: 9,
            },
        },
    );
}
