//! SIGTERM and SIGINT, which end the process whatever it is doing.

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
            let [mut terminate, mut interrupt] = signals;
            runtime.block_on(async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
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

fn register(runtime: &Runtime) -> io::Result<[Signal; 2]> {
    let _guard = runtime.enter();
    Ok([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?])
}
