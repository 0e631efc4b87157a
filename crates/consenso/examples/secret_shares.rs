//! Secret shares: five sites reveal the mean of their models in every round, and nothing else, with
//! noise that they add together.
#![expect(clippy::print_stdout, reason = "an example prints")]
use consenso::protocol::{Aggregation, GradientDescent};
use consenso::{Bounds, Graph, Loss, Rows, Study};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bounds = Bounds::ranges([(0.0, 10.0), (0.0, 10.0)]);
    let site = |first: usize| {
        let rows: Vec<[f64; 2]> =
            (first..first + 1500).map(|i| [(i * 7 % 11) as f64, (i * 3 % 11) as f64]).collect();
        let labels: Vec<f64> = rows.iter().map(|r| if r[0] > r[1] { 1.0 } else { -1.0 }).collect();
        Rows::clip(&rows, &labels, &bounds)
    };
    let sites = (0..5).map(|i| site(100 * i)).collect::<Result<Vec<_>, _>>()?;
    // Two of the five may pool all they see: the noise of the other three hides every record from
    // them.
    let fitted = Study::new(&sites, Loss::Logistic)
        .graph(Graph::complete(sites.len()))
        .budget(1.0, 1e-6)
        .algorithm(GradientDescent {
            aggregation: Aggregation::Fixed,
            ..GradientDescent::default()
        })
        .setting("exchange", "secret-shared")
        .setting("colluders", 2)
        .run()?;
    println!("{}", fitted.claim().ok_or("no claim")?);
    println!("above and below the diagonal: {:?}", fitted.predict(&[[9.0, 1.0], [1.0, 9.0]])?);
    Ok(())
}
