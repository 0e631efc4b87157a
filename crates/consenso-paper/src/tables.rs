//! The data behind the figures as CSV, with what every column means.

use super::{PaperFigure, Reproduction};
use consenso_study::report::Series;
use std::fmt::Write as _;

/// A table of `data/`.
#[derive(Clone, Debug, PartialEq)]
pub struct CsvTable {
    /// The file's name without `.csv`.
    pub name: String,
    /// What it holds, in a sentence.
    pub about: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, a cell a column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name in the first line.
    pub name: &'static str,
    /// What it holds, with its unit.
    pub meaning: String,
}

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, with all its digits.
    Number(f64),
    /// Nothing to say.
    Empty,
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Empty, Self::Number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl CsvTable {
    fn new(name: &str, about: &str, columns: &[(&'static str, &str)]) -> Self {
        let column =
            |&(name, meaning): &(&'static str, &str)| Column { name, meaning: meaning.into() };
        Self {
            name: name.into(),
            about: about.into(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// The file: a line of names, then a line a row. Text with a comma or a quote is quoted.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        let mut out = names.join(",") + "\n";
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(written).collect();
            let _ = writeln!(out, "{}", cells.join(","));
        }
        out
    }
}

fn written(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) if text.contains([',', '"', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Cell::Text(text) => text.clone(),
        Cell::Number(value) => value.to_string(),
        Cell::Empty => String::new(),
    }
}

impl Reproduction {
    /// A table a figure, and three about all of them.
    #[must_use]
    pub fn tables(&self) -> Vec<CsvTable> {
        let mut tables: Vec<CsvTable> = self.figures().iter().map(curves).collect();
        if !self.gamma.is_empty() {
            tables.push(self.gamma_table());
        }
        tables.push(self.finding_table());
        if !self.records.is_empty() {
            tables.push(self.algorithm_table());
        }
        tables
    }

    /// What every file and column of `data/` means, for people who open the folder.
    #[must_use]
    pub fn data_guide(&self) -> String {
        let mut out = String::from(
            "# Data behind the figures\n\nAn empty cell has nothing to say. Logarithms are natural.\n",
        );
        for table in self.tables() {
            let _ = writeln!(out, "\n## {}.csv\n\n{}\n", table.name, table.about);
            for Column { name, meaning } in &table.columns {
                let _ = writeln!(out, "- `{name}`: {meaning}");
            }
        }
        out
    }

    fn gamma_table(&self) -> CsvTable {
        let columns = [
            ("shift", "αB_∞, the largest shift of the private step"),
            ("beta", "β, rate of the Laplace noise"),
            ("omega", "ω, width of the public interval"),
            ("gamma_exact", "γ = E[loss]/(β·shift) by certified quadrature, rounded up"),
            ("gamma_printed", "Theorem 2.3 as the paper prints it"),
            ("gamma_bound", "the valid Jensen bound, rounded up"),
        ];
        let mut table = CsvTable::new(
            "gamma",
            "Theorem 2.3 over the grid of Figure 1 and at ten times its shift.",
            &columns,
        );
        table.rows = self
            .gamma
            .iter()
            .map(|p| {
                vec![
                    Cell::Number(p.shift),
                    Cell::Number(p.beta),
                    Cell::Number(p.omega),
                    Cell::Number(p.exact),
                    p.printed.into(),
                    Cell::Number(p.bound),
                ]
            })
            .collect();
        table
    }

    fn finding_table(&self) -> CsvTable {
        let columns = [
            ("figure", "where the paper says it"),
            ("claim", "what the paper says"),
            ("paper", "the paper's number, or what it would take"),
            ("measured", "what this run gave"),
            ("value", "the same as a number"),
            ("verdict", "reproduced, partly or not"),
            ("rule", "how the verdict follows"),
        ];
        let mut table =
            CsvTable::new("findings", "The paper's claims beside what was measured.", &columns);
        table.rows = self
            .findings()
            .iter()
            .map(|f| {
                let text = [f.figure, f.claim, &f.paper, &f.measured].map(Cell::from);
                let verdict = [Cell::Number(f.value), f.verdict.name().into(), f.rule.into()];
                text.into_iter().chain(verdict).collect()
            })
            .collect();
        table
    }

    fn algorithm_table(&self) -> CsvTable {
        let columns = [
            ("experiment", "name of the experiment, as `consenso run` knows it"),
            ("algorithm", "the algorithm's label"),
            ("kind", "the algorithm, as experiment files write it"),
            ("rounds", "rounds that used records"),
            ("log_error", "ln(‖x_i − x*‖/d) after the last round, mean over agents and runs"),
            (
                "test_accuracy",
                "share of test records labelled correctly, mean over agents and runs",
            ),
            ("majority_accuracy", "the same for always answering the most frequent class"),
            ("zero_log_error", "ln(‖0 − x*‖/d), mean over runs"),
            ("epsilon_published", "the cost by the authors' own account, mean over agents"),
            ("epsilon_paper_worst", "d·Σ α_k β_k B_∞, the paper's worst case"),
            (
                "epsilon_realised",
                "realised loss (Theorem 2.2), mean over agents and runs; a statistic, not a guarantee",
            ),
            ("epsilon_pure", "pure ε, certified whatever the data"),
            ("epsilon_claim", "the smallest ε that is certified at delta"),
            ("delta", "δ of the claim"),
        ];
        let mut table =
            CsvTable::new("algorithms", "One row an experiment and algorithm.", &columns);
        for record in &self.records {
            for a in &record.algorithms {
                let e = a.epsilon.as_ref();
                table.rows.push(vec![
                    record.name.as_str().into(),
                    a.label.as_str().into(),
                    a.kind.as_str().into(),
                    Cell::Number(f64::from(a.rounds)),
                    Cell::Number(a.log_error),
                    a.test_accuracy.into(),
                    record.baselines.majority_accuracy.into(),
                    Cell::Number(record.baselines.zero_model.log_error),
                    a.published.as_ref().map(|p| p.epsilon.mean).into(),
                    e.and_then(|e| e.paper_worst_case).into(),
                    e.and_then(|e| e.realised_mean).into(),
                    e.and_then(|e| e.worst_case_pure).into(),
                    e.map(|e| e.claim).into(),
                    e.map(|e| e.delta).into(),
                ]);
            }
        }
        table
    }
}

/// The lines of a figure, point by point; reference lines have no position.
fn curves(figure: &PaperFigure) -> CsvTable {
    let y = figure.figure.y.label.as_str();
    let columns = [
        ("curve", "name of the line in the figure"),
        (figure.position, figure.figure.x.label.as_str()),
        ("mean", y),
        ("min", "lower end of the band"),
        ("max", "upper end of the band"),
    ];
    let mut table = CsvTable::new(
        &figure.name,
        &format!("{}: {}.", figure.paper, figure.figure.title),
        &columns,
    );
    let rows = |series: &Series| {
        let row = |p: &consenso_study::report::Point| {
            vec![
                series.label.as_str().into(),
                Cell::Number(p.x),
                Cell::Number(p.mean),
                Cell::Number(p.low),
                Cell::Number(p.high),
            ]
        };
        series.points.iter().map(row).collect::<Vec<_>>()
    };
    table.rows = figure.figure.series.iter().flat_map(rows).collect();
    for line in &figure.figure.lines {
        table.rows.push(vec![
            line.label.as_str().into(),
            Cell::Empty,
            Cell::Number(line.value),
            Cell::Empty,
            Cell::Empty,
        ]);
    }
    table
}
