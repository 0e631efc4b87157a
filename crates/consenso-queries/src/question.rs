//! What is asked: one `[[query]]`.

use serde::{Deserialize, Serialize};

/// What a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuestionKind {
    /// How many records, by the values of `by`.
    Count,
    /// The share of every category of a column.
    Share,
    /// The mean and the standard deviation of a number.
    Mean,
    /// The sum of a number.
    Sum,
    /// How many records in each of equal parts of a number's range.
    Histogram,
    /// Several quantiles of a number at once.
    Quantiles,
    /// A table of two or three columns, with a test of independence.
    Crosstab,
    /// Every column by group: the first table of a paper.
    Summary,
    /// Correlations of numbers, and their principal components.
    Correlation,
    /// Survival by group: curve, restricted mean, log-rank test.
    Survival,
    /// How well a score tells two classes apart.
    Roc,
}

impl QuestionKind {
    /// All kinds, with their words in files.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::Count, "count"),
        (Self::Share, "share"),
        (Self::Mean, "mean"),
        (Self::Sum, "sum"),
        (Self::Histogram, "histogram"),
        (Self::Quantiles, "quantiles"),
        (Self::Crosstab, "crosstab"),
        (Self::Summary, "summary"),
        (Self::Correlation, "correlation"),
        (Self::Survival, "survival"),
        (Self::Roc, "roc"),
    ];

    /// Its word in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// One question, as a file or a command asks it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What is asked for.
    pub kind: QuestionKind,
    /// The column it is about: a number, or for a share a category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// The columns of a table, a correlation or a summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// One answer for every category of this column, or for every site with `"site"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Which quantiles, between 0 and 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub q: Vec<f64>,
    /// How many equal parts of the range a number is counted in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bins: Option<usize>,
    /// Where a number of a histogram or a table is cut, in its own unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<f64>,
    /// The column of two categories that says whether the time of a survival question ended with
    /// the event; the second category is the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The column of two categories that the score of a ROC question is to tell apart; the second
    /// is the positive one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Up to when the restricted mean of a survival question counts, in the unit of the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizon: Option<f64>,
    /// How much of the budget it has beside the others; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Half the width that intervals may have, in the unit of the answer: the question gets the
    /// part of the budget that this takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
}

impl Question {
    /// A question that says no more than its kind.
    #[must_use]
    pub fn new(kind: QuestionKind) -> Self {
        Self {
            kind,
            column: None,
            columns: Vec::new(),
            by: None,
            q: Vec::new(),
            bins: None,
            cuts: Vec::new(),
            event: None,
            label: None,
            horizon: None,
            weight: None,
            precision: None,
        }
    }

    /// The columns it names, the group not counted.
    #[must_use]
    pub fn named_columns(&self) -> Vec<&str> {
        let one = [&self.column, &self.event, &self.label].into_iter().flatten();
        one.chain(&self.columns).map(String::as_str).collect()
    }

    /// The question in a few words, as `consenso ask` takes it.
    #[must_use]
    pub fn phrase(&self) -> String {
        let mut words = vec![self.kind.name().to_owned()];
        let quoted = |name: &str| match name.contains(' ') {
            true => format!("\"{name}\""),
            false => name.to_owned(),
        };
        if let Some(column) = &self.column {
            words.push(quoted(column));
        }
        words.extend(self.columns.iter().map(|c| quoted(c)));
        if let Some(event) = self.event.as_ref().or(self.label.as_ref()) {
            words.push(quoted(event));
        }
        let list =
            |numbers: &[f64]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        if !self.q.is_empty() {
            words.push(format!("q={}", list(&self.q)));
        }
        if let Some(bins) = self.bins {
            words.push(format!("bins={bins}"));
        }
        if !self.cuts.is_empty() {
            words.push(format!("cuts={}", list(&self.cuts)));
        }
        if let Some(horizon) = self.horizon {
            words.push(format!("horizon={horizon}"));
        }
        if let Some(by) = &self.by {
            words.push(format!("by {}", quoted(by)));
        }
        if let Some(precision) = self.precision {
            words.push(format!("± {precision}"));
        }
        words.join(" ")
    }
}
