//! How large the numbers of an honest agent's messages can be: what is beyond is refused, and
//! nobody releases it.
//!
//! Every message is a mix of what was released before plus a bounded step plus noise
//! ([`Assessed::drift`](crate::protocol::Assessed::drift)). Three bounds add up over the rounds:
//! the largest step,
//! |x| ≤ Σ_k η_k·G; and the noise. Where the mix is a fixed combination with weights that are not negative and add up to at most one, the noise in a number of any message is
//! Σ_k Σ_j a_kj n_kj with Σ_j a_kj² ≤ 1, so it is Gaussian of variance at most Σ_k σ_k². Elsewhere
//! the largest noise of every round counts. A bound on tails of one in 10^12 for all numbers of all
//! messages together makes the bound R.
//!
//! R is a function of public numbers. Gates clamp what they release to it: post-processing, which
//! costs nothing, changes nothing among honest agents (but with a chance of 10^−12), and keeps an
//! honest agent within the range when a neighbour pushes it to the edge.

use super::planned::Context;
use crate::account::Account;
use crate::gate::Noise;
use crate::protocol::{CHANCE, MixRule, Parameters, Protocol, PublicFacts};

/// R; `None` where nothing bounds a message.
pub(super) fn release_bound(
    protocol: &dyn Protocol,
    mixing: MixRule,
    facts: &PublicFacts,
    context: &Context<'_>,
    account: &Account,
) -> Option<f64> {
    // Starts that are drawn, and bounds that were computed from records, are nothing to build on.
    if context.spec.start.is_some()
        || context.coupled.is_some()
        || !context.terms.bounds.is_public()
    {
        return None;
    }
    // One record alone is an upper bound on the mean of many.
    let gradient = context.terms.steepest();
    let numbers = facts.agents as f64 * f64::from(facts.rounds.max(1)) * facts.dim as f64;
    let log = libm::log(2.0 * numbers / CHANCE);
    let (mut steps, mut noise) = (0.0, Tails::default());
    for round in 1..=facts.rounds {
        let drift = protocol.drift(round, gradient, facts)?;
        let linear = drift.linear && mixing == MixRule::Average;
        steps = drift.factor * steps + drift.step;
        let all =
            account.all_noise().filter_map(|noise| Some(noise.get(round as usize - 1)?.noise()));
        noise.grow(drift.factor, all, linear, log);
    }
    let bound = (steps + noise.tail(log)) * (1.0 + 1e-6) + 1e-6;
    bound.is_finite().then_some(bound)
}

/// What noise adds to a number at most, but for a chance of 2e^−log.
#[derive(Default)]
struct Tails {
    gaussian: f64,
    laplace: f64,
    largest_scale: f64,
    /// Sums of single tails, where variances do not add up.
    single: f64,
}

impl Tails {
    /// Takes in a round's noise, the largest that any agent adds.
    fn grow(&mut self, factor: f64, all: impl Iterator<Item = Noise>, linear: bool, log: f64) {
        let (mut sigma, mut scale) = (0.0f64, 0.0f64);
        for noise in all {
            match noise {
                Noise::Gaussian { sigma: s } => sigma = sigma.max(s),
                Noise::Laplace { scale: b } => scale = scale.max(b),
            }
        }
        self.gaussian *= factor * factor;
        self.laplace *= factor * factor;
        self.largest_scale = scale.max(factor * self.largest_scale);
        self.single *= factor;
        if linear {
            self.gaussian += sigma * sigma;
            self.laplace += scale * scale;
        } else {
            self.single += (2.0 * log).sqrt() * sigma + log * scale;
        }
    }

    /// For Laplace noise E e^{sn} ≤ e^{2b²s²} as long as bs ≤ 1/√2: Chernoff's bound at the better
    /// s of the two that this allows.
    fn tail(&self, log: f64) -> f64 {
        let laplace = if self.laplace > 0.0 {
            (8.0 * self.laplace * log).sqrt().max(8f64.sqrt() * self.largest_scale * log)
        } else {
            0.0
        };
        (2.0 * self.gaussian * log).sqrt() + laplace + self.single
    }
}

/// The keys of robust mixing in an experiment file.
pub(super) fn keys(mixing: MixRule) -> Parameters {
    let mut table = Parameters::new();
    if mixing == MixRule::Average {
        return table;
    }
    if let Ok(name) = serde_json::to_value(mixing.name()) {
        table.insert("mixing".into(), name);
    }
    if let MixRule::Clipped { liars, .. }
    | MixRule::Trimmed { liars }
    | MixRule::Nearest { liars } = mixing
    {
        table.insert("liars".into(), liars.into());
    }
    if let MixRule::Clipped { clip: Some(clip), .. } = mixing {
        table.insert("clip".into(), clip.into());
    }
    table
}

#[cfg(test)]
mod tests {
    use crate::agent::{Agent, Effect, Message, Refusal};
    use crate::experiment::{Experiment, ExperimentSpec, Inputs, Source};

    fn experiment(graph: &str, rounds: u32, extra: &str) -> Experiment {
        let text = format!(
            "name = \"small\"\nseed = 5\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 6\nrecords_per_agent = 40\ndim = 4\n\
             [graph]\n{graph}\n[privacy]\nepsilon = 20.0\ndelta = 1e-5\n[[algorithm]]\nkind = \"dgd\"\nrounds = {rounds}\n{extra}\n"
        );
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        Experiment::check(Inputs {
            file: "small".into(),
            text,
            spec,
            source,
            edges: None,
            entropy: None,
        })
        .unwrap_or_else(|e| panic!("{e}"))
    }

