//! `/sdk/` on the admin listener: the SDK packages for package managers, and the page with the commands.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use conclave::config::HostName;
use conclave_model::Secret;
use flate2::Crc;
use flate2::read::{DeflateDecoder, GzDecoder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{Request, Response, TestApp};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The address in the documents.
const SHOWN: &str = "127.0.0.1:8081";

type Files = BTreeMap<String, Vec<u8>>;

fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// Returns the files in a zip archive, read from its central directory, with verified checksums.
fn unzip(archive: &[u8]) -> Files {
    let end = archive
        .windows(4)
        .rposition(|bytes| bytes == b"PK\x05\x06")
        .unwrap();
    let mut at = number(&archive[end + 16..end + 20]);
    let mut files = Files::new();
    for _ in 0..number(&archive[end + 10..end + 12]) {
        let entry = &archive[at..];
        assert_eq!(&entry[..4], b"PK\x01\x02");
        let field = |start: usize, length: usize| number(&entry[start..start + length]);
        let (name, extra, comment) = (field(28, 2), field(30, 2), field(32, 2));
        let local = &archive[field(42, 4)..];
        let data = &local[30 + number(&local[26..28]) + number(&local[28..30])..][..field(20, 4)];
        assert_eq!(field(10, 2), 8, "files are deflated");
        let (mut content, mut sum) = (Vec::new(), Crc::new());
        DeflateDecoder::new(data).read_to_end(&mut content).unwrap();
        sum.update(&content);
        assert_eq!(
            (content.len(), sum.sum() as usize),
            (field(24, 4), field(16, 4))
        );
        files.insert(
            String::from_utf8(entry[46..46 + name].to_vec()).unwrap(),
            content,
        );
        at += 46 + name + extra + comment;
    }
    files
}

/// Returns the files in a gzip-compressed tar archive.
fn untar(archive: &[u8]) -> Files {
    let mut bytes = Vec::new();
    GzDecoder::new(archive).read_to_end(&mut bytes).unwrap();
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.split(|byte| *byte == 0).next().unwrap().to_vec()).unwrap()
    };
    let (mut files, mut at) = (Files::new(), 0);
    while bytes[at] != 0 {
        let size = usize::from_str_radix(text(&bytes[at + 124..at + 136]).trim(), 8).unwrap();
        files.insert(
            text(&bytes[at..at + 100]),
            bytes[at + 512..at + 512 + size].to_vec(),
        );
        at += 512 + size.next_multiple_of(512);
    }
    files
}

fn get(app: &TestApp, path: &str) -> Response {
    app.admin("GET", path).anonymous().send()
}

/// Downloads a file, which must have this content type.
#[track_caller]
fn download(app: &TestApp, path: &str, content_type: &str) -> Vec<u8> {
    let answer = get(app, path);
    assert_eq!(
        (answer.status, answer.headers["content-type"].as_str()),
        (200, content_type),
        "{path}"
    );
    assert_eq!(
        answer.headers["x-content-type-options"], "nosniff",
        "{path}"
    );
    answer.body
}

fn guarded() -> TestApp {
    TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")))
}

/// Returns the path of the Go module.
fn module() -> String {
    let go_mod =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/go/go.mod")).unwrap();
    go_mod
        .lines()
        .next()
        .unwrap()
        .strip_prefix("module ")
        .unwrap()
        .to_owned()
}

/// Returns the path of a file in the Go module, as Go requests it: capital letters are escaped with `!`, and so is `!` itself.
fn go_path(module: &str, end: &str) -> String {
    let escaped = ('A'..='Z').fold(module.to_owned(), |path, letter| {
        path.replace(letter, &format!("%21{}", letter.to_ascii_lowercase()))
    });
    format!("/sdk/go/{escaped}/{end}")
}

#[test]
fn npm_gets_the_packages_of_this_version_by_both_names() {
    let app = guarded();
    for (name, file) in [
        ("conclave-sdk", "package/dist/esm/client.js"),
        ("conclave-react", "package/dist/index.js"),
    ] {
        let archive = download(&app, &format!("/sdk/{name}.tgz"), "application/gzip");
        assert_eq!(
            archive,
            download(
                &app,
                &format!("/sdk/{name}-{VERSION}.tgz"),
                "application/gzip"
            )
        );
        let files = untar(&archive);
        let package: Value = serde_json::from_slice(&files["package/package.json"]).unwrap();
        assert_eq!(
            (&package["name"], &package["version"]),
            (&json!(name), &json!(VERSION))
        );
        assert!(files[file].len() > 100);
        assert!(
            files.contains_key("package/README.md") && files.contains_key("package/LICENSE"),
            "{:?}",
            files.keys()
        );
    }
}

