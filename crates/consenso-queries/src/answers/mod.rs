//! Estimates and intervals from noised sums and public numbers alone.
//!
//! An interval contains the exact answer that the records give with the probability that is asked
//! for, over the noise; with `sampling` also what the records were drawn from. Ratios have Fieller's
//! interval, quantiles the inverse of a test of the distribution function, everything else the
//! variance of its first-order change. Intervals are cut at what is known (counts are not negative,
//! shares lie between 0 and 1), which can only make them cover more of what they are to cover.

mod bins;
mod cells;
mod curves;
mod moments;
mod products;
mod table_one;

pub(crate) use bins::of_bar;

use crate::normal;
use crate::part::Content;
use crate::plan::{Plan, Route};
use crate::question::{Question, QuestionKind};
use crate::released::Released;
use serde::Serialize;

/// One number that answers a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The group it is about: a category of `by`, or a site.
    pub group: Option<String>,
    /// What it is: `count`, `share`, `mean`, `sd`, `quantile`, `survival`, …
    pub what: &'static str,
    /// Which column it is about, where a question is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// Which category, bin or pair of columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Which quantile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<f64>,
    /// At which time or threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// The estimate.
    pub estimate: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
    /// Standard deviation of what noise does to the estimate; 0 for a public number.
    pub noise: f64,
    /// Whether noise alone could have made it: such an estimate must not be read as a number.
    pub below_noise: bool,
}

/// A test of a hypothesis that knows the noise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Test {
    /// `chi-squared` or `log-rank`.
    pub name: &'static str,
    /// The group it is about.
    pub group: Option<String>,
    /// Its statistic.
    pub statistic: f64,
    /// Degrees of freedom.
    pub df: usize,
    /// How likely a statistic as large is where the hypothesis holds.
    pub p: f64,
}

/// A question with its answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// What was asked for.
    pub kind: QuestionKind,
    /// The column, if it is about one.
    pub column: Option<String>,
    /// The columns, if it is about several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// The groups.
    pub by: Option<String>,
    /// The question in words.
    pub question: String,
    /// Its answers.
    pub answers: Vec<Answer>,
    /// Tests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<Test>,
    /// What a reader must know, missing values for instance.
    pub notes: Vec<String>,
    /// Whether the answer was known already and cost nothing.
    pub known: bool,
}

/// What is expected of an answer before it is asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// What it is of: `count`, `mean`, …
    pub what: &'static str,
    /// The group, or nothing for all records.
    pub group: Option<String>,
    /// Which quantile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<f64>,
    /// Standard deviation of what noise does to it.
    pub noise: f64,
    /// Half the width of its interval, sampling apart.
    pub half_width: f64,
    /// The part of that which the width of bins adds, and no budget takes away.
    #[serde(skip_serializing_if = "is_zero")]
    pub resolution: f64,
    /// How far the answer will be off, on average: the mean size of the error of noise and bins.
    pub error: f64,
    /// Between which that lies, where it depends on what nobody may know before asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// The unit of all of these.
    pub unit: String,
    /// What that rests on, where it is not certain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub assuming: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(x: &f64) -> bool {
    *x == 0.0
}

impl Expected {
    /// What noise of this deviation does to an answer.
    fn of(
        what: &'static str,
        group: Option<String>,
        noise: f64,
        unit: impl Into<String>,
        assuming: impl Into<String>,
    ) -> Self {
        Self {
            what,
            group,
            q: None,
            noise,
            half_width: 0.0,
            resolution: 0.0,
            error: 0.0,
            range: None,
            unit: unit.into(),
            assuming: assuming.into(),
        }
    }
}

impl Answer {
    fn new(group: &Option<String>, what: &'static str, estimate: f64) -> Self {
        Self {
            group: group.clone(),
            what,
            column: None,
            level: None,
            q: None,
            at: None,
            estimate,
            low: f64::NAN,
            high: f64::NAN,
            noise: 0.0,
            below_noise: false,
        }
    }

    fn level(mut self, level: &str) -> Self {
        self.level = Some(level.to_owned());
        self
    }

    fn at(mut self, at: f64) -> Self {
        self.at = Some(at);
        self
    }

