//! What the losses of counts share: their labels, and scores that one record bounds without bias.

use super::Score;
use crate::config_error::ConfigError;
use crate::data::Task;

/// Means beyond e to this are taken for it where a mean is asked for.
pub(super) const MOST_MARGIN: f64 = 50.0;

/// Residuals count up to so many deviations in a score.
pub(super) const REACH: f64 = 1.5;

/// From this mean on a count's deviation is summed up by its first three moments.
const LARGE: f64 = 400.0;

/// Labels of counts.
pub(super) struct Count;

impl Count {
    /// The largest label of a task whose labels are numbers that are not negative.
    pub(super) fn labels(loss: &str, task: Task) -> Result<f64, ConfigError> {
        match task {
            Task::Regression { min, max } if min >= 0.0 => Ok(max),
            Task::Regression { min, .. } => Err(ConfigError::at(
                "loss",
                format!(
                    "{loss} counts, and the schema lets the label be {min}: declare min = 0 or more at the label"
                ),
            )),
            _ => Err(ConfigError::at(
                "loss",
                format!("{loss} is for a label that is a number; declare min and max at the label"),
            )),
        }
    }
}

/// Mean, variance and skewness of a count.
pub(super) struct Moments {
    pub(super) mean: f64,
    pub(super) variance: f64,
    pub(super) skewness: f64,
}

/// The score of a count y under a law of mean μ and variance V whose log-likelihood has slope
/// (μ − y)/g in the margin:
///
/// ```text
/// ψ = (√V/g)·(clip(r) − E clip(R)),   r = (μ − y)/√V clipped to ±1.5
/// ```
///
/// E ψ = 0 at the true mean although residuals are clipped (Cantoni and Ronchetti 2001), and
/// E ∂ψ/∂m = E ψ·(μ − Y)/g = (V/g²)·E[clip(R)·R]. Both expectations are sums over the law:
/// `first` is its probability of 0 and `following` that of y + 1 over that of y. Beyond a mean of
/// 400 they are those of a Gram–Charlier series: E clip(R) = γ·c·φ(c)/3 for a residual of skewness
/// −γ, and E[clip(R)·R] = 2Φ(c) − 1.
pub(super) fn score(
    Moments { mean, variance, skewness }: Moments,
    slope_by: f64,
    label: f64,
    first: f64,
    following: impl Fn(f64) -> f64,
) -> Score {
    let deviation = variance.sqrt();
    let residual = ((mean - label) / deviation).clamp(-REACH, REACH);
    let (centre, along) = if mean < LARGE && first > 0.0 {
        expectations(mean, deviation, first, following)
    } else {
        let density = libm::exp(-0.5 * REACH * REACH) / (2.0 * std::f64::consts::PI).sqrt();
        (skewness * REACH * density / 3.0, libm::erf(REACH / std::f64::consts::SQRT_2))
    };
    let scale = deviation / slope_by;
    let information = scale * scale * along;
    Score {
        value: scale * (residual - centre),
        bound: scale * (REACH + centre.abs()),
        information,
        most_information: information,
    }
}

/// E clip(R) and E[clip(R)·R] of R = (μ − Y)/√V: outside the clip Σ p = 1 and Σ (μ − y)p = 0 over
/// all counts say what the sum over those inside leaves.
fn expectations(
    mean: f64,
    deviation: f64,
    first: f64,
    following: impl Fn(f64) -> f64,
) -> (f64, f64) {
    let (mut y, mut p) = (0.0, first);
    // Probability and first moment of R below, inside and in all, up to the end of the clip.
    let (mut below, mut inside) = ([0.0; 2], [0.0; 3]);
    loop {
        let r = (mean - y) / deviation;
        if r < -REACH {
            break;
        }
        if r > REACH {
            below[0] += p;
            below[1] += p * r;
        } else {
            inside[0] += p;
            inside[1] += p * r;
            inside[2] += p * r * r;
        }
        p *= following(y);
        y += 1.0;
    }
    let above = [(1.0 - below[0] - inside[0]).max(0.0), -(below[1] + inside[1])];
    let centre = REACH * (below[0] - above[0]) + inside[1];
    let along = REACH * (below[1] - above[1]) + inside[2];
    (centre, along.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poisson(mean: f64, label: f64) -> Score {
        let moments = Moments { mean, variance: mean, skewness: 1.0 / mean.sqrt() };
        score(moments, 1.0, label, libm::exp(-mean), |y| mean / (y + 1.0))
    }

    /// Clipped residuals do not pull the estimate: under the law itself a score has mean zero, and
    /// its information is how fast that mean moves with the margin.
    #[test]
    fn scores_of_counts_are_unbiased_although_they_are_clipped() {
        for mean in [0.05, 0.4, 1.0, 3.7, 20.0] {
            let mut p = libm::exp(-mean);
            let (mut total, mut moved, h) = (0.0, 0.0, 1e-5);
            for y in 0..200 {
                let y = f64::from(y);
                let one = poisson(mean, y);
                assert!(one.value.abs() <= one.bound * (1.0 + 1e-12), "{mean} {y}");
                total += p * one.value;
                let near = |t: f64| poisson(mean * libm::exp(t), y).value;
                // A jump of the clip within the step is at most one of the record's bound.
                if ((mean - y).abs() / mean.sqrt() - REACH).abs() > 1e-3 {
                    moved += p * (near(h) - near(-h)) / (2.0 * h);
                }
                p *= mean / (y + 1.0);
            }
            assert!(total.abs() < 1e-12, "{mean}: {total}");
            let information = poisson(mean, 0.0).information;
            assert!((moved / information - 1.0).abs() < 1e-4, "{mean}: {moved} {information}");
        }
        let (near, far) = (poisson(399.9, 379.9), poisson(400.1, 380.1));
        assert!((near.value - far.value).abs() < 0.05, "{} {}", near.value, far.value);
        assert!((near.information / far.information - 1.0).abs() < 0.03);
    }
}
