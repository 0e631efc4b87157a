//! A site whose key is in a hardware module: SoftHSM, reached by the script that is deployed.

use crate::{Net, experiment, finish, text};
use consenso_node::frame::Hex;
use consenso_node::identity::{self, CERTIFICATE, KEY};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// Runs a command of words without spaces.
fn ask(place: &Path, command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(place)
        .env("SOFTHSM2_CONF", place.join("softhsm2.conf"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", text(&output));
}

/// Makes a key in a module, and a certificate of the network's authority for it; the site has no
/// key file any more.
fn into_a_module(net: &Net, site: usize) {
    let place = &net.folder(site);
    fs::create_dir(place.join("tokens")).unwrap();
    let conf = format!("directories.tokendir = {}\n", place.join("tokens").display());
    fs::write(place.join("softhsm2.conf"), conf).unwrap();
    fs::write(place.join("pin"), "1234").unwrap();
    let tool = format!("pkcs11-tool --module {MODULE} --token-label consenso");
    let init = "softhsm2-util --init-token --free --label consenso --pin 1234 --so-pin 1234";
    ask(place, init);
    let make = "--login --pin 1234 --keypairgen --key-type EC:prime256v1 --id 01";
    ask(place, &format!("{tool} {make}"));
    let read = "--read-object --type pubkey --id 01 --output-file public.der";
    ask(place, &format!("{tool} {read}"));
    ask(place, "openssl ec -pubin -inform DER -in public.der -out public.pem");
    let name = &net.names[site];
    let request = "openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    ask(place, &format!("{request} -keyout /dev/null -subj /CN={name} -out any.csr"));
    fs::write(
        place.join("extensions"),
        format!("subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth,clientAuth\n"),
    )
    .unwrap();
    let before = Hex(&identity::pin_of_file(&place.join(CERTIFICATE)).unwrap()).to_string();
    let sign = "openssl x509 -req -in any.csr -force_pubkey public.pem -CA ../authority.pem";
    let with = "-CAkey ../authority-key.pem -days 30 -extfile extensions";
    ask(place, &format!("{sign} {with} -out {CERTIFICATE}"));
    fs::remove_file(place.join(KEY)).unwrap();
    let after = Hex(&identity::pin_of_file(&place.join(CERTIFICATE)).unwrap()).to_string();
    for folder in (0..net.names.len()).map(|i| net.folder(i)) {
        let peers = fs::read_to_string(folder.join("peers.toml")).unwrap();
        assert!(peers.contains(&before));
        fs::write(folder.join("peers.toml"), peers.replace(&before, &after)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/pkcs11-sign.sh");
    let wrapper = format!(
        "#!/bin/sh\nexport SOFTHSM2_CONF={0}/softhsm2.conf PKCS11_MODULE={MODULE} PKCS11_PIN_FILE={0}/pin\nexec {1}\n",
        place.display(),
        script.display()
    );
    fs::write(place.join("sign.sh"), wrapper).unwrap();
    fs::set_permissions(place.join("sign.sh"), fs::Permissions::from_mode(0o700)).unwrap();
    net.set(site, "signer", vec!["sign.sh"]);
}

#[test]
#[ignore = "needs SoftHSM and OpenSC (apt-get install softhsm2 opensc): cargo xtask soak"]
fn a_key_can_stay_in_a_hardware_module() {
    if !Path::new(MODULE).exists() || Command::new("pkcs11-tool").arg("--version").output().is_err()
    {
        eprintln!("left out: SoftHSM or OpenSC is not installed");
        return;
    }
    let net = Net::new(
        "signer",
        3,
        &experiment(3, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 20\ngossip = 1"),
        "os",
    );
    into_a_module(&net, 1);
    finish(net.start_all(), Duration::from_secs(120));
    // Its releases are signed, with the key that is in no file.
    let key = identity::certificates(&net.folder(1).join(CERTIFICATE)).unwrap();
    let key = identity::public_key(&key[0]).unwrap();
    let received =
        net.audit(0).into_iter().filter(|l| l["event"] == "received" && l["peer"] == "site-1");
    assert_eq!(
        received.filter(|l| l["scheme"] == 0x0403 && l["signature"].is_string()).count(),
        21
    );
    assert!(!key.is_empty() && !net.folder(1).join(KEY).exists());
    // A device with another key, or none, is found out before anything is sent.
    let script = net.folder(1).join("sign.sh");
    fs::write(
        &script,
        fs::read_to_string(&script).unwrap().replace("exec", "export PKCS11_ID=02\nexec"),
    )
    .unwrap();
    let refused = net.start(1).output();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("signer: "), "{}", text(&refused));
}

/// One signature that failed ended a study in silence: nobody was told, nothing was tried again, and
/// three sites blamed each other half an hour later.
#[test]
fn a_signer_that_fails_for_a_while_does_not_end_the_study() {
    let study = experiment(3, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 60\ngossip = 0");
    let net = Net::new("flaky-signer", 3, &study, "seed");
    let folder = net.folder(0);
    let (key, down, script) =
        (folder.join("device.pem"), folder.join("down"), folder.join("sign.sh"));
    fs::rename(folder.join(KEY), &key).unwrap();
    let words = format!(
        "if test -e {}; then echo the device is away >&2; exit 1; fi\nexec openssl dgst -sha256 -sign {}\n",
        down.display(),
        key.display()
    );
    fs::write(&script, words).unwrap();
    let signer = ["/bin/sh".to_owned(), script.display().to_string()];
    net.set(0, "signer", toml::Value::Array(signer.map(toml::Value::from).into()));
    let all = net.start_all();
    let began = std::time::Instant::now();
    let told = |event: &str| {
        let log = fs::read_to_string(folder.join("audit.jsonl")).unwrap_or_default();
        log.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count()
    };
    let until = |event: &str, count: usize| {
        while told(event) < count {
            assert!(began.elapsed() < Duration::from_secs(120), "{event}: {}", told(event));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until("released", 5);
    fs::write(&down, "").unwrap();
    until("signer-failed", 2);
    // What was signed before may still be written down.
    std::thread::sleep(Duration::from_millis(500));
    let stuck = told("released");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(told("released"), stuck, "nobody goes on without it");
    fs::remove_file(&down).unwrap();
    finish(all, Duration::from_secs(120));
    assert!(told("signer-mended") >= 1);
    let log = fs::read_to_string(folder.join("audit.jsonl")).unwrap();
    assert!(log.contains("the device is away"), "{log}");
    net.assert_one_payload_a_round();
}
