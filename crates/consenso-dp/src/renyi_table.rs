//! Rényi costs of a whole round, tabulated: a few nanoseconds a coordinate, never below the truth.
//!
//! The cost of one coordinate depends on its scaled width `u`, the round's scaled shift `v` and the
//! order `a`. A [`RenyiTable`] holds certified costs on a grid of `u` and `v` for fixed orders;
//! [`RenyiTable::round`] cuts out the [`RoundCosts`] of one round's public `v`, which every agent
//! and run of that round shares. Nothing is interpolated optimistically:
//!
//! - **width**: costs fall with `u` (fact 3 of [`mixture`]), so a width is rounded down to a node,
//!   sixteen an octave, found from the exponent bits;
//! - **shift**: `D_a` is convex in `v` (fact 2), so the chord between two tabulated shifts is an
//!   upper bound. Shifts are 20 % apart, which costs at most 0.84 % (the chord of a parabola);
//! - **joint norms** (docs/paper.md section 4): shifts with `‖t‖_∞ ≤ s`, `‖t‖₂ ≤ s₂` cost at most
//!   the fractional knapsack `max Σ c_l t_l²`, `c_l = sup over 0 < t ≤ s of D_a(u_l, t)/t²`. That
//!   supremum is bounded piecewise: by a closed form for `t` near 0, then by the largest value of
//!   (chord)/t² between tabulated shifts, which is explicit. Under `‖t‖₁ ≤ s₁` convexity gives
//!   `D_a(t) ≤ D_a(s)·t/s`, a knapsack in `t`. Each knapsack fills the coordinates with the
//!   narrowest intervals first; the order is the same for all `a` because costs fall with `u`.
//!
//! The charge is the least of the bounds that apply, order by order.

use super::gaussian_interval;
use super::mixture::{self, MixtureError, check_order};

/// Quadrature inside a table is accepted at this relative error (which is added to the cost).
const TABLE_TOLERANCE: f64 = 2e-5;
/// Sixteen nodes an octave: the top four mantissa bits.
const NODE_SHIFT: u32 = 48;
const LEAST_OCTAVE: i32 = -6;
const OCTAVES: usize = 16;
const NODES: usize = 16 * OCTAVES + 2;
/// Tabulated shifts are at most this ratio apart; below the range, where only suprema are needed,
/// `LADDER`.
const SHIFT_RATIO: f64 = 1.2;
const LADDER: f64 = 1.3;
/// The closed form near 0 is used while `a·t` is below this; it is then within about 0.4 % of the
/// limit.
const NEAR_ZERO: f64 = 0.2;

/// Which noise is added to the uniform point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalNoise {
    /// Laplace of rate `β`: `u = βω`, `v = βs` ([`mixture`]).
    Laplace,
    /// Gaussian of deviation `σ`: `u = ω/σ`, `v = s/σ` ([`gaussian_interval`]).
    Gaussian,
}

impl IntervalNoise {
    /// The certified Rényi costs of one coordinate, one an order, rounded up.
    ///
    /// # Errors
    /// A width or shift that is negative or not finite, an order that is not above 1.
    pub fn costs(self, u: f64, v: f64, orders: &[f64]) -> Result<Vec<f64>, MixtureError> {
        mixture::LaplaceMixture::from_scaled(u, v)?;
        orders.iter().try_for_each(|&order| check_order(order))?;
        let mut costs = vec![0.0; orders.len()];
        self.fill(u, v, orders, 2e-12, &mut costs);
        Ok(costs)
    }

    fn fill(self, u: f64, v: f64, orders: &[f64], tolerance: f64, costs: &mut [f64]) {
        match self {
            Self::Laplace => mixture::renyi_costs(u, v, orders, tolerance, costs),
            Self::Gaussian => gaussian_interval::renyi_costs(u, v, orders, tolerance, costs),
        }
    }

    /// Bounds of `D_a(t)/t²` over `0 < t ≤ v`, one an order, good for small `a·v`.
    fn curvatures(self, u: f64, v: f64, orders: &[f64], bounds: &mut [f64]) {
        match self {
            Self::Laplace => {
                for (bound, &order) in bounds.iter_mut().zip(orders) {
                    *bound = mixture::curvature_bound(u, v, order);
                }
            }
            Self::Gaussian => gaussian_interval::curvature_bounds(u, v, orders, bounds),
        }
    }
}

