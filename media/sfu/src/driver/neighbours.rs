//! The process's other workers.

use std::sync::{Arc, OnceLock};

use crate::queue::{RoomInstruction, WorkerSender};
use crate::worker::Crossings;

/// The process's workers by position. Empty until all of them have started.
#[derive(Clone, Default)]
pub struct Neighbours(Arc<OnceLock<Vec<WorkerSender>>>);

impl Neighbours {
    /// Sets the workers, once.
    pub fn introduce(&self, workers: impl Iterator<Item = WorkerSender>) {
        self.0.get_or_init(|| workers.collect());
    }

    /// Sends messages and packets to other workers, and wakes each once.
    pub fn send(&self, mut crossings: Crossings) {
        let workers = self.0.get().into_iter().flatten().enumerate();
        for (index, worker) in workers {
            let is_for = |to: usize| to == index;
            let told = crossings
                .instructions
                .extract_if(.., |(to, ..)| is_for(to.0));
            let ready = crossings
                .ready
                .iter()
                .filter(|reader| is_for(reader.worker.0));
            let mut told = told
                .map(|(_, room, instruction)| RoomInstruction { room, instruction })
                .peekable();
            let mut ready = ready.map(|reader| reader.track).peekable();
            // A wake-up is a system call, so workers without news are left alone.
            if told.peek().is_some() || ready.peek().is_some() {
                worker.send_all(told, ready);
            }
        }
    }
}
