//! The tree along which sums travel where not everybody hears everybody.

use super::Graph;

/// A breadth-first tree from a vertex of least eccentricity: parent (itself at the root), depth and
/// height of everybody.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Tree {
    /// By agent; the root is its own.
    pub parent: Vec<usize>,
    /// Edges between an agent and the root.
    pub depth: Vec<u32>,
    /// Edges between an agent and the farthest one below it.
    pub height: Vec<u32>,
}

impl Tree {
    /// The tree of a graph; the first of those that are equally low.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let search = |root: usize| {
            let mut parent = vec![usize::MAX; graph.agents()];
            let mut depth = vec![0; graph.agents()];
            let mut order = vec![root];
            parent[root] = root;
            let mut next = 0;
            while let Some(&i) = order.get(next) {
                next += 1;
                for &j in graph.neighbours(i) {
                    let j = j as usize;
                    if parent[j] == usize::MAX {
                        (parent[j], depth[j]) = (i, depth[i] + 1);
                        order.push(j);
                    }
                }
            }
            (parent, depth, order)
        };
        // Of very large graphs the first vertices are tried alone: any tree is right, and a lower
        // one is faster.
        let tried = graph.agents().min(2000);
        let best = (0..tried).min_by_key(|&root| search(root).1.into_iter().max()).unwrap_or(0);
        let (parent, depth, order) = search(best);
        let mut height = vec![0; graph.agents()];
        for &i in order.iter().rev() {
            if parent[i] != i {
                height[parent[i]] = height[parent[i]].max(height[i] + 1);
            }
        }
        Self { parent, depth, height }
    }

    /// The height of the whole tree.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.height.iter().copied().max().unwrap_or(0)
    }
}
