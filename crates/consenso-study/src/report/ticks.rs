//! Where an axis has its ticks: 1-2-5 steps on a linear axis, decades on a logarithmic one.

/// At most this many labelled ticks. With 1-2-5 steps a limit of 8 leaves at least 3: the next
/// finer step had 9 or more, so the range is at least 8 fine steps, and 8/2.5 coarse ones.
const MOST: usize = 8;

/// Ticks of an axis: labelled ones, and small ones between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticks {
    /// With a label and a grid line.
    pub major: Vec<f64>,
    /// A mark only.
    pub minor: Vec<f64>,
}

/// Multiples of 1, 2 or 5 times a power of ten in `[low, high]`: from 3 to 8 of them.
///
/// Empty unless `low < high`, both are finite and the doubles between them are dense enough to tell
/// ticks apart.
pub fn linear(low: f64, high: f64) -> Vec<f64> {
    let width = high - low;
    // The negation also refuses NaN.
    if !(width.is_finite() && width > 1e-12 * low.abs().max(high.abs()) && width > 1e-300) {
        return Vec::new();
    }
    // A tenth of the width gives about ten ticks; the step that fits is at most a decade and a half
    // coarser.
    let exponent = (width / 10.0).log10().floor() as i32;
    (0..3)
        .flat_map(|up| [1, 2, 5].map(|mantissa| (mantissa, exponent + up)))
        .find(|&(mantissa, exponent)| multiples(low, high, mantissa, exponent).1 <= MOST as f64)
        .map_or_else(Vec::new, |(mantissa, exponent)| at_multiples(low, high, mantissa, exponent))
}

/// Like [`linear`], whole numbers only; fewer than 3 where the range holds fewer.
pub fn whole(low: f64, high: f64) -> Vec<f64> {
    let ticks = linear(low, high);
    if ticks.iter().all(|tick| tick.fract() == 0.0) { ticks } else { at_multiples(low, high, 1, 0) }
}

/// Decades of `[low, high]` with 2 to 9 between them; 1-2-5 where there are few decades; linear
/// ticks where the range holds less than that. From 3 to 12 labelled ticks.
///
/// Empty unless `0 < low < high` and both are finite.
pub fn log(low: f64, high: f64) -> Ticks {
    if !(low > 0.0 && high.is_finite() && low < high) {
        return Ticks { major: Vec::new(), minor: Vec::new() };
    }
    let inside = |v: &f64| (low..=high).contains(v);
    let exponents = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let at = |mantissas: &[i32]| -> Vec<f64> {
        exponents
            .clone()
            .flat_map(|e| mantissas.iter().map(move |&m| decimal(f64::from(m), e)))
            .filter(inside)
            .collect()
    };
    let decades = at(&[1]);
    if decades.len() > MOST {
        let stride = decades.len().div_ceil(MOST) as i32;
        let major = exponents
            .filter(|e| e.rem_euclid(stride) == 0)
            .map(|e| decimal(1.0, e))
            .filter(inside)
            .collect();
        return Ticks { major, minor: decades };
    }
    let minor = at(&[2, 3, 4, 5, 6, 7, 8, 9]);
    if decades.len() >= 3 {
        return Ticks { major: decades, minor };
    }
    let major = at(&[1, 2, 5]);
    if major.len() >= 3 {
        return Ticks { major, minor };
    }
    Ticks { major: linear(low, high), minor: Vec::new() }
}

/// `mantissa · 10^exponent`, the double nearest to it: what the decimal literal would be.
fn decimal(mantissa: f64, exponent: i32) -> f64 {
    // Powers of ten up to 22 are exact, so one rounding is all there is; beyond, ask the parser.
    match exponent {
        0..=22 => mantissa * 10f64.powi(exponent),
        -22..=-1 => mantissa / 10f64.powi(-exponent),
        _ => format!("{mantissa}e{exponent}").parse().unwrap_or(f64::INFINITY),
    }
}

/// The first multiple of a step in a range, and how many there are.
fn multiples(low: f64, high: f64, mantissa: i32, exponent: i32) -> (f64, f64) {
    let step = decimal(f64::from(mantissa), exponent);
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    (first, last - first + 1.0)
}

fn at_multiples(low: f64, high: f64, mantissa: i32, exponent: i32) -> Vec<f64> {
    let (first, count) = multiples(low, high, mantissa, exponent);
    // The quotient may have rounded to a whole number: the clamp moves such a tick by that
    // rounding.
    (0..count.max(0.0) as u32)
        .map(|k| decimal((first + f64::from(k)) * f64::from(mantissa), exponent).clamp(low, high))
        .collect()
}
