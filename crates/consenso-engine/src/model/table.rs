//! A regression table as papers and pages print it.

use super::{Estimate, Inference, Model};
use crate::problem::Loss;
use consenso_queries::escape;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Pipes, for Markdown.
    Markdown,
    /// `tabular`, for LaTeX.
    Latex,
    /// `<table>`, for pages.
    Html,
}

impl Model {
    /// Returns the regression table; `None` without standard errors.
    #[must_use]
    pub fn regression_table(&self, format: TableFormat) -> Option<String> {
        let inference = self.inference.as_ref()?;
        let (header, rows) = (self.header(inference), inference.rows());
        Some(match format {
            TableFormat::Markdown => markdown(&header, &rows),
            TableFormat::Latex => latex(&header, &rows),
            TableFormat::Html => html(&header, &rows),
        })
    }

    /// Returns the header and the rows of the regression table, as text.
    #[must_use]
    pub fn regression_rows(&self) -> Option<(Vec<String>, Vec<Vec<String>>)> {
        let inference = self.inference.as_ref()?;
        Some((self.header(inference), inference.rows()))
    }

    fn header(&self, inference: &Inference) -> Vec<String> {
        let level = format!("{:.4}", 100.0 * inference.level);
        let level = level.trim_end_matches('0').trim_end_matches('.').to_owned();
        let mut header: Vec<String> =
            ["feature", "estimate", "std. error"].map(str::to_owned).into();
        header.extend([format!("{level} % interval"), "p".into()]);
        if inference.coefficients.iter().any(|c| c.ratio.is_some()) {
            let ratio = match self.loss {
                Some(loss) if loss.is_of_times() => "hazard ratio",
                Some(Loss::Ordinal { .. }) => "odds ratio",
                Some(loss) if loss.is_logistic() => "odds ratio",
                _ => "rate ratio",
            };
            header.push(format!("{ratio} ({level} % interval)"));
        }
        if inference.has_sample_of_sites() {
            header.push(format!("sd between sites ({level} % interval)"));
        }
        header
    }
}

impl Inference {
    fn has_sample_of_sites(&self) -> bool {
        self.coefficients.iter().any(|c| c.between_sites.is_some())
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let between = self.has_sample_of_sites();
        let ratios = self.coefficients.iter().any(|c| c.ratio.is_some());
        let dash = || "–".to_owned();
        let row = |c: &Estimate| {
            let (Some(at), Some(error), Some(low), Some(high), Some(p)) =
                (c.estimate, c.std_error, c.low, c.high, c.p)
            else {
                let mut row = vec![c.feature.clone(), "refused".into()];
                row.resize(5 + usize::from(ratios) + usize::from(between), dash());
                return row;
            };
            let digits = decimals(error);
            let number = |v: f64| format!("{v:+.digits$}");
            let mut row = vec![c.feature.clone(), number(at), format!("{error:.digits$}")];
            row.push(format!("{} to {}", number(low), number(high)));
            row.push(if p < 0.001 { "< 0.001".into() } else { format!("{p:.3}") });
            if ratios {
                row.push(c.ratio.map_or_else(dash, |(at, low, high)| {
                    let digits = decimals((high - low) / 4.0).min(4);
                    format!("{at:.digits$} ({low:.digits$} to {high:.digits$})")
                }));
            }
            if between {
                row.push(c.between_sites.map_or_else(dash, |b| {
                    let digits = decimals((b.high - b.low) / 4.0).min(6);
                    format!("{:.digits$} ({:.digits$} to {:.digits$})", b.sd, b.low, b.high)
                }));
            }
            row
        };
        self.coefficients.iter().map(row).collect()
    }
}

/// Decimals with which a number of this standard error says two figures of it.
pub(super) fn decimals(error: f64) -> usize {
    if error.is_finite() && error > 0.0 {
        (1.0 - libm::floor(libm::log10(error))).clamp(0.0, 9.0) as usize
    } else {
        3
    }
}

fn markdown(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace("\n", " "));
    let rule = format!("|{}\n", ["---|"].repeat(header.len()).concat());
    line(header) + &rule + &rows.iter().map(|r| line(r)).collect::<String>()
}

fn latex(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|c| escape::latex(c)).collect();
        format!("{} \\\\\n", cells.join(" & "))
    };
    let columns = format!("l{}", "r".repeat(header.len() - 1));
    let body: String = rows.iter().map(|r| line(r)).collect();
    format!(
        "\\begin{{tabular}}{{{columns}}}\n\\hline\n{}\\hline\n{body}\\hline\n\\end{{tabular}}\n",
        line(header)
    )
}

fn html(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String], tag: &str| {
        let cells: String =
            cells.iter().map(|c| format!("<{tag}>{}</{tag}>", escape::html(c))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(|r| line(r, "td")).collect();
    format!(
        "<table class=\"regression\">\n<thead>{}</thead>\n<tbody>{body}</tbody>\n</table>\n",
        line(header, "th")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers are printed to two figures of their standard error, and names that mean something to
    /// LaTeX or HTML are escaped.
    #[test]
    fn tables_say_as_many_figures_as_are_known() {
        let json = r#"{"format":"consenso-model-1","study":{"name":"s","sha256":"0","software":"c","algorithm":"dgd","label":"dgd","run":1,"runs":1},
            "classes":["no","yes"],"loss":{"loss":"logistic"},"features":["a_b"],"weights":[0.1234567],
            "inference":{"level":0.95,"covariance":[[0.0001]],"coefficients":[
              {"feature":"a_b<c","estimate":0.1234567,"std_error":0.01,"low":0.1038,"high":0.1431,"p":1e-9,"ratio":[1.13,1.11,1.15]},
              {"feature":"d","estimate":null,"std_error":null,"low":null,"high":null,"p":null,"refused":"refused: noise"}]}}"#;
        let model = Model::from_json(json).unwrap();
        let table = model.regression_table(TableFormat::Markdown).unwrap();
        assert!(table.contains("| a_b<c | +0.123 | 0.010 | +0.104 to +0.143 | < 0.001 | 1.1300 (1.1100 to 1.1500) |"), "{table}");
        assert!(table.contains("| d | refused | – | – | – | – |"), "{table}");
        let latex = model.regression_table(TableFormat::Latex).unwrap();
        assert!(
            latex.contains("a\\_b$<$c & +0.123") && latex.contains("95 \\% interval"),
            "{latex}"
        );
        let html = model.regression_table(TableFormat::Html).unwrap();
        assert!(html.contains("<td>a_b&lt;c</td>") && html.contains("odds ratio"), "{html}");
    }
}
