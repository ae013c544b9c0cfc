//! Checks common to all paths below `/ext/v1`, as for `/v1`. The tests over all operations cover the rest.

use crate::support::TestApp;

#[test]
fn unknown_paths_and_methods_are_refused_as_below_v1() {
    let app = TestApp::start();
    for path in ["/ext", "/ext/v1", "/ext/v1/nothing", "/ext/v2/rooms"] {
        app.get(path).send().expect_error(404, "not_found", None);
    }
    let path = "/ext/v1/rooms/a/codes/0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21";
    let other = app.get(path).send();
    assert_eq!(
        (other.status, other.headers["allow"].as_str()),
        (405, "DELETE")
    );
    // The contract's paths have no such operation.
    app.delete(path.trim_start_matches("/ext"))
        .send()
        .expect_error(404, "not_found", None);
}

#[test]
fn its_description_names_its_own_operations_only() {
    let app = TestApp::start();
    let described = app.get("/ext/openapi.json").anonymous().send().expect(200);
    let paths = described["paths"].as_object().unwrap();
    assert!(paths.keys().all(|path| path.starts_with("/ext/v1/")));
    assert!(!paths.is_empty() && described.get("webhooks").is_none());
}
