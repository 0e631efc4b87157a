//! `consenso node studies`, `abandon` and `report`: the life of studies at a site, and proof of it
//! for others.

use crate::{Failure, output, table};
use anyhow::{Context as _, anyhow};
use consenso_engine::privacy::Claim;
use consenso_node::frame::{Hex, sha256, unhex};
use consenso_node::identity::{self, Identity};
use consenso_node::receipts::{self, Owner};
use consenso_node::release_signature::{self, ReleaseSignature, ReleaseSigner};
use consenso_node::store::{Row, Store};
use consenso_node::{Folder, agreement, books, claim, clock, studies};
use consenso_study::report::escape;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Give up an unfinished study: what it charged stays spent, the rest of what it reserved is free
/// again
///
/// All sites of the study should do so: a site that gave it up never goes on with it, and its
/// neighbours would wait. A folder that its witness, or a neighbour, has shown to be an old copy
/// gives nothing back: nobody knows what else it released.
#[derive(clap::Args)]
pub(crate) struct Abandon {
    /// Folder of the site
    folder: PathBuf,
    /// The study's number, or the beginning of its digest, as `consenso node studies` prints them
    study: String,
}

/// Write one signed page for others: what was released, to whom, the claim, and how to verify it
#[derive(clap::Args)]
pub(crate) struct Report {
    /// Folder of the site
    folder: PathBuf,
    /// Where to write the page; report.html if nothing is said
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Where to write the same as a PDF
    #[arg(long, value_name = "FILE")]
    pdf: Option<PathBuf>,
    /// Check a page or PDF that a site wrote, instead of writing one: its signature, and that it
    /// shows what was signed; FOLDER is any site of the same network
    #[arg(long, value_name = "PAGE")]
    check: Option<PathBuf>,
}

pub(crate) fn list(path: &Path, json: bool) -> Result<(), Failure> {
    let rows = Store::look(path)?.rows()?;
    let all = studies::list(&rows).map_err(|e| Failure::Run(anyhow!("{}: {e}", path.display())))?;
    let standing = books::standing(&rows);
    if json {
        output::print_json(&json!({
            "studies": all, "spent": standing.as_ref().map(|s| s.spent), "remaining": standing.as_ref().map(|s| s.remaining),
        }));
        return Ok(());
    }
    let mut rows = table::plain(
        &["study", "digest", "began", "state", "releases", "ε reserved", "ε charged"],
        2,
    );
    let amount =
        |x: Option<f64>| x.map_or_else(|| "nothing".to_owned(), |x| table::rounded_up(x, 4));
    for study in &all {
        rows.add_row([
            study.study.to_string(),
            study.experiment.chars().take(12).collect(),
            study.began.clone(),
            study.state.to_owned(),
            format!("{} ({} charged)", study.releases, study.charged),
            amount(study.reserved),
            amount(study.spent),
        ]);
    }
    let mut text = table::text(&rows);
    for study in &all {
        text += &crate::node::agreed(&study.changes, &format!("study {}: agreement", study.study));
    }
    if let Some(s) = standing {
        text += &format!(
            "\nremaining: ε = {:.6}, δ = {:e} for the next study",
            s.remaining.epsilon, s.remaining.delta
        );
    }
    output::print(&text);
    Ok(())
}

pub(crate) fn abandon(args: &Abandon, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(&args.folder)?;
    let done = studies::abandon(&folder, &args.study).map_err(|e| Failure::Input(e.into()))?;
    if json {
        output::print_json(&json!(done));
        return Ok(());
    }
    let rows = Store::look(&args.folder)?.rows()?;
    let left = books::standing(&rows).map_or_else(String::new, |s| {
        format!(
            "\nremaining: ε = {:.6}, δ = {:e} for the next study",
            s.remaining.epsilon, s.remaining.delta
        )
    });
    let spent = match done.old_copy {
        true => "this folder is an old copy, so all that it reserved stays spent",
        false => "what it charged stays spent",
    };
    output::print(&format!("study {} is given up; {spent}{left}", done.study));
    Ok(())
}

