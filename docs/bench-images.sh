#!/usr/bin/env bash
# Measures images side by side with docker and podman, as far as they are here and work: unpacking, cold and warm
# launches, idle memory, builds, and a copy-on-write directory of many files. Usage: docs/bench-images.sh [DIRECTORY WITH
# sb]. Needs hyperfine, git and a static busybox. SIZE is the size of the image in MB, FILES the number of files. It
# changes the state of its own home only, and removes what it loads.
set -euo pipefail

export PATH=${1:-$(go env GOPATH)/bin}:$PATH
size=${SIZE:-230}
files=${FILES:-50000}
work=$(mktemp -d)
export HOME=$work/home SB_LOCAL_SPARES=0
unset XDG_STATE_HOME XDG_CACHE_HOME XDG_RUNTIME_DIR XDG_CONFIG_HOME
mkdir "$HOME"
engines=()
cleanup() {
	sb terminate --all --yes >/dev/null 2>&1 || true
	for engine in "${engines[@]}"; do
		"$engine" rm -f sb-bench-tree >/dev/null 2>&1 || true
		"$engine" rmi -f localhost/sb-bench:1 localhost/sb-bench:built >/dev/null 2>&1 || true
	done
	rm -rf "$work"
}
trap cleanup EXIT

# An archive of "docker save": busybox, and files of 1 MB that compress to three quarters.
archive() { # file, text that only this image has
	local root=$work/root config digest i
	rm -rf "$root" "$work/saved"
	mkdir -p "$root/bin" "$root/data" "$work/saved"
	cp "$(command -v busybox)" "$root/bin/busybox"
	for i in sh true sleep; do ln -s busybox "$root/bin/$i"; done
	for i in $(seq "$size"); do
		{
			printf '%08d' "$i"
			tail -c +9 "$work/text-$((i % 8))"
		} >"$root/data/$i"
	done
	echo "$2" >"$root/mine"
	tar -C "$root" --sort=name --mtime=@0 --owner=0 --group=0 -cf "$work/saved/layer.tar" .
	digest=$(sha256sum "$work/saved/layer.tar" | cut -d' ' -f1)
	config='{"architecture":"'$(go env GOARCH 2>/dev/null || echo amd64)'","os":"linux","config":{"Cmd":["true"]},'
	printf '%s"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$config" "$digest" >"$work/saved/config.json"
	echo '[{"Config":"config.json","RepoTags":["localhost/sb-bench:1"],"Layers":["layer.tar"]}]' >"$work/saved/manifest.json"
	tar -C "$work/saved" -cf "$1" manifest.json config.json layer.tar
}
for i in $(seq 0 7); do head -c 786432 /dev/urandom | base64 -w0 >"$work/text-$i"; done
archive "$work/image.tar" 1

for engine in docker podman; do
	command -v "$engine" >/dev/null || continue
	if "$engine" load -q -i "$work/image.tar" >/dev/null 2>&1 &&
		"$engine" run --rm localhost/sb-bench:1 true >/dev/null 2>&1; then
		engines+=("$engine")
	else
		echo "$engine is installed and does not run here" >&2
		"$engine" rmi -f localhost/sb-bench:1 >/dev/null 2>&1 || true
	fi
done

bench() { # title, preparation, then one command each
	local title=$1 prepare=$2
	shift 2
	printf '\n## %s\n\n' "$title"
	hyperfine --warmup "${WARMUP:-1}" --runs "${RUNS:-10}" --style none --prepare "$prepare" \
		--export-markdown "$work/table.md" "$@" >/dev/null
	cut -d'|' -f1-5 "$work/table.md" | sed "s|$work/||g; s/\$/|/"
}
image=localhost/sb-bench:1
load="sb image import --provider local -q $work/image.tar"
unload="sb image rm --provider local --yes $image"
commands=("$load")
gone="$unload || true"
for engine in "${engines[@]}"; do
	commands+=("$engine load -q -i $work/image.tar")
	gone+="; $engine rmi -f $image || true"
done
bench "Unpack $size MB" "{ $gone; } >/dev/null 2>&1" "${commands[@]}"

$load >/dev/null 2>&1 || true
for engine in "${engines[@]}"; do "$engine" load -q -i "$work/image.tar" >/dev/null; done
commands=("sb run --provider local --image $image -- true")
for engine in "${engines[@]}"; do commands+=("$engine run --rm $image true"); done
bench 'Warm launch, run true, remove' true "${commands[@]}"
if [ -w /proc/sys/vm/drop_caches ]; then
	bench 'Cold launch: the page cache is empty' 'sync; echo 3 >/proc/sys/vm/drop_caches' "${commands[@]}"
