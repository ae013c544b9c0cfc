//! `conclave check`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use livekit_double::{Double, Fault, Settings};

use crate::deployment::Deployment;

fn parts(stdout: &str) -> Vec<(&str, &str)> {
    stdout
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.next().unwrap())
        })
        .collect()
}

#[test]
fn check_prints_the_result_of_each_part_and_creates_nothing() {
    let mut deployment = Deployment::new();
    // As many files as any machine allows; and no WebRTC, for which many machines have small socket buffers.
    deployment.environment = vec![
        ("CONCLAVE_HTTP__MAX_CONNECTIONS", "100"),
        ("CONCLAVE_MEDIA__RTC__ENABLED", "false"),
    ];
    let all_ok = [
        ("ok", "configuration"),
        ("ok", "database"),
        ("ok", "encryption"),
        ("ok", "media"),
    ];
    let before = deployment.run(&["check"]);
    assert_eq!(
        (before.code, parts(&before.stdout)),
        (0, all_ok.into()),
        "{}",
        before.stderr
    );
    assert!(!deployment.data().exists());

    deployment.create_project();
    let after = deployment.run(&["check"]);
    assert_eq!(
        (after.code, parts(&after.stdout)),
        (0, all_ok.into()),
        "{}",
        after.stderr
    );
    assert!(
        after.stdout.contains("schema ") && after.stdout.contains("embedded"),
        "{}",
        after.stdout
    );

    let key = deployment.data().join("encryption.key");
    fs::rename(&key, deployment.dir.path().join("backup.key")).unwrap();
    let result = deployment.run(&["check"]);
    assert_eq!(
        (result.code, parts(&result.stdout)[2]),
        (1, ("FAIL", "encryption"))
    );
    assert!(result.stderr.contains("encryption") && !key.exists());
    deployment.environment = vec![("CONCLAVE_ENCRYPTION__KEY_FILE", "")];
    assert_eq!(deployment.run(&["check"]).code, 0);
    deployment.environment = vec![("CONCLAVE_LIMITS__BURST", "0")];
    assert_eq!(
        parts(&deployment.run(&["check"]).stdout),
        [("FAIL", "configuration")]
    );
}

