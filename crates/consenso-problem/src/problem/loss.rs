//! The losses, by the record.

use super::Workspace;
use super::losses::{self, Family as _, Labels, MarginLoss, Options, Score};
use super::proportional::Proportional;
use crate::config_error::ConfigError;
use crate::data::{Nonzeros, Records, Task};
use crate::kernel;
use serde::{Deserialize, Serialize};

/// Intervals of time where files leave them open, and at most.
const INTERVALS: usize = 6;
const MOST_INTERVALS: usize = 200;

fn unclipped() -> f64 {
    f64::INFINITY
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_unclipped(clip: &f64) -> bool {
    clip.is_infinite()
}

/// Defines [`Loss`], its names and all that is said of every loss alike, from the table of families
/// in `losses/`: an entry is a type there and its word in files.
macro_rules! losses {
    (($d:tt) $($name:ident = $word:literal)*) => {
        /// Names of losses.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum LossKind {
            /// Two classes.
            #[default]
            Logistic,
            /// Least squares.
            Ridge,
            /// Robust regression.
            Huber,
            /// Two classes, as a smooth support vector machine.
            SquaredHinge,
            /// Several classes.
            Softmax,
            /// Times until an event, with proportional hazards.
            Hazards,
            /// Ordered classes, with proportional odds.
            Ordinal,
            $(
                #[doc = concat!("See [`", stringify!($name), "`](losses::", stringify!($name), ").")]
                #[serde(rename = $word)]
                $name,
            )*
        }

        /// The loss of one record (z, y) at the model x.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "loss", rename_all = "kebab-case")]
        pub enum Loss {
            /// log(1 + exp(−y·zᵀx)), labels ±1.
            Logistic,
            /// The logistic loss made linear where its slope would exceed `clip`: log(1 + e^−t) for t =
            /// y·zᵀx ≥ t₀, and the tangent at t₀ = ln((1 − clip)/clip) before.
            ///
            /// One record then moves a gradient by `clip` instead of 1. At ½ only records on the wrong side
            /// (t < 0) are clipped, those on the right side keep their gradient, and a budget buys half the
            /// noise.
            ClippedLogistic {
                /// Largest slope that counts, between 0 and 1.
                clip: f64,
            },
            /// The logistic loss of one class counted more than that of the other: w_y·φ(y·zᵀx), with φ
            /// clipped as in [`Self::ClippedLogistic`] before it is weighted.
            ///
            /// One record moves a gradient by `clip` times the larger weight: rare classes are heard
            /// louder, and cost as much more noise.
            WeightedLogistic {
                /// Largest slope that counts before it is weighted, above 0; 1 clips nothing.
                clip: f64,
                /// Weight of the class −1.
                negative: f64,
                /// Weight of the class +1.
                positive: f64,
            },
            /// ½(zᵀx − y)².
            ///
            /// Its gradient is unbounded in x, so a private run needs `clip`: each record's residual is
            /// clipped to ±`clip` in the **gradient**, which makes the sensitivity hold for every x (and
            /// the gradient that of the Huber loss). Values are reported unclipped.
            Ridge {
                /// Largest residual that counts; infinite when nothing is clipped, and left out of files
                /// then.
                #[serde(default = "unclipped", skip_serializing_if = "is_unclipped")]
                clip: f64,
            },
            /// ½r² for |r| ≤ δ, δ|r| − ½δ² beyond, r = zᵀx − y.
            Huber {
                /// Where the loss becomes linear.
                delta: f64,
            },
            /// ½·max(0, 1 − t)² for t = y·zᵀx, labels ±1, made linear where its slope would exceed `clip`:
            /// a smooth support vector machine.
            SquaredHinge {
                /// Largest slope that counts; infinite when nothing is clipped, and left out of files then.
                #[serde(default = "unclipped", skip_serializing_if = "is_unclipped")]
                clip: f64,
            },
            /// The squared hinge of one class counted more than that of the other: w_y times
            /// [`Self::SquaredHinge`], clipped before it is weighted.
            ///
            /// One record moves a gradient by `clip` times the larger weight.
            WeightedSquaredHinge {
                /// Largest slope that counts before it is weighted; infinite when nothing is clipped, and
                /// left out of files then.
                #[serde(default = "unclipped", skip_serializing_if = "is_unclipped")]
                clip: f64,
                /// Weight of the class −1.
                negative: f64,
                /// Weight of the class +1.
                positive: f64,
            },
            /// −log softmax_y(Xz) for C classes; the model is X row by row (class-major), labels 0…C−1.
            Softmax {
                /// How many classes.
                classes: usize,
            },
            /// Proportional hazards, constant within each of so many intervals of time: labels are
            /// times, negative where the event was not seen.
            Hazards {
                /// Intervals.
                intervals: usize,
            },
            /// Ordered classes with proportional odds (cumulative logit): labels 0…C−1.
            Ordinal {
                /// How many classes.
                classes: usize,
            },
            $(
                #[doc = concat!("See [`", stringify!($name), "`](losses::", stringify!($name), ").")]
                #[serde(rename = $word)]
                $name(losses::$name),
            )*
        }

        impl LossKind {
            /// The losses of the table of families.
            pub const FAMILIES: &[Self] = &[$(Self::$name,)*];
        }

        impl std::fmt::Display for LossKind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    Self::Logistic => "logistic",
                    Self::Ridge => "ridge",
                    Self::Huber => "huber",
                    Self::SquaredHinge => "squared-hinge",
                    Self::Softmax => "softmax",
                    Self::Hazards => "hazards",
                    Self::Ordinal => "ordinal",
                    $(Self::$name => $word,)*
                })
            }
        }

        /// Evaluates `$body` with `$loss` as the margin loss of `$self`, or `$many` for a softmax of
        /// `$classes`.
        macro_rules! by_loss {
            ($d self:expr, $d loss:ident => $d body:expr, $d classes:ident => $d many:expr) => {
                match *$d self {
                    Loss::Logistic => by_loss!(@ $d loss, losses::Logistic, $d body),
                    Loss::ClippedLogistic { clip } => by_loss!(@ $d loss, losses::ClippedLogistic { clip }, $d body),
                    Loss::WeightedLogistic { clip, negative, positive } => {
                        by_loss!(@ $d loss, losses::Weighted { plain: losses::ClippedLogistic { clip }, negative, positive }, $d body)
                    }
                    Loss::Ridge { clip } => by_loss!(@ $d loss, losses::Ridge { clip }, $d body),
                    Loss::Huber { delta } => by_loss!(@ $d loss, losses::Huber { delta }, $d body),
                    Loss::SquaredHinge { clip } => by_loss!(@ $d loss, losses::SquaredHinge { clip }, $d body),
                    Loss::WeightedSquaredHinge { clip, negative, positive } => {
                        by_loss!(@ $d loss, losses::Weighted { plain: losses::SquaredHinge { clip }, negative, positive }, $d body)
                    }
                    $(Loss::$name(family) => by_loss!(@ $d loss, family, $d body),)*
                    Loss::Softmax { classes: $d classes }
                    | Loss::Hazards { intervals: $d classes }
                    | Loss::Ordinal { classes: $d classes } => $d many,
                }
            };
            (@ $d loss:ident, $d value:expr, $d body:expr) => {{
                let $d loss = $d value;
                $d body
            }};
        }

        impl Loss {
            /// The loss of a family for a task; `None` for losses that are no family.
            fn of_family(kind: LossKind, task: Task, options: &Options) -> Option<Result<Self, ConfigError>> {
                match kind {
                    $(LossKind::$name => Some(losses::$name::of(task, options).map(Self::$name)),)*
                    _ => None,
                }
            }

            /// The name of a family and the keys that give it; `None` for losses that are no family.
            fn family(&self) -> Option<(LossKind, Options)> {
                match *self {
                    $(Self::$name(family) => Some((LossKind::$name, family.options())),)*
                    _ => None,
                }
            }

            /// The loss once mean and deviation of the label are known, which are public.
            #[must_use]
            pub fn fitted_to(self, mean: f64, deviation: f64) -> Self {
                match self {
                    $(Self::$name(family) => Self::$name(family.fitted_to(mean, deviation)),)*
                    other => other,
                }
            }
        }
    };
}