/// The top bits of the least positive width that has a node of its own.
const FIRST: u64 = ((1023 + LEAST_OCTAVE) as u64) << 4;

/// The node a scaled width is rounded down to. What is not a number, or too small, is charged as no
/// interval.
#[inline]
fn node_of(u: f64) -> u16 {
    if u >= f64::from_bits(FIRST << NODE_SHIFT) {
        ((u.to_bits() >> NODE_SHIFT) - FIRST + 1).min(NODES as u64 - 1) as u16
    } else {
        0
    }
}

/// The scaled width of a node.
fn node_width(node: usize) -> f64 {
    if node == 0 { 0.0 } else { f64::from_bits((FIRST + node as u64 - 1) << NODE_SHIFT) }
}

/// The largest value on `[t0, t1]` of `chord(t)/t²` for the chord through `(t0, d0)` and
/// `(t1, d1)`.
fn chord_curvature(t0: f64, d0: f64, t1: f64, d1: f64) -> f64 {
    let ends = (d0 / (t0 * t0)).max(d1 / (t1 * t1));
    let rise = (d1 - d0) / (t1 - t0);
    let intercept = d0 - rise * t0;
    // chord = intercept + rise·t with a negative intercept: chord/t² peaks at −2·intercept/rise
    // with rise²/(−4·intercept).
    let peak = -2.0 * intercept / rise;
    let top = if t0 < peak && peak < t1 { rise * rise / (-4.0 * intercept) } else { 0.0 };
    ends.max(top) * (1.0 + 1e-12)
}

/// Certified costs of one column (one scaled shift): a row of orders for every width node.
#[derive(Debug, Clone)]
struct Column {
    shift: f64,
    /// `D_a`, node-major.
    cost: Vec<f64>,
    /// A bound of `D_a(t)/t²` over `0 < t ≤ shift`, node-major.
    curvature: Vec<f64>,
}

/// Rényi costs of interval mechanisms over widths and a range of shifts, for fixed orders.
#[derive(Debug, Clone)]
pub struct RenyiTable {
    noise: IntervalNoise,
    orders: Vec<f64>,
    columns: Vec<Column>,
}

impl RenyiTable {
    /// Tabulates `orders` for scaled shifts from `low` to `high`.
    ///
    /// Costs some tens of milliseconds a column, one for each 20 % between `low` and `high`; equal
    /// ends make a single, exact column.
    ///
    /// # Errors
    /// [`MixtureError::Table`] without orders or with an empty range, [`MixtureError::Order`] for
    /// an order not above 1 or a list that does not increase.
    pub fn new(
        noise: IntervalNoise,
        low: f64,
        high: f64,
        orders: &[f64],
    ) -> Result<Self, MixtureError> {
        if orders.is_empty() || !(low > 0.0 && low <= high && high.is_finite()) {
            return Err(MixtureError::Table { low, high });
        }
        orders.iter().try_for_each(|&order| check_order(order))?;
        if let Some(pair) = orders.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(MixtureError::Order { order: pair[1] });
        }
        let shifts = spaced(low, high);
        let mut columns: Vec<Column> =
            shifts.iter().map(|&shift| Column::empty(shift, orders.len())).collect();
        let ladder = ladder(low, orders[orders.len() - 1]);
        for node in 0..NODES {
            Walk::new(noise, node_width(node), orders).fill(node, &ladder, &mut columns);
        }
        for column in &mut columns {
            column.make_monotone(orders.len());
        }
        Ok(Self { noise, orders: orders.to_vec(), columns })
    }

    /// The noise the table is for.
    pub fn noise(&self) -> IntervalNoise {
        self.noise
    }

    /// The orders, ascending; every cost row follows them.
    pub fn orders(&self) -> &[f64] {
        &self.orders
    }

    /// The costs of a round with scaled shift bounds `norms` (in units of the noise scale).
    ///
    /// # Errors
    /// [`MixtureError::Shift`] when a bound is negative, not a number, or the largest shift lies
    /// above the table.
    pub fn round(&self, norms: ShiftNorms) -> Result<RoundCosts, MixtureError> {
        let shift = norms.check()?;
        let last = &self.columns[self.columns.len() - 1];
        if shift > last.shift {
            return Err(MixtureError::Shift { shift });
        }
        let at = self.columns.partition_point(|column| column.shift < shift);
        let (upper, square) = (&self.columns[at], shift * shift);
        let count = self.orders.len();
        let mut round = RoundCosts {
            count,
            two: norms.full_two(shift),
            one: norms.full_one(shift),
            cost: Rows::zero(count),
            quadratic: Rows::zero(count),
        };
        for index in 0..NODES * count {
            let (cost, curvature) = if upper.shift == shift {
                (upper.cost[index], upper.curvature[index])
            } else if at == 0 {
                // Below the table the quadratic bound of its first column holds, by definition of a
                // supremum.
                (upper.curvature[index] * square, upper.curvature[index])
            } else {
                let lower = &self.columns[at - 1];
                let part = (shift - lower.shift) / (upper.shift - lower.shift);
                let cost = lower.cost[index] + part * (upper.cost[index] - lower.cost[index]);
                let curvature = chord_curvature(lower.shift, lower.cost[index], shift, cost);
                (cost, curvature.max(lower.curvature[index]).min(upper.curvature[index]))
            };
            round.cost.set(index / count, index % count, cost * (1.0 + 1e-14));
            round.quadratic.set(index / count, index % count, curvature * square * (1.0 + 1e-14));
        }
        Ok(round)
    }
}

