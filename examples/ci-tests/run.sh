#!/bin/sh
# Copies a project into a sandbox, runs its tests there and copies the report out.
set -eu
cd "$(dirname "$0")"
out=$(mktemp -d)
sandbox=$(sb launch -q)
trap 'sb terminate --yes "$sandbox" >/dev/null; rm -r "$out"' EXIT
sb push . "$sandbox:/root/project"
sb exec --workdir /root/project "$sandbox" -- python3 test_sum.py 2>/dev/null
sb pull "$sandbox:/root/project/report.txt" "$out"
cat "$out/report.txt"