losses::for_families!(losses, $);

/// What a margin loss says of itself as a type.
fn labels<L: MarginLoss>(_: L) -> Labels {
    L::LABELS
}

/// Whether its means are probabilities, as a type.
fn probabilities<L: MarginLoss>(_: L) -> bool {
    L::PROBABILITIES
}

/// Weights with which classes of these shares count half each: a class of share p weighs 1/(2p).
pub fn balanced_weights(negative: f64, positive: f64) -> [f64; 2] {
    [negative, positive].map(|share| 0.5 * (negative + positive) / share)
}

impl Loss {
    /// The loss of this name for a task, with its options where they are given.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    #[doc(hidden)]
    pub fn named(kind: LossKind, task: Task, options: &Options) -> Result<Self, ConfigError> {
        if let Some(family) = Self::of_family(kind, task, options) {
            return family;
        }
        let Options { clip, huber_delta: delta, .. } = *options;
        let positive = |key: &str, v: f64| {
            if v > 0.0 {
                Ok(v)
            } else {
                Err(ConfigError::at(key, format!("{v} must be a positive number")))
            }
        };
        Ok(match (kind, task) {
            (LossKind::Logistic, Task::Binary) => match clip.unwrap_or(1.0) {
                1.0 => Self::Logistic,
                clip if clip > 0.0 && clip < 1.0 => Self::ClippedLogistic { clip },
                clip => {
                    let why = format!(
                        "{clip} must be above 0 and at most 1: no logistic slope exceeds 1"
                    );
                    return Err(ConfigError::at("clip", why));
                }
            },
            (LossKind::SquaredHinge, Task::Binary) => {
                Self::SquaredHinge { clip: positive("clip", clip.unwrap_or(1.0))? }
            }
            (LossKind::Softmax, Task::MultiClass { classes }) => Self::Softmax { classes },
            (LossKind::Ordinal, Task::MultiClass { classes }) => Self::Ordinal { classes },
            (LossKind::Hazards, Task::Regression { min, .. }) if min < 0.0 => {
                match options.intervals.unwrap_or(INTERVALS) {
                    intervals @ 1..=MOST_INTERVALS => Self::Hazards { intervals },
                    other => {
                        let why = format!("{other} must lie between 1 and {MOST_INTERVALS}");
                        return Err(ConfigError::at("intervals", why));
                    }
                }
            }
            (LossKind::Hazards, _) => {
                return Err(ConfigError::at(
                    "loss",
                    "hazards needs a time and an event: name their columns in data.time and data.event",
                ));
            }
            (LossKind::Ridge, Task::Regression { .. }) => {
                Self::Ridge { clip: positive("clip", clip.unwrap_or(f64::INFINITY))? }
            }
            (LossKind::Huber, Task::Regression { .. }) => {
                Self::Huber { delta: positive("huber_delta", delta.unwrap_or(1.0))? }
            }
            (kind, task) => {
                let fitting = match task {
                    Task::Binary => "logistic, probit or squared-hinge",
                    Task::MultiClass { .. } => {
                        "softmax, or ordinal if the classes have an order; for numbers write min and max instead of classes at the schema's label"
                    }
                    Task::Regression { .. } => {
                        "ridge, huber or quantile, poisson or negative-binomial for counts, gamma for positive amounts"
                    }
                };
                return Err(ConfigError::at(
                    "loss",
                    format!("{kind} does not fit these labels; use {fitting}"),
                ));
            }
        })
    }

