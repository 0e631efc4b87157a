//! All cells of a board together: figures over seeds, ranks over settings, fronts.

use crate::cell::{Certified, PublishedCost, Unit};
use crate::claimed::Claimed;
use crate::spec::{Board, Setting};
use crate::stats::{self, Comparison};
use serde::Serialize;
use std::collections::BTreeMap;

/// The results of a board.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    /// The board.
    pub board: &'a Board,
    /// Names of all methods: the board's own, then those that were added.
    pub methods: Vec<String>,
    /// Where the board's own methods end.
    pub own: usize,
    /// What was added.
    pub claimed: Vec<Claimed>,
    /// One per setting and method with a figure or a refusal.
    pub rows: Vec<Row>,
    /// Means over seeds of what to compare with, by setting.
    pub baselines: Vec<BTreeMap<String, f64>>,
    /// Units that are there, of those the board asks for.
    pub units: (usize, usize),
}

/// What one method gave in one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Index of the setting.
    pub setting: usize,
    /// Index of the method.
    pub method: usize,
    /// The figure, seed by seed; `None` where a run diverged or gave no number.
    pub values: Vec<(u64, Option<f64>)>,
    /// The worst certified claim over seeds.
    pub certified: Option<Certified>,
    /// The worst cost that the method's authors published for the same noise.
    pub published: Option<PublishedCost>,
    /// Rounds, mean over seeds.
    pub rounds: Option<f64>,
    /// Messages, mean over seeds.
    pub messages: Option<f64>,
    /// Bytes, mean over seeds.
    pub bytes: Option<f64>,
    /// Simulated seconds of all exchanges, mean over seeds.
    pub network_seconds: Option<f64>,
    /// Seconds of one thread, mean over seeds.
    pub seconds: Option<f64>,
    /// What tuning chose.
    pub tuned: Option<serde_json::Value>,
    /// Why there is no figure.
    pub refused: Option<String>,
}

impl Row {
    /// Returns the mean over seeds, which is no number if one of them is none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.values.iter().map(|v| v.1.unwrap_or(f64::NAN)).sum();
        sum / self.values.len() as f64
    }

    /// Returns the standard deviation over seeds; `None` for fewer than two.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let (n, mean) = (self.values.len(), self.mean());
        let square = |v: &(u64, Option<f64>)| (v.1.unwrap_or(f64::NAN) - mean).powi(2);
        let sum: f64 = self.values.iter().map(square).sum();
        (n > 1 && sum.is_finite()).then(|| (sum / (n - 1) as f64).sqrt())
    }
}

/// Methods ranked over some settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// Indices of the methods that have a figure in all of them, the best first.
    pub methods: Vec<usize>,
    /// What their ranks say, in the same order.
    pub found: Comparison,
    /// In how many settings of which problems each was the best, ties shared.
    pub best_on: Vec<BTreeMap<usize, f64>>,
    /// Methods without a figure somewhere, with how many they lack.
    pub left_out: Vec<(usize, usize)>,
}