#[test]
fn pip_gets_the_wheel_of_this_version() {
    let path = format!("/sdk/conclave_sdk-{VERSION}-py3-none-any.whl");
    let files = unzip(&download(&guarded(), &path, "application/octet-stream"));
    let metadata = &files[&format!("conclave_sdk-{VERSION}.dist-info/METADATA")];
    let metadata = String::from_utf8(metadata.clone()).unwrap();
    let lines: Vec<_> = metadata.lines().collect();
    for line in ["Name: conclave-sdk", &format!("Version: {VERSION}")] {
        assert!(lines.contains(&line), "{metadata}");
    }
    assert!(
        files.contains_key("conclave_sdk/__init__.py")
            && files.contains_key("conclave_sdk/py.typed")
    );
}

#[test]
fn go_gets_the_module_as_from_a_proxy() {
    let (app, module) = (guarded(), module());
    let file = |end: &str, content_type: &str| download(&app, &go_path(&module, end), content_type);
    let text = "text/plain; charset=utf-8";
    assert_eq!(file("@v/list", text), format!("v{VERSION}\n").as_bytes());
    for end in ["@latest", &format!("@v/v{VERSION}.info")] {
        let info: Value = serde_json::from_slice(&file(end, "application/json")).unwrap();
        assert_eq!(info, json!({"Version": format!("v{VERSION}")}), "{end}");
    }
    let go_mod = file(&format!("@v/v{VERSION}.mod"), text);
    let files = unzip(&file(&format!("@v/v{VERSION}.zip"), "application/zip"));
    let folder = format!("{module}@v{VERSION}/");
    assert_eq!(files[&format!("{folder}go.mod")], go_mod);
    assert!(go_mod.starts_with(format!("module {module}\n").as_bytes()));
    assert!(files.contains_key(&format!("{folder}webhooks/webhooks.go")));
    assert!(
        files.keys().all(|name| name.starts_with(&folder)),
        "{:?}",
        files.keys()
    );
}

#[test]
fn anything_else_is_not_found_so_that_go_asks_its_next_proxy() {
    let (app, module) = (guarded(), module());
    let of_module = |end: &str| go_path(&module, end);
    let (repository, _) = module.rsplit_once('/').unwrap();
    let missing = [
        "/sdk/conclave-sdk-0.0.9.tgz".to_owned(),
        "/sdk/conclave_sdk.whl".to_owned(),
        "/sdk/none/".to_owned(),
        "/sdk/..%2fCargo.toml".to_owned(),
        "/sdk/go/github.com/google/uuid/@v/list".to_owned(),
        go_path(repository, "@v/list"),
        of_module(""),
        of_module("@v/v0.0.9.info"),
        of_module("@v/v0.0.9.zip"),
        of_module("webhooks/@v/list"),
    ];
    for path in missing {
        let error = get(&app, &path);
        error.expect_error(404, "not_found", None);
        assert!(
            error
                .text()
                .contains("/sdk/ for the packages of this server's version"),
            "{path}: {}",
            error.text()
        );
    }
    let refused = app.admin("POST", "/sdk/conclave-sdk.tgz").send();
    refused.expect_error(405, "method_not_allowed", None);
    assert_eq!(refused.headers["allow"], "GET, HEAD");
    app.get("/sdk/conclave-sdk.tgz")
        .send()
        .expect_error(404, "not_found", None);
}

