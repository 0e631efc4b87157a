//! `consenso plan`.

use crate::Place;

#[test]
fn the_papers_parameters_are_stable_but_not_certified() {
    let place = Place::new("plan");
    let plan = place.consenso(&["plan", "paper-2a", "--json"]).json();
    let first = &plan["algorithms"][0];
    assert_eq!(first["standing"], "predicted-stable");
    assert!(first["not_certified"].as_str().unwrap().starts_with("Theorem 3.3: no α"), "{first}");
    // What it calls certified, it must certify when asked again.
    let nearest = &first["nearest_certified"];
    let set = |key: &str| format!("algorithm.0.{key}={}", nearest[key]);
    let changes = ["weights", "dual_step", "penalty"].map(set);
    let mut words = vec!["plan", "paper-2a", "--json"];
    changes.iter().for_each(|c| words.extend(["--set", c]));
    let plan = place.consenso(&words).json();
    assert_eq!(plan["algorithms"][0]["standing"], "certified", "{plan}");
    assert!(plan["algorithms"][0]["rate"].as_f64().unwrap() < 1.0);
}

#[test]
fn too_large_a_dual_step_is_unstable_and_says_which_inequality() {
    let place = Place::new("plan-unstable");
    let answer = place.consenso(&["plan", "paper-2a", "--set", "algorithm.0.dual_step=5"]);
    assert_eq!(answer.code, 0);
    assert!(answer.stdout.contains("Algorithm 1: unstable"), "{}", answer.stdout);
    assert!(
        answer.stdout.contains("ζ·λ_max = 50.0000 ≥ 4D(1 − s̄) − 2M = 17.5000"),
        "{}",
        answer.stdout
    );
    let bad = place.consenso(&["plan", "paper-2a", "--set", "algorithm.0.weights=[0.5,2]"]);
    assert_eq!(bad.code, 2);
    assert!(
        bad.stderr.contains("weights = [0.5, 2] must be a range within 0 and 1"),
        "{}",
        bad.stderr
    );
}
