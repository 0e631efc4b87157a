//! Estimates with their uncertainty: standard errors, intervals, p-values and Wald tests.

use crate::problem::special::gamma_above;
use serde::{Deserialize, Serialize};

/// What a study says of its coefficients, in units of the columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inference {
    /// The chance with which an interval covers, such as 0.95.
    pub level: f64,
    /// Every coefficient; categories against their reference level, the intercept last.
    pub coefficients: Vec<Estimate>,
    /// The covariance matrix of the coefficients, in their order.
    pub covariance: Vec<Vec<f64>>,
    /// Whether a category with several levels matters at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<WaldTest>,
    /// The ends of the intervals whose hazards are the last coefficients; empty unless these are
    /// hazards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<f64>,
    /// The standard deviation of labels around their predictions, in units of the label and of
    /// `gamma` in units of the prediction; of `ridge`, `huber` and `gamma` losses alone, and where
    /// noise does not hide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual_sd: Option<f64>,
    /// Predictions beside outcomes, where the study asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// What a reader must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How far outcomes are from what the model predicts, in bins of predictions: a noised release of
/// the records it was trained on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Bins by increasing prediction.
    pub bins: Vec<OutcomeBin>,
    /// The sum of the squares of the differences over their standard errors.
    pub statistic: f64,
    /// In how many bins there is something to say.
    pub df: usize,
    /// The p-value of the hypothesis that predictions are right in all bins.
    pub p: Option<f64>,
}

/// Records whose prediction lies between two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutcomeBin {
    /// The smallest prediction; open in the first bin.
    pub from: Option<f64>,
    /// The largest prediction; open in the last bin.
    pub to: Option<f64>,
    /// The share of all records, noised.
    pub share: f64,
    /// The mean of outcomes less that of predictions; absent where there are too few records beside
    /// the noise.
    pub difference: Option<f64>,
    /// The lower end of its interval, at the level of the coefficients'.
    pub low: Option<f64>,
    /// The upper end of its interval.
    pub high: Option<f64>,
}

impl Calibration {
    /// Returns the header and the rows of a table of the bins, as text.
    #[must_use]
    pub fn rows(&self, level: f64) -> (Vec<String>, Vec<Vec<String>>) {
        let level = format!("{:.4}", 100.0 * level);
        let level = level.trim_end_matches('0').trim_end_matches('.');
        let header = ["predicted", "records", "observed less predicted"].map(str::to_owned);
        let header = header.into_iter().chain([format!("{level} % interval")]).collect();
        let row = |bin: &OutcomeBin| {
            let error = bin.low.zip(bin.high).map_or(0.0, |(low, high)| (high - low) / 4.0);
            let digits = super::table::decimals(error);
            let number = |v: f64| format!("{v:.digits$}");
            let range = match (bin.from, bin.to) {
                (None, Some(to)) => format!("below {}", number(to)),
                (Some(from), None) => format!("{} and above", number(from)),
                (Some(from), Some(to)) => format!("{} to {}", number(from), number(to)),
                (None, None) => "all".to_owned(),
            };
            let signed = |v: f64| format!("{v:+.digits$}");
            let interval = bin.low.zip(bin.high);
            vec![
                range,
                format!("{:.0} %", 100.0 * bin.share),
                bin.difference.map_or_else(|| "too few to tell".to_owned(), signed),
                interval.map_or_else(
                    || "–".to_owned(),
                    |(low, high)| format!("{} to {}", signed(low), signed(high)),
                ),
            ]
        };
        (header, self.bins.iter().map(row).collect())
    }

    /// Says whether predictions can be told from outcomes.
    #[must_use]
    pub fn verdict(&self) -> String {
        let Some(p) = self.p else {
            return "noise leaves nothing to say of predictions beside outcomes".to_owned();
        };
        let p = if p < 0.001 { "< 0.001".to_owned() } else { format!("= {p:.3}") };
        format!(
            "predictions beside outcomes: χ² = {:.2} on {} degrees of freedom, p {p}; of this model as it was released, from a noised \
             count of the records it was trained on",
            self.statistic, self.df
        )
    }
}

