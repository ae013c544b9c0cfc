//! `/docs/` on the admin listener: the documentation as HTML and as Markdown, and the API viewer, with all their files served by this
//! program.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use conclave::http::admin::docs::site::{Form, Site};
use conclave_model::Secret;
use flate2::read::GzDecoder;
use serde_json::Value;
use url::Url;

use crate::contract::{DESCRIPTIONS, documents, every_operation};
use crate::support::{Response, TestApp};

/// Returns unescaped attribute values in a page's tags. HTML examples are text, in which `<` is escaped.
fn named(page: &str, attribute: &str) -> Vec<String> {
    let marker = format!(" {attribute}=\"");
    let tags = page
        .split('<')
        .skip(1)
        .filter_map(|rest| rest.split('>').next());
    let values = tags
        .flat_map(|tag| tag.split(&marker).skip(1))
        .filter_map(|rest| rest.split('"').next());
    values.map(|value| value.replace("&amp;", "&")).collect()
}

/// Returns the viewer's page.
fn page(app: &TestApp) -> Response {
    app.admin("GET", "/docs/api").anonymous().send()
}

/// Returns the viewer's settings.
fn settings(app: &TestApp) -> Value {
    app.admin("GET", "/docs/api/settings.json")
        .anonymous()
        .send()
        .expect(200)
}

