//! Changes of webhook endpoints, and of their secrets, last.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::possible::Possible;
use crate::clients::changed_url;
use crate::journal::{Action, Entry};
use crate::receivers::{Receiver, Webhook};
use crate::records::{Records, text};

/// Time for which a POST that started before a rotation may still arrive: the timeout of a delivery, and the receiver's delay on a busy
/// machine.
const LATE: Duration = Duration::from_secs(20);

/// An endpoint has the URL and the description of its last change.
pub fn changes_last(entries: &[Entry], receiver: &Receiver, records: &Records) -> Vec<String> {
    let own = &receiver.endpoint.id;
    let mut possible = Possible::new(String::new());
    for entry in entries {
        if let Action::ChangeEndpoint { id, change } = &entry.action
            && id == own
        {
            possible.record(entry, change.clone());
        }
    }
    let listed = records
        .endpoints
        .iter()
        .find(|endpoint| text(endpoint, "id") == own);
    let Some(listed) = listed else {
        return vec![format!("the endpoint {own} is not listed")];
    };
    let description = text(listed, "description").to_owned();
    let url = match description.as_str() {
        "" => receiver.url.clone(),
        description => changed_url(&receiver.url, description),
    };
    let is_whole = text(listed, "url") == url && listed["active"] == true;
    let is_kept = possible.allows(&description) && is_whole;
    (!is_kept)
        .then(|| format!("the endpoint {own} is not as acknowledged: {listed}"))
        .into_iter()
        .collect()
}

/// A secret that a response has shown.
struct ShownSecret {
    secret: String,
    /// The earliest and the latest time at which it became the endpoint's secret.
    sent: Instant,
    acknowledged: Instant,
}

/// Each webhook is signed with a secret that was shown before, and that was not replaced long before.
pub fn webhooks_are_signed_with_acknowledged_secrets(
    entries: &[Entry],
    receiver: &Receiver,
) -> Vec<String> {
    let (secrets, unknown) = shown_secrets(entries, receiver);
    // From a rotation on whose response never came, the secret is unknown.
    let known = |webhook: &Webhook| unknown.is_none_or(|unknown| webhook.at < unknown);
    let received = receiver.received();
    let wrong = received.iter().filter(|webhook| {
        let mut current = secrets
            .iter()
            .filter(|secret| is_current(secret, &secrets, webhook.at));
        known(webhook) && !current.any(|secret| is_signed_with(webhook, &secret.secret))
    });
    wrong
        .map(|webhook| {
            format!(
                "the webhook {} is not signed with the endpoint's secret",
                webhook.id
            )
        })
        .collect()
}

/// Returns the endpoint's secrets, and the first request for a secret that was never shown.
fn shown_secrets(entries: &[Entry], receiver: &Receiver) -> (Vec<ShownSecret>, Option<Instant>) {
    let first = ShownSecret {
        secret: receiver.endpoint.secret.clone(),
        sent: receiver.endpoint.created,
        acknowledged: receiver.endpoint.created,
    };
    let mut rotations: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        if let (Action::RotateSecret { id }, Some(key)) = (&entry.action, &entry.key)
            && *id == receiver.endpoint.id
        {
            rotations.entry(key).or_default().push(entry);
        }
    }
    let (mut secrets, mut unknown) = (vec![first], Vec::new());
    for attempts in rotations.values() {
        let sent = attempts[0].sent;
        let shown = attempts
            .iter()
            .find_map(|entry| entry.acknowledged().zip(Some(entry.ended)));
        match shown {
            Some((answer, acknowledged)) => secrets.push(ShownSecret {
                secret: text(&answer.json(), "secret").to_owned(),
                sent,
                acknowledged,
            }),
            None => unknown.push(sent),
        }
    }
    (secrets, unknown.into_iter().min())
}

/// Returns whether a webhook that arrives at a time may be signed with a secret: no rotation that was requested after it was shown has been
/// acknowledged for long.
fn is_current(secret: &ShownSecret, all: &[ShownSecret], at: Instant) -> bool {
    let replaced = all
        .iter()
        .filter(|other| other.sent > secret.acknowledged)
        .map(|other| other.acknowledged)
        .min();
    secret.sent <= at && replaced.is_none_or(|replaced| at <= replaced + LATE)
}

fn is_signed_with(webhook: &Webhook, secret: &str) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    mac.update(&webhook.body);
    let expected = format!("sha256={}", hex::encode(mac.finalize().into_bytes()));
    webhook.signatures.contains(&expected)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::Endpoint;
    use crate::checks::tests::{entry, records};

    fn receiver(created: Instant, received: Vec<Webhook>) -> Receiver {
        let endpoint = Endpoint {
            id: "e".into(),
            secret: "first".into(),
            created,
        };
        Receiver::with(endpoint, received)
    }

    fn signed(secret: &str, at: Instant) -> Webhook {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(b"{}");
        let signature = format!("sha256={}", hex::encode(mac.finalize().into_bytes()));
        Webhook {
            id: "w".into(),
            event: json!({}),
            body: b"{}".into(),
            signatures: [signature, String::new()],
            at,
            accepted: true,
            lifetime: None,
        }
    }

    /// Proves R-33.
    #[test]
    fn a_lost_change_of_an_endpoint_is_found() {
        let change = |change: &str, answer: Option<Value>| {
            let (id, change) = ("e".to_owned(), change.to_owned());
            entry(Action::ChangeEndpoint { id, change }, None, answer)
        };
        let found = |entries: &[Entry], description: &str, url: &str| {
            let endpoint =
                json!({"id": "e", "description": description, "url": url, "active": true});
            let records = Records {
                endpoints: vec![endpoint],
                ..records()
            };
            changes_last(entries, &receiver(Instant::now(), Vec::new()), &records).len()
        };
        let (first, changed) = ("http://127.0.0.1/hook", "http://127.0.0.1/hook?x");
        assert_eq!(found(&[], "", first), 0);
        let done = [change("x", Some(json!({})))];
        assert_eq!(found(&done, "x", changed), 0);
        assert_eq!(found(&done, "", first), 1, "lost");
        assert_eq!(found(&done, "x", first), 1, "half of it");
        let unknown = [change("x", None)];
        assert_eq!(
            (found(&unknown, "x", changed), found(&unknown, "", first)),
            (0, 0)
        );
    }

    /// Proves R-33.
    #[test]
    fn a_webhook_with_an_unknown_an_early_or_a_replaced_secret_is_found() {
        let start = Instant::now();
        let after = |second: u64| start + Duration::from_secs(second);
        let rotate = |answer: Option<Value>| {
            let rotated = entry(Action::RotateSecret { id: "e".into() }, Some("k"), answer);
            Entry {
                sent: after(10),
                ended: after(11),
                ..rotated
            }
        };
        let found = |entries: &[Entry], secret: &str, second: u64| {
            let receiver = receiver(start, vec![signed(secret, after(second))]);
            webhooks_are_signed_with_acknowledged_secrets(entries, &receiver).len()
        };
        assert_eq!((found(&[], "first", 1), found(&[], "other", 1)), (0, 1));
        let rotated = [rotate(None), rotate(Some(json!({"secret": "second"})))];
        assert_eq!(found(&rotated, "second", 10), 0);
        assert_eq!(found(&rotated, "second", 9), 1, "before the rotation");
        assert_eq!(found(&rotated, "first", 12), 0, "it was on its way");
        assert_eq!(found(&rotated, "first", 40), 1, "it was replaced");
        let unknown = [rotate(None)];
        assert_eq!((found(&unknown, "x", 9), found(&unknown, "x", 12)), (1, 0));
    }
}