/// A neighbour's log against this site's ledger.
pub(crate) fn against(path: &Path, rows: &[Row], logs: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    for log in logs {
        let folder = Folder::read(path)?;
        let certificate = identity::certificates(&path.join(identity::CERTIFICATE))?;
        let mut keys = agreement::keys_before(&folder.agreements, &folder.site.name);
        keys.push(identity::public_key(&certificate[0])?);
        let pieces = receipts::pieces_of(log);
        let mut text = String::new();
        for piece in &pieces {
            text += &fs::read_to_string(piece)
                .with_context(|| format!("{}: cannot be read", piece.display()))?;
        }
        let lines = || text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let site = lines().find_map(|line| Some(line["site"].as_str()?.to_owned()));
        let number =
            site.as_ref().and_then(|name| folder.peers.iter().position(|p| p.name == *name));
        let (Some(site), Some(number)) = (site, number) else {
            return Err(anyhow!(
                "{}: this is not the audit log of a site in peers.toml",
                log.display()
            )
            .into());
        };
        let owner = Owner { name: &folder.site.name, number: folder.me as u32, keys: &keys };
        let found = receipts::compare(rows, owner, number as u32, &pieces)
            .map_err(|e| Failure::Run(anyhow!("{}: {e}", log.display())))?;
        let mut anchors = lines().filter(|line| {
            line["event"] == "farewell" && line["peer"] == folder.site.name.as_str()
        });
        let anchored = anchors
            .all(|line| receipts::is_anchored(rows, line["ledger"].as_str().unwrap_or_default()));
        let mut value = json!(found);
        (value["site"], value["holds"]) = (json!(site), json!(found.holds() && anchored));
        value["anchored"] = json!(anchored);
        all.push(value);
    }
    Ok(all)
}

/// What is signed: the text between two marks of the page.
const MARKS: (&str, &str) = ("<script type=\"application/json\" id=\"report\">", "</script>");

const PURPOSE: &[u8] = b"consenso report 1\0";

pub(crate) fn report(args: &Report, json: bool) -> Result<(), Failure> {
    if let Some(page) = &args.check {
        return check(&args.folder, page, json);
    }
    let folder = Folder::read(&args.folder)?;
    let store = Store::look(&args.folder)?;
    let rows = store.rows()?;
    let audited =
        claim::audit(&rows).map_err(|e| Failure::Run(anyhow!("{}: {e}", args.folder.display())))?;
    let decisions =
        consenso_node::decisions::read(&args.folder).map_err(|e| Failure::Run(e.into()))?;
    let identity = Identity::read(&args.folder)?;
    let key = identity::public_key(identity.certificate())?;
    let neighbours: Vec<&str> =
        folder.peers.iter().map(|p| p.name.as_str()).filter(|n| *n != folder.site.name).collect();
    let facts = json!({
        "site": folder.site.name, "sites": neighbours, "made": clock::text(clock::now()), "version": env!("CARGO_PKG_VERSION"),
        "ledger": { "rows": rows.len(), "head": Hex(store.head()).to_string() },
        "budget": books::standing(&rows), "studies": audited, "decisions": decisions,
        "pin": Hex(&sha256(&[&key])).to_string(), "key": Hex(&key).to_string(),
    });
    let SignedText { text, signature: sealed } = signature(&identity, PURPOSE, &facts)?;
    // As whoever checks it reads it, so that it is the same page to the last digit.
    let facts: Value = serde_json::from_str(&text).map_err(|e| Failure::Run(e.into()))?;
    let html = match (&args.html, &args.pdf) {
        (None, None) => Some(PathBuf::from("report.html")),
        (html, _) => html.clone(),
    };
    let write = |path: &Path, bytes: Vec<u8>| {
        fs::write(path, bytes).map_err(|e| Failure::Run(anyhow!("{}: {e}", path.display())))
    };
    if let Some(path) = &html {
        write(path, page(&facts, &text, &sealed).into_bytes())?;
    }
    if let Some(path) = &args.pdf {
        write(path, printed(&facts, &text, &sealed))?;
    }
    if json {
        output::print_json(
            &json!({ "page": html, "pdf": args.pdf, "head": facts["ledger"]["head"], "pin": facts["pin"] }),
        );
    } else {
        for path in html.iter().chain(&args.pdf) {
            output::print(&format!(
                "{}: signed with the key of {}",
                path.display(),
                folder.site.name
            ));
        }
    }
    Ok(())
}

/// A text and a site's signature under it.
pub(crate) struct SignedText {
    pub(crate) text: String,
    pub(crate) signature: ReleaseSignature,
}

/// Signs facts with a site's key, for a purpose that no other signature has.
pub(crate) fn signature(
    identity: &Identity,
    purpose: &[u8],
    facts: &Value,
) -> Result<SignedText, Failure> {
    // What stands in a script must not end it.
    let text = facts.to_string().replace('<', "\\u003c");
    let signature = ReleaseSigner::new(identity)?
        .sign(&[purpose, text.as_bytes()].concat())
        .map_err(|e| Failure::Run(anyhow!("the site's key did not sign: {e}")))?;
    Ok(SignedText { text, signature })
}

