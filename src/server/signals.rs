//! SIGTERM and SIGINT, which end the process whatever it is doing, and SIGHUP, which does not.

use std::io;
use std::thread;

use tokio::runtime::{self, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Whether the process is to end. Clones see the same signals.
#[derive(Clone)]
pub(super) struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    /// Receives signals from now on, on a thread and a runtime of its own: a server that steps down ends its runtime, and a signal must
    /// not be lost meanwhile.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub fn new() -> io::Result<Self> {
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

    /// Returns once a signal was received.
    pub async fn received(&mut self) {
        // The thread ends after it has said so.
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