#[test]
fn check_says_when_the_last_copy_of_the_database_was_made() {
    let mut deployment = Deployment::new();
    deployment.environment = vec![
        ("CONCLAVE_MEDIA__RTC__ENABLED", "false"),
        ("CONCLAVE_BACKUP__DIRECTORY", "backups"),
    ];
    let check = || deployment.run(&["check"]).stdout;
    assert!(
        parts(&check()).contains(&("ok", "backup")) && check().contains("no copy yet in backups"),
        "{}",
        check()
    );
    let backups = deployment.dir.path().join("backups");
    fs::create_dir(&backups).unwrap();
    for mode in [0o755, 0o750, 0o701] {
        fs::set_permissions(&backups, fs::Permissions::from_mode(mode)).unwrap();
        assert!(parts(&check()).contains(&("WARN", "backup")), "{}", check());
        assert!(
            check().contains(&format!("backups has mode {mode:o}")),
            "{}",
            check()
        );
    }
    fs::set_permissions(&backups, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(
        deployment
            .dir
            .path()
            .join("backups/conclave-2020-01-31T12-00-00.000Z.db"),
        "",
    )
    .unwrap();
    assert!(
        parts(&check()).contains(&("WARN", "backup"))
            && check().contains("2020-01-31T12:00:00.000Z"),
        "{}",
        check()
    );
    fs::write(
        deployment
            .dir
            .path()
            .join("backups/conclave-2999-01-31T12-00-00.000Z.db"),
        "",
    )
    .unwrap();
    assert!(parts(&check()).contains(&("ok", "backup")), "{}", check());
}

#[test]
fn check_names_the_turn_servers_and_not_their_secret() {
    let mut deployment = Deployment::new();
    deployment.environment = vec![
        ("CONCLAVE_MEDIA__RTC__ADDRESSES", "127.0.0.1"),
        (
            "CONCLAVE_MEDIA__RTC__TURN__URLS",
            "turn:turn.example.com:3478",
        ),
        ("CONCLAVE_MEDIA__RTC__TURN__SECRET", "a-secret-of-coturn"),
    ];
    let result = deployment.run(&["check"]);
    assert!(
        result.code == 0
            && result
                .stdout
                .contains("127.0.0.1, or by turn:turn.example.com:3478"),
        "{}",
        result.stdout
    );
    assert!(!format!("{}{}", result.stdout, result.stderr).contains("a-secret-of-coturn"));
}

#[test]
fn check_says_for_which_name_a_certificate_is_obtained_and_reads_the_root_of_the_ca() {
    let mut deployment = Deployment::new();
    deployment.environment = vec![
        ("CONCLAVE_MEDIA__RTC__ENABLED", "false"),
        ("CONCLAVE_TLS__DOMAIN", "meet.example.org"),
    ];
    let result = deployment.run(&["check"]);
    let expected = "none yet; a server obtains one for meet.example.org from https://acme-v02.api.letsencrypt.org/directory";
    assert_eq!((result.code, parts(&result.stdout)[4]), (0, ("ok", "tls")));
    assert!(result.stdout.contains(expected), "{}", result.stdout);
    deployment
        .environment
        .push(("CONCLAVE_TLS__ACME_ROOT", "missing.pem"));
    let result = deployment.run(&["check"]);
    assert_eq!(
        (result.code, parts(&result.stdout)[4]),
        (1, ("FAIL", "tls"))
    );
    assert!(
        result
            .stdout
            .contains("tls.acme_root: missing.pem cannot be read"),
        "{}",
        result.stdout
    );
}

#[test]
fn check_warns_of_limits_that_do_not_fit() {
    let mut deployment = Deployment::new();
    deployment.environment = vec![
        ("CONCLAVE_HTTP__MAX_CONNECTIONS", "100"),
        ("CONCLAVE_HTTP__MAX_REQUESTS", "320"),
    ];
    let result = deployment.run(&["check"]);
    assert_eq!(
        (result.code, parts(&result.stdout)[0]),
        (0, ("WARN", "configuration"))
    );
    assert!(
        result.stdout.contains("http.max_requests"),
        "{}",
        result.stdout
    );

    let mut few_files = Command::new("sh");
    few_files
        .args([
            "-c",
            "ulimit -n 256; exec \"$0\" check",
            env!("CARGO_BIN_EXE_conclave"),
        ])
        .env_clear();
    let output = few_files
        .current_dir(deployment.dir.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && parts(&stdout)[0] == ("WARN", "configuration"),
        "{stdout}"
    );
    assert!(stdout.contains("http.max_connections"), "{stdout}");
}

#[test]
fn check_names_the_turn_server_and_warns_of_fewer_ports_than_media_workers() {
    let mut deployment = Deployment::new();
    let media = |deployment: &Deployment| {
        let result = deployment.run(&["check"]);
        assert_eq!(result.code, 0, "{}", result.stderr);
        result
            .stdout
            .lines()
            .find(|line| line.contains(" media "))
            .unwrap()
            .to_owned()
    };
    let loopback = ("CONCLAVE_MEDIA__RTC__ADDRESSES", "127.0.0.1");
    deployment.environment = vec![loopback];
    assert!(!media(&deployment).contains("TURN"));
    deployment.environment = vec![
        loopback,
        ("CONCLAVE_MEDIA__RTC__TURN__SERVER", "on"),
        ("CONCLAVE_MEDIA__RTC__UDP_PORTS", "7882"),
        ("CONCLAVE_MEDIA__RTC__WORKERS", "2"),
    ];
    let line = media(&deployment);
    assert!(
        line.contains("this server's TURN server, at the port of 127.0.0.1:8080 and UDP 3478"),
        "{line}"
    );
    assert!(
        line.starts_with("WARN") && line.contains("media.rtc.udp_ports has 1 of the ports"),
        "{line}"
    );
    deployment
        .environment
        .push(("CONCLAVE_MEDIA__RTC__UDP_PORTS", "7882-7883"));
    assert!(!media(&deployment).contains("udp_ports"));
}

/// Proves S-86.
#[test]
fn check_warns_of_secrets_in_settings_that_other_users_can_read() {
    let deployment = Deployment::new();
    let file = deployment.dir.path().join("conclave.toml");
    let chmod =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let check = || deployment.run(&["--config", file.to_str().unwrap(), "check"]);
    chmod(deployment.dir.path(), 0o755);
    for (settings, modes, is_warned) in [
        (
            "[admin]\ntoken = 'a-token-of-the-test'",
            (0o644, 0o755),
            true,
        ),
        (
            "[media.rtc.turn]\nurls = ['turn:a']\nsecret = 'a-token-of-the-test'",
            (0o604, 0o755),
            true,
        ),
        (
            "[admin]\ntoken = 'a-token-of-the-test'",
            (0o640, 0o755),
            false,
        ),
        (
            "[admin]\ntoken = 'a-token-of-the-test'",
            (0o644, 0o700),
            false,
        ),
        ("[http]\nworkers = 1", (0o644, 0o755), false),
    ] {
        fs::write(&file, settings).unwrap();
        chmod(&file, modes.0);
        chmod(deployment.dir.path(), modes.1);
        let result = check();
        assert_eq!(result.code, 0, "{}", result.stderr);
        let warning = result.stdout.lines().find(|line| line.contains("can read"));
        assert_eq!(
            warning.is_some(),
            is_warned,
            "{settings}: {}",
            result.stdout
        );
        assert!(
            warning.is_none_or(|line| line.contains(settings.rsplit(['\n', ' ']).nth(2).unwrap())),
            "{warning:?}"
        );
        assert!(
            !result.stdout.contains("a-token-of-the-test"),
            "{}",
            result.stdout
        );
    }
}

#[test]
fn check_reports_livekits_configuration_and_fails_only_if_rooms_cannot_work() {
    let (deployment, double) = (Deployment::new(), Double::start());
    let Double {
        api_key,
        api_secret,
        ..
    } = &double;
    let (url, settings) = (
        double.url(),
        deployment.dir.path().join("config/conclave.toml"),
    );
    fs::create_dir(settings.parent().unwrap()).unwrap();
    let media = format!(
        "kind = 'livekit'\nurl = '{url}'\napi_key = '{api_key}'\napi_secret = '{api_secret}'"
    );
    fs::write(settings, format!("[media]\n{media}")).unwrap();
    let media = || {
        let result = deployment.run(&["check"]);
        let line = result.stdout.lines().last().unwrap_or_default().to_owned();
        assert_eq!(parts(&result.stdout).len(), 4, "{}", result.stdout);
        (result.code, parts(&result.stdout)[3].0.to_owned(), line)
    };
    let (code, word, line) = media();
    assert!(
        (code, word.as_str()) == (0, "ok") && line.contains("settings match"),
        "{line}"
    );
    for (settings, setting) in [
        (
            Settings {
                remote_unmute: false,
                ..Settings::default()
            },
            "room.enable_remote_unmute",
        ),
        (
            Settings {
                redis: false,
                ..Settings::default()
            },
            "redis",
        ),
    ] {
        double.configure(settings);
        let (code, word, line) = media();
        assert!(
            (code, word.as_str()) == (0, "WARN") && line.contains(setting),
            "{line}"
        );
    }
    double.configure(Settings {
        auto_create: false,
        ..Settings::default()
    });
    let (code, word, line) = media();
    assert!(
        (code, word.as_str()) == (1, "FAIL") && line.contains("room.auto_create"),
        "{line}"
    );
    double.configure(Settings::default());
    double.fail("rtc", Fault::ProxyPage(502));
    let (code, word, line) = media();
    assert!(
        (code, word.as_str()) == (0, "ok") && line.contains("could not check whether"),
        "{line}"
    );
    double.fail_all(Fault::PlainUnauthorized);
    let (code, word, line) = media();
    assert!(
        (code, word.as_str()) == (1, "FAIL") && line.contains("media.api_secret"),
        "{line}"
    );
}

#[test]
fn check_reports_a_damaged_database() {
    let deployment = Deployment::new();
    deployment.create_project();
    fs::write(deployment.data().join("conclave.db"), "not a database").unwrap();
    let result = deployment.run(&["check"]);
    assert_eq!(
        (result.code, parts(&result.stdout)[1]),
        (1, ("FAIL", "database")),
        "{}",
        result.stdout
    );
    // The other parts are still checked.
    let names: Vec<_> = parts(&result.stdout)
        .iter()
        .map(|(_, part)| *part)
        .collect();
    assert_eq!(
        names,
        ["configuration", "database", "encryption", "media", "egress"],
        "{}",
        result.stdout
    );
}

#[test]
fn check_warns_of_a_server_on_all_addresses_without_a_public_url() {
    let mut deployment = Deployment::new();
    let common = [
        ("CONCLAVE_HTTP__MAX_CONNECTIONS", "100"),
        ("CONCLAVE_MEDIA__RTC__ENABLED", "false"),
    ];
    let mut check = |settings: &[(&'static str, &'static str)]| {
        deployment.environment = [&common[..], settings].concat();
        let stdout = deployment.run(&["check"]).stdout;
        stdout
            .lines()
            .find(|line| line.contains("configuration"))
            .unwrap()
            .to_owned()
    };
    let all = ("CONCLAVE_HTTP__LISTEN", "0.0.0.0:8080");
    for listen in [all, ("CONCLAVE_HTTP__LISTEN", "[::]:8080")] {
        let line = check(&[listen]);
        assert!(
            line.starts_with("WARN") && line.contains("media.public_url is not set"),
            "{line}"
        );
    }
    for named in [
        ("CONCLAVE_MEDIA__PUBLIC_URL", "wss://meet.example.org"),
        ("CONCLAVE_TLS__DOMAIN", "meet.example.org"),
    ] {
        let line = check(&[all, named]);
        assert!(!line.contains("media.public_url"), "{line}");
    }
    assert!(check(&[]).starts_with("ok"));
}
