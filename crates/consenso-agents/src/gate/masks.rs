//! A vector that leaves an agent under masks: uniform words that the other ends of its edges
//! subtract (see [`masked`](crate::privacy::masked)).

use super::pairs::Edges;
use super::{Charge, DraftScratch, Gate, Pair, Round, ShareError};
use crate::random::Purpose;
use rand::Rng as _;
use std::sync::Arc;

/// Under what a vector is masked: a round, and who was given up before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MaskLabel {
    round: Round,
    /// Ascending.
    dropped: Arc<[u32]>,
}

impl MaskLabel {
    /// A round of a run that goes on without these agents.
    #[must_use]
    pub fn new(round: Round, dropped: impl IntoIterator<Item = u32>) -> Self {
        let dropped: std::collections::BTreeSet<u32> = dropped.into_iter().collect();
        Self { round, dropped: dropped.into_iter().collect() }
    }

    /// The round, from 1.
    #[must_use]
    pub fn round(&self) -> Round {
        self.round
    }

    /// Who was given up, the smallest number first.
    #[must_use]
    pub fn dropped(&self) -> &[u32] {
        &self.dropped
    }

    /// Whether the run goes on without this agent.
    #[must_use]
    pub fn gave_up(&self, agent: u32) -> bool {
        self.dropped.binary_search(&agent).is_ok()
    }

    /// Which charge of an agent its vector is: r + |D|. It grows from one label of an agent to its
    /// next, for neither rounds nor who was given up are ever taken back.
    #[must_use]
    pub fn charge(&self) -> u32 {
        self.round.0.saturating_add(self.dropped.len() as u32)
    }

    /// Who was given up among `agents`, one bit each.
    fn bits(&self, agents: usize) -> Vec<u64> {
        let mut bits = vec![0; agents.div_ceil(64)];
        for &agent in &*self.dropped {
            if let Some(word) = bits.get_mut(agent as usize / 64) {
                *word |= 1 << (agent % 64);
            }
        }
        bits
    }
}

/// The edges of one agent and what is masked with them.
#[derive(Clone, Debug)]
pub struct Masks {
    pub(super) edges: Edges,
    agents: usize,
}

impl Masks {
    /// The edges of one of `agents` agents.
    #[must_use]
    pub fn new(edges: impl Into<Arc<[Pair]>>, agents: usize) -> Self {
        Self { edges: Edges(edges.into()), agents }
    }

    /// Adds the masks of a label to `words`, but for edges to agents that were given up.
    ///
    /// # Errors
    /// An edge without a secret; the words must not leave then.
    pub(crate) fn add(&self, label: &MaskLabel, words: &mut [u64]) -> Result<(), ShareError> {
        let bits = label.bits(self.agents);
        for pair in self.edges.0.iter().filter(|pair| !label.gave_up(pair.other())) {
            let secret = pair.secret.as_ref().ok_or(ShareError::NoSecret { with: pair.other() })?;
            let mut stream =
                secret.labelled(&bits).stream(Purpose::Mask, pair.edge, u64::from(label.round.0));
            for word in &mut *words {
                let mask = stream.next_u64();
                *word = if pair.adds { word.wrapping_add(mask) } else { word.wrapping_sub(mask) };
            }
        }
        Ok(())
    }
}

/// An agent's vector under the masks of one label, which only the gate can make.
pub struct Masked<'a> {
    label: MaskLabel,
    words: &'a [u64],
    charge: Charge,
}

impl std::fmt::Debug for Masked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masked({:?}, words={})", self.label, self.words.len())
    }
}

impl<'a> Masked<'a> {
    /// What it is masked under.
    #[must_use]
    pub fn label(&self) -> &MaskLabel {
        &self.label
    }

    /// What it was charged.
    #[must_use]
    pub fn charge(&self) -> Charge {
        self.charge
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &'a [u64] {
        self.words
    }
}

