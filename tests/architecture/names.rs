//! Name resolution inside a crate: which module defines the item that a path names.

use crate::sources::Crate;

/// The target of a path.
#[derive(Clone, Copy)]
enum Found {
    Module(usize),
    /// An item that this module defines.
    Item(usize),
}

/// Maximum number of imports that the resolution of a name follows; glob imports can form a cycle.
const DEPTH: usize = 16;

impl Crate {
    /// Returns the module that defines the item at `path`, seen from module `from`, through re-exports; `None` outside the crate.
    pub fn resolve(&self, from: usize, path: &[String]) -> Option<usize> {
        // A single name is an item of the module itself, or an import, which counts as a use of its own.
        if path.len() == 1 && (self.modules[from].globs.is_empty() || self.declares(from, &path[0]))
        {
            return None;
        }
        match self.find(from, path, DEPTH)? {
            Found::Module(module) | Found::Item(module) => Some(module),
        }
    }

    fn declares(&self, module: usize, name: &str) -> bool {
        let module = &self.modules[module];
        module.items.contains(name)
            || module.imports.contains_key(name)
            || module.children.contains_key(name)
    }

    fn find(&self, from: usize, path: &[String], depth: usize) -> Option<Found> {
        let depth = depth.checked_sub(1)?;
        let mut at = from;
        for name in path {
            at = match self.step(at, name, depth)? {
                Found::Module(module) => module,
                item @ Found::Item(_) => return Some(item),
            };
        }
        Some(Found::Module(at))
    }

    fn step(&self, at: usize, name: &str, depth: usize) -> Option<Found> {
        let module = &self.modules[at];
        match name {
            "crate" => return Some(Found::Module(0)),
            "self" => return Some(Found::Module(at)),
            "super" => return module.parent.map(Found::Module),
            _ => {}
        }
        if let Some(child) = module.children.get(name) {
            return Some(Found::Module(*child));
        }
        if module.items.contains(name) {
            return Some(Found::Item(at));
        }
        if let Some(path) = module.imports.get(name) {
            return self.find(at, path, depth);
        }
        module
            .globs
            .iter()
            .find_map(|glob| match self.find(at, glob, depth)? {
                Found::Module(module) if module != at => {
                    self.step(module, name, depth.checked_sub(1)?)
                }
                _ => None,
            })
    }
}