    /// Its name and options, as [`Self::named`] takes them.
    #[doc(hidden)]
    pub fn name(&self) -> (LossKind, Options) {
        let clipped = |kind, clip: f64, open: f64| {
            let clip = (clip != open).then_some(clip);
            (kind, Options { clip, ..Options::default() })
        };
        match *self {
            Self::Logistic => clipped(LossKind::Logistic, 1.0, 1.0),
            Self::ClippedLogistic { clip } | Self::WeightedLogistic { clip, .. } => {
                clipped(LossKind::Logistic, clip, 1.0)
            }
            Self::Ridge { clip } => clipped(LossKind::Ridge, clip, f64::INFINITY),
            Self::Huber { delta } => {
                (LossKind::Huber, Options { huber_delta: Some(delta), ..Options::default() })
            }
            // 1 is what `named` takes where nothing is said.
            Self::SquaredHinge { clip } | Self::WeightedSquaredHinge { clip, .. } => {
                clipped(LossKind::SquaredHinge, clip, 1.0)
            }
            Self::Softmax { .. } => (LossKind::Softmax, Options::default()),
            Self::Ordinal { .. } => (LossKind::Ordinal, Options::default()),
            Self::Hazards { intervals } => {
                (LossKind::Hazards, Options { intervals: Some(intervals), ..Options::default() })
            }
            family => family.family().unwrap_or_default(),
        }
    }

