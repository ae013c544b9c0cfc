//! Dependencies between modules, and the cycles among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::Path;

use crate::sources::Crate;

/// Uses between a crate's nodes: its files, or its top modules.
#[derive(Default)]
pub struct Graph {
    /// For each node, the nodes that it uses, each with a source line that contains the use.
    uses: BTreeMap<String, BTreeMap<String, String>>,
}

/// A cycle: nodes that all reach each other.
pub struct Circle {
    nodes: BTreeSet<String>,
    /// The shortest way round through each node, as steps with their lines.
    chains: BTreeSet<Vec<String>>,
}

impl Graph {
    /// Builds a graph with files as nodes. Uses between a module and the modules nested in it do not count.
    pub fn of_files(parsed: &Crate) -> Self {
        Self::build(parsed, |from, to| {
            let (from, to) = (&parsed.modules[from], &parsed.modules[to]);
            let related = from.path.starts_with(&to.path) || to.path.starts_with(&from.path);
            (!related).then(|| {
                (
                    from.file.display().to_string(),
                    to.file.display().to_string(),
                )
            })
        })
    }

    /// Builds a graph with the crate's top modules as nodes.
    pub fn of_top_modules(parsed: &Crate) -> Self {
        Self::build(parsed, |from, to| {
            let (from, to) = (&parsed.modules[from], &parsed.modules[to]);
            Some((from.path.first()?.clone(), to.path.first()?.clone()))
        })
    }

    fn build(parsed: &Crate, nodes: impl Fn(usize, usize) -> Option<(String, String)>) -> Self {
        let mut graph = Self::default();
        for (index, module) in parsed.modules.iter().enumerate() {
            for mention in &module.mentions {
                let Some(target) = parsed.resolve(index, &mention.path) else {
                    continue;
                };
                if let Some((from, to)) = nodes(index, target).filter(|(from, to)| from != to) {
                    let line = || line(&module.file, &parsed.files[&module.file], mention.line);
                    graph
                        .uses
                        .entry(from)
                        .or_default()
                        .entry(to)
                        .or_insert_with(line);
                }
            }
        }
        graph
    }

    /// Returns the strongly connected components with more than one node.
    pub fn circles(&self) -> Vec<Circle> {
        let reach: BTreeMap<_, _> = self
            .uses
            .keys()
            .map(|node| (node.as_str(), self.reachable(node)))
            .collect();
        let leads =
            |from: &str, to: &str| reach.get(from).is_some_and(|reached| reached.contains(to));
        let mut left: BTreeSet<&str> = reach
            .keys()
            .copied()
            .filter(|node| leads(node, node))
            .collect();
        let mut circles = Vec::new();
        while let Some(first) = left.first().copied() {
            let nodes: BTreeSet<_> = left
                .iter()
                .copied()
                .filter(|node| leads(first, node) && leads(node, first))
                .collect();
            left.retain(|node| !nodes.contains(node));
            let chains = nodes.iter().map(|node| self.chain(node)).collect();
            circles.push(Circle {
                nodes: nodes.into_iter().map(str::to_owned).collect(),
                chains,
            });
        }
        circles
    }

    fn reachable(&self, from: &str) -> BTreeSet<&str> {
        self.parents(from).into_keys().collect()
    }

    /// Returns every node that `from` leads to, with the node before it on a shortest way.
    fn parents(&self, from: &str) -> BTreeMap<&str, &str> {
        let mut parents = BTreeMap::new();
        let mut queue =
            VecDeque::from_iter(self.uses.get_key_value(from).map(|(node, _)| node.as_str()));
        while let Some(node) = queue.pop_front() {
            for next in self.uses.get(node).into_iter().flat_map(BTreeMap::keys) {
                if !parents.contains_key(next.as_str()) {
                    parents.insert(next.as_str(), node);
                    queue.push_back(next);
                }
            }
        }
        parents
    }

    /// Returns the shortest way from a node back to itself, starting with the first node by name, as steps with their lines.
    fn chain(&self, node: &str) -> Vec<String> {
        let parents = self.parents(node);
        let mut way = vec![node];
        while way.len() == 1 || way[way.len() - 1] != node {
            way.push(parents[way[way.len() - 1]]);
        }
        way.pop();
        way.reverse();
        let first = (0..way.len()).min_by_key(|at| way[*at]).unwrap_or_default();
        way.rotate_left(first);
        let next = way.iter().cycle().skip(1);
        way.iter()
            .zip(next)
            .map(|(from, to)| format!("{from} -> {to}\n      {}", self.uses[*from][*to]))
            .collect()
    }
}

fn line(file: &Path, text: &str, number: usize) -> String {
    let line = text.lines().nth(number - 1).unwrap_or_default();
    format!("{}:{number}: {}", file.display(), line.trim())
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "circle of {}: {}",
            self.nodes.len(),
            Vec::from_iter(self.nodes.iter().cloned()).join(", ")
        )?;
        for chain in &self.chains {
            writeln!(f, "  - {}", chain.join("\n    "))?;
        }
        Ok(())
    }
}
