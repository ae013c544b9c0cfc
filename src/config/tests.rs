//! Loading settings from every layer, and the message for every kind of invalid setting.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use conclave_model::settings::TextSetting;
use figment::value::Value;

use super::load::schema;
use super::*;

const SHIPPED: &str = include_str!("../../config/conclave.toml");

fn sources(file: Option<&Path>, environment: &[(&str, &str)]) -> Sources {
    let environment = environment
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    Sources {
        mode: Mode::Serve,
        file: file.map(Path::to_owned),
        environment,
        listen: None,
        admin: None,
    }
}

fn from_environment(environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    sources(None, environment).load()
}

fn from_file(text: &str) -> Result<Config, ConfigError> {
    let (_dir, file) = file(text);
    sources(Some(&file), &[]).load()
}

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("conclave.toml");
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn message(result: Result<Config, ConfigError>) -> String {
    let text = result.expect_err("an invalid setting").to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    text
}

#[test]
fn loopback_covers_ipv4_and_ipv6() {
    let shown: Vec<_> = loopback().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["127.0.0.0/8", "::1/128"]);
}

#[test]
fn the_shipped_file_sets_nothing() {
    assert_eq!(from_file(SHIPPED).unwrap(), Config::default());
}

#[test]
fn the_shipped_file_lists_every_setting_with_its_default() {
    let uncommented: Vec<_> = SHIPPED
        .lines()
        .map(|line| {
            line.strip_prefix('#')
                .filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
        })
        .zip(SHIPPED.lines())
        .map(|(value, line)| value.unwrap_or(line))
        .collect();
    let text = uncommented.join("\n");
    assert_eq!(from_file(&text).unwrap(), Config::default());
    let table: toml::Table = text.parse().unwrap();
    for (section, keys) in schema(&Config::default()).unwrap() {
        for key in keys.as_dict().unwrap().keys() {
            let named = table[&section].get(key).is_some()
                || (section == "encryption" && key == "key_file");
            assert!(named, "{section}.{key} is not in config/conclave.toml");
        }
    }
}

#[test]
fn the_environment_overrides_the_file_and_the_command_line_overrides_both() {
    let (_dir, file) = file(
        "[http]\nlisten = '127.0.0.1:1'\n[limits]\nburst = 7\n[admin]\nlisten = '127.0.0.1:2'\n",
    );
    let mut sources = sources(
        Some(&file),
        &[("CONCLAVE_HTTP__LISTEN", "127.0.0.1:3"), ("PATH", "/bin")],
    );
    let config = sources.load().unwrap();
    assert_eq!(
        (
            config.http.listen.port(),
            config.limits.burst,
            config.admin.listen.port()
        ),
        (3, 7, 2)
    );
    sources.listen = Some("127.0.0.1:0".parse().unwrap());
    assert_eq!(sources.load().unwrap().http.listen.port(), 0);
    sources.admin = Some("0.0.0.0:9".parse().unwrap());
    assert!(message(sources.load()).starts_with("admin.token: must be set"));
}

#[test]
fn the_defaults_of_dev_can_be_overridden_by_the_environment() {
    let mut sources = sources(None, &[("CONCLAVE_EGRESS__ALLOW_NETWORKS", "")]);
    sources.mode = Mode::Dev;
    let config = sources.load().unwrap();
    assert!(
        config.media.sandbox
            && config.media.rtc.loopback
            && config.egress.allow_networks.is_empty()
    );
    assert_eq!(config.webhooks.allow_networks, loopback());
}