/// Geometric shifts from `low` to `high`, at most `SHIFT_RATIO` apart, both ends exact.
fn spaced(low: f64, high: f64) -> Vec<f64> {
    let steps = (libm::log(high / low) / libm::log(SHIFT_RATIO)).ceil().max(0.0);
    let mut shifts = vec![low];
    for step in 1..steps as usize {
        shifts.push(low * libm::pow(high / low, step as f64 / steps));
    }
    if high > low {
        shifts.push(high);
    }
    shifts
}

/// Shifts below `low` down to where the closed form near 0 serves every order, ascending.
fn ladder(low: f64, largest_order: f64) -> Vec<f64> {
    let mut rungs = Vec::new();
    let mut shift = low;
    while largest_order * shift > NEAR_ZERO {
        shift /= LADDER;
        rungs.push(shift);
    }
    rungs.reverse();
    rungs
}

impl Column {
    fn empty(shift: f64, orders: usize) -> Self {
        Self { shift, cost: vec![0.0; NODES * orders], curvature: vec![0.0; NODES * orders] }
    }

    /// Costs fall with width; what quadrature's last digits disturb is raised, never lowered.
    fn make_monotone(&mut self, orders: usize) {
        for rows in [&mut self.cost, &mut self.curvature] {
            for index in (0..(NODES - 1) * orders).rev() {
                rows[index] = rows[index].max(rows[index + orders]);
            }
        }
    }
}

/// One width node's walk up the shifts, carrying the supremum of `D_a(t)/t²`.
struct Walk<'a> {
    noise: IntervalNoise,
    width: f64,
    orders: &'a [f64],
    shift: f64,
    cost: Vec<f64>,
    curvature: Vec<f64>,
    near_zero: Vec<f64>,
}

impl<'a> Walk<'a> {
    fn new(noise: IntervalNoise, width: f64, orders: &'a [f64]) -> Self {
        let zero = vec![0.0; orders.len()];
        let (cost, curvature, near_zero) = (zero.clone(), zero.clone(), zero);
        Self { noise, width, orders, shift: 0.0, cost, curvature, near_zero }
    }

    fn fill(mut self, node: usize, ladder: &[f64], columns: &mut [Column]) {
        let count = self.orders.len();
        for &rung in ladder {
            // Orders the closed form still serves one rung up (with a margin for rounding) need no
            // cost here.
            let first =
                self.orders.partition_point(|&order| order * rung * LADDER <= 0.99 * NEAR_ZERO);
            self.step(rung, first);
        }
        for column in columns {
            self.step(column.shift, 0);
            column.cost[node * count..][..count].copy_from_slice(&self.cost);
            column.curvature[node * count..][..count].copy_from_slice(&self.curvature);
        }
    }

