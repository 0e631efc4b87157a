//! Intervals within which the label of a new record lies.
//!
//! A label varies around its mean by the law of its family, and the margin m = zᵀx̂ of the record is
//! itself uncertain, with variance v = zᵀCov(x̂)z. The interval has the quantiles of the mixture
//!
//! ```text
//! P(Y ≤ y) = ∫ F(y; mean(m + √v·t)) φ(t) dt,
//! ```
//!
//! which for numbers with normal errors of deviation σ is m ± z_p·√(σ² + v). A count's interval
//! begins at the smallest count that is not below the lower quantile and ends at the smallest one
//! that reaches the upper, so that it covers at least as often as asked.

use super::inference::normal_quantile;
use super::{Inference, Model, ModelError, range_of_answers};
use crate::data::{Encoder, Kind, Records, Schema};
use crate::problem::losses::{Gamma, NegativeBinomial};
use crate::problem::special::{beta_below, gamma_above};
use crate::problem::{self, Loss};

/// Points of the integral over the margin's error, from −5 to 5 deviations.
const POINTS: i32 = 40;

/// How labels vary around their mean.
#[derive(Clone, Copy, Debug)]
enum Law {
    Poisson,
    /// Variance μ + αμ².
    NegativeBinomial {
        alpha: f64,
    },
    /// Deviation 1/√shape times the mean.
    Gamma {
        shape: f64,
    },
    Normal {
        deviation: f64,
    },
}

impl Law {
    /// P(Y ≤ y) for a mean above zero.
    fn below(self, mean: f64, y: f64) -> f64 {
        match self {
            Self::Poisson => gamma_above(y + 1.0, mean),
            Self::NegativeBinomial { alpha } => {
                beta_below(1.0 / (1.0 + alpha * mean), 1.0 / alpha, y + 1.0)
            }
            Self::Gamma { shape } => 1.0 - gamma_above(shape, shape * y / mean),
            Self::Normal { deviation } => {
                0.5 * libm::erfc((mean - y) / (deviation * std::f64::consts::SQRT_2))
            }
        }
    }

    fn counts(self) -> bool {
        matches!(self, Self::Poisson | Self::NegativeBinomial { .. })
    }
}

/// The law of a label whose mean is e to an uncertain margin.
struct Mixture {
    law: Law,
    /// Means and how likely each is.
    means: Vec<(f64, f64)>,
}

impl Mixture {
    fn new(law: Law, loss: &Loss, margin: f64, deviation: f64) -> Self {
        if deviation == 0.0 {
            return Self { law, means: vec![(loss.mean(margin), 1.0)] };
        }
        let step = 10.0 / f64::from(POINTS);
        let points: Vec<f64> = (0..=POINTS).map(|k| -5.0 + step * f64::from(k)).collect();
        let density = |t: &f64| libm::exp(-0.5 * t * t);
        let whole: f64 = points.iter().map(density).sum();
        let one = |t: &f64| (loss.mean(margin + deviation * t), density(t) / whole);
        Self { law, means: points.iter().map(one).collect() }
    }

    fn below(&self, y: f64) -> f64 {
        self.means.iter().map(|&(mean, weight)| weight * self.law.below(mean, y)).sum()
    }

    /// The smallest label that is reached with probability `p`: a whole number of a count, and
    /// elsewhere one to ten digits.
    fn quantile(&self, p: f64) -> f64 {
        let unit = if self.law.counts() { 1.0 } else { 1e-9 * self.means[0].0.max(1e-290) };
        if self.below(0.0) >= p {
            return 0.0;
        }
        // Doubled until it is reached, then halved.
        let (mut low, mut high) = (0.0, unit);
        while high < 1e300 && self.below(high) < p {
            (low, high) = (high, 2.0 * high);
        }
        while high - low > unit.max(1e-10 * high) {
            let middle = match self.law.counts() {
                true => libm::floor(0.5 * (low + high)),
                false => 0.5 * (low + high),
            };
            if middle <= low || middle >= high {
                break;
            }
            if self.below(middle) < p { low = middle } else { high = middle }
        }
        high
    }
}

