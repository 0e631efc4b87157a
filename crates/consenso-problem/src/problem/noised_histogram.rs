//! Centre and scale of columns from noised histograms.
//!
//! A histogram is what a member of a family would give, plus noise of known deviation s: normals
//! clamped to the range, 45 centres and 14 scales, of which 3 % lie anywhere. The estimate is the
//! posterior mean, so a histogram that says little leaves what is likely beforehand, and none ever
//! falls back to "nothing is known". With four columns or more what is likely beforehand is learned
//! from them (eight steps of EM; the prior counts as four columns).
//!
//! What the family misses is added where it exceeds what noise reaches among so many cells: first
//! of eight cells, then of all. An amount that is mostly nothing has a tail of a few records over
//! many cells, none of which stands out. That they are somewhere is known all the same, for the
//! total is public and the three cells of the rest hold less: where they lie is found as centres
//! and scales are, among tails of eight lengths.

use std::sync::OnceLock;

/// Fewest and most cells of a histogram.
const CELLS: (usize, usize) = (8, 64);
const CENTRES: usize = 45;
const SCALES: usize = 14;
/// The part of a column that may lie anywhere.
const ANYWHERE: f64 = 0.03;
/// A scale below this part of a cell is hidden in it. One that lies on the border of two cells can
/// come out as wide as 0.87 of one, and is not sure then.
const HIDDEN: f64 = 0.5;
/// A scale below this part of a cell may be hidden in it.
pub const NARROW: f64 = 0.9;
const UNSURE: f64 = 0.3;
/// Deviations of noise beyond which something is seen.
const SEEN: f64 = 2.0;
/// Columns that the prior counts as, and steps of EM.
const PRIOR_COUNT: f64 = 4.0;
const EM_STEPS: usize = 8;
/// Lengths that a tail may have.
const TAILS: usize = 8;

/// Cells that noise of this deviation allows.
pub fn bins(noise: f64) -> usize {
    let wanted = (1.0 / (3.0 * noise)).clamp(CELLS.0 as f64, CELLS.1 as f64);
    libm::exp2(libm::floor(libm::log2(wanted))) as usize
}

/// What the largest of `draws` normal deviates hardly exceeds, and one more.
fn reached(draws: usize) -> f64 {
    1.0 + (2.0 * libm::log(draws.max(1) as f64)).sqrt()
}

/// Whether noise of this deviation hides even a column that lies in one of eight cells, among so
/// many columns: a second look would follow noise.
pub fn out_of_reach(noise: f64, columns: usize) -> bool {
    2.0 * reached(CELLS.0 * columns) * noise > 1.0
}

/// Mean and variance of a histogram over \[0, 1\].
pub fn moments(histogram: &[f64]) -> (f64, f64) {
    let bin = 1.0 / histogram.len() as f64;
    let middle = |k: usize| (k as f64 + 0.5) * bin;
    let mean: f64 = histogram.iter().enumerate().map(|(k, h)| h * middle(k)).sum();
    let square = |(k, h): (usize, &f64)| h * (middle(k) - mean) * (middle(k) - mean);
    let variance: f64 = histogram.iter().enumerate().map(square).sum();
    (mean, variance + bin * bin / 12.0)
}

/// The family for one number of cells.
struct Family {
    cells: usize,
    /// Cell masses, member by member.
    masses: Vec<f64>,
    /// Those with a part that lies anywhere, and half of their squared lengths.
    mixed: Vec<f64>,
    half_squares: Vec<f64>,
    prior: Vec<f64>,
    centres: Vec<f64>,
    variances: Vec<f64>,
}