    /// Moves to `shift`, with costs for the orders from `first` on.
    fn step(&mut self, shift: f64, first: usize) {
        let (from, before) = (self.shift, self.cost.clone());
        self.noise.fill(
            self.width,
            shift,
            &self.orders[first..],
            TABLE_TOLERANCE,
            &mut self.cost[first..],
        );
        let near = self.orders.partition_point(|&order| order * shift <= NEAR_ZERO);
        self.noise.curvatures(self.width, shift, &self.orders[..near], &mut self.near_zero[..near]);
        for (index, &order) in self.orders.iter().enumerate() {
            self.curvature[index] = if order * shift <= NEAR_ZERO {
                self.near_zero[index]
            } else {
                chord_curvature(from, before[index], shift, self.cost[index])
                    .max(self.curvature[index])
            };
        }
        self.shift = shift;
    }
}

/// Bounds on a round's shift vector, in units of the noise scale: `βαB_q` or `αB_q/σ`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShiftNorms {
    /// `‖t‖_∞ ≤ inf`.
    pub inf: f64,
    /// `‖t‖₂ ≤ two`, if known.
    pub two: Option<f64>,
    /// `‖t‖₁ ≤ one`, if known.
    pub one: Option<f64>,
}

impl ShiftNorms {
    /// Only the largest coordinate is bounded.
    pub fn inf(inf: f64) -> Self {
        Self { inf, two: None, one: None }
    }

    /// The largest shift of one coordinate: every `‖t‖_q` bounds it, so the least of the bounds.
    fn check(self) -> Result<f64, MixtureError> {
        let mut least = self.inf;
        for bound in [Some(self.inf), self.two, self.one].into_iter().flatten() {
            if !(bound.is_finite() && bound >= 0.0) {
                return Err(MixtureError::Shift { shift: bound });
            }
            least = least.min(bound);
        }
        Ok(least)
    }

    /// How many coordinates `‖t‖₂` lets reach the largest shift, rounded up.
    fn full_two(self, shift: f64) -> f64 {
        let ratio = self.two.map_or(f64::INFINITY, |two| ratio_up(two, shift));
        if ratio == 1.0 { 1.0 } else { ratio * ratio * (1.0 + 1e-15) }
    }

    /// How many coordinates `‖t‖₁` lets reach the largest shift, rounded up.
    fn full_one(self, shift: f64) -> f64 {
        self.one.map_or(f64::INFINITY, |one| ratio_up(one, shift))
    }
}

/// `bound/shift` rounded up, exactly 1 when they are equal; no shift at all is no constraint.
fn ratio_up(bound: f64, shift: f64) -> f64 {
    if bound == shift {
        1.0
    } else if shift > 0.0 {
        bound / shift * (1.0 + 1e-15)
    } else {
        f64::INFINITY
    }
}

/// The costs of one round, ready to be summed over an agent's coordinates.
#[derive(Debug, Clone)]
pub struct RoundCosts {
    count: usize,
    /// Coordinates that may be full under `‖t‖₂` and `‖t‖₁`.
    two: f64,
    one: f64,
    /// `D_a(u, s)`, node-major.
    cost: Rows,
    /// `s²·sup D_a(u, t)/t²`, node-major: a full coordinate under the quadratic bound.
    quadratic: Rows,
}

/// Orders are summed in blocks that stay in registers.
const LANES: usize = 8;

/// A row of orders for every width node, padded with zeros to whole blocks.
#[derive(Debug, Clone)]
struct Rows {
    blocks: usize,
    values: Vec<[f64; LANES]>,
}

impl Rows {
    fn zero(count: usize) -> Self {
        let blocks = count.div_ceil(LANES);
        Self { blocks, values: vec![[0.0; LANES]; NODES * blocks] }
    }

    fn set(&mut self, node: usize, order: usize, value: f64) {
        self.values[node * self.blocks + order / LANES][order % LANES] = value;
    }

