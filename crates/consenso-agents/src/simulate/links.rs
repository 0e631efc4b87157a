//! Which links are there in a round, who is awake, and with which weights what is heard is mixed.

use crate::graph::{Arcs, Graph};
use crate::random::{Purpose, Seed};
use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which edges of the graph are there in a round. Weights are those of Metropolis on the edges that
/// are, so that they average whatever is missing; but for a walk, which hands over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkPattern {
    /// A random maximal matching: every agent talks to one neighbour at most.
    Matchings,
    /// One random edge: asynchronous gossip, exchange by exchange.
    OneEdge,
    /// Every edge with this chance, by itself.
    Chance(f64),
    /// All edges divided among so many rounds, in turn: what is called B-connected.
    Turns(u32),
    /// A token that walks: in every round one agent has it, all others sleep, and it goes to a
    /// random neighbour, who takes what it hears in place of its own. The walk is that of
    /// Metropolis and Hastings, which visits all agents equally often whatever their degrees.
    Walk,
}

/// How agents sleep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a chance between 0 and 1, or { enter = <chance to fall asleep>, leave = <chance to wake up> }"
)]
pub enum Sleep {
    /// Every agent with this chance, in every round by itself.
    Chance(f64),
    /// For several rounds at a time.
    Spells(TwoStateChain),
}

/// A Markov chain of two states, which begins in the good one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoStateChain {
    /// The chance to fall asleep after a round awake.
    pub enter: f64,
    /// The chance to wake up after a round asleep.
    pub leave: f64,
}

impl Default for Sleep {
    fn default() -> Self {
        Self::Chance(0.0)
    }
}

impl Sleep {
    /// Whether nobody ever sleeps.
    #[must_use]
    pub fn is_never(&self) -> bool {
        match self {
            Self::Chance(chance) => *chance == 0.0,
            Self::Spells(spells) => spells.enter == 0.0,
        }
    }

    /// Whether all numbers are chances, and nobody sleeps for good.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Chance(chance) => (0.0..1.0).contains(chance),
            Self::Spells(TwoStateChain { enter, leave }) => {
                (0.0..=1.0).contains(enter) && *leave > 0.0 && *leave <= 1.0
            }
        }
    }
}

/// The links of one round as agents mix by them.
#[derive(Debug, Default)]
pub(super) struct RoundLinks {
    offsets: Vec<usize>,
    senders: Vec<u32>,
    weights: Vec<f64>,
    own: Vec<f64>,
    /// How many hear each agent.
    listeners: Vec<u32>,
    asleep: Vec<bool>,
}

impl RoundLinks {
    pub(super) fn senders(&self, i: usize) -> &[u32] {
        &self.senders[self.offsets[i]..self.offsets[i + 1]]
    }

    pub(super) fn weights(&self, i: usize) -> &[f64] {
        &self.weights[self.offsets[i]..self.offsets[i + 1]]
    }

    pub(super) fn own(&self, i: usize) -> f64 {
        self.own[i]
    }

    pub(super) fn is_asleep(&self, i: usize) -> bool {
        self.asleep[i]
    }

    /// How many messages go, and how many of them one agent sends at most.
    pub(super) fn messages(&self) -> (u64, u64) {
        let most = self.listeners.iter().copied().max().unwrap_or(0);
        (self.senders.len() as u64, u64::from(most))
    }

    /// Rows of links with their weights.
    fn fill(&mut self, arcs: &Arcs, weight: impl Fn(usize, usize) -> f64) {
        let agents = self.asleep.len();
        (self.offsets, self.senders, self.weights) = (vec![0], Vec::new(), Vec::new());
        self.listeners = (0..agents).map(|i| arcs.listeners(i) as u32).collect();
        for i in 0..agents {
            self.senders.extend(arcs.senders(i));
            self.weights.extend(arcs.senders(i).iter().map(|&j| weight(i, j as usize)));
            self.offsets.push(self.senders.len());
        }
    }
}

/// Streams of what a network does are numbered above all agents.
const EDGES: u64 = 1 << 40;
const SLEEP: u64 = 1 << 41;

