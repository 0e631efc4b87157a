//! Mixing weights are doubly stochastic; spectra are the closed forms, and bounds are on the safe
//! side.

use consenso_engine::graph::spectrum::TOLERANCE;
use consenso_engine::graph::{Eigenvalue, Graph, Mixing};
use proptest::prelude::*;
use std::f64::consts::PI;

fn close(estimate: Eigenvalue, exact: f64, tolerance: f64) {
    let error = (estimate.value - exact).abs();
    assert!(error <= tolerance, "{estimate:?} is {error:e} from {exact}");
}

/// (graph, λ_2, λ_max) from the textbook.
fn closed_forms(n: usize) -> Vec<(&'static str, Graph, f64, f64)> {
    let cosine = |k: usize, m: usize| 2.0 - 2.0 * (PI * k as f64 / m as f64).cos();
    vec![
        ("ring", Graph::ring(n).unwrap(), cosine(2, n), cosine(2 * (n / 2), n)),
        ("path", Graph::path(n).unwrap(), cosine(1, n), cosine(n - 1, n)),
        ("star", Graph::star(n).unwrap(), if n > 2 { 1.0 } else { 2.0 }, n as f64),
        ("complete", Graph::complete(n).unwrap(), n as f64, n as f64),
    ]
}

#[test]
fn dense_spectra_are_the_closed_forms() {
    for n in [3, 4, 5, 10, 101, 300] {
        for (name, graph, second, largest) in closed_forms(n) {
            let spectrum = graph.laplacian_spectrum();
            close(spectrum.connectivity, second, 1e-10);
            close(spectrum.largest, largest, 1e-10);
            assert!(
                spectrum.largest_upper_bound >= largest - 1e-13 * largest,
                "{name} {n}: {spectrum:?}"
            );
            assert!(
                spectrum.largest_upper_bound <= largest + 1e-8,
                "{name} {n}: a dense bound is tight: {spectrum:?}"
            );
            assert!(spectrum.connectivity_lower_bound <= second, "{name} {n}: {spectrum:?}");
            assert!(graph.laplacian_bound() >= largest - 1e-13 * largest, "{name} {n}");
            assert!(graph.laplacian_upper_bound() >= largest * (1.0 - 1e-14), "{name} {n}");
        }
    }
}

#[test]
fn lanczos_spectra_are_the_closed_forms() {
    for n in [301, 400] {
        for (name, graph, second, largest) in closed_forms(n) {
            let spectrum = graph.laplacian_spectrum();
            let tolerance = 10.0 * TOLERANCE * graph.laplacian_bound();
            // Long rings and paths converge slowly at the ends: the residual must admit it.
            close(spectrum.connectivity, second, tolerance.max(spectrum.connectivity.residual));
            close(spectrum.largest, largest, tolerance.max(spectrum.largest.residual));
            assert!(
                spectrum.largest_upper_bound >= largest * (1.0 - 1e-14),
                "{name} {n}: {spectrum:?}"
            );
            assert!(spectrum.connectivity_lower_bound <= second, "{name} {n}: {spectrum:?}");
        }
    }
}

/// Two solvers that share no code agree on one random graph either side of the dense limit, through
/// a graph whose spectrum is known: the Cartesian product of paths has sums of their eigenvalues.
#[test]
fn a_grid_has_sums_of_path_eigenvalues() {
    for (rows, columns) in [(10, 20), (20, 30)] {
        let spectrum = Graph::grid(rows * columns, Some(rows)).unwrap().laplacian_spectrum();
        let path = |k: usize, m: usize| 2.0 - 2.0 * (PI * k as f64 / m as f64).cos();
        close(spectrum.connectivity, path(1, columns), 1e-6);
        let largest = path(rows - 1, rows) + path(columns - 1, columns);
        close(spectrum.largest, largest, 1e-6);
        assert!(spectrum.largest_upper_bound >= largest);
        assert!(
            spectrum.largest_upper_bound <= largest + 0.1,
            "bipartite, so power iteration is nearly tight"
        );
    }
}

