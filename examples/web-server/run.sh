#!/bin/sh
# Starts a web server, waits until its port answers, and reaches it from this machine.
set -eu
sandbox=$(sb launch -q -p 0:8000 --ready-tcp 8000 --wait-ready -- python3 -m http.server 8000 --directory /etc)
trap 'sb terminate --yes "$sandbox" >/dev/null' EXIT
sb port "$sandbox" --json | python3 -c '
import json, sys, urllib.request
address = json.load(sys.stdin)[0]["address"]
print("status:", urllib.request.urlopen(f"http://{address}/", timeout=30).status)
'
