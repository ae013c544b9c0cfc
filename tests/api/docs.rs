//! `/docs` on the admin listener: the viewer of the description, with all its files served by this program.

use std::collections::BTreeMap;
use std::io::Read as _;

use conclave_model::Secret;
use flate2::read::GzDecoder;
use url::Url;

use crate::support::{Response, TestApp};

/// The values of an attribute in a page.
fn named(page: &str, attribute: &str) -> Vec<String> {
    let marker = format!("{attribute}=\"");
    page.split(&marker).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

fn page(app: &TestApp) -> Response {
    app.admin("GET", "/docs").anonymous().send()
}

/// The file that was sent, which gzip compresses if the answer says so. Its checksum is verified.
fn content(answer: &Response) -> Vec<u8> {
    match answer.headers.get("content-encoding") {
        Some(encoding) => {
            assert_eq!(encoding, "gzip");
            let mut content = Vec::new();
            GzDecoder::new(&answer.body[..]).read_to_end(&mut content).unwrap();
            content
        }
        None => answer.body.clone(),
    }
}

fn kind(answer: &Response) -> &str {
    answer.headers["content-type"].split(';').next().unwrap()
}

#[test]
fn the_page_and_every_file_it_names_are_served_with_their_types() {
    let app = TestApp::start();
    let page = page(&app);
    assert_eq!((page.status, kind(&page)), (200, "text/html"));
    let files = [named(&page.text(), "src"), named(&page.text(), "href")].concat();
    assert_eq!(files.len(), 6, "{files:?}");
    for file in files {
        let answer = app.admin("GET", &file).anonymous().send();
        let expected = match file.rsplit('.').next().unwrap() {
            "js" => "text/javascript",
            "css" => "text/css",
            _ => "image/png",
        };
        assert_eq!((answer.status, kind(&answer)), (200, expected), "{file}");
        assert!(content(&answer).len() > 100, "{file}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{file}");
    }
}

#[test]
fn the_viewer_shows_the_description_that_the_api_serves_and_makes_no_calls() {
    let app = TestApp::start();
    let start = app.admin("GET", "/docs/swagger-initializer.js").anonymous().send().text();
    for setting in [
        "\"url\": \"/openapi.json\"",
        "\"dom_id\": \"#swagger-ui\"",
        "\"supportedSubmitMethods\": []",
        "\"validatorUrl\": \"none\"",
    ] {
        assert!(start.contains(setting), "{setting} is not in {start}");
    }
    let here = app.admin("GET", "/openapi.json").anonymous().send();
    assert_eq!(kind(&here), "application/json");
    assert_eq!(here.expect(200), app.get("/openapi.json").anonymous().send().expect(200));
}

#[test]
fn no_file_is_loaded_from_another_host() {
    let app = TestApp::start();
    let page = page(&app);
    assert!(!page.text().contains("//"), "{}", page.text());
    let start = app.admin("GET", "/docs/swagger-initializer.js").anonymous().send().text();
    assert!(!start.contains("http"), "{start}");
    let policy = &page.headers["content-security-policy"];
    let mut directives = policy.split("; ").map(|directive| directive.split_once(' ').unwrap());
    assert!(directives.any(|directive| directive == ("default-src", "'none'")), "{policy}");
    let sources = policy.split("; ").flat_map(|directive| directive.split(' ').skip(1));
    for source in sources {
        assert!(["'none'", "'self'", "'unsafe-inline'", "data:"].contains(&source), "{source}");
    }
    let scripts = policy.split("; ").find(|directive| directive.starts_with("script-src")).unwrap();
    assert_eq!(scripts, "script-src 'self'");
    for sheet in ["swagger-ui.css", "index.css"] {
        let sheet = content(&app.admin("GET", &format!("/docs/{sheet}")).anonymous().send());
        let sheet = String::from_utf8(sheet).unwrap();
        assert!(sheet.contains("box-sizing"), "{sheet}");
        let loaded = sheet.split("url(").skip(1).map(|rest| rest.trim_start_matches(['"', '\'']));
        for place in loaded {
            assert!(place.starts_with("data:"), "{}", &place[..place.len().min(60)]);
        }
        assert!(!sheet.contains("@import"));
    }
}

#[test]
fn a_browser_can_open_it_although_the_admin_listener_requires_a_token() {
    let app = TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    assert_eq!(page(&app).status, 200);
    assert_eq!(app.admin("GET", "/docs/swagger-ui.css").anonymous().send().status, 200);
    app.admin("GET", "/openapi.json").anonymous().send().expect(200);
    app.admin("GET", "/debug/actors").anonymous().send().expect_error(401, "unauthorized", None);
}

#[test]
fn unknown_files_are_not_found() {
    let app = TestApp::start();
    for file in ["nothing.js", "index.html", "..%2fmod.rs", "%2e%2e%2fCargo.toml", "..%2fsrc%2fstyle%2fmain.css"] {
        app.admin("GET", &format!("/docs/{file}")).send().expect_error(404, "not_found", None);
    }
    // The API listener has no pages.
    app.get("/docs").send().expect_error(404, "not_found", None);
}

#[test]
fn the_pages_of_documentation_are_served_as_markdown_and_listed_with_what_they_are_about() {
    let app = TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    let get = |path: &str| app.admin("GET", path).anonymous().send();
    let index = get("/llms.txt");
    assert_eq!((index.status, kind(&index)), (200, "text/plain"));
    let index = index.text();
    assert!(
        index.starts_with("# Conclave\n\n> Conclave is a self-hosted control plane for real-time video calls."),
        "{index}"
    );
    for page in ["/docs/api.md", "/sdk/python/README.md", "/sdk/", "/openapi.json"] {
        assert!(index.contains(&format!("]({page}): ")), "{page} is not in {index}");
    }
    assert!(get("/docs/running.md").text().starts_with("# Running Conclave\n"));
    assert!(get("/sdk/go/README.md").text().starts_with("# Conclave for Go\n"));
    for missing in ["/docs/nothing.md", "/docs/guide/none.png", "/sdk/none/README.md", "/deploy/none.yaml"] {
        assert_eq!(get(missing).status, 404, "{missing}");
    }
}

/// The urls that a page in Markdown links to, but for those of other servers.
fn links(page: &Url, text: &str) -> Vec<Url> {
    let targets = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let mut urls: Vec<_> = targets.map(|target| page.join(target).unwrap()).collect();
    urls.retain(|url| url.origin() == page.origin());
    urls.iter_mut().for_each(|url| url.set_fragment(None));
    urls
}

#[test]
fn every_link_of_every_page_leads_to_what_is_served() {
    let app = TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    let mut waiting = vec![Url::parse(&app.admin).unwrap().join("/llms.txt").unwrap()];
    let mut kinds = BTreeMap::from([(waiting[0].path().to_owned(), "text/plain".to_owned())]);
    while let Some(page) = waiting.pop() {
        let text = app.admin("GET", page.path()).anonymous().send().text();
        for url in links(&page, &text) {
            if kinds.contains_key(url.path()) {
                continue;
            }
            let linked = app.admin("GET", url.path()).anonymous().send();
            assert_eq!(linked.status, 200, "{} links to {}", page.path(), url.path());
            assert!(!linked.body.is_empty(), "{}", url.path());
            kinds.insert(url.path().to_owned(), kind(&linked).to_owned());
            if kind(&linked) == "text/markdown" {
                waiting.push(url);
            }
        }
    }
    for (path, expected) in [
        ("/docs/running.md", "text/markdown"),
        ("/docs/guide/call.png", "image/png"),
        ("/docs/lists-by-the-number-of-rows.svg", "image/svg+xml"),
        ("/deploy/compose.yaml", "text/plain"),
        ("/deploy/grafana/conclave.json", "application/json"),
        ("/SECURITY.md", "text/markdown"),
    ] {
        assert_eq!(kinds.get(path).map(String::as_str), Some(expected), "{path}");
    }
}
