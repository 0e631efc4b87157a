//! The life of a study at its sites, and what they can prove to others about it.

use crate::{Net, Process, consenso, experiment, finish, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

fn asked(words: &[&str], folder: &Path, more: &[&str]) -> (Output, Value) {
    let output = consenso().arg("--json").args(words).arg(folder).args(more).output().unwrap();
    let value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, value)
}

/// A study that was lost left every site with nothing to spend.
#[test]
fn an_abandoned_study_gives_back_what_it_did_not_charge() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 20000\ngossip = 0");
    let net = Net::new("abandon", 2, &study, "os");
    let mut all = net.start_all();
    let began = Instant::now();
    while net.audit_len(0) < 60 {
        assert!(began.elapsed() < LIMIT, "rounds");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (running, _) = asked(&["node", "abandon"], &net.folder(0), &["1"]);
    assert_eq!(running.status.code(), Some(2), "not while it runs: {}", text(&running));
    all.iter_mut().for_each(Process::terminate);
    finish(all, LIMIT);
    let (_, before) = asked(&["node", "studies"], &net.folder(0), &[]);
    assert_eq!(before["studies"][0]["state"], "unfinished");
    assert!(
        before["remaining"]["epsilon"].as_f64().unwrap() < 1e-9,
        "all of it is reserved: {before}"
    );
    let (output, done) = asked(&["node", "abandon"], &net.folder(0), &["1"]);
    assert!(output.status.success(), "{}", text(&output));
    let charged = before["studies"][0]["charged"].as_f64().unwrap();
    let (reserved, spent) =
        (done["reserved"]["mu"].as_f64().unwrap(), done["spent"]["mu"].as_f64().unwrap());
    let share = (charged / 20000.0).sqrt();
    assert!((spent / reserved / share - 1.0).abs() < 1e-6, "{charged} charges of 20000: {done}");
    let (_, after) = asked(&["node", "studies"], &net.folder(0), &[]);
    assert_eq!(after["studies"][0]["state"], "abandoned");
    assert!(after["remaining"]["epsilon"].as_f64().unwrap() > 0.5, "{after}");
    // Neither again nor on: its neighbours may have what it would draw afresh.
    let (again, _) = asked(&["node", "abandon"], &net.folder(0), &["1"]);
    assert!(again.status.success(), "{}", text(&again));
    let started = net.start(0).output();
    assert_eq!(started.status.code(), Some(2), "{}", text(&started));
    assert!(text(&started).contains("was abandoned here"), "{}", text(&started));
    let (audit, _) = asked(&["node", "audit"], &net.folder(0), &[]);
    assert!(audit.status.success(), "{}", text(&audit));
}

/// An old copy of a folder knows of fewer charges than have left: what others have was given back.
#[test]
fn an_old_copy_that_is_given_up_gives_nothing_back() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 20000\ngossip = 0");
    let net = Net::new("abandon-old", 2, &study, "os");
    net.set(0, "witness", net.root.join("elsewhere").display().to_string());
    net.set(1, "deadline_seconds", 4.0);
    let run = |lines: usize| {
        let (mut all, began) = (net.start_all(), Instant::now());
        while net.audit_len(0) < lines || net.audit_len(1) < lines {
            assert!(began.elapsed() < LIMIT, "rounds");
            std::thread::sleep(Duration::from_millis(5));
        }
        all.iter_mut().for_each(Process::terminate);
        finish(all, LIMIT);
    };
    let copy = |from: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        for file in ["state.db", "state.db-wal", "state.db-shm", "audit.jsonl"] {
            let _ = fs::remove_file(to.join(file));
            let _ = fs::copy(from.join(file), to.join(file));
        }
    };
    let snapshot = |site: usize| net.root.join(format!("snapshot-{site}"));
    run(40);
    [0, 1].iter().for_each(|&site| copy(&net.folder(site), &snapshot(site)));
    run(120);
    let given_up = |site: usize| {
        let (output, done) = asked(&["node", "abandon"], &net.folder(site), &["1"]);
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(done["old_copy"], true, "{done}");
        assert_eq!(done["spent"], done["reserved"], "{done}");
    };
    // Without a witness a neighbour proves it, and once is enough: the second time nobody is there.
    copy(&snapshot(1), &net.folder(1));
    for neighbour in [Some(net.start(0)), None] {
        let output = net.start(1).output();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("the folder is an old copy"), "{}", text(&output));
        drop(neighbour);
    }
    given_up(1);
    // With one nobody needs to.
    copy(&snapshot(0), &net.folder(0));
    given_up(0);
}

