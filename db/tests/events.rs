//! A project's events, as programs follow them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::time::Duration;

use conclave_db::{EventFilter, EventGap, EventList, EventPage, LogRetention, Store};
use conclave_model::page::PageRequest;
use conclave_model::webhook::WebhookEndpointChange;
use conclave_model::{ErrorCode, ProjectId, Secret};
use support::{Home, clock, create_project, create_room, new_room, refused};

/// Ends a room that nobody has joined, which emits one event.
async fn emit(store: &Store, project: &ProjectId, room: &str) {
    let room = create_room(store, new_room(project, room), None)
        .await
        .unwrap();
    store.rooms().end(project.clone(), room.id).await.unwrap();
}

async fn after(store: &Store, project: &ProjectId, position: i64, limit: u32) -> EventPage {
    store
        .events()
        .after(project.clone(), position, limit)
        .await
        .unwrap()
}

/// Returns the same retention for deliveries and events.
const fn kept_for(seconds: u64) -> LogRetention {
    LogRetention {
        deliveries: Duration::from_secs(seconds),
        events: Duration::from_secs(seconds),
    }
}

async fn list(store: &Store, project: &ProjectId, filter: EventFilter) -> EventList {
    store
        .events()
        .list(project.clone(), filter, PageRequest::default())
        .await
        .unwrap()
}

fn rooms(page: &EventPage) -> Vec<&str> {
    page.events
        .iter()
        .map(|event| event.room.as_str())
        .collect()
}

#[actix::test]
async fn events_are_read_once_each_in_order_and_only_those_of_the_project() {
    let home = Home::new();
    let store = support::open(&home, Some("encryption.key"), &clock(), Box::new(|_| {}));
    let (project, other) = (create_project(&store).await, create_project(&store).await);
    assert_eq!(store.events().newest(project.clone()).await.unwrap(), 0);
    emit(&store, &project, "before").await;
    let start = store.events().newest(project.clone()).await.unwrap();
    for room in ["a", "b", "c"] {
        emit(&store, &other, room).await;
        emit(&store, &project, room).await;
    }
    let first = after(&store, &project, start, 2).await;
    assert_eq!((rooms(&first), first.gap), (vec!["a", "b"], None));
    assert_eq!(first.position, first.events[1].id);
    assert_eq!(first.events[0].event_type, "room.finished");
    let parsed: serde_json::Value = serde_json::from_str(&first.events[0].payload).unwrap();
    assert_eq!(
        (&parsed["type"], &parsed["room"]),
        (&"room.finished".into(), &"a".into())
    );
    let second = after(&store, &project, first.position, 2).await;
    assert_eq!(rooms(&second), ["c"]);
    let nothing = EventPage {
        events: vec![],
        position: second.position,
        gap: None,
    };
    assert_eq!(after(&store, &project, second.position, 2).await, nothing);
}

#[actix::test]
async fn the_test_of_an_endpoint_is_passed_over() {
    let home = Home::new();
    let store = support::open(&home, Some("encryption.key"), &clock(), Box::new(|_| {}));
    let project = create_project(&store).await;
    let url = "http://127.0.0.1:9/".to_owned();
    let endpoint = store
        .webhook_endpoints()
        .create(project.clone(), url, Secret::new("whsec_"), None)
        .await
        .unwrap();
    store
        .webhook_endpoints()
        .send_test_event(project.clone(), endpoint.id)
        .await
        .unwrap();
    let page = after(&store, &project, 0, 10).await;
    assert!(page.events.is_empty() && page.position > 0, "{page:?}");
    assert_eq!(page.position, store.events().newest(project).await.unwrap());
}

#[actix::test]
async fn a_page_says_that_events_before_it_were_deleted_or_that_the_records_are_older() {
    let (home, clock) = (Home::new(), clock());
    let store = support::open(&home, Some("encryption.key"), &clock, Box::new(|_| {}));
    let (project, other) = (create_project(&store).await, create_project(&store).await);
    for room in ["a", "b"] {
        emit(&store, &project, room).await;
    }
    let known = after(&store, &project, 0, 1).await.position;
    let newest = store.events().newest(project.clone()).await.unwrap();
    clock.advance(Duration::from_secs(60));
    emit(&store, &project, "c").await;
    assert_eq!(
        store.server().delete_expired(kept_for(30)).await.unwrap(),
        2
    );

    let missed = after(&store, &project, known, 10).await;
    assert_eq!(
        (rooms(&missed), missed.gap),
        (vec!["c"], Some(EventGap::Deleted))
    );
    let complete = after(&store, &project, newest, 10).await;
    assert_eq!((rooms(&complete), complete.gap), (vec!["c"], None));
    clock.advance(Duration::from_secs(60));
    assert_eq!(
        store.server().delete_expired(kept_for(30)).await.unwrap(),
        1
    );
    let last = complete.position;
    assert_eq!(
        store.events().newest(project.clone()).await.unwrap(),
        last,
        "also when all were deleted"
    );
    assert_eq!(after(&store, &project, last, 10).await.gap, None);
    assert_eq!(after(&store, &other, 0, 10).await.gap, None);

    let restored = after(&store, &project, last + 1, 10).await;
    assert_eq!(
        restored,
        EventPage {
            events: vec![],
            position: last,
            gap: Some(EventGap::Restored)
        }
    );
    let unknown = store.events().after(ProjectId::new(), 0, 10).await;
    assert_eq!(refused(unknown), (ErrorCode::NotFound, None));
}