/// What a record's margin varies by.
enum MarginError<'a> {
    /// Nothing is known of it.
    Unknown,
    /// What noise alone gives each weight.
    Noise(&'a [f64]),
    /// The covariance of the coefficients, the features they are of, what one unit of each column
    /// adds to its feature, and the row of a record of zeros and reference levels.
    Inferred { covariance: &'a [Vec<f64>], at: Vec<usize>, units: Vec<f64>, zero: Vec<f64> },
}

impl MarginError<'_> {
    fn variance(&self, row: &[f64]) -> f64 {
        match self {
            Self::Unknown => 0.0,
            Self::Noise(noise) => row.iter().zip(*noise).map(|(z, s)| (z * s).powi(2)).sum(),
            Self::Inferred { covariance, at, units, zero } => {
                // Columns in their own units; the intercept, which is last, counts once.
                let last = at.len() - 1;
                let value = |(k, &l): (usize, &usize)| match k == last {
                    true => 1.0,
                    false => (row[l] - zero[l]) / units[l],
                };
                let x: Vec<f64> = at.iter().enumerate().map(value).collect();
                let along = |(a, row): (f64, &Vec<f64>)| {
                    a * row.iter().zip(&x).map(|(c, b)| c * b).sum::<f64>()
                };
                x.iter().copied().zip(*covariance).map(along).sum::<f64>().max(0.0)
            }
        }
    }
}

impl Model {
    /// The interval in which each record's label lies with probability `level`, by the law of the
    /// loss and the uncertainty of the model: its covariance where the study asked for standard
    /// errors, else what noise alone gives its weights.
    ///
    /// Labels of numbers are taken to be normal around their predictions, counts to vary as the
    /// loss says.
    ///
    /// # Errors
    /// A model that predicts no number, or one whose uncertainty is not known.
    pub fn intervals(&self, records: &Records, level: f64) -> Result<Vec<(f64, f64)>, ModelError> {
        let refuse = |text: String| Err(ModelError::NotApplicable(text));
        if !(level > 0.0 && level < 1.0) {
            return refuse(format!("{level} is no level of an interval: use one such as 0.9"));
        }
        let (schema, encoder, loss) = self.applicable()?;
        let law = self.law(loss)?;
        let error = self.margin_error(schema, encoder)?;
        let weights = self.weights_of(None)?;
        let scores = problem::scores(loss, records, weights);
        let range = range_of_answers(schema, encoder);
        let tails = (0.5 - 0.5 * level, 0.5 + 0.5 * level);
        let reach = normal_quantile(tails.1);
        let one = |(j, &margin): (usize, &f64)| {
            let variance = error.variance(&records.row(j));
            let (low, high) = if let Law::Normal { deviation } = law {
                let half = reach * (deviation * deviation + variance).sqrt();
                let ends = (margin - half, margin + half);
                if schema.has_log_label() { (libm::exp(ends.0), libm::exp(ends.1)) } else { ends }
            } else {
                let mixture = Mixture::new(law, loss, margin, variance.sqrt());
                (mixture.quantile(tails.0), mixture.quantile(tails.1))
            };
            (low.clamp(range.0, range.1), high.clamp(range.0, range.1))
        };
        Ok(scores.iter().enumerate().map(one).collect())
    }