/// The links of a simulation, round by round: a function of the graph, the seed and the round, and
/// of nothing that was sent.
#[derive(Debug)]
pub(super) struct Links {
    graph: Arc<Graph>,
    pattern: Option<LinkPattern>,
    sleep: Sleep,
    seed: Seed,
    /// Who sleeps after so many rounds, where sleep lasts.
    spells: (u32, Vec<bool>),
    /// Who has the token of a walk after so many rounds.
    token: (u32, u32),
    /// Which round `now` is of, and whether anybody may sleep in it.
    at: Option<(u32, bool)>,
    now: RoundLinks,
}

impl Links {
    pub(super) fn new(
        graph: Arc<Graph>,
        pattern: Option<LinkPattern>,
        sleep: Sleep,
        seed: &Seed,
    ) -> Self {
        let spells = (0, vec![false; graph.agents()]);
        let (seed, now) = (seed.clone(), RoundLinks::default());
        Self { graph, pattern, sleep, seed, spells, token: (0, 0), at: None, now }
    }

    pub(super) fn now(&self) -> &RoundLinks {
        &self.now
    }

    /// Makes the links over which messages of round `round` go. Nobody sleeps unless `tired`.
    pub(super) fn set(&mut self, round: u32, tired: bool) {
        let walks = self.pattern == Some(LinkPattern::Walk);
        let tired = tired && (walks || !self.sleep.is_never());
        let lasting =
            self.pattern.is_none() && self.graph.directed().is_none_or(|d| d.period() == 1);
        let same = |at: (u32, bool)| at == (round, tired) || (lasting && !tired && !at.1);
        if self.at.is_some_and(same) {
            return;
        }
        self.at = Some((round, tired));
        let agents = self.graph.agents();
        if walks {
            return self.hand_over(round, tired);
        }
        self.now.asleep = if tired { self.sleepers(round) } else { vec![false; agents] };
        let asleep = self.now.asleep.clone();
        let awake = |&(a, b): &(u32, u32)| !asleep[a as usize] && !asleep[b as usize];
        if let Some(directed) = self.graph.directed() {
            let arcs = directed.at(round);
            let links = (0..agents as u32)
                .flat_map(|i| arcs.senders(i as usize).iter().map(move |&j| (j, i)))
                .filter(awake);
            let arcs = Arcs::new(agents, &links.collect::<Vec<_>>());
            self.now.fill(&arcs, |_, j| arcs.share(j));
            self.now.own = (0..agents).map(|i| arcs.share(i)).collect();
            return;
        }
        let edges = self.edges(round).into_iter().filter(awake);
        let both = edges.flat_map(|(a, b)| [(a, b), (b, a)]).collect::<Vec<_>>();
        let arcs = Arcs::new(agents, &both);
        let degree = |i: usize| arcs.listeners(i);
        self.now.fill(&arcs, |i, j| 1.0 / (1 + degree(i).max(degree(j))) as f64);
        self.now.own = (0..agents).map(|i| 1.0 - self.now.weights(i).iter().sum::<f64>()).collect();
    }

    /// The one link of a round of a walk: whoever has the token now hears whoever had it before, and
    /// nobody else is awake where anybody may sleep.
    fn hand_over(&mut self, round: u32, tired: bool) {
        let before = self.holder(round.saturating_sub(1));
        let holder = self.holder(round);
        let agents = self.graph.agents();
        self.now.asleep = (0..agents as u32).map(|i| tired && i != holder).collect();
        let moved = before != holder;
        let link = [(before, holder)];
        let arcs = Arcs::new(agents, if moved { &link } else { &[] });
        self.now.fill(&arcs, |_, _| 1.0);
        let own = |i: u32| if moved && i == holder { 0.0 } else { 1.0 };
        self.now.own = (0..agents as u32).map(own).collect();
    }

    /// Who has the token in a round.
    fn holder(&mut self, round: u32) -> u32 {
        let stream = |round: u32| self.seed.stream(Purpose::Network, EDGES, u64::from(round));
        let (mut reached, mut holder) = self.token;
        if reached == 0 || reached > round {
            (reached, holder) = (0, stream(0).random_range(0..self.graph.agents() as u32));
        }
        while reached < round {
            reached += 1;
            let (mut stream, next) = (stream(reached), self.graph.neighbours(holder as usize));
            let Some(&to) = next.get(stream.random_range(0..next.len().max(1))) else { continue };
            // A neighbour that is asked more often is gone to less often.
            let degree = |i: u32| self.graph.degree(i as usize) as f64;
            if stream.random::<f64>() * degree(to) < degree(holder) {
                holder = to;
            }
        }
        self.token = (reached, holder);
        holder
    }

