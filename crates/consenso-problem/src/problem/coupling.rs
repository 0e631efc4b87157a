//! Linear coupling: the agents' variables x_i, each its own, meet in Σ A_i x_i = c (or ≤, ≥, row by
//! row).
//!
//! A_i, c and the limits of x_i are public; what an agent pays, f_i, is not.

use nalgebra::{DMatrix, SymmetricEigen};
use serde::{Deserialize, Serialize};

/// How a row of Σ A_i x_i compares with its right-hand side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// Equal.
    #[default]
    #[serde(rename = "=")]
    Equal,
    /// At most.
    #[serde(rename = "<=")]
    AtMost,
    /// At least.
    #[serde(rename = ">=")]
    AtLeast,
}

impl Relation {
    /// The coefficient of the row's slack s ≥ 0 in Σ A_i x_i + sign·s = c; 0 where there is none.
    #[must_use]
    pub fn slack(self) -> f64 {
        match self {
            Self::Equal => 0.0,
            Self::AtMost => 1.0,
            Self::AtLeast => -1.0,
        }
    }
}

/// One A_i: its non-zero entries, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    columns: usize,
    /// (row, column, value), by row.
    entries: Vec<(usize, usize, f64)>,
    /// Rows that touch exactly one column, and which.
    single: Vec<(usize, usize, f64)>,
}

/// Why a coupling cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CouplingError {
    /// An A_i does not fit c or x_i.
    #[error(
        "{agent}: the matrix has an entry at row {row}, column {column}, but there are {rows} rows and {columns} variables"
    )]
    Shape {
        /// Whose.
        agent: String,
        /// Row from 1.
        row: usize,
        /// Column from 1.
        column: usize,
        /// Rows of c.
        rows: usize,
        /// Variables of the agent.
        columns: usize,
    },
    /// A number that is not finite.
    #[error("{agent}: the matrix has a number that is not finite at row {row}, column {column}")]
    NotFinite {
        /// Whose.
        agent: String,
        /// Row from 1.
        row: usize,
        /// Column from 1.
        column: usize,
    },
    /// Nobody can change a row.
    #[error("row {row} asks for {asked}, but no agent's matrix has an entry in it")]
    EmptyRow {
        /// Row from 1.
        row: usize,
        /// Its right-hand side.
        asked: f64,
    },
    /// The limits do not reach a row's right-hand side.
    #[error(
        "infeasible: row {row} asks for {relation} {asked}, but within the agents' limits it can only be {low} to {high}"
    )]
    OutOfReach {
        /// Row from 1.
        row: usize,
        /// How it compares.
        relation: &'static str,
        /// Its right-hand side.
        asked: f64,
        /// Least it can be.
        low: f64,
        /// Most it can be.
        high: f64,
    },
    /// A row contradicts the others.
    #[error(
        "infeasible: row {row} is a combination of other rows, which make it {implied}, not {asked}"
    )]
    Contradiction {
        /// Row from 1.
        row: usize,
        /// Its right-hand side.
        asked: f64,
        /// What the others imply.
        implied: f64,
    },
    /// No point satisfies all rows and limits together.
    #[error(
        "infeasible: no point within the limits satisfies all rows; row {row} stays {by:.3e} off"
    )]
    Infeasible {
        /// The row that is missed most, from 1.
        row: usize,
        /// By how much.
        by: f64,
    },
}

impl Block {
    /// From (row, column, value) entries; zeros are dropped, repetitions added up.
    #[must_use]
    pub fn from_entries(columns: usize, mut entries: Vec<(usize, usize, f64)>) -> Self {
        entries.sort_unstable_by_key(|e| (e.0, e.1));
        let mut merged: Vec<(usize, usize, f64)> = Vec::new();
        for (row, column, value) in entries {
            match merged.last_mut() {
                Some(last) if (last.0, last.1) == (row, column) => last.2 += value,
                _ => merged.push((row, column, value)),
            }
        }
        merged.retain(|e| e.2 != 0.0);
        let single = merged
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|row| row.len() == 1)
            .map(|row| row[0])
            .collect();
        Self { columns, entries: merged, single }
    }

    /// From rows of numbers.
    #[must_use]
    pub fn from_rows(columns: usize, rows: &[Vec<f64>]) -> Self {
        let row = |(r, row): (usize, &Vec<f64>)| {
            row.iter().enumerate().map(move |(c, &v)| (r, c, v)).collect::<Vec<_>>()
        };
        Self::from_entries(columns, rows.iter().enumerate().flat_map(row).collect())
    }

    /// Variables.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Non-zero entries, row by row.
    #[must_use]
    pub fn entries(&self) -> &[(usize, usize, f64)] {
        &self.entries
    }

    /// Entries that are alone in their row.
    #[must_use]
    pub fn single(&self) -> &[(usize, usize, f64)] {
        &self.single
    }

    /// `out += A x`.
    #[doc(hidden)]
    pub fn add_to(&self, x: &[f64], out: &mut [f64]) {
        for &(r, c, v) in &self.entries {
            out[r] += v * x[c];
        }
    }

    /// `out += scale·Aᵀ y`.
    #[doc(hidden)]
    pub fn add_transposed(&self, scale: f64, y: &[f64], out: &mut [f64]) {
        for &(r, c, v) in &self.entries {
            out[c] += scale * v * y[r];
        }
    }

    /// A Aᵀ, added to `out`.
    fn add_gram(&self, out: &mut DMatrix<f64>) {
        let mut by_column = self.entries.clone();
        by_column.sort_unstable_by_key(|e| e.1);
        for column in by_column.chunk_by(|a, b| a.1 == b.1) {
            for &(r, _, v) in column {
                for &(s, _, w) in column {
                    out[(r, s)] += v * w;
                }
            }
        }
    }
}