impl Family {
    fn of(cells: usize) -> &'static Self {
        static FAMILIES: [OnceLock<Family>; 4] = [const { OnceLock::new() }; 4];
        let place = cells.trailing_zeros().clamp(3, 6) - 3;
        FAMILIES[place as usize].get_or_init(|| Self::new(cells))
    }

    fn new(cells: usize) -> Self {
        let mut family = Self {
            cells,
            masses: Vec::new(),
            mixed: Vec::new(),
            half_squares: Vec::new(),
            prior: Vec::new(),
            centres: Vec::new(),
            variances: Vec::new(),
        };
        let (wide, narrow) = (libm::log(1.0 / 3.0), libm::log(0.35 / cells as f64));
        let below = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
        for s in 0..SCALES {
            let log_scale = wide + (narrow - wide) * s as f64 / (SCALES - 1) as f64;
            let scale = libm::exp(log_scale);
            for c in 0..CENTRES {
                let centre = -0.05 + 1.1 * c as f64 / (CENTRES - 1) as f64;
                let mut edges: Vec<f64> = (0..=cells)
                    .map(|k| below((k as f64 / cells as f64 - centre) / scale))
                    .collect();
                (edges[0], edges[cells]) = (0.0, 1.0);
                let masses: Vec<f64> = edges.windows(2).map(|e| e[1] - e[0]).collect();
                let anywhere = ANYWHERE / cells as f64;
                let mixed = masses.iter().map(|m| (1.0 - ANYWHERE) * m + anywhere);
                let mixed: Vec<f64> = mixed.collect();
                let (mean, variance) = moments(&masses);
                family.half_squares.push(0.5 * mixed.iter().map(|m| m * m).sum::<f64>());
                let (off, apart) = ((centre - 0.5) / 0.3, (log_scale + libm::log(6.0)) / 0.7);
                family.prior.push(libm::exp(-0.5 * (off * off + apart * apart)));
                family.centres.push(mean);
                family.variances.push(variance);
                family.masses.extend(masses);
                family.mixed.extend(mixed);
            }
        }
        let total: f64 = family.prior.iter().sum();
        family.prior.iter_mut().for_each(|p| *p /= total);
        family
    }

    /// The likelihood of each member, up to a factor.
    fn likelihood(&self, histogram: &[f64], noise: f64) -> Vec<f64> {
        let logs: Vec<f64> = self
            .mixed
            .chunks_exact(self.cells)
            .zip(&self.half_squares)
            .map(|(m, half)| (crate::kernel::dot(histogram, m) - half) / (noise * noise))
            .collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        logs.into_iter().map(|l| libm::exp(l - most)).collect()
    }
}

/// The posterior of a likelihood under weights.
fn posterior(likelihood: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut found: Vec<f64> = likelihood.iter().zip(weights).map(|(l, w)| l * w).collect();
    let total: f64 = found.iter().sum();
    found.iter_mut().for_each(|f| *f /= total);
    found
}

/// Where the prior of centres and scales comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prior {
    /// As it is written above.
    Given,
    /// Learned from the columns, where there are enough.
    Learned,
}

/// What a histogram says of a column, in parts of its range.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// Where it lies.
    pub centre: f64,
    /// How wide it is.
    pub scale: f64,
    /// The deviation of the scale's logarithm that is left.
    unsure: f64,
    /// What lies outside of the three cells around the centre, in deviations of its noise.
    outside: f64,
}

impl Fit {
    /// A column that is known, or whose histogram has no noise.
    pub fn exact(centre: f64, scale: f64) -> Self {
        Self { centre, scale, unsure: 0.0, outside: f64::INFINITY }
    }

    /// Whether three cells of this histogram, looked at again, would say more: the scale is hidden
    /// in a cell, or cannot be told from one that is, and nothing that can be seen lies elsewhere.
    /// (A scale of half a cell is known as well from its cells as from finer ones, which have as
    /// much noise each; and a window that cuts a tail off makes a scale too small.)
    pub fn asks_for_a_look(&self, cell: f64) -> bool {
        let hidden =
            self.scale < HIDDEN * cell || self.scale < NARROW * cell && self.unsure > UNSURE;
        hidden && self.outside <= SEEN
    }

    /// Whether the column still lies in the first or the last cell, however narrow that is.
    pub fn is_a_spike_at_an_end(&self, cell: f64) -> bool {
        self.scale < HIDDEN * cell && (self.centre < cell || self.centre > 1.0 - cell)
    }
}

/// A histogram without what its total is off by: the total is public, it is one.
fn balanced(histogram: &[f64]) -> Vec<f64> {
    let over = (histogram.iter().sum::<f64>() - 1.0) / histogram.len() as f64;
    histogram.iter().map(|h| h - over).collect()
}

