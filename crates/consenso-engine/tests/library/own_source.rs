//! A source of problems that is no file, no generator and no list of costs: what `Source` promises
//! to whoever adds one.

use consenso_engine::config_error::ConfigError;
use consenso_engine::data::{Records, RowBounds, Task};
use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, LocalMaker, Source};
use consenso_engine::problem::LossKind;
use consenso_engine::protocol::Dgd;
use consenso_engine::random::Seed;
use consenso_engine::study::Study;
use std::borrow::Cow;

/// Three sensors that measure a plane, y = 0.5·a − 0.25·b, at points of their own.
#[derive(Debug)]
struct Sensors(Vec<Records>);

fn measured(points: impl Iterator<Item = f64>) -> Records {
    let mut records = Records::with_capacity(2, 40);
    for angle in points {
        let (a, b) = (0.9 * angle.cos(), 0.9 * angle.sin());
        records.push(&[a, b], 0.5 * a - 0.25 * b);
    }
    records
}

fn sensors() -> Sensors {
    let one = |k: u32| measured((0..40).map(|i| f64::from(k) + f64::from(i) * 0.37));
    Sensors((0..3).map(one).collect())
}

impl Source for Sensors {
    fn task(&self) -> Task {
        Task::Regression { min: -1.0, max: 1.0 }
    }

    fn features(&self) -> usize {
        2
    }

    fn bounds(&self) -> RowBounds {
        RowBounds::declared(2f64.sqrt(), 1.0, 1.0)
    }

    fn counts(&self, _: &ExperimentSpec, _: &Seed) -> Result<Vec<usize>, ConfigError> {
        Ok(self.0.iter().map(Records::len).collect())
    }

    fn locals<'a>(
        &'a self,
        experiment: &'a Experiment,
        run: u32,
        _: &[usize],
    ) -> Result<LocalMaker<'a>, ConfigError> {
        Ok(Box::new(move |agent| Ok(experiment.objective_of(self.0[agent].clone(), run, agent))))
    }

    fn test(&self, _: &Seed) -> Option<Cow<'_, Records>> {
        Some(Cow::Owned(measured((0..50).map(f64::from))))
    }
}

fn study() -> Study {
    let mut spec = ExperimentSpec::named("plane");
    (spec.objective.loss, spec.objective.clip) = (LossKind::Ridge, Some(1.0));
    spec.objective.regularization = 1e-6;
    let (file, text, source) = ("plane".to_owned(), String::new(), Box::new(sensors()));
    Study::from(Inputs { file, text, spec, source, edges: None, entropy: None })
        .algorithm(Dgd::default())
        .setting("rounds", 300)
}

#[test]
fn a_source_of_ones_own_trains_is_tested_and_claimed() {
    let found = study().run().unwrap();
    for model in found.models() {
        assert!((model[0] - 0.5).abs() < 0.02 && (model[1] + 0.25).abs() < 0.02, "{model:?}");
    }
    let metrics = found.record().algorithms[0].metrics.as_ref().unwrap();
    assert!(metrics.r2.unwrap() > 0.99, "{metrics:?}");
    assert_eq!(found.record().problem.records, (40, 40));
    // Somebody's records unless the source says otherwise: noise is nobody's to draw again.
    let private = || study().budget(1.0, 1e-6).run().unwrap();
    let one = private();
    assert!(one.claim().unwrap().epsilon <= 1.0 && one.record().total_epsilon.is_some());
    assert_ne!(one.models(), private().models());
}