    /// The task it is for; labels of a regression lie between `low` and `high`.
    #[doc(hidden)]
    pub fn task(&self, (low, high): (f64, f64)) -> Task {
        match *self {
            Self::Softmax { classes } | Self::Ordinal { classes } => Task::MultiClass { classes },
            loss if loss.is_binary() => Task::Binary,
            _ => Task::Regression { min: low, max: high },
        }
    }

    /// The loss without its clip; Huber's δ is part of it and stays.
    #[doc(hidden)]
    pub fn without_clip(self) -> Self {
        match self {
            Self::ClippedLogistic { .. } => Self::Logistic,
            Self::WeightedLogistic { .. } => self.with_slopes_up_to(1.0),
            Self::Ridge { .. } => Self::Ridge { clip: f64::INFINITY },
            Self::SquaredHinge { .. } => Self::SquaredHinge { clip: f64::INFINITY },
            Self::WeightedSquaredHinge { negative, positive, .. } => {
                Self::WeightedSquaredHinge { clip: f64::INFINITY, negative, positive }
            }
            loss => loss,
        }
    }

    /// Whether labels are ±1 and the sign of a margin answers.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        by_loss!(self, loss => labels(loss) == Labels::Classes, _classes => false)
    }

    /// Whether labels are numbers with a meaning of their own, such as counts: they are not
    /// standardised.
    #[must_use]
    pub fn keeps_labels(&self) -> bool {
        by_loss!(self, loss => labels(loss) == Labels::AsTheyAre, _classes => false)
    }

    /// Whether e to a coefficient multiplies the mean.
    #[must_use]
    pub fn has_log_link(&self) -> bool {
        self.keeps_labels() && !self.is_of_pairs()
    }

    /// Whether it is a loss of pairs of records, in which intercepts cancel.
    #[must_use]
    pub fn is_of_pairs(&self) -> bool {
        matches!(self, Self::StratifiedHazards(_))
    }

    /// Whether labels are times until an event, negative where it was not seen.
    #[must_use]
    pub fn is_of_times(&self) -> bool {
        matches!(self, Self::Hazards { .. } | Self::StratifiedHazards(_))
    }

    /// How many intercepts are estimated.
    #[must_use]
    pub fn intercepts(&self) -> usize {
        if self.is_of_pairs() { 0 } else { self.outputs() }
    }

    /// What a margin predicts: a mean, or the probability of the positive of two classes.
    #[must_use]
    pub fn mean(&self, margin: f64) -> f64 {
        by_loss!(self, loss => loss.mean(margin), _classes => margin)
    }

    /// A record's outcome less what its margin predicts: the outcome of two classes is 1 for the
    /// positive one and 0 for the other.
    pub fn outcome_less_mean(&self, margin: f64, label: f64) -> f64 {
        let outcome = if label > 0.0 { 1.0 } else { 0.0 };
        match self {
            loss if loss.is_logistic() => outcome - 1.0 / (1.0 + libm::exp(-margin)),
            loss if loss.is_binary() => outcome - loss.mean(margin),
            loss => label - loss.mean(margin),
        }
    }

    /// The margin that predicts `mean`.
    #[must_use]
    pub fn margin_of(&self, mean: f64) -> f64 {
        by_loss!(self, loss => loss.margin_of(mean), _classes => mean)
    }

    /// A record's usual slope where all are predicted by the mean of the labels.
    #[must_use]
    pub fn usual_slope(&self, mean: f64, deviation: f64) -> f64 {
        by_loss!(self, loss => loss.usual_slope(mean, deviation), _classes => 1.0)
    }

    /// The usual φ'' where all are predicted by the mean of the labels.
    #[must_use]
    pub fn usual_curvature(&self, mean: f64) -> f64 {
        by_loss!(self, loss => loss.usual_curvature(mean), _classes => 0.5)
    }

    /// Whether it stands in the table of families.
    #[must_use]
    pub fn is_family(&self) -> bool {
        self.family().is_some()
    }

    /// Whether it gives probabilities of two classes.
    #[must_use]
    pub fn has_probabilities(&self) -> bool {
        self.is_logistic() || by_loss!(self, loss => probabilities(loss), _classes => false)
    }

    /// The unit deviance of a label, where the loss is half of one.
    #[must_use]
    pub fn deviance(&self, margin: f64, label: f64) -> Option<f64> {
        by_loss!(self, loss => loss.deviance(margin, label), _classes => None)
    }

    /// A record's part in an estimating equation; `None` where standard errors are not known.
    #[must_use]
    pub fn score(&self, margin: f64, label: f64) -> Option<Score> {
        by_loss!(self, loss => loss.score(margin, label), _classes => None)
    }

    /// The largest slope of a margin loss, and how far a margin must be on the wrong side to have
    /// it; `None` for softmax.
    #[doc(hidden)]
    pub fn saturation(&self) -> Option<(f64, f64)> {
        by_loss!(self, loss => Some((loss.steepest(), loss.saturates())), _classes => None)
    }

    /// Scores that a record has: C for softmax, one per intercept of hazards and ordered classes, 1
    /// otherwise.
    #[must_use]
    pub fn outputs(&self) -> usize {
        match *self {
            Self::Softmax { classes } => classes,
            _ => self.proportional().map_or(1, Proportional::intercepts),
        }
    }

    /// The loss as one of several intercepts, where it is.
    #[must_use]
    #[doc(hidden)]
    pub fn proportional(&self) -> Option<Proportional> {
        match *self {
            Self::Hazards { intervals } => Some(Proportional::Hazards { intervals }),
            Self::Ordinal { classes } => Some(Proportional::Odds { classes }),
            _ => None,
        }
    }

    /// Whether labels are classes.
    #[must_use]
    pub fn classifies(&self) -> bool {
        self.is_binary() || matches!(self, Self::Softmax { .. } | Self::Ordinal { .. })
    }

    /// Whether it is logistic, clipped or not: margins are log odds.
    #[must_use]
    pub fn is_logistic(&self) -> bool {
        matches!(
            self,
            Self::Logistic | Self::ClippedLogistic { .. } | Self::WeightedLogistic { .. }
        )
    }

    /// The weight of a record with this label: 1 where classes count alike.
    #[must_use]
    pub fn weight(&self, label: f64) -> f64 {
        match *self {
            Self::WeightedLogistic { negative, positive, .. }
            | Self::WeightedSquaredHinge { negative, positive, .. } => {
                if label > 0.0 {
                    positive
                } else {
                    negative
                }
            }
            _ => 1.0,
        }
    }

    /// The largest weight that a record can have.
    #[must_use]
    pub fn heaviest(&self) -> f64 {
        self.weight(-1.0).max(self.weight(1.0))
    }

    /// The logistic loss in which each class counts half, for classes with these public shares: a
    /// class of share p weighs 1/(2p).
    #[must_use]
    pub fn balanced(negative: f64, positive: f64) -> Self {
        let [negative, positive] = balanced_weights(negative, positive);
        Self::WeightedLogistic { clip: 1.0, negative, positive }
    }

    /// The loss of two classes with these weights, clipped as before; `None` for other losses.
    #[doc(hidden)]
    pub fn with_class_weights(self, [negative, positive]: [f64; 2]) -> Option<Self> {
        match self {
            Self::SquaredHinge { clip } | Self::WeightedSquaredHinge { clip, .. } => {
                Some(Self::WeightedSquaredHinge { clip, negative, positive })
            }
            _ => {
                self.largest_slope().map(|clip| Self::WeightedLogistic { clip, negative, positive })
            }
        }
    }

    /// The loss in which classes count alike and no logistic slope is clipped.
    pub fn without_class_weights(self) -> Self {
        match self {
            Self::WeightedSquaredHinge { clip, .. } => Self::SquaredHinge { clip },
            loss if loss.is_logistic() => Self::Logistic,
            loss => loss,
        }
    }

    /// A logistic loss with its slopes clipped at `clip` before they are weighted; 1 clips nothing.
    /// Other losses stay as they are.
    #[must_use]
    #[doc(hidden)]
    pub fn with_slopes_up_to(self, clip: f64) -> Self {
        match self {
            Self::WeightedLogistic { negative, positive, .. } => {
                Self::WeightedLogistic { clip, negative, positive }
            }
            Self::Logistic | Self::ClippedLogistic { .. } if clip == 1.0 => Self::Logistic,
            Self::Logistic | Self::ClippedLogistic { .. } => Self::ClippedLogistic { clip },
            other => other,
        }
    }

    /// The loss with its slopes clipped at `share` (above 0 and up to 1) of the largest they may have
    /// now; `None` where there is no largest, or no clip that is the same on both sides.
    #[must_use]
    #[doc(hidden)]
    pub fn with_share_of_slopes(self, share: f64) -> Option<Self> {
        let finite = |clip: f64| clip.is_finite().then_some(clip * share);
        match self {
            _ if share >= 1.0 => Some(self),
            Self::Logistic | Self::ClippedLogistic { .. } | Self::WeightedLogistic { .. } => {
                self.largest_slope().map(|most| self.with_slopes_up_to(most * share))
            }
            Self::Ridge { clip } => finite(clip).map(|clip| Self::Ridge { clip }),
            Self::Huber { delta } => finite(delta).map(|delta| Self::Huber { delta }),
            Self::SquaredHinge { clip } => finite(clip).map(|clip| Self::SquaredHinge { clip }),
            Self::WeightedSquaredHinge { clip, negative, positive } => {
                finite(clip).map(|clip| Self::WeightedSquaredHinge { clip, negative, positive })
            }
            _ => None,
        }
    }

    /// The largest slope of a logistic loss before it is weighted; `None` for other losses.
    #[doc(hidden)]
    pub fn largest_slope(&self) -> Option<f64> {
        match *self {
            Self::Logistic => Some(1.0),
            Self::ClippedLogistic { clip } | Self::WeightedLogistic { clip, .. } => Some(clip),
            _ => None,
        }
    }

    /// sup φ'' per unit of ‖z‖²: ¼ for logistic (times the larger weight), 1 for squares, ½ for
    /// softmax.
    #[must_use]
    pub fn curvature(&self) -> f64 {
        by_loss!(self, loss => loss.curvature(), _classes => 0.5)
    }

    /// Σ_j φ(x; z_j, y_j).
    pub(super) fn total(&self, records: &Records, x: &[f64], work: &mut Workspace) -> f64 {
        if let Some(loss) = self.proportional() {
            return loss.total(records, x);
        }
        by_loss!(self, loss => {
            margins(records, x, work);
            loss.values(records.labels(), &mut work.margins);
            work.margins.iter().sum()
        }, classes => softmax_total(records, classes, x))
    }

    /// Σ_j ∇φ(x; z_j, y_j), clipped.
    pub(super) fn gradient(
        &self,
        records: &Records,
        x: &[f64],
        out: &mut [f64],
        work: &mut Workspace,
    ) {
        if let Some(loss) = self.proportional() {
            return loss.gradient(records, x, out);
        }
        by_loss!(
            self,
            loss => kernel::gradient(records.layout(), records.labels(), x, loss, &mut work.scratch, out),
            classes => softmax_gradient(records, classes, x, out)
        );
    }

    /// φ'(margin, label) of a margin loss, clipped.
    pub(super) fn slope(&self, margin: f64, label: f64) -> f64 {
        by_loss!(self, loss => loss.slope_at(margin, label), _classes => unreachable!("a softmax has a slope a class"))
    }

    /// φ' and φ'' of a margin loss.
    pub(super) fn slope_and_curvature(&self, margin: f64, label: f64) -> (f64, f64) {
        by_loss!(
            self,
            loss => (loss.slope_at(margin, label), loss.curvature_at(margin, label)),
            _classes => unreachable!("a softmax has a slope a class")
        )
    }

    /// φ'(margin, label) of every row of a margin loss, clipped, in place of the margins.
    pub(super) fn slopes(&self, labels: &[f64], margins: &mut [f64]) {
        by_loss!(
            self,
            loss => kernel::slopes(loss, labels, margins),
            _classes => unreachable!("a softmax has a slope a class")
        );
    }

    /// Some coordinates of Σ_j ∇φ(x; z_j, y_j), where `rows` are kept as their non-zeros: only
    /// those that have one of them are looked at, and x is written to `point` only if there are
    /// any.
    pub(super) fn sparse_gradient_at(
        &self,
        (rows, records): (&Nonzeros, &Records),
        x: impl FnOnce(&mut [f64]),
        point: &mut [f64],
        coordinates: &[u32],
        out: &mut [f64],
    ) {
        let mut x = Some(x);
        out.fill(0.0);
        for (row, &label) in records.labels().iter().enumerate() {
            let (columns, values) = rows.row(row);
            if !coordinates.iter().any(|l| columns.binary_search(l).is_ok()) {
                continue;
            }
            if let Some(x) = x.take() {
                x(point);
            }
            let slope = self.slope(kernel::sparse_margin((columns, values), point), label);
            for (out, l) in out.iter_mut().zip(coordinates) {
                if let Ok(place) = columns.binary_search(l) {
                    *out += slope * values[place];
                }
            }
        }
    }

    /// The Hessian of Σ_j φ at x, ready to be multiplied with vectors.
    pub(super) fn curvature_at<'a>(
        &self,
        records: &'a Records,
        x: &[f64],
        work: &mut Workspace,
    ) -> Curvature<'a> {
        if let Some(loss) = self.proportional() {
            let weights = loss.curvatures(records, x);
            return Curvature { records, weights, classes: 0, proportional: Some(loss) };
        }
        by_loss!(self, loss => {
            margins(records, x, work);
            let terms = work.margins.iter().zip(records.labels());
            let weights = terms.map(|(&m, &y)| loss.curvature_at(m, y)).collect();
            Curvature { records, weights, classes: 0, proportional: None }
        }, classes => {
            let mut probabilities = vec![0.0; records.len() * classes];
            for (row, p) in probabilities.chunks_exact_mut(classes).enumerate() {
                softmax(records, row, x, p);
            }
            Curvature { records, weights: probabilities, classes, proportional: None }
        })
    }
}