#[test]
fn mixing_eigenvalues_are_the_closed_forms() {
    for n in [5, 8, 100, 400] {
        // On a ring Metropolis is 1/3 everywhere: eigenvalues 1/3 + 2/3 cos(2πk/n).
        let ring = Graph::ring(n).unwrap();
        let low = 1.0 / 3.0 + 2.0 / 3.0 * (2.0 * PI * (n / 2) as f64 / n as f64).cos();
        let high = 1.0 / 3.0 + 2.0 / 3.0 * (2.0 * PI / n as f64).cos();
        let second = Mixing::metropolis(&ring).second_eigenvalue(&ring);
        close(second, low.abs().max(high.abs()), 1e-6_f64.max(second.residual));
        let (smallest, _) = Mixing::metropolis(&ring).spectrum(&ring);
        close(smallest, low, 1e-6_f64.max(smallest.residual));
        // On a complete graph it averages at once.
        let complete = Graph::complete(n).unwrap();
        close(Mixing::metropolis(&complete).second_eigenvalue(&complete), 0.0, 1e-10);
        close(Mixing::metropolis(&complete).spectral_gap(&complete), 1.0, 1e-10);
        // On a star every weight is 1/n: W = I − L/n has eigenvalues 1 − 1/n and 0.
        let star = Graph::star(n).unwrap();
        for weights in [Mixing::metropolis(&star), Mixing::max_degree(&star)] {
            close(weights.second_eigenvalue(&star), 1.0 - 1.0 / n as f64, 1e-7);
        }
    }
}

#[test]
fn a_large_expander_converges() {
    let graph = Graph::regular(20_000, 6, &11.into()).unwrap();
    let spectrum = graph.laplacian_spectrum();
    // Friedman: adjacency eigenvalues but the first lie within 2√5 + o(1) of 0.
    let edge = 2.0 * 5.0_f64.sqrt();
    close(spectrum.connectivity, 6.0 - edge, 0.1);
    close(spectrum.largest, 6.0 + edge, 0.1);
    assert!(
        spectrum.largest_upper_bound >= spectrum.largest.value
            && spectrum.largest_upper_bound <= 12.001
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn weights_are_symmetric_and_doubly_stochastic(agents in 2_usize..60, extra in 0_usize..200, seed: u64) {
        let edges = (agents - 1 + extra).min(agents * (agents - 1) / 2);
        let graph = Graph::random(agents, edges, &seed.into()).unwrap();
        for weights in [Mixing::metropolis(&graph), Mixing::max_degree(&graph)] {
            let mut columns: Vec<f64> = (0..agents).map(|i| weights.own(i)).collect();
            for i in 0..agents {
                prop_assert!(weights.own(i) > 0.0);
                let row: f64 = weights.own(i) + weights.neighbours(i).iter().sum::<f64>();
                prop_assert!((row - 1.0).abs() <= 1e-15 * agents as f64);
                for (&j, &w) in graph.neighbours(i).iter().zip(weights.neighbours(i)) {
                    let back = graph.neighbours(j as usize).binary_search(&(i as u32)).unwrap();
                    prop_assert_eq!(w.to_bits(), weights.neighbours(j as usize)[back].to_bits());
                    prop_assert!(w > 0.0);
                    columns[j as usize] += w;
                }
            }
            prop_assert!(columns.iter().all(|c| (c - 1.0).abs() <= 1e-15 * agents as f64));
            let second = weights.second_eigenvalue(&graph);
            prop_assert!(second.value < 1.0, "{:?}", second);
        }
    }

    #[test]
    fn the_upper_bound_holds_for_random_vectors(agents in 2_usize..60, extra in 0_usize..200, seed: u64) {
        let edges = (agents - 1 + extra).min(agents * (agents - 1) / 2);
        let graph = Graph::random(agents, edges, &seed.into()).unwrap();
        let spectrum = graph.laplacian_spectrum();
        prop_assert!(spectrum.largest_upper_bound <= graph.laplacian_bound());
        prop_assert!(graph.laplacian_bound() <= 2.0 * graph.max_degree() as f64);
        // A degree-weighted sign vector is a fair attack: its Rayleigh quotient is often near
        // λ_max.
        let x: Vec<f64> = (0..agents).map(|i| if i % 2 == 0 { 1.0 } else { -(graph.degree(i) as f64) }).collect();
        let energy: f64 = graph.iter_edges().map(|(a, b)| (x[a as usize] - x[b as usize]).powi(2)).sum();
        let quotient = energy / x.iter().map(|x| x * x).sum::<f64>();
        prop_assert!(quotient <= spectrum.largest_upper_bound * (1.0 + 1e-14));
        prop_assert!(spectrum.connectivity_lower_bound > 0.0);
        prop_assert!(spectrum.connectivity_lower_bound <= spectrum.connectivity.value + spectrum.connectivity.residual);
    }
}
