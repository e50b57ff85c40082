#!/bin/sh
# Launches a sandbox that a file describes. Flags override the file.
set -eu
cd "$(dirname "$0")"
sandbox=$(sb launch -q --file spec.yaml --memory 256MiB)
trap 'sb terminate --yes "$sandbox" >/dev/null' EXIT
sb exec "$sandbox" -- sh -c 'echo "$GREETING"'
