//! A private algorithm of one's own in a full study: lazy DGD, x_i⁺ = ½(x_i + Σ_j W_ij x_j) −
//! η∇f_i(x_i), calibrated and claimed.
#![expect(clippy::print_stdout, reason = "an example prints")]
use consenso::problem::{LocalObjective, Sensitivity, Workspace};
use consenso::protocol::{Memory, Protocol, PublicFacts, View};
use consenso::{Bounds, Graph, Loss, Rows, Study, kernel::axpy};

#[derive(Clone, Debug)]
struct LazyDgd(f64);

#[rustfmt::skip] // a question a line
impl Protocol for LazyDgd {
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
    fn step(&self, view: &View<'_>, _: Memory<'_>, _: &[f64], f: &LocalObjective, work: &mut Workspace, step: &mut [f64]) {
        f.data_gradient(view.own(), step, work);
        step.iter_mut().for_each(|s| *s *= -self.0);
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: Vec<[f64; 1]> = (0..3000).map(|i| [f64::from(i * 7 % 1000)]).collect();
    let labels: Vec<f64> = rows.iter().map(|r| if r[0] > 400.0 { 1.0 } else { -1.0 }).collect();
    let sites = vec![Rows::clip(&rows, &labels, &Bounds::ranges([(0.0, 1000.0)]))?; 4];
    let study = Study::new(&sites, Loss::Logistic).graph(Graph::ring(4)).budget(1.0, 1e-6);
    let fitted = study.algorithm(LazyDgd(2.0)).run()?;
    println!("{}{:?}", fitted.claim().ok_or("no claim")?, fitted.predict(&[[10.0], [990.0]])?);
    Ok(())
}
