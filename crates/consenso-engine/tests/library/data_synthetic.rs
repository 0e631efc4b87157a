//! Synthetic problems: shape, determinism, bounds, bad parameters.

use consenso_engine::data::{Synthetic, SyntheticError, SyntheticTask, Task};
use consenso_engine::random::Seed;

fn problem() -> Synthetic {
    Synthetic { heterogeneity: 0.5, ..Synthetic::new(SyntheticTask::Logistic, 6, 40, 13) }
}

#[test]
fn every_agent_is_a_function_of_the_seed_and_its_number() {
    let seed = Seed::from(9);
    let all = problem().generate(&seed).expect("valid");
    assert_eq!(all.len(), 6);
    for (agent, records) in (0..).zip(&all) {
        assert_eq!((records.len(), records.dim()), (40, 13));
        assert_eq!(records, &problem().agent(&seed, agent).expect("valid"));
    }
    assert_ne!(all[0], all[1]);
    assert_ne!(all, problem().generate(&Seed::from(10)).expect("valid"));
    let fewer = Synthetic { agents: 2, ..problem() }.generate(&seed).expect("valid");
    assert_eq!(fewer[..], all[..2], "other agents do not matter");
}

#[test]
fn thread_count_does_not_matter() {
    let seed = Seed::from(9);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("pool");
    let alone = pool.install(|| problem().generate(&seed)).expect("valid");
    assert_eq!(alone, problem().generate(&seed).expect("valid"));
}

#[test]
fn rows_stay_within_their_public_bounds_and_labels_within_their_task() {
    let seed = Seed::from(2);
    for task in
        [SyntheticTask::Logistic, SyntheticTask::Ridge, SyntheticTask::Softmax { classes: 4 }]
    {
        let problem = Synthetic { task, ..problem() };
        let bounds = problem.bounds();
        let (l1, l2, linf, public) = (bounds.l1(), bounds.l2(), bounds.linf(), bounds.is_public());
        assert!(public && l2 == 1.0 && linf <= 1.0 && (l1 - 13_f64.sqrt()).abs() < 1e-14);
        for records in problem.generate(&seed).expect("valid") {
            for row in 0..records.len() {
                let norm_squared: f64 = records.row(row).iter().map(|v| v * v).sum();
                assert!((norm_squared - 1.0).abs() < 1e-12);
                assert!(records.row(row).iter().map(|v| v.abs()).sum::<f64>() <= l1);
            }
            for &label in records.labels() {
                assert!(match problem.task() {
                    Task::Binary => label.abs() == 1.0,
                    Task::MultiClass { classes } =>
                        label.fract() == 0.0 && (0.0..classes as f64).contains(&label),
                    Task::Regression { min, max } => (min..=max).contains(&label),
                });
            }
        }
    }
}

#[test]
fn heterogeneity_moves_the_agents_apart() {
    let spread = |heterogeneity: f64| {
        let agents = Synthetic { heterogeneity, records_per_agent: 400, ..problem() }
            .generate(&Seed::from(4))
            .expect("valid");
        let mean = |agent: usize, j: usize| -> f64 {
            (0..400).map(|row| agents[agent].row(row)[j]).sum::<f64>() / 400.0
        };
        (0..13).map(|j| (mean(0, j) - mean(1, j)).powi(2)).sum::<f64>().sqrt()
    };
    // Without heterogeneity a mean has standard error √(1/400) in norm: 0.07 for the difference.
    assert!(spread(0.0) < 0.2, "{}", spread(0.0));
    assert!(spread(2.0) > 0.4, "{}", spread(2.0));
}

#[test]
fn test_rows_are_nobodys() {
    let seed = Seed::from(9);
    let test = problem().test(&seed, 25).expect("valid");
    assert_eq!((test.len(), test.dim()), (25, 13));
    assert!(
        problem()
            .generate(&seed)
            .expect("valid")
            .iter()
            .all(|records| records.row(0) != test.row(0))
    );
}

#[test]
fn bad_parameters_are_named() {
    let error =
        |problem: Synthetic| problem.generate(&Seed::from(0)).expect_err("invalid").to_string();
    assert_eq!(error(Synthetic { agents: 0, ..problem() }), "`agents` = 0 must be at least 1");
    assert_eq!(error(Synthetic { dim: 0, ..problem() }), "`dim` = 0 must be at least 1");
    let softmax = Synthetic { task: SyntheticTask::Softmax { classes: 2 }, ..problem() };
    assert_eq!(error(softmax), "`classes` = 2 must be at least 3");
    let nan = Synthetic { heterogeneity: f64::NAN, ..problem() };
    assert!(matches!(nan.check(), Err(SyntheticError::OutOfRange { key: "heterogeneity", .. })));
    assert!(
        error(Synthetic { nonzeros: Some(14), ..problem() }).starts_with("`nonzeros` = 14 must be")
    );
    assert_eq!(
        error(Synthetic { margin: 0.0, ..problem() }),
        "`margin` = 0 must be a finite number above 0"
    );
}

#[test]
fn sparse_rows_have_as_many_non_zeros_as_asked_and_unit_norm() {
    let seed = Seed::from(4);
    let problem = Synthetic {
        nonzeros: Some(20),
        ..Synthetic::new(SyntheticTask::Logistic, 2, 500, 100_000)
    };
    let records = problem.agent(&seed, 1).expect("valid");
    assert_eq!((records.len(), records.dim(), records.stored()), (500, 100_000, 500 * 20));
    let mut columns = std::collections::BTreeSet::new();
    for row in 0..records.len() {
        let entries: Vec<(u32, f64)> = records.entries(row).collect();
        assert!(entries.windows(2).all(|w| w[0].0 < w[1].0), "increasing columns");
        let squares: f64 = entries.iter().map(|e| e.1 * e.1).sum();
        assert!(squares <= 1.0 && squares > 1.0 - 1e-12);
        columns.extend(entries.iter().map(|e| e.0));
    }
    // 10,000 draws of 100,000 columns hit 9,516 ± 21 different ones.
    assert!((9_400..9_630).contains(&columns.len()), "{}", columns.len());
    assert!(problem.bounds().l1() < 4.5, "√20");
}
