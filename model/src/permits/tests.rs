use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Waiting<'a> = Pin<Box<dyn Future<Output = ProjectPermit> + 'a>>;

fn poll<T>(future: &mut Pin<Box<dyn Future<Output = T> + '_>>) -> Option<T> {
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn permits(total: usize, per_project: usize) -> ProjectPermits {
    ProjectPermits::new(PermitLimits { total, per_project })
}

fn projects<const N: usize>() -> [ProjectId; N] {
    [(); N].map(|()| ProjectId::new())
}

/// Proves S-64.
#[test]
fn a_project_has_all_places_until_another_asks_and_gets_the_next_free_one() {
    let (permits, now, [one, other]) = (permits(4, 4), Instant::now(), projects());
    let mut held: Vec<_> = (0..4).map(|_| permits.take(&one, now).unwrap()).collect();
    assert!(permits.take(&one, now).is_none() && permits.take(&other, now).is_none());
    held.pop();
    assert!(permits.take(&one, now).is_none(), "it is for the other one");
    let first = permits.take(&other, now).unwrap();
    assert!(
        permits.take(&other, now).is_none(),
        "it asks for its second one"
    );
    held.pop();
    assert!(permits.take(&one, now).is_none() && permits.take_free(&one).is_none());
    let _second = permits.take(&other, now).unwrap();
    assert!(permits.take(&other, now).is_none(), "none is free");
    drop(first);
    assert!(
        permits.take(&one, now).is_some(),
        "no project asks that has less than a half"
    );
}

#[test]
fn a_project_that_does_not_ask_any_more_keeps_no_other_from_its_permit() {
    let (one_permit, now, [one, other]) = (permits(1, 1), Instant::now(), projects());
    let held = one_permit.take(&one, now).unwrap();
    assert!(one_permit.take(&other, now).is_none());
    drop(held);
    drop(
        one_permit
            .take(&one, now)
            .expect("it has none, as the other one"),
    );
    let permits = permits(2, 2);
    let held = [(); 2].map(|()| permits.take(&one, now).unwrap());
    assert!(permits.take(&other, now).is_none());
    drop(held);
    let held: Vec<_> = (0..2).map_while(|_| permits.take(&one, now)).collect();
    assert_eq!(held.len(), 1, "the other one asks");
    assert!(permits.take(&one, now + REFUSAL_MEMORY).is_some());
}

#[test]
fn many_projects_have_a_permit_each() {
    let (permits, now, projects) = (permits(4, 4), Instant::now(), projects::<8>());
    let mut held: Vec<_> = (0..4)
        .map(|_| permits.take(&projects[0], now).unwrap())
        .collect();
    assert!(
        projects[1..]
            .iter()
            .all(|project| permits.take(project, now).is_none())
    );
    held.truncate(1);
    let others: Vec<_> = projects[1..]
        .iter()
        .filter_map(|project| permits.take(project, now))
        .collect();
    assert_eq!(others.len(), 3);
    drop(others);
    assert!(permits.take(&projects[0], now).is_none(), "four others ask");
}

#[test]
fn what_is_refused_without_being_remembered_keeps_no_other_from_a_permit() {
    let (permits, [one, other]) = (permits(2, 2), projects());
    let mut held: Vec<_> = (0..2).map(|_| permits.take_free(&one).unwrap()).collect();
    assert!(permits.take_free(&other).is_none());
    held.pop();
    assert!(permits.take_free(&one).is_some());
}

/// Property test steps.
#[derive(Debug, Clone)]
enum Step {
    Take(usize),
    TakeFree(usize),
    Wait(usize),
    /// A waiting caller leaves, by its position modulo their number.
    Leave(usize),
    /// It goes just after it was given a permit, before it has seen it: a permit is given back meanwhile.
    LeaveLate(usize, usize),
    Free(usize),
    /// Time passes until no project is remembered.
    Pass,
}

const PROJECTS: usize = 4;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..PROJECTS).prop_map(Step::Take),
        1 => (0..PROJECTS).prop_map(Step::TakeFree),
        4 => (0..PROJECTS).prop_map(Step::Wait),
        1 => any::<usize>().prop_map(Step::Leave),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(waiting, held)| Step::LeaveLate(waiting, held)),
        5 => any::<usize>().prop_map(Step::Free),
        1 => Just(Step::Pass),
    ];
    vec(step, 1..120)
}

/// Projects that take permits, return them, wait and leave, with the invariants.
struct Fixture<'a> {
    permits: &'a ProjectPermits,
    projects: &'a [ProjectId; PROJECTS],
    now: Instant,
    held: Vec<(usize, ProjectPermit)>,
    waiting: Vec<(usize, Waiting<'a>)>,
    /// How many each project was given from the queue since another one waits in vain, by both.
    overtaken: BTreeMap<(usize, usize), usize>,
}

