//! Pairs of records of one site, for hazards whose baseline is the site's own.
//!
//! Records are put in an order that depends on their places alone, and every two that follow each
//! other there are a pair, so that a record is in one pair at most. A pair counts where it is known
//! who had the event first: with rows z and times t, the one of the smaller time has the event, or
//! times are the same and only one of them has. Then the pair's row is the row of whoever was first
//! less the other's, and zero otherwise.
//!
//! **Sensitivity.** A record that is replaced by another in its place changes one pair, and no
//! other: a sum of vectors, one per pair, each at most one long, moves by at most 2, and a sum of
//! positive matrices of norm at most one by at most √2, as the sums of `scores.rs` over records do.
//! A record that is not there leaves its partner without a pair, so that only places of a known
//! number are protected, and neighbours are those of "replace-one". What a record's place is must
//! not depend on others' records, as anywhere where records are replaced one by one.

use crate::data::Records;

/// A number that says nothing of its place, by Weyl's sequence and a finaliser (splitmix64).
fn mixed(place: usize) -> u64 {
    let mut x = (place as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The places of pairs of so many records.
fn places(records: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut order: Vec<usize> = (0..records).collect();
    order.sort_by_key(|&place| (mixed(place), place));
    (0..records / 2).map(move |pair| (order[2 * pair], order[2 * pair + 1]))
}

/// The rows of the pairs that count; labels are times, negative where the event was not seen.
#[must_use]
pub fn of(records: &Records) -> Records {
    let (labels, dim) = (records.labels(), records.dim());
    let mut pairs = Records::with_capacity(dim, records.len() / 2);
    let mut row = vec![0.0; dim];
    for (a, b) in places(records.len()) {
        let (first, other) = match labels[a].abs().total_cmp(&labels[b].abs()) {
            std::cmp::Ordering::Less => (a, b),
            std::cmp::Ordering::Greater => (b, a),
            std::cmp::Ordering::Equal if labels[a] > 0.0 && labels[b] > 0.0 => continue,
            std::cmp::Ordering::Equal if labels[a] > 0.0 => (a, b),
            std::cmp::Ordering::Equal => (b, a),
        };
        if labels[first] > 0.0 {
            let (one, two) = (records.row(first), records.row(other));
            row.iter_mut().zip(one.iter().zip(two.iter())).for_each(|(d, (a, b))| *d = a - b);
            pairs.push(&row, 1.0);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every record is in one pair, whoever is first counts, and two events at once say nothing.
    #[test]
    fn pairs_are_of_whoever_came_first() {
        let mut of_all: Vec<usize> = places(1001).flat_map(|(a, b)| [a, b]).collect();
        of_all.sort_unstable();
        of_all.dedup();
        assert_eq!(of_all.len(), 1000);
        let near = places(1000).filter(|(a, b)| a.abs_diff(*b) < 10).count();
        assert!(near < 25, "{near} of 500 pairs are of records that lie side by side");
        let two = |a: f64, b: f64| {
            let mut records = Records::with_capacity(2, 2);
            records.push(&[1.0, 1.0], a);
            records.push(&[3.0, 1.0], b);
            let pairs = of(&records);
            (pairs.len() == 1).then(|| pairs.row(0)[0])
        };
        assert_eq!(two(1.0, 2.0), Some(-2.0));
        assert_eq!(two(2.0, -1.0), None);
        assert_eq!(two(-2.0, 1.0), Some(2.0));
        assert_eq!(two(1.0, -1.0), Some(-2.0));
        assert_eq!(two(-1.0, 1.0), Some(2.0));
        assert_eq!(two(1.0, 1.0), None);
        assert_eq!(two(-1.0, -2.0), None);
    }

    /// A record that is replaced changes its own pair alone.
    #[test]
    fn a_replaced_record_changes_one_pair() {
        let drawn = |replaced: Option<usize>| {
            let mut records = Records::with_capacity(2, 30);
            for j in 0..30 {
                let label = if j % 3 == 0 { -(j as f64) - 1.0 } else { 31.0 - j as f64 };
                match replaced {
                    Some(k) if k == j => records.push(&[9.0, 1.0], 0.5),
                    _ => records.push(&[(j * j) as f64, 1.0], label),
                }
            }
            let pairs = of(&records);
            (0..pairs.len()).map(|p| pairs.row(p)[0]).collect::<Vec<f64>>()
        };
        let before = drawn(None);
        for replaced in 0..30 {
            let mut after = drawn(Some(replaced));
            let mut gone = 0;
            for row in &before {
                match after.iter().position(|r| r == row) {
                    Some(at) => drop(after.swap_remove(at)),
                    None => gone += 1,
                }
            }
            assert!(gone <= 1 && after.len() <= 1, "{replaced}: {gone}, {after:?}");
        }
    }
}
