//! `conclave listen` as a process next to a server.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use crate::deployment::Deployment;
use crate::support::WAIT_LIMIT;

/// A running `conclave listen`. It is killed when dropped.
pub struct Listener {
    child: Child,
    events: mpsc::Receiver<String>,
    notes: mpsc::Receiver<String>,
}

impl Listener {
    /// Starts the command, and waits until it follows the events.
    pub fn start(deployment: &Deployment, arguments: &[&str]) -> Self {
        let listener = Self::spawn(deployment.command(&[&["listen"], arguments].concat()));
        listener.wait_for_note("following the events of");
        listener
    }

    /// Starts the command, which may have to wait for the server.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (events, notes) = (
            lines(child.stdout.take().unwrap()),
            lines(child.stderr.take().unwrap()),
        );
        Self {
            child,
            events,
            notes,
        }
    }

    /// Returns the next line about an event.
    #[track_caller]
    pub fn next(&self) -> String {
        self.events.recv_timeout(WAIT_LIMIT).expect("an event")
    }

    /// Waits for a line that is not about an event, and contains `text`.
    #[track_caller]
    pub fn wait_for_note(&self, text: &str) -> String {
        loop {
            let note = self
                .notes
                .recv_timeout(WAIT_LIMIT)
                .unwrap_or_else(|_| panic!("no note says {text:?}"));
            if note.contains(text) {
                return note;
            }
        }
    }

    /// Waits for the secret that signs events.
    #[track_caller]
    pub fn secret(&self) -> String {
        let note = self.wait_for_note("signed with whsec_");
        note.rsplit_once(' ').unwrap().1.to_owned()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
