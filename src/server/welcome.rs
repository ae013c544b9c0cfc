//! Text below the ready line at a terminal: commands to paste, pages to open.

use std::borrow::Cow;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;

use conclave_model::key::ApiKey;
use conclave_model::secret::{UNAMBIGUOUS, random_text};

use crate::data_dir::DEFAULT_DATA;
use crate::http::console::sdks::{FOLDER, sdks};

/// Characters that need no quotes in a shell word, besides letters and digits.
const PLAIN: &str = "/._-+:,@%";

/// Returns a room name that no start has used, since an ended room's name cannot be used again in its project.
pub(super) fn room_name() -> String {
    format!("hello-{}", random_text(6, UNAMBIGUOUS))
}

/// Returns the environment variables that the SDKs read, and three requests with them.
pub(super) fn requests(api_url: &str, key: &ApiKey, room: &str) -> String {
    // The room stays open for a day, so that the other lines also work after a break.
    let create_room = format!(r#"{{"name": "{room}", "empty_timeout_seconds": 86400}}"#);
    let create_token = format!(r#"{{"room": "{room}", "identity": "ada", "role": "host"}}"#);
    let [create_room, create_token, create_code] = [
        ("rooms", create_room.as_str()),
        ("tokens", create_token.as_str()),
        (&*format!("rooms/{room}/codes"), r#"{"role": "guest"}"#),
    ]
    .map(|(path, body)| {
        // The key is in one line only, as a variable: users copy the other lines into notes and issues.
        // A line feed after the response, which curl does not print.
        let head = r#"curl -sSw '\n' -H "Authorization: Bearer $CONCLAVE_KEY" -H 'Content-Type: application/json'"#;
        format!(r#"{head} "$CONCLAVE_URL/v1/{path}" -d '{body}'"#)
    });
    format!(
        "\nIn another terminal, and for the SDKs:\n  export CONCLAVE_URL={} CONCLAVE_KEY={}\n\n\
         Create a room, a token for a client, and a code for a guest:\n\
         \x20 {create_room}\n  {create_token}\n  {create_code}\n",
        shell_word(api_url),
        key.reveal(),
    )
}

/// Returns the commands that install the server SDKs from this server.
pub(super) fn installs(admin: &SocketAddr) -> String {
    let sdks = sdks(&format!("http://{admin}"));
    let lines = sdks
        .iter()
        // Client SDKs get their tokens from the application's server, which comes first.
        .filter(|sdk| sdk.is_for_servers)
        .map(|sdk| format!("  {}\n", sdk.install));
    format!(
        "\nInstall an SDK in your project, for TypeScript, Python or Go:\n{}",
        lines.collect::<String>()
    )
}

/// Returns the pages to open in a browser.
pub(super) fn pages(admin: &SocketAddr, call_page: Option<&str>) -> String {
    let pages = [
        ("console", "/"),
        ("docs", "/docs/"),
        ("API docs", "/docs/api"),
        ("SDKs", FOLDER),
    ];
    let pages = pages.map(|(name, path)| (name, format!("http://{admin}{path}")));
    let call_page = call_page.map(|page| ("call page", page.to_owned()));
    let lines = pages
        .into_iter()
        .chain(call_page)
        .map(|(name, url)| format!("  {name:<10} {url}\n"));
    format!("\nOpen in a browser:\n{}\n", lines.collect::<String>())
}

/// Returns the command to call this program from the same folder: as it was called, since it may not be in the `PATH`.
pub(super) fn program(called: Option<OsString>) -> String {
    called.map_or_else(
        || "conclave".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Returns commands that a developer may run next, in another terminal.
pub(super) fn next_commands(program: &str, data: &Path) -> String {
    let (program, path) = (shell_word(program), data.display().to_string());
    // The commands run in the same folder, where this is the default.
    let data = if data == Path::new(DEFAULT_DATA) {
        String::new()
    } else {
        format!("--data {} ", shell_word(&path))
    };
    let listen = format!("{program} {data}listen --forward http://localhost:3000/hooks");
    format!(
        "Try next, in this folder:\n  {listen}\n  {program} {data}trigger participant.joined\n\n"
    )
}

/// Quotes a word for a shell if necessary.
fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    // An empty word needs quotes to be one.
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    // Between single quotes, a shell interprets nothing. A single quote itself ends them, and is escaped outside.
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use conclave_model::project::Environment;

    use super::*;

    #[test]
    fn a_developer_learns_what_to_try_next() {
        let commands = next_commands("conclave", Path::new(DEFAULT_DATA));
        assert!(
            commands.contains("  conclave listen --forward http://localhost:3000/hooks\n"),
            "{commands}"
        );
        assert!(
            commands.contains("  conclave trigger participant.joined\n"),
            "{commands}"
        );
        assert!(
            next_commands("conclave", Path::new("/tmp/a"))
                .contains("conclave --data /tmp/a trigger ")
        );
        assert!(
            next_commands("conclave", Path::new("my data"))
                .contains("conclave --data 'my data' trigger ")
        );
    }

    #[test]
    fn a_program_that_is_not_installed_is_called_by_its_path() {
        assert_eq!(program(Some("conclave".into())), "conclave");
        let built = program(Some("target/debug/conclave".into()));
        assert!(
            next_commands(&built, Path::new(DEFAULT_DATA))
                .contains("\n  target/debug/conclave trigger ")
        );
    }

    #[test]
    fn a_person_at_a_terminal_learns_what_to_open() {
        let admin = "127.0.0.1:8081".parse().unwrap();
        let all = pages(&admin, Some("http://127.0.0.1:8080/call"));
        for page in [
            "console    http://127.0.0.1:8081/\n",
            "docs       http://127.0.0.1:8081/docs/\n",
            "API docs   http://127.0.0.1:8081/docs/api\n",
        ] {
            assert!(all.contains(page), "{all}");
        }
        assert!(
            all.contains("SDKs       http://127.0.0.1:8081/sdk/\n"),
            "{all}"
        );
        assert!(
            all.contains("call page  http://127.0.0.1:8080/call\n"),
            "{all}"
        );
        assert!(!pages(&admin, None).contains("call page"));
    }

    #[test]
    fn each_sdk_for_servers_has_its_command() {
        let text = installs(&"127.0.0.1:8081".parse().unwrap());
        let commands: Vec<_> = text.lines().filter(|line| line.starts_with("  ")).collect();
        assert_eq!(commands.len(), 3, "{text}");
        assert_eq!(
            commands[0],
            "  npm install http://127.0.0.1:8081/sdk/conclave-sdk.tgz"
        );
        assert!(
            commands[1].starts_with("  pip install http://127.0.0.1:8081/sdk/conclave_sdk-"),
            "{text}"
        );
        assert!(
            commands[2].starts_with("  GOPROXY=http://127.0.0.1:8081/sdk/go,$(go env GOPROXY) "),
            "{text}"
        );
    }

    #[test]
    fn the_variables_and_three_requests_can_be_pasted() {
        let key = ApiKey::generate(Environment::Test);
        let text = requests("http://127.0.0.1:8080", &key, "hello-1");
        let line = format!(
            "\n  export CONCLAVE_URL=http://127.0.0.1:8080 CONCLAVE_KEY={}\n",
            key.reveal()
        );
        assert!(text.contains(&line), "{text}");
        let requests: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("  curl "))
            .collect();
        assert_eq!(requests.len(), 3, "{text}");
        // The key is in one line only; the requests take it from the variable.
        assert_eq!(text.matches(key.reveal()).count(), 1);
    }

    #[test]
    fn a_shell_reads_quoted_words_as_they_were() {
        for word in [
            "conclave-data",
            "my data",
            "it's",
            "$HOME",
            "a;b",
            "",
            "-a\\b",
            "\u{e9}t\u{e9}",
        ] {
            let script = format!("printf %s {}", shell_word(word));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
        assert_eq!(shell_word("target/debug/conclave"), "target/debug/conclave");
    }

    #[test]
    fn each_start_names_another_room() {
        assert_ne!(room_name(), room_name());
        assert!(
            room_name()
                .strip_prefix("hello-")
                .is_some_and(|end| end.len() == 6)
        );
    }
}