/// One coefficient with its uncertainty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The feature: a column, `column=level`, or the intercept.
    pub feature: String,
    /// What one unit of the column adds to the score; absent where it is refused.
    pub estimate: Option<f64>,
    /// The standard error, which knows of sampling and of noise.
    pub std_error: Option<f64>,
    /// The lower end of the interval.
    pub low: Option<f64>,
    /// The upper end of the interval.
    pub high: Option<f64>,
    /// The two-sided p-value of the hypothesis that it is zero.
    pub p: Option<f64>,
    /// e to estimate, low and high, where that is a ratio of odds or of rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<(f64, f64, f64)>,
    /// How it varies between sites, where these are a sample of sites (`models = "personal"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_sites: Option<BetweenSites>,
    /// Why nothing is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// How a coefficient varies between sites: a standard deviation with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BetweenSites {
    /// The standard deviation.
    pub sd: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
    /// Degrees of freedom of the coefficient's interval, which is one of Student's.
    pub df: f64,
}

/// What is known of how a coefficient varies between sites. Variances are pairs: of the sites'
/// coefficients, sampling error and noise in it, and what of it sampling error and noise make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// The variance that is part of the coefficient's own.
    pub(crate) whole: (f64, f64),
    /// The variance that can be told from how the intercept varies.
    pub(crate) told: Option<(f64, f64)>,
    /// How many sites of equal weight would say as much.
    pub(crate) sites: f64,
}

impl Spread {
    fn least(self) -> f64 {
        (self.sites - 1.0).max(1.0)
    }

    /// The degrees of freedom of a coefficient whose variance is `variance` (Satterthwaite).
    fn df(self, variance: f64) -> f64 {
        let part = (self.whole.0 - self.whole.1).max(0.0) / self.sites;
        let df = if part > 0.0 {
            self.least() * (variance / part).powi(2).max(1.0)
        } else {
            f64::INFINITY
        };
        df.min(1e9)
    }

    /// The deviation between sites with its interval, from the χ² law of a variance.
    fn found(self, level: f64, variance: f64) -> Option<BetweenSites> {
        let ((all, chance), least) = (self.told?, self.least());
        let z = normal_quantile(0.5 + 0.5 * level);
        // Wilson and Hilferty's quantile of χ² over its degrees of freedom.
        let chi = |z: f64| {
            let v = 2.0 / (9.0 * least);
            (1.0 - v + z * v.sqrt()).max(0.05).powi(3)
        };
        let end = |z: f64| (all / chi(z) - chance).max(0.0).sqrt();
        let sd = (all - chance).max(0.0).sqrt();
        Some(BetweenSites { sd, low: end(z), high: end(-z), df: self.df(variance) })
    }
}

/// What a normal variable would have to be for a tail as small as that of Student's t (Wallace, 1959:
/// within 2 % from 3 degrees of freedom on).
fn normal_of_student(t: f64, df: f64) -> f64 {
    let k = (8.0 * df + 1.0) / (8.0 * df + 3.0);
    k * (df * libm::log1p(t * t / df)).sqrt()
}

/// The inverse of [`normal_of_student`].
fn student_of_normal(z: f64, df: f64) -> f64 {
    let k = (8.0 * df + 1.0) / (8.0 * df + 3.0);
    (df * libm::expm1((z / k).powi(2) / df)).sqrt()
}

/// A Wald test that several coefficients are zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaldTest {
    /// The column whose levels are tested.
    pub column: String,
    /// xᵀC⁻¹x, which has a χ² law.
    pub statistic: f64,
    /// Its degrees of freedom.
    pub df: usize,
    /// The p-value.
    pub p: f64,
}

