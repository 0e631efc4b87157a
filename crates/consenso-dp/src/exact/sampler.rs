//! Noise for numbers of a program of one's own: one number, many, or `f32`.

use super::{Grid, Noise, NoiseError, release_values};
use crate::event::Event;
use crate::random::{Purpose, Seed, Stream};
use crate::round::up;

/// Exact noise that knows its cost: released numbers are those of [`release`](super::release),
/// without a grid, a stream or a length to think of.
///
/// ```
/// use consenso_dp::compose;
/// use consenso_dp::exact::{Sampler, Noise};
///
/// // 32 bytes of the operating system, such as `getrandom::fill` gives; the same bytes give the
/// // same noise, which then protects nobody.
/// let entropy = [7; 32];
/// let mut sampler = Sampler::new(Noise::Laplace { scale: 2.0 }, entropy)?;
/// let count = sampler.release(1280.0)?;
/// let mut sums = [0.5, 0.25, 1.0];
/// sampler.release_all(&mut sums)?;
///
/// // One record changes the count by 1, and all sums together by at most 0.5.
/// let events = [sampler.event(1.0), sampler.event(0.5)];
/// let epsilon = compose(&events, 1e-6)?.best().map(|(_, epsilon)| epsilon);
/// assert!(epsilon.is_some_and(|epsilon| epsilon <= 0.75 + 1e-9));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sampler {
    noise: Noise,
    grid: Grid,
    stream: Stream,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sampler({:?})", self.noise)
    }
}

impl Sampler {
    /// Noise of this kind and scale, drawn from 32 bytes of entropy.
    ///
    /// # Errors
    /// [`NoiseError::Scale`] or [`NoiseError::Exponent`] for a scale that is not positive, not
    /// finite or extreme.
    pub fn new(noise: Noise, entropy: [u8; 32]) -> Result<Self, NoiseError> {
        let grid = Grid::for_scale(noise.scale())?;
        let stream = Seed::from_entropy(entropy).stream(Purpose::Release, 0, 0);
        Ok(Self { noise, grid, stream })
    }

    /// Releases one number.
    ///
    /// # Errors
    /// The number is not finite, or beyond 2⁴² scales of the noise. Clip by public bounds first:
    /// whether this fails depends on the number.
    pub fn release(&mut self, value: f64) -> Result<f64, NoiseError> {
        let mut out = [0.0];
        release_values(&mut self.stream, &[value], self.noise, self.grid, &mut out)?;
        Ok(out[0])
    }

    /// Releases all numbers, in their place. Nothing is changed where it fails.
    ///
    /// # Errors
    /// As [`Sampler::release`], of any of them.
    pub fn release_all(&mut self, values: &mut [f64]) -> Result<(), NoiseError> {
        let before = values.to_vec();
        release_values(&mut self.stream, &before, self.noise, self.grid, values)
    }

    /// Releases numbers of single precision, in their place. Noise is added in double precision;
    /// rounding what was released is a function of it and costs nothing.
    ///
    /// # Errors
    /// As [`Sampler::release`], of any of them.
    pub fn release_all_f32(&mut self, values: &mut [f32]) -> Result<(), NoiseError> {
        let mut wide: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
        self.release_all(&mut wide)?;
        for (value, released) in values.iter_mut().zip(wide) {
            *value = released as f32;
        }
        Ok(())
    }

    /// What one call costs, by how far one record can move all its numbers together: in the l1 norm
    /// for Laplace noise, in the l2 norm for Gaussian.
    #[must_use]
    pub fn event(&self, sensitivity: f64) -> Event {
        match self.noise {
            Noise::Laplace { scale } => Event::laplace(up(sensitivity / scale), 1),
            Noise::Gaussian { sigma } => Event::gaussian(up(sensitivity / sigma), 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::release;
    use super::*;

    const ENTROPY: [u8; 32] = [9; 32];

    fn sampler(noise: Noise) -> Sampler {
        Sampler::new(noise, ENTROPY).expect("a valid scale")
    }

    #[test]
    fn numbers_are_those_of_a_release_and_a_second_call_draws_anew() {
        for noise in [Noise::Laplace { scale: 0.5 }, Noise::Gaussian { sigma: 3.0 }] {
            let y: Vec<f64> = (0..40).map(f64::from).collect();
            let grid = Grid::for_scale(noise.scale()).expect("valid");
            let mut steps = vec![0; y.len()];
            let mut rng = Seed::from_entropy(ENTROPY).stream(Purpose::Release, 0, 0);
            release(&mut rng, &y, &[], noise, grid, &mut steps).expect("small numbers");
            let expected: Vec<f64> = steps.iter().map(|&q| grid.value(q)).collect();
            let mut own = sampler(noise);
            let (mut first, mut second) = (y.clone(), y.clone());
            own.release_all(&mut first).expect("small numbers");
            own.release_all(&mut second).expect("small numbers");
            assert_eq!(first, expected);
            assert!(first.iter().zip(&second).all(|(a, b)| a != b), "noise was drawn twice");
            assert_eq!(sampler(noise).release(y[0]).expect("small"), {
                let mut one = [y[0]];
                sampler(noise).release_all(&mut one).expect("small");
                one[0]
            });
        }
    }

    #[test]
    fn single_precision_is_rounded_after_the_noise() {
        let mut narrow = [0.1f32, -7.25, 1e6];
        let mut wide = narrow.map(f64::from);
        sampler(Noise::Gaussian { sigma: 2.0 }).release_all_f32(&mut narrow).expect("small");
        sampler(Noise::Gaussian { sigma: 2.0 }).release_all(&mut wide).expect("small");
        assert_eq!(narrow, wide.map(|value| value as f32));
    }

    #[test]
    fn what_cannot_be_released_leaves_everything_as_it_was() {
        let mut own = sampler(Noise::Laplace { scale: 1.0 });
        let mut values = [1.0, f64::NAN];
        assert_eq!(own.release_all(&mut values), Err(NoiseError::NotFinite { index: 1 }));
        assert!(values[0] == 1.0 && own.release(1e300).is_err());
        assert!(Sampler::new(Noise::Laplace { scale: 0.0 }, ENTROPY).is_err());
        assert_eq!(format!("{own:?}"), "Sampler(Laplace { scale: 1.0 })", "no bits of the stream");
    }

    #[test]
    fn a_cost_is_never_below_sensitivity_over_scale() {
        let cost = sampler(Noise::Laplace { scale: 3.0 }).event(1.0);
        assert_eq!(cost, Event::laplace(up(1.0 / 3.0), 1));
        assert!(up(1.0 / 3.0) * 3.0 >= 1.0);
        let cost = sampler(Noise::Gaussian { sigma: 3.0 }).event(1.0);
        assert_eq!(cost, Event::gaussian(up(1.0 / 3.0), 1));
    }
}
