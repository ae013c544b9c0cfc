//! Options, settings, and the commands that describe them all.

use std::fs;

use crate::deployment::{Deployment, UNKNOWN_PROJECT};

#[test]
fn an_invalid_option_or_value_exits_2_and_the_message_says_what_is_allowed() {
    let deployment = Deployment::new();
    let plan = deployment.run_failing(2, &["project", "create", "--name", "A", "--plan", "gold"]);
    assert!(
        plan.contains("--plan")
            && plan.contains("\"gold\"")
            && plan.contains("free, pro, self_hosted"),
        "{plan}"
    );
    assert!(
        deployment
            .run_failing(2, &["project", "set-plan", UNKNOWN_PROJECT, "gold"])
            .contains("gold")
    );
    let env = deployment.run_failing(2, &["project", "create", "--name", "A", "--env", "prod"]);
    assert!(env.contains("prod") && env.contains("live, test"), "{env}");
    assert!(
        deployment
            .run_failing(2, &["project", "create"])
            .contains("--name")
    );
    assert!(
        deployment
            .run_failing(2, &["project", "create", "--name", " "])
            .contains("1 to 200 characters")
    );
    assert!(
        deployment
            .run_failing(2, &["project", "create", "--name", "a\nb"])
            .contains("control character")
    );
    assert!(
        deployment
            .run_failing(2, &["project", "credit", UNKNOWN_PROJECT, "0"])
            .contains("UGX")
    );
    assert!(
        deployment
            .run_failing(2, &["project", "list", "--jsn"])
            .contains("--jsn")
    );
    assert!(
        deployment
            .run_failing(2, &["serve", "--listen", "example"])
            .contains("--listen")
    );
    assert!(deployment.run_failing(2, &["fly"]).contains("fly"));
    assert!(
        !deployment.data().exists(),
        "an invalid command creates nothing"
    );
}

#[test]
fn an_invalid_setting_exits_2_in_every_command() {
    let mut deployment = Deployment::new();
    let file = deployment.dir.path().join("c.toml");
    fs::write(&file, "[limits]\nburts = 1\n").unwrap();
    for command in [
        &["project", "list"][..],
        &["key", "list", UNKNOWN_PROJECT],
        &["check"],
        &["backup", "b"],
        &["restore", "b"],
        &["serve"],
        &["dev"],
    ] {
        let message = deployment.run_failing(
            2,
            &[&["--config", file.to_str().unwrap()], command].concat(),
        );
        assert!(
            message.contains("limits.burts")
                && message.contains("c.toml")
                && message.contains("burst"),
            "{message}"
        );
    }
    assert!(
        deployment
            .run_failing(2, &["project", "list", "--config", "nowhere.toml"])
            .contains("nowhere.toml")
    );
    deployment.environment = vec![("CONCLAVE_HTTP__LISTN", "x")];
    assert!(
        deployment
            .run_failing(2, &["project", "list"])
            .contains("CONCLAVE_HTTP__LISTN")
    );
    deployment.environment = vec![("CONCLAVE_PLANS__FILE", "nowhere.toml")];
    assert!(
        deployment
            .run_failing(2, &["project", "create", "--name", "A"])
            .contains("plans.file")
    );
    deployment.environment = vec![("SOMETHING__ELSE", "x")];
    deployment.json(&["project", "list"]);
}

#[test]
fn the_default_settings_file_is_loaded_if_no_other_is_named() {
    let deployment = Deployment::new();
    fs::create_dir(deployment.dir.path().join("config")).unwrap();
    fs::write(
        deployment.dir.path().join("config/conclave.toml"),
        "[limits]\nburst = 0\n",
    )
    .unwrap();
    assert!(
        deployment
            .run_failing(2, &["project", "list"])
            .contains("limits.burst (config/conclave.toml)")
    );
}

#[test]
fn shells_and_man_know_every_command() {
    let deployment = Deployment::new();
    for (shell, line) in [
        (
            "bash",
            "complete -F _conclave -o nosort -o bashdefault -o default conclave",
        ),
        ("zsh", "#compdef conclave"),
        ("fish", "complete -c conclave"),
    ] {
        let result = deployment.run(&["completions", shell]);
        assert_eq!((result.code, result.stderr.as_str()), (0, ""));
        assert!(result.stdout.contains(line), "{shell}: {}", result.stdout);
        assert!(result.stdout.contains("key-rotate"), "{shell}");
    }
    let pages = deployment.dir.path().join("share/man");
    assert_eq!(deployment.run(&["manual", pages.to_str().unwrap()]).code, 0);
    for (page, text) in [
        ("conclave.1", r"conclave\-serve(1)"),
        ("conclave-key-create.1", r"\-\-label"),
    ] {
        let page = fs::read_to_string(pages.join(page)).expect(page);
        assert!(page.contains(text), "{page}");
    }
    assert!(
        deployment
            .run_failing(1, &["manual", "/dev/null"])
            .contains("/dev/null")
    );
}

#[test]
fn the_documentation_is_written_as_a_site() {
    let deployment = Deployment::new();
    let site = deployment.dir.path().join("share/docs");
    assert_eq!(deployment.run(&["docs", site.to_str().unwrap()]).code, 0);
    for (file, text) in [
        ("index.html", "<a href=\"running.html\""),
        (
            "sdk/go.html",
            "<link rel=\"stylesheet\" href=\"../assets/site.css\">",
        ),
        ("files/config/conclave.toml.html", "#console_origins"),
        ("assets/search-index.js", "\"Stopping\""),
    ] {
        let written = fs::read_to_string(site.join(file)).expect(file);
        assert!(written.contains(text), "{file}: {written}");
    }
    assert!(site.join("guide/call.png").is_file());
    assert!(
        deployment
            .run_failing(1, &["docs", "/dev/null"])
            .contains("/dev/null")
    );
}