/// A Hessian Σ_j ∇²φ as an operator.
pub(super) struct Curvature<'a> {
    records: &'a Records,
    /// φ'' a row, or the class probabilities a row for softmax.
    weights: Vec<f64>,
    /// 0 for a margin loss.
    classes: usize,
    proportional: Option<Proportional>,
}

impl Curvature<'_> {
    /// `out = H·v`.
    pub(super) fn apply(&self, v: &[f64], out: &mut [f64], work: &mut Workspace) {
        let records = self.records;
        if let Some(loss) = self.proportional {
            return loss.apply(records, &self.weights, v, out);
        }
        if self.classes == 0 {
            kernel::weighted_gram(records.layout(), &self.weights, v, &mut work.scratch, out);
            return;
        }
        out.fill(0.0);
        let features = records.dim();
        for (row, p) in self.weights.chunks_exact(self.classes).enumerate() {
            let z = records.row(row);
            let score = |c: usize| kernel::dot(&z, &v[c * features..(c + 1) * features]);
            let mean: f64 = (0..self.classes).map(|c| p[c] * score(c)).sum();
            for c in 0..self.classes {
                let slope = p[c] * (score(c) - mean);
                kernel::axpy(slope, &z, &mut out[c * features..(c + 1) * features]);
            }
        }
    }
}

