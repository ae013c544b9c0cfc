//! The turn of a request.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

/// The time after which a request does not use the server but waits, for the media plane or another service.
const SLOW: Duration = Duration::from_millis(10);

/// The turn of an admitted request: it may be handled.
#[derive(Debug)]
pub struct Turn<'a> {
    permit: Option<SemaphorePermit<'a>>,
}

impl<'a> Turn<'a> {
    /// A turn with what it takes of the project's; `None` for a request of no project.
    pub(super) const fn new(permit: Option<SemaphorePermit<'a>>) -> Self {
        Self { permit }
    }

    /// Handles the request. If it is slow, it lets others of its project pass: as many as if no other project sent any.
    pub async fn handle<F: Future>(mut self, request: F) -> F::Output {
        let mut request = pin!(request);
        if self
            .permit
            .as_ref()
            .is_some_and(|permit| permit.num_permits() > 1)
        {
            if let Ok(output) = timeout(SLOW, request.as_mut()).await {
                return output;
            }
            self.lighten();
        }
        request.await
    }

    /// Keeps one turn, and frees the others.
    fn lighten(&mut self) {
        if let Some(permit) = &mut self.permit {
            let others = permit.num_permits().saturating_sub(1);
            drop(permit.split(others));
        }
    }
}

/// Returns how many of the turns a request takes, so that no more than `at_once` have theirs.
pub(super) fn weight(turns: usize, at_once: usize) -> u32 {
    u32::try_from(turns.div_ceil(at_once.max(1))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_limit_have_their_turns_at_once() {
        for turns in 1..=100 {
            for at_once in 1..=turns {
                let running = turns / weight(turns, at_once) as usize;
                assert!(
                    (1..=at_once).contains(&running),
                    "{running} of {turns}, at most {at_once}"
                );
            }
            assert_eq!(weight(turns, turns), 1);
        }
        assert_eq!(weight(64, 4), 16);
    }
}
