//! The body of every operation: the operation's id in the first line, the body in the second.
//!
//! No body results in a 5xx, every error is listed in the description, and an accepted body fits the schema.

#![no_main]

use std::cell::RefCell;

use conclave_fuzz::api::Api;
use conclave_fuzz::{json as mutation, seeds};
use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use url::{Host, Url};

thread_local! {
    static API: RefCell<Api> = RefCell::new(Api::new());
}

fuzz_target!(init: API.with_borrow(write_seeds), |data: &[u8]| -> Corpus { API.with_borrow_mut(|api| run(api, data)) });

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    API.with_borrow(|api| {
        mutation::mutate(data, size, max_size, seed, &api.words, |line| line == 1)
    })
});

fn run(api: &mut Api, data: &[u8]) -> Corpus {
    let Some(at) = data.iter().position(|byte| *byte == b'\n') else {
        return Corpus::Reject;
    };
    let (id, body) = (
        String::from_utf8_lossy(&data[..at]).into_owned(),
        &data[at + 1..],
    );
    if api.operation(&id).is_none() || body.len() > 65_000 || names_a_host(body) || is_unread(body)
    {
        return Corpus::Reject;
    }
    let path = api.path(&id);
    let method = api.operation(&id).unwrap().method.clone();
    api.send(&method, path.as_bytes(), body);
    Corpus::Keep
}

/// Returns whether the bytes are JSON that no [`Value`] can represent, so that schemas cannot check it. Only metadata may contain such JSON.
fn is_unread(body: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(body).is_ok()
        && serde_json::from_slice::<Value>(body).is_err()
}

/// Returns whether a URL has a host that the server would look up. Fuzzing stays on this machine.
fn names_a_host(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).replace("\\/", "/");
    let is_local = |rest: &str| {
        let url = Url::parse(&format!("http://{rest}"));
        url.is_ok_and(|url| {
            matches!(
                url.host(),
                Some(Host::Ipv4(_) | Host::Ipv6(_) | Host::Domain("localhost"))
            )
        })
    };
    let is_escaped = text.contains("\\u002f") || text.contains("\\u002F");
    is_escaped
        || text
            .split("//")
            .skip(1)
            .any(|rest| !is_local(rest.split(['"', '\\']).next().unwrap()))
}

fn write_seeds(api: &Api) {
    let line = |id: &str, body: &Value| {
        let text = body.to_string();
        let hosts = [
            "live.example.com",
            "hooks.example.com",
            "example.com",
            "example.org",
        ];
        format!(
            "{id}\n{}",
            hosts
                .iter()
                .fold(text, |text, host| text.replace(host, "127.0.0.1"))
        )
    };
    let examples = api.operations.iter().map(|operation| {
        let example = operation.example.clone();
        line(&operation.id, &example.unwrap_or_else(|| json!({})))
    });
    let more = more_bodies().map(|(id, body)| {
        assert!(api.operation(id).is_some(), "no operation {id}");
        line(id, &body)
    });
    seeds::write("body", examples.chain(more));
}

/// Returns bodies with fields that the examples leave out.
fn more_bodies() -> [(&'static str, Value); 11] {
    let auto_record = json!({"type": "room_composite", "layout": "grid", "destination": "host"});
    [
        (
            "create_room",
            json!({"name": "limited", "max_duration_seconds": 90}),
        ),
        (
            "create_template",
            json!({
                "name": "recorded", "roles": {"host": {}},
                "settings": {"auto_record": {"type": "participant"}, "max_duration_seconds": 604_800}
            }),
        ),
        (
            "update_template_settings",
            json!({"region": "auto", "max_duration_seconds": 0, "auto_record": auto_record}),
        ),
        (
            "update_template_settings",
            json!({"region": "auto", "auto_record": null}),
        ),
        (
            "ban_participant",
            json!({"until": "2100-01-01T00:00:00.000Z", "reason": "spam in the chat"}),
        ),
        (
            "ban_participant",
            json!({"until": "2020-01-01T00:00:00.000Z"}),
        ),
        (
            "update_webhook_endpoint",
            json!({"url": "http://127.0.0.1:9/b", "events": [], "active": true, "description": "b"}),
        ),
        ("update_webhook_endpoint", json!({"active": false})),
        ("rotate_webhook_secret", json!({"overlap_seconds": 0})),
        ("rotate_webhook_secret", json!({"overlap_seconds": 259_200})),
        ("record_participants", json!({"destination": "host"})),
    ]
}