/// What is known of a coefficient before its interval.
pub(crate) struct Found {
    pub(crate) feature: String,
    pub(crate) estimate: f64,
    /// Why nothing may be said.
    pub(crate) refused: Option<String>,
    /// Whether e to it is a ratio.
    pub(crate) is_ratio: bool,
    /// How it varies between sites, where these are a sample.
    pub(crate) spread: Option<Spread>,
}

impl Inference {
    /// Intervals, p-values and tests of `found` with this covariance.
    pub(crate) fn of(level: f64, found: Vec<Found>, covariance: Vec<Vec<f64>>) -> Self {
        let reach = normal_quantile(0.5 + 0.5 * level);
        let columns = columns(&found);
        // The law of a test of several coefficients is not known where sites are a sample.
        let tests = columns
            .iter()
            .filter(|_| found.iter().all(|f| f.spread.is_none()))
            .filter(|(_, at)| at.len() > 1 && at.iter().all(|&l| found[l].refused.is_none()))
            .filter_map(|(column, at)| wald(column, &found, &covariance, at))
            .collect();
        let one = |(l, found): (usize, Found)| match found.refused {
            Some(_) => {
                Estimate { feature: found.feature, refused: found.refused, ..Estimate::default() }
            }
            None => {
                let (at, error) = (found.estimate, covariance[l][l].max(0.0).sqrt());
                let (reach, size) = match found.spread.map(|s| s.df(covariance[l][l])) {
                    Some(df) => (student_of_normal(reach, df), normal_of_student(at / error, df)),
                    None => (reach, (at / error).abs()),
                };
                let (low, high) = (at - reach * error, at + reach * error);
                let ratio = (libm::exp(at), libm::exp(low), libm::exp(high));
                Estimate {
                    feature: found.feature,
                    estimate: Some(at),
                    std_error: Some(error),
                    low: Some(low),
                    high: Some(high),
                    p: Some(libm::erfc(size / std::f64::consts::SQRT_2)),
                    ratio: found.is_ratio.then_some(ratio),
                    between_sites: found.spread.and_then(|s| s.found(level, covariance[l][l])),
                    refused: None,
                }
            }
        };
        let coefficients = found.into_iter().enumerate().map(one).collect();
        Self { level, coefficients, covariance, tests, ..Self::default() }
    }

    /// The estimate of a feature.
    #[must_use]
    pub fn of_feature(&self, feature: &str) -> Option<&Estimate> {
        self.coefficients.iter().find(|c| c.feature == feature)
    }

    /// A sum of coefficients with these factors, such as one level less another, with its interval;
    /// `None` where a feature is unknown or refused.
    #[must_use]
    pub fn contrast(&self, factors: &[(&str, f64)]) -> Option<Estimate> {
        let place = |name: &str| self.coefficients.iter().position(|c| c.feature == name);
        let at: Vec<(usize, f64)> =
            factors.iter().map(|(name, f)| Some((place(name)?, *f))).collect::<Option<_>>()?;
        let mut estimate = 0.0;
        for &(l, factor) in &at {
            estimate += factor * self.coefficients[l].estimate?;
        }
        let across = |(a, f): &(usize, f64)| {
            at.iter().map(|(b, g)| f * g * self.covariance[*a][*b]).sum::<f64>()
        };
        let variance: f64 = at.iter().map(across).sum();
        let words: Vec<String> = factors.iter().map(|(name, f)| format!("{f}·{name}")).collect();
        let found = Found {
            feature: words.join(" + "),
            estimate,
            refused: None,
            is_ratio: at.iter().all(|&(l, _)| self.coefficients[l].ratio.is_some()),
            spread: None,
        };
        // One of a column that is the same within sites has no deviation: the fewest of all hold.
        let least = |some: &mut dyn Iterator<Item = &Estimate>| {
            some.filter_map(|c| Some(c.between_sites?.df)).fold(f64::INFINITY, f64::min)
        };
        let untold = at.iter().any(|&(l, _)| self.coefficients[l].between_sites.is_none());
        let df = match untold {
            true => least(&mut self.coefficients.iter()),
            false => least(&mut at.iter().map(|&(l, _)| &self.coefficients[l])),
        };
        let mut one = Self::of(self.level, vec![found], vec![vec![variance]]).coefficients.pop()?;
        if df.is_finite() {
            let (reach, error) =
                (normal_quantile(0.5 + 0.5 * self.level), variance.max(0.0).sqrt());
            let half = student_of_normal(reach, df) * error;
            (one.low, one.high) = (Some(estimate - half), Some(estimate + half));
            one.ratio = one
                .ratio
                .map(|(at, ..)| (at, libm::exp(estimate - half), libm::exp(estimate + half)));
            let size = normal_of_student(estimate / error, df);
            one.p = Some(libm::erfc(size / std::f64::consts::SQRT_2));
        }
        Some(one)
    }
}

