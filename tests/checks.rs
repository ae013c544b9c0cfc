//! The check runner: how `.ci/run` and `scripts/nightly` report failed, flaky and skipped sections, and slow tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

/// A section that fails at first and then passes.
const FLAKY: &str = "flaky() { [[ ! -e seen ]] || { echo second output; return 0; }; touch seen; echo first output; return 9; }";

/// A check's output and exit code.
struct Outcome {
    folder: tempfile::TempDir,
    code: i32,
    printed: String,
}

impl Outcome {
    /// Runs a check with these commands, after `source .ci/sections.sh`.
    fn of(commands: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(root().join(".ci"), folder.path().join(".ci")).unwrap();
        let script = format!("set -euo pipefail\nsource .ci/sections.sh\n{commands}\nend\n");
        fs::write(folder.path().join("check"), script).unwrap();
        let mut bash = Command::new("bash");
        bash.arg("check")
            .current_dir(folder.path())
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("RUST_TEST_THREADS");
        let output = bash.output().unwrap();
        let printed =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        Self {
            folder,
            code: output.status.code().unwrap(),
            printed,
        }
    }

    /// Returns a section's result in the table.
    fn result(&self, section: &str) -> &str {
        let row = self
            .printed
            .lines()
            .rev()
            .find(|line| line.ends_with(&format!("  {section}")));
        let row = row.unwrap_or_else(|| panic!("no {section}: {}", self.printed));
        row.split_whitespace().nth(2).unwrap()
    }

    fn kept(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.path().join("target/flaky/check").join(file)).ok()
    }
}

#[test]
fn a_real_time_section_that_holds_when_it_is_repeated_is_flaky_and_passes() {
    let outcome = Outcome::of(&format!(
        "{FLAKY}\nrun before true\nrealtime 'a call' flaky\nrealtime after true"
    ));
    assert_eq!(
        (outcome.code, outcome.result("a call")),
        (0, "flaky"),
        "{}",
        outcome.printed
    );
    assert_eq!(
        (outcome.result("before"), outcome.result("after")),
        ("passed", "passed")
    );
    assert_eq!(
        outcome.kept("a-call.first.log").as_deref(),
        Some("first output\n")
    );
    assert_eq!(
        outcome.kept("a-call.second.log").as_deref(),
        Some("second output\n")
    );
    assert!(
        outcome.printed.contains("3 sections, 0 failed, 1 flaky"),
        "{}",
        outcome.printed
    );
}

#[test]
fn a_strict_check_fails_if_a_section_is_flaky_and_passes_if_none_is() {
    let flaky = Outcome::of(&format!("STRICT=1\n{FLAKY}\nrealtime call flaky"));
    assert_eq!(
        (flaky.code, flaky.result("call")),
        (1, "flaky"),
        "{}",
        flaky.printed
    );
    let good = Outcome::of("STRICT=1\nrealtime call true");
    assert_eq!(
        (good.code, good.result("call")),
        (0, "passed"),
        "{}",
        good.printed
    );
}

#[test]
fn a_section_that_fails_twice_fails_and_one_of_logic_is_not_repeated() {
    let twice = Outcome::of(
        "broken() { echo tried; return 3; }\nrealtime call broken\nrealtime after true",
    );
    assert_eq!(
        (twice.code, twice.result("call"), twice.result("after")),
        (1, "FAILED", "passed"),
        "{}",
        twice.printed
    );
    assert!(twice.kept("call.first.log").is_some() && twice.kept("call.second.log").is_some());
    let logic = Outcome::of(&format!("{FLAKY}\nrun logic flaky"));
    assert_eq!(
        (logic.code, logic.result("logic")),
        (1, "FAILED"),
        "{}",
        logic.printed
    );
    assert!(
        !logic.printed.contains("second output"),
        "{}",
        logic.printed
    );
}

#[test]
fn a_section_is_skipped_if_something_is_missing_also_when_it_is_repeated() {
    let skipped = Outcome::of("lacks() { return 77; }\nrealtime call lacks");
    assert_eq!(
        (
            skipped.code,
            skipped.result("call"),
            skipped.kept("call.first.log")
        ),
        (0, "skipped", None)
    );
    let lost = "lost() { [[ ! -e seen ]] || return 77; touch seen; return 1; }\nrealtime call lost";
    let outcome = Outcome::of(lost);
    assert_eq!(
        (outcome.code, outcome.result("call")),
        (1, "FAILED"),
        "a skipped repetition proves nothing"
    );
}

