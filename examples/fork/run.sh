#!/bin/sh
# Prepares a process once, then continues it in two copies of its sandbox, memory included.
set -eu
sandbox=$(sb launch -q -- python3 -c '
import os, time
table = {n: n * n for n in range(1000)}  # takes long, in earnest
open("/tmp/ready", "w").close()
while not os.path.exists("/tmp/ask"):
    time.sleep(0.01)
n = int(open("/tmp/ask").read())
print(n, "squared is", table[n])
')
forks=
trap 'sb terminate --yes $sandbox $forks >/dev/null' EXIT
sb exec "$sandbox" -- sh -c 'until [ -e /tmp/ready ]; do sleep 0.01; done'
for n in 7 12; do
	fork=$(sb fork -q "$sandbox")
	forks="$forks $fork"
	sb exec "$fork" -- sh -c "echo $n >/tmp/new && mv /tmp/new /tmp/ask"
	sb logs --follow "$fork"
done