fi

# The sum of PSS counts a page that several processes share once, in parts. So one of many costs less than a single one.
processes() { pgrep -f 'sb-runtime supervise|runsc-sandbox|runsc-gofer' | sort; }
printf '\n## Idle memory of sandboxes from the image\n\n'
processes >"$work/before"
count=0
for total in 1 20; do
	while [ "$count" -lt "$total" ]; do
		count=$((count + 1))
		sb launch --provider local --image "$image" --name "idle-$count" --network none -q >/dev/null
	done
	sleep 3
	memory=0
	for pid in $(processes | comm -13 "$work/before" -); do
		pss=$(awk '/^Pss:/ {print $2}' "/proc/$pid/smaps_rollup" 2>/dev/null || echo 0)
		memory=$((memory + ${pss:-0}))
	done
	printf '%d: %d KiB, %d KiB each\n' "$total" "$memory" $((memory / total))
done
sb terminate --all --yes >/dev/null

# Each step changes little, so that the builders are compared and not the commands.
mkdir -p "$work/context/app"
for i in $(seq 100); do head -c 10240 "$work/text-0" >"$work/context/app/$i"; done
cat >"$work/context/Dockerfile" <<-EOF
	FROM $image
	COPY app /app
	RUN echo one >/one
	ENV MODE=bench
	RUN echo two >/two
	WORKDIR /app
	RUN busybox rm 1
	CMD ["true"]
EOF
builds() { # option, or nothing
	commands=("sb image build --provider local --pull never --network none -q -t sb-bench-built $1 $work/context")
	for engine in "${engines[@]}"; do
		commands+=("$engine build --network none -q -t localhost/sb-bench:built $1 $work/context")
	done
}
builds --no-cache
bench 'Build of three RUN steps, nothing cached' true "${commands[@]}"
builds ''
bench 'The same build, all cached' true "${commands[@]}"

# git and find are the machine's in all places. Docker has the tree as a bind mount, with runsc if it is a runtime there.
tree=$work/tree
mkdir "$tree"
for i in $(seq $((files / 100))); do
	mkdir "$tree/$i"
	for j in $(seq 100); do echo "$i $j" >"$tree/$i/$j"; done
done
git -C "$tree" init -q
git -C "$tree" add .
git -C "$tree" -c user.name=bench -c user.email=bench@localhost commit -qm all
sb launch --provider local --name cow --volume "$tree:/srv/tree:cow" --network none -q >/dev/null
inside=("sb exec cow")
for engine in "${engines[@]}"; do
	runtime=()
	if [ "$engine" = docker ] && docker info --format '{{json .Runtimes}}' | grep -q '"runsc"'; then
		runtime=(--runtime runsc)
	fi
	mounts=()
	for dir in /usr /lib /lib64; do [ ! -e "$dir" ] || mounts+=(-v "$dir:$dir:ro"); done
	"$engine" run -d --name sb-bench-tree "${runtime[@]}" --network none "${mounts[@]}" -v "$tree:/srv/tree" "$image" \
		sleep 3600 >/dev/null
	inside+=("$engine exec sb-bench-tree")
	echo "$engine runs the tree with ${runtime[1]:-its default runtime}" >&2
	break # the next engine would make the index of the first one stale
done
git="/usr/bin/git -c safe.directory=/srv/tree -C /srv/tree status --short"
commands=("git -C $tree status --short")
for place in "${inside[@]}"; do commands+=("$place $git"); done
bench "git status of $files files" true "${commands[@]}"
commands=("find $tree -size +1k")
for place in "${inside[@]}"; do commands+=("$place /usr/bin/find /srv/tree -size +1k"); done
bench "find -size of $files files" true "${commands[@]}"
sb terminate cow --yes >/dev/null

printf '\n## Five images that differ in one file\n\n'
begin=$(date +%s%N)
for i in 1 2 3 4 5; do
	archive "$work/image-$i.tar" "$i"
	made=$(date +%s%N)
	sb image import --provider local -q "$work/image-$i.tar" "sb-bench:$i" >/dev/null
	printf 'image %d: %d ms\n' "$i" $((($(date +%s%N) - made) / 1000000))
done
printf 'all, with making the archives: %d ms\n' $((($(date +%s%N) - begin) / 1000000))
du -sm "$HOME"/.local/state/sb/local/images | sed 's/\t.*/ MiB on disk/'
