//! A project's usage by day and by month, and the deductions from its balance for past months.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::time::Duration;

use conclave_db::Store;
use conclave_model::event::Departure;
use conclave_model::plan::{Plan, PlanFeatures, PlanLimits};
use conclave_model::usage::Day;
use conclave_model::{Clock, ProjectId, RoomId};
use support::{Home, create_project, create_room, new_room, participant};

/// Project with one room, on a clock that the tests move.
struct Fixture {
    store: Store,
    clock: Clock,
    project: ProjectId,
    room: RoomId,
    _home: Home,
}

impl Fixture {
    async fn new(start: &str) -> Self {
        let (home, clock) = (Home::new(), Clock::manual(start.parse().unwrap()));
        let store = support::open(&home, None, &clock, Box::new(|_| {}));
        let project = create_project(&store).await;
        let room = create_room(&store, new_room(&project, "standup"), None)
            .await
            .unwrap()
            .id;
        Self {
            store,
            clock,
            project,
            room,
            _home: home,
        }
    }

    async fn join(&self, identity: &str) {
        let participant = participant(identity, &format!("PA_{identity}"));
        self.store
            .sessions()
            .record_join(
                self.project.clone(),
                self.room,
                participant,
                self.clock.now(),
            )
            .await
            .unwrap();
    }

    async fn leave(&self, identity: &str) {
        let sid = format!("PA_{identity}").parse().unwrap();
        self.store
            .sessions()
            .record_leave(
                self.project.clone(),
                self.room,
                sid,
                self.clock.now(),
                Departure::Left,
            )
            .await
            .unwrap();
    }

    /// Keeps a participant in the room for some minutes.
    async fn stay(&self, identity: &str, minutes: u64) {
        self.join(identity).await;
        self.clock.advance(Duration::from_secs(minutes * 60));
        self.leave(identity).await;
    }

    /// Minutes and sessions per day.
    async fn days(&self, from: &str, to: &str) -> Vec<(u64, u32)> {
        let (from, to): (Day, Day) = (from.parse().unwrap(), to.parse().unwrap());
        let days = self
            .store
            .usage()
            .days(self.project.clone(), from, to)
            .await
            .unwrap();
        days.iter()
            .map(|day| (day.participant_time.as_secs() / 60, day.sessions))
            .collect()
    }

    /// Minutes of the current month, the balance, and whether past months are settled.
    async fn month(&self) -> (u64, i64, bool) {
        let month = self
            .store
            .usage()
            .month_use(self.project.clone())
            .await
            .unwrap();
        (
            month.participant_time.as_secs() / 60,
            month.balance_ugx,
            month.settled,
        )
    }
}

/// Plan that includes ten minutes. Each further minute costs five shillings.
fn plan() -> Plan {
    Plan {
        display_name: String::new(),
        price_ugx: 0,
        limits: PlanLimits {
            participant_minutes_per_month: Some(10),
            ..PlanLimits::default()
        },
        features: PlanFeatures::default(),
        overage_ugx_per_minute: Some(5),
    }
}

#[actix::test]
async fn open_and_closed_sessions_count_on_each_day_that_they_touch_and_in_the_month() {
    let fixture = Fixture::new("2026-03-14T22:00:00Z").await;
    fixture.stay("alice", 60).await;
    fixture.join("bob").await;
    fixture.clock.advance(Duration::from_secs(90 * 60));
    let days = [(0, 0), (60 + 60, 2), (30, 0), (0, 0)];
    assert_eq!(fixture.days("2026-03-13", "2026-03-16").await, days);
    assert_eq!(fixture.month().await, (150, 0, true));
    fixture.leave("bob").await;
    assert_eq!(fixture.days("2026-03-13", "2026-03-16").await, days);
    assert_eq!(fixture.month().await, (150, 0, true));
}

#[actix::test]
async fn the_overage_of_past_months_is_taken_from_the_balance_once() {
    let fixture = Fixture::new("2026-03-31T20:00:00Z").await;
    fixture.stay("alice", 60).await;
    // Into the next month, whose first day starts with the rest of this session.
    fixture.clock.advance(Duration::from_secs(2 * 60 * 60));
    fixture.stay("bob", 90).await;
    assert_eq!(fixture.month().await, (30, 0, false));
    for _ in 0..2 {
        fixture
            .store
            .usage()
            .settle_months(fixture.project.clone(), plan())
            .await
            .unwrap();
        assert_eq!(fixture.month().await, (30, -5 * (60 + 60 - 10), true));
    }
    fixture
        .clock
        .advance(Duration::from_secs(61 * 24 * 60 * 60));
    assert_eq!(fixture.month().await, (0, -550, false));
    fixture
        .store
        .usage()
        .settle_months(fixture.project.clone(), plan())
        .await
        .unwrap();
    assert_eq!(fixture.month().await, (0, -550 - 5 * (30 - 10), true));
}
