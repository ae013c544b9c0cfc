//! Faults at named points in the program, for tests.
//!
//! Only builds with the feature `faults`, which only dev-dependencies enable, have this module and
//! the points. A point belongs to a scope, such as a database file or a project, so that servers in
//! one process do not share faults.

#![allow(clippy::panic, reason = "a panic is one of the faults")]

use std::sync::LazyLock;

use parking_lot::Mutex;

/// Environment variable that arms a panic: `point:number`, for the number-th time that the point is
/// reached in any scope.
pub const VARIABLE: &str = "FAULT";

/// Fault at a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The thread panics.
    Panic,
    /// The point runs this statement, for example to fail the commit.
    Sql(&'static str),
}

#[derive(Debug)]
struct Armed {
    /// Scope; `None` for any.
    scope: Option<String>,
    point: String,
    /// How often the point is reached before the fault.
    after: u32,
    fault: Fault,
}

// One list for the process: tests of several servers use scopes.
static ARMED: LazyLock<Mutex<Vec<Armed>>> =
    LazyLock::new(|| Mutex::new(from_environment().into_iter().collect()));

fn from_environment() -> Option<Armed> {
    let text = std::env::var(VARIABLE).ok()?;
    // From the right: points may contain colons.
    let (point, number) = text.rsplit_once(':')?;
    // The number counts from 1.
    let after = number.parse::<u32>().ok()?.checked_sub(1)?;
    Some(Armed {
        // A process under test has one server, so any scope is its own.
        scope: None,
        point: point.to_owned(),
        after,
        fault: Fault::Panic,
    })
}

/// Arms a fault for the next time that a point is reached. Each call arms one more.
pub fn arm(scope: &str, point: &str, fault: Fault) {
    ARMED.lock().push(Armed {
        scope: Some(scope.to_owned()),
        point: point.to_owned(),
        after: 0,
        fault,
    });
}

/// Returns how many faults in a scope are still armed.
pub fn left(scope: &str) -> usize {
    ARMED
        .lock()
        .iter()
        .filter(|armed| armed.scope.as_deref() == Some(scope))
        .count()
}

/// Returns the fault armed at a point, and disarms it.
///
/// # Panics
/// If the fault is a panic.
pub fn at(scope: &str, point: &str) -> Option<Fault> {
    let fault = take(scope, point);
    // After the lock is released, which a panic would otherwise leave held.
    assert!(fault != Some(Fault::Panic), "a fault at {point}");
    fault
}

fn take(scope: &str, point: &str) -> Option<Fault> {
    let mut all = ARMED.lock();
    let matches =
        |armed: &Armed| armed.scope.as_deref().is_none_or(|of| of == scope) && armed.point == point;
    let index = all.iter().position(matches)?;
    if all[index].after > 0 {
        // Counts down to the occurrence that is meant.
        all[index].after -= 1;
        return None;
    }
    Some(all.remove(index).fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_happens_once_at_its_point_in_its_scope() {
        arm("here", "begun", Fault::Sql("SELECT 1"));
        assert_eq!(
            (at("here", "other"), at("there", "begun"), left("here")),
            (None, None, 1)
        );
        assert_eq!(at("here", "begun"), Some(Fault::Sql("SELECT 1")));
        assert_eq!((at("here", "begun"), left("here")), (None, 0));
    }
}