impl Fixture<'_> {
    fn held_by(&self, project: usize) -> usize {
        self.held
            .iter()
            .filter(|(holder, _)| *holder == project)
            .count()
    }

    fn can_be_served(&self, project: usize) -> bool {
        self.waiting.iter().any(|(waiter, _)| *waiter == project)
            && self.held_by(project) < self.permits.limits.per_project
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Take(project) => self.take(project),
            Step::TakeFree(project) => {
                self.held.extend(
                    self.permits
                        .take_free(&self.projects[project])
                        .map(|permit| (project, permit)),
                );
            }
            Step::Wait(project) => {
                self.waiting.push((
                    project,
                    Box::pin(self.permits.wait(&self.projects[project])),
                ));
            }
            Step::Leave(waiter) if !self.waiting.is_empty() => {
                drop(self.waiting.remove(waiter % self.waiting.len()));
            }
            Step::LeaveLate(waiter, held) if !self.waiting.is_empty() && !self.held.is_empty() => {
                drop(self.held.remove(held % self.held.len()));
                let (project, waiting) = self.waiting.remove(waiter % self.waiting.len());
                drop(waiting);
                // Its project may have been next.
                self.overtaken.retain(|(waiter, _), _| *waiter != project);
            }
            Step::Free(held) if !self.held.is_empty() => {
                drop(self.held.remove(held % self.held.len()));
            }
            Step::Pass => self.now += REFUSAL_MEMORY,
            Step::Leave(_) | Step::LeaveLate(..) | Step::Free(_) => {}
        }
        self.collect();
        self.check();
    }

    /// A project without permits gets a free one, whatever others have; a project with its maximum
    /// gets none.
    fn take(&mut self, project: usize) {
        let (own, is_full) = (
            self.held_by(project),
            self.held.len() == self.permits.limits.total,
        );
        let taken = self.permits.take(&self.projects[project], self.now);
        if own == 0 && self.permits.limits.per_project > 0 {
            assert_eq!(taken.is_some(), !is_full);
        }
        assert!(taken.is_none() || own < self.permits.limits.per_project);
        self.held.extend(taken.map(|permit| (project, permit)));
    }

    /// Collects the permits given to waiting callers, and checks that projects are served round
    /// robin.
    fn collect(&mut self) {
        let mut given = Vec::new();
        self.waiting
            .retain_mut(|(project, waiting)| match poll(waiting) {
                Some(permit) => {
                    given.push((*project, permit));
                    false
                }
                None => true,
            });
        for (project, _) in &given {
            for other in 0..PROJECTS {
                if self.can_be_served(other) && other != *project {
                    *self.overtaken.entry((other, *project)).or_default() += 1;
                }
                self.overtaken.remove(&(*project, other));
            }
        }
        self.held.extend(given);
        let still: Vec<_> = (0..PROJECTS)
            .filter(|project| self.can_be_served(*project))
            .collect();
        self.overtaken
            .retain(|(waiter, _), _| still.contains(waiter));
    }

    fn check(&self) {
        let PermitLimits { total, per_project } = self.permits.limits;
        assert!(self.held.len() <= total, "{} of {total}", self.held.len());
        for project in 0..PROJECTS {
            assert!(self.held_by(project) <= per_project);
            assert!(
                self.held.len() == total || !self.can_be_served(project),
                "project {project} waits for nothing"
            );
        }
        assert!(
            self.overtaken.values().all(|times| *times <= 1),
            "{:?}",
            self.overtaken
        );
        let state = self.permits.state.lock();
        let waiting = (0..PROJECTS)
            .filter(|project| self.waiting.iter().any(|(waiter, _)| waiter == project));
        assert_eq!(
            (state.taken.total(), state.waiting.keys()),
            (self.held.len(), waiting.count())
        );
        for (project, id) in self.projects.iter().enumerate() {
            assert_eq!(state.taken.get(id), self.held_by(project));
        }
    }
}

proptest! {
    /// Proves S-63.
    #[test]
    fn permits_are_bounded_given_in_turn_and_never_lost_and_projects_without_any_are_forgotten(
        total in 1..6_usize,
        per_project in 1..6_usize,
        steps in steps(),
    ) {
        let (permits, projects) = (permits(total, per_project), projects());
        let mut fixture = Fixture {
            permits: &permits,
            projects: &projects,
            now: Instant::now(),
            held: Vec::new(),
            waiting: Vec::new(),
            overtaken: BTreeMap::new(),
        };
        steps.iter().for_each(|step| fixture.run(step));
        let later = fixture.now + REFUSAL_MEMORY;
        drop(fixture);
        drop(permits.take(&projects[0], later));
        let state = permits.state.lock();
        prop_assert!(state.taken.is_empty() && state.asked.is_empty() && state.waiting.is_empty());
    }
}