#[test]
fn sections_in_real_time_come_last() {
    let script = fs::read_to_string(root().join(".ci/run")).unwrap();
    let calls = |word: &str| -> Vec<_> {
        let lines = script
            .lines()
            .enumerate()
            .filter(|(_, line)| line.trim_start().starts_with(word));
        lines
            .map(|(number, line)| (number, line.to_owned()))
            .collect()
    };
    let in_real_time = calls("realtime ");
    let (first, _) = in_real_time.first().unwrap();
    for word in ["run '", "run \"", "start '", "start \"", "finish "] {
        assert!(
            calls(word).iter().all(|(number, _)| number < first),
            "{word}"
        );
    }
    for check in ["clients", "console", "files", "guide", "ingress"] {
        assert!(
            in_real_time
                .iter()
                .any(|(_, line)| line.contains(&format!("scripts/check {check}"))),
            "{check}"
        );
    }
    assert!(
        fs::read_to_string(root().join("scripts/nightly"))
            .unwrap()
            .contains(".ci/run --strict")
    );
}

/// Runs Python with `tool`, which is `.ci/test-times` as a module.
fn python(program: &str) -> Option<String> {
    let tool = root().join(".ci/test-times");
    let load = format!(
        "import importlib.machinery\nimport importlib.util\nimport sys\n\
         loader = importlib.machinery.SourceFileLoader('tool', {:?})\n\
         tool = importlib.util.module_from_spec(importlib.util.spec_from_loader('tool', loader))\n\
         loader.exec_module(tool)\n",
        tool.display().to_string()
    );
    plain_python(&format!("{load}{program}"))
}

/// Runs Python, which can import modules of `tests`, and returns its output; nothing without Python.
fn plain_python(program: &str) -> Option<String> {
    let Ok(output) = Command::new("python3")
        .args(["-B", "-c", program])
        .env("PYTHONPATH", root().join("tests"))
        .output()
    else {
        println!("skipped: python3 is not on this machine");
        return None;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_times_of_tests_follow_from_their_ends() {
    // With two threads: `a` and `b` start at 1, `c` when `b` ends, `d` when `a` ends.
    let program = r#"
lines = ["     Running unittests src/lib.rs (target/debug/deps/it-1)\n", "running 4 tests\n", "test b ... ok\n", "a line of a program\n",
         "test a - should panic ... ok\n", "test d ... FAILED\n", "test c ... ok\n", "test result: FAILED. 3 passed; 1 failed\n",
         "running 2 tests\n", "test x ... ok\n", "test y ... not understood\n", "test result: ok.\n"]
clock = iter([0, 1, 3, 3, 4, 9, 11, 11, 20, 21, 22, 23])
for found in tool.watch(lines, 2, lambda: next(clock)):
    print("found", found)
print(tool.slowest(["1.5\tone\ta\n", "30\ttwo\tb\n", "2\tone\tc\n"], 2))
"#;
    let Some(printed) = python(program) else {
        return;
    };
    let found: Vec<_> = printed
        .lines()
        .filter(|line| line.starts_with("found"))
        .collect();
    // The second program has an unreadable line, so its times are unknown.
    let expected = [
        "(2, 'src/lib.rs', 'b')",
        "(3, 'src/lib.rs', 'a')",
        "(5, 'src/lib.rs', 'd')",
        "(8, 'src/lib.rs', 'c')",
    ];
    assert_eq!(
        found,
        expected.map(|one| format!("found {one}")),
        "{printed}"
    );
    assert!(
        printed.contains("test d ... FAILED\n") && printed.contains("a line of a program\n"),
        "{printed}"
    );
    assert!(
        printed.ends_with("['   30.0 s  two  b', '    2.0 s  one  c']\n"),
        "{printed}"
    );
}

#[test]
fn a_check_names_the_slowest_tests_and_keeps_the_status_of_what_it_times() {
    if python("").is_none() {
        return;
    }
    let tests = |status: u8| {
        format!(
            "tests() {{ printf '     Running tests/it.rs (x)\\nrunning 1 test\\ntest slow ... ok\\ntest result: ok.\\n'; return {status}; }}\n\
             run tests timed tests"
        )
    };
    let good = Outcome::of(&tests(0));
    assert_eq!(
        (good.code, good.result("tests")),
        (0, "passed"),
        "{}",
        good.printed
    );
    let (_, slowest) = good.printed.split_once("the slowest tests\n").unwrap();
    assert!(
        slowest
            .lines()
            .next()
            .unwrap()
            .ends_with(" s  tests/it.rs  slow"),
        "{}",
        good.printed
    );
    assert_eq!(Outcome::of(&tests(101)).result("tests"), "FAILED");
}

#[test]
fn the_files_of_a_report_do_not_change_the_commit_that_the_next_part_measures() {
    let program = r#"
import os, shutil, subprocess, sys, tempfile
from pathlib import Path
from e2e import runner
if not shutil.which("git"):
    print("skipped: git is not on this machine")
    sys.exit()
# A hook of git has variables that name its repository.
for name in [name for name in os.environ if name.startswith("GIT_")]:
    del os.environ[name]
os.environ["GIT_CEILING_DIRECTORIES"] = tempfile.gettempdir()
with tempfile.TemporaryDirectory() as folder:
    root = Path(folder)
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)
    def found():
        return runner.measured_commit(root)
    report = ["docs/performance.json", "docs/performance.md", "docs/plot.svg"]
    sources = ["docs/diagrams/a.svg", "src.rs"]
    (root / "docs/diagrams").mkdir(parents=True)
    for name in report + sources:
        (root / name).write_text("1")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "One")
    commit = found()
    assert len(commit) == 8, commit
    for name in report:
        (root / name).write_text("2")
        assert found() == commit, name
    for name in sources:
        (root / name).write_text("2")
        assert found() == commit + "-dirty", name
        (root / name).write_text("1")
with tempfile.TemporaryDirectory() as folder:
    assert runner.measured_commit(Path(folder)) == "unknown"
"#;
    plain_python(program);
}

