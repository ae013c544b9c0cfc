//! Advances the clock without a race with the delivering actors: first wait until their timers are armed.

use std::collections::BTreeMap;

use conclave_model::Timestamp;
use serde_json::Value;

use super::{TestApp, eventually};

impl TestApp {
    /// Waits until every first attempt that leaves at once has been made, and every receiver with a pending delivery has its timer armed,
    /// then advances the clock by one tick.
    #[track_caller]
    pub fn tick(&self) {
        self.wait_until_armed();
        self.advance(self.config.webhooks.tick);
    }

    /// Waits until every receiver with a pending delivery has its timer armed. Without this the clock could pass the tick before the
    /// endpoint's actor has received the event.
    #[track_caller]
    pub fn wait_until_armed(&self) {
        eventually(|| self.is_armed());
    }

    /// Moves the clock by one tick and waits until every due delivery has been posted and recorded.
    #[track_caller]
    pub fn deliver(&self) {
        self.tick();
        self.settle();
    }

    /// Waits until no delivery is due and no post is in progress.
    #[track_caller]
    pub fn settle(&self) {
        eventually(|| {
            let now = self.clock.now();
            // In this order: an actor that was idle before the deliveries were read may have started since.
            let nothing_due = self.earliest_due().values().all(|due| *due > now);
            nothing_due
                && self
                    .endpoint_actors()
                    .values()
                    .all(|actor| actor["state"]["running"] == false)
        });
    }

    /// Returns all deliveries that match a query (`status=pending`, …), newest first.
    #[track_caller]
    pub fn deliveries(&self, query: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let path = format!(
                "/v1/webhook-deliveries?limit=200&offset={}&{query}",
                all.len()
            );
            let page = self.get(path.trim_end_matches('&')).send().expect(200);
            all.extend(
                page["webhook_deliveries"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .cloned(),
            );
            if page["has_more"] == false {
                return all;
            }
        }
    }

    /// Waits until `count` events of a type have been queued for receivers.
    #[track_caller]
    pub fn wait_for_event(&self, event_type: &str, count: usize) {
        eventually(|| self.deliveries(&format!("event_type={event_type}")).len() >= count);
    }

    fn is_armed(&self) -> bool {
        let (tick, now) = (self.config.webhooks.tick, self.clock.now());
        let actors = self.endpoint_actors();
        self.earliest_due().iter().all(|(endpoint, due)| {
            let Some(actor) = actors.get(endpoint) else {
                return false;
            };
            let armed = actor["timers"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|timer| timer["name"] == "tick");
            let fires_at =
                armed.and_then(|timer| timer["fires_at"].as_str()?.parse::<Timestamp>().ok());
            fires_at.is_some_and(|at| at <= now.max(*due).after(tick))
                && actor["state"]["running"] == false
        })
    }

    /// Returns the due time of each receiver's first pending delivery.
    fn earliest_due(&self) -> BTreeMap<String, Timestamp> {
        let mut earliest = BTreeMap::new();
        for delivery in self.deliveries("status=pending") {
            let due: Timestamp = delivery["next_attempt_at"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            let endpoint = delivery["endpoint_id"].as_str().unwrap().to_owned();
            earliest
                .entry(endpoint)
                .and_modify(|at: &mut Timestamp| *at = due.min(*at))
                .or_insert(due);
        }
        earliest
    }

    fn endpoint_actors(&self) -> BTreeMap<String, Value> {
        let page = self.actors("?kind=webhook_endpoint&limit=200");
        let actors = page["actors"].as_array().unwrap().iter();
        actors
            .map(|actor| (actor["name"].as_str().unwrap().to_owned(), actor.clone()))
            .collect()
    }
}
