//! Slots for buffered requests: in total and per client, so that one client leaves some to others.

use std::sync::Arc;

use actix_web::HttpRequest;
use conclave_model::{ClientAddress, Counts};
use parking_lot::Mutex;

use super::metrics::{BufferedGauge, ClusterMetrics};
use crate::http::listener::client_address::TrustedProxies;

/// Fraction of the slots that one client may use: one in four.
const PARTS: usize = 4;

/// Slots for buffered requests, shared by a listener's workers.
pub(super) struct BufferSlots {
    most: usize,
    most_per_client: usize,
    /// Slots in use, by client; `None` for trusted proxies that name no client.
    taken: Mutex<Counts<Option<ClientAddress>>>,
    metrics: ClusterMetrics,
}

/// Slot in use, until this is dropped.
pub(super) struct BufferSlot {
    buffer_slots: Arc<BufferSlots>,
    client: Option<ClientAddress>,
    _counted: BufferedGauge,
}

impl BufferSlots {
    /// Creates `most` free slots.
    pub(super) fn new(most: usize, metrics: ClusterMetrics) -> Arc<Self> {
        let most_per_client = most.div_ceil(PARTS);
        Arc::new(Self {
            most,
            most_per_client,
            taken: Mutex::default(),
            metrics,
        })
    }

    /// Acquires a slot; `None` if all are taken, or if the client has its share.
    pub(super) fn take(
        self: &Arc<Self>,
        request: &HttpRequest,
        proxies: &TrustedProxies,
    ) -> Option<BufferSlot> {
        // A proxy that does not name its client stands for many of them, so only the total limits it.
        let client = proxies
            .client_ip(request)
            .filter(|client| !proxies.contains(*client))
            .map(ClientAddress::from);
        // Held for the check and the count, so two workers cannot take the last slot.
        let mut taken = self.taken.lock();
        let is_full = taken.total() >= self.most;
        if is_full || (client.is_some() && taken.get(&client) >= self.most_per_client) {
            return None;
        }
        taken.add(client);
        Some(BufferSlot {
            buffer_slots: Arc::clone(self),
            client,
            _counted: self.metrics.count_buffered(),
        })
    }
}

impl Drop for BufferSlot {
    fn drop(&mut self) {
        self.buffer_slots.taken.lock().subtract(&self.client);
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use prometheus::Registry;

    use super::*;

    #[test]
    fn a_client_has_a_quarter_of_the_places_wherever_it_comes_in_and_proxies_have_all() {
        let buffer_slots = BufferSlots::new(8, ClusterMetrics::new(&Registry::new()).unwrap());
        let proxies = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]);
        let take = |peer: &str, forwarded: Option<&str>| {
            let request = TestRequest::default().peer_addr(format!("{peer}:1").parse().unwrap());
            let request = forwarded.into_iter().fold(request, |request, client| {
                request.insert_header(("x-forwarded-for", client))
            });
            buffer_slots.take(&request.to_http_request(), &proxies)
        };
        let direct = take("203.0.113.9", Some("198.51.100.1")).unwrap();
        let by_proxy = take("10.0.0.2", Some("203.0.113.9"));
        assert!(
            by_proxy.is_some()
                && take("203.0.113.9", None).is_none()
                && take("10.0.0.3", Some("203.0.113.9")).is_none()
        );
        let of_proxy: Vec<_> = (0..6).map_while(|_| take("10.0.0.2", None)).collect();
        assert_eq!(
            (of_proxy.len(), take("10.0.0.2", None).is_none()),
            (6, true)
        );
        drop(direct);
        assert!(take("203.0.113.9", None).is_some());
    }
}
