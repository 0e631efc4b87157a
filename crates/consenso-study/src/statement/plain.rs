//! Plain sentences for somebody who has to sign and is no engineer.

use super::{Answers, Facts, Field, Section, nist, registry};

pub(super) fn sections(facts: &Facts, answers: &Answers) -> Vec<Section> {
    let who = match &facts.site {
        Some(site) => format!(
            "Site {site} trained {} together with {} ({}). No record left the site: each sent its \
             neighbours vectors of numbers with noise.",
            facts.task,
            facts.others.join(", "),
            facts.size
        ),
        None => format!(
            "{} was trained by {}. Agents sent each other vectors of numbers with noise, and no \
             record.",
            registry::capital(&facts.task),
            facts.size
        ),
    };
    let first = facts.first();
    vec![
        Section::new(
            "What was done",
            [
                Field::known("done", "What was done", who),
                Field::known("when", "When", when(facts)),
                Field::known("data", "Which data", nist::columns(facts)),
                Field::new("categories", "Whose data, and of which kind", answers.to("categories")),
                Field::new("controllers", "Who is responsible", answers.to("controllers")),
                Field::new("purpose", "What for", answers.to("intended_use")),
                Field::new("legal_basis", "Legal basis", answers.to("legal_basis")),
                Field::new("informed", "Whether people were told", answers.to("informed")),
                Field::new("processors", "Who else processes it", answers.to("processors")),
                Field::new("transfer", "Where messages go", answers.to("transfer")),
                Field::known("transport", "How messages are protected", nist::transport(facts)),
                Field::new("anonymity", "Are they personal data?", answers.to("anonymity")),
                Field::new("assessment", "Assessment of the risk", answers.to("assessment")),
            ],
        ),
        Section::new(
            "Who is protected, from whom, and how much",
            [
                Field::known("unit", "Who", nist::unit(facts)),
                Field::new("person", "Records of one person", answers.to("person")),
                Field::known(
                    "adversary",
                    "From whom",
                    format!("{}.", registry::capital(&facts.named(&first.adversary))),
                ),
                Field::known("cost", "How much was spent", facts.costs()),
                Field::known("meaning", "What that means", nist::meaning(facts)),
            ],
        ),
        Section::new(
            "What is not protected",
            [
                Field::known("public", "Known to everybody", facts.named(registry::UNPROTECTED)),
                Field::known("not_covered", "Not covered", nist::not_covered(facts)),
                Field::known(
                    "publication",
                    "May the result be given away?",
                    nist::publication(facts),
                ),
            ],
        ),
        Section::new(
            "How to check it, and whom to ask",
            [
                Field::known(
                    "evidence",
                    "Evidence",
                    format!("{}.", registry::capital(&facts.evidence)),
                ),
                Field::new("access", "Access to records", answers.to("access")),
                Field::new("incidents", "If a key or a folder is lost", answers.to("incidents")),
                Field::new("retention", "Kept until", answers.to("retention")),
                Field::known("erasure", "If a record is deleted", nist::erasure()),
                Field::new("plans", "Further use", answers.to("plans")),
                Field::new("contact", "Contact", answers.to("contact")),
            ],
        ),
    ]
}

/// When the last study began, or the record was written.
fn when(facts: &Facts) -> String {
    let date = facts.date.as_deref().unwrap_or("not known");
    match facts.site {
        Some(_) => format!("The last study began on {date}."),
        None => format!("The record is of {date}."),
    }
}
