#!/usr/bin/env bash
# Makes the pictures of docs/images from the real program with real sandboxes. It uses
# directories of its own and removes what it launched.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/bin/" ./cmd/... ./tui/tuitest/picture

export XDG_STATE_HOME=$work/state XDG_RUNTIME_DIR=$work/run XDG_CONFIG_HOME=$work/config XDG_CACHE_HOME=$work/cache
export SB_DOCKER_HOST=none SB_LOCAL_SPARES=0 PATH=$work/bin:$PATH
mkdir -m 700 "$XDG_STATE_HOME" "$XDG_RUNTIME_DIR" "$XDG_CONFIG_HOME"
finish() {
	"$work/bin/sb" terminate --all --yes >/dev/null || true
	rm -rf "$work"
}
trap finish EXIT

mkdir -p docs/images "$work/project"
printf 'def main():\n    print("hello from the sandbox")\n\n\nmain()\n' >"$work/project/main.py"

sb launch -q --name web --app shop -p 0:8000 --memory 512M --timeout 2h -- sh -c \
	'n=0; while :; do n=$((n+1)); printf "127.0.0.1 \033[32mGET\033[0m /items/%d \033[1m200\033[0m %dms\n" $n $((n*7%90)); for i in 1 2 3 4 5 6 7 8 9; do :; done; sleep 0.3; done' >/dev/null
sb launch -q --name worker --app shop --timeout 6h -- sh -c 'while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.4; done' >/dev/null
sb launch -q --name notebook --app research --idle-timeout 1h >/dev/null
sb launch -q --name build-7 --app ci -- sh -c 'echo "FAIL: 1 of 312 tests"; exit 1' >/dev/null
sb launch -q --name db --app shop --persist >/dev/null
sb stop db >/dev/null
sb push "$work/project" notebook:/root/ 2>/dev/null >/dev/null
sb exec notebook -- python3 /root/project/main.py >/dev/null
sb exec -d notebook -- sleep 1000 >/dev/null

open() { # OUT SIZE STEP...
	local out=$1 size=$2
	shift 2
	picture "docs/images/$out.svg" "$size" "$@" -- sb ui --theme dark
	echo "docs/images/$out.svg"
}
open dashboard 120x34 'wait:● running +worker' 'press:end' 'press:up' 'wait:GET /items' 'pause:16s'
open files 120x34 'wait:notebook' press:/ type:notebook press:enter press:3 'wait:▸ root/' \
	press:down press:down press:down press:down press:down press:down press:down press:down press:down press:down press:enter \
	'wait:project/' press:down press:enter 'wait:main.py' press:down press:enter 'wait:hello from' pause:300ms
open launch 120x34 'wait:live' press:L type:trainer press:down press:down press:down 'type:python3 train.py' 'wait:runs on local'