#[test]
fn a_file_that_a_client_has_is_not_sent_again() {
    let app = guarded();
    let path = "/sdk/conclave-sdk.tgz";
    let first = get(&app, path);
    let tag = first.headers["etag"].clone();
    assert_eq!(first.headers["cache-control"], "no-cache");
    assert_ne!(tag, get(&app, "/sdk/conclave-react.tgz").headers["etag"]);
    let ask = |known: &str| {
        app.admin("GET", path)
            .anonymous()
            .header("if-none-match", known)
            .send()
    };
    for known in [
        tag.clone(),
        format!("W/{tag}"),
        format!("\"other\", {tag}"),
        "*".to_owned(),
    ] {
        let again = ask(&known);
        assert_eq!(
            (again.status, again.body.len(), &again.headers["etag"]),
            (304, 0, &tag),
            "{known}"
        );
    }
    assert_eq!(ask("\"other\"").body, first.body);
    let head = app.admin("HEAD", path).anonymous().send();
    assert_eq!(
        (head.status, head.body.len(), &head.headers["etag"]),
        (200, 0, &tag)
    );
    assert_eq!(head.headers["content-length"], first.body.len().to_string());
}

/// Returns the page for a request to a host.
fn page(app: &TestApp, host: &str) -> Response {
    app.admin("GET", "/sdk/")
        .anonymous()
        .header("host", host)
        .send()
}

/// Returns a document's first block of commands.
fn commands(document: &str) -> String {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap();
    let (_, block) = text.split_once("```bash\n").unwrap();
    block.split_once("```").unwrap().0.trim().to_owned()
}

#[test]
fn the_page_shows_the_commands_of_the_documents() {
    let answer = page(&guarded(), SHOWN);
    assert_eq!(
        (answer.status, answer.headers["content-type"].as_str()),
        (200, "text/html; charset=utf-8")
    );
    let shown = answer.text();
    for language in ["typescript", "python", "go", "react"] {
        let command = commands(&format!("sdk/{language}/README.md"));
        assert!(
            command.contains(&format!("http://{SHOWN}/sdk/")),
            "{command}"
        );
        assert!(
            shown.contains(&format!(">{command}</code>")),
            "{command} is not in {shown}"
        );
    }
}

#[test]
fn every_link_of_the_page_works_and_checksums_are_those_of_the_files() {
    let app = guarded();
    let shown = page(&app, SHOWN).text();
    let links: Vec<_> = shown
        .split("href=\"/sdk/")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let mut archives = 0;
    for link in links.iter().filter(|link| !link.is_empty()) {
        let file = get(&app, &format!("/sdk/{link}"));
        assert_eq!(file.status, 200, "{link}");
        if file.headers.contains_key("etag") {
            let sum = hex::encode(Sha256::digest(&file.body));
            assert!(
                shown.contains(&format!("SHA-256 <code>{sum}</code>")),
                "{link}: {sum}"
            );
            archives += 1;
        }
    }
    assert_eq!((links.len(), archives), (9, 4), "{links:?}");
    assert_eq!(get(&app, "/sdk").status, 200);
}

#[test]
fn the_commands_name_the_server_as_the_request_does() {
    let app = TestApp::start_with(|config| {
        config.admin.token = Some(Secret::new("let-me-in-please"));
        config.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    });
    let secure = |request: Request| request.header("x-forwarded-proto", "https").send().text();
    let behind_proxy = app
        .admin("GET", "/sdk/")
        .anonymous()
        .header("host", "conclave.internal");
    assert!(
        secure(behind_proxy).contains("npm install https://conclave.internal/sdk/conclave-sdk.tgz")
    );
    assert!(
        page(&app, "[::1]:81")
            .text()
            .contains("npm install http://[::1]:81/sdk/conclave-sdk.tgz")
    );
    for host in ["$(id)", "a;id", "a&b", "'a'", "a@b", ""] {
        let refused = page(&app, host);
        assert_eq!(refused.status, 400, "{host}: {}", refused.text());
        assert!(!refused.text().contains("npm install"), "{host}");
    }
}

#[test]
fn packages_come_from_any_allowed_host_and_from_no_other() {
    let app = TestApp::start_with(|config| {
        config.admin.hosts = vec![HostName::parse("conclave.internal").unwrap()];
    });
    let ask = |host: &str| {
        app.admin("GET", "/sdk/conclave-sdk.tgz")
            .anonymous()
            .header("host", host)
            .send()
            .status
    };
    for host in [
        "127.0.0.1:8081",
        "localhost:8081",
        "[::1]:8081",
        "conclave.internal",
    ] {
        assert_eq!(ask(host), 200, "{host}");
    }
    assert_eq!(ask("rebind.example"), 403);
}
