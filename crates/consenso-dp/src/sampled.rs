//! Amplification by subsampling: what a release costs when every record is drawn for it with a
//! secret chance.
//!
//! **Poisson sampling.** Each record takes part in a release with probability `q`, by a coin of its
//! own that nobody sees, fresh for every release; the release is a sum over the records drawn, with
//! noise. Let `A` be the law of the release given that the record in question is not drawn, `B`
//! given that it is drawn, `B′` given that its replacement is. Given everybody else's coins these
//! are the noise's law `f` around three points, and averages over those coins cost no more (the
//! hockey-stick divergence `H_α(P‖Q) = ∫(P − αQ)₊` is jointly convex).
//!
//! **One record added or removed** (`A` against `(1−q)A + qB`; Zhu, Dong and Wang 2022). For
//! `α ≥ 1`, with `α̃ = 1 + (α−1)/q` and `c = 1 − α(1−q)`,
//!
//! ```text
//! H_α((1−q)A + qB ‖ A) = q·H_α̃(B‖A),        H_α(A ‖ (1−q)A + qB) = c·H_{αq/c}(A‖B), or 0 for c ≤ 0,
//! ```
//!
//! both by collecting terms, and `α < 1` follows from `H_α(P‖Q) = 1 − α + α·H_{1/α}(Q‖P)`. Only the
//! divergence of `A` and `B` enters, so one shift by the whole sensitivity is the worst for noise
//! whose divergence grows with the shift. The two directions cost differently: all releases of a
//! run lose a record, or all gain it, so the two compositions are computed apart and the larger ε
//! is taken.
//!
//! **One record replaced** (`P = (1−q)A + qB` against `Q = (1−q)A + qB′`). For `α ≥ 1`, with
//! `β = α/α̃`,
//!
//! ```text
//! P − αQ = q·(B − α̃·((1−β)A + βB′)).
//! ```
//!
//! Let a record's contribution be at most `h` long, so that `A` lies within `h` of `B`, and `B′`
//! within `2h`. For any set `S` with `B(S) = p` the lemma of Neyman and Pearson bounds `A(S)` and
//! `B′(S)` from below by what a half-line of `B`-mass `p` has under the one-dimensional law moved
//! by `h` and by `2h`: it is the *same* half-line, whose likelihood ratio is monotone for every
//! shift. Hence `B(S) − α̃((1−β)A(S) + βB′(S))` is largest on the line, at the shifts `h` and `2h`,
//! which `B` at `h`, `A` at 0 and `B′` at `−h` have: the pair
//!
//! ```text
//! (1−q)f(x) + q·f(x − h)    against    (1−q)f(x) + q·f(x + h),        h = sensitivity/2,
//! ```
//!
//! dominates for every `α ≥ 1`, and by its symmetry for every α. It is attained, so nothing smaller
//! is true. The sensitivity of a replacement is `2h`: contributions are bounded by half of it, as
//! those of clipped gradients and bounded slopes are. Gaussian vectors reduce to one coordinate by
//! rotation; Laplace vectors are post-processing of one coordinate under the l1 norm
//! ([`Mechanism::Laplace`](crate::Mechanism)), so that their trade-off is never below its.
//!
//! **A record that is in a release drawn or not** ([`Sampling::undrawn`]). An agent may keep of every
//! record what it said when it was drawn last, and release the mean of that table beside the sum over
//! the new draws (SAGA; PrivSGP-VR). A record then moves the release by up to `a` in every round,
//! through the table, and by up to `h` more (`2h` apart if it is replaced) in rounds that draw it. Let
//! the noise have variance `σ² = σ₁² + σ₂²`.
//!
//! *Claim.* Such a release costs no more than two: a Gaussian one with `μ = a/σ₁` and a sampled one with
//! sensitivity over noise `2h/σ₂` (or `h/σ₂`), in any adaptive composition.
//!
//! *Proof.* Noise `N(0, σ²)` is the sum of independent `N(0, σ₁²)` and `N(0, σ₂²)`; show the table's part
//! with the first and the draw's part with the second, of which the release is a function. Fix what was
//! shown before and the coins of all other records, of all rounds, which have one law on both data
//! sets. What the table says of the record is then a function of the record's own earlier coins: their
//! law given what was shown may be any, and may differ between the data sets, but whatever they are the
//! two means lie at most `a` apart. Hockey-stick divergences are jointly convex, so that those of two
//! mixtures, by whatever weights, are at most the largest of their parts: the first is dominated by a
//! Gaussian shift of `a/σ₁`. The coin of this round is independent of everything before, of that first
//! part too. Given all earlier coins the second part is a sampled release with contributions of at most
//! `h`, and by the same convexity it is dominated by the pairs above. Both bounds hold for every history,
//! so rounds compose as dominating pairs do. ∎
//!
//! `σ₁²` is `a/(a + q·2h)` of the variance, which is best where a round tells little: there a draw is
//! worth a shift of `q·2h`, and the two together cost what a shift of `a + q·2h` does.
//!
//! Domination is by pairs, so it survives adaptive composition with anything else whose dominating
//! pair is known (Zhu, Dong and Wang 2022, Theorem 10); [`pld`](super::pld) composes the
//! tables made here, `rdp` the moments.

use super::random::Stream;
use super::round::{UNIT, up};
use super::{AccountingError, NeighbourRelation, rdp};
use rand::Rng as _;
use serde::{Deserialize, Serialize};
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::ops::Range;

/// How records are drawn for a release: each with the same secret chance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// The chance of a record to be drawn, from 0 to 1.
    pub rate: f64,
    /// What sensitivities are about. Where a record is replaced, its contribution is at most half
    /// the sensitivity long.
    pub neighbours: NeighbourRelation,
    /// How far a record moves a release beside that whether it is drawn for it or not, over the
    /// sensitivity; 0 where only draws are released.
    #[serde(default)]
    pub undrawn: f64,
}

