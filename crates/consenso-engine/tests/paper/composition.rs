//! Composition of privacy losses: docs/paper.md section 4 and the footnote to Theorem 2.2, against
//! independent programs.

use consenso_engine::privacy::{Bound, Event, Mechanism, Method, compose, parse_events};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    #[serde(default)]
    name: String,
    events: Vec<Event>,
    delta: f64,
    epsilon: f64,
}

fn golden(text: &str) -> Vec<Golden> {
    serde_json::from_str(text).expect("golden files are valid")
}

#[test]
fn reference_values_of_the_specification() {
    let found = compose(&[Event::laplace(0.01, 1400)], 1e-6).unwrap();
    let close = |bound: &Bound, expected: f64, digits: f64| {
        let epsilon = bound.value().unwrap();
        assert!((epsilon - expected).abs() <= digits, "{epsilon} against {expected}");
    };
    close(&found.pure, 14.0, 1e-10);
    close(&found.advanced, 2.037, 5e-4);
    close(&found.zcdp, 1.762, 5e-4);
    close(&found.rdp, 1.759, 5e-4);
    close(&found.kov, 1.6395, 5e-5);
    close(&found.pld, 1.6369, 5e-5);
    assert_eq!(found.gdp.value(), None);
    assert_eq!(found.best().unwrap().0, Method::Pld);
    assert!(found.pure.value().unwrap() >= 14.0, "never below the sum");
}

#[test]
fn pld_agrees_with_dp_accounting() {
    for case in golden(include_str!("../golden/pld.json")) {
        let epsilon =
            compose(&case.events, case.delta).unwrap().pld.value().expect("PLD is valid here");
        let excess = epsilon / case.epsilon - 1.0;
        println!(
            "{} δ={:e}: {epsilon} against {}: {excess:e}",
            case.name, case.delta, case.epsilon
        );
        assert!(excess > -1e-6, "{}: {epsilon} is below the reference {}", case.name, case.epsilon);
        assert!(
            excess < 1e-3,
            "{}: {epsilon} is too far above the reference {}",
            case.name,
            case.epsilon
        );
    }
}

#[test]
fn sampled_releases_agree_with_dp_accounting() {
    for case in golden(include_str!("../golden/sampled.json")) {
        let found = compose(&case.events, case.delta).unwrap();
        let epsilon = found.pld.value().expect("PLD is valid here");
        let excess = epsilon / case.epsilon - 1.0;
        println!(
            "{} δ={:e}: {epsilon} against {}: {excess:e}",
            case.name, case.delta, case.epsilon
        );
        assert!(excess > -1e-6, "{}: {epsilon} is below the reference {}", case.name, case.epsilon);
        assert!(excess < 1e-3, "{}: {epsilon} is above the reference {}", case.name, case.epsilon);
        let rdp = found.rdp.value().expect("RDP is valid here");
        assert!(rdp >= epsilon, "{}: RDP {rdp} is below PLD {epsilon}", case.name);
        assert_eq!(found.gdp.value(), None);
    }
}

#[test]
fn kov_agrees_with_exact_rational_arithmetic() {
    for case in golden(include_str!("../golden/kov.json")) {
        let epsilon =
            compose(&case.events, case.delta).unwrap().kov.value().expect("KOV is valid here");
        let distinct = case.events.len() > 1;
        let excess = epsilon / case.epsilon - 1.0;
        println!("{} events: {epsilon} against {}: {excess:e}", case.events.len(), case.epsilon);
        assert!(excess > -1e-13, "{epsilon} is below the exact {}", case.epsilon);
        assert!(
            excess < if distinct { 1e-3 } else { 1e-10 },
            "{epsilon} against the exact {}",
            case.epsilon
        );
    }
}

#[test]
fn methods_are_ordered_as_their_theorems_say() {
    for (epsilon, count) in [(0.001, 5000), (0.05, 300), (0.3, 7), (2.0, 3), (1.0, 1)] {
        for delta in [1e-12, 1e-6, 1e-2] {
            let found = compose(&[Event::laplace(epsilon, count)], delta).unwrap();
            let of = |bound: &Bound| bound.value().unwrap();
            let (pld, kov, rdp, zcdp) =
                (of(&found.pld), of(&found.kov), of(&found.rdp), of(&found.zcdp));
            let slack = 1.0 + 1e-6;
            assert!(pld <= kov * slack, "{epsilon}×{count} δ={delta}: pld {pld} kov {kov}");
            assert!(pld <= rdp * slack, "{epsilon}×{count} δ={delta}: pld {pld} rdp {rdp}");
            assert!(rdp <= zcdp * slack && kov <= of(&found.advanced) * slack);
            assert!(kov <= of(&found.pure) * slack);
        }
    }
}

#[test]
fn pld_of_gaussians_is_the_exact_gaussian_value() {
    let found = compose(&[Event::gaussian(0.02, 1000), Event::gaussian(0.3, 1)], 1e-6).unwrap();
    assert_eq!(found.pld, found.gdp);
    assert_eq!(found.pure.value(), None);
    assert_eq!(found.kov.value(), None);
    assert!(found.gdp.value().unwrap() < found.rdp.value().unwrap());
}

