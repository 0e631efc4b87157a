//! What all transcripts of one command cost together, and what one site's study does.

use super::check::Experiment;
use super::pieces::{Part, Place};
use super::planned::Planned;
use crate::config_error::ConfigError;
use crate::privacy::studies::StudyCost;
use crate::privacy::{Adversary, NeighbourRelation};
use crate::record::{ResultKind, TotalEpsilon};

/// What one command costs the records: every run of every algorithm at every point of a sweep is a
/// transcript of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandCost {
    /// How many transcripts it makes.
    pub transcripts: u64,
    /// What they cost together.
    pub cost: StudyCost,
    /// Which data sets are neighbours.
    pub relation: NeighbourRelation,
    /// Who looks, in words.
    pub adversary: String,
    /// Who looks.
    pub against: Adversary,
}

impl Experiment {
    /// What all transcripts of this experiment cost together, for whoever's records are in all of
    /// them.
    ///
    /// # Errors
    /// [`ConfigError`]: why nothing can be claimed: an algorithm without noise, or claims against different adversaries.
    pub fn cost(&self) -> Result<CommandCost, ConfigError> {
        self.cost_of(&self.places(None))
    }

    /// What some transcripts of this experiment cost together; other places than those of
    /// algorithms cost nothing.
    ///
    /// # Errors
    /// [`ConfigError`]: why nothing can be claimed: an algorithm without noise, or claims against different adversaries, made or not.
    pub fn cost_of(&self, places: &[Place]) -> Result<CommandCost, ConfigError> {
        let mut parts = Vec::new();
        let mut adversary: Option<(String, Adversary)> = None;
        let mut counts = std::collections::BTreeMap::<(u32, Part), usize>::new();
        places.iter().for_each(|place| *counts.entry((place.point, place.part)).or_default() += 1);
        for (point, experiment) in (0..).zip(std::iter::once(self).chain(&self.points)) {
            for (algorithm, planned) in (0..).zip(&experiment.planned) {
                let (cost, who) = experiment.transcript(planned).ok_or_else(|| {
                    ConfigError::of(format!(
                        "{} releases without a claim, so nothing can be said about all together",
                        planned.label
                    ))
                })?;
                if adversary.get_or_insert_with(|| who.clone()).1 != who.1 {
                    return Err(ConfigError::of(
                        "algorithms with claims against different adversaries: their costs do not add up",
                    ));
                }
                let count = counts.get(&(point, Part::Algorithm(algorithm))).copied().unwrap_or(0);
                parts.extend(std::iter::repeat_n(cost, count));
            }
        }
        let unclaimed = || ConfigError::at("privacy", "nothing is claimed: there is no [privacy]");
        let privacy = self.spec.privacy.ok_or_else(unclaimed)?;
        Ok(CommandCost {
            transcripts: parts.len() as u64,
            cost: StudyCost::together(&parts, privacy.delta),
            relation: privacy.neighbours,
            adversary: adversary.as_ref().map(|who| who.0.clone()).unwrap_or_default(),
            against: adversary.map(|who| who.1).unwrap_or_default(),
        })
    }

    /// What one run of one algorithm costs the dearest agent, and against whom.
    fn transcript(&self, planned: &Planned) -> Option<(StudyCost, (String, Adversary))> {
        let mut all: Option<(StudyCost, (String, Adversary))> = None;
        for noise_schedule in planned.account.noise_schedules() {
            let claim = self.account_claim(noise_schedule)?;
            let cost = noise_schedule.cost(&claim);
            let most = |a: Option<f64>, b: Option<f64>| Some(a?.max(b?));
            // Records may be another agent's in another run, so that each transcript counts as the
            // dearest agent's.
            let cost = all.as_ref().map_or(cost, |(known, _)| StudyCost {
                epsilon: known.epsilon.max(cost.epsilon),
                delta: known.delta.max(cost.delta),
                mu: most(known.mu, cost.mu),
                rho: most(known.rho, cost.rho),
                tau: known.tau.max(cost.tau),
            });
            all = Some((cost, (claim.adversary, claim.against)));
        }
        all
    }

