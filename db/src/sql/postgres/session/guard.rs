//! Statements that guard a transaction: they divide by zero where it must not be committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::error::SqlState;

use super::Session;
use crate::error::StoreError;
use crate::sql::postgres::error::store_error;
use crate::sql::values::Value;

impl Session {
    /// Writes, and does not wait, by a statement that divides by zero once another server has taken over ([`Self::was_fenced`]).
    pub(crate) fn put_fence(&self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        self.put_guard(text, args, &self.fenced, "another server has taken over")
    }

    /// The same, for a statement that divides by zero if the last commit of this lane is gone ([`Self::was_set_back`]).
    pub(crate) fn put_mark(&self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        self.put_guard(
            text,
            args,
            &self.set_back,
            "the last commit of this server is gone",
        )
    }

    /// Whether a statement of [`Self::put_fence`] has failed because another server has taken over.
    pub(crate) fn was_fenced(&self) -> bool {
        self.fenced.load(Ordering::Relaxed)
    }

    /// Forgets that a fence has failed, where the session goes on.
    pub(crate) fn forget_fence(&self) {
        self.fenced.store(false, Ordering::Relaxed);
    }

    /// Whether a statement of [`Self::put_mark`] has failed because an earlier commit is gone.
    pub(crate) fn was_set_back(&self) -> bool {
        self.set_back.load(Ordering::Relaxed)
    }

    /// Writes, and does not wait. A division by zero sets `broken`, and is this error.
    fn put_guard(
        &self,
        text: &str,
        args: &[Value<'_>],
        broken: &Arc<AtomicBool>,
        error: &'static str,
    ) -> Result<(), StoreError> {
        let (statement, parameters) = self.bind(text, args)?;
        let (client, broken) = (Arc::clone(&self.client), Arc::clone(broken));
        self.send(async move {
            let parameters: Vec<_> = parameters.iter().map(|parameter| parameter as _).collect();
            let held = client.execute(&statement, &parameters).await;
            let is_broken = held
                .as_ref()
                .is_err_and(|error| error.code() == Some(&SqlState::DIVISION_BY_ZERO));
            broken.fetch_or(is_broken, Ordering::Relaxed);
            let guarded = || StoreError::Unavailable(error.into());
            held.map(drop).map_err(|error| {
                if is_broken {
                    guarded()
                } else {
                    store_error(&error)
                }
            })
        })
    }
}
