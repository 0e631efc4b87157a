#!/bin/sh
# deploy/empty-root.sh PROGRAM: a static program in a root with nothing else in it, to its first model.
# deploy/empty-root.sh WHEEL ROOT WHEELS: a wheel in ROOT, an unpacked system with Python 3.10 or newer
# and its venv, and no Rust; WHEELS is a folder with the wheel of numpy.
#
# Needs root (chroot). Prints seconds on the clock, and of the processor.
set -eu
what=$1
timed() { name=$1; shift; /usr/bin/time -f "$name: %e s, of the processor %U s" "$@" > "$log"; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
case $what in
*.whl)
    root=$2 wheels=$3
    rm -rf "$root/opt/wheels" "$root/opt/venv"
    mkdir -p "$root/opt/wheels"
    cp "$what" "$wheels"/numpy-*.whl "$root/opt/wheels/"
    enter="chroot $root /usr/bin/env -i HOME=/tmp PATH=/usr/bin:/bin"
    if $enter sh -c 'command -v cargo || command -v rustc || command -v cc' > /dev/null; then
        echo "$root has a compiler" >&2; exit 1
    fi
    timed "a new environment" $enter python3 -m venv /opt/venv
    timed "pip install" $enter /opt/venv/bin/pip install --no-index --find-links /opt/wheels consenso
    timed "a first model in Python" $enter /opt/venv/bin/python -c '
import consenso
print(consenso.run("adult-scouted", runs=1))'
    tail -n 3 "$log"
    timed "consenso tour" $enter /opt/venv/bin/consenso tour --out "/tmp/tour-$$"
    tail -n 5 "$log" | head -n 2
    ;;
*)
    root=$(mktemp -d)
    trap 'rm -rf "$root" "$log"' EXIT
    cp "$what" "$root/consenso"
    chmod 755 "$root/consenso"
    # Every container has this one; a command that starts others needs it.
    mkdir "$root/dev" && mknod -m 666 "$root/dev/null" c 1 3
    timed "consenso doctor" chroot "$root" /consenso doctor
    timed "consenso run" chroot "$root" /consenso run adult-scouted --set runs=1 --out /run
    grep "^ *scouted .*%" "$log"
    timed "consenso tour" chroot "$root" /consenso tour --out /tour
    tail -n 5 "$log" | head -n 2
    ;;
esac
