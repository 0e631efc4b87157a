#!/bin/sh
# Tries the job files with a real Slurm on this machine alone: a controller and a node on loopback, with their state in a folder of their own.
# A job array must give the record of one run, a board of shares the board of one, and a job of two processes the transcript of one.
#
#   deploy/slurm/check.sh PROGRAM LIBMPI        needs root, slurm-wlm and munge of Debian; LIBMPI is a libmpi_abi.so (cargo xtask slurm has one)
set -eu
program=$(realpath "$1")
library=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
for tool in slurmctld slurmd munged sbatch; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install slurm-wlm munge" >&2; exit 2; }
done
[ "$(id -u)" = 0 ] || { echo "slurmd and munged are started as root: run this as root" >&2; exit 2; }

room=$(mktemp -d)
chmod 755 "$room"
host=$(hostname -s)
stop() {
  for daemon in slurmd slurmctld munged; do
    if [ -s "$room/$daemon.pid" ]; then kill "$(cat "$room/$daemon.pid")" 2>/dev/null || true; fi
  done
  sleep 1
  rm -rf "$room"
}
trap stop EXIT
mkdir -m 755 "$room/state" "$room/spool" "$room/jobs" "$room/bin" "$room/munge"
cp "$program" "$room/bin/consenso"
head -c 1024 /dev/urandom > "$room/munge/key"
chmod 400 "$room/munge/key"
munged --force --socket="$room/munge/socket" --key-file="$room/munge/key" --pid-file="$room/munged.pid" \
  --log-file="$room/munge/log" --seed-file="$room/munge/seed"
cat > "$room/slurm.conf" <<CONF
ClusterName=loopback
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$room/munge/socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=pmi2
ReturnToService=2
StateSaveLocation=$room/state
SlurmdSpoolDir=$room/spool
SlurmctldPidFile=$room/slurmctld.pid
SlurmdPidFile=$room/slurmd.pid
SlurmctldLogFile=$room/slurmctld.log
SlurmdLogFile=$room/slurmd.log
SlurmctldPort=16817
SlurmdPort=16818
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
CONF
export SLURM_CONF="$room/slurm.conf" PATH="$room/bin:$PATH" CONSENSO_MPI="$library"
slurmctld
slurmd
for _ in 1 2 3 4 5 6 7 8 9 10; do
  if sinfo -h -o %T 2>/dev/null | grep -q idle; then break; fi
  sleep 1
done

cd "$room/jobs"
cat > swept.toml <<TOML
name = "swept"
seed = 3
runs = 6
[data]
source = "logistic"
agents = 10
records_per_agent = 80
dim = 5
[graph]
kind = "ring"
[privacy]
epsilon = 2.0
delta = 1e-6
[[algorithm]]
kind = "dgd"
rounds = 40
TOML
sed -e 's/swept/big/' -e 's/runs = 6/runs = 1/' -e 's/agents = 10/agents = 400/' swept.toml > big.toml

consenso run swept.toml --out one --json > one.json
sbatch --wait --quiet --array=1-3 --cpus-per-task=1 --mem=0 "$here/array.sbatch" swept.toml parts
consenso merge parts/part-* --out parts/whole --json > whole.json
# Times are the only thing that may differ.
without_times() { sed -e 's/"seconds": [0-9.e+-]*/"seconds": 0/g' "$1"; }
without_times one/record.json > one.txt
without_times parts/whole/record.json > whole.txt
cmp one.txt whole.txt
echo "a job array of three tasks: the record of one run"

cat > board.toml <<TOML
name = "small"
seeds = 2
epsilon = ["none", 2]
[[problem]]
name = "made-up"
measure = "gap"
data = { source = "logistic", agents = 6, records_per_agent = 50, dim = 3 }
[[graph]]
kind = "ring"
[[graph]]
kind = "complete"
[[method]]
kind = "dgd"
[[method]]
kind = "extra"
TOML
consenso benchmark run board.toml --out board-one > /dev/null
sbatch --wait --quiet --array=1-3 --cpus-per-task=1 --mem=0 "$here/board.sbatch" board.toml board-shared
consenso benchmark show board-one --json > board-one.json
consenso benchmark show board-shared --json > board-shared.json
for board in one shared; do without_times "board-$board.json" | grep -v -e '"out":' -e '"page":' > "board-$board.txt"; done
cmp board-one.txt board-shared.txt
echo "a board of three tasks: the board of one"

for tasks in 1 2; do
  sbatch --wait --quiet --nodes=1 --ntasks="$tasks" --ntasks-per-node="$tasks" --cpus-per-task=1 --mem=0 \
    --output="mpi-$tasks.txt" "$here/mpi.sbatch" big.toml "big-$tasks" || { cat "mpi-$tasks.txt" >&2; exit 1; }
  sed -n 's/.*transcript //p' "mpi-$tasks.txt" > "transcript-$tasks.txt"
done
[ -s transcript-1.txt ]
cmp transcript-1.txt transcript-2.txt
echo "a job of two processes: the transcript of one, $(cat transcript-2.txt)"
