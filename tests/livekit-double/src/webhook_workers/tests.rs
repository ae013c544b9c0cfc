//! Webhook outcomes by response status.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use test_http_server::{Response, serve};

use super::{LostWebhook, WebhookOutcomes};
use crate::{Double, Joining};

/// Joins one participant while the receiver gives these responses, the last one from then on. Returns the outcomes once no webhook is
/// pending.
fn outcomes(answers: &'static [u16]) -> WebhookOutcomes {
    let requests = Arc::new(AtomicUsize::new(0));
    let address = serve(move |_, mut stream| {
        let number = requests
            .fetch_add(1, Ordering::SeqCst)
            .min(answers.len() - 1);
        let _ = Response::new(answers[number]).send(&mut stream);
    });
    let double = Double::start();
    double.send_by_workers(move || Some(format!("http://{address}/")));
    double.join("a", &Joining::participant("i"));
    while double.webhook_outcomes().pending > 0 {
        thread::sleep(Duration::from_millis(5));
    }
    double.webhook_outcomes()
}

#[test]
fn a_webhook_that_is_accepted_at_once_or_later_is_counted() {
    let found = outcomes(&[503, 204]);
    assert_eq!(
        found,
        WebhookOutcomes {
            pending: 0,
            accepted: 2,
            repeated: 1,
            lost: Vec::new()
        }
    );
}

#[test]
fn a_webhook_that_is_refused_is_lost() {
    let lost = |event: &str| LostWebhook {
        event: event.into(),
        status: Some(401),
    };
    let found = outcomes(&[401]);
    assert_eq!(
        (found.accepted, found.lost),
        (0, vec![lost("room_started"), lost("participant_joined")])
    );
}
