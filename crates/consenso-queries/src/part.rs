//! Parts of a questionnaire: what a record adds to each, and how far it can move it.

use crate::columns::{ColumnKind, Columns};
use crate::strategy::{Measured, Strategy};
use consenso_tables::Records;
use rayon::prelude::*;

/// One way to divide records into cells: the categories of a column, or parts of a number's range.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) column: usize,
    pub(crate) name: String,
    pub(crate) labels: Vec<String>,
    /// Where a number is cut, as parts of its range; empty for categories.
    edges: Vec<f64>,
    /// How far apart the values are that a number can have, where every cell holds one of them.
    pub(crate) step: Option<f64>,
    /// The expected share of every cell, where the schema knows it.
    pub(crate) shares: Option<Vec<f64>>,
}

impl Axis {
    /// The categories of a column; `None` for a number.
    pub(crate) fn levels(columns: &Columns, column: usize) -> Option<Self> {
        let info = columns.get(column);
        let ColumnKind::Levels(levels) = &info.kind else { return None };
        let (labels, shares) = (levels.clone(), info.shares.clone());
        Some(Self {
            column,
            name: info.name.clone(),
            labels,
            edges: Vec::new(),
            step: None,
            shares,
        })
    }

    /// A number's range cut at these points in its own unit; `None` for categories.
    pub(crate) fn cut(columns: &Columns, column: usize, cuts: &[f64]) -> Option<Self> {
        let info = columns.get(column);
        let ColumnKind::Number { min, max } = info.kind else { return None };
        let mut ends = vec![min];
        ends.extend(cuts);
        ends.push(max);
        let last = ends.len() - 2;
        let label = |(k, w): (usize, &[f64])| {
            format!("[{}, {}{}", round(w[0]), round(w[1]), if k == last { "]" } else { ")" })
        };
        let labels = ends.windows(2).enumerate().map(label).collect();
        let edges = cuts.iter().map(|c| (c - min) / (max - min)).collect();
        Some(Self { column, name: info.name.clone(), labels, edges, step: None, shares: None })
    }

    /// One cell for every value that a number can have, where the schema says how far apart these
    /// are and there are at most so many.
    pub(crate) fn values(columns: &Columns, column: usize, most: usize) -> Option<Self> {
        let info = columns.get(column);
        let (ColumnKind::Number { min, max }, Some(step)) = (&info.kind, info.step) else {
            return None;
        };
        let steps = libm::round((max - min) / step);
        if !(steps >= 1.0 && steps < most as f64) {
            return None;
        }
        let cuts: Vec<f64> = (0..steps as usize).map(|k| min + (k as f64 + 0.5) * step).collect();
        Some(Self { step: Some(step), ..Self::cut(columns, column, &cuts)? })
    }

    /// A point of every cell of a number, as part of its range: its only value, or its middle.
    pub(crate) fn inside(&self, cell: usize) -> f64 {
        match self.step {
            Some(_) => cell as f64 / (self.cells() - 1) as f64,
            None => (cell as f64 + 0.5) / self.cells() as f64,
        }
    }

    /// A number's range in equal parts.
    pub(crate) fn equal(columns: &Columns, column: usize, bins: usize) -> Option<Self> {
        let ColumnKind::Number { min, max } = columns.get(column).kind else { return None };
        let cuts: Vec<f64> =
            (1..bins).map(|k| min + (max - min) * k as f64 / bins as f64).collect();
        Self::cut(columns, column, &cuts)
    }

    pub(crate) fn cells(&self) -> usize {
        self.labels.len()
    }

    pub(crate) fn cell(&self, value: f64) -> usize {
        if self.edges.is_empty() {
            return (value as usize).min(self.labels.len() - 1);
        }
        self.edges.partition_point(|edge| *edge <= value)
    }

    fn key(&self) -> String {
        match self.edges.is_empty() {
            true => self.name.clone(),
            false => {
                let edges: Vec<String> = self.edges.iter().map(ToString::to_string).collect();
                format!("{}[{}]", self.name, edges.join(","))
            }
        }
    }
}

/// A number as people write it: at most six digits.
pub(crate) fn round(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let scale = libm::pow(10.0, 5.0 - libm::floor(libm::log10(x.abs())));
    libm::round(x * scale) / scale
}