#[actix::test]
async fn the_history_starts_at_an_instant_between_any_two_events() {
    let (home, clock) = (Home::new(), clock());
    let store = support::open(&home, Some("encryption.key"), &clock, Box::new(|_| {}));
    let (project, other) = (create_project(&store).await, create_project(&store).await);
    let mut times = Vec::new();
    for room in ["a", "b", "c", "d", "e", "f", "g"] {
        clock.advance(Duration::from_secs(10));
        times.push(clock.now());
        // Ids of other projects lie in between.
        emit(&store, &other, room).await;
        emit(&store, &project, room).await;
    }
    let all = list(&store, &project, EventFilter::default()).await;
    assert_eq!(all.page.items.len(), times.len());
    for (at, time) in times.iter().enumerate() {
        for (since, first) in [
            (*time, at),
            (time.before(Duration::from_secs(1)), at),
            (time.after(Duration::from_secs(1)), at + 1),
        ] {
            let filter = EventFilter {
                since: Some(since),
                ..EventFilter::default()
            };
            let found = list(&store, &project, filter).await;
            assert_eq!(found.page.items, all.page.items[first..]);
            let position = store.events().position_at(project.clone(), since).await;
            let followed = after(&store, &project, position.unwrap(), 10).await;
            assert_eq!(followed.events, all.page.items[first..]);
        }
    }
}

#[actix::test]
async fn the_history_is_complete_from_the_last_deleted_event_on() {
    let (home, clock) = (Home::new(), clock());
    let store = support::open(&home, Some("encryption.key"), &clock, Box::new(|_| {}));
    let project = create_project(&store).await;
    let url = "http://127.0.0.1:9/".to_owned();
    emit(&store, &project, "a").await;
    let endpoint = store
        .webhook_endpoints()
        .create(project.clone(), url, Secret::new("whsec_"), None)
        .await
        .unwrap();
    // Its pending delivery keeps it.
    emit(&store, &project, "b").await;
    store
        .webhook_endpoints()
        .delete(project.clone(), endpoint.id)
        .await
        .unwrap();
    emit(&store, &project, "c").await;
    clock.advance(Duration::from_secs(60));
    emit(&store, &project, "d").await;
    let deleted = store.server().delete_expired(kept_for(30)).await.unwrap();
    assert_eq!(deleted, 2);
    let kept = list(&store, &project, EventFilter::default()).await;
    let rooms: Vec<_> = kept.page.items.iter().map(|event| &*event.room).collect();
    assert_eq!((rooms, kept.gap), (vec!["d"], None));
}

#[actix::test]
async fn a_pending_delivery_keeps_its_event_while_its_endpoint_is_active() {
    let (home, clock) = (Home::new(), clock());
    let store = support::open(&home, Some("encryption.key"), &clock, Box::new(|_| {}));
    let mut kept = Vec::new();
    for active in [true, false] {
        let project = create_project(&store).await;
        let url = "http://127.0.0.1:9/".to_owned();
        let endpoints = store.webhook_endpoints();
        let endpoint = endpoints
            .create(project.clone(), url, Secret::new("whsec_"), None)
            .await
            .unwrap();
        emit(&store, &project, "a").await;
        let change = WebhookEndpointChange {
            active: Some(active),
            ..WebhookEndpointChange::default()
        };
        endpoints
            .update(project.clone(), endpoint.id, change)
            .await
            .unwrap();
        kept.push((project, endpoint.id));
    }
    clock.advance(Duration::from_secs(29));
    let delete = async || store.server().delete_expired(kept_for(30)).await.unwrap();
    assert_eq!(delete().await, 0);
    clock.advance(Duration::from_secs(1));
    // The delivery and the event of the endpoint that is not active.
    assert_eq!((delete().await, delete().await), (2, 0));
    let [(active, endpoint), (inactive, _)]: [_; 2] = kept.try_into().unwrap();
    for (project, count) in [(&active, 1), (&inactive, 0)] {
        let events = list(&store, project, EventFilter::default()).await;
        assert_eq!(events.page.items.len(), count);
    }
    let due = store
        .deliveries()
        .due(active, endpoint, clock.now(), 50)
        .await;
    assert_eq!(due.unwrap().len(), 1);
}