/// All of Σ A_i x_i = c.
#[derive(Clone, Debug, PartialEq)]
pub struct Coupling {
    names: Vec<String>,
    blocks: Vec<Block>,
    rhs: Vec<f64>,
    relations: Vec<Relation>,
    /// ‖[A_1 … A_N, slacks]‖², its smallest non-zero squared singular value, and σ²_max of each
    /// A_i.
    norm_squared: f64,
    sigma_min_squared: f64,
    sigma_squared: Vec<f64>,
}

impl Coupling {
    /// The coupling of named blocks.
    ///
    /// # Errors
    /// An entry outside its matrix, a number that is not finite, a row nobody can change, or one
    /// that contradicts the others.
    pub fn new(
        blocks: Vec<(String, Block)>,
        rhs: Vec<f64>,
        relations: Vec<Relation>,
    ) -> Result<Self, CouplingError> {
        let rows = rhs.len();
        for (agent, block) in &blocks {
            for &(r, c, v) in &block.entries {
                if r >= rows || c >= block.columns {
                    let (agent, columns) = (agent.clone(), block.columns);
                    return Err(CouplingError::Shape {
                        agent,
                        row: r + 1,
                        column: c + 1,
                        rows,
                        columns,
                    });
                }
                if !v.is_finite() {
                    return Err(CouplingError::NotFinite {
                        agent: agent.clone(),
                        row: r + 1,
                        column: c + 1,
                    });
                }
            }
        }
        let (names, blocks): (Vec<String>, Vec<Block>) = blocks.into_iter().unzip();
        let mut touched = vec![false; rows];
        blocks.iter().flat_map(|b| &b.entries).for_each(|e| touched[e.0] = true);
        for (row, &asked) in rhs.iter().enumerate() {
            let satisfied = match relations[row] {
                Relation::Equal => asked == 0.0,
                Relation::AtMost => asked >= 0.0,
                Relation::AtLeast => asked <= 0.0,
            };
            if !touched[row] && !satisfied {
                return Err(CouplingError::EmptyRow { row: row + 1, asked });
            }
        }
        let mut gram = DMatrix::zeros(rows, rows);
        blocks.iter().for_each(|b| b.add_gram(&mut gram));
        for (row, relation) in relations.iter().enumerate() {
            gram[(row, row)] += relation.slack() * relation.slack();
        }
        let sigma_squared = blocks.iter().map(|b| largest_gram(b, rows)).collect();
        let spectrum = SymmetricEigen::new(gram).eigenvalues;
        let norm_squared = spectrum.iter().copied().fold(0.0, f64::max);
        let nonzero = spectrum.iter().copied().filter(|&v| v > 1e-10 * norm_squared);
        let sigma_min_squared = nonzero.fold(f64::INFINITY, f64::min);
        let coupling =
            Self { names, blocks, rhs, relations, norm_squared, sigma_min_squared, sigma_squared };
        coupling.consistent()?;
        Ok(coupling)
    }

