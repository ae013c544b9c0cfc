//! Threads for slow requests, and limits on concurrent requests.
//!
//! Such a request blocks its thread until the server responds or a timeout expires, so servers that
//! hang could occupy all threads. Each request therefore needs a permit from its server's *class*,
//! which depends on earlier responses: servers that hang compete with each other only. Within a
//! class, a limit per project leaves permits to the others. Nothing else runs on these threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use conclave_model::permits::{PermitLimits, ProjectPermits};
use tokio::runtime::{Builder, Runtime};

/// Threads, and the permits for each class.
#[derive(Debug)]
pub(crate) struct RequestPool<const CLASSES: usize> {
    classes: [ProjectPermits; CLASSES],
    /// `None` once dropped.
    threads: Option<Runtime>,
}

impl<const CLASSES: usize> RequestPool<CLASSES> {
    /// Creates a pool. Threads are started on demand, with this name; each calls `prepare` first.
    ///
    /// # Errors
    /// Fails if the operating system refuses the resources.
    pub fn new(
        name: &str,
        limits: [PermitLimits; CLASSES],
        prepare: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        // One thread per permit, so work with a permit never waits for a thread.
        let max_threads = limits.iter().map(|class| class.total).sum();
        let mut threads = Builder::new_current_thread();
        // The runtime is only used for its blocking threads.
        let threads = threads
            .thread_name(name)
            .max_blocking_threads(max_threads)
            .on_thread_start(prepare)
            .build()?;
        Ok(Self {
            classes: limits.map(ProjectPermits::new),
            threads: Some(threads),
        })
    }

    pub const fn classes(&self) -> &[ProjectPermits; CLASSES] {
        &self.classes
    }

    /// Runs work on a pool thread; the caller must hold a permit meanwhile. The work continues even
    /// if this future is dropped. Returns `None` if it panics, or the operating system refuses a
    /// thread.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let threads = self.threads.as_ref()?;
        // Panics if there is no idle thread and none can be started.
        let started = catch_unwind(AssertUnwindSafe(|| threads.spawn_blocking(work))).ok()?;
        // An error means that the work panicked.
        started.await.ok()
    }
}

impl<const CLASSES: usize> Drop for RequestPool<CLASSES> {
    /// Abandons running work to its threads, which end with the process.
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const WAIT_LIMIT: Duration = Duration::from_secs(60);

    fn pool() -> RequestPool<1> {
        RequestPool::new("test", [PermitLimits::new(2)], || ()).unwrap()
    }

    #[tokio::test]
    async fn work_that_panics_has_no_result_and_leaves_the_pool_usable() {
        let pool = pool();
        assert_eq!(
            pool.run(|| panic!("expected by the test")).await,
            None::<()>
        );
        let name = pool
            .run(|| std::thread::current().name().map(str::to_owned))
            .await;
        assert_eq!(name, Some(Some("test".to_owned())));
    }

    #[tokio::test]
    async fn work_ends_although_nobody_waits_for_it_any_more() {
        let (pool, (go, goes), (report, reports)) = (pool(), channel::<()>(), channel());
        let work = pool.run(move || {
            report.send("begun").unwrap();
            goes.recv().unwrap();
            report.send("ended").unwrap();
        });
        assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err());
        assert_eq!(reports.recv_timeout(WAIT_LIMIT), Ok("begun"));
        drop(pool);
        go.send(()).unwrap();
        assert_eq!(reports.recv_timeout(WAIT_LIMIT), Ok("ended"));
    }
}
