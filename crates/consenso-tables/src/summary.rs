//! What a file holds, and what it would be worth.

use serde::Serialize;

use super::table::class_of;
use super::{DataError, Encoder, Encoding, Kind, Label, LoadReport, RowBounds, Table};

/// What `consenso data info` and `data check` print. It describes the records: for their owner, not
/// for a peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Display name of the file.
    pub source: String,
    /// Records kept.
    pub rows: u64,
    /// Records dropped because a value was missing.
    pub dropped_missing: u64,
    /// Whether somebody stands for the schema being public; without it no privacy claim is
    /// possible.
    pub reviewed: bool,
    /// One entry a column of the schema.
    pub columns: Vec<ColumnSummary>,
    /// Records a class, in the order of the labels; empty for regression.
    pub classes: Vec<ClassCount>,
    /// Every encoding the schema permits.
    pub encodings: Vec<EncodingSummary>,
    /// What deserves a look, in sentences.
    pub remarks: Vec<String>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnSummary {
    /// Its name.
    pub name: String,
    /// `numeric`, `date`, `categorical`, `label`, `site`, `person`, `time`, `exposure` or
    /// `ignored`.
    pub kind: &'static str,
    /// Declared range.
    pub declared: Option<(f64, f64)>,
    /// Range seen before clamping.
    pub observed: Option<(f64, f64)>,
    /// Declared categories, classes, or sites seen.
    pub categories: Option<usize>,
    /// Declared categories or classes that no record has.
    pub unused: Vec<String>,
    /// Missing cells.
    pub missing: u64,
    /// Missing cells that took the value the schema says, instead of dropping their record.
    pub imputed: u64,
    /// Values outside the declared range.
    pub clamped: u64,
}

/// Records of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassCount {
    /// The class.
    pub name: String,
    /// Its records.
    pub count: u64,
    /// Their share of all.
    pub share: f64,
}

/// One encoding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EncodingSummary {
    /// The encoding.
    pub encoding: Encoding,
    /// Features a row.
    pub dim: usize,
    /// Public bounds of a row.
    pub bounds: RowBounds,
    /// Sensitivity of the mean logistic gradient over these records when one is replaced: 2R_q/b
    /// (docs/paper.md section 1), q = 1, 2, ∞.
    pub replace_one: [f64; 3],
}

impl Summary {
    /// Describes a table.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        let schema = table.schema();
        let columns = column_summaries(table);
        let encodings = [Encoding::OneHot, Encoding::Paper, Encoding::Numeric]
            .into_iter()
            .filter_map(|encoding| encoding_summary(table, encoding).ok())
            .collect();
        let mut summary = Self {
            source: table.source().to_owned(),
            rows: table.report().rows,
            dropped_missing: table.report().dropped_missing,
            reviewed: schema.is_reviewed(),
            columns,
            classes: class_counts(table),
            encodings,
            remarks: Vec::new(),
        };
        summary.remarks = summary.remark(table.report());
        summary
    }

    fn remark(&self, report: &LoadReport) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.reviewed {
            remarks.push(
                "the schema is a draft computed from the records: no privacy claim can rest on it until it is reviewed"
                    .to_owned(),
            );
        }
        for column in self.columns.iter().filter(|column| column.clamped > 0) {
            let (name, clamped) = (&column.name, column.clamped);
            let share = clamped as f64 / (self.rows as f64).max(1.0);
            let much = if share > HIGH_CLAMPING {
                format!(
                    " ({:.0} % of them): widen the range, if a wider one is public",
                    100.0 * share
                )
            } else {
                String::new()
            };
            let (lie, were) =
                if clamped == 1 { ("value lies", "was") } else { ("values lie", "were") };
            remarks.push(format!(
                "column \"{name}\": {clamped} {lie} outside the declared range and {were} clamped{much}"
            ));
        }
        for (column, count) in &report.inexact {
            remarks.push(format!(
                "column \"{column}\": {count} integers beyond 2^53, which a number cannot tell apart; is it an identifier?"
            ));
        }
        if report.dropped_person > 0 {
            let dropped = report.dropped_person;
            remarks.push(format!(
                "{dropped} records are beyond what one person may have and were dropped"
            ));
        }
        if self.dropped_missing > 0 {
            let share =
                100.0 * self.dropped_missing as f64 / (self.rows + self.dropped_missing) as f64;
            let dropped = self.dropped_missing;
            remarks.push(match dropped {
                1 => format!("1 record ({share:.1} %) misses a value and was dropped"),
                _ => format!("{dropped} records ({share:.1} %) miss a value and were dropped"),
            });
        }
        let present = self.classes.iter().filter(|class| class.count > 0).count();
        if let (1, Some(class)) = (present, self.classes.iter().find(|class| class.count > 0)) {
            let name = &class.name;
            remarks.push(format!(
                "all records have the label \"{name}\": alone this file cannot be trained on"
            ));
        }
        remarks
    }
}

