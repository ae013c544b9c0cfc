//! `/files/recordings/{egress_id}`: recording files on this machine, for clients with a key or a link.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::{NEVER, Request, TestApp, WAIT_LIMIT, eventually};

const CONTENT: &[u8] = b"0123456789";

/// Starts a recording in a new room, to a file with that name. Returns the egress id.
fn start(app: &TestApp, filepath: &str) -> String {
    let room = filepath.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    app.room(&room);
    app.join(&room, "alice", "host");
    let body = json!({"type": "room_composite", "filepath": filepath});
    let recording = app
        .post(&format!("/v1/rooms/{room}/recordings"))
        .json(body)
        .send()
        .expect(201);
    recording["egress_id"].as_str().unwrap().to_owned()
}

/// Returns the path of a recording's file.
fn file(app: &TestApp, filepath: &str) -> PathBuf {
    app.data()
        .join("recordings")
        .join(&app.project)
        .join(filepath)
}

/// Writes a recording's file, as the media plane would.
fn write(app: &TestApp, filepath: &str, content: &[u8]) {
    let path = file(app, filepath);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn end(app: &TestApp, id: &str) {
    app.drive(id, json!({"status": "complete"}));
    eventually(|| app.get(&format!("/v1/recordings/{id}")).send().json()["status"] == "complete");
}

/// Makes a finished recording with its file.
fn recorded(app: &TestApp, filepath: &str) -> String {
    let id = start(app, filepath);
    end(app, &id);
    write(app, filepath, CONTENT);
    id
}

fn path(id: &str) -> String {
    format!("/files/recordings/{id}")
}

/// Creates a link to a recording's file.
fn link(app: &TestApp, id: &str, query: &str) -> Value {
    app.get(&format!("{}/link{query}", path(id)))
        .send()
        .expect(200)
}

#[test]
fn the_file_of_a_recording_is_sent_with_its_type_and_its_name() {
    let app = TestApp::start();
    let id = recorded(&app, "talks/first.mp4");
    let whole = app.get(&path(&id)).send();
    assert_eq!((whole.status, whole.body.as_slice()), (200, CONTENT));
    for (header, expected) in [
        ("content-type", "video/mp4"),
        ("content-disposition", "attachment; filename=\"first.mp4\""),
        ("content-length", "10"),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "private, no-cache"),
    ] {
        assert_eq!(whole.headers[header], expected);
    }
    let head = app.request("HEAD", &path(&id)).send();
    assert_eq!(
        (
            head.status,
            head.body.len(),
            head.headers["content-length"].as_str()
        ),
        (200, 0, "10")
    );
    assert_eq!(head.headers["etag"], whole.headers["etag"]);
    app.post(&path(&id))
        .send()
        .expect_error(405, "method_not_allowed", None);
}

#[test]
fn a_name_with_letters_beyond_ascii_is_sent_in_both_forms() {
    let app = TestApp::start();
    for (path_of_file, expected) in [
        (
            "talks/Küche \"1\".mp4",
            "attachment; filename=\"K_che \\\"1\\\".mp4\"; filename*=UTF-8''K%C3%BCche%20%221%22.mp4",
        ),
        (
            "会議.mp4",
            "attachment; filename=\"__.mp4\"; filename*=UTF-8''%E4%BC%9A%E8%AD%B0.mp4",
        ),
        ("a'b;c%.mp4", "attachment; filename=\"a'b;c%.mp4\""),
    ] {
        let id = recorded(&app, path_of_file);
        let [get, head] = ["GET", "HEAD"].map(|method| app.request(method, &path(&id)).send());
        assert_eq!(
            (get.status, get.headers["content-disposition"].as_str()),
            (200, expected)
        );
        assert_eq!(head.headers["content-disposition"], expected);
    }
}

#[test]
fn a_part_is_sent_as_long_as_the_file_is_the_same() {
    let app = TestApp::start();
    let id = recorded(&app, "a.mp4");
    let part = |range: &str| app.get(&path(&id)).header("range", range);
    let answer = |request: Request| {
        let response = request.send();
        (
            response.status,
            response
                .headers
                .get("content-range")
                .cloned()
                .unwrap_or_default(),
            response.text(),
        )
    };
    let of = |status, range: &str, text: &str| (status, range.to_owned(), text.to_owned());
    assert_eq!(answer(part("bytes=2-4")), of(206, "bytes 2-4/10", "234"));
    assert_eq!(answer(part("bytes=8-")), of(206, "bytes 8-9/10", "89"));
    assert_eq!(answer(part("bytes=-1")), of(206, "bytes 9-9/10", "9"));
    assert_eq!(answer(part("bytes=0-0,2-2")), of(200, "", "0123456789"));
    assert_eq!(answer(part("bytes=10-")), of(416, "bytes */10", ""));
    let whole = app.get(&path(&id)).send();
    let (tag, date) = (
        whole.headers["etag"].clone(),
        whole.headers["last-modified"].clone(),
    );
    for same in [&tag, &date] {
        assert_eq!(
            answer(part("bytes=2-4").header("if-range", same)).0,
            206,
            "{same}"
        );
    }
    for other in ["\"another\"", "Thu, 01 Jan 1970 00:00:00 GMT", "nonsense"] {
        assert_eq!(
            answer(part("bytes=2-4").header("if-range", other)),
            of(200, "", "0123456789"),
            "{other}"
        );
    }
    let known = app.get(&path(&id)).header("if-none-match", &tag).send();
    assert_eq!((known.status, known.body.len()), (304, 0));
    write(&app, "a.mp4", b"another");
    assert_eq!(
        answer(part("bytes=2-4").header("if-range", &tag)),
        of(200, "", "another")
    );
}