/// Returns the response's file, decompressed if it is gzip-encoded; gzip's checksum is verified.
fn content(answer: &Response) -> Vec<u8> {
    match answer.headers.get("content-encoding") {
        Some(encoding) => {
            assert_eq!(encoding, "gzip");
            let mut content = Vec::new();
            GzDecoder::new(&answer.body[..])
                .read_to_end(&mut content)
                .unwrap();
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
    assert!(files.len() > 10, "{files:?}");
    for file in files.iter().filter(|file| {
        file.rsplit_once('.')
            .is_some_and(|(_, end)| ["js", "css", "svg"].contains(&end))
    }) {
        let answer = app.admin("GET", file).anonymous().send();
        let expected = match file.rsplit('.').next().unwrap() {
            "js" => "text/javascript",
            "css" => "text/css",
            _ => "image/svg+xml",
        };
        assert_eq!((answer.status, kind(&answer)), (200, expected), "{file}");
        assert!(content(&answer).len() > 100, "{file}");
        assert_eq!(
            answer.headers["x-content-type-options"], "nosniff",
            "{file}"
        );
    }
}

#[test]
fn the_viewer_shows_the_descriptions_that_the_api_serves() {
    let app = TestApp::start();
    let start = app
        .admin("GET", "/docs/api/viewer.js")
        .anonymous()
        .send()
        .text();
    for setting in [
        "files = ['/openapi.json', '/ext/openapi.json', '/docs/api/settings.json']",
        "files.map(read)",
        "dom_id: '#swagger-ui'",
        "validatorUrl: 'none'",
        "filter: true",
    ] {
        assert!(start.contains(setting), "{setting} is not in {start}");
    }
    for path in DESCRIPTIONS {
        let here = app.admin("GET", path).anonymous().send();
        assert_eq!(kind(&here), "application/json");
        assert_eq!(
            here.expect(200),
            app.get(path).anonymous().send().expect(200)
        );
    }
}

#[test]
fn every_group_of_operations_leads_to_a_page_that_explains_it() {
    let app = TestApp::start();
    let described = documents(&app);
    let groups = described
        .iter()
        .flat_map(|document| document["tags"].as_array().unwrap())
        .map(|tag| tag["name"].as_str().unwrap().to_owned());
    let settings = settings(&app);
    let pages = settings["pages"].as_object().unwrap();
    assert_eq!(
        pages.keys().cloned().collect::<BTreeSet<_>>(),
        groups.collect()
    );
    for page in pages.values() {
        assert_leads_to_a_heading(&app, page["url"].as_str().unwrap());
    }
    // Each operation links to its section in the reference.
    for operation in every_operation(&app) {
        assert_leads_to_a_heading(&app, &format!("/docs/api.html#{}", operation.id()));
    }
}

/// Fails unless a documentation link resolves to a page and a heading in it.
#[track_caller]
pub fn assert_leads_to_a_heading(app: &TestApp, link: &str) {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let page = app.admin("GET", path).anonymous().send();
    assert_eq!((page.status, kind(&page)), (200, "text/html"), "{link}");
    assert!(
        anchor.is_empty() || named(&page.text(), "id").iter().any(|id| id == anchor),
        "{link}"
    );
}

#[test]
fn in_dev_the_viewer_can_call_the_api_with_the_key_that_it_is_given() {
    let app = TestApp::start();
    let given = settings(&app);
    assert_eq!(
        (given["api"].as_str(), given["key"].as_str()),
        (Some(&*app.api), Some(&*app.key))
    );
    let policy = &page(&app).headers["content-security-policy"];
    assert!(
        policy.contains(&format!("connect-src 'self' {};", app.api)),
        "{policy}"
    );
    let port = app.admin.rsplit_once(':').unwrap().1;
    for origin in [app.admin.clone(), format!("http://localhost:{port}")] {
        let preflight = app
            .request("OPTIONS", "/v1/rooms")
            .anonymous()
            .header("origin", &origin);
        let preflight = preflight
            .header("access-control-request-method", "POST")
            .send();
        assert_eq!(preflight.headers["access-control-allow-origin"], origin);
        let allowed = &preflight.headers["access-control-allow-headers"];
        for header in ["authorization", "content-type", "idempotency-key"] {
            assert!(allowed.contains(header), "{allowed}");
        }
        let listed = app.get("/v1/rooms").header("origin", &origin).send();
        listed.expect(200);
        assert_eq!(listed.headers["access-control-allow-origin"], origin);
    }
    // A page from another program on this machine has another origin.
    let other = app
        .get("/v1/rooms")
        .header("origin", "http://127.0.0.1:1")
        .send();
    other.expect_error(403, "origin_rejected", None);
}

/// Proves S-19.
#[test]
fn the_key_is_given_to_no_page_of_another_origin() {
    let app = TestApp::start();
    for site in ["cross-site", "same-site", "none"] {
        let given = app
            .admin("GET", "/docs/api/settings.json")
            .header("sec-fetch-site", site)
            .send();
        assert!(!given.text().contains(&app.key), "{site}");
    }
    let own = app
        .admin("GET", "/docs/api/settings.json")
        .header("sec-fetch-site", "same-origin")
        .send();
    assert_eq!(own.json()["key"], *app.key);
    // Any page could load a script, so the response is none; nor is it cached.
    assert_eq!(
        (kind(&own), own.headers["x-content-type-options"].as_str()),
        ("application/json", "nosniff")
    );
    assert_eq!(own.headers["cache-control"], "no-store");
    for file in [
        "/docs/api",
        "/docs/api/viewer.js",
        "/docs/assets/site.js",
        "/docs/",
    ] {
        assert!(
            !app.admin("GET", file).send().text().contains(&app.key),
            "{file}"
        );
    }
    // Under another machine's name, the listener is reachable only through a proxy.
    let app = app.restart_with(|config| {
        config.admin.hosts = vec![conclave::config::HostName::parse("conclave.internal").unwrap()];
    });
    let elsewhere = app
        .admin("GET", "/docs/api/settings.json")
        .header("host", "conclave.internal")
        .send();
    assert_eq!(
        (elsewhere.status, elsewhere.text().contains("vk_")),
        (200, false)
    );
    // With a token, the console is not open to everyone who can connect to the listener.
    let app = app.restart_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    let given = settings(&app);
    assert_eq!(
        (given["api"].as_str(), given.get("key")),
        (Some(&*app.api), None)
    );
}

#[test]
fn no_file_is_loaded_from_another_host() {
    let app = TestApp::start();
    let page = page(&app);
    assert!(!page.text().contains("//"), "{}", page.text());
    let start = app
        .admin("GET", "/docs/api/viewer.js")
        .anonymous()
        .send()
        .text();
    assert!(!start.contains("://"), "{start}");
    // The viewer also calls the API.
    let policy = page.headers["content-security-policy"].replace(&format!(" {}", app.api), "");
    let mut directives = policy
        .split("; ")
        .map(|directive| directive.split_once(' ').unwrap());
    assert!(
        directives.any(|directive| directive == ("default-src", "'none'")),
        "{policy}"
    );
    let sources = policy
        .split("; ")
        .flat_map(|directive| directive.split(' ').skip(1));
    for source in sources {
        assert!(
            ["'none'", "'self'", "'unsafe-inline'", "data:"].contains(&source),
            "{source}"
        );
    }
    let scripts = policy
        .split("; ")
        .find(|directive| directive.starts_with("script-src"))
        .unwrap();
    assert_eq!(scripts, "script-src 'self'");
    for sheet in ["swagger-ui.css", "index.css"] {
        let sheet = content(
            &app.admin("GET", &format!("/docs/{sheet}"))
                .anonymous()
                .send(),
        );
        let sheet = String::from_utf8(sheet).unwrap();
        assert!(sheet.contains("box-sizing"), "{sheet}");
        let loaded = sheet
            .split("url(")
            .skip(1)
            .map(|rest| rest.trim_start_matches(['"', '\'']));
        for place in loaded {
            assert!(
                place.starts_with("data:"),
                "{}",
                &place[..place.len().min(60)]
            );
        }
        assert!(!sheet.contains("@import"));
    }
}

#[test]
fn a_browser_can_open_it_although_the_admin_listener_requires_a_token() {
    let app =
        TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    assert_eq!(page(&app).status, 200);
    assert_eq!(
        app.admin("GET", "/docs/swagger-ui.css")
            .anonymous()
            .send()
            .status,
        200
    );
    app.admin("GET", "/openapi.json")
        .anonymous()
        .send()
        .expect(200);
    app.admin("GET", "/debug/actors")
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
}

#[test]
fn unknown_files_are_not_found() {
    let app = TestApp::start();
    for file in [
        "nothing.js",
        "nothing.html",
        "api/none.js",
        "swagger-initializer.html",
        "..%2fmod.rs",
        "%2e%2e%2fCargo.toml",
        "..%2fsrc%2fstyle%2fmain.css",
    ] {
        app.admin("GET", &format!("/docs/{file}"))
            .send()
            .expect_error(404, "not_found", None);
    }
    // The API listener has no pages.
    for path in ["/docs", "/docs/", "/docs/api", "/docs/api/settings.json"] {
        app.get(path).send().expect_error(404, "not_found", None);
    }
}

#[test]
fn the_pages_of_documentation_are_served_as_markdown_and_listed_with_what_they_are_about() {
    let app =
        TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    let get = |path: &str| app.admin("GET", path).anonymous().send();
    let index = get("/llms.txt");
    assert_eq!((index.status, kind(&index)), (200, "text/plain"));
    let index = index.text();
    assert!(
        index.starts_with(
            "# Conclave\n\n> Conclave is a self-hosted control plane for real-time video calls."
        ),
        "{index}"
    );
    for page in [
        "/docs/api.md",
        "/sdk/python/README.md",
        "/sdk/",
        "/openapi.json",
        "/ext/openapi.json",
    ] {
        assert!(
            index.contains(&format!("]({page}): ")),
            "{page} is not in {index}"
        );
    }
    assert!(
        get("/docs/running.md")
            .text()
            .starts_with("# Running Conclave\n")
    );
    assert!(
        get("/sdk/go/README.md")
            .text()
            .starts_with("# Conclave for Go\n")
    );
    for missing in [
        "/docs/nothing.md",
        "/docs/guide/none.png",
        "/sdk/none/README.md",
        "/deploy/none.yaml",
    ] {
        assert_eq!(get(missing).status, 404, "{missing}");
    }
}

/// Returns the URLs that a Markdown page links to, except links to other servers.
fn links(page: &Url, text: &str) -> Vec<Url> {
    let targets = text
        .split("](")
        .skip(1)
        .map(|rest| rest.split(')').next().unwrap());
    let mut urls: Vec<_> = targets.map(|target| page.join(target).unwrap()).collect();
    urls.retain(|url| url.origin() == page.origin());
    urls.iter_mut().for_each(|url| url.set_fragment(None));
    urls
}

#[test]
fn every_link_of_every_page_leads_to_what_is_served() {
    let app =
        TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    let mut waiting = vec![Url::parse(&app.admin).unwrap().join("/llms.txt").unwrap()];
    let mut kinds = BTreeMap::from([(waiting[0].path().to_owned(), "text/plain".to_owned())]);
    while let Some(page) = waiting.pop() {
        let text = app.admin("GET", page.path()).anonymous().send().text();
        for url in links(&page, &text) {
            if kinds.contains_key(url.path()) {
                continue;
            }
            let linked = app.admin("GET", url.path()).anonymous().send();
            assert_eq!(
                linked.status,
                200,
                "{} links to {}",
                page.path(),
                url.path()
            );
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
        assert_eq!(
            kinds.get(path).map(String::as_str),
            Some(expected),
            "{path}"
        );
    }
}

/// Follows all links from a site's first page. Every link must resolve, including its heading, and every image, script and style must
/// exist. Returns the paths of the pages and of all linked files.
fn walk_site(
    root: &Url,
    get: impl Fn(&Url) -> Option<(String, Vec<u8>)>,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut waiting = vec![root.clone()];
    let (mut ids, mut others) = (BTreeMap::new(), BTreeSet::new());
    let mut targets = Vec::new();
    while let Some(url) = waiting.pop() {
        if ids.contains_key(url.path()) || others.contains(url.path()) {
            continue;
        }
        let Some((kind, content)) = get(&url) else {
            panic!("{url} is not there: {targets:?}")
        };
        let is_page = kind == "text/html" && url.path().ends_with(".html") || url == *root;
        if !is_page {
            others.insert(url.path().to_owned());
            continue;
        }
        let text = String::from_utf8(content).unwrap();
        ids.insert(
            url.path().to_owned(),
            named(&text, "id").into_iter().collect::<BTreeSet<_>>(),
        );
        for target in [
            named(&text, "href"),
            named(&text, "src"),
            named(&text, "data-index"),
        ]
        .concat()
        {
            // Links within the site are relative.
            let mut to = url.join(&target).unwrap();
            if (to.scheme(), to.host(), to.port()) == (root.scheme(), root.host(), root.port()) {
                assert!(
                    !target.starts_with('/') && !target.contains(".md#"),
                    "{url} links to {target}"
                );
                targets.push((url.path().to_owned(), to.clone()));
                to.set_fragment(None);
                waiting.push(to);
            }
        }
        for loaded in named(&text, "src") {
            assert!(!loaded.contains("//"), "{url} loads {loaded}");
        }
    }
    for (from, to) in targets {
        if let (Some(fragment), Some(ids)) = (to.fragment(), ids.get(to.path())) {
            assert!(ids.contains(fragment), "{from} links to {to}");
        }
    }
    (ids.into_keys().collect(), others)
}

#[test]
fn every_link_of_the_site_leads_to_a_page_and_a_heading_that_exist() {
    let app =
        TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    let root = Url::parse(&app.admin).unwrap().join("/docs/").unwrap();
    let (pages, others) = walk_site(&root, |url| {
        let answer = app.admin("GET", url.path()).anonymous().send();
        // The console redirects to its sign-in page.
        let is_there = answer.status == 200 || (answer.status == 303 && url.path() == "/");
        let kind = answer
            .headers
            .get("content-type")
            .map(|kind| kind.split(';').next().unwrap().to_owned());
        is_there.then(|| (kind.unwrap_or_default(), answer.body))
    });
    let of_site: BTreeSet<_> = Site::new(Form::Served)
        .paths()
        .filter(|path| path.ends_with(".html"))
        .collect();
    let reached: BTreeSet<_> = pages
        .iter()
        .filter_map(|path| path.strip_prefix("/docs/"))
        .map(str::to_owned)
        .collect();
    let missing: Vec<_> = of_site.difference(&reached).collect();
    assert!(missing.is_empty(), "no page links to {missing:?}");
    for path in [
        "/",
        "/docs/api",
        "/docs/running.md",
        "/README.md",
        "/docs/assets/site.css",
        "/docs/guide/call.png",
    ] {
        assert!(others.contains(path), "{path}: {others:?}");
    }
}

#[test]
fn every_link_of_the_static_site_leads_to_a_file_of_it() {
    let site = Site::new(Form::Static);
    let root = Url::parse("file:///site/index.html").unwrap();
    let (pages, others) = walk_site(&root, |url| {
        let path = url.path().strip_prefix("/site/")?;
        let kind = if path.ends_with(".html") {
            "text/html"
        } else {
            ""
        };
        Some((kind.to_owned(), site.content(path)?.into_owned()))
    });
    let reached: BTreeSet<_> = pages
        .union(&others)
        .filter_map(|path| path.strip_prefix("/site/"))
        .map(str::to_owned)
        .collect();
    assert_eq!(reached, site.paths().collect());
}

#[test]
fn a_page_is_one_document_with_its_navigation() {
    let app = TestApp::start();
    let answer = app.admin("GET", "/docs/webhooks.html").anonymous().send();
    let text = answer.text();
    assert_eq!((answer.status, kind(&answer)), (200, "text/html"));
    for part in [
        "<title>Webhooks · Conclave</title>",
        "<a href=\"webhooks.html\" aria-current=\"page\">Webhooks</a>",
        "<a href=\"sdk/go.html\">Conclave for Go</a>",
        "<a rel=\"prev\" href=\"embedding.html\">",
        "<a rel=\"next\" href=\"recordings.html\">",
        "<a href=\"#signatures\">Signatures</a>",
        "<h2 id=\"signatures\">Signatures",
        "<a href=\"webhooks.md\">This page as Markdown</a>",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let policy = &answer.headers["content-security-policy"];
    assert!(
        policy.contains("script-src 'self'; style-src 'self';") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert!(
        !text.contains(" style=") && !text.contains("<script>"),
        "{text}"
    );
    assert_eq!(answer.headers["cache-control"], "no-cache");
    let root = app.admin("GET", "/docs/").anonymous().send();
    assert_eq!(
        root.body,
        app.admin("GET", "/docs/index.html").anonymous().send().body
    );
}

#[test]
fn the_address_without_a_slash_leads_to_the_pages() {
    let app = TestApp::start();
    let answer = app.admin("GET", "/docs").anonymous().send();
    assert_eq!(
        (answer.status, answer.headers["location"].as_str()),
        (307, "/docs/")
    );
}

#[test]
fn the_search_knows_the_sections_of_all_pages() {
    let app = TestApp::start();
    let script = app
        .admin("GET", "/docs/assets/search-index.js")
        .anonymous()
        .send();
    assert_eq!(kind(&script), "text/javascript");
    let script = script.text();
    let json = script
        .strip_prefix("globalThis.searchIndex = ")
        .and_then(|rest| rest.strip_suffix(";\n"))
        .unwrap();
    let index: Value = serde_json::from_str(json).unwrap();
    let pages = index["pages"].as_array().unwrap();
    assert!(
        pages.contains(&serde_json::json!(["Webhooks", "webhooks.html"])),
        "{pages:?}"
    );
    let sections = index["sections"].as_array().unwrap();
    let stop = sections
        .iter()
        .find(|section| section[2] == "stopping")
        .unwrap();
    assert_eq!(
        (
            stop[1].as_str(),
            pages[stop[0].as_u64().unwrap() as usize][1].as_str()
        ),
        (Some("Stopping"), Some("running.html"))
    );
    assert!(stop[3].as_str().unwrap().contains("SIGTERM"), "{stop}");
    assert!(sections.len() > 300, "{}", sections.len());
}