/// What a site holds out judges the model for its operator; nothing of it is in the site's folder,
/// and the others count the rest.
#[test]
fn a_site_judges_the_model_on_what_it_held_out() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("network-held-out");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    // Two sites with the same records would share a ledger.
    for (site, youngest) in [("a", 20), ("b", 21)] {
        let rows =
            (0..40).map(|k| format!("{};{}\n", youngest + k, if k >= 20 { "yes" } else { "no" }));
        fs::write(
            place.join(format!("{site}.csv")),
            format!("age;ill\n{}", rows.collect::<String>()),
        )
        .unwrap();
    }
    let schema = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n[[column]]\nname = \"ill\"\n\
                  kind = \"label\"\nclasses = [\"no\", \"yes\"]\n";
    fs::write(place.join("schema.toml"), schema).unwrap();
    let study = "name = \"held\"\nruns = 1\n[data]\npath = \"?.csv\"\nschema = \"schema.toml\"\nhold_out = 0.25\n[graph]\n\
                 kind = \"complete\"\n[privacy]\nepsilon = 5.0\ndelta = 1e-4\n[[algorithm]]\nkind = \"dgd\"\nrounds = 4\n";
    fs::write(place.join("study.toml"), study).unwrap();
    let addresses: Vec<String> =
        crate::ports(2).iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let addresses = addresses.join(",");
    let new = [
        "network",
        "new",
        "net",
        "--sites",
        "a,b",
        "--experiment",
        "study.toml",
        "--delimiter",
        ";",
        "--addresses",
        &addresses,
    ];
    let made = consenso().current_dir(&place).args(new).output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let peers = fs::read_to_string(place.join("net/a/peers.toml")).unwrap();
    assert_eq!(peers.matches("records = 30").count(), 2, "{peers}");
    let up =
        consenso().current_dir(&place).args(["network", "up", "net", "--json"]).output().unwrap();
    assert!(up.status.success(), "{}", text(&up));
    let value: Value = serde_json::from_slice(&up.stdout).unwrap();
    for end in value["sites"].as_array().unwrap() {
        assert_eq!(
            (&end["test_records"], &end["test_metrics"]["rows"]),
            (&"own".into(), &10.into()),
            "{end}"
        );
        assert!(end["test_accuracy"].is_number(), "{end}");
    }
    for name in ["audit.jsonl", "experiment.toml", "peers.toml"] {
        let text = fs::read_to_string(place.join("net/a").join(name)).unwrap();
        assert!(!text.contains("accuracy"), "{name}: {text}");
    }
}