impl Sampling {
    /// Releases of nothing but sums over the records that are drawn.
    #[must_use]
    pub fn new(rate: f64, neighbours: NeighbourRelation) -> Self {
        Self { rate, neighbours, undrawn: 0.0 }
    }
}

/// Draws a Poisson sample: the places of the records that are in it, each with a probability of at
/// most `rate`, which is short of it by less than 2⁻⁵³. A smaller rate costs no more: its two laws
/// are mixtures of those of a larger one and of the law without the record.
#[must_use]
pub fn draw(stream: &mut Stream, rate: f64, records: usize) -> Vec<usize> {
    const PARTS: f64 = (1u64 << 53) as f64;
    // A product with a power of two is exact, and so is the floor.
    let below = (rate.clamp(0.0, 1.0) * PARTS).floor() as u64;
    (0..records).filter(|_| stream.next_u64() >> 11 < below).collect()
}

/// Checks what is asked of a sampled release.
pub(crate) fn check(sampling: Sampling) -> Result<(), AccountingError> {
    let Sampling { rate, neighbours, undrawn } = sampling;
    if !(rate > 0.0 && rate <= 1.0) {
        let expected = "a chance above 0 and at most 1";
        return Err(AccountingError::BadParameter { name: "sampling", expected, found: rate });
    }
    if neighbours == NeighbourRelation::Paper {
        return Err(AccountingError::UnknownNeighbours { neighbours });
    }
    if !(undrawn >= 0.0 && undrawn.is_finite()) {
        let expected = "a finite number, 0 or more";
        return Err(AccountingError::BadParameter { name: "undrawn", expected, found: undrawn });
    }
    Ok(())
}

/// Shifts beyond this many deviations are charged as if every record were drawn: an ε of hundreds
/// has no use for amplification.
const LARGEST_SHIFT: f64 = 20.0;
/// At most so many kinds of sampled release are told apart; shifts are rounded up until there are
/// no more.
const MOST_KINDS: usize = 48;
/// Mantissa bits a shift keeps at first: rounds whose ratio of step to noise differs by rounding
/// alone are one kind.
const SHIFT_BITS: u32 = 34;
/// How far the quadrature of moments reaches, in deviations; orders whose mass lies beyond are
/// charged as if every record were drawn.
const REACH: f64 = 40.0;
/// Widest panel of the four-point rule, relative to the scale on which densities bend.
const PANEL: f64 = 0.02;
/// Relative error of a mass in a [`Table`]: quadrature (below 1e-14 on panels this narrow, since
/// densities are entire between their kinks), exponentials and the sum.
pub(crate) const MASS_ERROR: f64 = 1e-13;

/// Terms of a sum that are added up before they meet the rest.
const BLOCK: usize = 256;

/// Nodes and weights of the four-point Gauss–Legendre rule on [−1, 1].
const RULE: [(f64, f64); 4] = [
    (-0.861_136_311_594_052_6, 0.347_854_845_137_453_85),
    (-0.339_981_043_584_856_26, 0.652_145_154_862_546_2),
    (0.339_981_043_584_856_26, 0.652_145_154_862_546_2),
    (0.861_136_311_594_052_6, 0.347_854_845_137_453_85),
];

/// The law of the noise, at scale 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Law {
    Gaussian,
    Laplace,
}

impl Law {
    fn density(self, x: f64) -> f64 {
        match self {
            Self::Gaussian => (-0.5 * x * x).exp() / (2.0 * PI).sqrt(),
            Self::Laplace => 0.5 * (-x.abs()).exp(),
        }
    }

    /// Mass above `x`.
    fn above(self, x: f64) -> f64 {
        match self {
            Self::Gaussian => 0.5 * libm::erfc(x * FRAC_1_SQRT_2),
            Self::Laplace if x >= 0.0 => 0.5 * (-x).exp(),
            Self::Laplace => 1.0 - 0.5 * x.exp(),
        }
    }

    /// `ln f(x − shift)/f(x)`.
    fn ratio(self, x: f64, shift: f64) -> f64 {
        match self {
            Self::Gaussian => shift * (x - 0.5 * shift),
            Self::Laplace => x.abs() - (x - shift).abs(),
        }
    }

    /// The `x` where [`Self::ratio`] is `u`, infinite where it is nowhere so large.
    fn at_ratio(self, u: f64, shift: f64) -> f64 {
        match self {
            Self::Gaussian => u / shift + 0.5 * shift,
            // The ratio is −|shift| on one side of [0, shift] and |shift| on the other.
            Self::Laplace if u.abs() <= shift.abs() => 0.5 * (u * shift.signum() + shift),
            Self::Laplace => f64::INFINITY * u.signum() * shift.signum(),
        }
    }
}

/// `count` sampled releases of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampled {
    pub(crate) law: Law,
    /// The whole sensitivity over the noise's scale.
    pub(crate) shift: f64,
    /// The chance of a record to be drawn, inside (0, 1).
    pub(crate) rate: f64,
    /// Whether a record is replaced; else added or removed.
    pub(crate) replace: bool,
    pub(crate) count: u64,
}

impl Sampled {
    /// Whether it is worth telling from a release that draws every record.
    pub(crate) fn is_amplified(&self) -> bool {
        self.shift <= LARGEST_SHIFT
    }

    /// The dominating pairs: one a direction.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let (law, none) = (self.law, Part { rate: 0.0, shift: 0.0 });
        let part = |shift| Part { rate: self.rate, shift };
        if self.replace {
            let half = 0.5 * self.shift;
            return vec![Pair { law, p: part(half), q: part(-half) }];
        }
        vec![
            Pair { law, p: part(self.shift), q: none },
            Pair { law, p: none, q: part(-self.shift) },
        ]
    }

    /// The pure ε of a sampled Laplace release, rounded up: the largest loss of its pairs.
    pub(crate) fn pure(&self) -> Option<f64> {
        if self.law == Law::Gaussian {
            return None;
        }
        Some(up(self.pairs().iter().map(Pair::supremum).fold(0.0, f64::max)))
    }

    /// The Rényi cost if every record were drawn: sampling never costs more (divergences are jointly
    /// convex).
    fn whole(&self, order: f64) -> f64 {
        match self.law {
            Law::Gaussian => order * self.shift * self.shift / 2.0 * (1.0 + 4.0 * UNIT),
            Law::Laplace => rdp::laplace_cost(self.shift, order),
        }
    }
}