#[test]
fn a_file_is_there_for_its_project_alone_and_once_it_is_complete() {
    let app = TestApp::start();
    let id = start(&app, "a.mp4");
    write(&app, "a.mp4", CONTENT);
    let refused = |id: &str| app.get(&path(id)).send();
    refused(&id).expect_error(404, "recording_not_found", None);
    assert!(refused(&id).text().contains("after it has ended"));
    end(&app, &id);
    app.get(&path(&id)).send();
    let other = app
        .post("/v1/rooms/a-mp4/broadcasts")
        .json(json!({"urls": ["rtmp://8.8.8.8/live/key"]}));
    let broadcast = other.send().expect(201)["egress_id"]
        .as_str()
        .unwrap()
        .to_owned();
    for unknown in [broadcast.as_str(), "EG_none", "%20"] {
        refused(unknown).expect_error(404, "recording_not_found", None);
    }
    fs::remove_file(file(&app, "a.mp4")).unwrap();
    assert!(refused(&id).text().contains("no file on this machine"));
    std::os::unix::fs::symlink(app.data().join("encryption.key"), file(&app, "a.mp4")).unwrap();
    refused(&id).expect_error(404, "recording_not_found", None);
    for request in [
        app.get(&path(&id)).anonymous(),
        app.get(&path(&id)).bearer("vk_test_none"),
    ] {
        request.send().expect_error(401, "unauthorized", None);
    }
}

/// Proves S-26.
#[test]
fn a_link_needs_no_key_and_expires() {
    let app = TestApp::start();
    let id = recorded(&app, "a.mp4");
    let made = link(&app, &id, "");
    assert_eq!(made["expires_at"], "2026-03-01T13:00:00.000Z");
    let open = |path: &str| Request::new("GET", format!("{}{path}", app.api)).send();
    let path_of = |link: &Value| link["path"].as_str().unwrap().to_owned();
    let link_path = path_of(&made);
    assert_eq!(open(&link_path).body, CONTENT);
    let short = link(&app, &id, "?expires_in_seconds=60");
    app.advance(Duration::from_secs(60));
    open(&path_of(&short)).expect_error(401, "unauthorized", None);
    assert!(open(&path_of(&short)).text().contains("expired"));
    let other = recorded(&app, "b.mp4");
    // Replaces the signature's last digit.
    let last = if link_path.ends_with('0') { '1' } else { '0' };
    for altered in [
        link_path.replace(&id, &other),
        link_path.replace(&app.project, "prj_000000000000"),
        link_path.replace("expires=17", "expires=18"),
        format!("{}{last}", &link_path[..link_path.len() - 1]),
    ] {
        assert_ne!(altered, link_path);
        open(&altered).expect_error(401, "unauthorized", None);
    }
    open(&format!("{}?project={}", path(&id), app.project)).expect_error(
        400,
        "invalid_request",
        Some("expires"),
    );
    for seconds in ["0", "604801", "x"] {
        let refused = app
            .get(&format!("{}/link?expires_in_seconds={seconds}", path(&id)))
            .send();
        refused.expect_error(400, "invalid_request", Some("expires_in_seconds"));
    }
    let unfinished = start(&app, "c.mp4");
    app.get(&format!("{}/link", path(&unfinished)))
        .send()
        .expect_error(404, "recording_not_found", None);
    app.get(&format!("{}/link", path(&id)))
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
    let app = app.restart();
    let again = Request::new("GET", format!("{}{link_path}", app.api)).send();
    assert_eq!(
        again.body, CONTENT,
        "nothing is stored of a link, and it stays valid"
    );
}

