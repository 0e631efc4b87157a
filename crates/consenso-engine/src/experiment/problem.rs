//! `[problem]`: every agent has variables of its own, and Σ A_i x_i = c ties them together.

use crate::config_error::ConfigError;
use crate::problem::coupling::{Block, Coupling, Relation};
use crate::problem::{Costs, LocalObjective, Sensitivity};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// `[problem]`.
///
/// Agents are either listed with their costs, or have the records of `[data]` and share one
/// `matrix`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemSpec {
    /// c: what the rows of Σ A_i x_i must be.
    pub rhs: Vec<f64>,
    /// `"="`, `"<="` or `">="`, one per row; all equal by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relation: Vec<Relation>,
    /// A of every agent with records, row by row; the identity by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Vec<Vec<f64>>>,
    /// The public range all marginal costs lie in: what a budget protects is where in it an agent's
    /// are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marginal: Option<[f64; 2]>,
    /// The public range of the second derivatives of all costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curvature: Option<[f64; 2]>,
    /// The agents, with their costs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent: Vec<AgentSpec>,
}

/// One agent: its cost is Σ_l quadratic_l·x_l² + linear_l·x_l for low ≤ x ≤ high. A number stands
/// for one variable, a list for several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// Its name in messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Coefficients of x².
    pub quadratic: Numbers,
    /// Coefficients of x.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear: Option<Numbers>,
    /// Least x; unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<Numbers>,
    /// Most x; unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<Numbers>,
    /// A_i, row by row. By default all ones for one row of c, the identity for as many rows as
    /// variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Vec<Vec<f64>>>,
    /// A_i as [row, column, value], from 1, for a sparse one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<(usize, usize, f64)>>,
}

/// A number, or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Numbers {
    /// One.
    One(f64),
    /// Several.
    Many(Vec<f64>),
}

impl Numbers {
    fn values(&self) -> Vec<f64> {
        match self {
            Self::One(value) => vec![*value],
            Self::Many(values) => values.clone(),
        }
    }
}

/// A `[problem]` that was checked.
#[derive(Clone, Debug)]
pub(super) struct CoupledProblem {
    pub(super) coupling: Arc<Coupling>,
    /// One an agent, padded to one length; empty when agents have records.
    pub(super) costs: Vec<Arc<Costs>>,
    /// Length of the longest x_i.
    pub(super) dim: usize,
    /// m and M of the costs, declared or, without privacy, as they are.
    pub(super) curvature: (f64, f64),
    /// How far a gradient moves between two cost functions; `None` for records, and where no range
    /// is declared.
    pub(super) gradient: Option<Sensitivity>,
    pub(super) limited: bool,
}

impl ProblemSpec {
    /// With the agents' costs, or for `agents` of them with records and models of `dim` numbers.
    pub(super) fn tie(
        &self,
        agents: usize,
        dim: usize,
        private: bool,
    ) -> Result<CoupledProblem, ConfigError> {
        let rows = self.rhs.len();
        if rows == 0 {
            return Err(ConfigError::at("rhs", "there is no row: c needs at least one number"));
        }
        if let Some(bad) = self.rhs.iter().position(|c| !c.is_finite()) {
            return Err(ConfigError::at(
                "rhs",
                format!("row {} is {}, not a number", bad + 1, self.rhs[bad]),
            ));
        }
        let relations = match self.relation.len() {
            0 => vec![Relation::Equal; rows],
            given if given == rows => self.relation.clone(),
            given => {
                return Err(ConfigError::at(
                    "relation",
                    format!("{given} relations for {rows} rows of rhs; give one a row"),
                ));
            }
        };
        if self.agent.is_empty() {
            return self.couple_records(agents, dim, relations);
        }
        if self.matrix.is_some() {
            return Err(ConfigError::at(
                "matrix",
                "agents that are listed have a matrix of their own",
            ));
        }
        let listed: Vec<Listed> = self
            .agent
            .iter()
            .enumerate()
            .map(|(i, a)| a.read(i, rows))
            .collect::<Result<_, _>>()?;
        let dim = listed.iter().map(|l| l.costs.dim()).max().unwrap_or(0);
        let curvature = self.curvatures(&listed, private)?;
        let gradient = self.sensitivity(&listed, dim, private)?;
        let coupling = Coupling::new(
            listed
                .iter()
                .map(|l| (l.name.clone(), Block::from_entries(l.costs.dim(), l.entries.clone())))
                .collect(),
            self.rhs.clone(),
            relations.clone(),
        );
        let coupling = coupling.map_err(|e| ConfigError::at("problem", e.to_string()))?;
        let limits: Vec<Vec<[f64; 2]>> = listed.iter().map(|l| l.costs.limits().to_vec()).collect();
        coupling.reachable(&limits).map_err(|e| ConfigError::at("rhs", e.to_string()))?;
        let padded = listed
            .iter()
            .map(|l| (l.name.clone(), Block::from_entries(dim, l.entries.clone())))
            .collect();
        let coupling = Coupling::new(padded, self.rhs.clone(), relations)
            .map_err(|e| ConfigError::at("problem", e.to_string()))?;
        let short = listed.iter().any(|l| l.costs.dim() < dim);
        let limited = short || limits.iter().flatten().flatten().any(|l| l.is_finite());
        let clip = |l: Listed| {
            Arc::new(match self.marginal {
                Some(range) => l.costs.clipped(range).padded(dim),
                None => l.costs.padded(dim),
            })
        };
        let costs: Vec<Arc<Costs>> = listed.into_iter().map(clip).collect();
        let coupled = CoupledProblem {
            coupling: Arc::new(coupling),
            costs,
            dim,
            curvature,
            gradient,
            limited,
        };
        // Rows that exclude each other only together are found by solving.
        let locals: Vec<LocalObjective> =
            coupled.costs.iter().map(|c| LocalObjective::from_costs(Arc::clone(c))).collect();
        crate::problem::coupled::coupled_optimum(&locals, &coupled.coupling)
            .map_err(|e| ConfigError::at("rhs", e.to_string()))?;
        Ok(coupled)
    }