/// The three cells around a centre.
fn three_around(centre: f64, cells: usize) -> std::ops::Range<usize> {
    let first = libm::floor(centre * cells as f64 - 1.0).clamp(0.0, (cells - 3) as f64) as usize;
    first..first + 3
}

/// The noise of what three cells hold, the total being public.
fn noise_of_three(cells: usize, noise: f64) -> f64 {
    noise * (3.0 * (1.0 - 3.0 / cells as f64)).sqrt()
}

/// What lies outside of three cells around a centre, in deviations of its noise.
fn outside(histogram: &[f64], centre: f64, noise: f64) -> f64 {
    let cells = histogram.len();
    let inside: f64 = histogram[three_around(centre, cells)].iter().sum();
    (1.0 - inside) / noise_of_three(cells, noise)
}

/// Centre and scale of each histogram of one number of cells, whose cells have noise of this
/// deviation; with `tails`, of columns that may be mostly nothing. (A label's spike is looked at
/// again, and what lies outside of a second look is at its ends.)
pub fn fit(histograms: &[Vec<f64>], noise: f64, tails: bool, prior: Prior) -> Vec<Fit> {
    let Some(cells) = histograms.first().map(Vec::len) else { return Vec::new() };
    let family = Family::of(cells);
    let told: Vec<Vec<f64>> = histograms.iter().map(|h| balanced(h)).collect();
    let likelihoods: Vec<Vec<f64>> = told.iter().map(|h| family.likelihood(h, noise)).collect();
    let mut weights = family.prior.clone();
    if prior == Prior::Learned && told.len() >= PRIOR_COUNT as usize {
        for _ in 0..EM_STEPS {
            let mut next: Vec<f64> = family.prior.iter().map(|p| PRIOR_COUNT * p).collect();
            for likelihood in &likelihoods {
                let found = posterior(likelihood, &weights);
                next.iter_mut().zip(found).for_each(|(n, f)| *n += f);
            }
            let count = PRIOR_COUNT + told.len() as f64;
            next.iter_mut().for_each(|n| *n /= count);
            weights = next;
        }
    }
    let one = |(histogram, likelihood): (&Vec<f64>, &Vec<f64>)| {
        let found = posterior(likelihood, &weights);
        let mean = |of: &[f64]| crate::kernel::dot(&found, of);
        let centre = mean(&family.centres);
        let logs: f64 = found.iter().zip(&family.variances).map(|(f, v)| f * libm::log(*v)).sum();
        let square = |(f, v): (&f64, &f64)| f * (libm::log(*v) - logs).powi(2);
        let spread: f64 = found.iter().zip(&family.variances).map(square).sum();
        let variance = libm::exp(logs);
        let mut masses = vec![0.0; cells];
        for (weight, member) in found.iter().zip(family.masses.chunks_exact(cells)) {
            crate::kernel::axpy(*weight, member, &mut masses);
        }
        let mut whole = masses.clone();
        add_missed(&mut whole, histogram, noise, told.len());
        let scale_with = |whole: &[f64]| {
            let wider = moments(whole).1 - moments(&masses).1;
            (variance + wider).max(variance / 4.0).sqrt()
        };
        if tails && scale_with(&whole) < NARROW / cells as f64 {
            add_tail(&mut whole, histogram, noise, told.len());
        }
        let moved = moments(&whole).0 - moments(&masses).0;
        Fit {
            centre: centre + moved,
            scale: scale_with(&whole),
            unsure: 0.5 * spread.sqrt(),
            outside: outside(histogram, centre + moved, noise),
        }
    };
    told.iter().zip(&likelihoods).map(one).collect()
}

