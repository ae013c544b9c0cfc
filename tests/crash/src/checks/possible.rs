//! A record's state as far as its clients know it.

use std::collections::BTreeSet;

use crate::journal::Entry;

/// States that a record can have after a client's requests. Several are possible after a request without an outcome.
pub struct Possible<S>(BTreeSet<S>);

impl<S: Ord> Possible<S> {
    pub fn new(initial: S) -> Self {
        Self([initial].into())
    }

    /// Records a request that gives the record a state. A refused request changes nothing.
    pub fn record(&mut self, request: &Entry, state: S) {
        if request.acknowledged().is_some() {
            self.0.clear();
        }
        if request.acknowledged().is_some() || request.has_failed() {
            self.0.insert(state);
        }
    }

    /// Returns whether the record can have the state.
    pub fn allows(&self, state: &S) -> bool {
        self.0.contains(state)
    }

    /// Returns whether the record has the state for certain.
    pub fn is(&self, state: &S) -> bool {
        self.0.len() == 1 && self.allows(state)
    }
}
