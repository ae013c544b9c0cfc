//! Examples in `docs/from-*.md`: each JSON block below `<!-- send METHOD PATH -->` is sent, in order.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::TestApp;

/// Returns a page's requests: method, path and body.
fn requests(page: &str) -> Vec<(&str, &str, Value)> {
    let marked = page.split("<!-- send ").skip(1);
    let read = |text| {
        let (request, rest): (&str, &str) =
            str::split_once(text, " -->\n```json\n").expect("a block of JSON");
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let body = rest.split("\n```").next().unwrap_or_default();
        (method, path, serde_json::from_str(body).expect("JSON"))
    };
    marked.map(read).collect()
}

#[test]
fn the_requests_of_each_page_are_accepted() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let paths = fs::read_dir(docs)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let pages: Vec<_> = paths
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("from-"))
        })
        .collect();
    assert_eq!(pages.len(), 4, "{pages:?}");
    for page in pages {
        let app = TestApp::start();
        let text = fs::read_to_string(&page).unwrap();
        let requests = requests(&text);
        assert!(requests.len() >= 2, "{}", page.display());
        for (method, path, body) in requests {
            let response = app.request(method, path).json(body).send();
            assert_eq!(
                response.status,
                201,
                "{}: {method} {path}: {}",
                page.display(),
                response.text()
            );
        }
    }
}