    /// N.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.blocks.len()
    }

    /// Rows of c.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rhs.len()
    }

    /// A_i.
    #[must_use]
    pub fn block(&self, agent: usize) -> &Block {
        &self.blocks[agent]
    }

    /// The agent's name.
    #[must_use]
    pub fn name(&self, agent: usize) -> &str {
        &self.names[agent]
    }

    /// c.
    #[must_use]
    pub fn rhs(&self) -> &[f64] {
        &self.rhs
    }

    /// How each row compares.
    #[must_use]
    pub fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// ‖[A_1 … A_N, slacks]‖².
    #[must_use]
    pub fn norm_squared(&self) -> f64 {
        self.norm_squared
    }

    /// The smallest non-zero squared singular value of [A_1 … A_N, slacks].
    #[must_use]
    pub fn sigma_min_squared(&self) -> f64 {
        self.sigma_min_squared
    }

    /// σ²_max(A_i), by agent.
    #[must_use]
    pub fn sigma_squared(&self) -> &[f64] {
        &self.sigma_squared
    }

    /// `out = Σ A_i x_i − c`, without slacks; rows of `x` have `dim` numbers.
    pub fn residual<'a>(&self, x: impl Iterator<Item = &'a [f64]>, out: &mut [f64]) {
        for (o, c) in out.iter_mut().zip(&self.rhs) {
            *o = -c;
        }
        for (block, x) in self.blocks.iter().zip(x) {
            block.add_to(x, out);
        }
    }

    /// How far Σ A_i x_i is from satisfying its rows, in l2: an inequality counts only when it is
    /// violated.
    #[must_use]
    pub fn violation<'a>(&self, x: impl Iterator<Item = &'a [f64]>) -> f64 {
        let mut residual = vec![0.0; self.rows()];
        self.residual(x, &mut residual);
        let each = residual.iter().zip(&self.relations).map(|(&r, relation)| match relation {
            Relation::Equal => r,
            Relation::AtMost => r.max(0.0),
            Relation::AtLeast => r.min(0.0),
        });
        each.map(|r| r * r).sum::<f64>().sqrt()
    }

    /// Whether every row can be reached within limits, one row at a time.
    ///
    /// # Errors
    /// The first row that cannot, and what it could be.
    pub fn reachable(&self, limits: &[Vec<[f64; 2]>]) -> Result<(), CouplingError> {
        let mut range = vec![[0.0, 0.0]; self.rows()];
        for (block, limits) in self.blocks.iter().zip(limits) {
            for &(r, c, v) in &block.entries {
                let (a, b) = (v * limits[c][0], v * limits[c][1]);
                range[r][0] += a.min(b);
                range[r][1] += a.max(b);
            }
        }
        for (row, ([low, high], &asked)) in range.into_iter().zip(&self.rhs).enumerate() {
            // Limits may be met exactly: allow for the rounding of the sum.
            let slack = 1e-9 * (1.0 + asked.abs());
            let (least, most) = (low <= asked + slack, asked - slack <= high);
            let (possible, relation) = match self.relations[row] {
                Relation::Equal => (least && most, "="),
                Relation::AtMost => (least, "<="),
                Relation::AtLeast => (most, ">="),
            };
            if !possible {
                return Err(CouplingError::OutOfReach { row: row + 1, relation, asked, low, high });
            }
        }
        Ok(())
    }

    /// Elimination on the equality rows: a row that becomes zero must have a zero left on the right
    /// as well.
    fn consistent(&self) -> Result<(), CouplingError> {
        let columns: usize = self.blocks.iter().map(|b| b.columns).sum();
        let equal: Vec<usize> =
            (0..self.rows()).filter(|&r| self.relations[r] == Relation::Equal).collect();
        let mut a = DMatrix::zeros(equal.len(), columns + 1);
        let mut start = 0;
        for block in &self.blocks {
            for &(r, c, v) in &block.entries {
                if let Ok(place) = equal.binary_search(&r) {
                    a[(place, start + c)] = v;
                }
            }
            start += block.columns;
        }
        for (place, &r) in equal.iter().enumerate() {
            a[(place, columns)] = self.rhs[r];
        }
        let size = |a: &DMatrix<f64>, r: usize| a.row(r).columns(0, columns).amax();
        for (place, &row) in equal.iter().enumerate() {
            let before = size(&a, place).max(1e-300);
            for earlier in 0..place {
                let pivot = a.row(earlier).columns(0, columns).iamax_full().1;
                if a[(earlier, pivot)] != 0.0 {
                    let factor = a[(place, pivot)] / a[(earlier, pivot)];
                    for c in 0..=columns {
                        a[(place, c)] -= factor * a[(earlier, c)];
                    }
                }
            }
            if size(&a, place) <= 1e-10 * before {
                let (asked, left) = (self.rhs[row], a[(place, columns)]);
                if left.abs() > 1e-8 * (1.0 + asked.abs()) {
                    return Err(CouplingError::Contradiction {
                        row: row + 1,
                        asked,
                        implied: asked - left,
                    });
                }
                for c in 0..=columns {
                    a[(place, c)] = 0.0;
                }
            }
        }
        Ok(())
    }
}

fn largest_gram(block: &Block, rows: usize) -> f64 {
    let mut gram = DMatrix::zeros(rows, rows);
    block.add_gram(&mut gram);
    SymmetricEigen::new(gram).eigenvalues.iter().copied().fold(0.0, f64::max)
}