#[test]
fn a_negligible_laplace_release_barely_moves_the_gaussian_value() {
    let alone = compose(&[Event::gaussian(0.5, 1)], 1e-6).unwrap().gdp.value().unwrap();
    let with = compose(&[Event::gaussian(0.5, 1), Event::laplace(1e-4, 1)], 1e-6)
        .unwrap()
        .pld
        .value()
        .unwrap();
    assert!(with >= alone && with < alone * 1.001, "{with} against {alone}");
}

#[test]
fn splitting_an_event_into_several_entries_changes_nothing() {
    let together = compose(&[Event::laplace(0.02, 300)], 1e-6).unwrap();
    let apart = compose(
        &[Event::laplace(0.02, 100), Event::laplace(0.02, 199), Event::laplace(0.02, 1)],
        1e-6,
    );
    assert_eq!(together, apart.unwrap());
}

#[test]
fn transcript_dependent_costs_get_no_number_but_the_worst_case() {
    let interval =
        Mechanism::IntervalLaplace { orders: vec![2.0, 8.0], costs: vec![1e-4, 4e-4], pure: 0.05 };
    let found =
        compose(&[Event::laplace(0.1, 2), Event { mechanism: interval, count: 10 }], 1e-6).unwrap();
    assert!((found.pure.value().unwrap() - 0.7).abs() < 1e-9);
    for (method, bound) in found.bounds().into_iter().skip(1) {
        let Bound::NotValid { reason } = bound else { panic!("{method} must not give a number") };
        assert!(reason.contains("transcript"), "{method}: {reason}");
    }
    assert_eq!(found.best().unwrap().0, Method::Pure);
}

#[test]
fn json_is_a_number_or_null_with_a_reason() {
    let found = compose(&[Event::gaussian(0.1, 10)], 1e-5).unwrap();
    let json = serde_json::to_value(&found).unwrap();
    assert!(json["rdp"].is_number() && json["gdp"].is_number() && json["kov"].is_null());
    assert!(json["reasons"]["kov"].as_str().unwrap().contains("Gaussian"));
    assert!(json["reasons"].get("rdp").is_none());
    assert_eq!(
        serde_json::from_value::<consenso_engine::privacy::Composition>(json).unwrap(),
        found
    );
}

#[test]
fn nothing_costs_nothing_and_zcdp_has_no_loss_distribution() {
    let nothing =
        compose(&[Event::once(Mechanism::PostProcessing), Event::laplace(0.0, 7)], 1e-6).unwrap();
    assert!(nothing.bounds().iter().all(|(_, bound)| bound.value() == Some(0.0)), "{nothing:?}");
    let zcdp = compose(&[Event::zcdp(0.01, 5), Event::laplace(0.1, 1)], 1e-6).unwrap();
    assert!(zcdp.zcdp.value().is_some() && zcdp.rdp.value().is_some());
    assert!(
        zcdp.pld.value().is_none() && zcdp.kov.value().is_none() && zcdp.pure.value().is_none()
    );
}

#[test]
fn extreme_but_valid_events_get_a_bound_not_a_panic() {
    for events in [
        vec![Event::laplace(1e-9, 1_000_000)],
        vec![Event::laplace(500.0, 3)],
        vec![Event::laplace(1e-12, 1), Event::laplace(50.0, 1)],
        vec![Event::pure(1e-3, 50_000_000)],
        vec![Event::gaussian(1e-12, 1), Event::laplace(0.1, 10)],
        vec![Event::gaussian(100.0, 1), Event::laplace(0.1, 10)],
        vec![Event::laplace(1e308, 4)],
        vec![Event::gaussian(1e200, 1)],
    ] {
        for delta in [1e-300, 1e-15, 0.3, 1.0 - 1e-9] {
            let found = compose(&events, delta).unwrap();
            for (method, bound) in found.bounds() {
                if let Some(epsilon) = bound.value() {
                    assert!(
                        epsilon.is_finite() && epsilon >= 0.0,
                        "{events:?} {delta} {method}: {epsilon}"
                    );
                    if let (Some(sum), true) = (found.pure.value(), method != Method::Zcdp) {
                        assert!(
                            epsilon <= sum * 1.001,
                            "{events:?} {delta} {method}: {epsilon} above the sum"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn bad_delta_and_bad_events_are_errors() {
    for delta in [0.0, 1.0, -1e-6, f64::NAN, f64::INFINITY] {
        let message = compose(&[Event::laplace(0.1, 1)], delta).unwrap_err().to_string();
        assert!(message.starts_with("delta must be strictly between 0 and 1"), "{message}");
    }
    assert!(compose(&[Event::laplace(-0.1, 1)], 1e-6).is_err());
    assert!(parse_events("[{\"mechanism\":\"lapalce\",\"epsilon\":1}]").is_err());
}