/// Adds to the cells of a fit what it misses beyond noise.
fn add_missed(whole: &mut [f64], histogram: &[f64], noise: f64, columns: usize) {
    let (cells, group) = (histogram.len(), histogram.len() / CELLS.0);
    let mut left: Vec<f64> = histogram.iter().zip(whole.iter()).map(|(h, m)| h - m).collect();
    let mut added = vec![0.0; cells];
    let coarse = reached(CELLS.0 * columns) * noise * (group as f64).sqrt();
    for (left, added) in left.chunks_exact_mut(group).zip(added.chunks_exact_mut(group)) {
        let total: f64 = left.iter().sum();
        if total.abs() > coarse {
            left.iter_mut().for_each(|l| *l -= total / group as f64);
            added.fill(total / group as f64);
        }
    }
    let fine = reached(cells * columns) * noise;
    for (left, added) in left.iter().zip(&mut added) {
        *added += if left.abs() > fine { *left } else { 0.0 };
    }
    if added.iter().all(|a| *a == 0.0) {
        return;
    }
    whole.iter_mut().zip(&added).for_each(|(w, a)| *w = (*w + a).max(0.0));
    let total: f64 = whole.iter().sum();
    whole.iter_mut().for_each(|w| *w /= total);
}

/// Adds to a fit the tail that three cells around its centre lack, if they lack more than noise.
///
/// Its mass is known from these three cells; where it lies is the posterior mean over tails that
/// fall off exponentially with the distance from the centre, by a length of one cell to the whole
/// range.
fn add_tail(whole: &mut [f64], histogram: &[f64], noise: f64, columns: usize) {
    let cells = whole.len();
    let centre = moments(whole).0;
    let three = three_around(centre, cells);
    let inside: f64 = whole[three.clone()].iter().sum();
    let tail = inside - histogram[three.clone()].iter().sum::<f64>();
    if tail <= reached(columns) * noise_of_three(cells, noise) {
        return;
    }
    let outside: Vec<usize> = (0..cells).filter(|k| !three.contains(k)).collect();
    let shapes: Vec<Vec<f64>> = (0..TAILS)
        .map(|j| {
            let length = libm::pow(cells as f64, j as f64 / (TAILS - 1) as f64 - 1.0);
            let far = |k: &usize| ((*k as f64 + 0.5) / cells as f64 - centre).abs();
            let shape = outside.iter().map(|k| libm::exp(-far(k) / length));
            let mut shape: Vec<f64> = shape.collect();
            let total: f64 = shape.iter().sum();
            shape.iter_mut().for_each(|s| *s *= tail / total.max(f64::MIN_POSITIVE));
            shape
        })
        .collect();
    let misfit = |shape: &Vec<f64>| -> f64 {
        let of = |(k, s): (&usize, &f64)| (histogram[*k] - whole[*k] - s).powi(2);
        outside.iter().zip(shape).map(of).sum::<f64>() / (2.0 * noise * noise)
    };
    let misfits: Vec<f64> = shapes.iter().map(misfit).collect();
    let least = misfits.iter().copied().fold(f64::INFINITY, f64::min);
    let likely: Vec<f64> = misfits.iter().map(|m| libm::exp(least - m)).collect();
    let total: f64 = likely.iter().sum();
    for (likely, shape) in likely.iter().zip(&shapes) {
        for (k, s) in outside.iter().zip(shape) {
            whole[*k] += likely / total * s;
        }
    }
    whole[three].iter_mut().for_each(|w| *w *= 1.0 - tail / inside);
}

