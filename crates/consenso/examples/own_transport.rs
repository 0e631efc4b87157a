//! A transport of one's own: the agents of a checked study exchange messages through whatever
//! carries them, here a queue.
#![expect(clippy::print_stdout, reason = "an example prints")]
use consenso::agent::{Agent, Effect};
use consenso::{Bounds, ConfigError, Graph, Loss, Rows, Study, protocol::Dgd};
use std::collections::VecDeque;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bounds = Bounds::ranges([(0.0, 1.0)]);
    let site = |i: usize| {
        let rows: Vec<[f64; 1]> = (i..i + 500).map(|k| [(k % 101) as f64 / 100.0]).collect();
        let labels: Vec<f64> = rows.iter().map(|r| if r[0] > 0.5 { 1.0 } else { -1.0 }).collect();
        Rows::clip(&rows, &labels, &bounds)
    };
    let sites = [site(0)?, site(10)?, site(20)?];
    let study = Study::new(&sites, Loss::Logistic).graph(Graph::path(3)).budget(4.0, 1e-6);
    let experiment = study.algorithm(Dgd::default()).check()?;
    let mut agents: Vec<Agent> =
        (0..3).map(|i| Ok(experiment.site(i)?.agent)).collect::<Result<_, ConfigError>>()?;
    let (mut wire, mut waiting): (VecDeque<_>, Vec<usize>) = (VecDeque::new(), vec![0, 1, 2]);
    loop {
        for id in waiting.drain(..) {
            while let Some(effect) = agents[id].poll() {
                match effect {
                    Effect::Charge { .. } => {} // a real site writes this to disk before it sends
                    Effect::Send(message) => {
                        wire.extend(
                            agents[id]
                                .neighbours()
                                .iter()
                                .map(|&to| (to as usize, message.clone())),
                        );
                    }
                    Effect::Done(reason) => println!("agent {id}: {reason:?}"),
                }
            }
        }
        let Some((to, message)) = wire.pop_front() else { break };
        agents[to].handle(&message)?;
        waiting.push(to);
    }
    agents.iter().for_each(|a| println!("{:.3?}", a.model()));
    Ok(())
}