    /// Plays all agents against each other; agent 0 sends what `lie` makes of its message. The
    /// models of the others, or the first refusal.
    fn played(
        experiment: &Experiment,
        lie: impl Fn(u32, &[f64]) -> Vec<f64>,
    ) -> Result<Vec<Vec<f64>>, Refusal> {
        let mut agents: Vec<Agent> =
            (0..6).map(|i| experiment.site(i).unwrap_or_else(|e| panic!("{e}")).agent).collect();
        while agents.iter().any(|a| a.model().is_none()) {
            let mut sent = Vec::new();
            for agent in &mut agents {
                while let Some(effect) = agent.poll() {
                    if let Effect::Send(m) = effect {
                        sent.push(m);
                    }
                }
            }
            for m in sent {
                let lied =
                    if m.from() == 0 { lie(m.round(), m.values()) } else { m.values().to_vec() };
                for to in experiment.graph().neighbours(m.from() as usize) {
                    agents[*to as usize].handle(&Message::received(
                        m.from(),
                        m.round(),
                        lied.clone(),
                    ))?;
                }
            }
        }
        Ok(agents[1..].iter().map(|a| a.model().unwrap().to_vec()).collect())
    }

    fn farthest(models: &[Vec<f64>], from: &[Vec<f64>]) -> f64 {
        models.iter().zip(from).map(|(a, b)| crate::kernel::distance(a, b)).fold(0.0, f64::max)
    }

    #[test]
    fn honest_agents_stay_far_inside_the_reach_and_nobody_gets_beyond_it() {
        for extra in ["", "noise = { laplace_scale = 0.01 }", "mixing = \"median\""] {
            let experiment = experiment("kind = \"ring\"", 12, extra);
            let bound = experiment.planned[0].release_bound.expect("dgd has a bound");
            let largest = std::cell::Cell::new(0.0f64);
            let honest = played(&experiment, |_, x| {
                largest.set(x.iter().fold(largest.get(), |m, x| m.max(x.abs())));
                x.to_vec()
            })
            .unwrap();
            assert!(
                largest.get() < 0.6 * bound && bound < 1e4,
                "{extra}: {} of {bound}",
                largest.get()
            );
            assert!(honest.iter().flatten().all(|x| x.abs() <= bound));
            // One that lies by less than the bound is taken, and cannot lead the others out of it.
            let pushed = played(&experiment, |_, x| vec![bound; x.len()]).unwrap();
            assert!(pushed.iter().flatten().all(|x| x.abs() <= bound), "{extra}");
            // One message beyond it is refused, with the sender's name.
            let lie = |k, x: &[f64]| if k == 5 { vec![1e12; x.len()] } else { x.to_vec() };
            let refused = played(&experiment, lie).unwrap_err();
            assert!(
                matches!(refused, Refusal::OutOfRange { from: 0, round: 5, .. }),
                "{extra}: {refused}"
            );
        }
    }

    /// The attacks of an issue: they ruin everybody's model under the average, and move it by less
    /// than noise does under a robust rule.
    #[test]
    fn a_liar_ruins_the_average_and_not_a_robust_mix() {
        let graph = "kind = \"complete\"";
        type Attack = fn(u32, &[f64]) -> Vec<f64>;
        let attacks: [Attack; 3] = [
            |k, x| if k == 5 { vec![40.0; x.len()] } else { x.to_vec() },
            |_, x| vec![10.0; x.len()],
            |_, x| x.iter().map(|x| -5.0 * x).collect(),
        ];
        for (rule, robust) in [
            ("", false),
            ("mixing = \"clipped\"", true),
            ("mixing = \"trimmed\"\nliars = 1", true),
            ("mixing = \"median\"", true),
        ] {
            let experiment = experiment(graph, 15, rule);
            let honest = played(&experiment, |_, x| x.to_vec()).unwrap();
            let size = honest.iter().map(|m| crate::kernel::norm(m)).fold(0.0, f64::max);
            let moved = attacks
                .map(|attack| farthest(&played(&experiment, attack).unwrap(), &honest) / size);
            if robust {
                assert!(moved.iter().all(|&m| m < 0.5), "{rule}: {moved:?}");
            } else {
                assert!(moved[1] > 1.0, "{rule}: {moved:?}");
            }
        }
    }

    #[test]
    fn a_message_outside_the_constraint_set_is_no_release() {
        let text =
            "kind = \"ring\"\n[objective]\nconstraint = { kind = \"l2-ball\", radius = 1.0 }";
        let experiment = experiment(text, 6, "");
        played(&experiment, |_, x| x.to_vec()).unwrap();
        let lie =
            |k, x: &[f64]| if k == 3 { x.iter().map(|x| x + 0.9).collect() } else { x.to_vec() };
        let refused = played(&experiment, lie).unwrap_err();
        assert!(refused.to_string().contains("outside the constraint set"), "{refused}");
    }

    /// Mixing is post-processing: neither the noise nor the claim knows the rule.
    #[test]
    fn claims_do_not_depend_on_the_rule() {
        let claim = |rule: &str| {
            let plan = experiment("kind = \"complete\"", 6, rule).plan_of(1).unwrap();
            (plan.claim.unwrap().epsilon.to_bits(), plan.cost.unwrap().mu.unwrap().to_bits())
        };
        let average = claim("");
        for rule in ["clipped", "trimmed", "median", "nearest"] {
            assert_eq!(claim(&format!("mixing = \"{rule}\"")), average, "{rule}");
        }
    }
}
