//! Quality of sessions: samples, summaries, the worst sessions of a day, and the deletion of old samples.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::time::Duration;

use conclave_db::{NewQuality, Store, StoredSample};
use conclave_model::page::PageRequest;
use conclave_model::quality::{DirectionSample, MediaConnection, QualitySample, QualitySummary};
use conclave_model::usage::Day;
use conclave_model::{Clock, ErrorCode, NamespacedRoom, ProjectId, RoomId, RoomName, SessionId};
use rusqlite::Connection;
use support::{Home, create_project, create_room, new_room, participant};
use test_postgres::{Engine, Records};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Project with one room, on a clock that the tests move.
struct Fixture {
    store: Store,
    clock: Clock,
    project: ProjectId,
    name: RoomName,
    room: RoomId,
    home: Home,
}

impl Fixture {
    async fn new() -> Self {
        let start = "2026-01-31T12:00:00Z".parse().unwrap();
        let (home, clock) = (Home::new(), Clock::manual(start));
        let store = support::open(&home, None, &clock, Box::new(|_| {}));
        let project = create_project(&store).await;
        let room = create_room(&store, new_room(&project, "standup"), None)
            .await
            .unwrap();
        Self {
            store,
            clock,
            project,
            name: room.name,
            room: room.id,
            home,
        }
    }

    async fn join(&self, identity: &str) -> SessionId {
        let participant = participant(identity, &format!("PA_{identity}"));
        let joined = self
            .store
            .sessions()
            .record_join(
                self.project.clone(),
                self.room,
                participant,
                self.clock.now(),
            )
            .await
            .unwrap();
        let session = |identity: &str| {
            let mut participants = joined.participants.iter();
            participants
                .find(|known| known.identity.as_str() == identity)
                .unwrap()
                .session
        };
        session(identity)
    }

    /// Returns a measurement with this score, after which the session's mean is `mean`.
    fn measured(&self, identity: &str, score: u32, mean: Option<u32>) -> NewQuality {
        let sample = |score| QualitySample {
            millis: 10_000,
            score: Some(score),
            ..QualitySample::default()
        };
        NewQuality {
            room: NamespacedRoom::new(&self.project, &self.name),
            participant: format!("PA_{identity}").parse().unwrap(),
            at: self.clock.now(),
            sample: Some(sample(score)),
            summary: mean.map(|mean| {
                let mut summary = QualitySummary::default();
                summary.add(&sample(mean));
                summary
            }),
        }
    }

    async fn record(&self, measured: Vec<NewQuality>) {
        self.store.quality().record(measured).await.unwrap();
    }

    async fn samples(&self, session: SessionId, offset: u64) -> Vec<StoredSample> {
        let page = PageRequest { limit: 2, offset };
        let listed = self
            .store
            .quality()
            .samples(self.project.clone(), session, page);
        listed.await.unwrap().items
    }

    /// Returns the identities of a day's worst sessions with their scores.
    async fn worst(&self, project: &ProjectId, day: Day) -> Vec<(String, u32)> {
        let worst = self
            .store
            .quality()
            .worst(project.clone(), day, PageRequest::default());
        let worst = worst.await.unwrap().items.into_iter().map(|measured| {
            let identity = measured.session.participant_identity.to_string();
            (identity, measured.summary.score.mean().unwrap())
        });
        worst.collect()
    }
}

#[actix::test]
async fn samples_are_listed_newest_first_and_the_last_summary_counts() {
    let fixture = Fixture::new().await;
    let alice = fixture.join("alice").await;
    for (score, mean) in [(400, Some(400)), (300, None), (200, Some(310))] {
        fixture.clock.advance(Duration::from_secs(10));
        // The second participant is unknown: its measurements are dropped, and the first one's are written.
        fixture
            .record(vec![
                fixture.measured("eve", score, mean),
                fixture.measured("alice", score, mean),
            ])
            .await;
    }
    // The same instant again, as after a step of the clock.
    fixture
        .record(vec![fixture.measured("alice", 100, None)])
        .await;
    let scores = |samples: &[StoredSample]| -> Vec<_> {
        samples
            .iter()
            .map(|stored| stored.sample.score.unwrap())
            .collect()
    };
    let (first, second) = (
        fixture.samples(alice, 0).await,
        fixture.samples(alice, 2).await,
    );
    assert_eq!(
        (scores(&first), scores(&second)),
        (vec![200, 300], vec![400])
    );
    assert_eq!(first[0].at, fixture.clock.now());
    let summary = fixture
        .store
        .quality()
        .summary(fixture.project.clone(), alice);
    assert_eq!(summary.await.unwrap().unwrap().score.mean(), Some(310));
}