/// Shares from noised counts: the nearest point of the simplex, shrunk towards equal shares by what
/// its noise is worth.
pub fn shares(histogram: &[f64], noise: f64) -> Vec<f64> {
    let k = histogram.len() as f64;
    let mut sorted = histogram.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut over) = (-1.0, 0.0);
    for (place, h) in sorted.iter().enumerate() {
        sum += h;
        let candidate = sum / (place + 1) as f64;
        if h - candidate > 0.0 {
            over = candidate;
        }
    }
    let keep = 1.0 / (1.0 + (k * noise) * (k * noise));
    histogram.iter().map(|h| keep * (h - over).max(0.0) + (1.0 - keep) / k).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A normal column's histogram, with a wave of this deviation in place of noise.
    fn histogram(cells: usize, centre: f64, scale: f64, phase: f64, noise: f64) -> Vec<f64> {
        let below = |k: usize| match k {
            0 => 0.0,
            k if k == cells => 1.0,
            k => {
                let x = (k as f64 / cells as f64 - centre) / scale;
                0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
            }
        };
        (0..cells)
            .map(|k| {
                let wave = libm::sin(1.7 * k as f64 + phase);
                below(k + 1) - below(k) + noise * std::f64::consts::SQRT_2 * wave
            })
            .collect()
    }

    fn close(found: &[Fit], expected: &[[f64; 2]]) {
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(expected) {
            let near = (f.centre - e[0]).abs() < 1e-8 && (f.scale - e[1]).abs() < 1e-8;
            assert!(near, "{found:?} {expected:?}");
        }
    }

    /// Figures of a program in numpy that shares no code with this one: one column, several whose
    /// prior is learned, and one with a fifth of its mass far away.
    #[test]
    fn an_independent_program_finds_the_same_centres_and_scales() {
        let one = fit(&[histogram(8, 0.3, 0.1, 0.0, 0.05)], 0.05, true, Prior::Learned);
        close(&one, &[[0.277_588_881_818, 0.108_977_907_200]]);
        let columns = [(0.2, 0.05), (0.25, 0.06), (0.7, 0.2), (0.5, 0.02), (0.9, 0.3)];
        let several: Vec<Vec<f64>> = columns
            .iter()
            .enumerate()
            .map(|(j, &(c, s))| histogram(16, c, s, j as f64, 0.02))
            .collect();
        close(
            &fit(&several, 0.02, true, Prior::Learned),
            &[
                [0.200_002_453_522, 0.056_638_795_681],
                [0.250_000_026_111, 0.056_656_848_541],
                [0.688_683_399_722, 0.200_090_795_693],
                [0.5, 0.036_545_887_280],
                [0.823_205_546_720, 0.182_226_754_582],
            ],
        );
        let mut far: Vec<f64> =
            histogram(32, 0.1, 0.02, 3.0, 0.01).iter().map(|h| 0.8 * h).collect();
        far[25] += 0.2;
        close(&fit(&[far], 0.01, true, Prior::Learned), &[[0.240_936_982_388, 0.281_724_059_823]]);
    }

    /// Amounts that are mostly nothing: 4.8 % lie in sixteen cells far away, none of which stands
    /// out of the noise. Their scale came out as that of the cell that the others lie in, at some
    /// budgets alone: more budget gave a worse model. Figures of a program in numpy.
    #[test]
    fn a_tail_that_no_cell_shows_still_widens_a_scale() {
        let amounts = |noise: f64| {
            let mut cells = vec![0.0; 64];
            cells[0] = 0.952;
            cells[22..38].fill(0.003);
            cells.iter_mut().enumerate().for_each(|(k, c)| {
                *c += noise * std::f64::consts::SQRT_2 * libm::sin(1.7 * k as f64 + 1.0);
            });
            cells
        };
        let columns = |noise: f64| vec![amounts(noise); 6];
        for (noise, expected) in [
            (0.004, [0.025_988_902_878, 0.099_870_797_383]),
            (0.002, [0.017_731_759_670, 0.064_913_203_041]),
            (0.0005, [0.030_050_260_683, 0.098_522_552_688]),
            // What is missing could be noise: nothing is added.
            (0.02, [0.007_880_052_872, 0.004_658_933_829]),
        ] {
            close(&fit(&columns(noise), noise, true, Prior::Learned)[..1], &[expected]);
        }
    }

    /// Counts below zero are no shares; what is left adds up to one.
    #[test]
    fn an_independent_program_finds_the_same_shares() {
        let found = shares(&[0.7, 0.2, -0.05, 0.12], 0.06);
        for (f, e) in found.iter().zip([0.669_188_1, 0.196_419_57, 0.013_615_73, 0.120_776_6]) {
            assert!((f - e).abs() < 1e-7, "{found:?}");
        }
    }

    /// A histogram of noise alone left one cell for a label, and training began in the middle of
    /// the range: what is likely beforehand is left instead.
    #[test]
    fn a_histogram_that_says_nothing_leaves_what_is_likely() {
        let [Fit { centre, scale, .. }] = fit(&[vec![0.125; 8]], 50.0, true, Prior::Learned)[..]
        else {
            panic!()
        };
        assert!((centre - 0.5).abs() < 0.01 && (0.1..0.3).contains(&scale), "{centre} {scale}");
        assert!(bins(50.0) == 8 && bins(1e-9) == 64 && bins(0.02) == 16);
    }
}
