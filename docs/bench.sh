#!/usr/bin/env bash
# Measures sb side by side with what else is installed here and works: docker, podman, runc
# and bwrap. Usage: docs/bench.sh [DIRECTORY WITH sb]. Needs hyperfine; containers need a static busybox.
set -euo pipefail

bin=${1:-$(go env GOPATH)/bin}
export PATH=$bin:$PATH SB_LOCAL_SPARES=0
work=$(mktemp -d)
cleanup() {
	sb terminate bench bench-cow --yes >/dev/null 2>&1 || true
	sb terminate --label bench=50 --yes >/dev/null 2>&1 || true
	for engine in "${engines[@]}"; do
		"$engine" rm -f bench >/dev/null 2>&1 || true
		"$engine" rmi -f sb-bench sb-bench-build >/dev/null 2>&1 || true
	done
	sb image rm --provider local --yes sb-bench-build >/dev/null 2>&1 || true
	[ -z "$runc" ] || runc delete -f sb-bench >/dev/null 2>&1 || true
	rm -rf "$work"
}
engines=()
runc=
trap cleanup EXIT

bench() { # title, then one command each
	printf '\n## %s\n\n' "$1"
	shift
	hyperfine -N --warmup 2 --min-runs 10 --style none --export-markdown "$work/table.md" "$@" >/dev/null
	cut -d'|' -f1-5 "$work/table.md" | sed "s|$work/||g; s/\$/|/"
}

# A root of busybox, for every engine that can run it.
if command -v busybox >/dev/null; then
	mkdir -p "$work/bundle/rootfs/bin"
	cp "$(command -v busybox)" "$work/bundle/rootfs/bin/busybox"
	for applet in true sleep sh cat tar; do ln -s busybox "$work/bundle/rootfs/bin/$applet"; done
	for engine in docker podman; do
		command -v "$engine" >/dev/null || continue
		tar -C "$work/bundle/rootfs" -c . | "$engine" import - sb-bench >/dev/null 2>&1 || continue
		if "$engine" run -d --name bench sb-bench sleep 100000 >/dev/null 2>&1; then
			engines+=("$engine")
		else
			echo "$engine is installed and does not run here" >&2
			"$engine" rm -f bench >/dev/null 2>&1 || true
			"$engine" rmi -f sb-bench >/dev/null 2>&1 || true
		fi
	done
	if command -v runc >/dev/null; then
		(cd "$work/bundle" && runc spec && sed -i 's/"terminal": true/"terminal": false/; s/"sh"$/"true"/' config.json)
		cp -r "$work/bundle" "$work/sleeping"
		sed -i 's/"true"$/"sleep", "100000"/' "$work/sleeping/config.json"
		if runc run -d --bundle "$work/sleeping" sb-bench </dev/null >/dev/null 2>&1; then
			runc=1
		else
			echo 'runc is installed and does not run here' >&2
		fi
	fi
fi
sb launch --name bench -q >/dev/null
head -c $((1 << 20)) /dev/urandom >"$work/1m"
head -c $((100 << 20)) /dev/urandom >"$work/100m"
mkdir "$work/many"
for i in $(seq 10000); do echo "$i" >"$work/many/$i"; done

compare() { # title, sb's command, the engines' command where ENGINE is the program, others
	local title=$1 own=$2 theirs=$3 commands=() engine
	shift 3
	for engine in "${engines[@]}"; do commands+=("${theirs//ENGINE/$engine}"); done
	bench "$title" "$own" "${commands[@]}" "$@"
}

launch=() exec=()
if [ -n "$runc" ]; then
	launch+=("runc run --bundle $work/bundle sb-bench-once")
	exec+=('runc exec sb-bench true')
fi
# Namespaces only, no kernel of its own: what a start costs at the least.
if command -v bwrap >/dev/null && bwrap --ro-bind / / true 2>/dev/null; then launch+=('bwrap --unshare-all --ro-bind / / true'); fi