#[actix::test]
async fn a_session_of_another_project_has_no_quality() {
    let fixture = Fixture::new().await;
    let alice = fixture.join("alice").await;
    fixture
        .record(vec![fixture.measured("alice", 200, Some(200))])
        .await;
    let other = create_project(&fixture.store).await;
    let quality = fixture.store.quality();
    let summary = quality.summary(other.clone(), alice).await;
    assert_eq!(support::refused(summary).0, ErrorCode::SessionNotFound);
    let samples = quality
        .samples(other.clone(), alice, PageRequest::default())
        .await;
    assert_eq!(support::refused(samples).0, ErrorCode::SessionNotFound);
    let today = Day::from(fixture.clock.now());
    assert_eq!(fixture.worst(&other, today).await, []);
    // Nor can another project's room lend its measurements to the session.
    let stranger = NewQuality {
        room: NamespacedRoom::new(&other, &fixture.name),
        ..fixture.measured("alice", 100, Some(100))
    };
    fixture.record(vec![stranger]).await;
    assert_eq!(
        fixture.worst(&fixture.project, today).await,
        [("alice".to_owned(), 200)]
    );
}

#[actix::test]
async fn the_worst_sessions_of_a_day_are_those_with_the_lowest_mean() {
    let fixture = Fixture::new().await;
    for identity in ["alice", "bob", "carol", "dave"] {
        fixture.join(identity).await;
    }
    let today = Day::from(fixture.clock.now());
    let unscored = NewQuality {
        summary: Some(QualitySummary::default()),
        ..fixture.measured("dave", 100, None)
    };
    fixture
        .record(vec![
            fixture.measured("alice", 400, Some(400)),
            fixture.measured("bob", 250, Some(250)),
            fixture.measured("carol", 300, Some(300)),
            unscored,
        ])
        .await;
    let named = |list: &[(&str, u32)]| -> Vec<_> {
        list.iter()
            .map(|(name, score)| ((*name).to_owned(), *score))
            .collect()
    };
    assert_eq!(
        fixture.worst(&fixture.project, today).await,
        named(&[("bob", 250), ("carol", 300), ("alice", 400)])
    );
    // A session that goes on counts for the day of its last sample.
    fixture.clock.advance(DAY);
    fixture
        .record(vec![fixture.measured("carol", 400, Some(350))])
        .await;
    assert_eq!(
        fixture.worst(&fixture.project, today).await,
        named(&[("bob", 250), ("alice", 400)])
    );
    assert_eq!(
        fixture.worst(&fixture.project, today.plus(1)).await,
        named(&[("carol", 350)])
    );
}

#[actix::test]
async fn old_samples_are_deleted_in_batches_and_summaries_stay() {
    let fixture = Fixture::new().await;
    let alice = fixture.join("alice").await;
    for _ in 0..3 {
        let batch = (0..500).map(|_| {
            fixture.clock.advance(Duration::from_secs(10));
            fixture.measured("alice", 400, Some(400))
        });
        fixture.record(batch.collect()).await;
    }
    fixture.clock.advance(DAY);
    fixture
        .record(vec![fixture.measured("alice", 300, None)])
        .await;
    let server = fixture.store.server();
    let mut deleted = Vec::new();
    while deleted.last() != Some(&0) {
        deleted.push(server.delete_quality_samples(DAY).await.unwrap());
    }
    assert_eq!(deleted, [1_000, 500, 0]);
    assert_eq!(fixture.samples(alice, 0).await.len(), 1);
    let summary = fixture
        .store
        .quality()
        .summary(fixture.project.clone(), alice);
    assert!(summary.await.unwrap().is_some());
}

#[actix::test]
async fn a_minute_of_a_session_takes_less_than_a_kibibyte_of_a_file() {
    if Engine::Sqlite.is_not_chosen("the size of a file is measured") {
        return;
    }
    let fixture = Fixture::new().await;
    let Records::File(path) = &fixture.home.records else {
        panic!("the records are in a file")
    };
    let participants: Vec<_> = (0..20).map(|number| format!("p{number}")).collect();
    for identity in &participants {
        fixture.join(identity).await;
    }
    // Counts pages instead of the file's bytes: some pages are still in the write-ahead log.
    let file = Connection::open(path).unwrap();
    let size = || -> i64 {
        let pages: i64 = file
            .pragma_query_value(None, "page_count", |row| row.get(0))
            .unwrap();
        pages * 4_096
    };
    let direction = DirectionSample {
        packets: 6_120,
        lost: 31,
        jitter_ms: Some(9),
        kbps: 4_410,
        width: 1_280,
        height: 720,
        frame_rate: 29,
        freezes: 1,
        frozen_ms: 412,
        switches: 2,
    };
    let measured = |identity: &String, second: u64| {
        let sample = QualitySample {
            round_trip_ms: Some(148),
            estimate_kbps: Some(5_400),
            connection: Some(MediaConnection::Udp),
            sent: direction,
            received: direction,
            ..fixture.measured(identity, 431, None).sample.unwrap()
        };
        NewQuality {
            sample: Some(sample),
            summary: second.is_multiple_of(60).then(|| {
                let mut summary = QualitySummary::default();
                summary.add(&sample);
                summary
            }),
            ..fixture.measured(identity, 431, None)
        }
    };
    let minutes = 30u64;
    let before = size();
    for second in (0..minutes * 60).step_by(10) {
        fixture.clock.advance(Duration::from_secs(10));
        let batch = participants
            .iter()
            .map(|identity| measured(identity, second));
        fixture.record(batch.collect()).await;
    }
    let per_minute = (size() - before) / (minutes.cast_signed() * 20);
    assert!((200..1_024).contains(&per_minute), "{per_minute} bytes");
}