#[test]
fn the_command_prints_a_link_that_opens() {
    let app = TestApp::start();
    let id = recorded(&app, "a.mp4");
    let command = |arguments: &[&str]| {
        app.program()
            .args(["recording", "link"])
            .args(arguments)
            .output()
            .unwrap()
    };
    let printed = command(&[&id, "--expires", "10m"]);
    assert!(
        printed.status.success(),
        "{}",
        String::from_utf8_lossy(&printed.stderr)
    );
    let url = String::from_utf8(printed.stdout).unwrap();
    assert!(
        url.starts_with(&format!("{}/files/recordings/{id}?", app.api)),
        "{url}"
    );
    assert_eq!(
        Request::new("GET", url.trim().to_owned()).send().body,
        CONTENT
    );
    let json: Value = serde_json::from_slice(&command(&[&id, "--json"]).stdout).unwrap();
    assert_eq!(
        json.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["expires_at", "url"]
    );
    for (arguments, code, problem) in [
        (&["EG_none"][..], 1, "no recording EG_none"),
        (&[&id, "--expires", "8d"], 2, "7 days"),
        (&[&id, "--expires", "soon"], 2, "10m, 1h or 7d"),
    ] {
        let refused = command(arguments);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(code) && message.contains(problem),
            "{message}"
        );
    }
}

/// Starts a download and reads only the status.
fn begin(app: &TestApp, path: &str, key: &str) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(app.api.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{key}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    (stream, line[9..].to_owned())
}

/// Starts an app with a recording larger than a connection's buffers and smaller than the tests' client accepts. Slow clients are not
/// disconnected.
fn with_large_recording() -> (TestApp, String) {
    let app = TestApp::start_with(|config| config.http.request_timeout = NEVER);
    let id = recorded(&app, "a.mp4");
    File::options()
        .append(true)
        .open(file(&app, "a.mp4"))
        .unwrap()
        .set_len(9 << 20)
        .unwrap();
    (app, id)
}

#[test]
fn a_project_has_a_bounded_number_of_downloads_at_once() {
    let (app, id) = with_large_recording();
    let key = format!("authorization: Bearer {}\r\n", app.key);
    let mut open: Vec<_> = (0..64).map(|_| begin(&app, &path(&id), &key)).collect();
    assert!(open.iter().all(|(_, status)| status == b"200"));
    let refused = app.get(&path(&id)).send();
    refused.expect_error(429, "rate_limited", None);
    assert!(refused.headers.contains_key("retry-after"));
    app.get("/v1/rooms").send().expect(200);
    drop(open.pop());
    eventually(|| app.request("HEAD", &path(&id)).send().status == 200);
}

/// Proves S-25.
#[test]
fn slow_downloads_by_link_take_nothing_from_the_key_of_the_project() {
    let (app, id) = with_large_recording();
    let link = link(&app, &id, "")["path"].as_str().unwrap().to_owned();
    let open: Vec<_> = (0..64).map(|_| begin(&app, &link, "")).collect();
    assert!(open.iter().all(|(_, status)| status == b"200"));
    app.get(&link)
        .anonymous()
        .send()
        .expect_error(429, "rate_limited", None);
    let file = app.get(&path(&id)).send();
    assert_eq!((file.status, file.body.len()), (200, 9 << 20));
    app.get("/v1/rooms").send().expect(200);
    drop(open);
    eventually(|| app.request("HEAD", &link).anonymous().send().status == 200);
}

#[test]
fn old_files_are_removed_and_the_console_says_so() {
    let app = TestApp::start_with(|config| {
        config.recordings.retention = Some(Duration::from_secs(24 * 3_600));
    });
    let [old, new, uploaded] =
        ["old.mp4", "new.mp4", "uploaded.mp4"].map(|name| recorded(&app, name));
    app.records().run(&format!(
        "UPDATE egresses SET destination_id = 'dst_1', destination = 'd' WHERE egress_id = '{uploaded}'"
    ));
    let written = |name: &str, seconds: u64| {
        let at =
            SystemTime::UNIX_EPOCH + Duration::from_millis(app.clock.now().millis().unsigned_abs());
        File::options()
            .append(true)
            .open(file(&app, name))
            .unwrap()
            .set_modified(at + Duration::from_secs(seconds))
            .unwrap();
    };
    written("old.mp4", 0);
    written("uploaded.mp4", 0);
    // As if it were another recording's file, which now has the name.
    written("new.mp4", 400 * 24 * 3_600);
    let shown = || {
        app.admin(
            "GET",
            &format!("/projects/{}/recordings/{old}", app.project),
        )
        .send()
        .text()
    };
    assert!(
        shown().contains("recordings.retention") && shown().contains("2026-03-02"),
        "{}",
        shown()
    );
    app.advance(Duration::from_secs(24 * 3_600 - 1));
    app.get(&path(&old)).send();
    assert!(file(&app, "old.mp4").exists());
    eventually(|| {
        app.advance(Duration::from_secs(10 * 60));
        app.get(&path(&old))
            .send()
            .text()
            .contains("its file was removed at 2026-")
    });
    assert!(!file(&app, "old.mp4").exists());
    assert!(shown().contains("when it was removed"), "{}", shown());
    assert_eq!(app.get(&path(&new)).send().status, 200);
    assert!(file(&app, "new.mp4").exists() && file(&app, "uploaded.mp4").exists());
}