    /// The edges that are there, whoever sleeps.
    fn edges(&self, round: u32) -> Vec<(u32, u32)> {
        let mut edges: Vec<(u32, u32)> = self.graph.iter_edges().collect();
        let mut stream = self.seed.stream(Purpose::Network, EDGES, u64::from(round));
        match self.pattern {
            None | Some(LinkPattern::Walk) => {}
            Some(LinkPattern::Matchings) => {
                edges.shuffle(&mut stream);
                let mut taken = vec![false; self.graph.agents()];
                edges.retain(|&(a, b)| {
                    let free = !taken[a as usize] && !taken[b as usize];
                    if free {
                        (taken[a as usize], taken[b as usize]) = (true, true);
                    }
                    free
                });
            }
            Some(LinkPattern::OneEdge) => {
                let one = stream.random_range(0..edges.len().max(1));
                edges = edges.get(one).copied().into_iter().collect();
            }
            Some(LinkPattern::Chance(chance)) => {
                edges.retain(|_| stream.random::<f64>() < chance);
            }
            Some(LinkPattern::Turns(turns)) => {
                let (turns, mut place) = (turns.max(1), 0);
                edges.retain(|_| {
                    place += 1;
                    (place - 1) % turns == round % turns
                });
            }
        }
        edges
    }