/// Divides the noise between what a record moves in every release and what it moves when it is drawn
/// with probability `rate`, both over σ: μ² of the one, and the shift of the other, rounded up.
pub(crate) fn divided(undrawn: f64, drawn: f64, rate: f64) -> (f64, f64) {
    if undrawn == 0.0 || drawn == 0.0 {
        return ((undrawn * undrawn).next_up(), drawn);
    }
    // Any division is valid: rounding of the parts is what must go up.
    let (table, draw) = (undrawn, rate * drawn);
    let slack = 1.0 + 8.0 * UNIT;
    (undrawn * (table + draw) * slack, drawn * ((table + draw) / draw).sqrt() * slack)
}

/// Sorts releases and merges equal ones; where too many kinds are left, shifts are rounded up.
pub(crate) fn merge(releases: &mut Vec<Sampled>) {
    let mut bits = SHIFT_BITS;
    loop {
        releases.iter_mut().for_each(|release| release.shift = raised(release.shift, bits));
        let key = |s: &Sampled| (s.law, s.replace, s.rate.to_bits(), s.shift.to_bits());
        releases.sort_by_key(key);
        releases.dedup_by(|next, kept| {
            let same = key(next) == key(kept);
            if same {
                kept.count = kept.count.saturating_add(next.count);
            }
            same
        });
        if releases.len() <= MOST_KINDS || bits <= 2 {
            return;
        }
        bits -= 1;
    }
}

/// The least number of so many mantissa bits that is not below `x ≥ 0`.
fn raised(x: f64, bits: u32) -> f64 {
    let mask = (1u64 << (52 - bits)) - 1;
    let cut = f64::from_bits(x.to_bits() & !mask);
    if cut < x { f64::from_bits(cut.to_bits() + mask + 1) } else { cut }
}

/// A law that is a mixture: `(1 − rate)·f(x) + rate·f(x − shift)`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    rate: f64,
    shift: f64,
}

impl Part {
    fn density(self, law: Law, x: f64) -> f64 {
        let rest = (1.0 - self.rate) * law.density(x);
        if self.rate == 0.0 { rest } else { rest + self.rate * law.density(x - self.shift) }
    }

    fn above(self, law: Law, x: f64) -> f64 {
        (1.0 - self.rate) * law.above(x) + self.rate * law.above(x - self.shift)
    }

    /// `ln` of the mixture over `f`, without cancellation.
    fn log_ratio(self, law: Law, x: f64) -> f64 {
        if self.rate == 0.0 {
            return 0.0;
        }
        log_mixture(self.rate, law.ratio(x, self.shift))
    }

    /// The `u` at which `ln(1 − rate + rate·e^u)` is `loss`; −∞ where it is always more.
    fn ratio_at(self, loss: f64) -> f64 {
        if loss > 600.0 {
            return loss - self.rate.ln();
        }
        let inner = loss.exp_m1() / self.rate;
        if inner <= -1.0 { f64::NEG_INFINITY } else { inner.ln_1p() }
    }
}

/// `ln(1 − rate + rate·e^u)`.
fn log_mixture(rate: f64, u: f64) -> f64 {
    if u < 600.0 { (rate * u.exp_m1()).ln_1p() } else { u + rate.ln() }
}

/// Two mixtures on a line, `P` shifted to the right and `Q` to the left, so that the loss `ln P/Q`
/// grows with `x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pair {
    law: Law,
    p: Part,
    q: Part,
}

impl Pair {
    fn loss(&self, x: f64) -> f64 {
        self.p.log_ratio(self.law, x) - self.q.log_ratio(self.law, x)
    }

    /// The loss at `x`, raised by what rounding may have taken from it.
    fn loss_up(&self, x: f64) -> f64 {
        let loss = self.loss(x);
        let reach = self.p.shift + self.q.shift.abs();
        loss + 8.0 * UNIT * (reach * (x.abs() + reach) + loss.abs())
    }

    /// The largest loss, infinite under Gaussian noise unless only `Q` is a mixture.
    fn supremum(&self) -> f64 {
        match self.law {
            Law::Gaussian if self.p.rate > 0.0 => f64::INFINITY,
            Law::Gaussian => -(-self.q.rate).ln_1p(),
            Law::Laplace => {
                let end = |part: Part, sign: f64| {
                    if part.rate == 0.0 { 0.0 } else { log_mixture(part.rate, sign * part.shift) }
                };
                // Far to the right f(x − a)/f(x) is e^a.
                end(self.p, 1.0) - end(self.q, 1.0)
            }
        }
    }

    /// The `x` where the loss is `loss`; infinite where it is nowhere so large.
    fn at_loss(&self, loss: f64) -> f64 {
        let law = self.law;
        if self.q.rate == 0.0 {
            return law.at_ratio(self.p.ratio_at(loss), self.p.shift);
        }
        if self.p.rate == 0.0 {
            return law.at_ratio(self.q.ratio_at(-loss), self.q.shift);
        }
        // A replacement is symmetric about 0.
        if loss <= 0.0 {
            return if loss == 0.0 { 0.0 } else { -self.at_loss(-loss) };
        }
        let (rate, half) = (self.p.rate, self.p.shift);
        match law {
            Law::Gaussian => {
                // With y = e^{hx}: qc·y² − (1−q)(e^loss − 1)·y − qc·e^loss = 0, c = e^{−h²/2}.
                let lead = rate * (-0.5 * half * half).exp();
                let middle = (1.0 - rate) * loss.exp_m1();
                let root = middle.hypot(2.0 * lead * (0.5 * loss).exp());
                ((middle + root) / (2.0 * lead)).ln() / half
            }
            // To the right of 0 the ratio of Q stands still.
            Law::Laplace => {
                let rest = log_mixture(rate, -half);
                law.at_ratio(self.p.ratio_at(loss + rest), half)
            }
        }
    }