/// Runs `scripts/check` or `scripts/bench`, and returns its exit code and output.
fn door(verb: &str, words: &[&str]) -> (i32, String) {
    let output = Command::new(root().join("scripts").join(verb))
        .args(words)
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(printed).unwrap(),
    )
}

#[test]
fn every_check_is_listed_with_its_time_and_runs_at_night_or_before_a_merge() {
    if python("").is_none() {
        return;
    }
    let (code, printed) = door("check", &["--list"]);
    assert_eq!(code, 0, "{printed}");
    let listed: Vec<_> = printed
        .lines()
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(listed.len() > 20, "{printed}");
    let folders = fs::read_dir(root().join("tests/e2e")).unwrap();
    for folder in folders.map(|entry| entry.unwrap().path()) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let is_check = ["main.py", "main.mjs", "main.sh"]
            .iter()
            .any(|file| folder.join(file).exists());
        assert!(!is_check || listed.contains(&name), "{name} is not listed");
    }
    let [run, nightly] = [".ci/run", "scripts/nightly"]
        .map(|script| fs::read_to_string(root().join(script)).unwrap());
    let (_, sections) = nightly.split_once("all=(").unwrap();
    let sections: Vec<_> = sections
        .split(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    for name in listed {
        let is_run = sections.contains(&name) || run.contains(&format!("scripts/check {name}"));
        assert!(is_run, "nothing runs {name}");
    }
}

#[test]
fn a_check_that_does_not_exist_is_refused_and_arguments_are_for_one_alone() {
    if python("").is_none() {
        return;
    }
    let (code, printed) = door("check", &["nothing"]);
    assert!(
        code == 2 && printed.contains("there is no check nothing, but features"),
        "{code} {printed}"
    );
    let (code, printed) = door("check", &["openapi", "sdks", "--seed", "7"]);
    assert!(
        code != 0 && printed.contains("arguments are for one alone"),
        "{code} {printed}"
    );
    let (code, printed) = door("bench", &["--list"]);
    assert!(
        code == 0 && printed.contains("server") && printed.contains("media"),
        "{code} {printed}"
    );
    assert_eq!(
        door("check", &["--packages", "guide"]),
        (
            0,
            "node=nodejs\nnpm=npm\nchromium=chromium\nffmpeg=ffmpeg\ncurl=curl\ngo=golang-go\n"
                .to_owned()
        )
    );
}

#[test]
fn scripts_of_checks_are_read_by_bash() {
    for script in [".ci/run", "scripts/nightly", ".ci/sections.sh"] {
        let output = Command::new("bash")
            .arg("-n")
            .arg(root().join(script))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
