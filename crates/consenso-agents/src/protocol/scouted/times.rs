//! What the histogram of times until an event says: where intervals end, and how many events there
//! are.

use crate::data::scouted::in_intervals;

/// The part of the events that is taken to lie anywhere, so that no interval is empty.
const ANYWHERE: f64 = 0.1;
/// The least share of events.
const FEWEST: f64 = 0.005;

/// The label's part of a standard: the ends of the intervals as parts of the longest time (public,
/// or the quantiles of the events' times), the share of events, and events per interval seen.
///
/// The shares are those of labels from −1, the longest time without the event, to 1, the longest
/// time with it.
pub(super) fn part(public: Option<&[f64]>, intervals: usize, shares: &[f64]) -> Vec<f64> {
    let half = shares.len() / 2;
    let events = &shares[half..];
    let share = events.iter().sum::<f64>().max(FEWEST);
    let ends = match public {
        Some(ends) => ends.to_vec(),
        None => quantiles(events, intervals),
    };
    let mut part = ends;
    part.extend([share, 0.0]);
    // Whoever is in a cell was seen until its middle.
    let middle = |k: usize| ((k as f64 + 0.5) / half as f64 - 1.0).abs();
    let seen: f64 = shares
        .iter()
        .enumerate()
        .map(|(k, share)| share * in_intervals(&part, middle(k)).min(intervals as f64))
        .sum();
    let last = part.len() - 1;
    part[last] = share / seen.max(FEWEST);
    part
}

/// Where each of so many parts of the events ends; the last ends with the longest time.
fn quantiles(events: &[f64], parts: usize) -> Vec<f64> {
    let cells = events.len() as f64;
    let total = events.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mass = |e: f64| (1.0 - ANYWHERE) * e / total + ANYWHERE / cells;
    let (mut ends, mut below) = (Vec::with_capacity(parts), 0.0);
    for (k, event) in events.iter().enumerate() {
        let own = mass(*event);
        while ends.len() + 1 < parts && (ends.len() + 1) as f64 / parts as f64 <= below + own {
            let inside = ((ends.len() + 1) as f64 / parts as f64 - below) / own;
            ends.push((k as f64 + inside) / cells);
        }
        below += own;
    }
    ends.resize(parts, 1.0);
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Even events give even intervals, early events shorter ones at the start, and public ends are
    /// kept.
    #[test]
    fn intervals_end_at_quantiles_of_the_events() {
        let even = [0.0625; 16];
        let found = part(None, 4, &even);
        for (end, want) in found[..4].iter().zip([0.25, 0.5, 0.75, 1.0]) {
            assert!((end - want).abs() < 1e-12, "{found:?}");
        }
        // Half of the records have events; all are seen for two of four intervals on average.
        assert!((found[4] - 0.5).abs() < 1e-12 && (found[5] - 0.25).abs() < 1e-12, "{found:?}");
        let mut early = vec![0.0; 16];
        (early[0], early[8], early[9]) = (0.7, 0.2, 0.1);
        let found = part(None, 4, &early);
        assert!(found[0] < 0.1 && found[..4].windows(2).all(|e| e[0] < e[1]), "{found:?}");
        assert_eq!(part(Some(&[0.1, 1.0]), 2, &early)[..2], [0.1, 1.0]);
    }
}