/// What is summed in every group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// Records.
    Counts,
    /// Records by bins of a number, as a strategy measures them.
    Bins {
        axis: Axis,
        measured: Box<Measured>,
        /// What questions would ask of the bins, to choose a strategy by.
        functionals: Vec<Vec<f64>>,
    },
    /// Records, a number u in \[−1, 1\] and 2u² − 1; records only where their number is not
    /// public.
    Moments { column: usize, counted: bool },
    /// Numbers u_j in \[−1, 1\] and their products.
    Products { columns: Vec<usize> },
}

/// How much the count of records, and the sum of 2u² − 1, weigh beside the sum of u. For a half or
/// less, two records of one group differ by at most 2 in (u, (2u² − 1)/2): with t = |u − u'|, t² +
/// (2t(2 − t)/2)² = t²(1 + (2 − t)²) has the derivative 2t(2t² − 6t + 5) > 0 and is 4 at its end.
pub(crate) const COUNT: f64 = 0.6;
pub(crate) const SQUARE: f64 = 0.5;

/// How much sums of numbers weigh beside sums of products.
pub(crate) const LINEAR: f64 = 0.7;

/// One part: sums over the records of every group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) outer: Vec<Axis>,
    pub(crate) content: Content,
    /// Whether answers are wanted by site.
    pub(crate) by_site: bool,
    /// How much of the budget it has beside the others.
    pub(crate) weight: f64,
    /// Its share of μ²: 0 where its values are known already.
    pub(crate) share: f64,
    /// What its sums are multiplied by before noise of one size is added to all.
    pub(crate) scale: f64,
    /// Where it begins in the vector.
    pub(crate) offset: usize,
}

impl Part {
    pub(crate) fn new(outer: Vec<Axis>, content: Content, by_site: bool) -> Self {
        Self { outer, content, by_site, weight: 0.0, share: 0.0, scale: 0.0, offset: 0 }
    }

    /// What it is, whoever asks: the same key, the same sums.
    pub(crate) fn key(&self) -> String {
        let outer: Vec<String> = self.outer.iter().map(Axis::key).collect();
        let content = match &self.content {
            Content::Counts => "counts".to_owned(),
            Content::Bins { axis, .. } => format!("bins {}", axis.key()),
            Content::Moments { column, counted } => format!("moments {column} {counted}"),
            Content::Products { columns } => format!("products {columns:?}"),
        };
        format!("{content} by {}{}", outer.join(" × "), if self.by_site { " and site" } else { "" })
    }