bench 'Start-up' 'sb version' 'sb --help'
compare 'Launch, run true, remove' 'sb run -- true' 'ENGINE run --rm sb-bench true' "${launch[@]}"
# A prepared sandbox needs a moment after the launch before.
SB_LOCAL_SPARES=1 SB_LOCAL_SPARE_AGE=5s bench 'Launch of a prepared sandbox, run true, remove' --prepare 'sleep 1' \
	'sb run -- true'
sleep 6
# The same files as the host's, below a copy-on-write directory and a bind mount.
if command -v git >/dev/null; then
	mkdir "$work/repository"
	(
		cd "$work/repository"
		git init -q .
		for i in $(seq 500); do
			mkdir "$i"
			for j in $(seq 100); do echo "$j" >"$i/$j"; done
		done
		git add -A
		git -c user.name=bench -c user.email=bench@localhost commit -q -m files
	)
	if sb launch --name bench-cow -q -v "$work/repository:/srv/app:cow" >/dev/null; then
		inside='git -c safe.directory=* -C /srv/app status --short'
		bench 'git status, 50 000 files' "git -C $work/repository status --short" "sb exec bench-cow -- $inside"
		files=("find $work/repository" 'sb exec bench-cow -- find /srv/app')
		for engine in "${engines[@]}"; do
			files+=("$engine run --rm -v $work/repository:/srv/app sb-bench busybox find /srv/app")
		done
		bench 'find, 50 000 files' "${files[@]}"
		sb terminate bench-cow --yes >/dev/null
	fi
fi
compare 'Exec of true' 'sb exec bench true' 'ENGINE exec bench true' "${exec[@]}"
compare 'Push 1 MiB' "sb push $work/1m bench:/root/1m" "ENGINE cp $work/1m bench:/1m"
compare 'Pull 1 MiB' "sb pull bench:/root/1m $work/back-1m" "ENGINE cp bench:/1m $work/back-1m"
compare 'Push 100 MiB' "sb push $work/100m bench:/root/100m" "ENGINE cp $work/100m bench:/100m"
compare 'Pull 100 MiB' "sb pull bench:/root/100m $work/back" "ENGINE cp bench:/100m $work/back"
compare 'Push 10 000 files' "sb push $work/many/ bench:/root/many" "ENGINE cp $work/many bench:/many"
compare 'Pull 10 000 files' "sb pull bench:/root/many/ $work/many-back" "ENGINE cp bench:/many $work/many-back"

if [ -d "$work/bundle/rootfs" ]; then
	mkdir "$work/context"
	tar -C "$work/bundle/rootfs" -cf "$work/context/root.tar" .
	cp -r "$work/many" "$work/context/many"
	printf 'FROM scratch\nADD root.tar /\nCOPY many /many\nRUN echo built > /built\n' >"$work/context/Dockerfile"
	build="build -q -t sb-bench-build $work/context"
	compare 'Build an image, nothing cached' "sb image $build --provider local --no-cache" "ENGINE $build --no-cache"
	compare 'Build an image, all cached' "sb image $build --provider local" "ENGINE $build"
fi

processes() { pgrep -f 'sb-runtime supervise|runsc-sandbox|runsc-gofer' | sort; }

printf '\n## 50 sandboxes at once\n\n'
processes >"$work/before"
begin=$(date +%s%N)
for i in $(seq 50); do sb launch --name "bench-$i" --label bench=50 -q >/dev/null & [ $((i % 4)) -ne 0 ] || wait; done
wait
printf 'launched in %d ms\n' $((($(date +%s%N) - begin) / 1000000))
memory=0
for pid in $(processes | comm -13 "$work/before" -); do
	pss=$(awk '/^Pss:/ {print $2}' "/proc/$pid/smaps_rollup" 2>/dev/null || echo 0)
	memory=$((memory + ${pss:-0}))
done
printf 'memory of all their processes: %d MiB\n' $((memory / 1024))
begin=$(date +%s%N)
sb terminate --label bench=50 --yes >/dev/null
printf 'terminated in %d ms\n' $((($(date +%s%N) - begin) / 1000000))