/// Where more values than this are clamped, the range deserves a look.
pub const HIGH_CLAMPING: f64 = 0.05;

fn column_summaries(table: &Table) -> Vec<ColumnSummary> {
    let report = table.report();
    let mut feature = 0;
    let mut summaries = Vec::new();
    for (index, column) in table.schema().columns().iter().enumerate() {
        let count = |counts: &std::collections::BTreeMap<String, u64>| {
            counts.get(&column.name).copied().unwrap_or(0)
        };
        let mut summary = ColumnSummary {
            name: column.name.clone(),
            kind: column.kind_name(),
            declared: None,
            observed: table.observed(index),
            categories: None,
            unused: Vec::new(),
            missing: count(&report.missing),
            imputed: count(&report.imputed),
            clamped: count(&report.clamped),
        };
        match &column.kind {
            Kind::Numeric { min, max }
            | Kind::Exposure { min, max }
            | Kind::Label(Label::Range { min, max }) => {
                summary.declared = Some((*min, *max));
            }
            Kind::Categorical { categories } => {
                let codes = (0..table.len()).map(|row| table.row(row)[feature]);
                let counts = tally(codes.map(|code| code as usize), categories.len());
                summary.categories = Some(categories.len());
                summary.unused = unused(categories, &counts);
            }
            Kind::Label(Label::Classes(classes)) => {
                let counts = tally(
                    table.labels().iter().map(|&label| class_of(label, classes.len())),
                    classes.len(),
                );
                summary.categories = Some(classes.len());
                summary.unused = unused(classes, &counts);
            }
            Kind::Site => summary.categories = Some(table.site_names().len()),
            Kind::Time { max } => summary.declared = Some((0.0, *max)),
            Kind::Frequency { most } => summary.declared = Some((0.0, f64::from(*most))),
            Kind::Person { .. } | Kind::Ignored => {}
        }
        feature += usize::from(column.kind.is_feature());
        summaries.push(summary);
    }
    summaries
}

fn tally(codes: impl Iterator<Item = usize>, groups: usize) -> Vec<u64> {
    let mut counts = vec![0; groups];
    codes.for_each(|code| counts[code] += 1);
    counts
}

fn unused(names: &[String], counts: &[u64]) -> Vec<String> {
    names
        .iter()
        .zip(counts)
        .filter(|&(_, &count)| count == 0)
        .map(|(name, _)| name.clone())
        .collect()
}

fn class_counts(table: &Table) -> Vec<ClassCount> {
    let Label::Classes(classes) = table.schema().label() else { return Vec::new() };
    let counts =
        tally(table.labels().iter().map(|&label| class_of(label, classes.len())), classes.len());
    let share = |count: u64| count as f64 / table.len() as f64;
    let entry = |(name, count): (&String, u64)| ClassCount {
        name: name.clone(),
        count,
        share: share(count),
    };
    classes.iter().zip(counts).map(entry).collect()
}

fn encoding_summary(table: &Table, encoding: Encoding) -> Result<EncodingSummary, DataError> {
    let encoder = Encoder::new(table.schema(), encoding)?;
    let bounds = encoder.bounds();
    // Rounded up: it is shown beside a privacy claim.
    let replaced = |radius: f64| (2.0 * radius / table.len() as f64).next_up();
    let replace_one = [bounds.l1, bounds.l2, bounds.linf].map(replaced);
    Ok(EncodingSummary { encoding, dim: encoder.dim(), bounds, replace_one })
}