impl<'a> Results<'a> {
    /// Brings units and claimed results together.
    #[must_use]
    pub fn new(board: &'a Board, units: &[Unit], claimed: Vec<Claimed>) -> Self {
        let settings = board.settings();
        let mut methods: Vec<String> = board.methods.iter().map(|m| m.name.clone()).collect();
        let own = methods.len();
        methods.extend(claimed.iter().map(|c| c.method.clone()));
        let mut rows: BTreeMap<(usize, usize), Row> = BTreeMap::new();
        let mut baselines: Vec<BTreeMap<String, Vec<f64>>> = vec![BTreeMap::new(); settings.len()];
        let names: Vec<[String; 4]> = settings.iter().map(|s| board.names(*s)).collect();
        let place = |problem: &str, graph: &str, condition: &str, epsilon: Option<f64>| {
            (0..settings.len()).find(|&s| {
                names[s][..3] == [problem, graph, condition] && settings[s].epsilon == epsilon
            })
        };
        let mut found = 0;
        for unit in units.iter().filter(|unit| board.seeds.contains(&unit.seed)) {
            let Some(s) = place(&unit.problem, &unit.graph, &unit.condition, unit.epsilon) else {
                continue;
            };
            found += 1;
            for (name, value) in &unit.baselines {
                baselines[s].entry(name.clone()).or_default().push(*value);
            }
            let figure = &board.problems[settings[s].problem].measure.figure;
            for cell in &unit.cells {
                let Some(m) = methods[..own].iter().position(|name| *name == cell.method) else {
                    continue;
                };
                let row = rows.entry((s, m)).or_insert_with(|| Row::empty(s, m));
                row.refused = row.refused.take().or_else(|| cell.refused.clone());
                let Some(outcome) = &cell.outcome else { continue };
                let value = outcome.figures.get(figure).copied().filter(|_| !outcome.diverged);
                row.values.push((unit.seed, value));
                let worst = |a: f64, b: Option<f64>| b.is_none_or(|b| a > b);
                if let Some(c) = &outcome.certified
                    && worst(c.epsilon, row.certified.as_ref().map(|c| c.epsilon))
                {
                    row.certified = Some(c.clone());
                }
                if let Some(p) = &outcome.published
                    && worst(p.epsilon, row.published.as_ref().map(|p| p.epsilon))
                {
                    row.published = Some(p.clone());
                }
                let n = row.values.len() as f64;
                let mean =
                    |old: Option<f64>, new: f64| Some(old.map_or(new, |old| old + (new - old) / n));
                row.rounds = mean(row.rounds, f64::from(outcome.rounds));
                row.messages = mean(row.messages, outcome.messages);
                row.bytes = mean(row.bytes, outcome.bytes);
                if let Some(seconds) = outcome.network_seconds {
                    row.network_seconds = mean(row.network_seconds, seconds);
                }
                row.seconds = mean(row.seconds, outcome.seconds);
                row.tuned = outcome.tuned.clone();
            }
        }
        for (k, claim) in claimed.iter().enumerate() {
            for result in &claim.results {
                let Some(s) =
                    place(&result.problem, &result.graph, &result.condition, result.epsilon)
                else {
                    continue;
                };
                let row = rows.entry((s, own + k)).or_insert_with(|| Row::empty(s, own + k));
                row.values.push((result.seed, Some(result.value)));
                row.rounds = result.rounds.map(|r| r as f64).or(row.rounds);
                row.bytes = result.bytes.map(|b| b as f64).or(row.bytes);
            }
        }
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let baselines = baselines
            .into_iter()
            .map(|of| of.into_iter().map(|(name, values)| (name, mean(values))).collect())
            .collect();
        let rows = rows.into_values().map(|mut row| {
            row.values.sort_by_key(|v| v.0);
            // A method that some seeds refuse has no mean over all of them.
            if row.refused.is_some() {
                row.values.clear();
            }
            row
        });
        let asked = settings.len() * board.seeds.len();
        let (rows, units) = (rows.collect(), (found, asked));
        Self { board, methods, own, claimed, rows, baselines, units }
    }

    /// Returns the setting with this index.
    #[must_use]
    pub fn setting(&self, index: usize) -> Setting {
        self.board.settings()[index]
    }

    /// Returns whom the claims of a method hold against; `None` where it claims nothing.
    #[must_use]
    pub fn adversary(&self, method: usize) -> Option<&str> {
        let of = self.rows.iter().filter(|row| row.method == method);
        of.filter_map(|row| row.certified.as_ref()).map(Certified::adversary).next()
    }

    /// Returns whether the claims of a method hold against others than those of most methods: then
    /// the same ε promises something else.
    #[must_use]
    pub fn other_adversary(&self, method: usize) -> bool {
        let Some(own) = self.adversary(method) else { return false };
        let all: Vec<&str> = (0..self.own).filter_map(|m| self.adversary(m)).collect();
        let count = |text: &str| all.iter().filter(|a| **a == text).count();
        let most = all.iter().map(|a| count(a)).max().unwrap_or(0);
        count(own) < most
    }