/// Whether a site starts is seen by all others, so neither records of one class nor test records
/// that it trains on keep it from starting; figures of the latter are shown to nobody.
#[test]
fn neither_one_class_nor_test_records_of_ones_own_keep_a_site_from_starting() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("network-starts");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    let rows = |youngest: usize, ill: &dyn Fn(usize) -> bool| {
        let row = |k: usize| format!("{},{}\n", youngest + k, if ill(k) { "yes" } else { "no" });
        format!("age,ill\n{}", (0..30).map(row).collect::<String>())
    };
    fs::write(place.join("a.csv"), rows(20, &|_| false)).unwrap();
    fs::write(place.join("b.csv"), rows(30, &|k| k > 15)).unwrap();
    fs::write(place.join("public.csv"), rows(60, &|k| k > 3)).unwrap();
    let schema = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n[[column]]\nname = \"ill\"\n\
                  kind = \"label\"\nclasses = [\"no\", \"yes\"]\n";
    fs::write(place.join("schema.toml"), schema).unwrap();
    let study = "name = \"starts\"\nruns = 1\n[data]\npath = \"?.csv\"\nschema = \"schema.toml\"\ntest = \"public.csv\"\n\
                 encoding = \"one-hot\"\n[graph]\nkind = \"complete\"\n[privacy]\nepsilon = 5.0\ndelta = 1e-4\n\
                 [[algorithm]]\nkind = \"dgd\"\nrounds = 4\n";
    fs::write(place.join("study.toml"), study).unwrap();
    let addresses: Vec<String> =
        crate::ports(2).iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let new = ["network", "new", "net", "--sites", "a,b", "--experiment", "study.toml"];
    let made = consenso()
        .current_dir(&place)
        .args(new)
        .args(["--addresses", &addresses.join(",")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    // The operator of b puts its own records where public ones belong.
    fs::write(place.join("net/b/test.csv"), rows(30, &|k| k > 15)).unwrap();
    let up =
        consenso().current_dir(&place).args(["network", "up", "net", "--json"]).output().unwrap();
    assert!(up.status.success(), "{}", text(&up));
    let value: Value = serde_json::from_slice(&up.stdout).unwrap();
    let [a, b] = value["sites"].as_array().unwrap().as_slice() else { panic!("{value}") };
    assert!(a["test_accuracy"].is_number(), "one class starts and is judged: {a}");
    assert!(b["test_accuracy"].is_null() && b["test_metrics"].is_null(), "{b}");
    let status = consenso().args(["node", "doctor"]).arg(place.join("net/b")).output().unwrap();
    let said = text(&status);
    assert!(said.contains("holds records that this site trains on"), "{said}");
}

/// A ledger can be held against what its neighbours received, signed by the site itself.
#[test]
fn a_neighbours_log_proves_what_was_released() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 9\ngossip = 0");
    let net = Net::new("receipts", 2, &study, "os");
    finish(net.start_all(), LIMIT);
    let log = net.folder(1).join("audit.jsonl");
    let against = |folder: &Path, log: &Path| {
        asked(&["node", "audit"], folder, &["--against", log.to_str().unwrap()])
    };
    let (output, found) = against(&net.folder(0), &log);
    assert!(output.status.success(), "{}", text(&output));
    let one = &found["against"][0];
    assert_eq!(
        (one["agree"].as_u64(), one["signed"].as_u64(), &one["holds"]),
        (Some(9), Some(9), &Value::Bool(true))
    );
    assert_eq!((&one["site"], &one["anchored"]), (&"site-1".into(), &Value::Bool(true)));
    // A log that was changed has no signatures of this site: it proves nothing.
    let forged = net.folder(1).join("forged.jsonl");
    let text_of = fs::read_to_string(&log).unwrap();
    let line = text_of.lines().find(|line| line.contains("\"received\"")).unwrap();
    let hash = serde_json::from_str::<Value>(line).unwrap()["blake3"].as_str().unwrap().to_owned();
    fs::write(&forged, text_of.replace(&hash, &"ab".repeat(32))).unwrap();
    let (output, found) = against(&net.folder(0), &forged);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(found["against"][0]["forged"], serde_json::json!([1]));
    // A ledger of a run that was thrown away and made again is refuted by the old receipts.
    let receipts = net.folder(1).join("before.jsonl");
    fs::copy(&log, &receipts).unwrap();
    for site in 0..2 {
        for file in ["state.db", "state.db-wal", "state.db-shm", "audit.jsonl"] {
            let _ = fs::remove_file(net.folder(site).join(file));
        }
    }
    finish(net.start_all(), LIMIT);
    let (output, found) = against(&net.folder(0), &receipts);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert_eq!(found["against"][0]["unknown"].as_array().map(Vec::len), Some(9));
}

#[test]
fn a_report_is_signed_and_a_changed_one_is_found() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 4\ngossip = 0");
    let net = Net::new("report", 2, &study, "os");
    finish(net.start_all(), LIMIT);
    let page = net.folder(0).join("page.html");
    let (output, made) =
        asked(&["node", "report"], &net.folder(0), &["--html", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output));
    let written = fs::read_to_string(&page).unwrap();
    assert!(
        written.contains(made["head"].as_str().unwrap()) && written.contains("within the claim")
    );
    // A claim is more than ε and δ.
    let terms = [
        "one transcript",
        "Neighbours: replace-one",
        "Adversary: every other agent",
        "Method: ",
        "Sampler: ",
    ];
    assert!(terms.iter().all(|term| written.contains(term)), "{written}");
    let check = |page: &Path| {
        asked(&["node", "report"], &net.folder(1), &["--check", page.to_str().unwrap()])
    };
    let (output, found) = check(&page);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(
        (&found["site"], &found["listed"], &found["signed"]),
        (&"site-0".into(), &true.into(), &true.into())
    );
    fs::write(&page, written.replace("\"releases\":4", "\"releases\":3")).unwrap();
    let (output, found) = check(&page);
    assert_eq!((output.status.code(), &found["signed"]), (Some(1), &false.into()));
    // What people read is held to what was signed, too.
    let shown = written.replace("4 (4 charged)", "3 (3 charged)");
    assert_ne!(shown, written);
    fs::write(&page, shown).unwrap();
    let (output, found) = check(&page);
    assert_eq!((output.status.code(), &found["shows_what_was_signed"]), (Some(1), &false.into()));
    // The same as a PDF.
    let pdf = net.folder(0).join("page.pdf");
    let (output, made) =
        asked(&["node", "report"], &net.folder(0), &["--pdf", pdf.to_str().unwrap()]);
    assert!(output.status.success() && made["page"].is_null(), "{}", text(&output));
    let written = fs::read_to_string(&pdf).unwrap();
    assert!(written.starts_with("%PDF-1.4\n") && written.contains(made["head"].as_str().unwrap()));
    // Lines are broken, so each term is looked for in what is drawn, without the breaks.
    let drawn: String = written
        .split('(')
        .skip(1)
        .filter_map(|part| part.split_once(") Tj"))
        .map(|(text, _)| format!("{text} "))
        .collect();
    assert!(terms.iter().all(|term| drawn.contains(term.trim())), "{drawn}");
    let (output, found) = check(&pdf);
    assert!(output.status.success() && found["shows_what_was_signed"] == true, "{}", text(&output));
    for (old, new, signed) in [
        ("4 releases, 4 of them charged", "3 releases, 3 of them charged", true),
        ("\"releases\":4", "\"releases\":3", false),
    ] {
        assert!(written.contains(old));
        fs::write(&pdf, written.replace(old, new)).unwrap();
        let (output, found) = check(&pdf);
        assert_eq!((output.status.code(), &found["signed"]), (Some(1), &signed.into()), "{found}");
    }
}

