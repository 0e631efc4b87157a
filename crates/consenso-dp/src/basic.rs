//! Basic composition: the pure ε add up, adaptively chosen or not.

use super::compose::{Bound, Profile};
use super::round::SumUp;

/// `Σ ε_k`, at δ = 0. The interval mechanism counts with its pure worst case, which does not depend
/// on the transcript.
pub fn epsilon(profile: &Profile) -> Bound {
    profile.not_pure().unwrap_or_else(|| Bound::rounded_up(sum(profile)))
}

/// `Σ ε_k` over the pure events and the interval events' worst cases, rounded up.
pub(crate) fn sum(profile: &Profile) -> f64 {
    let mut total = SumUp::default();
    let all = profile.pure_groups().chain(profile.sampled_pure());
    all.for_each(|(epsilon, count)| total.add_times(count, epsilon));
    total.add(profile.interval_pure);
    total.value()
}