    /// Returns what a method gave in a setting.
    #[must_use]
    pub fn row(&self, setting: usize, method: usize) -> Option<&Row> {
        self.rows.iter().find(|row| row.setting == setting && row.method == method)
    }

    /// Returns what one seed could compare: the row's mean where it has values.
    fn figure(&self, setting: usize, method: usize) -> Option<f64> {
        self.row(setting, method).filter(|row| !row.values.is_empty()).map(Row::mean)
    }

    /// Ranks methods over the settings that are chosen; `None` where fewer than two methods have a
    /// figure in at least two of them. Methods of which somebody claims results are ranked only
    /// where they have a figure in every setting.
    #[must_use]
    pub fn ranking(&self, chosen: impl Fn(Setting) -> bool) -> Option<Ranking> {
        let some = |s: usize| (0..self.methods.len()).any(|m| self.figure(s, m).is_some());
        self.ranked_over(|s| chosen(self.setting(s)) && some(s))
    }

    /// Ranks methods over those of the chosen settings that `method` has a figure in: how one that
    /// is missing elsewhere does where it goes.
    #[must_use]
    pub fn ranking_where(
        &self,
        method: usize,
        chosen: impl Fn(Setting) -> bool,
    ) -> Option<Ranking> {
        self.ranked_over(|s| chosen(self.setting(s)) && self.figure(s, method).is_some())
    }

    fn ranked_over(&self, chosen: impl Fn(usize) -> bool) -> Option<Ranking> {
        let settings: Vec<usize> =
            (0..self.board.settings().len()).filter(|&s| chosen(s)).collect();
        let (mut in_all, mut left_out) = (Vec::new(), Vec::new());
        for method in 0..self.methods.len() {
            let missing = settings.iter().filter(|&&s| self.figure(s, method).is_none()).count();
            match missing {
                0 => in_all.push(method),
                missing => left_out.push((method, missing)),
            }
        }
        let blocks: Vec<Vec<f64>> = settings
            .iter()
            .map(|&s| {
                let measure = &self.board.problems[self.setting(s).problem].measure;
                let value = |m: &usize| self.figure(s, *m).unwrap_or(f64::NAN);
                let values: Vec<f64> = in_all.iter().map(|m| measure.ranked(value(m))).collect();
                stats::ranks(&values, measure.more_is_better())
            })
            .collect();
        let found = stats::compare(&blocks)?;
        let mut best_on = vec![BTreeMap::new(); in_all.len()];
        for (&s, block) in settings.iter().zip(&blocks) {
            for (k, share) in stats::best_of(block) {
                *best_on[k].entry(self.setting(s).problem).or_insert(0.0) += share;
            }
        }
        let mut order: Vec<usize> = (0..in_all.len()).collect();
        order.sort_by(|&a, &b| found.mean[a].total_cmp(&found.mean[b]));
        let sorted = Comparison {
            mean: order.iter().map(|&k| found.mean[k]).collect(),
            interval: order.iter().map(|&k| found.interval[k]).collect(),
            wins: order.iter().map(|&k| found.wins[k]).collect(),
            ..found
        };
        let methods = order.iter().map(|&k| in_all[k]).collect();
        let best_on = order.iter().map(|&k| best_on[k].clone()).collect();
        Some(Ranking { methods, found: sorted, best_on, left_out })
    }
}

impl Row {
    fn empty(setting: usize, method: usize) -> Self {
        Self {
            setting,
            method,
            values: Vec::new(),
            certified: None,
            published: None,
            rounds: None,
            messages: None,
            bytes: None,
            network_seconds: None,
            seconds: None,
            tuned: None,
            refused: None,
        }
    }
}