    /// An interval that lies within what is possible. An estimate beyond that is moved to the
    /// nearest possible number and its interval with it: what was covered stays covered, and noise
    /// that made a count negative does not make its interval narrow.
    fn between(mut self, low: f64, high: f64, possible: [f64; 2]) -> Self {
        let inside = |x: f64| x.clamp(possible[0], possible[1]);
        let moved = inside(self.estimate) - self.estimate;
        self.estimate = inside(self.estimate);
        self.low = inside(low + moved.min(0.0)).min(self.estimate);
        self.high = inside(high + moved.max(0.0)).max(self.estimate);
        self
    }

    fn noise(mut self, noise: f64) -> Self {
        self.noise = noise;
        self
    }
}

/// What all estimators need of a plan.
struct Reader<'a> {
    plan: &'a Plan,
    released: &'a Released,
    /// The normal quantile of the level.
    z: f64,
}

/// The values of one group of a part.
struct Slice {
    group: Option<String>,
    values: Vec<f64>,
    sigma: f64,
    /// How many records it has, where that is public.
    records: Option<f64>,
    /// Cells of the table whose total is public, where its counts were moved to it.
    settled: Option<usize>,
}

/// Answers every question of a plan from what was released.
#[must_use]
pub fn answer(plan: &Plan, released: &Released) -> Vec<Answered> {
    let reader = Reader { plan, released, z: normal::quantile(0.5 + 0.5 * plan.level) };
    let one = |(number, question): (usize, &Question)| {
        let (answers, tests) = reader.answer(question, &plan.routes[number]);
        Answered {
            kind: question.kind,
            column: question.column.clone(),
            columns: question.columns.clone(),
            by: question.by.clone(),
            question: question.phrase(),
            answers,
            tests,
            notes: reader.notes(question),
            known: plan.is_known(number),
        }
    };
    plan.questions.iter().enumerate().map(one).collect()
}

/// What is expected of a question, where the noise of every part has these deviations, of the sum
/// and of a site's.
pub(crate) fn expected(plan: &Plan, number: usize, sigma: &[[f64; 2]]) -> Vec<Expected> {
    let (question, route) = (&plan.questions[number], &plan.routes[number]);
    let z = normal::quantile(0.5 + 0.5 * plan.level);
    let mut all = expected_of(plan, question, route, sigma);
    for e in &mut all {
        e.half_width = z * e.noise + e.resolution;
        // In a bin of width w = 2·resolution the estimate is anywhere. That costs nothing where
        // records are spread over the bin, and w²/6 in square where all of them are at one point,
        // anywhere in it; between both. A normal error's mean size is √(2/π) of its deviation.
        let bins = (2.0 * e.resolution).powi(2) / 12.0;
        e.error = (2.0 / std::f64::consts::PI * (e.noise * e.noise + bins)).sqrt();
    }
    all
}

fn expected_of(
    plan: &Plan,
    question: &Question,
    route: &Route,
    sigma: &[[f64; 2]],
) -> Vec<Expected> {
    let by_site = question.by.as_deref() == Some("site");
    let of = |part: usize| sigma[part][usize::from(by_site)];
    match route {
        Route::Cells(part) => cells::expected(plan, question, *part, of(*part)),
        Route::Moments(part) => moments::expected(plan, question, *part, of(*part)),
        Route::Products(part) => products::expected(plan, *part, of(*part)),
        Route::Bins(part) => match question.kind {
            QuestionKind::Survival | QuestionKind::Roc => {
                curves::expected(plan, question, *part, of(*part))
            }
            _ => bins::expected(plan, question, *part, of(*part)),
        },
        Route::Columns(all) => {
            let of_column = |(column, route): &(usize, Route)| {
                let mut found = expected_of(plan, question, route, sigma);
                let name = &plan.columns.get(*column).name;
                found.iter_mut().for_each(|e| e.unit = format!("{} of {name}", e.unit));
                found
            };
            all.iter().flat_map(of_column).collect()
        }
    }
}

