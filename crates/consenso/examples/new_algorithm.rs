//! A new algorithm through the public API: lazy DGD, x_i⁺ = ½(x_i + Σ_j W_ij x_j) − η∇f_i(x_i), and its error by round.
#![expect(clippy::print_stdout, reason = "an example prints")]
use consenso::agent::{Player, Timetable};
use consenso::data::{Synthetic, SyntheticTask};
use consenso::gate::Gate;
use consenso::graph::{Graph, Mixing};
use consenso::kernel::{axpy, distance};
use consenso::problem::solve::central_optimum;
use consenso::problem::{Constraint, LocalObjective, Loss, Objective, Sensitivity, Workspace};
use consenso::protocol::{Protocol, PublicFacts, View};
use consenso::{random::Seed, simulate::Lockstep};
use std::sync::Arc;

#[derive(Debug)]
struct LazyDgd(f64);

#[rustfmt::skip] // a question a line
impl Protocol for LazyDgd {
    fn kind(&self) -> &'static str { "lazy-dgd" }
    fn parameters(&self) -> toml::Table { [("step".to_owned(), self.0.into())].into_iter().collect() }
    fn resolve(&mut self, _: &PublicFacts) {}
    fn check(&self, _: &PublicFacts) -> Result<Option<String>, String> { Ok(None) }
    // How far one record moves the private step: η times as far as the gradient.
    fn step_sensitivity(&self, _: u32, _: usize, b: &Sensitivity, _: &PublicFacts) -> Sensitivity { b.scaled(self.0) }
    // The public part of the message: an interval of width 0, the regulariser's gradient included.
    fn interval(&self, view: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
        view.mix(low);
        low.iter_mut().zip(view.own()).for_each(|(l, x)| *l = 0.5 * (*l + x));
        axpy(-self.0 * view.regularization(), view.own(), low);
        high.copy_from_slice(low);
    }
    // The private part: the only one that touches the records.
    fn step(&self, view: &View<'_>, _: &mut [f64], _: &[f64], f: &LocalObjective, work: &mut Workspace, step: &mut [f64]) {
        f.data_gradient(view.own(), step, work);
        step.iter_mut().for_each(|s| *s *= -self.0);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (seed, rounds) = (Seed::from(7), 60);
    let objective = Objective { loss: Loss::Logistic, regularization: 1.0 };
    let data = Synthetic::new(SyntheticTask::Logistic, 10, 1000, 5).generate(&seed)?;
    let locals: Vec<_> = data.into_iter().map(|records| LocalObjective::new(objective, records)).collect();
    let optimum = central_optimum(&locals, &Constraint::None, None).x;
    let (graph, protocol) = (Arc::new(Graph::random(10, 20, &seed)?), Arc::new(LazyDgd(0.1)));
    let timetable = Arc::new(Timetable { rounds, tail_from: rounds, gossip: 0 });
    let gate = |i| Gate::open(i, seed.clone());
    let player = |(i, local)| Player::new(local, protocol.clone(), timetable.clone(), gate(i));
    let players = (0..).zip(locals).map(player).collect();
    let mut run = Lockstep::new(players, graph.clone(), Mixing::metropolis(&graph).into());
    for round in 1..=rounds {
        run.advance();
        let worst = run.rows().chunks(run.dim()).map(|x| distance(x, &optimum)).fold(0.0, f64::max);
        println!("round {round:2}: the worst agent is {worst:.2e} from the optimum");
    }
    Ok(())
}