    fn couple_records(
        &self,
        agents: usize,
        dim: usize,
        relations: Vec<Relation>,
    ) -> Result<CoupledProblem, ConfigError> {
        let rows = self.rhs.len();
        let block = match &self.matrix {
            Some(matrix) => {
                shape(matrix, rows, dim)?;
                Block::from_rows(dim, matrix)
            }
            None if rows == dim => {
                Block::from_entries(dim, (0..dim).map(|l| (l, l, 1.0)).collect())
            }
            None => {
                let text = format!(
                    "rhs has {rows} rows and a model {dim} numbers: say how they meet, {rows} lists of {dim} numbers"
                );
                return Err(ConfigError::at("matrix", text));
            }
        };
        if let Some(key) = [("marginal", self.marginal), ("curvature", self.curvature)]
            .iter()
            .find(|k| k.1.is_some())
        {
            return Err(ConfigError::at(
                key.0,
                "is about listed costs; records have bounds of their own",
            ));
        }
        let blocks = (0..agents).map(|i| (format!("agent {}", i + 1), block.clone())).collect();
        let coupling = Coupling::new(blocks, self.rhs.clone(), relations)
            .map_err(|e| ConfigError::at("problem", e.to_string()))?;
        Ok(CoupledProblem {
            coupling: Arc::new(coupling),
            costs: Vec::new(),
            dim,
            curvature: (0.0, 0.0),
            gradient: None,
            limited: false,
        })
    }

    /// m and M. Under privacy they must be declared: an agent's own are its secret.
    fn curvatures(&self, listed: &[Listed], private: bool) -> Result<(f64, f64), ConfigError> {
        let Some([low, high]) = self.curvature else {
            if private {
                return Err(ConfigError::at(
                    "problem",
                    "curvature = [least, most] is missing: under [privacy] the range of second derivatives must be public, for parameters depend on it",
                ));
            }
            let each = listed.iter().map(|l| l.costs.curvature());
            return Ok(each.fold((f64::INFINITY, 0.0), |a, b| (a.0.min(b.0), a.1.max(b.1))));
        };
        if !(0.0 < low && low <= high && high.is_finite()) {
            return Err(ConfigError::at(
                "curvature",
                format!("[{low}, {high}] must be a range of positive numbers"),
            ));
        }
        for l in listed {
            let own = l.costs.curvature();
            if own.0 < low || own.1 > high {
                return Err(ConfigError::at(
                    "curvature",
                    format!(
                        "{} has second derivatives {} to {}, outside the declared range",
                        l.name, own.0, own.1
                    ),
                ));
            }
        }
        Ok((low, high))
    }

    fn sensitivity(
        &self,
        listed: &[Listed],
        dim: usize,
        private: bool,
    ) -> Result<Option<Sensitivity>, ConfigError> {
        let Some([low, high]) = self.marginal else {
            if private {
                return Err(ConfigError::at(
                    "problem",
                    "marginal = [least, most] is missing: under [privacy] the range of marginal costs must be public; it is what one cost function can be told from another by",
                ));
            }
            return Ok(None);
        };
        if !(low < high && low.is_finite() && high.is_finite()) {
            return Err(ConfigError::at("marginal", format!("[{low}, {high}] must be a range")));
        }
        for l in listed {
            let own = l.costs.marginals();
            if own.0 < low || own.1 > high {
                return Err(ConfigError::at(
                    "marginal",
                    format!(
                        "{} has marginal costs {} to {} within its limits, outside the declared range",
                        l.name, own.0, own.1
                    ),
                ));
            }
        }
        let (width, d) = ((high - low).next_up(), dim as f64);
        Ok(Some(Sensitivity {
            l1: (d * width).next_up(),
            l2: (d.sqrt().next_up() * width).next_up(),
            linf: width,
        }))
    }
}

