//! Sites that count more or less than others, in every algorithm.

use super::{AuditTarget, Experiment, ExperimentSpec, Inputs, Silent, SpecError, run};
use crate::audit::{Options, Verdict};
use crate::data::{Dataset, Encoding, Schema, csv};
use crate::problem::solve::central_optimum;
use crate::problem::{Constraint, LocalObjective, MeanLoss};
use std::fmt::Write as _;

const SCHEMA: &str = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n\
    [[column]]\nname = \"dose\"\nkind = \"numeric\"\nmin = -1\nmax = 3\n[[column]]\nname = \"site\"\nkind = \"site\"\n\
    [[column]]\nname = \"y\"\nkind = \"label\"\nclasses = [\"no\", \"yes\"]\n";
const BUDGET: &str = "[privacy]\nepsilon = 8.0\ndelta = 1e-6";
/// Records of the sites, whose labels differ.
const SITES: [usize; 4] = [12, 24, 48, 96];

/// Four sites of very unequal size; `data` is what `[data]` says beside the partition.
fn checked(data: &str, rest: &str, algorithm: &str) -> Result<Experiment, SpecError> {
    let mut table = String::from("age,dose,site,y\n");
    let mut state = 1u64;
    let mut uniform = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    for (site, records) in SITES.into_iter().enumerate() {
        for _ in 0..records {
            let (age, dose) = (100.0 * uniform(), uniform());
            let score = 0.04 * (age - 50.0) + 2.0 * (uniform() - 0.5) + 0.8 * (site as f64 - 1.5);
            writeln!(table, "{age},{dose},s{site},{}", if score > 0.0 { "yes" } else { "no" })
                .unwrap();
        }
    }
    let schema = toml::from_str::<Schema>(SCHEMA).unwrap();
    let records = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
    let source = Box::new(Dataset::new(vec![records], None, Encoding::OneHot).unwrap());
    let text = format!(
        "name = \"made-up\"\nruns = 1\n[data]\npath = \"x.csv\"\nencoding = \"one-hot\"\npartition = {{ by = \"site\" }}\n{data}\n\
         [objective]\nloss = \"logistic\"\nregularization = 0.05\n{rest}\n[[algorithm]]\n{algorithm}\n"
    );
    let spec: ExperimentSpec = toml::from_str(&text).unwrap();
    Experiment::check(Inputs {
        file: "made-up".into(),
        text,
        spec,
        source,
        edges: None,
        entropy: None,
    })
}

const COMPLETE: &str = "[graph]\nkind = \"complete\"";

/// Weights of w_i ∝ b_i make every record count the same: the reference is the optimum of all
/// records in one place, and nothing else.
#[test]
fn weights_by_records_are_the_optimum_of_all_records_together() {
    let experiment = checked("weights = \"records\"", COMPLETE, "kind = \"dgd\"").unwrap();
    let locals = experiment.locals(0).unwrap();
    let weights: Vec<f64> = locals.iter().map(LocalObjective::weight).collect();
    let all: usize = SITES.iter().sum();
    for (weight, records) in weights.iter().zip(SITES) {
        assert!((weight - 4.0 * records as f64 / all as f64).abs() < 1e-12, "{weights:?}");
    }
    let mut together = crate::data::Records::with_capacity(locals[0].dim(), all);
    for records in locals.iter().filter_map(LocalObjective::mean_loss).map(MeanLoss::records) {
        for row in 0..records.len() {
            together.push(&records.row(row), records.labels()[row]);
        }
    }
    let one = LocalObjective::new(*locals[0].mean_loss().unwrap().objective(), together);
    let weighted = central_optimum(&locals, &Constraint::None, None);
    let pooled = central_optimum(&[one], &Constraint::None, None);
    let equal: Vec<LocalObjective> = locals.iter().map(|l| l.clone().weighted(1.0)).collect();
    let other = central_optimum(&equal, &Constraint::None, None);
    let apart = |a: &[f64], b: &[f64]| crate::kernel::distance(a, b);
    assert!(apart(&weighted.x, &pooled.x) < 1e-8, "{:?} {:?}", weighted.x, pooled.x);
    assert!((weighted.value - pooled.value).abs() < 1e-12);
    assert!(apart(&weighted.x, &other.x) > 0.05, "the weights matter here");
}

