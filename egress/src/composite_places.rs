//! The places of egresses that encode, shared by projects.
//!
//! A project may have all places while no other asks. One that was refused although it has less than its share is given the next place
//! that becomes free: those that have their share are refused as long as it asks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use conclave_model::ProjectId;

/// How long a project counts as asking after it was refused: three times its `Retry-After`.
const ASKS: Duration = Duration::from_secs(90);

/// The places of egresses that encode. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct CompositePlaces(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// CompositePlaces that a project has, if any.
    taken: HashMap<ProjectId, usize>,
    /// When projects asked in vain that have less than their share.
    asked: HashMap<ProjectId, Instant>,
}

/// A place. It is free again when this is dropped.
#[derive(Debug)]
pub struct CompositePlace {
    project: ProjectId,
    places: CompositePlaces,
}

impl CompositePlaces {
    /// Takes one of so many places for a project. `None` if all are taken, or those that are free are for projects that have less.
    pub fn take(&self, project: &ProjectId, places: usize, now: Instant) -> Option<CompositePlace> {
        let mut state = self.lock();
        state.asked.retain(|_, at| now.saturating_duration_since(*at) < ASKS);
        let (own, free) = (state.of(project), places.saturating_sub(state.taken.values().sum()));
        let has_less = own < state.share(project, places);
        if free == 0 || (!has_less && free <= state.asking_beside(project)) {
            if has_less {
                state.asked.insert(project.clone(), now);
            }
            return None;
        }
        state.asked.remove(project);
        *state.taken.entry(project.clone()).or_default() += 1;
        Some(CompositePlace { project: project.clone(), places: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of(&self, project: &ProjectId) -> usize {
        self.taken.get(project).copied().unwrap_or_default()
    }

    /// Returns how many places a project may have while others ask: an equal part, at least one.
    fn share(&self, project: &ProjectId, places: usize) -> usize {
        let beside = self.taken.keys().filter(|other| *other != project).count();
        let asking = self.asked.keys().filter(|other| *other != project && !self.taken.contains_key(other)).count();
        (places / (beside + asking + 1)).max(1)
    }

    /// Returns how many other projects ask.
    fn asking_beside(&self, project: &ProjectId) -> usize {
        self.asked.keys().filter(|other| *other != project).count()
    }
}

impl Drop for CompositePlace {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        if let Some(count) = state.taken.get_mut(&self.project) {
            *count -= 1;
            if *count == 0 {
                state.taken.remove(&self.project);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_all_places_until_another_asks_and_gets_the_next_free_one() {
        let (places, now) = (CompositePlaces::default(), Instant::now());
        let [one, other] = [(); 2].map(|()| ProjectId::new());
        let mut held: Vec<_> = (0..4).map(|_| places.take(&one, 4, now).unwrap()).collect();
        assert!(places.take(&one, 4, now).is_none() && places.take(&other, 4, now).is_none());
        held.pop();
        assert!(places.take(&one, 4, now).is_none(), "it is for the other one");
        let first = places.take(&other, 4, now).unwrap();
        assert!(places.take(&other, 4, now).is_none(), "it asks for its second one");
        held.pop();
        assert!(places.take(&one, 4, now).is_none());
        let _second = places.take(&other, 4, now).unwrap();
        assert!(places.take(&other, 4, now).is_none(), "none is free");
        drop(first);
        assert!(places.take(&one, 4, now).is_some(), "nobody asks who has less than a half");
    }

    #[test]
    fn a_project_that_does_not_ask_any_more_keeps_nobody_from_its_place() {
        let (places, now) = (CompositePlaces::default(), Instant::now());
        let [one, other] = [(); 2].map(|()| ProjectId::new());
        let held = places.take(&one, 1, now).unwrap();
        assert!(places.take(&other, 1, now).is_none());
        drop(held);
        drop(places.take(&one, 1, now).expect("it has none, as the other one"));
        let held: Vec<_> = (0..2).map_while(|_| places.take(&one, 2, now)).collect();
        assert_eq!(held.len(), 1, "the other one asks");
        assert!(places.take(&one, 2, now + ASKS).is_some());
    }

    #[test]
    fn many_projects_have_a_place_each_in_turn() {
        let (places, now) = (CompositePlaces::default(), Instant::now());
        let projects = [(); 8].map(|()| ProjectId::new());
        let mut held: Vec<_> = (0..4).map(|_| places.take(&projects[0], 4, now).unwrap()).collect();
        assert!(projects[1..].iter().all(|project| places.take(project, 4, now).is_none()));
        held.truncate(1);
        let others: Vec<_> = projects[1..].iter().filter_map(|project| places.take(project, 4, now)).collect();
        assert_eq!(others.len(), 3);
        drop(others);
        assert!(places.take(&projects[0], 4, now).is_none(), "four others ask");
    }
}