    /// Lowers `out` to the sum of the rows of `nodes` plus `part` of the row of `next`, where that
    /// is less.
    fn lower(&self, nodes: &[u16], next: u16, part: f64, out: &mut [f64]) {
        for (block, out) in out.chunks_mut(LANES).enumerate() {
            let row = |node: u16| &self.values[usize::from(node) * self.blocks + block];
            let mut sum = row(next).map(|cost| part * cost);
            for &node in nodes {
                for (sum, cost) in sum.iter_mut().zip(row(node)) {
                    *sum += cost;
                }
            }
            for (out, sum) in out.iter_mut().zip(sum) {
                *out = out.min(sum);
            }
        }
    }
}

/// Buffers a charge reuses, so that a round allocates nothing.
#[derive(Debug, Clone, Default)]
pub struct ChargeScratch {
    nodes: Vec<u16>,
}

impl RoundCosts {
    /// The Rényi cost of one agent's round, one value an order in `out`, rounded up.
    ///
    /// `widths` are the intervals' widths `ω_l` and `scale` turns them into noise units: `β`, or
    /// `1/σ`. A width that is negative or not a number is charged as no interval.
    ///
    /// # Panics
    /// When `out` is not as long as the table's orders.
    pub fn charge(&self, widths: &[f64], scale: f64, scratch: &mut ChargeScratch, out: &mut [f64]) {
        assert_eq!(out.len(), self.count, "one cost an order");
        let dimension = widths.len() as f64;
        // The width and its scaling carry a rounding each; shaving them off keeps a node from being
        // overstated.
        let scale = scale * (1.0 - 4.0 * f64::EPSILON);
        scratch.nodes.clear();
        scratch.nodes.extend(widths.iter().map(|width| node_of(width * scale)));
        out.fill(f64::INFINITY);
        // Leaving a bound out is always safe; one with twice the full coordinates of another cannot
        // win.
        let least = self.two.min(self.one).min(dimension);
        let bounds = [(dimension, &self.cost), (self.two, &self.quadratic), (self.one, &self.cost)];
        let mut whole = false;
        for (full, rows) in bounds {
            let everything = full >= dimension;
            if full > 2.0 * least || (everything && whole) {
                continue;
            }
            whole |= everything;
            knapsack(rows, full, &mut scratch.nodes, out);
        }
        let up = 1.0 + (dimension + 4.0) * f64::EPSILON;
        for cost in out {
            *cost *= up;
        }
    }
}