/// Without noise every algorithm ends at the optimum of the weighted objective, on a complete
/// graph, a ring and a star; in secret shares too.
#[test]
fn every_algorithm_finds_the_weighted_optimum() {
    let gossips = [
        "kind = \"admm\"\nrounds = 2500",
        "kind = \"admm\"\nexact = true\nrounds = 1500",
        "kind = \"admm\"\naggregation = \"fixed\"\nrounds = 1500",
        "kind = \"extra\"\nrounds = 2500",
        "kind = \"gradient-tracking\"\nrounds = 2500",
        "kind = \"exact-diffusion\"\nrounds = 2500",
        "kind = \"nids\"\nrounds = 2500",
        "kind = \"dlm\"\nrounds = 2500",
        "kind = \"led\"\nlocal_steps = 3\nrounds = 2500",
        "kind = \"atc-tracking\"\nlocal_steps = 3\nrounds = 2500",
        "kind = \"consensus-admm\"\nrounds = 1500",
        "kind = \"output-admm\"\nrounds = 1500",
        "kind = \"pp\"\nrounds = 1500",
        "kind = \"dvp\"\nrounds = 1500",
    ];
    let complete = [
        "kind = \"gd\"\nrounds = 2500",
        "kind = \"gd\"\naggregation = \"fixed\"\nexchange = \"secret-shared\"\nrounds = 2000",
    ];
    let graphs = [COMPLETE, "[graph]\nkind = \"ring\"", "[graph]\nkind = \"star\""];
    let everywhere = gossips.iter().flat_map(|a| graphs.map(|g| (*a, g)));
    for (algorithm, graph) in everywhere.chain(complete.map(|a| (a, COMPLETE))) {
        let all = ["weights = \"records\"", "weights = [4, 1, 1, 2]"];
        for weights in &all[..if graph == COMPLETE { 2 } else { 1 }] {
            let experiment =
                checked(weights, graph, algorithm).unwrap_or_else(|e| panic!("{algorithm}: {e}"));
            let gap = run(&experiment, &Silent).unwrap().record.algorithms[0].optimum_gap;
            // A random point between the two agents farthest apart moves on as long as steps do.
            let least = if algorithm.starts_with("kind = \"gd\"\nrounds") { 5e-3 } else { 1e-4 };
            assert!(gap.abs() < least, "{algorithm} on {graph} with {weights}: {gap}");
        }
    }
}

/// Every other kind takes weights under a budget and claims no more than it.
#[test]
fn every_kind_keeps_its_budget_with_weights() {
    let others = ["linear-admm"]; // no weights
    for kind in crate::protocol::KINDS.iter().filter(|k| !others.contains(k)) {
        let algorithm = format!("kind = \"{kind}\"\nrounds = 20");
        let rest = format!("{COMPLETE}\n{BUDGET}");
        let experiment = checked("weights = \"precision\"", &rest, &algorithm)
            .unwrap_or_else(|e| panic!("{kind}: {e}"));
        let claim = experiment.claim(0).unwrap();
        assert!(claim.epsilon <= 8.0 && claim.epsilon > 7.0, "{kind}: {}", claim.epsilon);
        assert!(
            claim.caveats.iter().any(|c| c.contains("precision")),
            "{kind}: {:?}",
            claim.caveats
        );
    }
}

