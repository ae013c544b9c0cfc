//! Properties that all pages and actions share; the pages are found by following links from the overview.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Browser, app_with_token};
use crate::docs::assert_leads_to_a_heading;
use crate::support::{TestApp, eventually};

/// Returns the unescaped values of an attribute in a page.
fn attributes(page: &str, name: &str) -> Vec<String> {
    let start = format!(" {name}=\"");
    let values = page
        .split(&start)
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    values.map(|value| value.replace("&amp;", "&")).collect()
}

/// Returns every reachable page, with its text.
pub fn pages(browser: &Browser<'_>) -> Vec<(String, String)> {
    let (mut seen, mut queue, mut pages) = (BTreeSet::new(), vec!["/".to_owned()], Vec::new());
    while let Some(path) = queue.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let text = browser.page(&path);
        let links = attributes(&text, "href").into_iter();
        let is_page = |link: &String| {
            link.starts_with('/')
                && !link.starts_with("/docs")
                // The SDK page links to packages and documents.
                && (!link.starts_with("/sdk/") || link == "/sdk/")
                && !link.starts_with("/assets/")
                && !link.contains("download=1")
        };
        queue.extend(links.filter(is_page));
        pages.push((path, text));
    }
    pages
}

/// Creates a resource for every page and every form.
pub fn fill(app: &TestApp) {
    app.room("standup");
    app.room("retro");
    let alice = app.join("standup", "alice", "host");
    app.publish(&alice, "video", "camera");
    let bob = app.join("standup", "bob", "guest");
    app.leave(&bob, true);
    let post = |path: &str, body: serde_json::Value| app.post(path).json(body).send().expect(201);
    post(
        "/v1/rooms/standup/recordings",
        json!({"type": "room_composite"}),
    );
    post(
        "/v1/rooms/standup/broadcasts",
        json!({"urls": ["rtmp://127.0.0.1/app/hush-key"]}),
    );
    post(
        "/v1/rooms/standup/ingress",
        json!({"input_type": "rtmp", "participant_identity": "encoder"}),
    );
    post("/v1/rooms/standup/codes", json!({"role": "guest"}));
    post(
        "/v1/webhook-endpoints",
        json!({"url": "http://127.0.0.1:9/hooks"}),
    );
    let template = post(
        "/v1/templates",
        json!({"name": "lesson", "roles": {"teacher": {}}}),
    );
    let path = format!(
        "/v1/templates/{}/destinations",
        template["id"].as_str().unwrap()
    );
    post(
        &path,
        json!({"name": "tube", "kind": "rtmp", "config": {"urls": ["rtmp://127.0.0.1/app/hush-key"]}}),
    );
    app.delete("/v1/rooms/retro").send().expect_empty(204);
    eventually(|| {
        app.get("/v1/webhook-deliveries").send().json()["webhook_deliveries"][0].is_object()
    });
}

#[test]
fn the_links_to_the_documentation_lead_to_its_pages_and_headings() {
    let app = app_with_token();
    fill(&app);
    let links: BTreeSet<_> = pages(&Browser::signed_in(&app))
        .iter()
        .flat_map(|(_, text)| attributes(text, "href"))
        .filter(|link| link.starts_with("/docs/"))
        .collect();
    assert!(
        links.contains("/docs/") && links.contains("/docs/webhooks.html") && links.len() > 10,
        "{links:?}"
    );
    links
        .iter()
        .for_each(|link| assert_leads_to_a_heading(&app, link));
}

/// Proves S-23.
#[test]
fn every_page_answers_and_loads_nothing_from_elsewhere() {
    let app = TestApp::start();
    fill(&app);
    let pages = pages(&Browser::new(&app));
    let kinds = [
        "/rooms/",
        "/sessions/",
        "/recordings/",
        "/templates/",
        "/deliveries/",
        "/actors/",
        "/live/",
        "/usage",
        "/server",
    ];
    for kind in kinds {
        assert!(
            pages.iter().any(|(path, _)| path.contains(kind)),
            "no page {kind}"
        );
    }
    for (path, text) in &pages {
        for secret in [app.key.as_str(), "hush-key", "whsec_"] {
            assert!(!text.contains(secret), "{path} shows {secret}");
        }
        for inline in [
            " style=\"",
            "<style",
            "<script>",
            "javascript:",
            " onclick=",
            " onload=",
        ] {
            assert!(!text.contains(inline), "{path} has {inline}");
        }
        for file in attributes(text, "src") {
            assert!(
                file.starts_with("/assets/") || file.ends_with("/file"),
                "{path} loads {file}"
            );
        }
        assert!(text.contains("<main") && text.contains("<h1>"), "{path}");
        let mut ids = attributes(text, "id");
        ids.sort();
        let all = ids.len();
        ids.dedup();
        assert_eq!(all, ids.len(), "{path} has an id twice");
    }
}

#[test]
fn pages_and_files_have_a_strict_policy_and_pages_are_not_kept() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    let assets = attributes(&browser.page("/"), "src");
    assert_eq!(assets.len(), 5);
    for path in assets.iter().map(String::as_str).chain([
        "/",
        "/projects",
        "/sdk/",
        "/sign-in?x=1",
        "/projects/none",
    ]) {
        let answer = browser.open(path);
        if answer.status == 303 {
            continue;
        }
        let policy = &answer.headers["content-security-policy"];
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        if !path.starts_with("/assets/") {
            assert_eq!(
                answer.headers["referrer-policy"], "same-origin",
                "or a form has the origin null"
            );
        }
        let kept = if path.starts_with("/assets/") {
            "no-cache"
        } else {
            "no-store"
        };
        assert_eq!(answer.headers["cache-control"], kept, "{path}");
    }
}

/// Proves S-22.
#[test]
fn every_action_needs_a_session_its_token_and_its_origin() {
    let app = app_with_token();
    fill(&app);
    let browser = Browser::signed_in(&app);
    let pages = pages(&browser);
    let forms = pages.iter().flat_map(|(_, text)| {
        text.split("<form")
            .skip(1)
            .map(|rest| rest.split('>').next().unwrap())
    });
    let actions = forms
        .filter(|form| form.contains("method=\"post\""))
        .flat_map(|form| attributes(form, "action"));
    let actions: BTreeSet<String> = actions.collect();
    assert!(
        actions.len() > 30,
        "only {} actions: {actions:#?}",
        actions.len()
    );
    let token = super::csrf(&browser.open("/projects"));
    let before = app.get("/v1/rooms").send().json();
    for action in &actions {
        let request = |browser: &Browser<'_>| browser.request("POST", action);
        assert_eq!(
            request(&browser).form(&[]).send().status,
            403,
            "{action} without its token"
        );
        let foreign = request(&browser)
            .form(&[("csrf", &token)])
            .header("origin", "https://example.org")
            .send();
        assert_eq!(foreign.status, 403, "{action} from another origin");
        let anonymous = request(&Browser::new(&app))
            .form(&[("csrf", &token)])
            .send();
        assert_eq!(anonymous.status, 401, "{action} without a session");
    }
    assert_eq!(app.get("/v1/rooms").send().json(), before);
}
