//! Size and polls of request futures, which `tests/costs.rs` counts.
//!
//! A future is moved as a whole when it is boxed or spawned, and each poll passes through all futures around it. An allocator sees
//! neither, so the trace log records both. While trace logging is off, a poll costs one comparison more.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

pin_project! {
    /// Future whose size and polls are written to the trace log.
    pub struct Measured<F> {
        #[pin]
        future: F,
    }
}

impl<F> Measured<F> {
    /// Wraps a future that is about to be boxed, spawned or awaited.
    pub fn new(future: F) -> Self {
        log::trace!(bytes = size_of::<F>(); "a future is made");
        Self { future }
    }
}

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        log::trace!("a future is polled");
        self.project().future.poll(context)
    }
}
