//! What somebody new gets wrong, and what is said then: the place, what is wrong, what to do.

use crate::{Net, Process, consenso, experiment, ports, text};
use consenso_node::identity::{CERTIFICATE, KEY};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn place(test: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("network-{test}"));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    place
}

/// The command is refused as bad input, and says all of it.
fn refused(place: &Path, arguments: &[&str], said: &[&str]) {
    let output = consenso().current_dir(place).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
    for part in said {
        assert!(
            text(&output).contains(part),
            "{arguments:?}: {part} is missing from {}",
            text(&output)
        );
    }
}

#[test]
fn a_network_that_could_not_run_is_not_made() {
    let place = place("not-made");
    let new =
        |more: &[&'static str]| [&["network", "new", "net", "--sites", "a,b,c"], more].concat();
    let adult = |more: &[&'static str]| [&new(&["--experiment", "adult"]), more].concat();
    refused(
        &place,
        &adult(&["--addresses", "a.org:1,b.org:2"]),
        &["--addresses has 2 entries for 3 sites"],
    );
    refused(&place, &adult(&["--addresses", "a.org,b.org:2,"]), &["\"a.org\" is not HOST:PORT"]);
    refused(
        &place,
        &adult(&["--addresses", "a.org:1,b.org:0,"]),
        &["\"b.org:0\" is not HOST:PORT"],
    );
    refused(
        &place,
        &adult(&["--addresses", "a.org:1,a.org:1,"]),
        &["two sites are called at a.org:1"],
    );
    refused(&place, &adult(&["--addresses", "a.org:1,,"]), &["neither b nor c can be called"]);
    refused(&place, &adult(&["--records", "5,6,7"]), &["--records", "data.records_per_agent"]);
    for site in ["a", "b", "c"] {
        let rows =
            (0..30).map(|k| format!("{},{}\n", 20 + k, if k % 3 == 0 { "yes" } else { "no" }));
        fs::write(
            place.join(format!("{site}.csv")),
            format!("age,ill\n{}", rows.collect::<String>()),
        )
        .unwrap();
    }
    let draft = consenso()
        .current_dir(&place)
        .args(["data", "schema", "a.csv", "--label", "ill"])
        .output()
        .unwrap();
    fs::write(place.join("schema.toml"), &draft.stdout).unwrap();
    let study = |algorithm: &str| {
        let text = format!(
            "name = \"files\"\nruns = 1\n[data]\npath = \"?.csv\"\nschema = \"schema.toml\"\n[graph]\nkind = \"complete\"\n\
             [privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\n{algorithm}\n"
        );
        fs::write(place.join("study.toml"), text).unwrap();
    };
    study("kind = \"dgd\"");
    let files = new(&["--experiment", "study.toml"]);
    refused(
        &place,
        &files,
        &["schema.toml: this draft was computed from records", "set reviewed = true"],
    );
    let reviewed =
        String::from_utf8(draft.stdout).unwrap().replace("reviewed = false", "reviewed = true");
    fs::write(place.join("schema.toml"), reviewed).unwrap();
    study("kind = \"dgd\"\nrounds = 0");
    refused(&place, &files, &["study.toml", "rounds"]);
    // What every site would refuse when it starts.
    study("kind = \"dgd\"\nstaleness = 2\nexchange = \"secret-shared\"");
    refused(&place, &files, &["staleness", "needs everybody's of one round"]);
    study("kind = \"extra\"\nstaleness = 2");
    refused(
        &place,
        &files,
        &["study.toml:", "kind extra cannot mix older vectors", "use kind = \"dgd\""],
    );
    study("kind = \"dgd\"");
    refused(
        &place,
        &[&files[..], &["--set", "start=0.5"]].concat(),
        &["a network starts from zero"],
    );
    refused(
        &place,
        &new(&["--experiment", "dispatch-14"]),
        &["this experiment can be simulated only"],
    );
    refused(
        &place,
        &[&files[..], &["--addresses", ",b.org:2,"]].concat(),
        &["neither a nor c can be called"],
    );
    assert!(!place.join("net").exists(), "nothing was made");
    let made = consenso().current_dir(&place).args(&files).output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
    fs::write(place.join("b.csv"), "age,ill\n30,yes\n").unwrap();
    refused(
        &place,
        &["node", "run", "net/b"],
        &["b.csv: 1 records, but 30 were announced", "peers.toml"],
    );
}

#[test]
fn a_folder_that_is_no_site_is_told_from_one() {
    let net = Net::new(
        "no-site",
        2,
        &experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 5"),
        "os",
    );
    let place = net.root.parent().unwrap();
    for command in ["run", "status", "audit", "model"] {
        refused(place, &["node", command, "net"], &["this is a network", "net/site-0, net/site-1"]);
        refused(
            place,
            &["node", command, "nowhere"],
            &["nowhere: there is no site here", "consenso node init"],
        );
    }
    refused(place, &["node", "audit", "net/site-0"], &["this site has not run yet"]);
    for (file, from, to, said) in [
        ("site.toml", "listen = \"127.0.0.1:", "listen = \"7400", "site.toml: listen: \"7400"),
        ("site.toml", "name =", "metrics = \"here\"\nname =", "metrics: \"here\" is not HOST:PORT"),
        ("peers.toml", "address = \"127.0.0.1:", "address = \"", "peers.toml: address of site-0: "),
        (
            "site.toml",
            "name =",
            "lisen = \"x\"\nname =",
            "site.toml: line 1: unknown field `lisen`",
        ),
    ] {
        let path = net.folder(0).join(file);
        let right = fs::read_to_string(&path).unwrap();
        assert!(right.contains(from), "{right}");
        fs::write(&path, right.replace(from, to)).unwrap();
        refused(place, &["node", "run", "net/site-0"], &[said]);
        fs::write(&path, right).unwrap();
    }
    fs::copy(net.folder(1).join(CERTIFICATE), net.folder(0).join(CERTIFICATE)).unwrap();
    refused(
        place,
        &["node", "run", "net/site-0"],
        &["site-0/certificate.pem: is not the certificate of the key"],
    );
    fs::remove_file(net.folder(1).join(KEY)).unwrap();
    refused(place, &["node", "run", "net/site-1"], &["net/site-1/key.pem"]);
    fs::remove_file(net.folder(1).join("peers.toml")).unwrap();
    refused(
        place,
        &["node", "run", "net/site-1"],
        &["peers.toml: is missing; it comes with the study"],
    );
}

/// Starts all sites; what is said when they have ended.
fn up(net: &Net) -> std::process::Child {
    let mut command = consenso();
    command.args(["network", "up"]).arg(&net.root).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The process that was started for a site.
fn pid_of(folder: &Path) -> Option<u32> {
    let folder = folder.display().to_string();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .find(|pid: &u32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split('\0').any(|word| word == folder)
        })
}

#[test]
fn a_site_that_ends_is_named_and_the_others_are_not_blamed() {
    let study = experiment(3, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 4000\ngossip = 0");
    let net = Net::new("named", 3, &study, "seed");
    // A port that another program has.
    let held = std::net::TcpListener::bind(("127.0.0.1", ports(1)[0])).unwrap();
    let address = held.local_addr().unwrap().to_string();
    net.set(1, "listen", address.clone());
    let output = up(&net).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = format!("site-1/site.toml: listen = \"{address}\": Address already in use");
    assert!(text(&output).contains(&said), "{}", text(&output));
    assert!(text(&output).contains("site-1 could not go on; "), "{}", text(&output));
    drop(held);
    // A process that the system ends.
    let running = Process(Some(up(&net)));
    let began = Instant::now();
    let process = loop {
        let all = (0..3).filter_map(|site| pid_of(&net.folder(site))).collect::<Vec<_>>();
        if let [_, _, last] = all[..] {
            break last.to_string();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "never three sites");
        std::thread::sleep(Duration::from_millis(20));
    };
    std::process::Command::new("kill").args(["-9", &process]).status().unwrap();
    let output = running.output();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("site-2 was ended by signal 9; "), "{}", text(&output));
    // Bad input is bad input here too.
    fs::write(net.folder(0).join("experiment.toml"), "rounds = ").unwrap();
    let output = up(&net).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("site-0 could not go on"), "{}", text(&output));
}