/// Lowers `out` to the cost of the `full` dearest nodes (the last one in part), where that is less.
fn knapsack(rows: &Rows, full: f64, nodes: &mut [u16], out: &mut [f64]) {
    if full >= nodes.len() as f64 {
        return rows.lower(nodes, 0, 0.0, out);
    }
    // Node order is cost order for every Rényi order: the narrowest intervals come first.
    let whole = full as usize;
    let part = full - whole as f64;
    if full == 1.0 {
        let least = nodes.iter().copied().fold(u16::MAX, u16::min);
        return rows.lower(&[], least, 1.0, out);
    }
    let (dearest, &mut next, _) = nodes.select_nth_unstable(whole);
    rows.lower(dearest, next, part, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [f64; 6] = [1.25, 2.0, 5.0, 16.0, 64.0, 256.0];

    #[test]
    fn nodes_round_down_and_cover_everything() {
        for node in 1..NODES {
            let width = node_width(node);
            assert_eq!(usize::from(node_of(width)), node);
            assert_eq!(usize::from(node_of(width.next_down())), node - 1);
        }
        assert_eq!(node_width(NODES - 1), 1024.0);
        for odd in [f64::NAN, -1.0, -0.0, 0.0, f64::NEG_INFINITY, f64::MIN_POSITIVE] {
            assert_eq!(node_of(odd), 0);
        }
        assert_eq!(usize::from(node_of(f64::INFINITY)), NODES - 1);
    }

    #[test]
    fn chord_curvature_is_the_maximum() {
        for (t0, d0, t1, d1) in [(1.0, 1.0, 1.5, 2.25), (1.0, 1.0, 1.1, 1.15), (0.3, 0.2, 0.9, 0.5)]
        {
            let bound = chord_curvature(t0, d0, t1, d1);
            let sampled = (0..=1000)
                .map(|k| t0 + (t1 - t0) * f64::from(k) / 1000.0)
                .map(|t| (d0 + (d1 - d0) * (t - t0) / (t1 - t0)) / (t * t))
                .fold(0.0, f64::max);
            assert!(sampled <= bound && bound < sampled * (1.0 + 1e-6));
        }
    }

    fn table_is_pessimistic_and_close(noise: IntervalNoise) {
        let table = RenyiTable::new(noise, 0.02, 0.03, &ORDERS).unwrap();
        let mut scratch = ChargeScratch::default();
        let mut charged = [0.0; ORDERS.len()];
        for v in [0.005, 0.02, 0.0231, 0.03] {
            let round = table.round(ShiftNorms::inf(v)).unwrap();
            for u in [0.0, 0.01, 0.3, 1.0, 1.7, 12.0, 300.0, 5000.0] {
                let exact = noise.costs(u, v, &ORDERS).unwrap();
                round.charge(&[u], 1.0, &mut scratch, &mut charged);
                for ((order, ours), exact) in ORDERS.iter().zip(charged).zip(exact) {
                    assert!(ours >= exact, "{noise:?} u {u} v {v} order {order}: {ours} < {exact}");
                    if u < 1024.0 && v >= 0.02 {
                        assert!(
                            ours <= exact * 1.08,
                            "{noise:?} u {u} v {v} order {order}: {}",
                            ours / exact
                        );
                    }
                }
            }
        }
        assert!(table.round(ShiftNorms::inf(0.031)).is_err());
    }

    #[test]
    fn laplace_table_is_pessimistic_and_close() {
        table_is_pessimistic_and_close(IntervalNoise::Laplace);
    }

    #[test]
    fn gaussian_table_is_pessimistic_and_close() {
        table_is_pessimistic_and_close(IntervalNoise::Gaussian);
    }

    #[test]
    fn joint_norms_bound_every_allowed_shift() {
        let noise = IntervalNoise::Laplace;
        let table = RenyiTable::new(noise, 0.05, 0.05, &ORDERS).unwrap();
        let widths = [0.2, 7.0, 0.9, 1e-3, 40.0, 2.0];
        let (s, two) = (0.05, 0.05 * 2.5_f64.sqrt());
        let norms = ShiftNorms { inf: s, two: Some(two), one: Some(0.05 * 2.2) };
        let mut scratch = ChargeScratch::default();
        let [mut joint, mut l2] = [[0.0; ORDERS.len()]; 2];
        table.round(norms).unwrap().charge(&widths, 1.0, &mut scratch, &mut joint);
        table.round(ShiftNorms { one: None, ..norms }).unwrap().charge(
            &widths,
            1.0,
            &mut scratch,
            &mut l2,
        );
        // Allowed shifts: corners of both bodies, and points between, with both l1 and l2 respected
        // for `joint`.
        let r = |square: f64| s * square.sqrt();
        let shifts = [
            [s, 0.0, 0.2 * s, s, 0.0, 0.0],
            [0.2 * s, 0.0, s, s, 0.0, 0.0],
            [0.0, s, 0.0, 0.2 * s, s, 0.0],
            [0.5 * s, 0.2 * s, 0.5 * s, s, 0.0, 0.0],
        ];
        let spread = [r(0.5), r(0.2), r(0.4), r(1.0), r(0.1), r(0.3)];
        let total = |shift: &[f64; 6], order: f64| -> f64 {
            widths.iter().zip(shift).map(|(&u, &t)| noise.costs(u, t, &[order]).unwrap()[0]).sum()
        };
        for (index, &order) in ORDERS.iter().enumerate() {
            assert!(joint[index] <= l2[index]);
            for shift in &shifts {
                assert!(
                    total(shift, order) <= joint[index] * (1.0 + 1e-9),
                    "order {order}, shift {shift:?}"
                );
            }
            assert!(total(&spread, order) <= l2[index] * (1.0 + 1e-9), "order {order}");
        }
    }
}
