//! Life of the server process: ready line, signals, exit. SIGTERM and SIGINT stop the process at any time; SIGHUP is ignored.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::thread;

use conclave_model::Clock;
use tokio::runtime::{self, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::{DevAccess, Server, ServerOptions, StartingServer, SteppedDown, descriptors, welcome};
use crate::config::{LoadedConfig, Mode};
use crate::data_dir::DEV_KEY_FILE;
use crate::error::CliError;
use crate::runtime::run_in_system;

/// Runs a server with the system clock until SIGTERM or SIGINT. A server that steps down becomes a standby on a new runtime, so that no
/// task of the active server survives.
///
/// # Errors
/// If the server could not start, or failed.
pub fn run(
    mode: Mode,
    LoadedConfig { config, origins }: LoadedConfig,
    data: PathBuf,
) -> Result<(), CliError> {
    descriptors::raise_limit();
    let options = ServerOptions {
        config,
        origins,
        mode,
        data,
        clock: Clock::system(),
    };
    let no_signals = |error| CliError::failed(format!("signals cannot be received: {error}"));
    let stop = StopSignal::new().map_err(no_signals)?;
    // Each round has a new runtime; only sockets and the lock pass from one to the next.
    let mut kept = None;
    loop {
        kept = run_in_system(serve(options.clone(), kept.take(), stop.clone()))?;
        if kept.is_none() {
            return Ok(());
        }
    }
}

/// Reason why a server stops.
enum ServerEnd {
    Stop,
    StepDown,
    Failure(&'static str),
}

/// Runs a server until it stops. If it has stepped down, returns the resources that it keeps for the next round.
async fn serve(
    options: ServerOptions,
    kept: Option<SteppedDown>,
    mut stop: StopSignal,
) -> Result<Option<SteppedDown>, CliError> {
    let (mode, shown) = (options.mode, options.data.clone());
    let mut starting = StartingServer::prepare(options, kept)?;
    // A stop must not wait for the lease: a standby may never get it.
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
        () = stop.received() => ServerEnd::Stop,
        () = server.step_down_asked() => ServerEnd::StepDown,
        failure = server.failed() => ServerEnd::Failure(failure),
    };
    // Logged before anything can block, so that a slow stop is visible.
    log::info!("stopping");
    match end {
        ServerEnd::Stop => server.stop().await,
        ServerEnd::StepDown => return Ok(server.step_down().await),
        ServerEnd::Failure(failure) => {
            server.stop_failed().await;
            // Only a start rebuilds failed parts from the database, so the process exits and its supervisor restarts it.
            return Err(CliError::failed(format!(
                "{failure}; see the log for the cause"
            )));
        }
    }
    Ok(None)
}

/// Announces the server as ready: to programs on stdout, and to a developer at a terminal. Without a terminal, stderr is a log, which must
/// not contain the key.
fn announce(server: &Server, mode: Mode, data: &Path) {
    print_ready_line(server);
    let call_page = server.call_page.as_deref();
    if io::stderr().is_terminal() {
        if let Some(DevAccess { api_key, .. }) = &server.dev {
            eprint!(
                "{}",
                welcome::requests(&server.api_url, api_key, &welcome::room_name())
            );
            eprint!("{}", welcome::installs(&server.admin));
        }
        eprint!("{}", welcome::pages(&server.admin, call_page));
        if mode == Mode::Dev {
            eprint!(
                "{}",
                welcome::next_commands(&welcome::program(std::env::args_os().next()), data)
            );
        }
        return;
    }
    if let Some(page) = call_page {
        log::info!("calls can be joined at {page}");
    }
    if mode == Mode::Dev {
        log::info!("the API key is in {}", data.join(DEV_KEY_FILE).display());
    }
}

/// Prints the ready line. Nothing else is printed on stdout; a server that becomes active again prints another one.
fn print_ready_line(server: &Server) {
    let mut stdout = io::stdout().lock();
    // A closed stdout is not an error: a supervisor may have stopped reading after the first line.
    let _ = writeln!(stdout, "{}", server.ready_line()).and_then(|()| stdout.flush());
}

/// Signal that the process has to stop. All clones receive it.
#[derive(Clone)]
struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    /// Starts to receive signals, on a thread with its own runtime: a server that steps down stops its runtime, and no signal may be lost
    /// meanwhile.
    ///
    /// # Errors
    /// If signals cannot be received.
    fn new() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let signals = register(&runtime)?;
        let (sender, receiver) = watch::channel(false);
        thread::Builder::new().name("signals".into()).spawn(move || {
            let [mut terminate, mut interrupt, mut hang_up] = signals;
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = terminate.recv() => break,
                        _ = interrupt.recv() => break,
                        // Many daemons reload their settings at SIGHUP; its default action would kill this one.
                        _ = hang_up.recv() => {
                            log::info!("SIGHUP is ignored: certificates are read when their files change, settings at the start");
                        }
                    }
                }
            });
            sender.send_replace(true);
        })?;
        Ok(Self(receiver))
    }

    /// Resolves once a signal has been received.
    async fn received(&mut self) {
        // An error means that the thread has exited, which it does only after a signal.
        let _ = self.0.wait_for(|is_received| *is_received).await;
    }
}

fn register(runtime: &Runtime) -> io::Result<[Signal; 3]> {
    let _guard = runtime.enter();
    Ok([
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    ])
}
