#!/bin/sh
# Gives each input a sandbox of its own, four at a time.
set -eu
printf '%s\n' 1 2 3 4 5 6 | xargs -P 4 -I{} sb run --network none -- python3 -c 'print("{} squared is", {} ** 2)' | sort
