//! Who is in a composition, at its time. The composition is behind the call: what happens in the call waits until the composition has
//! come to that moment, so that what was sent before it is seen and heard.

use std::collections::VecDeque;
use std::time::Duration;

use crate::job::Attendee;

/// Changes within so short a time are one: about a picture.
const TOGETHER: Duration = Duration::from_millis(30);

/// The participants of a composition, now and from later moments on.
#[derive(Debug, Default)]
pub struct Attendance {
    present: Vec<Attendee>,
    has_begun: bool,
    coming: VecDeque<(Duration, Vec<Attendee>)>,
}

impl Attendance {
    /// Takes who attends from a moment on, since the start; the first ones from the start on. Moments do not go back.
    pub fn announce(&mut self, at: Duration, attendees: Vec<Attendee>) {
        let at = if std::mem::replace(&mut self.has_begun, true) {
            at
        } else {
            Duration::ZERO
        };
        match self.coming.back_mut() {
            Some((begin, latest)) if at.saturating_sub(*begin) < TOGETHER => *latest = attendees,
            _ => self.coming.push_back((at, attendees)),
        }
    }

    /// Goes on to a moment. Returns whether anything has changed.
    pub fn advance(&mut self, to: Duration) -> bool {
        let mut has_changed = false;
        while self.coming.front().is_some_and(|(at, _)| *at <= to) {
            if let Some((_, attendees)) = self.coming.pop_front() {
                self.present = attendees;
                has_changed = true;
            }
        }
        has_changed
    }

    /// Returns who attends now.
    pub fn present(&self) -> &[Attendee] {
        &self.present
    }

    /// Returns who attends from each moment on, the last moment first and now last.
    pub fn latest_first(&self) -> impl Iterator<Item = &[Attendee]> {
        self.coming
            .iter()
            .rev()
            .map(|(_, attendees)| attendees.as_slice())
            .chain([self.present.as_slice()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(identity: &str) -> Vec<Attendee> {
        let (sid, identity) = (
            format!("PA_{identity}").parse().unwrap(),
            identity.parse().unwrap(),
        );
        vec![Attendee {
            sid,
            identity,
            name: String::new(),
            tracks: Vec::new(),
        }]
    }

    #[test]
    fn changes_wait_for_their_moment_and_those_together_are_one() {
        let millis = Duration::from_millis;
        let mut attendance = Attendance::default();
        attendance.announce(millis(7), alone("alice"));
        assert!(attendance.advance(Duration::ZERO));
        (0..1_000).for_each(|change| attendance.announce(millis(100 + change), alone("bob")));
        attendance.announce(millis(1_099), alone("carol"));
        assert!(attendance.coming.len() < 40, "{}", attendance.coming.len());
        assert!(!attendance.advance(millis(99)) && attendance.present() == alone("alice"));
        assert!(attendance.advance(millis(100)) && attendance.present() == alone("bob"));
        assert_eq!(
            attendance.latest_first().next(),
            Some(alone("carol").as_slice())
        );
        assert!(attendance.advance(millis(1_099)) && attendance.present() == alone("carol"));
    }
}