    /// Where densities have kinks, in order.
    fn kinks(&self) -> Vec<f64> {
        if self.law == Law::Gaussian {
            return Vec::new();
        }
        let mut kinks = vec![self.q.shift, 0.0, self.p.shift];
        kinks.dedup();
        kinks
    }

    /// Between these the law is integrated; outside of them `P` has at most `tail` on either side
    /// (Gaussian), or the loss stands still (Laplace).
    fn range(&self, tail: f64) -> Range<f64> {
        match self.law {
            Law::Laplace => self.q.shift..self.p.shift,
            Law::Gaussian => {
                let (mut low, mut high) = (self.p.shift, self.p.shift + REACH);
                for _ in 0..60 {
                    let middle = 0.5 * (low + high);
                    if self.p.above(Law::Gaussian, middle) > tail {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                // What lies to the left is raised to where the range begins: 1e-15 of the mass.
                -8.0..high
            }
        }
    }

    /// Widest panel of a quadrature in multiples of [`PANEL`].
    fn panel(&self) -> f64 {
        PANEL / (self.p.shift - self.q.shift).max(1.0)
    }

    /// Masses of `P` and their losses: a quadrature of moments of orders up to [`Moments::trusted`].
    fn nodes(&self) -> Vec<(f64, f64)> {
        let mut nodes = Vec::new();
        let range = match self.law {
            Law::Gaussian => self.q.shift - 14.0..self.p.shift + REACH,
            Law::Laplace => {
                let (low, high) = (self.q.shift, self.p.shift);
                nodes.push((self.p.above(self.law, high), self.loss(high)));
                nodes.push((self.p.above_mirrored(self.law, low), self.loss(low)));
                low..high
            }
        };
        let mut ends = vec![range.start];
        ends.extend(self.kinks().into_iter().filter(|k| *k > range.start && *k < range.end));
        ends.push(range.end);
        for piece in ends.windows(2) {
            let panels = ((piece[1] - piece[0]) / (2.0 * self.panel())).ceil().max(1.0);
            let half = 0.5 * (piece[1] - piece[0]) / panels;
            for panel in 0..panels as usize {
                let centre = piece[0] + half * (2.0 * panel as f64 + 1.0);
                nodes.extend(RULE.map(|(node, weight)| {
                    let x = centre + half * node;
                    (half * weight * self.p.density(self.law, x), self.loss(x))
                }));
            }
        }
        nodes.retain(|(mass, _)| *mass > 0.0);
        nodes
    }
}

impl Part {
    /// Mass below `x`, by the symmetry of `f`.
    fn above_mirrored(self, law: Law, x: f64) -> f64 {
        (1.0 - self.rate) * law.above(-x) + self.rate * law.above(self.shift - x)
    }
}

/// The loss of one direction of one release on the grid `{jΔ}`, by connect-the-dots: never smaller
/// in any δ(ε), of itself or of anything composed with it.
///
/// The mass of a cell is split between its ends so that its mass under `Q` stays what it was. The
/// share of the upper end, `∫(1 − e^{jΔ − L})dP/(1 − e^{−Δ})`, is integrated as it stands: nothing
/// cancels. What rounding leaves open moves mass upwards.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) count: u64,
    /// Grid index of `masses[0]`.
    pub(crate) first: i64,
    pub(crate) masses: Vec<f64>,
    /// What lies beyond the table, as if its loss were infinite.
    pub(crate) infinite: f64,
}

impl Table {
    /// The table of `pair` at this spacing; what is left out above has at most `tail` of the mass.
    /// `None` if it would have more than `longest` entries.
    pub(crate) fn new(
        pair: &Pair,
        count: u64,
        spacing: f64,
        tail: f64,
        longest: usize,
    ) -> Option<Self> {
        let range = pair.range(tail);
        let top = pair.loss_up(range.end);
        let first = (pair.loss(range.start) / spacing).floor();
        let length = (top / spacing).ceil() - first + 3.0;
        if length.is_nan() || length > longest as f64 {
            return None;
        }
        let mut table =
            Self { count, first: first as i64, masses: vec![0.0; length as usize], infinite: 0.0 };
        let split = Split { spacing, width: -(-spacing).exp_m1() };
        table.add_tails(pair, &range, &split);
        table.add_inside(pair, &range, &split);
        Some(table)
    }

    /// What lies outside the range of integration.
    fn add_tails(&mut self, pair: &Pair, range: &Range<f64>, split: &Split) {
        let below = pair.p.above_mirrored(pair.law, range.start) * (1.0 + MASS_ERROR);
        let above = pair.p.above(pair.law, range.end) * (1.0 + MASS_ERROR);
        let last = self.masses.len() - 1;
        match pair.law {
            Law::Laplace => {
                for (mass, x) in [(below, range.start), (above, range.end)] {
                    let loss = pair.loss_up(x);
                    let cell = ((loss / split.spacing).floor() as i64 - self.first).max(0) as usize;
                    let cell = cell.min(last - 1);
                    self.put(cell, mass, mass * split.share(self.first + cell as i64, loss));
                }
            }
            Law::Gaussian => {
                self.masses[1] += below;
                self.infinite = above;
            }
        }
    }

    fn put(&mut self, cell: usize, mass: f64, upper: f64) {
        let upper = upper.clamp(0.0, mass);
        self.masses[cell] += mass - upper;
        self.masses[cell + 1] += upper;
    }

