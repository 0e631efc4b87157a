//! A model card, with the sections of Mitchell et al., *Model Cards for Model Reporting* (2019),
//! and one for the privacy claim.

use super::{Answers, Facts, Field, Section, nist};

pub(super) fn sections(facts: &Facts, answers: &Answers) -> Vec<Section> {
    let results = match facts.results.is_empty() {
        true => "Nothing may be said: no public test records were declared.".to_owned(),
        false => format!("{}.", facts.results.join(". ")),
    };
    let who = match &facts.site {
        Some(site) => format!("site {site} together with {}", facts.others.join(", ")),
        None => facts.size.clone(),
    };
    let task = super::registry::capital(&facts.task);
    let mut details = vec![
        Field::known("details.name", "Name", facts.name.clone()),
        Field::known("details.type", "Kind", format!("{task}.")),
        Field::known("details.trained_by", "Trained by", format!("{who}.")),
        Field::known("details.software", "Software", facts.software.clone()),
    ];
    details.extend(facts.date.as_ref().map(|d| Field::known("details.date", "Date", d.clone())));
    details.push(Field::new("details.licence", "Licence", answers.to("licence")));
    details.push(Field::new("details.contact", "Contact", answers.to("contact")));
    vec![
        Section::new("Model details", details),
        Section::new(
            "Intended use",
            [
                Field::new("use.intended", "Intended use", answers.to("intended_use")),
                Field::new("use.out_of_scope", "Out of scope", answers.to("out_of_scope")),
            ],
        ),
        Section::new(
            "Factors",
            [Field::new("factors.groups", "Groups and conditions", answers.to("groups"))],
        ),
        Section::new("Metrics and results", [Field::known("results", "On test records", results)]),
        Section::new(
            "Training data",
            [
                Field::known("data.size", "Size", format!("{}.", facts.size)),
                Field::known("data.columns", "Columns", facts.columns.clone()),
                Field::new("data.collection", "Collection", answers.to("collection")),
                Field::new("data.region", "Region", answers.to("region")),
            ],
        ),
        Section::new(
            "Privacy",
            [
                Field::known("privacy.cost", "Claims", facts.costs()),
                Field::known("privacy.unit", "Unit", nist::unit(facts)),
                Field::known(
                    "privacy.adversary",
                    "Against whom",
                    format!(
                        "{}.",
                        super::registry::capital(&facts.named(&facts.first().adversary))
                    ),
                ),
                Field::known("privacy.meaning", "Meaning", nist::meaning(facts)),
                Field::known("privacy.not_covered", "Not covered", nist::not_covered(facts)),
            ],
        ),
        Section::new(
            "Ethical considerations",
            [
                Field::new("ethics.bias", "Whom the records leave out", answers.to("bias")),
                Field::new("ethics.legal_basis", "Legal basis", answers.to("legal_basis")),
            ],
        ),
        Section::new(
            "Caveats",
            [Field::known(
                "caveats",
                "Caveats",
                "Weights carry noise: `consenso model show` prints how much, and no odds ratio \
                 whose sign the noise could have turned.",
            )],
        ),
    ]
}
