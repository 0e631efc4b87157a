//! Rounding towards safety.
//!
//! Elementary functions here come with an error of a few units in the last place. Instead of an
//! interval arithmetic the engine states, at each formula, how far its floating-point value may lie
//! below the real one, and adds that. The last step of every method is [`up`], whose relative slack
//! of 1e-12 covers the few hundred operations between.

/// Half the spacing of `f64` at 1: the relative error of one correctly rounded operation.
pub(crate) const UNIT: f64 = f64::EPSILON / 2.0;

/// Relative slack added to every ε and cost that leaves the engine.
pub(crate) const SLACK: f64 = 1e-12;

/// `x ≥ 0` raised by the relative slack and one step of the float grid.
pub fn up(x: f64) -> f64 {
    (x * (1.0 + SLACK)).next_up()
}

/// So many decimals, rounded up: a printed cost is never below what it stands for.
#[must_use]
pub fn printed_up(value: f64, decimals: usize) -> String {
    printed(value, decimals, |shown| shown < value, 1.0)
}

/// So many decimals, rounded down: a printed remainder is never above what is left.
#[must_use]
pub fn printed_down(value: f64, decimals: usize) -> String {
    printed(value, decimals, |shown| shown > value, -1.0)
}

fn printed(value: f64, decimals: usize, wrong: impl Fn(f64) -> bool, by: f64) -> String {
    if !value.is_finite() {
        return if value > 0.0 { "∞".into() } else { value.to_string() };
    }
    let nearest = format!("{value:.decimals$}");
    match nearest.parse::<f64>() {
        Ok(shown) if wrong(shown) => {
            format!("{:.decimals$}", shown + by * libm::pow(10.0, -(decimals as f64)))
        }
        _ => nearest,
    }
}

/// A sum of non-negative terms that is never below the real sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SumUp(f64);

impl SumUp {
    /// The sum so far.
    pub(crate) fn value(self) -> f64 {
        self.0
    }

    /// Adds `term ≥ 0`. A zero term leaves the sum alone, so that free events stay free.
    pub(crate) fn add(&mut self, term: f64) {
        if term > 0.0 {
            self.0 = (self.0 + term).next_up();
        }
    }

    /// Adds `count` times `term ≥ 0`.
    pub(crate) fn add_times(&mut self, count: u64, term: f64) {
        if term > 0.0 {
            // A count beyond 2⁵³ may round down; one step up covers it.
            self.add(((count as f64).next_up() * term).next_up());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_never_fall_below_the_exact_value() {
        let mut sum = SumUp::default();
        for _ in 0..1000 {
            sum.add(0.1);
        }
        // 0.1 in binary is slightly above 1/10, so 1000 of them exceed 100.
        assert!(sum.value() > 100.0 && sum.value() < 100.0 * (1.0 + 1e-12));
        let mut product = SumUp::default();
        product.add_times(1000, 0.1);
        assert!(product.value() > 100.0 && product.value() < 100.0 * (1.0 + 1e-14));
    }

    #[test]
    fn printed_numbers_err_on_the_safe_side() {
        for (value, up, down) in [
            (1.000_01, "1.0001", "1.0000"),
            (0.999_99, "1.0000", "0.9999"),
            (1.0, "1.0000", "1.0000"),
            (0.1, "0.1000", "0.1000"),
            (3e-9, "0.0001", "0.0000"),
            (f64::INFINITY, "∞", "∞"),
        ] {
            assert_eq!(
                (printed_up(value, 4).as_str(), printed_down(value, 4).as_str()),
                (up, down)
            );
        }
        for k in 1..2000 {
            let value = f64::from(k).sqrt() * 0.37;
            let [up, down] =
                [printed_up(value, 4), printed_down(value, 4)].map(|t| t.parse::<f64>().unwrap());
            assert!(down <= value && value <= up && up - down < 1.01e-4, "{value}");
        }
    }

    #[test]
    fn nothing_costs_nothing() {
        let mut sum = SumUp::default();
        sum.add(0.0);
        sum.add_times(10, 0.0);
        assert_eq!(sum.value(), 0.0);
    }
}