/// The groups of a question with the numbers of records to expect in each, and whether these are
/// assumed.
fn group_sizes(plan: &Plan, question: &Question, part: usize) -> Vec<(Option<String>, f64, bool)> {
    let n = plan.records();
    match question.by.as_deref() {
        None => vec![(None, n, false)],
        Some("site") => {
            let sites = plan.sites.iter().zip(&plan.counts);
            sites.map(|(name, &count)| (Some(name.clone()), count as f64, false)).collect()
        }
        Some(_) => {
            let axis = &plan.parts[part].outer[0];
            let even = 1.0 / axis.cells() as f64;
            let share = |k: usize| axis.shares.as_ref().map_or(even, |s| s[k]);
            let group = |(k, label): (usize, &String)| {
                (Some(label.clone()), n * share(k), axis.shares.is_none())
            };
            axis.labels.iter().enumerate().map(group).collect()
        }
    }
}

fn assumption(assumed: bool) -> String {
    if assumed { "groups of one size".into() } else { String::new() }
}

impl Reader<'_> {
    fn answer(&self, question: &Question, route: &Route) -> (Vec<Answer>, Vec<Test>) {
        match route {
            Route::Cells(part) => self.cells(question, *part),
            Route::Moments(part) => (self.moments(question, *part), Vec::new()),
            Route::Products(part) => (self.products(*part), Vec::new()),
            Route::Bins(part) => match question.kind {
                QuestionKind::Survival => self.survival(question, *part),
                QuestionKind::Roc => (self.roc(question, *part), Vec::new()),
                QuestionKind::Histogram => (self.bars(question, *part), Vec::new()),
                _ => (self.quantiles(question, *part), Vec::new()),
            },
            Route::Columns(all) => (self.table_one(question, all), Vec::new()),
        }
    }

    /// The values of every group of a question.
    fn slices(&self, question: &Question, part: usize) -> Vec<Slice> {
        let counts = self.plan.parts[part].content == Content::Counts;
        let settle = |mut values: Vec<f64>, total: f64| {
            // Every record is in one cell, and their number is public: the nearest table of that
            // total.
            let settled = counts && values.len() > 1;
            if settled {
                let off = (total - values.iter().sum::<f64>()) / values.len() as f64;
                values.iter_mut().for_each(|v| *v += off);
            }
            let cells = settled.then_some(values.len());
            (values, cells)
        };
        if question.by.as_deref() == Some("site") {
            let of_site = |(site, name): (usize, &String)| {
                let (values, sigma) = self.released.values(part, Some(site));
                let records = self.plan.counts[site] as f64;
                let (values, settled) = settle(values, records);
                Slice { group: Some(name.clone()), values, sigma, records: Some(records), settled }
            };
            let sites = self.plan.sites.iter().enumerate();
            let here = sites.filter(|(site, _)| !self.plan.gone.contains(site));
            return here.map(of_site).collect();
        }
        let (values, sigma) = self.released.values(part, None);
        let records = self.plan.records();
        let (values, settled) = settle(values, records);
        if question.by.is_none() {
            return vec![Slice { group: None, values, sigma, records: Some(records), settled }];
        }
        let axis = &self.plan.parts[part].outer[0];
        let each = values.len() / axis.cells();
        let of_group = |(values, label): (&[f64], &String)| Slice {
            group: Some(label.clone()),
            values: values.to_vec(),
            sigma,
            records: None,
            settled,
        };
        values.chunks_exact(each).zip(&axis.labels).map(of_group).collect()
    }

    /// What a reader must know of the columns of a question.
    fn notes(&self, question: &Question) -> Vec<String> {
        let mut names = question.named_columns();
        names.extend(question.by.as_deref());
        let columns = self.plan.columns.all().iter();
        let note = |c: &crate::columns::ColumnInfo| {
            names.contains(&c.name.as_str()).then(|| format!("{}: {}", c.name, c.missing))
        };
        let mut notes: Vec<String> = columns.filter_map(note).collect();
        if question.kind == QuestionKind::Correlation {
            notes.insert(0, "component: its share of the variance of all columns".into());
        }
        notes
    }
}

/// Fieller's interval of a/b: all r with (a − r·b)² ≤ z²·Var(a − r·b); `None` where the
/// denominator cannot be told from zero.
fn fieller(a: f64, b: f64, [va, vb, cov]: [f64; 3], z: f64) -> Option<[f64; 2]> {
    let square = b * b - z * z * vb;
    if square <= 0.0 {
        return None;
    }
    let middle = (a * b - z * z * cov) / square;
    let spread = middle * middle - (a * a - z * z * va) / square;
    let half = spread.max(0.0).sqrt();
    Some([middle - half, middle + half])
}