/// One record of a site moves its gradient by N·w_i times what it would: noise and account follow,
/// the claim says so, and an attack with the worst pair comes near the claim and not beyond it.
#[test]
fn a_weighted_agent_is_hidden_as_claimed() {
    for (algorithm, target) in [
        ("kind = \"dgd\"\nrounds = 20", AuditTarget::Agent),
        ("kind = \"admm\"\naggregation = \"fixed\"\nrounds = 20", AuditTarget::Agent),
        (
            "kind = \"gd\"\naggregation = \"fixed\"\nexchange = \"secret-shared\"\nrounds = 20\ncolluders = 2",
            AuditTarget::Experiment,
        ),
    ] {
        let audit = |weights: &str| {
            let experiment = checked(weights, &format!("{COMPLETE}\n{BUDGET}"), algorithm).unwrap();
            let options = Options { trials: 3_000, confidence: 1.0 - 1e-6, seed: 3 };
            let found = experiment.audit(target, options).unwrap()[0].audit.expect("a claim");
            assert_eq!(found.verdict, Verdict::Consistent, "{algorithm}: {found:?}");
            let account = &experiment.planned[0].account;
            let said = account.price.as_ref().unwrap().claim.caveats.join(" ");
            (
                found,
                account.noise_schedule(0, experiment.site_weight(0), 3).unwrap().steps[0].l2
                    / experiment.site_weight(0).weight,
                said,
            )
        };
        let (plain, step, _) = audit("weights = \"equal\"");
        let (heavy, scaled, said) = audit("weights = [13, 1, 1, 1]");
        let least = if target == AuditTarget::Agent { 0.5 } else { 0.05 };
        assert!(heavy.mu_lower > least * heavy.mu_claimed.unwrap(), "{algorithm}: {heavy:?}");
        assert!(
            (heavy.mu_lower - plain.mu_lower).abs() < 0.35 * plain.mu_lower,
            "{heavy:?} {plain:?}"
        );
        // The default step shrinks with the largest weight; what is left is one record's part of a
        // mean.
        assert!(scaled <= step * (1.0 + 1e-9), "{algorithm}: {scaled} {step}");
        assert!(said.contains("multiplied by up to 3.250"), "{said}");
    }
}

/// Were the account blind to weights, the audit would catch it: noise for one weight, an agent of
/// thirteen times as much.
#[test]
fn an_account_that_forgets_the_weight_is_caught() {
    let algorithm = "kind = \"dgd\"\nrounds = 20\nstep = 0.3";
    let heavy =
        checked("weights = [13, 1, 1, 1]", &format!("{COMPLETE}\n{BUDGET}"), algorithm).unwrap();
    let plain = checked("", &format!("{COMPLETE}\n{BUDGET}"), algorithm).unwrap();
    let step = |e: &Experiment| {
        e.planned[0].account.noise_schedule(0, e.site_weight(0), 3).unwrap().steps[0].l2
    };
    assert!((step(&heavy) / step(&plain) - 3.25).abs() < 1e-9, "{} {}", step(&heavy), step(&plain));
    let noise = |e: &Experiment| {
        e.planned[0].account.noise_schedule(0, e.site_weight(0), 3).unwrap().noise[0]
            .noise()
            .scale()
    };
    assert!((noise(&heavy) / noise(&plain) - 3.25).abs() < 1e-6);
    // Objective perturbation counts the weight in the curvature too.
    let inside = |data: &str| {
        let e = checked(
            data,
            &format!("{COMPLETE}\n{BUDGET}"),
            "kind = \"pp\"\nrounds = 5\npenalty = 1.0\nnoise = { gaussian = 1.0 }",
        )
        .unwrap();
        e.planned[0]
            .account
            .noise_schedule(0, e.site_weight(0), 3)
            .unwrap()
            .price
            .as_ref()
            .unwrap()
            .claim
            .epsilon
    };
    assert!(inside("weights = [13, 1, 1, 1]") > 3.0 * inside(""));
}

/// Equal weights are what was there before, bit for bit; precision is between equal and by records,
/// and moves to the latter with the budget.
#[test]
fn equal_weights_change_nothing_and_precision_follows_the_budget() {
    let with = |data: &str, epsilon: &str| {
        let rest = format!("{COMPLETE}\n{}", BUDGET.replace("8.0", epsilon));
        checked(data, &rest, "kind = \"admm\"\nrounds = 30").unwrap()
    };
    let models = |e: &Experiment| run(e, &Silent).unwrap().models[0].agents.clone();
    assert_eq!(models(&with("", "1.0")), models(&with("weights = \"equal\"", "1.0")));
    let share = |e: &Experiment| e.site_weight(3).weight / 4.0;
    let records = share(&with("weights = \"records\"", "1.0"));
    let (little, much) = (
        share(&with("weights = \"precision\"", "1.0")),
        share(&with("weights = \"precision\"", "1000.0")),
    );
    assert!(little > much && much > records && little < 0.8, "{little} {much} {records}");
    let named = with("weights = [1, 0.01, 1, 1]", "1.0").warnings().join(" ");
    assert!(named.contains("site 1 with its 12 records brings"), "{named}");
    let wrong = checked("weights = [1, 2]", COMPLETE, "kind = \"dgd\"").unwrap_err().to_string();
    assert!(wrong.contains("2 numbers for 4 sites"), "{wrong}");
}
