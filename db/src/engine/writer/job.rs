//! A job of the writer: what runs in a transaction, and what takes the result once the transaction has ended.

use std::marker::PhantomData;

use crate::error::{StoreError, catch_panic};
use crate::tx::Tx;

/// What keeps an error of a job from other jobs that share its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// A savepoint, to which the transaction is rolled back.
    Savepoint,
    /// The job writes by one statement, and cannot fail behind it. A savepoint would copy each page that the statement changes,
    /// which took a sixth of the writer's time for each new room.
    Statement,
}

/// A job in the queue: it runs inside the transaction and is finished when the transaction has ended.
pub(crate) trait Work: Send {
    /// What keeps its errors from others.
    fn isolation(&self) -> Isolation;
    /// Runs it, and keeps its result.
    fn run(&mut self, tx: &mut Tx<'_>) -> JobOutcome;
    /// Hands over its result, or the error with which its transaction ended.
    fn finish(self: Box<Self>, committed: Result<(), &StoreError>);
}

/// How what a job has written ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobOutcome {
    Commit,
    Rollback,
}

/// A job from the closure that runs it and the one that takes its result.
pub(crate) struct Job<F, T, D: FnOnce(Result<T, StoreError>)> {
    isolation: Isolation,
    run: Option<F>,
    result: Option<Result<T, StoreError>>,
    done: Done<T, D>,
}

/// What takes a job's result, on the thread. If there is none, because the thread panicked, it takes an error.
pub(crate) struct Done<T, D: FnOnce(Result<T, StoreError>)>(Option<D>, PhantomData<fn(T)>);

impl<T, D: FnOnce(Result<T, StoreError>)> Done<T, D> {
    fn take(mut self, result: Result<T, StoreError>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl<T, D: FnOnce(Result<T, StoreError>)> Drop for Done<T, D> {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(StoreError::closed()));
        }
    }
}

impl<F, T, D: FnOnce(Result<T, StoreError>)> Job<F, T, D> {
    pub(crate) fn new(isolation: Isolation, run: F, done: D) -> Self {
        Self {
            isolation,
            run: Some(run),
            result: None,
            done: Done(Some(done), PhantomData),
        }
    }
}

impl<F, T, D> Work for Job<F, T, D>
where
    F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send,
    T: Send,
    D: FnOnce(Result<T, StoreError>) + Send,
{
    fn isolation(&self) -> Isolation {
        self.isolation
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> JobOutcome {
        let Some(run) = self.run.take() else {
            return JobOutcome::Rollback;
        };
        let run = || {
            let result = run(tx)?;
            tx.write_events()?;
            Ok(result)
        };
        let result = catch_panic("a write job", run);
        let outcome = if result.is_ok() {
            JobOutcome::Commit
        } else {
            JobOutcome::Rollback
        };
        self.result = Some(result);
        outcome
    }

    fn finish(self: Box<Self>, committed: Result<(), &StoreError>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            // Of a job that has met damage, nothing else may be said: it has ended the transaction of all others.
            (Err(_), Some(Err(own @ StoreError::Damaged(_)))) => Err(own),
            // A refusal that was decided inside a transaction that then failed may rest on rows that were rolled back.
            (Err(error), _) => Err(StoreError::Unavailable(error.to_string())),
            (Ok(()), None) => Err(StoreError::Fault("a write job did not run".into())),
        };
        self.done.take(result);
    }
}