#[test]
fn in_dev_pages_of_this_machine_may_show_the_call_unless_there_is_no_page() {
    let origins = |environment: &[(&str, &str)]| {
        let mut sources = sources(None, environment);
        sources.mode = Mode::Dev;
        let origins = sources.load().unwrap().http.embed_origins;
        let texts = origins.iter().map(|origin| origin.as_str().to_owned());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(origins(&[]), ["http://localhost:*", "http://127.0.0.1:*"]);
    let chosen = ("CONCLAVE_HTTP__EMBED_ORIGINS", "https://a.org");
    assert_eq!(origins(&[chosen]), ["https://a.org"]);
    assert!(origins(&[("CONCLAVE_HTTP__CALL_PAGE", "false")]).is_empty());
}

#[test]
fn every_port_may_be_allowed_of_loopback_hosts_only() {
    let includes = |setting: &str, origin: &str| {
        let [setting, origin] = [
            EmbedOrigin::parse(setting).unwrap().as_str().to_owned(),
            origin.to_owned(),
        ];
        EmbedOrigin::parse(&setting)
            .unwrap()
            .includes(&Origin::parse(&origin).unwrap())
    };
    for origin in [
        "http://localhost",
        "http://localhost:3000",
        "http://LOCALHOST:80",
    ] {
        assert!(includes("http://localhost:*", origin), "{origin}");
    }
    for origin in [
        "https://localhost",
        "http://127.0.0.1:3000",
        "http://localhost.evil.example",
        "http://localhosts:80",
    ] {
        assert!(!includes("http://localhost:*", origin), "{origin}");
    }
    assert!(includes("https://a.org", "https://a.org:443"));
    assert!(!includes("https://a.org", "https://a.org:8443"));
    for refused in [
        "https://a.org:*",
        "http://localhost:3000:*",
        "http://*:*",
        "*",
        "http://localhost:*/",
        "localhost:*",
    ] {
        assert!(EmbedOrigin::parse(refused).is_err(), "{refused}");
    }
}

#[test]
fn every_type_of_setting_can_be_set_by_the_environment() {
    let config = from_environment(&[
        ("CONCLAVE_HTTP__WORKERS", "3"),
        ("CONCLAVE_HTTP__TRUSTED_PROXIES", "10.0.0.0/8, 192.0.2.7"),
        (
            "CONCLAVE_HTTP__CONSOLE_ORIGINS",
            "[\"https://a.org\",\"http://b.org:81\"]",
        ),
        ("CONCLAVE_HTTP__BROWSER_ORIGINS", "https://c.org"),
        ("CONCLAVE_ADMIN__TOKEN", "1234567890123456"),
        ("CONCLAVE_MEDIA__SANDBOX", "true"),
        ("CONCLAVE_MEDIA__TIMEOUT", "1500ms"),
        ("CONCLAVE_MEDIA__RTC__UDP_PORTS", "5000-5003"),
        (
            "CONCLAVE_MEDIA__RTC__EXTERNAL_ADDRESSES",
            "192.0.2.1, 2001:db8::1",
        ),
        (
            "CONCLAVE_MEDIA__RTC__ALLOW_NETWORKS",
            "10.0.0.0/8, fd00::/8",
        ),
        (
            "CONCLAVE_MEDIA__RTC__TURN__URLS",
            "turn:a:3478?transport=udp, turns:a",
        ),
        ("CONCLAVE_MEDIA__RTC__TURN__SECRET", "hush"),
        ("CONCLAVE_MEDIA__RTC__TURN__TTL", "1h"),
        ("CONCLAVE_WEBHOOKS__RETRY_DELAYS", "100ms,1s"),
        ("CONCLAVE_WEBHOOKS__ALLOW_NETWORKS", "[\"::1/128\"]"),
        ("CONCLAVE_ENCRYPTION__KEY_FILE", ""),
        ("CONCLAVE_RECORDINGS__DIR", ""),
        ("CONCLAVE_BILLING__URL", "https://pay.example.org"),
    ])
    .unwrap();
    assert_eq!(config.http.worker_threads(), 3);
    assert_eq!(config.http.trusted_proxies.len(), 2);
    assert_eq!(config.http.console_origins[1].as_str(), "http://b.org:81");
    assert_eq!(config.http.browser_origins[0].as_str(), "https://c.org");
    assert_eq!(config.admin.token.unwrap().reveal(), "1234567890123456");
    assert!(config.media.sandbox && config.media.timeout == Duration::from_millis(1_500));
    assert_eq!(config.media.rtc.udp_ports, Some(PortRange(5_000..=5_003)));
    assert_eq!(config.media.rtc.external_addresses.len(), 2);
    assert_eq!(config.media.rtc.allow_networks.len(), 2);
    let turn = config.media.rtc.turn;
    assert_eq!(
        (turn.urls, turn.ttl),
        (
            vec!["turn:a:3478?transport=udp".into(), "turns:a".into()],
            Duration::from_secs(3_600)
        )
    );
    assert_eq!(
        config.webhooks.retry_delays,
        [Duration::from_millis(100), Duration::from_secs(1)]
    );
    assert_eq!(config.webhooks.allow_networks.len(), 1);
    assert_eq!(config.encryption.key_path(Path::new("d")), None);
    assert_eq!(
        config.recordings.path(Path::new("d")),
        Path::new("d/recordings")
    );
    assert_eq!(
        config.billing.url.as_deref(),
        Some("https://pay.example.org")
    );
}

/// Proves R-44.
#[test]
fn a_variable_with_escapes_behind_other_letters_than_ascii_is_read_as_it_is_written() {
    let text = "\"ü\\u00e9\\n";
    assert_eq!(
        from_environment(&[("CONCLAVE_ENCRYPTION__KEY_FILE", text)])
            .unwrap()
            .encryption
            .key_file
            .unwrap()
            .0,
        text
    );
    for (text, named) in [
        ("[\"ü\\\\x\"]", "http.browser_origins[0] ("),
        ("[\"aü\\", "http.browser_origins[0] ("),
    ] {
        let text = message(from_environment(&[(
            "CONCLAVE_HTTP__BROWSER_ORIGINS",
            text,
        )]));
        assert!(text.starts_with(named), "{text}");
    }
    let bare =
        from_environment(&[("CONCLAVE_HTTP__TRUSTED_PROXIES", "[10.0.0.0/8, ::1]")]).unwrap();
    assert_eq!(bare.http.trusted_proxies.len(), 2);
}

#[test]
fn an_unknown_conclave_variable_is_an_error_and_other_variables_are_ignored() {
    for name in [
        "CONCLAVE_HTTP__LISTN",
        "CONCLAVE_HTPP__LISTEN",
        "CONCLAVE_HTTP_LISTEN",
        "CONCLAVE_HTTP__LISTEN__X",
    ] {
        let text = message(from_environment(&[(name, "x")]));
        assert!(
            text.starts_with(&format!("{name}: no such setting")),
            "{text}"
        );
    }
    assert!(message(from_environment(&[("CONCLAVE_HTTP__LISTN", "x")])).contains("LISTEN"));
    assert!(from_environment(&[("HTTP__LISTN", "x"), ("XCONCLAVE_A", "y"), ("HOME", "/")]).is_ok());
    for variable in ["CONCLAVE_URL", "CONCLAVE_KEY", "CONCLAVE_WEBHOOK_SECRET"] {
        assert!(from_environment(&[(variable, "of a client")]).is_ok());
    }
}

#[test]
fn the_variables_that_kubernetes_makes_of_services_are_ignored() {
    let config = from_environment(&[
        ("CONCLAVE_SERVICE_HOST", "10.96.0.7"),
        ("CONCLAVE_SERVICE_PORT", "80"),
        ("CONCLAVE_SERVICE_PORT_HTTP", "80"),
        ("CONCLAVE_PORT", "tcp://10.96.0.7:80"),
        ("CONCLAVE_PORT_80_TCP", "tcp://10.96.0.7:80"),
        ("CONCLAVE_PORT_80_TCP_PROTO", "tcp"),
        ("CONCLAVE_PORT_80_TCP_PORT", "80"),
        ("CONCLAVE_PORT_80_TCP_ADDR", "10.96.0.7"),
        ("CONCLAVE_HTTP_SERVICE_HOST", "fd00::7"),
        ("CONCLAVE_HTTP_PORT", "udp://[fd00::7]:3478"),
        ("CONCLAVE_HTTP__WORKERS", "3"),
    ]);
    assert_eq!(config.unwrap().http.workers, 3);
    let text = message(from_environment(&[("CONCLAVE_HTTP_PORT", "8080")]));
    assert!(
        text.starts_with("CONCLAVE_HTTP_PORT: no such setting"),
        "{text}"
    );
}

#[test]
fn the_error_of_an_invalid_variable_names_path_variable_and_allowed_values() {
    for (variable, value, named) in [
        (
            "CONCLAVE_HTTP__LISTEN",
            "8080",
            "http.listen (CONCLAVE_HTTP__LISTEN): must be an address and a port",
        ),
        (
            "CONCLAVE_LIMITS__BURST",
            "many",
            "limits.burst (CONCLAVE_LIMITS__BURST): must be a whole number from 0",
        ),
        (
            "CONCLAVE_LIMITS__BURST",
            "0",
            "limits.burst (CONCLAVE_LIMITS__BURST): must be 1 to",
        ),
        (
            "CONCLAVE_LIMITS__BURST",
            "-1",
            "limits.burst (CONCLAVE_LIMITS__BURST): ",
        ),
        (
            "CONCLAVE_LIMITS__BURST",
            "99999999999",
            "limits.burst (CONCLAVE_LIMITS__BURST): ",
        ),
        (
            "CONCLAVE_MEDIA__SANDBOX",
            "yes",
            "media.sandbox (CONCLAVE_MEDIA__SANDBOX): must be true or false, not \"yes\"",
        ),
        (
            "CONCLAVE_MEDIA__KIND",
            "zoom",
            "media.kind (CONCLAVE_MEDIA__KIND): must be embedded or livekit, not \"zoom\"",
        ),
        (
            "CONCLAVE_WEBHOOKS__TICK",
            "5",
            "webhooks.tick (CONCLAVE_WEBHOOKS__TICK): must be a duration such as",
        ),
        (
            "CONCLAVE_WEBHOOKS__TICK",
            "0s",
            "webhooks.tick (CONCLAVE_WEBHOOKS__TICK): must be more than 0s",
        ),
        (
            "CONCLAVE_WEBHOOKS__RETRY_DELAYS",
            "1m,soon",
            "webhooks.retry_delays[1] (CONCLAVE_WEBHOOKS__RETRY_DELAYS)",
        ),
        (
            "CONCLAVE_WEBHOOKS__RETRY_DELAYS",
            "",
            "webhooks.retry_delays (CONCLAVE_WEBHOOKS__RETRY_DELAYS)",
        ),
        (
            "CONCLAVE_EGRESS__ALLOW_NETWORKS",
            "10.0.0.0/33",
            "egress.allow_networks[0] (CONCLAVE_EGRESS__ALLOW_NETWORKS)",
        ),
        (
            "CONCLAVE_HTTP__CONSOLE_ORIGINS",
            "*",
            "http.console_origins[0] (CONCLAVE_HTTP__CONSOLE_ORIGINS)",
        ),
        (
            "CONCLAVE_HTTP__WORKERS",
            "5000",
            "http.workers (CONCLAVE_HTTP__WORKERS)",
        ),
        (
            "CONCLAVE_ADMIN__TOKEN",
            "a b",
            "admin.token (CONCLAVE_ADMIN__TOKEN): must be printable ASCII",
        ),
        (
            "CONCLAVE_BILLING__URL",
            "ftp://x",
            "billing.url (CONCLAVE_BILLING__URL): must be a URL",
        ),
        (
            "CONCLAVE_MEDIA__PUBLIC_URL",
            "http://x",
            "media.public_url (CONCLAVE_MEDIA__PUBLIC_URL)",
        ),
    ] {
        let text = message(from_environment(&[(variable, value)]));
        assert!(text.starts_with(named), "wanted {named:?}, got {text:?}");
    }
}

#[test]
fn the_error_of_an_invalid_file_names_path_and_file() {
    for (content, named) in [
        ("[http]\nlistn = 'x'", "http.listn ("),
        ("[htpp]\nlisten = 'x'", "htpp ("),
        ("top = 1", "top ("),
        ("http = 5", "http ("),
        ("limits = [5, 6]", "limits ("),
        ("[media]\nrtc = [false]", "media.rtc ("),
        (
            "media = { rtc = { turn = [['turn:turn.example.com'], 's'] } }",
            "media.rtc.turn (",
        ),
        ("[http]\nlisten = 5", "http.listen ("),
        ("[webhooks]\ntick = 5", "webhooks.tick ("),
        ("[webhooks]\nretry_delays = '1m'", "webhooks.retry_delays ("),
        (
            "[webhooks]\nretry_delays = ['1m', 5]",
            "webhooks.retry_delays[1] (",
        ),
        ("[media]\nsandbox = 'yes'", "media.sandbox ("),
        ("[limits]\nburst = 1.5", "limits.burst ("),
    ] {
        let text = message(from_file(content));
        assert!(
            text.starts_with(named) && text.contains("conclave.toml"),
            "wanted {named:?}, got {text:?}"
        );
    }
    let absent = message(sources(Some(Path::new("/nonexistent/conclave.toml")), &[]).load());
    assert!(
        absent.starts_with("/nonexistent/conclave.toml: cannot be read"),
        "{absent}"
    );
}

/// Proves R-45.
#[test]
fn a_name_with_a_line_end_is_escaped_in_the_message() {
    let text = message(from_file("[http]\n\"a\\nb\" = 1"));
    assert!(
        text.starts_with("http.a\\nb (") && text.contains("no such setting"),
        "{text}"
    );
    let text = message(from_environment(&[("CONCLAVE_HTTP__A\u{1b}", "1")]));
    assert!(
        text.starts_with("CONCLAVE_HTTP__A\\u{1b}: no such setting"),
        "{text}"
    );
}

#[test]
fn no_message_contains_a_secret() {
    for content in [
        "[admin]\ntoken = 31337",
        "[admin]\ntoken = \"31337",
        "[media]\napi_secret = [31337]",
        "[media.rtc.turn]\nsecret = 31337",
    ] {
        let text = message(from_file(content));
        assert!(!text.contains("31337"), "{text}");
    }
    assert!(
        message(from_file("\n[admin]\ntoken = \"31337"))
            .contains("conclave.toml line 3: not valid TOML")
    );
    let config = from_environment(&[("CONCLAVE_ADMIN__TOKEN", "3133731337313373")]).unwrap();
    let shown = format!("{config:?} {:?}", Value::serialize(&config).unwrap());
    assert!(!shown.contains("31337") && shown.contains("***"));
}

#[test]
fn turn_servers_have_urls_of_their_scheme_and_a_secret() {
    let urls = ("CONCLAVE_MEDIA__RTC__TURN__URLS", "turn:a");
    let secret = ("CONCLAVE_MEDIA__RTC__TURN__SECRET", "31337");
    assert!(from_environment(&[urls, secret]).is_ok());
    for alone in [urls, secret] {
        assert!(message(from_environment(&[alone])).starts_with("media.rtc.turn.secret"));
    }
    for other in ["stun:a", "turn:", "turn://a", "a"] {
        let text = message(from_environment(&[
            ("CONCLAVE_MEDIA__RTC__TURN__URLS", other),
            secret,
        ]));
        assert!(
            text.starts_with("media.rtc.turn.urls[0]") && !text.contains("31337"),
            "{text}"
        );
    }
}

/// Proves S-18.
#[test]
fn settings_that_depend_on_each_other_are_validated_together() {
    let open = ("CONCLAVE_ADMIN__LISTEN", "0.0.0.0:8081");
    assert!(message(from_environment(&[open])).starts_with("admin.token: must be set"));
    assert!(
        message(from_environment(&[open, ("CONCLAVE_ADMIN__TOKEN", "")]))
            .starts_with("admin.token")
    );
    assert!(from_environment(&[open, ("CONCLAVE_ADMIN__TOKEN", "hush-hush-hush-h")]).is_ok());
    let short = message(from_environment(&[(
        "CONCLAVE_ADMIN__TOKEN",
        "hush-hush-hush-",
    )]));
    assert!(
        short.starts_with("admin.token (CONCLAVE_ADMIN__TOKEN): must have at least 16 characters"),
        "{short}"
    );
    assert!(!short.contains("hush"), "{short}");
    assert!(
        message(from_environment(&[(
            "CONCLAVE_ADMIN__LISTEN",
            "127.0.0.1:8080"
        )]))
        .starts_with("admin.listen")
    );
    let embed = (
        "CONCLAVE_HTTP__EMBED_ORIGINS",
        "https://a.org,https://b.org",
    );
    let alone = message(from_environment(&[embed]));
    assert!(
        alone.starts_with(
            "http.embed_origins (CONCLAVE_HTTP__EMBED_ORIGINS): must not be set without"
        ),
        "{alone}"
    );
    assert!(from_environment(&[embed, ("CONCLAVE_HTTP__CALL_PAGE", "true")]).is_ok());
    let effects = ("CONCLAVE_HTTP__CALL_EFFECTS", "/usr/share/conclave/effects");
    let alone = message(from_environment(&[effects]));
    assert!(
        alone.starts_with(
            "http.call_effects (CONCLAVE_HTTP__CALL_EFFECTS): must not be set without"
        ),
        "{alone}"
    );

    let mut livekit = vec![("CONCLAVE_MEDIA__KIND", "livekit")];
    for (missing, variable, value) in [
        ("media.url", "CONCLAVE_MEDIA__URL", "ws://media.example.org"),
        ("media.api_key", "CONCLAVE_MEDIA__API_KEY", "APIx"),
        ("media.api_secret", "CONCLAVE_MEDIA__API_SECRET", "hush"),
    ] {
        let text = message(from_environment(&livekit));
        assert!(text.starts_with(missing), "wanted {missing}, got {text}");
        livekit.push((variable, value));
    }
    assert!(from_environment(&livekit).is_ok());
    livekit.push(("CONCLAVE_MEDIA__API_SECRET_FILE", "/run/secret"));
    assert!(message(from_environment(&livekit)).starts_with("media.api_secret_file"));
}

#[test]
fn a_certificate_needs_its_key_and_a_redirect_needs_both() {
    let (cert, key) = (
        ("CONCLAVE_TLS__CERT", "/a.pem"),
        ("CONCLAVE_TLS__KEY", "/b.pem"),
    );
    let redirect = |address| ("CONCLAVE_TLS__REDIRECT_LISTEN", address);
    assert!(message(from_environment(&[cert])).starts_with("tls.key: must be set"));
    assert!(message(from_environment(&[key])).starts_with("tls.cert: must be set"));
    assert!(
        message(from_environment(&[redirect("127.0.0.1:80")])).starts_with("tls.redirect_listen")
    );
    assert!(
        message(from_environment(&[cert, key, redirect("127.0.0.1:8080")]))
            .starts_with("tls.redirect_listen")
    );
    let config = from_environment(&[cert, key, redirect("127.0.0.1:80")]).unwrap();
    assert_eq!(config.tls.files(), Some(("/a.pem".into(), "/b.pem".into())));
    assert_eq!(config.tls.acme(), None);
}

#[test]
fn a_certificate_is_in_files_or_obtained_for_the_name_of_a_host() {
    let domain = |name| ("CONCLAVE_TLS__DOMAIN", name);
    let refused = |variables: &[(&str, &str)], setting: &str, problem: &str| {
        let text = message(from_environment(variables));
        assert!(
            text.starts_with(setting) && text.contains(problem),
            "{text}"
        );
    };
    for name in ["192.0.2.1", "*.example.org", "example.org."] {
        refused(&[domain(name)], "tls.domain", "must be a host name");
    }
    let own = domain("meet.example.org");
    let both = [
        own,
        ("CONCLAVE_TLS__CERT", "/a.pem"),
        ("CONCLAVE_TLS__KEY", "/b.pem"),
    ];
    refused(
        &both,
        "tls.domain",
        "must not be set together with tls.cert and tls.key",
    );
    for contact in [
        "ops",
        "@example.org",
        "ops@",
        "a@b.org?x=y",
        "a@b.org,c@d.org",
    ] {
        refused(
            &[own, ("CONCLAVE_TLS__ACME_CONTACT", contact)],
            "tls.acme_contact",
            "must be an e-mail address",
        );
    }
    for url in ["http://ca.example/directory", "ca.example", ""] {
        refused(
            &[own, ("CONCLAVE_TLS__ACME_DIRECTORY", url)],
            "tls.acme_directory",
            "must be an https:// URL",
        );
    }
    let redirect = ("CONCLAVE_TLS__REDIRECT_LISTEN", "0.0.0.0:80");
    let contact = ("CONCLAVE_TLS__ACME_CONTACT", "ops@example.org");
    let acme = from_environment(&[domain("Meet.example.org"), redirect, contact])
        .unwrap()
        .tls
        .acme()
        .unwrap();
    assert_eq!(
        (acme.domain.as_str(), acme.contact.as_deref()),
        ("meet.example.org", Some("ops@example.org"))
    );
    assert!(
        acme.has_http
            && acme.root.is_none()
            && acme.directory.contains("acme-v02.api.letsencrypt.org")
    );
}

#[test]
fn each_setting_says_where_it_came_from_and_shows_no_secret() {
    let (_dir, file) = file(
        "[webhooks]\ntick = '7s'\ntimeout = '8s'\n[billing]\nurl = 'http://me:hush@127.0.0.1'\n",
    );
    let environment = [
        ("CONCLAVE_WEBHOOKS__TIMEOUT", "9s"),
        ("CONCLAVE_ADMIN__TOKEN", "hush-hush-hush-hush"),
    ];
    let sources = Sources {
        listen: "127.0.0.1:0".parse().ok(),
        ..sources(Some(&file), &environment)
    };
    let LoadedConfig { config, origins } = sources.load_with_origins().unwrap();
    let report = origins.report(&config).unwrap();
    let shown = |name: &str| {
        let setting = report.iter().find(|setting| setting.name == name).unwrap();
        let origin = setting.origin.as_ref().map(ToString::to_string);
        (setting.text(), origin)
    };
    let from = |value: &str, origin: &str| (value.to_owned(), Some(origin.to_owned()));
    let path = file.display().to_string();
    assert_eq!(shown("webhooks.tick"), from("7s", &path));
    assert_eq!(
        shown("webhooks.timeout"),
        from("9s", "CONCLAVE_WEBHOOKS__TIMEOUT")
    );
    assert_eq!(shown("http.listen"), from("127.0.0.1:0", "--listen"));
    assert_eq!(shown("admin.token"), from("***", "CONCLAVE_ADMIN__TOKEN"));
    assert_eq!(
        shown("billing.url"),
        from("http://me:***@127.0.0.1/", &path)
    );
    assert_eq!(
        shown("webhooks.retry_delays"),
        ("1m, 5m, 30m, 2h".into(), None)
    );
    assert_eq!(shown("media.rtc.tcp"), ("true".into(), None));
    assert_eq!(shown("limits.burst"), ("40".into(), None));
    assert!(!format!("{report:?}").contains("hush"));
}

/// Settings with a range: values at each bound, values beyond it, and their message.
#[rustfmt::skip]
const RANGES: &[(&str, &[&str], &[&str], &str)] = &[
    ("http.workers", &["0", "1024"], &["1025"], "must be 0 (one for each core) to 1024"),
    ("http.max_connections", COUNTS, NO_COUNTS, A_COUNT),
    ("http.max_requests", COUNTS, NO_COUNTS, A_COUNT),
    ("http.request_timeout", DURATIONS, NO_DURATIONS, A_DURATION),
    ("http.keep_alive", DURATIONS, NO_DURATIONS, A_DURATION),
    ("admin.token", &["", "0123456789abcdef"], &["0123456789abcde"], "must have at least 16 characters, since it could be guessed"),
    ("limits.requests_per_second", COUNTS, NO_COUNTS, A_COUNT),
    ("limits.burst", COUNTS, NO_COUNTS, A_COUNT),
    ("limits.project_running", COUNTS, NO_COUNTS, A_COUNT),
    ("limits.project_waiting", COUNTS, NO_COUNTS, A_COUNT),
    ("limits.exchange_per_second", COUNTS, NO_COUNTS, A_COUNT),
    ("limits.exchange_burst", COUNTS, NO_COUNTS, A_COUNT),
    ("webhooks.tick", DURATIONS, NO_DURATIONS, A_DURATION),
    ("webhooks.timeout", DURATIONS, NO_DURATIONS, A_DURATION),
    ("webhooks.retry_delays", &["1ms", "3650d,1s"], &[""], "must contain at least one delay, such as [\"1m\"]"),
    ("webhooks.retention", DURATIONS, NO_DURATIONS, A_DURATION),
    ("events.retention", DURATIONS, NO_DURATIONS, A_DURATION),
    ("media.url", &["", "ws://a", "wss://a", "http://a", "https://a:1/b"], &["a", "ftp://a", "ws:"], "must be a URL that starts with ws:// or wss:// or http:// or https://"),
    ("media.public_url", &["", "ws://a", "wss://a/b"], &["a", "http://a", "wss:"], "must be a URL that starts with ws:// or wss://"),
    ("media.timeout", DURATIONS, NO_DURATIONS, A_DURATION),
    ("media.reconcile", DURATIONS, NO_DURATIONS, A_DURATION),
    ("media.circuit_failures", COUNTS, NO_COUNTS, A_COUNT),
    ("media.circuit_open", DURATIONS, NO_DURATIONS, A_DURATION),
    ("media.max_tracks", COUNTS, NO_COUNTS, A_COUNT),
    ("media.rtc.workers", &["0", "1024"], &["1025"], "must be 0 (one for each core) to 1024"),
    ("media.rtc.changes_per_second", &["1", "10000"], &["0", "10001"], "must be 1 to 10000"),
    ("media.rtc.turn.udp_port", &["0", "65535"], &[], ""),
    ("media.rtc.turn.ttl", DURATIONS, NO_DURATIONS, A_DURATION),
    ("database.lanes", &["1", "256"], &["0", "257"], "must be 1 to 256, not {}"),
    ("database.readers", &["3", "1024"], &["2", "1025"], "must be 3 to 1024, not {}"),
    ("backup.every", DURATIONS, NO_DURATIONS, A_DURATION),
    ("backup.keep", COUNTS, NO_COUNTS, A_COUNT),
    ("recordings.lost_after", DURATIONS, NO_DURATIONS, A_DURATION),
    ("recordings.retention", &["", "1ns", "3650d"], NO_DURATIONS, A_DURATION),
    ("egress.max_duration", DURATIONS, NO_DURATIONS, A_DURATION),
    ("egress.empty_timeout", DURATIONS, NO_DURATIONS, A_DURATION),
    ("egress.stop_timeout", DURATIONS, NO_DURATIONS, A_DURATION),
    ("egress.max_composites", COUNTS, NO_COUNTS, A_COUNT),
    ("egress.nice", &["0", "19"], &["20", "255"], "must be 0 to 19, not {}"),
    ("egress.buffer_mib", &["0", "1048576"], &["1048577"], "must be 0 to 1048576, not {}"),
    ("egress.width", SIZES, NO_SIZES, A_SIZE),
    ("egress.height", SIZES, NO_SIZES, A_SIZE),
    ("egress.frame_rate", &["1", "60"], &["0", "61"], "must be 1 to 60, not {}"),
    ("egress.video_kbps", &["100", "50000"], &["99", "50001"], "must be 100 to 50000, not {}"),
    ("egress.audio_kbps", &["16", "510"], &["15", "511"], "must be 16 to 510, not {}"),
    ("egress.preset", &["ultrafast", "veryslow"], &["", "placebo", "Fast"], "must be one of ultrafast, superfast, veryfast, faster, fast, medium, slow, slower, veryslow"),
    ("billing.url", &["", "http://a", "https://a/b"], &["a", "ws://a", "http:"], "must be a URL that starts with http:// or https://"),
];
const COUNTS: &[&str] = &["1", "1000000"];
const NO_COUNTS: &[&str] = &["0", "1000001"];
const A_COUNT: &str = "must be 1 to 1000000, not {}";
const DURATIONS: &[&str] = &["1ns", "3650d"];
const NO_DURATIONS: &[&str] = &["0s", "3650days 1ns"];
const A_DURATION: &str = "must be more than 0s and at most 3650d, not {}";
const SIZES: &[&str] = &["160", "3840"];
const NO_SIZES: &[&str] = &["158", "161", "3842"];
const A_SIZE: &str = "must be an even number from 160 to 3840, not {}";

#[test]
fn every_range_is_closed_at_its_bounds_and_its_message_says_what_is_allowed() {
    for (setting, allowed, refused, problem) in RANGES {
        let variable = format!("CONCLAVE_{}", setting.replace('.', "__").to_uppercase());
        for value in *allowed {
            let loaded = from_environment(&[(&variable, value)]);
            assert!(loaded.is_ok(), "{variable}={value}: {loaded:?}");
        }
        for value in *refused {
            let shown = if *problem == A_DURATION {
                humantime::format_duration(humantime::parse_duration(value).unwrap()).to_string()
            } else {
                (*value).to_owned()
            };
            let expected = format!("{setting} ({variable}): {}", problem.replace("{}", &shown));
            assert_eq!(
                message(from_environment(&[(&variable, value)])),
                expected,
                "{value}"
            );
        }
    }
}
