//! A record that no run made: plausible curves from closed forms, for tests and for looking at the
//! report.

use consenso_engine::record::{
    AlgorithmRecord, Baselines, CurvePoint, EpsilonRecord, ProblemRecord, Record, Spread, ZeroModel,
};
use serde_json::json;

/// Three private algorithms of different kinds and one without privacy.
pub(crate) fn record() -> Record {
    Record {
        kind: Default::default(),
        total_epsilon: None,
        processes: None,
        map: None,
        name: "adult".into(),
        seed: 7,
        runs: 10,
        runs_asked: 10,
        interrupted: false,
        version: "0.1.0".into(),
        problem: problem(),
        algorithms: vec![
            algorithm("admm", "ADMM (Algorithm 1)", 0.012, Some(epsilon(1.0, Some(38.2)))),
            algorithm("gradient-descent", "Randomised gradient descent", 0.03, Some(epsilon(0.999, Some(24.6)))),
            algorithm("dgd", "DGD, Gaussian noise", 0.06, Some(epsilon(1.0, None))),
            algorithm("extra", "EXTRA", 0.0, None),
        ],
        baselines: Baselines {
            majority_accuracy: Some(0.7543),
            zero_model: ZeroModel { accuracy: Some(0.7543), log_error: -2.66, objective: std::f64::consts::LN_2 },
            central_optimum_accuracy: Some(0.8472),
            central_optimum_auc: Some(0.9021),
            central_optimum_r2: None,
            central_optimum_objective: 0.3312,
            local_only_accuracy: Some(0.8389),
            reference: None,
        },
        sweep: Vec::new(),
        warnings: vec![
            "DGD, Gaussian noise: the step size is above the certified range; predicted stable, not proved.".into(),
        ],
        resolved: "name = \"adult\"\nseed = 7\nruns = 10\n\n[data]\nsource = \"adult\"\nencoding = \"one-hot\"\nagents = 10\n\
                   records_per_agent = 3000\n\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n"
            .into(),
    }
}

fn problem() -> ProblemRecord {
    ProblemRecord {
        source: "adult".into(),
        encoding: "one-hot".into(),
        loss: "logistic".into(),
        classes: vec!["no".into(), "yes".into()],
        regularization: 1e-3,
        agents: 10,
        dim: 106,
        records: (3000, 3000),
        edges: 20,
        graph: "random".into(),
        laplacian: (1.2847, 8.1123),
        mixing_gap: 0.187,
        smoothness: (2.76, 1e-3),
    }
}

fn algorithm(
    kind: &str,
    label: &str,
    noise: f64,
    epsilon: Option<EpsilonRecord>,
) -> AlgorithmRecord {
    let pure = epsilon.as_ref().and_then(|e| e.worst_case_pure);
    let curve: Vec<CurvePoint> = (0..=200).map(|round| at(round, noise, pure)).collect();
    let last = curve.last().expect("a curve").clone();
    let accuracy = last.test_accuracy.expect("accuracy");
    AlgorithmRecord {
        kind: kind.into(),
        method: kind.into(),
        label: label.into(),
        rounds: 200,
        gossip: if noise > 0.05 { 20 } else { 0 },
        test_accuracy: Some(accuracy.mean),
        test_auc: Some(accuracy.mean + 0.05),
        per_agent_accuracy: Some(Spread { min: accuracy.min - 0.01, ..accuracy }),
        metrics: None,
        across_runs: None,
        findings: Vec::new(),
        model: None,
        objective: last.objective.mean,
        optimum_gap: last.objective.mean - 0.3312,
        log_error: last.log_error.mean,
        noise: if epsilon.is_some() {
            "Laplace on a grid, scale 0.41 to 0.02".into()
        } else {
            String::new()
        },
        epsilon,
        published: None,
        seconds: 3.21,
        parameters: json!({ "step": 0.37, "penalty": [0.1, 0.1, 0.2], "schedule": "geometric" }),
        agents_stopped: 0.0,
        diverged: false,
        delays: None,
        traffic: None,
        certified: None,
        violation: None,
        personal: None,
        estimates: None,
        curve,
        trace: Vec::new(),
    }
}

fn at(round: u32, noise: f64, pure: Option<f64>) -> CurvePoint {
    let k = f64::from(round);
    // A ripple stands for chance: the same on every machine.
    let ripple = noise * ((1.7 * k).sin() + (0.61 * k + 1.0).cos());
    let learned = (-k / (14.0 + 200.0 * noise)).exp();
    let gap = 0.36 * learned * learned + 0.4 * noise * (1.0 + ripple) + 1e-7;
    let accuracy = 0.846 - 0.09 * learned - 0.35 * noise * (1.0 + 0.5 * ripple);
    let log_error = -2.66 - 2.2 * (1.0 - learned) * (1.0 - 8.0 * noise) + 0.5 * ripple;
    let around = |mean: f64, half: f64| Spread { min: mean - half, mean, max: mean + half };
    CurvePoint {
        round,
        objective: around(0.3312 + gap, 0.35 * gap),
        log_error: around(log_error, 0.12 + 2.0 * noise),
        test_accuracy: Some(around(accuracy, 0.002 + 0.2 * noise)),
        disagreement: around(0.3 * learned + 0.5 * noise + 1e-5, 0.1 * learned + 0.15 * noise),
        epsilon_worst: pure.map(|total| total * k / 200.0),
        epsilon_published: None,
        sent: None,
        epsilon_realised: pure
            .map(|total| around(0.62 * total * k / 200.0, 0.03 * total * (k / 200.0).sqrt())),
    }
}

fn epsilon(claim: f64, pure: Option<f64>) -> EpsilonRecord {
    EpsilonRecord {
        claim,
        delta: 1e-6,
        method: "pld".into(),
        worst_case_pure: pure,
        paper_worst_case: pure.map(|e| 3.7 * e),
        realised_mean: pure.map(|e| 0.62 * e),
        realised_range: pure.map(|e| (0.59 * e, 0.65 * e)),
        bounds: json!({
            "l1": { "delta": 1e-6, "pure": pure, "advanced": 2.31, "kov": null, "zcdp": 1.62, "rdp": 1.318, "pld": 1.21,
                    "reasons": { "kov": "more than one kind of event" } },
            "l2": { "delta": 1e-6, "pure": null, "advanced": null, "kov": null, "zcdp": 1.42, "rdp": 1.118, "pld": claim,
                    "reasons": { "pure": "no pure ε in this norm", "advanced": "no pure ε in this norm",
                                 "kov": "no pure ε in this norm" } },
        }),
        statement: "privacy claim  ε = 1.00000, δ = 1e-6\n  method       pld — privacy loss distribution, pessimistic\n  \
                    neighbours   replace-one — one record replaced by any other\n  adversary    every other agent colludes and \
                    sees every exchanged vector\n  sampler      exact Laplace rounded to a public grid\n  caveat       every \
                    agent's number of records is taken as public\n  caveat       seeded simulation: these figures hold only for a run on OS entropy\n  by method    (δ = 1e-6; pure holds at δ = 0)\n    pld  \
                    ε = 1.00000\n"
            .into(),
        seeded: true,
    }
}
