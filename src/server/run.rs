//! Runs a server as the process: ready line, signals, exit.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use conclave_model::Clock;

use super::signals::StopSignal;
use super::{Kept, Server, ServerOptions, StartingServer, descriptors};
use crate::config::{LoadedConfig, Mode};
use crate::data_dir::DEFAULT_DATA;
use crate::error::CliError;
use crate::runtime::run_in_system;

/// Runs a server with the system clock until SIGTERM or SIGINT. A server that steps down is a standby afterwards, on a new runtime: nothing
/// of what it did as the active one goes on.
///
/// # Errors
/// The server could not start, or could not go on.
pub fn run(mode: Mode, LoadedConfig { config, origins }: LoadedConfig, data: PathBuf) -> Result<(), CliError> {
    descriptors::raise_limit();
    let options = ServerOptions { config, origins, mode, data, clock: Clock::system() };
    let no_signals = |error| CliError::failed(format!("signals cannot be received: {error}"));
    let stop = StopSignal::new().map_err(no_signals)?;
    let mut kept = None;
    loop {
        kept = run_in_system(serve(options.clone(), kept.take(), stop.clone()))?;
        if kept.is_none() {
            return Ok(());
        }
    }
}

/// Why a server ends.
enum End {
    Stop,
    StepDown,
    Failure(&'static str),
}

/// Runs a server until it ends. Returns what it keeps, if it has stepped down.
async fn serve(options: ServerOptions, kept: Option<Kept>, mut stop: StopSignal) -> Result<Option<Kept>, CliError> {
    let (mode, shown) = (options.mode, options.data.clone());
    let mut starting = StartingServer::prepare(options, kept)?;
    let is_active = tokio::select! {
        active = starting.wait_until_active() => active.map(|()| true)?,
        () = stop.received() => false,
    };
    if !is_active {
        starting.stop().await;
        return Ok(None);
    }
    let server = starting.start().await?;
    announce(&server, mode, &shown);
    let end = tokio::select! {
        () = stop.received() => End::Stop,
        () = server.step_down_asked() => End::StepDown,
        failure = server.failed() => End::Failure(failure),
    };
    log::info!("stopping");
    match end {
        End::Stop => server.stop().await,
        End::StepDown => return Ok(server.step_down().await),
        End::Failure(failure) => {
            server.stop_failed().await;
            // What has failed is rebuilt from the database by a start only, so the process ends and its supervisor restarts it.
            return Err(CliError::failed(format!("{failure}; see the log for the cause")));
        }
    }
    Ok(None)
}

/// Says that the server is ready, to programs and to a person at a terminal.
fn announce(server: &Server, mode: Mode, data: &Path) {
    print_ready_line(server);
    if std::io::stderr().is_terminal() {
        eprint!("{}", pages(&server.admin, server.call_page.as_deref()));
        if mode == Mode::Dev {
            eprint!("{}", next_steps(&program(std::env::args_os().next()), data));
        }
    } else if let Some(page) = &server.call_page {
        log::info!("calls can be joined at {page}");
    }
}

/// Prints the ready line. Nothing else is printed on stdout; a server that becomes active again prints another one. A closed stdout is
/// not an error.
fn print_ready_line(server: &Server) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{}", server.ready_line()).and_then(|()| stdout.flush());
}

/// Returns what to open in a browser, for a person at a terminal.
fn pages(admin: &SocketAddr, call_page: Option<&str>) -> String {
    let admin = [("console", format!("http://{admin}/")), ("API docs", format!("http://{admin}/docs"))];
    let call_page = call_page.map(|page| ("call page", page.to_owned()));
    let lines = admin.into_iter().chain(call_page).map(|(name, url)| format!("  {name:<10} {url}\n"));
    format!("\nOpen in a browser:\n{}\n", lines.collect::<String>())
}

/// Returns how to call this program from the same folder: as it was called, which is by a path if it is not installed.
fn program(called: Option<OsString>) -> String {
    called.map_or_else(|| "conclave".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Returns what a developer may try next, at another terminal.
fn next_steps(program: &str, data: &Path) -> String {
    let data = if data == Path::new(DEFAULT_DATA) { String::new() } else { format!("--data {} ", data.display()) };
    let listen = format!("{program} {data}listen --forward http://localhost:3000/hooks");
    format!("Try next:\n  {listen}\n  {program} {data}trigger participant.joined\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_developer_learns_what_to_try_next() {
        let steps = next_steps("conclave", Path::new(DEFAULT_DATA));
        assert!(steps.contains("  conclave listen --forward http://localhost:3000/hooks\n"), "{steps}");
        assert!(steps.contains("  conclave trigger participant.joined\n"), "{steps}");
        assert!(next_steps("conclave", Path::new("/tmp/a")).contains("conclave --data /tmp/a trigger "));
    }

    #[test]
    fn a_program_that_is_not_installed_is_called_by_its_path() {
        assert_eq!(program(Some("conclave".into())), "conclave");
        let built = program(Some("target/release/conclave".into()));
        assert!(next_steps(&built, Path::new(DEFAULT_DATA)).contains("\n  target/release/conclave trigger "));
    }

    #[test]
    fn a_person_at_a_terminal_learns_what_to_open() {
        let admin = "127.0.0.1:8081".parse().unwrap();
        let all = pages(&admin, Some("http://127.0.0.1:8080/call"));
        for page in ["console    http://127.0.0.1:8081/\n", "API docs   http://127.0.0.1:8081/docs\n"] {
            assert!(all.contains(page), "{all}");
        }
        assert!(all.contains("call page  http://127.0.0.1:8080/call\n"), "{all}");
        assert!(!pages(&admin, None).contains("call page"));
    }
}