    /// The total of a record; `None` for a seeded run, and where nothing can be claimed.
    pub(super) fn total_epsilon(&self) -> Option<TotalEpsilon> {
        if self.is_seeded() {
            return None;
        }
        let CommandCost { transcripts, cost, .. } = self.cost().ok()?;
        Some(TotalEpsilon { epsilon: cost.epsilon, delta: cost.delta, transcripts })
    }

    /// What all transcripts tell about a person with several records, in words.
    pub(super) fn groups(&self) -> Option<String> {
        let delta = self.spec.privacy?.delta;
        let cost = self.cost().ok()?.cost;
        let one = |k: u32| {
            let group = cost.for_group(k, delta);
            format!(
                "{k}: ε = {}, δ = {:e}",
                crate::privacy::printed_up(group.epsilon, 3),
                group.delta
            )
        };
        let person = super::scouted::records_per_person(&*self.source);
        if person > 1 && self.planned.iter().all(|p| p.scouted.is_some() && p.staged.is_none()) {
            return Some(format!(
                "the claim is about a person with all of their at most {person} records at a site, over all transcripts: {}",
                one(1).trim_start_matches("1: ")
            ));
        }
        let table: Vec<String> = [1, 2, 5, 10].map(one).into();
        let person = self.source.dataset().and_then(|data| data.person.as_ref());
        let person = person.map(|(column, most)| {
            format!("whoever is one person by the column {column} has at most {most} records in a file, and so {}. ", one(*most))
        });
        Some(format!(
            "{}a person with so many records, over all transcripts: {}",
            person.unwrap_or_default(),
            table.join("; ")
        ))
    }