/// One point of a survival curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SurvivalPoint {
    /// The end of an interval.
    pub time: f64,
    /// The probability to be without the event until then.
    pub estimate: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
}

impl Inference {
    /// The survival curve of a record with these columns (a level of a category is 1 at its own
    /// `column=level`; what is left out is 0), with intervals at every time; `None` unless these are
    /// hazards, and where one of the coefficients is refused.
    ///
    /// The cumulative hazard H(t) = Σ width·e^(b_k + xᵀβ) has the gradient H·x in β and its own
    /// summands in the b_k; intervals are those of log H, which never leave \[0, 1\] (the delta
    /// method).
    #[must_use]
    pub fn survival(&self, columns: &[(&str, f64)]) -> Option<Vec<SurvivalPoint>> {
        if self.times.is_empty() {
            return None;
        }
        let slopes = self.coefficients.len() - self.times.len();
        let all: Vec<f64> = self.coefficients.iter().map(|c| c.estimate).collect::<Option<_>>()?;
        let value = |name: &str| columns.iter().find(|c| c.0 == name).map_or(0.0, |c| c.1);
        let x: Vec<f64> = self.coefficients[..slopes].iter().map(|c| value(&c.feature)).collect();
        let score: f64 = x.iter().zip(&all).map(|(x, b)| x * b).sum();
        let reach = normal_quantile(0.5 + 0.5 * self.level);
        let (mut gradient, mut hazard, mut from) = (vec![0.0; all.len()], 0.0, 0.0);
        let mut curve = Vec::with_capacity(self.times.len());
        for (k, &time) in self.times.iter().enumerate() {
            let own = (time - from) * libm::exp(all[slopes + k] + score);
            hazard += own;
            gradient[slopes + k] = own;
            gradient.iter_mut().zip(&x).for_each(|(g, x)| *g = hazard * x);
            let row = |(row, g): (&Vec<f64>, &f64)| -> f64 {
                g * row.iter().zip(&gradient).map(|(c, h)| c * h).sum::<f64>()
            };
            let variance: f64 = self.covariance.iter().zip(&gradient).map(row).sum();
            let off = libm::exp(reach * variance.max(0.0).sqrt() / hazard);
            let survived = |hazard: f64| libm::exp(-hazard);
            let (low, high) = (survived(hazard * off), survived(hazard / off));
            curve.push(SurvivalPoint { time, estimate: survived(hazard), low, high });
            from = time;
        }
        Some(curve)
    }
}

/// The columns of `column=level` features, with the places of their levels.
fn columns(found: &[Found]) -> Vec<(String, Vec<usize>)> {
    let mut columns: Vec<(String, Vec<usize>)> = Vec::new();
    for (l, one) in found.iter().enumerate() {
        let Some((column, _)) = one.feature.split_once('=') else { continue };
        match columns.last_mut().filter(|(name, _)| name == column) {
            Some((_, at)) => at.push(l),
            None => columns.push((column.to_owned(), vec![l])),
        }
    }
    columns
}