    /// The law of a label around its mean.
    fn law(&self, loss: &Loss) -> Result<Law, ModelError> {
        let known = self.inference.as_ref().and_then(|i| i.residual_sd);
        let text = match *loss {
            Loss::Poisson(_) => return Ok(Law::Poisson),
            Loss::NegativeBinomial(NegativeBinomial { dispersion: Some(alpha), .. }) => {
                return Ok(Law::NegativeBinomial { alpha });
            }
            Loss::Gamma(Gamma { dispersion, .. }) => {
                // That of the label holds what columns explain, too.
                let dispersion = known.unwrap_or(dispersion);
                return Ok(Law::Gamma { shape: 1.0 / (dispersion * dispersion) });
            }
            Loss::Ridge { .. } | Loss::Huber { .. } => {
                if let Some(deviation) = known {
                    return Ok(Law::Normal { deviation });
                }
                "how far labels lie from their predictions is not known: ask for it before training, with [inference] in the study"
            }
            Loss::NegativeBinomial(_) => {
                "its dispersion is not known: train on scouted columns, or give objective.dispersion"
            }
            _ => {
                "intervals of a new label are for poisson, negative-binomial, gamma, ridge and huber losses"
            }
        };
        Err(ModelError::NotApplicable(text.into()))
    }

    /// What margins of new records vary by.
    fn margin_error(
        &self,
        schema: &Schema,
        encoder: &Encoder,
    ) -> Result<MarginError<'_>, ModelError> {
        let Some(inference) = &self.inference else {
            return Ok(match self.weight_noise[..] {
                [] => MarginError::Unknown,
                ref noise => MarginError::Noise(noise),
            });
        };
        if let Some(one) = inference.coefficients.iter().find(|c| c.refused.is_some()) {
            let text = format!(
                "the standard error of {} is refused, so that an interval could be too narrow; more records, fewer columns or a \
                 larger budget help",
                one.feature
            );
            return Err(ModelError::NotApplicable(text));
        }
        let place = |name: &String| self.features.iter().position(|f| f == name);
        let at = inference.coefficients.iter().map(|c| place(&c.feature));
        let at = at.collect::<Option<Vec<usize>>>().ok_or_else(|| {
            ModelError::Content("its standard errors are of other features".into())
        })?;
        let values: Vec<f64> = schema
            .features()
            .map(|column| match &column.kind {
                Kind::Categorical { categories } => {
                    reference(inference, &column.name, categories) as f64
                }
                Kind::Exposure { .. } => 1.0,
                _ => 0.0,
            })
            .collect();
        let mut zero = vec![0.0; encoder.dim()];
        encoder.encode(&values, &mut zero);
        let covariance = &inference.covariance;
        Ok(MarginError::Inferred { covariance, at, units: encoder.units(), zero })
    }
}

/// The level against which others stand: the one that has no coefficient.
fn reference(inference: &Inference, column: &str, categories: &[String]) -> usize {
    let has = |c: &String| inference.of_feature(&format!("{column}={c}")).is_some();
    categories.iter().position(|c| !has(c)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::losses::Poisson;

    /// Against scipy's laws, mixed over the margin by quadrature (`tests/golden/intervals.py`).
    #[test]
    fn ends_are_quantiles_of_the_mixture() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/golden/intervals.json")).unwrap();
        let cases = golden["laws"].as_array().unwrap();
        assert_eq!(cases.len(), 45);
        for case in cases {
            let number = |key: &str| case[key].as_f64().unwrap();
            let parameter = number("parameter");
            let law = match case["law"].as_str().unwrap() {
                "poisson" => Law::Poisson,
                "gamma" => Law::Gamma { shape: parameter },
                _ => Law::NegativeBinomial { alpha: parameter },
            };
            let loss = Loss::Poisson(Poisson { clip: 50.0, most: 1e9 });
            let mixture = Mixture::new(law, &loss, number("margin"), number("deviation"));
            for (end, p) in [0.05, 0.95].into_iter().enumerate() {
                let (found, want) = (mixture.quantile(p), case["ends"][end].as_f64().unwrap());
                let off = if law.counts() { 0.0 } else { 1e-5 * want + 1e-9 };
                assert!((found - want).abs() <= off, "{case}: {found}");
            }
        }
    }
}
