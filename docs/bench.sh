#!/usr/bin/env bash
# Measures sb side by side with what else is installed here: docker, podman, runc and bwrap.
# Usage: docs/bench.sh [DIRECTORY WITH sb]. Needs hyperfine; containers need a static busybox.
set -euo pipefail

bin=${1:-$(go env GOPATH)/bin}
export PATH=$bin:$PATH
work=$(mktemp -d)
cleanup() {
	sb terminate bench --yes >/dev/null 2>&1 || true
	docker rm -f bench >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap cleanup EXIT

bench() { # title, then one command each
	printf '\n## %s\n\n' "$1"
	shift
	hyperfine -N --warmup 2 --min-runs 10 --style none --export-markdown "$work/table.md" "$@" >/dev/null
	cut -d'|' -f1-5 "$work/table.md"
}

engine() { command -v docker >/dev/null && docker info >/dev/null 2>&1; }

if engine; then
	mkdir "$work/image"
	cp "$(command -v busybox)" "$work/image/busybox"
	printf 'FROM scratch\nCOPY busybox /bin/busybox\nRUN ["/bin/busybox", "--install", "-s", "/bin"]\n' >"$work/image/Dockerfile"
	DOCKER_BUILDKIT=0 docker build -q -t sb-bench "$work/image" >/dev/null
	docker run -d --name bench sb-bench sleep 100000 >/dev/null
fi
sb launch --name bench -q >/dev/null
head -c $((1 << 20)) /dev/urandom >"$work/1m"
head -c $((100 << 20)) /dev/urandom >"$work/100m"
mkdir "$work/many"
for i in $(seq 10000); do echo "$i" >"$work/many/$i"; done

pair() { # title, sb's command, docker's command
	if engine; then bench "$1" "$2" "$3"; else bench "$1" "$2"; fi
}

bench 'Start-up' 'sb version' 'sb --help'
pair 'Launch, run true, remove' 'sb run -- true' 'docker run --rm sb-bench true'
if command -v bwrap >/dev/null; then bench 'The same in namespaces only, for comparison' 'bwrap --ro-bind / / true'; fi
pair 'Exec of true' 'sb exec bench true' 'docker exec bench true'
pair 'Push 1 MiB' "sb push $work/1m bench:/root/1m" "docker cp $work/1m bench:/1m"
pair 'Push 100 MiB' "sb push $work/100m bench:/root/100m" "docker cp $work/100m bench:/100m"
pair 'Pull 100 MiB' "sb pull bench:/root/100m $work/back" "docker cp bench:/100m $work/back"
pair 'Push 10 000 files' "sb push $work/many/ bench:/root/many" "docker cp $work/many bench:/many"
pair 'Pull 10 000 files' "sb pull bench:/root/many/ $work/many-back" "docker cp bench:/many $work/many-back"

printf '\n## 50 sandboxes at once\n\n'
begin=$(date +%s%N)
for i in $(seq 50); do sb launch --name "bench-$i" --label bench=50 -q >/dev/null & [ $((i % 4)) -ne 0 ] || wait; done
wait
printf 'launched in %d ms\n' $((($(date +%s%N) - begin) / 1000000))
memory=0
for pid in $(pgrep -f 'sb-runtime supervise|runsc-sandbox|runsc-gofer'); do
	pss=$(awk '/^Pss:/ {print $2}' "/proc/$pid/smaps_rollup" 2>/dev/null || echo 0)
	memory=$((memory + ${pss:-0}))
done
printf 'memory of all their processes: %d MiB\n' $((memory / 1024))
begin=$(date +%s%N)
sb terminate --label bench=50 --yes >/dev/null
printf 'terminated in %d ms\n' $((($(date +%s%N) - begin) / 1000000))
