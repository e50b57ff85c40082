#!/usr/bin/env bash
# sb beside an engine's own command: docs/bench-docker.sh [HOST [IMAGE [COMMAND...]]]. HOST is as in DOCKER_HOST, IMAGE has sh and
# sleep and is there, COMMAND is docker or podman with the options that lead to the same engine. It needs sb, that command and
# python3 in PATH and removes what it makes. The two take turns, so that a machine that is busy now and then is so for both.
set -euo pipefail
export DOCKER_HOST=${1:-${DOCKER_HOST:-unix:///var/run/docker.sock}}
export SB_DOCKER_HOST=$DOCKER_HOST SB_DOCKER_IMAGE=${2:-localhost/sb-test:7} SB_PROVIDER=docker
cli=${*:3}
cli=${cli:-docker}
image=$SB_DOCKER_IMAGE
remove="rm -vf"
case $cli in podman*) remove="rm -vf -t 0" ;; esac # it would wait for sleep to end
dir=$(mktemp -d)
export XDG_STATE_HOME=$dir/state XDG_RUNTIME_DIR=$dir/run XDG_CACHE_HOME=$dir/cache SB_LOCAL_SPARES=0
mkdir -m 700 "$dir/run"
finish() {
	sb terminate bench >/dev/null 2>&1 || true
	$cli $remove bench >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap finish EXIT

head -c 1048576 /dev/urandom >"$dir/1m"
head -c 104857600 /dev/urandom >"$dir/100m"
mkdir "$dir/many"
for i in $(seq 10000); do echo "$i" >"$dir/many/$i"; done

compare() { # WHAT RUNS SB-COMMAND DOCKER-COMMAND
	python3 - "$@" <<'PY'
import statistics, subprocess, sys, time
what, runs, commands = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
took = [[], []]
for run in range(runs + 1):
    for command, times in zip(commands, took):
        begin = time.monotonic()
        subprocess.run(["sh", "-c", command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if run > 0:  # the first is for the caches
            times.append(1000 * (time.monotonic() - begin))
print(f"| {what} | " + " | ".join(f"{statistics.median(times):.0f} ms" for times in took) + " |")
PY
}

sb launch --name bench --network none -q >/dev/null
$cli run -d --name bench --network none "$image" sleep 3600 >/dev/null
echo "| what | sb | ${cli%% *} |"
echo "| --- | --- | --- |"
compare 'launch, one command, remove' 7 \
	"sb launch --name one --network none -q && sb exec one true && sb terminate one" \
	"$cli run -d --name one --network none $image sleep 600 && $cli exec one true && $cli $remove one"
compare 'exec of true' 15 'sb exec bench true' "$cli exec bench true"
compare 'copy 1 MiB in' 10 "sb cp $dir/1m bench:/tmp/1m" "$cli cp $dir/1m bench:/tmp/1m"
compare 'copy 1 MiB out' 10 "sb cp bench:/tmp/1m $dir/out" "$cli cp bench:/tmp/1m $dir/out"
compare 'copy 100 MiB in' 5 "sb cp $dir/100m bench:/tmp/100m" "$cli cp $dir/100m bench:/tmp/100m"
compare 'copy 100 MiB out' 5 "sb cp bench:/tmp/100m $dir/out" "$cli cp bench:/tmp/100m $dir/out"
compare 'copy 10 000 files in' 3 "sb cp $dir/many bench:/tmp/" "$cli cp $dir/many bench:/tmp/"
compare 'copy 10 000 files out' 3 "rm -rf $dir/o1; sb cp bench:/tmp/many $dir/o1" "rm -rf $dir/o2; $cli cp bench:/tmp/many $dir/o2"
