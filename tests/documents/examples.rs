//! Examples in the documents: commands are accepted, settings are valid, and blocks marked `<!-- run -->` are run. Every command block is
//! run, here or by one of [`RUNNERS`].

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Parser;
use conclave::cli::Cli;
use conclave::config::{Mode, Sources};
use serde_json::Value;

use crate::text::{Block, blocks};
use crate::{documents, root};

/// Runners of the blocks marked `<!-- run: NAME -->`. Each names the pages whose blocks it runs.
const RUNNERS: [&str; 5] = [
    "tests/e2e/sdks/main.py",
    "tests/e2e/cluster-page/page.py",
    "tests/e2e/deploy/pages.py",
    "tests/guide.rs",
    "tests/cli/postgres.rs",
];
/// Documents whose blocks are all run: by `scripts/check guide`, `scripts/check sdks` and `scripts/check embed`.
const RUN_WHOLE: [&str; 2] = ["docs/guide.md", "sdk/"];

/// Blocks in a language from all documents, with the documents' names.
fn all_blocks(language: &str, check: impl Fn(&str, &Block<'_>)) {
    let documents = documents();
    let found = documents.iter().flat_map(|document| {
        let blocks = blocks(&document.text);
        blocks.into_iter().map(|block| (&document.name, block))
    });
    let found: Vec<_> = found
        .filter(|(_, block)| block.language == language)
        .collect();
    assert!(!found.is_empty(), "no document has a block of {language}");
    for (name, block) in found {
        check(name, &block);
    }
}

/// Returns the arguments of each `conclave` command in a shell script, including the program's name. Variables stay as they are written.
fn commands(script: &str) -> Vec<Vec<String>> {
    let lines = script.replace("\\\n", " ");
    // Without function definitions and comments.
    let lines = lines
        .lines()
        .filter(|line| !line.contains("() {"))
        .filter_map(|line| line.split(" #").next());
    let commands = lines.flat_map(|line| {
        line.split(['|', ';', '(', ')', '>', '&'])
            .map(words)
            .collect::<Vec<_>>()
    });
    let found = commands.filter_map(|words| Some(words[program(&words)?..].to_vec()));
    found.filter(|words| words.len() > 1).collect()
}

/// Returns the position of the word that calls the program, possibly through a function that adds its options. A word after another
/// program's option names a user, a group or a container.
fn program(words: &[String]) -> Option<usize> {
    let is_program = |at: &usize| {
        let is_value = at
            .checked_sub(1)
            .is_some_and(|before| words[before].starts_with('-'));
        ["conclave", "as_conclave", "as_server"].contains(&&*words[*at]) && !is_value
    };
    (0..words.len()).rev().find(is_program)
}

/// Returns a command's words, without quotation marks.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quotation = None;
    for c in command.chars() {
        match quotation {
            Some(mark) if c == mark => quotation = None,
            None if c == '"' || c == '\'' => quotation = Some(c),
            None if c.is_whitespace() => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_command_of_the_program_in_an_example_is_accepted() {
    let mut count = 0;
    for document in documents() {
        for block in blocks(&document.text)
            .iter()
            .filter(|block| block.language == "bash")
        {
            for command in commands(&block.text) {
                let parsed = Cli::try_parse_from(&command);
                assert!(
                    parsed.is_ok(),
                    "{}: {command:?}: {}",
                    document.name,
                    parsed.unwrap_err()
                );
                count += 1;
            }
        }
    }
    assert!(count > 8, "only {count} commands were found");
}

#[test]
fn commands_are_found_in_scripts() {
    let script = "id=$(conclave project create --name 'a b' --json | sed s/a/b/)\nas_conclave() { sudo conclave \"$@\"; }\n\
                  install -g conclave -D a b\npodman run --name conclave \\\n  -v a conclave\n\
                  podman exec conclave conclave check # conclave none\n";
    let expected: [&[&str]; 2] = [
        &["conclave", "project", "create", "--name", "a b", "--json"],
        &["conclave", "check"],
    ];
    assert_eq!(commands(script), expected);
}

#[test]
fn examples_of_shell_commands_are_read_by_bash() {
    all_blocks("bash", |name, block| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script");
        fs::write(&file, &block.text).unwrap();
        let output = Command::new("bash").arg("-n").arg(&file).output().unwrap();
        assert!(
            output.status.success(),
            "{name}: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            block.text
        );
    });
}

#[test]
fn examples_of_settings_are_valid() {
    all_blocks("toml", |name, block| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("conclave.toml");
        // A file that is read with the settings is next to them here.
        fs::write(
            folder.path().join("database.url"),
            "postgres://conclave:secret@db.example.org/conclave",
        )
        .unwrap();
        fs::write(
            &file,
            block
                .text
                .replace("/etc/conclave", folder.path().to_str().unwrap()),
        )
        .unwrap();
        let sources = Sources {
            mode: Mode::Serve,
            file: Some(file),
            environment: Vec::new(),
            listen: None,
            admin: None,
        };
        assert!(
            sources.load().is_ok(),
            "{name}: {}\n{}",
            sources.load().unwrap_err(),
            block.text
        );
    });
}

#[test]
fn examples_of_json_are_json() {
    all_blocks("json", |name, block| {
        let parsed: Result<Value, _> = serde_json::from_str(&block.text);
        assert!(
            parsed.is_ok(),
            "{name}: {}\n{}",
            parsed.unwrap_err(),
            block.text
        );
    });
}

/// Programs that a script with one command per line calls, without leading variable assignments.
fn programs(script: &str) -> Vec<&str> {
    let lines = script.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            line.split_whitespace()
                .find(|word| !word.contains('='))
                .unwrap_or_default()
        })
        .collect()
}

#[test]
fn every_block_of_commands_is_run() {
    let runners: Vec<_> = RUNNERS
        .iter()
        .map(|name| fs::read_to_string(root().join(name)).unwrap())
        .collect();
    all_blocks("bash", |name, block| {
        let page = name.strip_prefix("docs/").unwrap_or(name);
        let is_run = match block.lead {
            "<!-- run -->" => true,
            lead if lead.starts_with("<!-- run: ") => {
                runners.iter().any(|runner| runner.contains(page))
            }
            _ => RUN_WHOLE.iter().any(|start| name.starts_with(start)),
        };
        // Developer documents call the repository's programs, which are checks themselves.
        let is_own = |program: &&str| *program == "cargo" || root().join(program).is_file();
        let is_for_developers = programs(&block.text).iter().all(is_own);
        assert!(
            is_run || is_for_developers,
            "{name}: nothing runs\n{}",
            block.text
        );
    });
    assert_eq!(
        programs("A=1 cargo test\n\nscripts/demo # a call\n"),
        ["cargo", "scripts/demo"]
    );
}

/// A page's marked blocks run one after another in an empty folder, with the program under test in `PATH`.
#[test]
fn blocks_that_are_marked_run_without_an_error() {
    let program = Path::new(env!("CARGO_BIN_EXE_conclave"));
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let mut count = 0;
    for document in documents() {
        let blocks = blocks(&document.text);
        let marked: Vec<_> = blocks
            .iter()
            .filter(|block| block.lead == "<!-- run -->")
            .collect();
        let script: String = marked.iter().map(|block| block.text.as_str()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &script])
            .current_dir(folder.path());
        let output = bash.env_clear().env("PATH", &path).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{}: {}",
            document.name,
            String::from_utf8_lossy(&said)
        );
        count += marked.len();
    }
    assert!(count > 2, "only {count} blocks are marked");
}
