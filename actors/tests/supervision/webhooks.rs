//! Webhook endpoint actors: their POSTs and the times of these.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use conclave_actors::debug::ActorView;
use conclave_db::DeliveryFilter;
use conclave_model::page::PageRequest;
use conclave_model::webhook::{Delivery, DeliveryStatus};
use conclave_model::{LeaseCheck, Secret};
use test_http_server::{Response, serve};

use super::fixture::{Fixture, run, wait_until};

const TICK: Duration = Duration::from_secs(5);

impl Fixture {
    /// Waits until an endpoint's actor has armed the timer of its tick.
    async fn waits_for_tick(&self, path: &str) {
        self.child_until(path, |actor| {
            actor.is_some_and(|actor| !actor.timers.is_empty())
        })
        .await;
    }

    async fn deliveries(&self) -> Vec<Delivery> {
        let page = PageRequest {
            limit: 50,
            offset: 0,
        };
        self.store
            .deliveries()
            .list(self.project.clone(), DeliveryFilter::default(), page)
            .await
            .unwrap()
            .items
    }
}

fn runs(actor: Option<&ActorView>) -> usize {
    let handled = actor
        .iter()
        .flat_map(|actor| actor.history.iter().flatten());
    handled
        .filter(|handled| handled.message == "run_finished")
        .count()
}

/// Proves R-22.
#[test]
fn without_a_confirmed_lease_nothing_is_posted_and_no_attempt_is_counted() {
    run(async {
        let (is_valid, early) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (of_lease, of_receiver, counted) = (
            Arc::clone(&is_valid),
            Arc::clone(&is_valid),
            Arc::clone(&early),
        );
        let receiver = serve(move |_, mut stream| {
            counted.fetch_add(
                usize::from(!of_receiver.load(Ordering::SeqCst)),
                Ordering::SeqCst,
            );
            stream.write_all(&Response::new(200).into_bytes()).unwrap();
        });
        let fixture =
            Fixture::with_lease(LeaseCheck::new(move || of_lease.load(Ordering::SeqCst))).await;
        let (project, url) = (fixture.project.clone(), format!("http://{receiver}/"));
        let id = fixture
            .store
            .webhook_endpoints()
            .create(project, url, Secret::new("whsec_"), None)
            .await
            .unwrap()
            .id;
        fixture.tree.wake_endpoint(fixture.project.clone(), id);
        let path = format!("webhook/{id}");
        fixture.join("stage", "alice").await.unwrap().unwrap();
        for run in 1..=3 {
            fixture.waits_for_tick(&path).await;
            fixture.clock.advance(TICK);
            fixture.child_until(&path, |actor| runs(actor) >= run).await;
        }
        let waiting = fixture.deliveries().await;
        assert!(!waiting.is_empty());
        assert!(
            waiting.iter().all(
                |delivery| delivery.status == DeliveryStatus::Pending && delivery.attempts == 0
            )
        );

        is_valid.store(true, Ordering::SeqCst);
        fixture.waits_for_tick(&path).await;
        fixture.clock.advance(TICK);
        let delivered = |delivery: &Delivery| {
            delivery.status == DeliveryStatus::Delivered && delivery.attempts == 1
        };
        wait_until(
            async || fixture.deliveries().await,
            |all| all.iter().all(delivered),
        )
        .await;
        assert_eq!(early.load(Ordering::SeqCst), 0);
    });
}
