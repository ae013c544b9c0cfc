//! Places for what costs memory and processor time: of each kind, so many may run at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of places. Clones share them.
#[derive(Debug, Clone)]
pub struct Places {
    taken: Arc<AtomicUsize>,
    count: usize,
}

/// A place that is taken, until this is dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Places {
    /// Creates places of which none is taken.
    pub fn new(count: usize) -> Self {
        Self {
            taken: Arc::default(),
            count,
        }
    }

    /// Takes a place; `None` if all are taken.
    pub fn take(&self) -> Option<Place> {
        let next = |taken: usize| (taken < self.count).then_some(taken + 1);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()?;
        Some(Place(Arc::clone(&self.taken)))
    }

    /// Returns how many places are taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a place of each; `None`, and none is taken, if one has no place.
    pub fn take_all(each: &[&Self]) -> Option<Vec<Place>> {
        each.iter().map(|places| places.take()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The places of decoders: of sound in this process, and of pictures, which are a child process each.
#[derive(Debug, Clone)]
pub struct DecoderPlaces {
    pub sounds: Places,
    pub pictures: Places,
}

impl DecoderPlaces {
    /// Returns the places of all egresses together.
    pub fn of_server() -> Self {
        Self {
            sounds: Places::new(1_000),
            pictures: Places::new(100),
        }
    }

    /// Returns the places of one egress: the largest grid has 36 pictures, and one whose tile changes has two decoders for a moment.
    pub fn of_egress() -> Self {
        Self {
            sounds: Places::new(200),
            pictures: Places::new(40),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_once_it_is_dropped_and_of_several_all_are_taken_or_none() {
        let (few, many) = (Places::new(1), Places::new(2));
        let both = Places::take_all(&[&few, &many]).unwrap();
        assert!(few.take().is_none() && Places::take_all(&[&many, &few]).is_none());
        let _rest = many.take().unwrap();
        assert!(many.take().is_none());
        drop(both);
        assert!(few.take().is_some() && many.take().is_some());
    }
}
