#!/bin/sh
# Runs a script without network and within limits. Its exit code is the exit code of sb.
cd "$(dirname "$0")" || exit 1
code=0
sb run --network none --memory 256MiB --processes 50 --timeout 60s -- python3 - <untrusted.py || code=$?
echo "exit code: $code"