    /// Who may see the results of running this.
    #[must_use]
    pub fn result_kind(&self) -> ResultKind {
        if !self.source.is_private(&self.spec) {
            ResultKind::Simulation
        } else if self.is_seeded() {
            ResultKind::Seeded
        } else if self.cost().is_err() {
            ResultKind::Unprotected
        } else {
            ResultKind::Shareable { public_test: self.spec.data.test.is_some() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{ExperimentSpec, Inputs};

    fn experiment(runs: u32, more: &str, algorithms: &str) -> Experiment {
        let text = format!(
            "name = \"small\"\nruns = {runs}\n[data]\nsource = \"logistic\"\nagents = 3\nrecords_per_agent = 300\ndim = 4\n\
             [graph]\nkind = \"complete\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n{more}\n{algorithms}\n"
        );
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
        let source = Box::new(spec.synthetic().unwrap().unwrap());
        let entropy = Some([7; 32]);
        Experiment::check(Inputs { file: "small".into(), text, spec, source, edges: None, entropy })
            .unwrap()
    }

    const DGD: &str = "[[algorithm]]\nkind = \"dgd\"\nrounds = 9\n";

    /// Ten runs are ten transcripts: ε = 3.52 at δ = 1e-6, as an outside review computed it, and
    /// not 1.
    #[test]
    fn runs_algorithms_and_points_of_a_sweep_are_all_counted() {
        let one = experiment(1, "", DGD).cost().unwrap();
        assert_eq!(one.transcripts, 1);
        assert!((0.999..=1.0).contains(&one.cost.epsilon), "{one:?}");
        let ten = experiment(10, "", DGD).cost().unwrap();
        assert_eq!(ten.transcripts, 10);
        assert!((3.51..3.54).contains(&ten.cost.epsilon) && ten.cost.delta == 1e-6, "{ten:?}");
        let two = experiment(5, "", &format!("{DGD}{DGD}label = \"again\"\n")).cost().unwrap();
        assert_eq!((two.transcripts, two.cost), (10, ten.cost));
        let swept = experiment(5, "[sweep]\nepsilon = [1.0, 0.5]\n", DGD).cost().unwrap();
        assert_eq!(swept.transcripts, 10);
        assert!(swept.cost.epsilon > 2.4 && swept.cost.epsilon < ten.cost.epsilon, "{swept:?}");
    }

    /// Noise that several agents add was (ε, δ) and nothing simpler: ten runs were booked as 10.
    #[test]
    fn ten_shared_studies_are_booked_within_their_curve_and_not_their_sum() {
        use crate::privacy::studies::{Limit, Rule};
        let gd = "[[algorithm]]\nkind = \"gd\"\naggregation = \"fixed\"\nrounds = 9\n";
        for algorithm in [
            format!("{gd}exchange = \"secret-shared\"\n"),
            format!("{gd}exchange = \"masked\"\ncolluders = 1\n"),
            "[[algorithm]]\nkind = \"decor\"\nrounds = 9\ncolluders = 1\n".to_owned(),
        ] {
            let one = experiment(1, "", &algorithm).cost().unwrap().cost;
            assert!(one.mu.is_some() && one.tau > 0.0 && one.tau < 1e-30, "{algorithm}: {one:?}");
            assert!((0.999..=1.0).contains(&one.epsilon) && one.delta == 1e-6, "{one:?}");
            assert_eq!(Rule::covering(&[one]), Rule::Gaussian);
            let limit = Limit::new(3.6, 1e-5, Rule::Gaussian).unwrap();
            let mut studies = Vec::new();
            for _ in 0..10 {
                limit.admit(&studies, &one).unwrap();
                studies.push(one);
            }
            let spent = limit.spent(&studies).unwrap().epsilon;
            // ε of √10·0.236 704 at 10⁻⁵, by another program: 3.139 760.
            assert!((3.13..3.15).contains(&spent), "{algorithm}: {spent}");
            let ten = experiment(10, "", &algorithm).cost().unwrap();
            assert!((3.51..3.54).contains(&ten.cost.epsilon), "{algorithm}: {ten:?}");
        }
    }

    #[test]
    fn an_algorithm_without_noise_leaves_nothing_to_claim() {
        let both = experiment(
            1,
            "",
            &format!(
                "{DGD}[[algorithm]]\nkind = \"dgd\"\nlabel = \"open\"\nrounds = 9\nnoise = \"none\"\n"
            ),
        );
        let refused = both.cost().unwrap_err();
        assert!(refused.to_string().contains("open releases without a claim"), "{refused}");
        assert_eq!(both.total_epsilon(), None);
    }

    #[test]
    fn laplace_noise_and_noise_inside_a_problem_are_counted_too() {
        for algorithm in [
            "[[algorithm]]\nkind = \"dgd\"\nrounds = 9\nnoise = { laplace_scale = 0.1 }\n",
            "[[algorithm]]\nkind = \"dvp\"\nrounds = 9\n",
        ] {
            let (one, four) = (
                experiment(1, "", algorithm).cost().unwrap(),
                experiment(4, "", algorithm).cost().unwrap(),
            );
            assert!(four.cost.epsilon > 1.5 * one.cost.epsilon, "{algorithm}: {one:?} {four:?}");
            assert!(
                four.cost.epsilon <= 4.0 * one.cost.epsilon * (1.0 + 1e-9),
                "{algorithm}: {one:?} {four:?}"
            );
        }
    }

    /// Two transcripts with the same noise on the same records would give the records away.
    #[test]
    fn under_entropy_no_two_algorithms_runs_or_points_share_their_noise() {
        let made = experiment(
            2,
            "[sweep]\nepsilon = [1.0, 0.5]\n",
            &format!("{DGD}{DGD}label = \"again\"\n"),
        );
        let mut drawn = Vec::new();
        for point in std::iter::once(&made).chain(&made.points) {
            for planned in &point.planned {
                for run in 0..2 {
                    let mut stream = point.noise_seed(run, planned).stream(
                        crate::random::Purpose::Release,
                        0,
                        1,
                    );
                    drawn.push(rand::Rng::next_u64(&mut stream));
                }
            }
        }
        assert_eq!(drawn.len(), 8);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 8, "two share a stream");
    }
}
