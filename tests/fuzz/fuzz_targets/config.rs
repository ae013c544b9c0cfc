//! Settings: TOML, a line `===`, and environment variables. The TOML is also read as a plans file.
//!
//! An error is one line without a secret. Accepted settings are accepted again in their printed form, with the same
//! meaning, and show no secret.

#![no_main]

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use conclave::config::{Config, ConfigError, Mode, Plans, Sources};
use conclave_fuzz::seeds;
use libfuzzer_sys::fuzz_target;

/// Part of each secret below.
const SECRET: &str = "Xsecretx";

thread_local! {
    static FOLDER: RefCell<tempfile::TempDir> = RefCell::new(tempfile::tempdir().unwrap());
}

fuzz_target!(init: write_seeds(), |data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (toml, environment) = text.split_once("\n===\n").unwrap_or((&text, ""));
    let environment: Vec<_> = environment.lines().filter_map(|line| line.split_once('=')).collect();
    run(toml, &environment);
});

fn run(toml: &str, environment: &[(&str, &str)]) {
    let file = FOLDER.with_borrow(|folder| folder.path().join("conclave.toml"));
    fs::write(&file, toml).unwrap();
    check_error(Plans::load(Some(&file)).err());
    match load(&file, environment) {
        Err(error) => check_error(Some(error)),
        Ok(config) => check(&config, &file),
    }
    // The same with a secret, which must not appear in an error or in the printed settings.
    let with_secret: Vec<_> = environment
        .iter()
        .map(|(name, value)| (*name, with_secret(name, value)))
        .collect();
    let with_secret: Vec<_> = with_secret
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    match load(&file, &with_secret) {
        Err(error) => assert!(!error.to_string().contains(SECRET), "{error}"),
        Ok(config) => assert!(
            !format!("{config:?}{}", print(&config)).contains(SECRET),
            "{config:?}"
        ),
    }
}

fn with_secret(name: &str, value: &str) -> String {
    let is_secret = [
        "CONCLAVE_ADMIN__TOKEN",
        "CONCLAVE_MEDIA__API_SECRET",
        "CONCLAVE_BILLING__TOKEN",
    ];
    if is_secret
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
    {
        format!("{value}{SECRET}")
    } else {
        value.into()
    }
}

fn load(file: &PathBuf, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let environment = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Sources {
        mode: Mode::Serve,
        file: Some(file.clone()),
        environment,
        listen: None,
        admin: None,
    }
    .load()
}

fn check_error(error: Option<ConfigError>) {
    let Some(error) = error else { return };
    let text = error.to_string();
    assert!(!text.contains(['\n', '\r']), "one line: {text:?}");
    assert!(text.contains(": "), "{text:?}");
}

/// Loads the settings from their printed form. A printed secret is `***`, which is valid.
fn check(config: &Config, file: &PathBuf) {
    let printed = print(config);
    fs::write(file, &printed).unwrap();
    let again = load(file, &[]).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(print(&again), printed);
    assert_eq!(
        (
            &again.http,
            &again.limits,
            &again.webhooks,
            &again.recordings,
            &again.egress,
            &again.plans
        ),
        (
            &config.http,
            &config.limits,
            &config.webhooks,
            &config.recordings,
            &config.egress,
            &config.plans
        )
    );
}

fn print(config: &Config) -> String {
    let mut table = toml::Table::try_from(config).unwrap();
    // An absent key file has no textual form.
    if config.encryption.key_file.is_none() {
        table.remove("encryption");
    }
    toml::to_string(&table).unwrap()
}

fn write_seeds() {
    let shipped = include_str!("../../../config/conclave.toml");
    let setting = |line: &str| {
        let bare = line
            .strip_prefix('#')
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
        bare.or(Some(line).filter(|line| line.starts_with('[')))
            .map(|line| line.split(" #").next().unwrap().to_owned())
    };
    let all: Vec<String> = shipped.lines().filter_map(setting).collect();
    let environment = "CONCLAVE_HTTP__LISTEN=[::1]:8080\nCONCLAVE_HTTP__TRUSTED_PROXIES=10.0.0.0/8, 192.0.2.7\n\
                       CONCLAVE_HTTP__BROWSER_ORIGINS=[\"https://a.org\",\"http://b.org:81\"]\nCONCLAVE_ADMIN__TOKEN=hush\n\
                       CONCLAVE_MEDIA__KIND=livekit\nCONCLAVE_MEDIA__URL=ws://a.org\nCONCLAVE_MEDIA__API_KEY=APIx\n\
                       CONCLAVE_MEDIA__API_SECRET=hush\nCONCLAVE_WEBHOOKS__RETRY_DELAYS=100ms,1s\n\
                       CONCLAVE_LIMITS__BURST=7\nCONCLAVE_BILLING__TOKEN=hush\nCONCLAVE_BILLING__URL=https://b.org\n";
    let sections = all
        .join("\n")
        .split("\n[")
        .map(|part| format!("[{}", part.trim_start_matches('[')))
        .collect::<Vec<_>>();
    let plans = include_str!("../../../config/plans.toml").to_owned();
    let whole = [all.join("\n"), format!("\n===\n{environment}"), plans];
    seeds::write("config", whole.into_iter().chain(sections));
}