/// What is known of a signed text.
pub(crate) struct Verified {
    pub(crate) facts: Value,
    pub(crate) site: String,
    pub(crate) pin: String,
    /// Whether the key is that of a site in peers.toml.
    pub(crate) listed: bool,
    /// Whether the key signed this text.
    pub(crate) signed: bool,
}

/// Checks a signed text, which names its site and holds its key; `None` if it does not.
pub(crate) fn verify(folder: &Folder, purpose: &[u8], sealed: &SignedText) -> Option<Verified> {
    let facts: Value = serde_json::from_str(&sealed.text).ok()?;
    let key = facts["key"].as_str().and_then(unhex)?;
    let site = facts["site"].as_str()?.to_owned();
    let pin = Hex(&sha256(&[&key])).to_string();
    let listed =
        folder.peers.iter().any(|p| p.name == site && p.pins().any(|listed| listed == pin));
    let text = [purpose, sealed.text.as_bytes()].concat();
    let signed = release_signature::verify(&key, &text, &sealed.signature);
    Some(Verified { facts, site, pin, listed, signed })
}

/// What a page holds between the opening tag of its facts and the end, with its signature.
pub(crate) fn sealed_in(page: &str, open: &str) -> Option<SignedText> {
    let between = |from: &str, to: &str| Some(page.split_once(from)?.1.split_once(to)?.0);
    let signature = between("<code id=\"signature\">", "</code>").and_then(unhex)?;
    let scheme = between("Signature (scheme ", ")")?.parse().ok()?;
    let signature = ReleaseSignature { scheme, bytes: signature.into() };
    Some(SignedText { text: between(open, MARKS.1)?.to_owned(), signature })
}

/// What a check found, as an error where something is wrong.
pub(crate) fn judged(page: &Path, found: &Verified, shows: Option<bool>) -> Result<(), Failure> {
    let page = page.display();
    let wrong = match (found.signed, found.listed) {
        (true, true) if shows == Some(false) => {
            format!("{page}: it does not show what was signed: the page was changed")
        }
        (true, true) => return Ok(()),
        (false, _) => {
            format!("{page}: the signature is not that of the facts: the page was changed")
        }
        (true, false) => {
            format!("{page}: {} with the pin {} is not in peers.toml", found.site, found.pin)
        }
    };
    Err(Failure::Run(anyhow!(wrong)))
}

/// ε and δ as facts have them.
fn amount(value: &Value) -> String {
    match value["epsilon"].as_f64() {
        Some(epsilon) => format!("ε = {}, δ = {}", table::rounded_up(epsilon, 6), value["delta"]),
        None => "nothing".to_owned(),
    }
}

/// What a study's claim is worth: what it says beside ε and δ, in sentences.
fn terms(study: &Value) -> Vec<String> {
    let mut all = Vec::new();
    if study["seeded"] == true {
        all.push("Its noise came from a seed that everybody knows: it protects nobody.".to_owned());
    }
    all.extend(study["changes"].as_array().into_iter().flatten().map(agreement_line));
    match serde_json::from_value::<Option<Claim>>(study["claimed"].clone()) {
        Ok(Some(claim)) => {
            all.push(format!(
                "The claim covers one transcript, this study's. Neighbours: {}, {}. Adversary: {}. Method: {}, {}. Sampler: {}.",
                claim.neighbours,
                claim.neighbours.meaning(),
                claim.adversary,
                claim.method,
                claim.method.theorem(),
                claim.sampler
            ));
            all.extend(claim.caveats.iter().map(|caveat| format!("Caveat: {caveat}.")));
        }
        Ok(None) => all.push("Nothing is claimed.".to_owned()),
        Err(_) => all.push("This version cannot read what was claimed.".to_owned()),
    }
    all
}

/// What was decided about questions, as facts have it: a line each, with the questions and why they
/// were not answered without asking.
fn decided(facts: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let question = |q: &Value| match q["because"].as_str() {
        Some(why) => format!("{} ({why})", text(&q["question"])),
        None => text(&q["question"]),
    };
    let line = |d: &Value| {
        let asked = d["questions"].as_array().into_iter().flatten().map(question);
        let by = if d["by"] == "policy" { "questions.toml" } else { "the operator" };
        let cost = match (d["cost"][0].as_f64(), d["cost"][1].as_f64()) {
            (Some(epsilon), Some(delta)) => {
                format!("ε = {}, δ = {delta:e}", table::rounded_up(epsilon, 6))
            }
            _ => "no claim".to_owned(),
        };
        let study: String = text(&d["study"]).chars().take(12).collect();
        format!(
            "{}: {} by {by}, study {study}, {cost}: {}. Answered without asking then: {}.",
            text(&d["time"]),
            text(&d["decision"]),
            asked.collect::<Vec<_>>().join("; "),
            text(&d["rules"]),
        )
    };
    facts["decisions"].as_array().into_iter().flatten().map(line).collect()
}