impl Gate {
    /// Masks what `draft` holds in steps of the grid, which was charged.
    pub(crate) fn mask<'a>(
        &self,
        label: &MaskLabel,
        charge: Charge,
        draft: &DraftScratch,
        words: &'a mut [u64],
    ) -> Result<Masked<'a>, ShareError> {
        let masks = self.masks.as_ref().ok_or(ShareError::NoMasks)?;
        if label.gave_up(self.agent as u32) {
            return Err(ShareError::GivenUp { round: label.round });
        }
        for (word, q) in words.iter_mut().zip(&draft.steps) {
            *word = q.cast_unsigned();
        }
        masks.add(label, words)?;
        Ok(Masked { label: label.clone(), words, charge })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::privacy::masked::tests::{all_graphs, components};
    use crate::random::Seed;

    const DIM: usize = 2;

    /// What an agent sends under a label if its vector is zero, without the masks that `known`
    /// agents know.
    fn words(graph: &Graph, agent: u32, known: u32, label: &MaskLabel) -> [u64; DIM] {
        let edges = graph.neighbours(agent as usize).iter().filter(|&&j| known >> j & 1 == 0);
        let pairs: Vec<Pair> = edges.map(|&j| Pair::new(agent, j, Seed::from(9))).collect();
        let mut words = [0; DIM];
        Masks::new(pairs, graph.agents()).add(label, &mut words).unwrap();
        words
    }

    fn bits(set: u32) -> impl Iterator<Item = u32> {
        (0..32).filter(move |i| set >> i & 1 == 1)
    }

    /// How many independent sums of what `sent` sent are free of masks: rows are agents, columns
    /// the edges that nobody in `out` is an end of. Elimination in whole numbers modulo a prime; an
    /// incidence matrix has the same rank modulo any.
    fn free_sums(graph: &Graph, out: u32, sent: u32) -> usize {
        const PRIME: i64 = 1_000_003;
        let inside = |v: u32| out >> v & 1 == 0;
        let edges: Vec<(u32, u32)> =
            graph.iter_edges().filter(|&(a, b)| inside(a) && inside(b)).collect();
        let entry = |v: u32, &(a, b): &(u32, u32)| i64::from(v == a) - i64::from(v == b);
        let mut rows: Vec<Vec<i64>> = bits(sent)
            .map(|v| edges.iter().map(|e| entry(v, e).rem_euclid(PRIME)).collect())
            .collect();
        let mut rank = 0;
        for column in 0..edges.len() {
            let Some(pivot) = (rank..rows.len()).find(|&r| rows[r][column] != 0) else { continue };
            rows.swap(rank, pivot);
            // An incidence matrix keeps entries of 1 and −1, each its own inverse.
            let scale = rows[rank][column];
            assert!(scale == 1 || scale == PRIME - 1);
            let lead: Vec<i64> = rows[rank].iter().map(|x| x * scale % PRIME).collect();
            for row in rows.iter_mut().skip(rank + 1) {
                let factor = row[column];
                for (x, l) in row.iter_mut().zip(&lead) {
                    *x = (*x - factor * l).rem_euclid(PRIME);
                }
            }
            rows[rank] = lead;
            rank += 1;
        }
        rows.len() - rank
    }

    /// Every coalition, every set of agents given up and every set that has sent, on all connected
    /// graphs of up to five agents: what the words that were sent add up to without masks is the
    /// sums of components that are complete, and nothing else.
    #[test]
    fn theorem_a_coalition_reads_the_sums_of_complete_components_and_nothing_else() {
        for graph in (2..=5).flat_map(all_graphs) {
            let n = graph.agents() as u32;
            let all = (1u32 << n) - 1;
            for out in 0..=all {
                let honest = all & !out;
                // Whoever is out was given up or colludes; the label names the former, and both are
                // tried.
                for dropped in [0, out, out & 0b10101] {
                    let label = MaskLabel::new(Round(3), bits(dropped));
                    let sent_by: Vec<[u64; DIM]> =
                        (0..n).map(|v| words(&graph, v, out, &label)).collect();
                    let whole = components(&graph, out);
                    let mut sent = honest;
                    loop {
                        let complete: Vec<u32> =
                            whole.iter().copied().filter(|c| c & sent == *c).collect();
                        if dropped == 0 {
                            assert_eq!(free_sums(&graph, out, sent), complete.len());
                        }
                        // The words themselves: a set of senders adds up to zero if and only if it
                        // is made of complete components.
                        let sum = bits(sent).fold([0u64; DIM], |mut sum, v| {
                            sum.iter_mut()
                                .zip(sent_by[v as usize])
                                .for_each(|(s, w)| *s = s.wrapping_add(w));
                            sum
                        });
                        let union = complete.iter().fold(0, |all, c| all | c);
                        assert_eq!(
                            sum == [0; DIM],
                            union == sent,
                            "{graph:?} out {out:b} sent {sent:b}"
                        );
                        if sent == 0 {
                            break;
                        }
                        sent = (sent - 1) & honest;
                    }
                }
            }
        }
    }

    /// Two agents that do not agree on who is gone leave each other's masks in place, and no two
    /// labels share a mask.
    #[test]
    fn every_label_has_masks_of_its_own() {
        let graph = Graph::complete(70).unwrap();
        let labels: Vec<MaskLabel> =
            [(1, vec![]), (2, vec![]), (1, vec![5]), (1, vec![6]), (1, vec![5, 6]), (1, vec![69])]
                .into_iter()
                .map(|(round, dropped)| MaskLabel::new(Round(round), dropped))
                .collect();
        // One edge only: its mask itself.
        let known = |label: &MaskLabel| {
            let mut words = [0; DIM];
            let pair =
                |me, other| Masks::new(vec![Pair::new(me, other, Seed::from(2))], graph.agents());
            pair(0, 1).add(label, &mut words).unwrap();
            let mask = words;
            pair(1, 0).add(label, &mut words).unwrap();
            assert_eq!(words, [0; DIM], "both ends have the same");
            mask
        };
        let masks: std::collections::BTreeSet<u64> = labels.iter().flat_map(known).collect();
        assert_eq!(masks.len(), labels.len() * DIM);
        // A label that left out who is gone would use one mask for two vectors of one agent: their
        // difference would be in the clear.
        let (before, after) = (MaskLabel::new(Round(1), []), MaskLabel::new(Round(1), [69]));
        assert_ne!(known(&before), known(&after));
        assert_eq!(before.charge() + 1, after.charge(), "and noise of its own");
        let mut words = [0; DIM];
        let awaited = Masks::new(vec![Pair::awaited(0, 3)], 5);
        assert_eq!(awaited.add(&before, &mut words), Err(ShareError::NoSecret { with: 3 }));
    }

    /// Made by hand with an independent ChaCha12 (see `golden/masked.py`).
    #[test]
    fn golden_masks() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../../consenso-engine/tests/golden/masked.json"))
                .unwrap();
        for case in golden["masks"].as_array().unwrap() {
            let number = |key: &str| case[key].as_u64().unwrap();
            let secret: Vec<u8> = case["secret"]
                .as_array()
                .unwrap()
                .iter()
                .map(|b| b.as_u64().unwrap() as u8)
                .collect();
            let dropped =
                case["dropped"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as u32);
            let (me, other) = (number("me") as u32, number("other") as u32);
            let pair = Pair::new(me, other, Seed::from_entropy(secret.try_into().unwrap()));
            let mut words = [0; 3];
            let label = MaskLabel::new(Round(number("round") as u32), dropped);
            Masks::new(vec![pair], number("agents") as usize).add(&label, &mut words).unwrap();
            let want: Vec<u64> = case["words"]
                .as_array()
                .unwrap()
                .iter()
                .map(|w| w.as_str().unwrap().parse().unwrap())
                .collect();
            assert_eq!(words.to_vec(), want, "{case}");
        }
    }
}