    fn add_inside(&mut self, pair: &Pair, range: &Range<f64>, split: &Split) {
        let (kinks, widest, last) = (pair.kinks(), pair.panel(), self.masses.len() - 2);
        let (mut x, mut cell) = (range.start, 0);
        let edge = |first: i64, cell: usize| {
            pair.at_loss((first + cell as i64 + 1) as f64 * split.spacing)
        };
        let mut next_edge = edge(self.first, 0);
        while x < range.end {
            while next_edge <= x && cell < last {
                cell += 1;
                next_edge = edge(self.first, cell);
            }
            let kink = kinks.iter().copied().find(|k| *k > x).unwrap_or(f64::INFINITY);
            let end = (x + widest).min(kink).min(range.end).min(next_edge.max(x.next_up()));
            let (half, centre) = (0.5 * (end - x), 0.5 * (x + end));
            let (mut mass, mut upper) = (0.0, 0.0);
            for (node, weight) in RULE {
                let at = centre + half * node;
                let here = half * weight * pair.p.density(pair.law, at);
                mass += here;
                upper += here * split.share(self.first + cell as i64, pair.loss_up(at));
            }
            self.put(cell, mass, upper);
            x = end;
        }
    }

    /// `ln Σ p e^{θl}` without what is infinite, and mean and variance of the loss under these
    /// weights.
    pub(crate) fn tilted(&self, spacing: f64, tilt: f64) -> Moment {
        let loss = |position: usize| (self.first + position as i64) as f64 * spacing;
        let largest = tilt.abs() * loss(0).abs().max(loss(self.masses.len()).abs());
        // Relative to the largest exponent that has any mass, so that nothing overflows.
        let shift = if largest > 600.0 {
            let exponents = self.masses.iter().enumerate().filter(|(_, mass)| **mass > 0.0);
            exponents
                .map(|(position, mass)| mass.ln() + tilt * loss(position))
                .fold(f64::NEG_INFINITY, f64::max)
        } else {
            0.0
        };
        let weight = |position: usize| {
            let (mass, exponent) = (self.masses[position], tilt * loss(position));
            if shift == 0.0 { mass * exponent.exp() } else { (mass.ln() + exponent - shift).exp() }
        };
        // Sums of sums, so that rounding grows with the length of a block and not of the table.
        let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
        for start in (0..self.masses.len()).step_by(BLOCK) {
            let (mut block, mut block_first, mut block_second) = (0.0, 0.0, 0.0);
            for position in start..(start + BLOCK).min(self.masses.len()) {
                let (weight, loss) = (weight(position), loss(position));
                block += weight;
                block_first += weight * loss;
                block_second += weight * loss * loss;
            }
            total += block;
            first += block_first;
            second += block_second;
        }
        let mean = first / total;
        let blocks = (self.masses.len() / BLOCK + BLOCK + 16) as f64;
        Moment {
            logarithm: shift + total.ln(),
            error: UNIT * (blocks + 4.0 * largest),
            variance: (second / total - mean * mean).max(0.0),
        }
    }
}

/// A moment of a [`Table`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// `ln E e^{θL}`.
    pub(crate) logarithm: f64,
    /// How far rounding may have moved it.
    pub(crate) error: f64,
    /// Variance of the loss under the tilted law.
    pub(crate) variance: f64,
}

/// How a cell's mass is split between its ends.
struct Split {
    spacing: f64,
    width: f64,
}

impl Split {
    /// The share of the upper end of cell `cell`.
    fn share(&self, cell: i64, loss: f64) -> f64 {
        (-(cell as f64 * self.spacing - loss).exp_m1() / self.width).clamp(0.0, 1.0)
    }
}

/// The moments of one kind of release: Rényi costs at any order.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    release: Sampled,
    directions: Vec<Vec<(f64, f64)>>,
}

impl Moments {
    pub(crate) fn new(release: &Sampled) -> Self {
        Self { release: *release, directions: release.pairs().iter().map(Pair::nodes).collect() }
    }

    /// `E L²` in one direction.
    pub(crate) fn variance(&self, direction: usize) -> f64 {
        self.directions[direction].iter().map(|(mass, loss)| mass * loss * loss).sum()
    }

    /// The largest order whose mass lies within the quadrature: that of the tilted law is at most
    /// `order·shift`, one deviation wide.
    fn trusted(&self) -> f64 {
        match self.release.law {
            Law::Gaussian => (REACH - 10.0) / self.release.shift,
            Law::Laplace => f64::INFINITY,
        }
    }

    /// The Rényi cost of one release at `order`, the larger of both directions, rounded up.
    pub(crate) fn cost(&self, order: f64) -> f64 {
        let whole = self.release.whole(order);
        if order > self.trusted() {
            return whole;
        }
        let tilt = order - 1.0;
        let direction = |nodes: &Vec<(f64, f64)>| {
            // E e^{θL} − 1 = E g(L) with g(l) = e^{θl} − 1 − θ(1 − e^{−l}) ≥ 0, for E e^{−L} = 1.
            let excess: f64 = nodes
                .iter()
                .map(|&(mass, loss)| {
                    let exponent = tilt * loss;
                    if exponent > 30.0 {
                        (mass.ln() + exponent).exp()
                    } else {
                        mass * excess(tilt, loss)
                    }
                })
                .sum();
            excess.max(0.0).ln_1p() / tilt
        };
        let found = self.directions.iter().map(direction).fold(0.0, f64::max);
        // Quadrature and rounding are below 1e-10 relative.
        let found = found * (1.0 + 1e-9) + f64::MIN_POSITIVE;
        // A NaN (an overflow) must not pass for a small number.
        if found < whole { found } else { whole }
    }
}

/// `e^{θl} − 1 − θ(1 − e^{−l})`, by its series where it would cancel.
fn excess(tilt: f64, loss: f64) -> f64 {
    if (tilt + 1.0) * loss.abs() < 1e-2 {
        let term = |k: i32, factorial: f64| {
            (tilt.powi(k) + if k % 2 == 0 { tilt } else { -tilt }) * loss.powi(k) / factorial
        };
        return term(2, 2.0) + term(3, 6.0) + term(4, 24.0) + term(5, 120.0) + term(6, 720.0);
    }
    (tilt * loss).exp_m1() + tilt * (-loss).exp_m1()
}

#[cfg(test)]
mod tests {
    use crate::pld::LossDistribution;
    use crate::{Event, NeighbourRelation, Profile, Sampling, compose};