/// What the sites agreed to change, as facts have it.
fn agreement_line(change: &Value) -> String {
    let signed: Vec<&str> =
        change["signed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let (number, what) = (&change["number"], change["change"].as_str().unwrap_or_default());
    format!("Agreement {number}: {what}. Signed by {}.", signed.join(", "))
}

/// The page as a PDF, with what is signed attached.
fn printed(facts: &Value, text: &str, signature: &ReleaseSignature) -> Vec<u8> {
    use crate::pdf::Style::{Code, Heading, Text, Title};
    let of = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let site = of(&facts["site"]);
    let who: Vec<String> = facts["sites"].as_array().into_iter().flatten().map(of).collect();
    let mut all = vec![
        (Title, format!("{site}: what was released")),
        (
            Text,
            format!(
                "Made {} by consenso {}. This file holds what {site}'s ledger says and nothing of its records. Releases went to those of these sites that are its neighbours in a study's graph: {}.",
                of(&facts["made"]),
                of(&facts["version"]),
                who.join(", ")
            ),
        ),
    ];
    for study in facts["studies"].as_array().into_iter().flatten() {
        let verdict = if study["holds"] == true { "within the claim" } else { "ABOVE the claim" };
        all.push((
            Heading,
            format!("Study {}, begun {}", of(&study["study"]), of(&study["began"])),
        ));
        all.push((Code, of(&study["experiment"])));
        all.push((
            Text,
            format!(
                "{} releases, {} of them charged. Claimed: {}. Recomputed from the events alone: {}, {verdict}.",
                of(&study["releases"]),
                of(&study["charged"]),
                amount(&study["claimed"]),
                amount(&study["recomputed"]),
            ),
        ));
        all.extend(terms(study).into_iter().map(|text| (Text, text)));
    }
    let decided = decided(facts);
    if !decided.is_empty() {
        all.push((Heading, "What was decided about questions".into()));
        all.extend(decided.into_iter().map(|text| (Text, text)));
    }
    if let Some(remaining) = facts["budget"].get("remaining") {
        all.push((Heading, "Budget".into()));
        all.push((
            Text,
            format!(
                "Spent or reserved: {}. Left: {}.",
                amount(&facts["budget"]["spent"]),
                amount(remaining)
            ),
        ));
    }
    all.extend([
        (Heading, "How to verify".into()),
        (Text, "The file: consenso node report SITE_FOLDER --check THIS_FILE at any site of the network. The key must have this pin in that site's peers.toml:".into()),
        (Code, of(&facts["pin"])),
        (Text, format!("The ledger: its last row, of {}, must have the hash below. consenso node audit at {site} checks every row and recomputes epsilon from the events alone.", of(&facts["ledger"]["rows"]))),
        (Code, of(&facts["ledger"]["head"])),
        (Text, format!("Against others: consenso node audit {site} --against NEIGHBOUR_AUDIT.jsonl. A neighbour's log holds {site}'s signature under every release, and the ledger's last row of every finished study.")),
        (Text, format!("Signature (scheme {}) over the facts in signed.txt, which is attached to this file:", signature.scheme)),
        (Code, Hex(&signature.bytes).to_string()),
    ]);
    let attached = format!("{}\n{}\n{}", signature.scheme, Hex(&signature.bytes), text);
    crate::pdf::write(&all, &attached)
}

/// What a PDF has attached: scheme, signature, and what is signed.
fn attached(file: &str) -> Option<(u16, Vec<u8>, &str)> {
    let after = file.split_once("/Type /EmbeddedFile /Length ")?.1;
    let (length, stream) = after.split_once(" >>\nstream\n")?;
    let mut lines = stream.get(..length.parse().ok()?)?.splitn(3, '\n');
    Some((lines.next()?.parse().ok()?, unhex(lines.next()?)?, lines.next()?))
}

fn page(facts: &Value, text: &str, signature: &ReleaseSignature) -> String {
    let of =
        |value: &Value| escape(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let (mut rows, mut claims) = (String::new(), String::new());
    for study in facts["studies"].as_array().into_iter().flatten() {
        let (claimed, found) = (&study["claimed"], &study["recomputed"]);
        rows += &format!(
            "<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td>{} ({} charged)</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            of(&study["study"]),
            of(&study["experiment"]),
            of(&study["began"]),
            of(&study["releases"]),
            of(&study["charged"]),
            amount(claimed),
            amount(found),
            if study["holds"] == true { "within the claim" } else { "ABOVE the claim" },
        );
        for text in terms(study) {
            claims += &format!("<li>Study {}: {}</li>\n", of(&study["study"]), escape(&text));
        }
    }
    let decided: String =
        decided(facts).iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
    let decided = match decided.is_empty() {
        true => decided,
        false => format!("<h2>What was decided about questions</h2>\n<ul>{decided}</ul>\n"),
    };
    let who: Vec<String> = facts["sites"].as_array().into_iter().flatten().map(of).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{site}: what was released</title>\n<style>body{{font:16px/1.5 sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}}code{{overflow-wrap:anywhere;font-size:.85em}}table{{border-collapse:collapse}}td,th{{border:1px solid #bbb;padding:.3rem .6rem;text-align:left}}</style>\n\
         <h1>{site}: what was released</h1>\n<p>Made {made} by consenso {version}. This page holds what {site}'s ledger says and nothing of its records. Releases went to those of these sites that are its neighbours in a study's graph: {who}.</p>\n\
         <table><tr><th>study</th><th>digest</th><th>began</th><th>releases</th><th>claimed</th><th>recomputed from events</th><th></th></tr>\n{rows}</table>\n\
         <h2>What the claims say</h2>\n<ul>{claims}</ul>\n{decided}\
         <h2>How to verify</h2>\n<ol><li>The page: <code>consenso node report SITE_FOLDER --check THIS_PAGE</code> at any site of the network. The key must have the pin <code>{pin}</code> in that site's peers.toml.</li>\n\
         <li>The ledger: its last row must have the hash <code>{head}</code> ({count} rows). <code>consenso node audit</code> at {site} checks every row and recomputes ε from the events alone.</li>\n\
         <li>Against others: <code>consenso node audit {site} --against NEIGHBOUR_AUDIT.jsonl</code>. A neighbour's log holds {site}'s signature under every release, and the ledger's last row of every finished study.</li></ol>\n\
         <p>Signature (scheme {scheme}) over the facts below: <code id=\"signature\">{signature}</code></p>\n{open}{text}{close}\n</html>\n",
        site = of(&facts["site"]),
        made = of(&facts["made"]),
        version = of(&facts["version"]),
        who = who.join(", "),
        pin = of(&facts["pin"]),
        head = of(&facts["ledger"]["head"]),
        count = of(&facts["ledger"]["rows"]),
        scheme = signature.scheme,
        signature = Hex(&signature.bytes),
        open = MARKS.0,
        close = MARKS.1,
    )
}

fn check(path: &Path, page: &Path, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(path)?;
    let text =
        fs::read_to_string(page).with_context(|| format!("{}: cannot be read", page.display()))?;
    let malformed = || anyhow!("{}: this is no report of a site", page.display());
    let is_pdf = text.starts_with("%PDF-");
    let sealed = match is_pdf {
        true => attached(&text).map(|(scheme, signature, facts)| SignedText {
            text: facts.to_owned(),
            signature: ReleaseSignature { scheme, bytes: signature.into() },
        }),
        false => sealed_in(&text, MARKS.0),
    };
    let sealed = sealed.ok_or_else(malformed)?;
    let found = verify(&folder, PURPOSE, &sealed).ok_or_else(malformed)?;
    let (value, facts, signature) = (&found.facts, sealed.text.as_str(), &sealed.signature);
    // What people read must be what was signed; only the same version writes the same page of the
    // same facts.
    let shows = (value["version"] == env!("CARGO_PKG_VERSION")).then(|| match is_pdf {
        true => printed(value, facts, signature) == text.as_bytes(),
        false => self::page(value, facts, signature) == text,
    });
    say_checked(page, &found, shows, json);
    judged(page, &found, shows)
}

/// Prints what a check found; what is wrong is said by [`judged`].
pub(crate) fn say_checked(page: &Path, found: &Verified, shows: Option<bool>, json: bool) {
    let Verified { site, pin, listed, signed, facts } = found;
    if json {
        output::print_json(
            &json!({ "site": site, "pin": pin, "listed": listed, "signed": signed, "shows_what_was_signed": shows }),
        );
    } else if *listed && *signed && shows != Some(false) {
        output::print(&format!("{}: signed by {site}, whose pin is in peers.toml", page.display()));
        if shows.is_none() {
            output::print(&format!(
                "it was made by consenso {}, so that only the facts in it were checked, not how they are shown",
                facts["version"].as_str().unwrap_or("of another version")
            ));
        }
    }
}