    /// Who sleeps in a round.
    fn sleepers(&mut self, round: u32) -> Vec<bool> {
        let agents = self.graph.agents();
        let draws = |round: u32| {
            let mut stream = self.seed.stream(Purpose::Network, SLEEP, u64::from(round));
            (0..agents).map(|_| stream.random::<f64>()).collect::<Vec<_>>()
        };
        let TwoStateChain { enter, leave } = match self.sleep {
            Sleep::Chance(chance) => return draws(round).iter().map(|u| *u < chance).collect(),
            Sleep::Spells(spells) => spells,
        };
        let (mut reached, mut asleep) = std::mem::take(&mut self.spells);
        if reached > round {
            (reached, asleep) = (0, vec![false; agents]);
        }
        while reached < round {
            reached += 1;
            for (asleep, u) in asleep.iter_mut().zip(draws(reached)) {
                *asleep = if *asleep { u >= leave } else { u < enter };
            }
        }
        self.spells = (reached, asleep.clone());
        asleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphSpec;

    fn links(kind: &str, agents: usize, pattern: Option<LinkPattern>, sleep: Sleep) -> Links {
        let spec: GraphSpec = serde_json::from_str(kind).unwrap();
        let graph = spec.build(agents, &Seed::from(3)).unwrap();
        Links::new(Arc::new(graph), pattern, sleep, &Seed::from(5))
    }

    const RANDOM: &str = r#"{"kind": "random", "edges": 20}"#;

    /// Rows and columns sum to one whatever is missing, so that means are kept.
    #[test]
    fn weights_average_whatever_is_missing() {
        let patterns = [
            Some(LinkPattern::Matchings),
            Some(LinkPattern::OneEdge),
            Some(LinkPattern::Chance(0.4)),
            Some(LinkPattern::Turns(3)),
            None,
        ];
        for pattern in patterns {
            for sleep in [Sleep::default(), Sleep::Chance(0.3)] {
                let mut links = links(RANDOM, 10, pattern, sleep);
                for round in 1..20 {
                    links.set(round, true);
                    let now = links.now();
                    let mut columns: Vec<f64> = (0..10).map(|i| now.own(i)).collect();
                    for i in 0..10 {
                        let row = now.own(i) + now.weights(i).iter().sum::<f64>();
                        assert!((row - 1.0).abs() < 1e-12 && now.own(i) > 0.0, "{pattern:?}");
                        assert!(!now.is_asleep(i) || now.senders(i).is_empty());
                        for (&j, w) in now.senders(i).iter().zip(now.weights(i)) {
                            columns[j as usize] += w;
                        }
                    }
                    assert!(columns.iter().all(|c| (c - 1.0).abs() < 1e-12), "{columns:?}");
                }
            }
        }
    }

    #[test]
    fn patterns_are_what_they_say() {
        let mut one = links(RANDOM, 10, Some(LinkPattern::OneEdge), Sleep::default());
        let mut pairs = links(RANDOM, 10, Some(LinkPattern::Matchings), Sleep::default());
        let mut turns = links(RANDOM, 10, Some(LinkPattern::Turns(3)), Sleep::default());
        let mut counted = 0;
        for round in 0..3 {
            [&mut one, &mut pairs, &mut turns].iter_mut().for_each(|l| l.set(round, true));
            assert_eq!(one.now().messages(), (2, 1));
            assert!((0..10).all(|i| pairs.now().senders(i).len() <= 1));
            assert!(pairs.now().messages().0 >= 6, "a maximal matching of ten agents");
            counted += turns.now().messages().0;
        }
        assert_eq!(counted, 40, "every edge has its turn once");
    }

    /// One agent is awake and hears the one before it alone; all agents are visited equally often,
    /// whatever their degrees.
    #[test]
    fn a_walk_hands_over_and_visits_everybody() {
        let star = r#"{"kind": "star"}"#;
        for kind in [RANDOM, star] {
            let mut walk = links(kind, 10, Some(LinkPattern::Walk), Sleep::default());
            let (mut visits, mut before) = ([0_u32; 10], None);
            for round in 0..20_000 {
                walk.set(round, true);
                let now = walk.now();
                let awake: Vec<usize> = (0..10).filter(|&i| !now.is_asleep(i)).collect();
                let [holder] = awake[..] else { panic!("{awake:?}") };
                visits[holder] += 1;
                match before {
                    Some(from) if from != holder => {
                        assert_eq!(now.senders(holder), [from as u32]);
                        assert_eq!((now.weights(holder), now.own(holder)), (&[1.0][..], 0.0));
                        assert_eq!(now.messages(), (1, 1));
                    }
                    _ => assert_eq!((now.messages(), now.own(holder)), ((0, 0), 1.0)),
                }
                before = Some(holder);
            }
            // 2,000 each are expected. A leaf of the star keeps the token for ten rounds on average,
            // so that a deviation is about 190; five of them.
            assert!(visits.iter().all(|v| (1_000..3_000).contains(v)), "{kind}: {visits:?}");
            let last = before;
            walk.set(3, true);
            walk.set(19_999, true);
            assert_eq!(
                (0..10).find(|&i| !walk.now().is_asleep(i)),
                last,
                "a function of the round"
            );
        }
    }

    /// A tenth of all rounds is slept through, in spells of four rounds on average.
    #[test]
    fn spells_last() {
        let spells = Sleep::Spells(TwoStateChain { enter: 0.25 / 9.0, leave: 0.25 });
        let mut links = links(r#"{"kind": "ring"}"#, 100, None, spells);
        let (mut asleep, mut woke, mut before) = (0, 0, vec![false; 100]);
        for round in 1..=2_000 {
            links.set(round, true);
            for (i, before) in before.iter_mut().enumerate() {
                let now = links.now().is_asleep(i);
                asleep += u32::from(now);
                woke += u32::from(*before && !now);
                *before = now;
            }
        }
        // 20,000 expected; spells make rounds count for about seven, so the deviation is 360.
        assert!((18_000..22_000).contains(&asleep), "{asleep}");
        let length = f64::from(asleep) / f64::from(woke);
        assert!((3.7..4.3).contains(&length), "{length}");
        // Going back gives the same.
        links.set(2_000, true);
        let last: Vec<bool> = (0..100).map(|i| links.now().is_asleep(i)).collect();
        links.set(1_000, true);
        links.set(2_000, true);
        assert_eq!(last, (0..100).map(|i| links.now().is_asleep(i)).collect::<Vec<_>>());
    }

    #[test]
    fn directed_links_hand_out_all_that_is_there() {
        let mut links = links(r#"{"kind": "exponential"}"#, 6, None, Sleep::Chance(0.4));
        for round in 1..10 {
            links.set(round, true);
            let now = links.now();
            let mut columns: Vec<f64> = (0..6).map(|i| now.own(i)).collect();
            for i in 0..6 {
                for (&j, w) in now.senders(i).iter().zip(now.weights(i)) {
                    columns[j as usize] += w;
                }
            }
            assert!(columns.iter().all(|c| (c - 1.0).abs() < 1e-12), "{columns:?}");
        }
    }
}