/// Margins z_jᵀx into the workspace.
pub(super) fn margins(records: &Records, x: &[f64], work: &mut Workspace) {
    work.margins.resize(records.len(), 0.0);
    kernel::all_margins(records.layout(), x, &mut work.margins);
}

/// Class probabilities of one row into `p`; returns log Σ exp of the scores.
fn softmax(records: &Records, row: usize, x: &[f64], p: &mut [f64]) -> f64 {
    let (z, features) = (records.row(row), records.dim());
    for (c, p) in p.iter_mut().enumerate() {
        *p = kernel::dot(&z, &x[c * features..(c + 1) * features]);
    }
    let top = p.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut total = 0.0;
    for p in p.iter_mut() {
        *p = libm::exp(*p - top);
        total += *p;
    }
    for p in p.iter_mut() {
        *p /= total;
    }
    top + libm::log(total)
}

fn softmax_total(records: &Records, classes: usize, x: &[f64]) -> f64 {
    let (mut p, features) = (vec![0.0; classes], records.dim());
    (0..records.len())
        .map(|row| {
            let y = records.labels()[row] as usize;
            softmax(records, row, x, &mut p)
                - kernel::dot(&records.row(row), &x[y * features..(y + 1) * features])
        })
        .sum()
}

fn softmax_gradient(records: &Records, classes: usize, x: &[f64], out: &mut [f64]) {
    let (mut p, features) = (vec![0.0; classes], records.dim());
    out.fill(0.0);
    for row in 0..records.len() {
        softmax(records, row, x, &mut p);
        p[records.labels()[row] as usize] -= 1.0;
        let z = records.row(row);
        for (c, &slope) in p.iter().enumerate() {
            kernel::axpy(slope, &z, &mut out[c * features..(c + 1) * features]);
        }
    }
}