#[test]
fn a_statement_is_signed_and_a_changed_one_is_found() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 4\ngossip = 0");
    let net = Net::new("statement", 2, &study, "os");
    finish(net.start_all(), LIMIT);
    let page = net.folder(0).join("sheet.html");
    let words = ["privacy", "statement"];
    let wanted = ["--format", "nist", "--html", page.to_str().unwrap()];
    let (output, made) = asked(&words, &net.folder(0), &wanted);
    assert!(output.status.success(), "{}", text(&output));
    assert!(made["open"].as_array().unwrap().contains(&"legal_basis".into()));
    let written = fs::read_to_string(&page).unwrap();
    assert!(
        written.contains("within the claim") && written.contains("4 messages that used records")
    );
    let check = || asked(&words, &net.folder(1), &["--check", page.to_str().unwrap()]);
    let (output, found) = check();
    assert!(output.status.success() && found["shows_what_was_signed"] == true, "{}", text(&output));
    // Neither what people read nor what was signed can be changed, nor one be made the other.
    for (old, new, signed) in [
        ("<dd class=\"open\">", "<dd class=\"known\">", true),
        ("id=\"statement\">{\"key\"", "id=\"statement\">{ \"key\"", false),
    ] {
        assert!(written.contains(old), "{old}");
        fs::write(&page, written.replace(old, new)).unwrap();
        let (output, found) = check();
        assert_eq!((output.status.code(), &found["signed"]), (Some(1), &signed.into()), "{found}");
    }
    let (output, _) =
        asked(&["node", "report"], &net.folder(0), &["--html", page.to_str().unwrap()]);
    assert!(output.status.success());
    assert_eq!(check().0.status.code(), Some(2), "a report is no statement");
}

/// Two folders as the release before left them, in the middle of a study: it goes on, and its
/// ledger only grows. (The keys are of this test alone; `golden/README.md` says how they were
/// made.)
#[test]
fn folders_of_the_release_before_go_on() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/network/golden");
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("network-golden");
    let _ = fs::remove_dir_all(&root);
    let names = vec!["site-0".to_owned(), "site-1".to_owned()];
    for (name, port) in names.iter().zip(crate::ports(2)) {
        let to = root.join(name);
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(golden.join(name)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
        for secret in ["key.pem", "state.db"] {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(to.join(secret), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let known = if name == "site-0" { "127.0.0.1:7461" } else { "127.0.0.1:7462" };
        fs::write(root.join(format!("{name}.port")), format!("{known} 127.0.0.1:{port}")).unwrap();
    }
    // Addresses are no part of a study: the ports of the day are not those of the test.
    let ports: Vec<String> = names
        .iter()
        .map(|name| fs::read_to_string(root.join(format!("{name}.port"))).unwrap())
        .collect();
    for name in &names {
        for file in ["peers.toml", "site.toml"] {
            let path = root.join(name).join(file);
            let mut text = fs::read_to_string(&path).unwrap();
            for (known, now) in ports.iter().filter_map(|line| line.split_once(' ')) {
                text = text.replace(known, now);
            }
            fs::write(path, text).unwrap();
        }
    }
    let net = Net { root, names };
    finish(net.start_all(), LIMIT);
    let rows = consenso_node::store::Store::look(&net.folder(0)).unwrap().rows().unwrap();
    let head = consenso_node::frame::Hex(&rows[42].hash).to_string();
    assert_eq!(
        head, "4614519b0fc47a9aad7513db80ab52c31b206b3a9195d3bf11e9990225e8702d",
        "what was written stays"
    );
    assert_eq!(net.transcript().len(), 2 * 402, "every round once, before and after");
    net.assert_one_payload_a_round();
    let (audit, _) = asked(&["node", "audit"], &net.folder(1), &[]);
    assert!(audit.status.success(), "{}", text(&audit));
}