fn wald(column: &str, found: &[Found], covariance: &[Vec<f64>], at: &[usize]) -> Option<WaldTest> {
    let df = at.len();
    let block = nalgebra::DMatrix::from_fn(df, df, |a, b| covariance[at[a]][at[b]]);
    let x = nalgebra::DVector::from_fn(df, |a, _| found[at[a]].estimate);
    let statistic = x.dot(&block.cholesky()?.solve(&x));
    let p = chi_squared_above(statistic, df);
    Some(WaldTest { column: column.to_owned(), statistic, df, p })
}

/// Φ⁻¹, by Newton's steps on Φ from a bisection.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    let below = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if below(middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Returns the probability that a χ² of `df` degrees of freedom is above x: Q(df/2, x/2).
#[must_use]
pub fn chi_squared_above(x: f64, df: usize) -> f64 {
    gamma_above(0.5 * df as f64, 0.5 * x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against scipy.stats: norm.ppf, chi2.sf.
    #[test]
    fn quantiles_and_tails_are_those_of_scipy() {
        for (p, want) in [(0.975, 1.959963984540054), (0.995, 2.5758293035489004), (0.5, 0.0)] {
            assert!((normal_quantile(p) - want).abs() < 1e-12, "{p}");
        }
        for (x, df, want) in [
            (3.0, 1, 0.08326451666355042),
            (3.0, 4, 0.5578254003710748),
            (25.0, 4, 5.030_981_782_306e-5),
            (40.0, 60, 0.978_181_782_474),
        ] {
            let got = chi_squared_above(x, df);
            assert!((got / want - 1.0).abs() < 1e-6, "{x} {df}: {got}");
        }
    }

    /// Against scipy's t.ppf(0.975, df) and 2·t.sf(t, df).
    #[test]
    fn students_quantiles_and_tails_are_those_of_scipy() {
        for (df, want) in [(3.0, 3.182446), (9.0, 2.262157), (30.0, 2.042272), (1e9, 1.959964)] {
            let t = student_of_normal(1.959964, df);
            assert!((t / want - 1.0).abs() < 0.02, "{df}: {t}");
            assert!((normal_of_student(t, df) - 1.959964).abs() < 1e-9);
        }
        let p = libm::erfc(normal_of_student(2.5, 5.0) / std::f64::consts::SQRT_2);
        assert!((p / 0.054490 - 1.0).abs() < 0.03, "{p}");
    }

    #[test]
    fn intervals_tests_and_contrasts_follow_from_the_covariance() {
        let found = |feature: &str, estimate| Found {
            feature: feature.into(),
            estimate,
            refused: None,
            is_ratio: true,
            spread: None,
        };
        let covariance = vec![vec![0.04, 0.0, 0.0], vec![0.0, 0.09, 0.02], vec![0.0, 0.02, 0.16]];
        let all = vec![found("age", 0.4), found("ward=b", 0.3), found("ward=c", -0.5)];
        let inference = Inference::of(0.95, all, covariance);
        let age = inference.of_feature("age").unwrap();
        assert!((age.low.unwrap() - (0.4 - 1.959964 * 0.2)).abs() < 1e-6);
        assert!((age.p.unwrap() - 0.045500).abs() < 1e-6);
        let ratio = age.ratio.unwrap();
        assert!(ratio.1 < ratio.0 && ratio.0 < ratio.2);
        // 0.3²·0.16 + 2·0.3·0.5·0.02 + 0.5²·0.09 over the determinant 0.014.
        let test = &inference.tests[0];
        let want = (0.09 * 0.16 + 0.3 * 0.02 + 0.25 * 0.09) / (0.09 * 0.16 - 0.0004);
        assert!((test.statistic - want).abs() < 1e-12 && test.df == 2, "{test:?}");
        let less = inference.contrast(&[("ward=b", 1.0), ("ward=c", -1.0)]).unwrap();
        assert!((less.estimate.unwrap() - 0.8).abs() < 1e-12);
        assert!((less.std_error.unwrap() - (0.09f64 + 0.16 - 0.04).sqrt()).abs() < 1e-12);
        assert_eq!(inference.contrast(&[("ward=z", 1.0)]), None);
    }
}
