//! Turns: how many of the rooms whose deadline has come are ended at once, in all projects together.
//!
//! After a long stop a great many rooms may be due. Without turns all of them would be woken at once, and their writes would
//! precede those of every other project. A project asks for one turn at a time and turns are given in the order of the
//! requests, so that no project waits for all rooms of another.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most rooms that are ended at once. Their writes share a transaction, with room for those of others.
const AT_ONCE: usize = 32;

/// The turns of all projects. Clones give the same ones.
#[derive(Debug, Clone)]
pub struct Turns(Arc<Semaphore>);

/// A turn. It ends when this is dropped: with the message that carries it.
#[derive(Debug)]
pub struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Turns {
    /// Waits for a turn.
    pub async fn next(&self) -> Option<Turn> {
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_owned().await.ok().map(|permit| Turn { _permit: permit })
    }

    /// Returns the number of turns that are not taken.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_turn_is_given_when_one_of_those_that_are_taken_ends() {
        let turns = Turns::default();
        assert_eq!(turns.free(), AT_ONCE);
        let mut taken: Vec<_> = (0..AT_ONCE).map(|_| turns.next().now_or_never().flatten().unwrap()).collect();
        assert_eq!(turns.free(), 0);
        assert!(turns.next().now_or_never().is_none(), "it waits");
        taken.pop();
        assert_eq!(turns.free(), 1);
        assert!(turns.next().now_or_never().flatten().is_some());
    }
}