    /// What it is, for people.
    pub(crate) fn name(&self, columns: &Columns) -> String {
        let axis = |a: &Axis| match a.edges.is_empty() {
            true => a.name.clone(),
            false => format!("{} in {} parts", a.name, a.cells()),
        };
        let names = |all: &[usize]| {
            all.iter().map(|&c| columns.get(c).name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let mut groups: Vec<String> = self.outer.iter().map(axis).collect();
        groups.extend(self.by_site.then(|| "site".to_owned()));
        let content = match &self.content {
            Content::Counts => "counts".to_owned(),
            Content::Bins { axis: bins, .. } => format!("counts of {}", axis(bins)),
            Content::Moments { column, .. } => format!("sums of {}", names(&[*column])),
            Content::Products { columns } => format!("sums of products of {}", names(columns)),
        };
        match groups.is_empty() {
            true => content,
            false => format!("{content} by {}", groups.join(" and ")),
        }
    }

    /// Whether it holds numbers of records alone, which are public.
    pub(crate) fn is_public(&self) -> bool {
        self.content == Content::Counts && self.groups() == 1
    }

    pub(crate) fn groups(&self) -> usize {
        self.outer.iter().map(Axis::cells).product()
    }

    /// Numbers of one group.
    pub(crate) fn per_group(&self) -> usize {
        match &self.content {
            Content::Counts => 1,
            Content::Bins { measured, .. } => measured.rows(),
            Content::Moments { .. } => 3,
            Content::Products { columns } => columns.len() * (columns.len() + 3) / 2,
        }
    }

    /// Numbers of one site's records, or of all sites'.
    pub(crate) fn width(&self) -> usize {
        self.groups() * self.per_group()
    }

    pub(crate) fn strategy(&self) -> Option<Strategy> {
        match &self.content {
            Content::Bins { measured, .. } => Some(measured.strategy),
            _ => None,
        }
    }

    /// The weights of a group's record count and of the sum of 2u² − 1.
    pub(crate) fn moment_weights(&self) -> [f64; 3] {
        match self.content {
            Content::Moments { counted: true, .. } => [COUNT, 1.0, SQUARE],
            _ => [0.0, 1.0, SQUARE],
        }
    }

    /// How long what one record adds can be: l1, the square of l2, l∞; and the square of the
    /// largest distance in l2 of what two records add.
    pub(crate) fn norms(&self) -> [f64; 4] {
        let groups = self.groups();
        match &self.content {
            Content::Counts => [1.0, 1.0, 1.0, if groups > 1 { 2.0 } else { 0.0 }],
            Content::Bins { measured, .. } => {
                // No entry is negative, so that two columns have no negative product.
                let longest = measured.longest();
                [measured.most(), longest, 1.0, 2.0 * longest]
            }
            Content::Moments { .. } => {
                let [a, b, c] = self.moment_weights();
                let square = a * a + b * b + c * c;
                let apart = if groups > 1 { 2.0 * square } else { 4.0 };
                [a + b + c, square, 1.0, apart.max(4.0)]
            }
            Content::Products { columns } => {
                // (aᵀb)² ≥ 0: two symmetric products have no negative product.
                let k = columns.len() as f64;
                let (linear, products) = (LINEAR * LINEAR * k, k * k);
                let l1 = LINEAR * k + k + std::f64::consts::SQRT_2 * k * (k - 1.0) / 2.0;
                [l1, linear + products, std::f64::consts::SQRT_2, 4.0 * linear + 2.0 * products]
            }
        }
    }

    /// The sums over records, before they are scaled.
    pub(crate) fn totals(&self, columns: &Columns, records: &Records) -> Vec<f64> {
        const BLOCK: usize = 1 << 15;
        let cells = match &self.content {
            Content::Bins { measured, .. } => self.groups() * measured.bins,
            _ => self.width(),
        };
        let blocks: Vec<usize> = (0..records.len()).step_by(BLOCK).collect();
        let of_block = |&start: &usize| {
            let mut sums = vec![0.0; cells];
            for record in start..(start + BLOCK).min(records.len()) {
                self.add(columns, &records.row(record), records.labels()[record], &mut sums);
            }
            sums
        };
        // Blocks have one size and are added up in their order: the same bits on any machine.
        let parts: Vec<Vec<f64>> = blocks.par_iter().map(of_block).collect();
        let mut sums = vec![0.0; cells];
        for part in parts {
            sums.iter_mut().zip(part).for_each(|(s, p)| *s += p);
        }
        let Content::Bins { measured, .. } = &self.content else { return sums };
        let mut out = vec![0.0; self.width()];
        for (counts, out) in
            sums.chunks_exact(measured.bins).zip(out.chunks_exact_mut(measured.rows()))
        {
            measured.measure(counts, out);
        }
        out
    }

    fn add(&self, columns: &Columns, row: &[f64], label: f64, sums: &mut [f64]) {
        let mut group = 0;
        for axis in &self.outer {
            group = group * axis.cells() + axis.cell(columns.value(axis.column, row, label));
        }
        let u = |column: usize| 2.0 * columns.value(column, row, label).clamp(0.0, 1.0) - 1.0;
        match &self.content {
            Content::Counts => sums[group] += 1.0,
            Content::Bins { axis, measured, .. } => {
                let bin = axis.cell(columns.value(axis.column, row, label));
                sums[group * measured.bins + bin] += 1.0;
            }
            Content::Moments { column, .. } => {
                let (u, w) = (u(*column), self.moment_weights());
                let add = [w[0], w[1] * u, w[2] * (2.0 * u * u - 1.0)];
                sums[3 * group..3 * group + 3].iter_mut().zip(add).for_each(|(s, a)| *s += a);
            }
            Content::Products { columns: all } => {
                let u: Vec<f64> = all.iter().map(|&c| u(c)).collect();
                let mut at = u.len();
                for i in 0..u.len() {
                    sums[i] += LINEAR * u[i];
                    for j in i..u.len() {
                        let twice = if i == j { 1.0 } else { std::f64::consts::SQRT_2 };
                        sums[at] += twice * u[i] * u[j];
                        at += 1;
                    }
                }
            }
        }
    }
}
