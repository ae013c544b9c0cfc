//! The path that the media plane's reports take, for what must not overtake them.
//!
//! The media plane sends its reports to the root, which passes them down. An actor that has asked the plane a question must
//! handle the reports that the plane sent before its answer first, so it sends the answer to itself along the same path.
//! Each supervisor narrows the path it was given to one child, which can send nothing else up the tree.

use std::sync::Arc;

/// A handle that sends messages from the root down to one actor.
pub struct ReportPath<M>(Arc<dyn Fn(M) + Send + Sync>);

impl<M> Clone for ReportPath<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: 'static> ReportPath<M> {
    /// Returns a path that sends with `send`.
    pub fn new(send: impl Fn(M) + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }

    /// Returns the path to a child: what is sent on it becomes a message to the parent by `wrap`.
    pub fn narrow<C: 'static>(
        &self,
        wrap: impl Fn(C) -> M + Send + Sync + 'static,
    ) -> ReportPath<C> {
        let path = self.clone();
        ReportPath::new(move |message| path.send(wrap(message)))
    }

    /// Sends a message. It is lost if the root has stopped.
    pub fn send(&self, message: M) {
        (self.0)(message);
    }
}
