"""A script that tries to leave: it reads the user's files and calls home."""
import os
import socket
import sys

print("home:", sorted(os.listdir(os.path.expanduser("~"))))
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
    print("network: connected")
except OSError:
    print("network: refused")
sys.exit(3)