/// One agent as it was read.
struct Listed {
    name: String,
    costs: Costs,
    entries: Vec<(usize, usize, f64)>,
}

fn shape(matrix: &[Vec<f64>], rows: usize, columns: usize) -> Result<(), ConfigError> {
    if matrix.len() != rows {
        return Err(ConfigError::at(
            "matrix",
            format!("the matrix has {} rows, rhs has {rows}", matrix.len()),
        ));
    }
    match matrix.iter().position(|row| row.len() != columns) {
        Some(row) => {
            let has = matrix[row].len();
            let message =
                format!("row {} of the matrix has {has} numbers for {columns} variables", row + 1);
            Err(ConfigError::at("matrix", message))
        }
        None => Ok(()),
    }
}

impl AgentSpec {
    /// How many variables it has.
    pub(super) fn variables(&self) -> usize {
        self.quadratic.values().len()
    }

    fn read(&self, index: usize, rows: usize) -> Result<Listed, ConfigError> {
        let name = self.name.clone().unwrap_or_else(|| format!("agent {}", index + 1));
        let fault = |text: String| ConfigError::at("problem", format!("{name}: {text}"));
        let quadratic = self.quadratic.values();
        let dim = quadratic.len();
        let list = |key: &str, given: &Option<Numbers>, open: f64| match given
            .as_ref()
            .map(Numbers::values)
        {
            None => Ok(vec![open; dim]),
            Some(values) if values.len() == dim => Ok(values),
            Some(values) => {
                Err(fault(format!("{key} has {} numbers, quadratic has {dim}", values.len())))
            }
        };
        let (linear, low, high) = (
            list("linear", &self.linear, 0.0)?,
            list("low", &self.low, f64::NEG_INFINITY)?,
            list("high", &self.high, f64::INFINITY)?,
        );
        if dim == 0 {
            return Err(fault("quadratic is empty: an agent has at least one variable".into()));
        }
        for l in 0..dim {
            if !(quadratic[l] > 0.0 && quadratic[l].is_finite()) {
                return Err(fault(format!(
                    "quadratic = {} must be positive: costs must be strongly convex",
                    quadratic[l]
                )));
            }
            if !linear[l].is_finite() || low[l].is_nan() || high[l].is_nan() || low[l] > high[l] {
                return Err(fault(format!(
                    "variable {}: linear = {}, low = {}, high = {} leave nothing to choose",
                    l + 1,
                    linear[l],
                    low[l],
                    high[l]
                )));
            }
        }
        let entries = self.entries(rows, dim).map_err(|e| fault(e.to_string()))?;
        let limits = low.into_iter().zip(high).map(|(a, b)| [a, b]).collect();
        Ok(Listed {
            costs: Costs::new(quadratic.iter().map(|q| 2.0 * q).collect(), linear, limits),
            name,
            entries,
        })
    }

    fn entries(&self, rows: usize, dim: usize) -> Result<Vec<(usize, usize, f64)>, ConfigError> {
        match (&self.matrix, &self.entries) {
            (Some(_), Some(_)) => Err(ConfigError::at("entries", "keep matrix or entries")),
            (Some(matrix), None) => {
                shape(matrix, rows, dim)?;
                Ok(Block::from_rows(dim, matrix).entries().to_vec())
            }
            (None, Some(entries)) => {
                match entries.iter().find(|e| e.0 == 0 || e.1 == 0 || e.0 > rows || e.1 > dim) {
                    Some((r, c, _)) => Err(ConfigError::at(
                        "entries",
                        format!(
                            "entry [{r}, {c}, …] is outside the matrix: rows count 1 to {rows}, columns 1 to {dim}"
                        ),
                    )),
                    None => Ok(entries.iter().map(|&(r, c, v)| (r - 1, c - 1, v)).collect()),
                }
            }
            (None, None) if rows == 1 => Ok((0..dim).map(|c| (0, c, 1.0)).collect()),
            (None, None) if rows == dim => Ok((0..dim).map(|c| (c, c, 1.0)).collect()),
            (None, None) => Err(ConfigError::at(
                "matrix",
                format!(
                    "matrix is missing: {rows} lists of {dim} numbers, or entries = [[row, column, value], …]"
                ),
            )),
        }
    }
}