    const RELATIONS: [NeighbourRelation; 2] =
        [NeighbourRelation::AddRemove, NeighbourRelation::ReplaceOne];

    /// The two laws of one release, densities written down from the definition.
    type Laws = (Box<dyn Fn(f64) -> f64>, Box<dyn Fn(f64) -> f64>);

    fn density(gaussian: bool, x: f64) -> f64 {
        if gaussian {
            (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
        } else {
            (-x.abs()).exp() / 2.0
        }
    }

    /// P and Q in every direction.
    fn laws(gaussian: bool, shift: f64, rate: f64, relation: NeighbourRelation) -> Vec<Laws> {
        let mixed = move |by: f64| -> Box<dyn Fn(f64) -> f64> {
            Box::new(move |x| {
                (1.0 - rate) * density(gaussian, x) + rate * density(gaussian, x - by)
            })
        };
        let plain = || -> Box<dyn Fn(f64) -> f64> { Box::new(move |x| density(gaussian, x)) };
        if relation == NeighbourRelation::ReplaceOne {
            return vec![(mixed(shift / 2.0), mixed(-shift / 2.0))];
        }
        vec![(mixed(shift), plain()), (plain(), mixed(shift))]
    }

    /// ∫ (P − e^ε Q)₊ by the midpoint rule.
    fn by_quadrature((p, q): &Laws, epsilon: f64) -> f64 {
        let (low, cells) = (-40.0, 160_000);
        let width = -2.0 * low / f64::from(cells);
        (0..cells)
            .map(|k| low + (f64::from(k) + 0.5) * width)
            .map(|x| (p(x) - epsilon.exp() * q(x)).max(0.0) * width)
            .sum()
    }

    fn event(gaussian: bool, shift: f64, count: u64) -> Event {
        if gaussian { Event::gaussian(shift, count) } else { Event::laplace(shift, count) }
    }

    #[test]
    fn one_release_has_the_delta_of_its_densities_in_every_direction() {
        for (gaussian, shift, rate) in [
            (true, 0.5, 0.1),
            (true, 2.0, 0.01),
            (true, 0.05, 0.5),
            (false, 1.0, 0.1),
            (false, 0.3, 0.9),
            (false, 4.0, 0.002),
        ] {
            for relation in RELATIONS {
                let one = event(gaussian, shift, 1).sampled(rate, relation).unwrap();
                let profile = Profile::new(&[one]).unwrap();
                let laws = laws(gaussian, shift, rate, relation);
                assert_eq!(laws.len(), profile.directions());
                for (direction, laws) in laws.iter().enumerate() {
                    for part in [0.0, 0.1, 0.5, 1.0, 1.5] {
                        let epsilon = part * rate * shift.exp_m1();
                        let truth = by_quadrature(laws, epsilon);
                        // Tilted for what is asked.
                        let near = truth.clamp(1e-12, 0.5);
                        let found = LossDistribution::compose(&profile, direction, near).unwrap();
                        let delta = found.delta(epsilon);
                        let what =
                            format!("{gaussian} {shift} {rate} {relation} {direction} {epsilon}");
                        assert!(
                            delta >= truth * (1.0 - 1e-6) - 1e-13,
                            "{what}: {delta:e} {truth:e}"
                        );
                        assert!(
                            delta <= truth * (1.0 + 2e-3) + 1e-9,
                            "{what}: {delta:e} {truth:e}"
                        );
                    }
                }
            }
        }
    }

    /// The worst instance of records that a release holds drawn or not: every shift along one line.
    /// Noise divided in two may cost more than it, and never less.
    #[test]
    fn a_record_that_is_in_every_release_costs_no_less_than_its_densities_say() {
        let mixture = |table: f64, draw: f64, rate: f64| -> Box<dyn Fn(f64) -> f64> {
            Box::new(move |x| {
                (1.0 - rate) * density(true, x - table) + rate * density(true, x - table - draw)
            })
        };
        for relation in RELATIONS {
            for (mu, undrawn, rate) in
                [(0.5, 0.05, 0.1), (2.0, 0.5, 0.3), (0.05, 0.05, 0.9), (4.0, 0.01, 0.002)]
            {
                let how = Sampling { undrawn: undrawn / mu, ..Sampling::new(rate, relation) };
                let event = Event::gaussian(mu, 1).drawn(how).unwrap();
                let profile = Profile::new(&[event]).unwrap();
                let laws: Vec<Laws> = if relation == NeighbourRelation::ReplaceOne {
                    let (a, h) = (0.5 * undrawn, 0.5 * mu);
                    vec![(mixture(a, h, rate), mixture(-a, -h, rate))]
                } else {
                    let (with, without) =
                        (|| mixture(undrawn, mu, rate), || mixture(0.0, 0.0, rate));
                    vec![(with(), without()), (without(), with())]
                };
                for (direction, laws) in laws.iter().enumerate() {
                    for epsilon in [0.01, 0.1, 0.4, 1.0] {
                        let truth = by_quadrature(laws, epsilon);
                        let near = truth.clamp(1e-12, 0.5);
                        let found = LossDistribution::compose(&profile, direction, near).unwrap();
                        let delta = found.delta(epsilon);
                        let what = format!("{relation} {mu} {undrawn} {rate} {epsilon}");
                        assert!(delta >= truth * (1.0 - 1e-6) - 1e-13, "{what}: {delta} {truth}");
                    }
                }
            }
        }
    }

    /// Where a round tells little a draw is worth a shift of its chance times its own, and the whole
    /// costs what a Gaussian release with the sum of both shifts does.
    #[test]
    fn a_record_in_every_release_adds_its_shift_to_that_of_its_draws() {
        let how = Sampling { undrawn: 0.1, ..Sampling::new(0.1, NeighbourRelation::ReplaceOne) };
        let (mu, rounds) = (0.05, 4000);
        let event = Event::gaussian(mu, rounds).drawn(how).unwrap();
        let found = compose(&[event], 1e-6).unwrap().best().unwrap().1;
        let sum = mu * (0.1 + 0.1) * (rounds as f64).sqrt();
        let limit = compose(&[Event::gaussian(sum, 1)], 1e-6).unwrap().best().unwrap().1;
        assert!(found > limit * (1.0 - 1e-3) && found < 1.02 * limit, "{found} {limit}");
        // And never more than as if every record were drawn.
        let whole = compose(&[Event::gaussian(1.1 * mu, rounds)], 1e-6).unwrap().best().unwrap().1;
        assert!(found < whole);
        let all = Sampling { rate: 1.0, ..how };
        let all = compose(&[Event::gaussian(mu, rounds).drawn(all).unwrap()], 1e-6).unwrap();
        assert!((all.best().unwrap().1 / whole - 1.0).abs() < 1e-6);
    }

    #[test]
    fn two_releases_have_the_delta_of_the_product_of_their_densities() {
        let cells = 700;
        let (low, width) = (-9.0, 20.0 / f64::from(cells));
        for relation in RELATIONS {
            let (shift, rate) = (1.2, 0.3);
            let events = [
                Event::gaussian(shift, 1).sampled(rate, relation).unwrap(),
                Event::gaussian(0.5, 1).sampled(0.6, relation).unwrap(),
            ];
            let profile = Profile::new(&events).unwrap();
            let pairs =
                laws(true, shift, rate, relation).into_iter().zip(laws(true, 0.5, 0.6, relation));
            for (direction, (one, other)) in pairs.enumerate() {
                let at = |law: &dyn Fn(f64) -> f64| -> Vec<f64> {
                    (0..cells).map(|k| law(low + (f64::from(k) + 0.5) * width) * width).collect()
                };
                let (p, q) = (at(&one.0), at(&one.1));
                let (r, s) = (at(&other.0), at(&other.1));
                for epsilon in [0.2f64, 0.6] {
                    let factor = epsilon.exp();
                    let truth: f64 = (0..cells as usize)
                        .flat_map(|i| (0..cells as usize).map(move |j| (i, j)))
                        .map(|(i, j)| (p[i] * r[j] - factor * q[i] * s[j]).max(0.0))
                        .sum();
                    let found = LossDistribution::compose(&profile, direction, truth).unwrap();
                    let ratio = found.delta(epsilon) / truth;
                    assert!(ratio > 1.0 - 1e-4 && ratio < 1.002, "{relation} {direction}: {ratio}");
                }
            }
        }
    }

    /// The claim of the module's proof: no contributions within half the sensitivity, in any
    /// directions of the plane, tell more apart than the pair on the line.
    #[test]
    fn no_replacement_in_the_plane_tells_more_than_the_pair_on_the_line() {
        let (half, rate, cells) = (0.9f64, 0.25, 150);
        let (low, width) = (-5.5, 11.0 / f64::from(cells));
        let at = |k: i32| low + (f64::from(k) + 0.5) * width;
        let mixed = |x: f64, y: f64, (a, b): (f64, f64)| {
            let here = density(true, x) * density(true, y);
            (1.0 - rate) * here + rate * density(true, x - a) * density(true, y - b)
        };
        let delta = |old: (f64, f64), new: (f64, f64), epsilon: f64| -> f64 {
            let cell = |(i, j): (i32, i32)| {
                let (x, y) = (at(i), at(j));
                (mixed(x, y, old) - epsilon.exp() * mixed(x, y, new)).max(0.0) * width * width
            };
            (0..cells).flat_map(|i| (0..cells).map(move |j| (i, j))).map(cell).sum()
        };
        for epsilon in [0.0, 0.2, 0.5] {
            let worst = delta((half, 0.0), (-half, 0.0), epsilon);
            for angle in [0.0f64, 0.7, 1.6, 2.6] {
                for length in [0.0, 0.5 * half, half] {
                    let other = (length * angle.cos(), length * angle.sin());
                    assert!(delta((half, 0.0), other, epsilon) <= worst + 1e-6);
                    assert!(delta(other, (half, 0.0), epsilon) <= worst + 1e-6);
                }
            }
        }
    }

    #[test]
    fn drawing_everybody_is_not_sampling_and_drawing_nobody_is_free() {
        for relation in RELATIONS {
            for gaussian in [true, false] {
                let whole = event(gaussian, 0.3, 20);
                let all = whole.clone().sampled(1.0, relation).unwrap();
                assert_eq!(
                    compose(&[all], 1e-6).unwrap(),
                    compose(std::slice::from_ref(&whole), 1e-6).unwrap()
                );
                let none = whole.sampled(0.0, relation).unwrap();
                let free = compose(&[none], 1e-6).unwrap();
                assert!(free.bounds().iter().all(|(_, bound)| bound.value() == Some(0.0)));
            }
        }
    }

    #[test]
    fn epsilon_falls_with_the_rate_and_approaches_both_ends() {
        for relation in RELATIONS {
            for gaussian in [true, false] {
                let pld = |rate: f64| {
                    let one = event(gaussian, 0.4, 50).sampled(rate, relation).unwrap();
                    compose(&[one], 1e-6).unwrap().pld.value().unwrap()
                };
                let rates = [1e-6, 1e-3, 0.05, 0.3, 0.8, 0.999, 0.999_999, 1.0];
                let all = rates.map(pld);
                assert!(
                    all.is_sorted_by(|a, b| *a <= b * (1.0 + 1e-9)),
                    "{relation} {gaussian}: {all:?}"
                );
                assert!(all[0] < 1e-3, "{relation} {gaussian}: {all:?}");
                assert!(all[6] > all[7] * 0.9999, "{relation} {gaussian}: {all:?}");
            }
        }
    }

    #[test]
    fn a_sampled_laplace_release_is_pure_at_the_known_price() {
        let one = Event::laplace(1.0, 1).sampled(0.1, NeighbourRelation::AddRemove).unwrap();
        let found = compose(&[one], 1e-6).unwrap();
        let known = (1.0 + 0.1 * (1f64.exp() - 1.0)).ln();
        assert!((found.pure.value().unwrap() / known - 1.0).abs() < 1e-9);
        assert!(found.best().unwrap().1 <= known * (1.0 + 1e-9));
        let half = 0.5f64;
        let replaced = Event::laplace(1.0, 1).sampled(0.1, NeighbourRelation::ReplaceOne).unwrap();
        let known = ((0.9 + 0.1 * half.exp()) / (0.9 + 0.1 * (-half).exp())).ln();
        let found = compose(&[replaced], 1e-6).unwrap().pure.value().unwrap();
        assert!((found / known - 1.0).abs() < 1e-9);
    }

    /// Mironov, Talwar and Zhang (2019): at integer orders the moment of a sampled Gaussian is a
    /// binomial sum.
    #[test]
    fn renyi_costs_of_sampled_gaussians_are_binomial_sums_at_integer_orders() {
        for (mu, rate) in [(1.0, 0.01), (0.5, 0.2), (0.1, 1e-4), (2.5, 0.05)] {
            let one = Event::gaussian(mu, 1).sampled(rate, NeighbourRelation::AddRemove).unwrap();
            let profile = Profile::new(&[one]).unwrap();
            for order in [2u32, 3, 8, 12] {
                let (mut binomial, mut excess) = (1.0, 0.0);
                for k in 0..=order {
                    let power = f64::from(k * k) - f64::from(k);
                    let rest = (1.0f64 - rate).powi((order - k) as i32) * rate.powi(k as i32);
                    excess += binomial * rest * (power * mu * mu / 2.0).exp_m1();
                    binomial *= f64::from(order - k) / f64::from(k + 1);
                }
                let known = excess.ln_1p() / f64::from(order - 1);
                let found = crate::rdp::cost(&profile, f64::from(order));
                let ratio = found / known;
                assert!(ratio > 1.0 && ratio < 1.0 + 1e-8, "{mu} {rate} {order}: {ratio}");
            }
        }
    }

    #[test]
    fn renyi_costs_are_the_integrals_they_stand_for() {
        for (gaussian, shift, rate) in [(true, 0.7, 0.1), (false, 1.5, 0.05), (false, 0.2, 0.7)] {
            for relation in RELATIONS {
                let one = event(gaussian, shift, 1).sampled(rate, relation).unwrap();
                let profile = Profile::new(&[one]).unwrap();
                for order in [1.3, 2.5, 9.0] {
                    let moment = |(p, q): &Laws| -> f64 {
                        let (low, cells) = (-40.0, 160_000);
                        let width = -2.0 * low / f64::from(cells);
                        let at = |k: i32| low + (f64::from(k) + 0.5) * width;
                        // P^a Q^{1−a} = P·(P/Q)^{a−1}, over ∫P by the same rule.
                        let terms = (0..cells).map(at).filter(|&x| p(x) > 0.0 && q(x) > 0.0);
                        let (moment, mass) = terms.fold((0.0, 0.0), |(moment, mass), x| {
                            let power = ((order - 1.0) * (p(x) / q(x)).ln()).exp();
                            (moment + p(x) * power, mass + p(x))
                        });
                        moment / mass
                    };
                    let all = laws(gaussian, shift, rate, relation);
                    let truth = all.iter().map(moment).fold(0.0, f64::max).ln() / (order - 1.0);
                    let ratio = crate::rdp::cost(&profile, order) / truth;
                    assert!((ratio - 1.0).abs() < 1e-6, "{gaussian} {relation} {order}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn many_kinds_of_sampled_release_cost_at_least_what_they_cost_apart() {
        // A step that falls from round to round: two hundred shifts, rounded up to fewer.
        let shifts: Vec<f64> = (0..200).map(|k| 0.8 * 0.99f64.powi(k)).collect();
        let relation = NeighbourRelation::AddRemove;
        let events: Vec<Event> = shifts
            .iter()
            .map(|&mu| Event::gaussian(mu, 1).sampled(0.02, relation).unwrap())
            .collect();
        assert!(Profile::new(&events).unwrap().sampled.len() <= super::MOST_KINDS);
        let found = compose(&events, 1e-6).unwrap();
        // No rounding of shifts in the moments at integer orders: RDP from the formula itself.
        let largest = Event::gaussian(0.8, 200).sampled(0.02, relation).unwrap();
        let above = compose(&[largest], 1e-6).unwrap().pld.value().unwrap();
        let pld = found.pld.value().unwrap();
        assert!(pld < above && pld > 0.1 * above && pld <= found.rdp.value().unwrap());
    }

    /// A binomial count within six deviations: a false alarm in a billion.
    #[test]
    fn every_record_is_drawn_at_its_rate_and_apart_from_the_others() {
        use crate::random::{Purpose, Seed};
        let (records, rounds, rate) = (400, 500, 0.07);
        let mut times = vec![0u32; records];
        for round in 0..rounds {
            let mut stream = Seed::from(3).stream(Purpose::Batch, 1, round);
            super::draw(&mut stream, rate, records).into_iter().for_each(|k| times[k] += 1);
        }
        let (mean, deviation) = (rate * rounds as f64, (rate * rounds as f64).sqrt());
        assert!(times.iter().all(|&t| (f64::from(t) - mean).abs() < 6.0 * deviation));
        let all = f64::from(times.iter().sum::<u32>());
        let expected = mean * records as f64;
        assert!((all - expected).abs() < 6.0 * expected.sqrt(), "{all} of {expected}");
        let mut stream = Seed::from(3).stream(Purpose::Batch, 1, 0);
        assert_eq!(super::draw(&mut stream, 1.0, 9).len(), 9);
        assert!(super::draw(&mut stream, 0.0, 9).is_empty());
    }

    #[test]
    fn relations_are_not_mixed() {
        let events = RELATIONS.map(|r| Event::gaussian(0.1, 1).sampled(0.1, r).unwrap());
        let refusal = compose(&events, 1e-6).unwrap_err().to_string();
        assert!(refusal.contains("event 1") && refusal.contains("neighbour relation"), "{refusal}");
    }
}
