//! `/v1/templates/{id}/settings`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::tools::{fields, template};

#[test]
fn the_settings_have_exactly_the_fields_of_the_contract() {
    let app = TestApp::start();
    let path = format!("/v1/templates/{}/settings", template(&app, "t", &json!({})));
    let settings = app.get(&path).send().expect(200);
    assert_eq!(
        fields(&settings),
        [
            "allowed_regions",
            "region",
            "region_enforced",
            "region_note"
        ]
    );
    assert_eq!(
        (&settings["region"], &settings["region_enforced"]),
        (&json!("auto"), &json!(false))
    );
    assert_eq!(
        settings["allowed_regions"],
        json!(["auto", "af-east", "eu-west", "us-east"])
    );
    assert!(
        settings["region_note"]
            .as_str()
            .is_some_and(|note| !note.is_empty())
    );
}

#[test]
fn every_allowed_region_can_be_set_and_the_template_shows_it() {
    let app = TestApp::start();
    let template = format!(
        "/v1/templates/{}",
        template(&app, "t", &json!({"host": {"priority": 7}}))
    );
    let path = format!("{template}/settings");
    let before = app.get(&template).send().expect(200);
    for region in ["us-east", "eu-west", "af-east", "auto"] {
        app.advance(Duration::from_secs(1));
        let set = app
            .patch(&path)
            .json(json!({"region": region}))
            .send()
            .expect(200);
        assert_eq!(set["region"], region);
        assert_eq!(app.get(&path).send().expect(200), set);
        let template = app.get(&template).send().expect(200);
        assert_eq!(
            (&template["settings"], &template["updated_at"]),
            (&json!({"region": region}), &json!(app.now()))
        );
        assert_eq!(
            (&template["roles"], &template["name"]),
            (&before["roles"], &before["name"])
        );
    }
}

#[test]
fn a_region_is_required_and_must_be_an_allowed_one() {
    let app = TestApp::start();
    let path = format!("/v1/templates/{}/settings", template(&app, "t", &json!({})));
    for (body, field) in [
        (json!({}), Some("region")),
        (json!({"region": Value::Null}), Some("region")),
        (json!({"region": "Auto"}), Some("region")),
        (json!({"region": ""}), Some("region")),
        (json!({"region": ["auto"]}), Some("region")),
        (json!({"region": {"auto": null}}), Some("region")),
        (json!({"region": "auto", "zone": 1}), Some("zone")),
        (json!([]), None),
    ] {
        app.patch(&path)
            .json(body)
            .send()
            .expect_error(400, "invalid_request", field);
    }
    assert_eq!(app.get(&path).send().json()["region"], "auto");
    app.get(&format!("{path}?x=1"))
        .send()
        .expect_error(400, "invalid_request", Some("x"));
}
