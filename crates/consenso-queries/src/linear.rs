//! Small dense linear algebra: matrices row by row.

/// A⁻¹ of a positive definite n×n matrix, by Cholesky's factorisation; `None` where it is not.
pub(crate) fn inverse(a: &[f64], n: usize) -> Option<Vec<f64>> {
    let mut l = a.to_vec();
    for j in 0..n {
        for k in 0..j {
            let factor = l[j * n + k];
            for i in j..n {
                l[i * n + j] -= factor * l[i * n + k];
            }
        }
        let pivot = l[j * n + j];
        if pivot.is_nan() || pivot <= 0.0 {
            return None;
        }
        let root = pivot.sqrt();
        for i in j..n {
            l[i * n + j] /= root;
        }
    }
    // L⁻¹, column by column, then A⁻¹ = L⁻ᵀ·L⁻¹.
    let mut inverse = vec![0.0; n * n];
    for c in 0..n {
        for i in c..n {
            let start = f64::from(u8::from(i == c));
            let sum: f64 = (c..i).map(|k| l[i * n + k] * inverse[k * n + c]).sum();
            inverse[i * n + c] = (start - sum) / l[i * n + i];
        }
    }
    let mut out = vec![0.0; n * n];
    for k in 0..n {
        let row = &inverse[k * n..k * n + n];
        for i in 0..=k {
            for j in 0..=k {
                out[i * n + j] += row[i] * row[j];
            }
        }
    }
    Some(out)
}

/// wᵀ·A·w.
pub(crate) fn form(a: &[f64], w: &[f64]) -> f64 {
    let n = w.len();
    let row = |i: usize| a[i * n..(i + 1) * n].iter().zip(w).map(|(a, w)| a * w).sum::<f64>();
    w.iter().enumerate().filter(|(_, w)| **w != 0.0).map(|(i, wi)| wi * row(i)).sum()
}

/// Eigenvalues, largest first, and eigenvectors (one per row) of a symmetric n×n matrix, by
/// Jacobi's rotations.
pub(crate) fn eigen(a: &[f64], n: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let mut a = a.to_vec();
    let mut v = vec![0.0; n * n];
    (0..n).for_each(|i| v[i * n + i] = 1.0);
    for _ in 0..100 {
        let off: f64 = (0..n)
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| a[i * n + j].powi(2))
            .sum();
        if off < 1e-24 {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut v, n, p, q);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[j * n + j].total_cmp(&a[i * n + i]));
    let vectors = order.iter().map(|&i| (0..n).map(|k| v[k * n + i]).collect()).collect();
    (order.iter().map(|&i| a[i * n + i]).collect(), vectors)
}

fn rotate(a: &mut [f64], v: &mut [f64], n: usize, p: usize, q: usize) {
    let apq = a[p * n + q];
    if apq == 0.0 {
        return;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * apq);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let t = if theta == 0.0 { 1.0 } else { t };
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    for k in 0..n {
        let (x, y) = (a[k * n + p], a[k * n + q]);
        (a[k * n + p], a[k * n + q]) = (c * x - s * y, s * x + c * y);
    }
    for k in 0..n {
        let (x, y) = (a[p * n + k], a[q * n + k]);
        (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
        let (x, y) = (v[k * n + p], v[k * n + q]);
        (v[k * n + p], v[k * n + q]) = (c * x - s * y, s * x + c * y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inverse_and_eigenvectors_are_what_they_say() {
        let a = [4.0, 1.0, 0.5, 1.0, 3.0, -0.2, 0.5, -0.2, 2.0];
        let inverse = inverse(&a, 3).unwrap();
        for i in 0..3 {
            for j in 0..3 {
                let entry: f64 = (0..3).map(|k| a[i * 3 + k] * inverse[k * 3 + j]).sum();
                assert!((entry - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
        let (values, vectors) = eigen(&a, 3);
        assert!((values.iter().sum::<f64>() - 9.0).abs() < 1e-12 && values[0] > values[2]);
        for (value, vector) in values.iter().zip(&vectors) {
            for i in 0..3 {
                let product: f64 = (0..3).map(|k| a[i * 3 + k] * vector[k]).sum();
                assert!((product - value * vector[i]).abs() < 1e-10);
            }
        }
    }
}
