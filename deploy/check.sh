#!/bin/sh
# What can be checked of deploy/ and docs/three-hospitals.md with the tools at hand; says what it skipped. `cargo xtask deploy` runs it.
#   deploy/check.sh PROGRAM [--image]        PROGRAM is the consenso to check with; --image builds the container image too
set -eu
program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
failed=0
trap 'clean; rm -rf "$place"' EXIT

have() { command -v "$1" >/dev/null 2>&1; }
passed() { echo "passed   $1"; }
skipped() { echo "skipped  $1: $2"; }
fail() { echo "FAILED   $1"; failed=1; }
clean() { for host in a b c wan; do ip netns del "consenso-$host" 2>/dev/null || true; done; }
inside() { host=$1; shift; ip netns exec "consenso-$host" "$@"; }
start() { site=$1; ip netns exec "consenso-$site" "$program" node run --log json "hospital-$site" > "run-$site" 2> "log-$site" & }

unit() {
    have systemd-analyze || { skipped unit "no systemd-analyze"; return; }
    sed "s#/usr/local/bin/consenso#$program#" "$here/consenso-node@.service" > "$place/consenso-node@.service"
    # A key that systemd does not know is only a warning to it.
    if systemd-analyze verify --man=no "$place/consenso-node@.service" 2>&1 | grep consenso-node; then
        fail "unit: systemd-analyze verify"
    else
        passed "unit: systemd-analyze verify"
    fi
    systemd-analyze security --offline=true --threshold=20 "$place/consenso-node@.service" > "$place/security" 2>&1 \
        && passed "unit: $(tail -1 "$place/security" | sed 's/.*level for//')" || { cat "$place/security"; fail "unit: exposed more than 2.0"; }
}

yaml() {
    if have kubernetes-validate; then
        kubernetes-validate --quiet --strict "$here/kubernetes.yaml" "$here/kubernetes-job.yaml" && passed "kubernetes: kubernetes-validate" || fail kubernetes.yaml
    elif python3 -c 'import yaml' 2>/dev/null; then
        python3 -c 'import sys, yaml; assert [d["kind"] for f in sys.argv[1:] for d in yaml.safe_load_all(open(f))] == ["StatefulSet", "Service", "NetworkPolicy", "Job"]' \
            "$here/kubernetes.yaml" "$here/kubernetes-job.yaml" && passed "kubernetes: is YAML of four objects" || fail kubernetes.yaml
    else
        skipped kubernetes.yaml "neither kubernetes-validate nor Python's yaml"
    fi
}

# Every metric that a rule or a panel asks for is one that a node has.
watching() {
    if have promtool; then
        promtool check rules "$here/alerts.yaml" > /dev/null && passed "alerts.yaml: promtool check rules" || fail alerts.yaml
    else
        skipped "alerts.yaml: promtool" "no promtool"
    fi
    have python3 || { skipped grafana.json "no Python"; return; }
    python3 - "$here" <<'PYTHON' && passed "alerts.yaml, grafana.json: every metric exists" || fail "alerts.yaml, grafana.json"
import json, re, sys
here = sys.argv[1]
source = open(f"{here}/../crates/consenso-node/src/metrics.rs").read()
known = set(re.findall(r'gauge\(\s*"([a-z_]+)"', source)) | {"link_up", "neighbour_lag"}
panels = json.load(open(f"{here}/grafana.json"))["panels"]
asked = " ".join(t["expr"] for p in panels for t in p["targets"]) + open(f"{here}/alerts.yaml").read()
unknown = set(re.findall(r"consenso_([a-z_]+)", asked)) - known
assert not unknown, unknown
assert len({p["id"] for p in panels}) == len(panels) > 5
PYTHON
}

# Three hosts on one wire; nobody can call c.
hosts() {
    { [ "$(id -u)" = 0 ] && have ip; } || { skipped "three hosts" "needs root and iproute2"; return; }
    clean
    ip netns add consenso-wan && ip -n consenso-wan link add wire type bridge && ip -n consenso-wan link set wire up
    number=1
    for host in a b c; do
        ip netns add "consenso-$host"
        ip -n consenso-wan link add name "to-$host" type veth peer name eth0 netns "consenso-$host"
        ip -n consenso-wan link set "to-$host" master wire up
        ip -n "consenso-$host" addr add "10.77.0.$number/24" dev eth0
        ip -n "consenso-$host" link set eth0 up && ip -n "consenso-$host" link set lo up
        number=$((number + 1))
    done
    if have nft; then
        inside c nft 'add table inet wall; add chain inet wall in { type filter hook input priority 0; policy drop; }; add rule inet wall in ct state established accept; add rule inet wall in iif lo accept'
    else
        skipped "a wall around c" "no nft"
    fi
    guide || fail "three hosts: $place"
}

# docs/three-hospitals.md, "Then across hosts".
guide() (
    cd "$place"
    inside a "$program" node init hospital-a --name a --listen 0.0.0.0:443 > init-a
    inside b "$program" node init hospital-b --name b --listen 0.0.0.0:443 > init-b
    inside c "$program" node init hospital-c --name c > init-c
    "$program" network new net --sites a,b,c --experiment adult --set algorithm.0.rounds=4000 --addresses 10.77.0.1:443,10.77.0.2:443, \
        --certificates hospital-a/certificate.pem,hospital-b/certificate.pem,hospital-c/certificate.pem > new 2>&1
    for site in a b c; do
        cp net/* "hospital-$site/"
        inside $site "$program" node doctor hospital-$site > "doctor-$site" || { cat "doctor-$site"; exit 1; }
    done
    start a; a=$!
    start b; b=$!
    # c comes later: what the others say of themselves meanwhile.
    until inside a "$program" node health hospital-a >/dev/null 2>&1; do kill -0 $a; sleep 0.2; done
    if have promtool && have curl; then
        inside a curl -s http://127.0.0.1:9400/metrics | promtool check metrics && passed "metrics: promtool check metrics" || exit 1
    else
        skipped metrics "needs promtool and curl"
    fi
    start c; c=$!
    # In the middle of the run, on a fast host too.
    sleep 0.7
    kill -TERM $b && wait $b || { cat run-b log-b; exit 1; }
    start b; b=$!
    for process in $a $b $c; do wait $process || { cat log-*; exit 1; }; done
    for site in a b c; do "$program" node audit hospital-$site > "audit-$site" || { cat "audit-$site"; exit 1; }; done
    passed "three hosts, nobody can call c, b stopped and started again: $(grep -h done run-c)"
)

image() {
    [ "${2:-}" = --image ] || { skipped image "not asked for (--image)"; return; }
    for builder in podman buildah docker; do
        have $builder || continue
        $builder build -t consenso-check -f "$here/Containerfile" "$here/.." && passed "image: $builder build" || fail "image: $builder build"
        return
    done
    skipped image "no podman, buildah or docker"
}

unit
yaml
watching
hosts
image "$@"
exit $failed
