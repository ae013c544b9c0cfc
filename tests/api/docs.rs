//! `/docs` on the admin listener: the viewer of the description, with all its files served by this program.

use std::io::Read as _;

use conclave_model::Secret;
use flate2::read::GzDecoder;

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
    let links: Vec<_> = index.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert!(links.len() > 14 && links.contains(&"/sdk/python/README.md"), "{links:?}");
    for link in links {
        let page = get(link);
        let expected = if link.ends_with(".md") { "text/markdown" } else { "application/json" };
        assert_eq!((page.status, kind(&page)), (200, expected), "{link}");
    }
    assert!(get("/docs/running.md").text().starts_with("# Running Conclave\n"));
    assert!(get("/sdk/go/README.md").text().starts_with("# Conclave for Go\n"));
    assert_eq!([get("/docs/nothing.md").status, get("/sdk/none/README.md").status], [404, 404]);
}
