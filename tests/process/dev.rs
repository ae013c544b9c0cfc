//! Developer experience of `conclave dev`: a key that survives restarts, and lines to paste at a terminal.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::deployment::{Deployment, Running};
use crate::support::eventually;

/// Length of a key's prefix, which identifies it.
const PREFIX: usize = 12;

fn key_file(deployment: &Deployment) -> PathBuf {
    deployment.data().join("dev.key")
}

fn kept_key(deployment: &Deployment) -> String {
    let text = fs::read_to_string(key_file(deployment)).unwrap();
    text.strip_suffix('\n').unwrap().to_owned()
}

/// Writes a stopped server's key file.
fn put_key(deployment: &Deployment, text: &str, mode: u32) {
    fs::write(key_file(deployment), text).unwrap();
    fs::set_permissions(key_file(deployment), fs::Permissions::from_mode(mode)).unwrap();
}

fn assert_works(running: &Running) {
    running.get("/v1/rooms").send().expect(200);
}

/// Prefixes of the project's valid keys.
fn valid_keys(deployment: &Deployment, running: &Running) -> Vec<String> {
    let output = deployment
        .command(&["key", "list", &running.project, "--json"])
        .output()
        .unwrap();
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let valid = listed["keys"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|key| key["revoked_at"].is_null());
    valid
        .map(|key| key["prefix"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn serve_gives_the_key_of_dev_to_no_page_and_takes_no_calls_from_one() {
    let deployment = Deployment::new();
    let mut running = deployment.start();
    let key = running.key.clone();
    assert_eq!(
        running
            .admin("GET", "/docs/api/settings.json")
            .send()
            .expect(200)["key"],
        *key
    );
    let from_viewer = running
        .get("/v1/rooms")
        .header("origin", &running.admin)
        .send();
    from_viewer.expect(200);
    assert_eq!(running.terminate(), Some(0));

    let mut serving = deployment.serve();
    for path in [
        "/docs/",
        "/docs/api",
        "/docs/api/settings.json",
        "/docs/api/viewer.js",
        "/openapi.json",
        "/ext/openapi.json",
    ] {
        let answer = serving.admin("GET", path).send();
        assert_eq!(
            (answer.status, answer.text().contains(&key)),
            (200, false),
            "{path}"
        );
    }
    let given = serving
        .admin("GET", "/docs/api/settings.json")
        .send()
        .expect(200);
    assert_eq!((given.get("api"), given.get("key")), (None, None));
    assert!(
        given["note"]
            .as_str()
            .unwrap()
            .contains("http.console_origins"),
        "{given}"
    );
    serving.key = key;
    assert_works(&serving);
    let refused = serving
        .get("/v1/rooms")
        .header("origin", &serving.admin)
        .send();
    refused.expect_error(403, "origin_rejected", None);
}

#[test]
fn the_key_survives_a_stop_and_a_kill_in_a_file_of_its_owner() {
    let deployment = Deployment::new();
    let mut running = deployment.start();
    let key = running.key.clone();
    assert_eq!(kept_key(&deployment), key);
    let mode = fs::metadata(key_file(&deployment))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(running.terminate(), Some(0));

    let restarted = deployment.start();
    assert_eq!(restarted.key, key);
    assert_works(&restarted);
    restarted.kill();
    let recovered = deployment.start();
    assert_eq!(recovered.key, key);
    assert_works(&recovered);
    assert_eq!(valid_keys(&deployment, &recovered), [&key[..PREFIX]]);
    assert!(
        !deployment.log().contains(&key[PREFIX..]),
        "the key is in the log"
    );
}

#[test]
fn a_revoked_key_is_replaced_at_the_next_start() {
    let deployment = Deployment::new();
    let running = deployment.start();
    let revoked = running.key.clone();
    deployment.run_command(&["key", "revoke", &revoked[..PREFIX]]);
    running.kill();
    let restarted = deployment.start();
    assert_ne!(restarted.key, revoked);
    assert_works(&restarted);
    assert_eq!(kept_key(&deployment), restarted.key);
    restarted
        .get("/v1/rooms")
        .bearer(&revoked)
        .send()
        .expect_error(401, "unauthorized", None);
    // The log is written beside the start.
    eventually(|| deployment.log().contains("dev.key"));
    let log = deployment.log();
    assert!(!log.contains(&revoked[PREFIX..]) && !log.contains(&restarted.key[PREFIX..]));
}

#[test]
fn a_key_that_is_lost_foreign_damaged_or_readable_by_others_is_replaced_and_revoked() {
    let (deployment, other) = (Deployment::new(), Deployment::new());
    let foreign = other.start().key.clone();
    let first = deployment.start();
    // A valid key, but of another project.
    let live = deployment
        .command(&["project", "create", "--name", "live", "--json"])
        .output()
        .unwrap();
    let live: Value = serde_json::from_slice(&live.stdout).unwrap();
    let created = deployment.command(&[
        "key",
        "create",
        live["project_id"].as_str().unwrap(),
        "--json",
    ]);
    let created: Value = serde_json::from_slice(&{ created }.output().unwrap().stdout).unwrap();
    let of_other_project = created["key"].as_str().unwrap().to_owned();
    let mut last = first.key.clone();
    first.kill();
    // The last key's prefix with another suffix finds that key's row.
    let forged = |key: &str| format!("{}{}", &key[..PREFIX], "a".repeat(key.len() - PREFIX));
    for (text, mode) in [
        (Some(foreign.clone()), 0o600),
        (Some(forged(&last)), 0o600),
        (Some(of_other_project), 0o600),
        (Some("vk_test_no key".into()), 0o600),
        (Some(String::new()), 0o600),
        (None, 0o600),
    ] {
        match &text {
            Some(text) => put_key(&deployment, text, mode),
            None => fs::remove_file(key_file(&deployment)).unwrap(),
        }
        let running = deployment.start();
        assert!(
            running.key != last && Some(&running.key) != text.as_ref(),
            "{text:?}"
        );
        assert_eq!(kept_key(&deployment), running.key);
        assert_works(&running);
        assert_eq!(
            valid_keys(&deployment, &running),
            [&running.key[..PREFIX]],
            "{text:?}"
        );
        last.clone_from(&running.key);
    }
    put_key(&deployment, &format!("{last}\n"), 0o644);
    let running = deployment.start();
    assert_ne!(running.key, last, "others may have read it");
    assert_eq!(
        fs::metadata(key_file(&deployment))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    assert!(!deployment.log().contains(&foreign[PREFIX..]));
}

/// A server in a terminal created by `script`, killed when dropped.
struct AtTerminal(Child);

impl Drop for AtTerminal {
    fn drop(&mut self) {
        // Closing the terminal ends the server.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_lines_below_the_ready_line_work_when_they_are_pasted() {
    let is_there = |program: &str| {
        Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok()
    };
    if !["script", "bash", "curl"].into_iter().all(is_there) {
        println!("skipped: script, bash or curl is not on this machine");
        return;
    }
    let deployment = Deployment::new();
    fs::create_dir_all(deployment.data()).unwrap();
    let program = format!(
        "{} --data {} dev --listen 127.0.0.1:0 --admin 127.0.0.1:0",
        env!("CARGO_BIN_EXE_conclave"),
        deployment.data().display()
    );
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &program, "/dev/null"]);
    script
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("SHELL", "/bin/sh")
        .envs(deployment.url());
    script
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .current_dir(deployment.data());
    let mut server = AtTerminal(script.spawn().unwrap());
    let lines = BufReader::new(server.0.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut shown: Vec<String> = Vec::new();
    for line in lines {
        shown.push(line.trim_end_matches('\r').to_owned());
        if line.contains("trigger participant.joined") {
            break;
        }
    }
    let ready = shown
        .iter()
        .position(|line| line.starts_with('{'))
        .unwrap_or_else(|| panic!("{shown:#?}"));
    let pasted: Vec<_> = shown[ready + 1..]
        .iter()
        .map(|line| line.trim_start())
        .filter(|line| line.starts_with("export ") || line.starts_with("curl "))
        .collect();
    assert_eq!(pasted.len(), 4, "{shown:#?}");
    assert!(
        pasted[0].starts_with("export CONCLAVE_URL=http://127.0.0.1:"),
        "{shown:#?}"
    );
    let output = Command::new("bash")
        .args(["-euc", &pasted.join("\n")])
        .env_remove("CONCLAVE_KEY")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [room, token, code] = answers.as_slice() else {
        panic!("three answers, not {printed}")
    };
    assert!(
        room["name"].as_str().unwrap().starts_with("hello-"),
        "{printed}"
    );
    assert_eq!(
        (&token["role"], &code["role"]),
        (&"host".into(), &"guest".into()),
        "{printed}"
    );
    assert_eq!(
        shown
            .iter()
            .filter(|line| line.contains(" listen --forward "))
            .count(),
        1,
        "{shown:#?}"
    );
}
