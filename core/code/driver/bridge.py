"""Connects its stdin and stdout to a code session, which is a process of the same sandbox.

run NAME TIMEOUT [new]   sends lines of requests to the session NAME, and returns its events
interrupt NAME           raises KeyboardInterrupt in the code that runs
close NAME               kills the session and removes its files
ls                       prints a line for each session of this user

TIMEOUT is in seconds; 0 is none.

Requests and events are lines of JSON. The doc comment of sb's package core/code has them all.
"""

import json
import os
import select
import signal
import socket
import struct
import sys
import time

DIRECTORY = "/tmp/.sb-code-%d" % os.getuid()
START_LIMIT = 60  # seconds
INTERRUPT_LIMIT = 5


def path(name, kind):
    return os.path.join(DIRECTORY, name + "." + kind)


def connect(name):
    """Returns a connection to the session, or None."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        s.connect(path(name, "sock"))
        os.kill(peer(s), 0)  # a forked child of a dead session may hold its socket
        return s
    except OSError:
        s.close()
        return None


def peer(connection):
    """Returns the process id of the session behind a connection."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", credentials)[0]


def load(name):
    """Returns the session's state file, or None."""
    try:
        with open(path(name, "json")) as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def say(event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def run(name, timeout, fresh):
    """Connects stdin and stdout to the session. If there is none, it waits for the request that starts one."""
    held = b""
    signal.signal(signal.SIGINT, lambda *_: cancel())
    if fresh:
        end(name)
    connection = connect(name)
    if connection is None:
        state = load(name)
        say({"type": "absent", "known": state is not None, "ended": (state or {}).get("ended", "")})
        while connection is None:
            data = os.read(0, 1 << 18)
            if not data:
                return
            held += data
            lines = held.split(b"\n")
            for line in lines[:-1]:
                request = json.loads(line)
                if request["op"] == "start":
                    connection = start(name, request["source"].encode())
                    if connection is None:
                        return
                    lines.remove(line)
                    held = b"\n".join(lines)
                    break
    connection.sendall(held)
    relay(connection, timeout)


def cancel(name="KeyboardInterrupt", value="the run was canceled before it began"):
    """Ends the bridge with an error of its own."""
    say({"type": "error", "name": name, "value": value, "traceback": [name + ": " + value]})
    say({"type": "end", "ok": False})
    os._exit(0)


def relay(connection, timeout):
    """Copies both ways until the session closes the connection. SIGINT interrupts the run, or cancels one that waits."""
    pid = peer(connection)
    begun, interrupted, deadline, seen = False, False, None, b""

    def interrupt(*_):
        if not begun:
            connection.sendall(b'{"op":"cancel"}\n')
            cancel()
        try:
            os.kill(pid, signal.SIGINT)
        except OSError:
            pass

    signal.signal(signal.SIGINT, interrupt)
    sources = [0, connection]
    while True:
        wait = None if deadline is None else max(deadline - time.monotonic(), 0)
        ready, _, _ = select.select(sources, [], [], wait)
        if not ready and interrupted:
            cancel("TimeoutError", "the code ignores the interrupt and keeps running")
        if not ready:
            say({"type": "timeout"})
            interrupt()
            interrupted, deadline = True, time.monotonic() + INTERRUPT_LIMIT
        if connection in ready:
            try:
                data = connection.recv(1 << 18)
            except OSError:  # it was killed
                return
            if not data:
                return
            if not begun:
                seen = seen[-64:] + data
                begun = b'{"type": "begin"' in seen or b'{"type":"begin"' in seen
                if begun and timeout:
                    deadline = time.monotonic() + timeout
            while data:
                data = data[os.write(1, data):]
        elif 0 in ready:
            data = os.read(0, 1 << 18)
            try:
                if data:
                    connection.sendall(data)
                else:
                    connection.shutdown(socket.SHUT_WR)
                    sources.remove(0)
            except OSError:
                sources.remove(0)  # the connection has its last events


def start(name, source):
    """Leaves the program of a session where it looks for it, and returns a connection when it listens, or None."""
    try:
        os.mkdir(DIRECTORY, 0o700)
    except FileExistsError:
        pass
    info = os.lstat(DIRECTORY)
    if info.st_uid != os.getuid() or info.st_mode & 0o077:
        say({"type": "failed", "message": DIRECTORY + " belongs to another user"})
        return None
    remove(name, "log")
    temporary = path(name, "%d.new" % os.getpid())  # several clients may start the session at once
    with open(temporary, "wb") as f:
        f.write(source)
    os.rename(temporary, path(name, "src"))
    say({"type": "ready"})
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        connection = connect(name)
        if connection is not None:
            return connection
        try:
            with open(path(name, "log"), "rb") as log:
                text = log.read(1 << 16).decode("utf-8", "replace").strip()
            say({"type": "failed", "message": text[-2000:]})
            return None
        except OSError:
            time.sleep(0.003)
    say({"type": "failed", "message": "it does not answer"})
    return None


def remove(name, *kinds):
    for kind in kinds:
        try:
            os.unlink(path(name, kind))
        except OSError:
            pass


def names():
    try:
        found = os.listdir(DIRECTORY)
    except OSError:
        return []
    return sorted(f[:-5] for f in found if f.endswith(".json"))


def ls():
    for name in names():
        state = load(name) or {}
        state["name"], state["state"] = name, "lost"
        if state.get("ended"):
            state["state"] = "ended"
        if state.get("language") == "bash":
            state["state"] = shell(name, state)
        connection = connect(name)
        if connection is not None:
            state["state"] = "busy"  # unless it answers otherwise
            connection.settimeout(2)
            try:
                connection.sendall(b'{"op":"status"}\n')
                for line in connection.makefile("r"):
                    event = json.loads(line)
                    if event["type"] == "status":
                        state.update(event)
                        break
            except (OSError, ValueError):
                pass
        state["type"] = "session"
        say(state)


def shell(name, state):
    """Returns the state of a session of bash, which has no socket."""
    try:
        with open("/proc/%d/cmdline" % state["pid"], "rb") as f:
            if name.encode() in f.read().split(b"\0"):
                return "busy" if os.path.exists(path(name, "busy")) else "idle"
    except (OSError, KeyError, TypeError):
        pass
    return "ended" if os.path.exists(path(name, "ended")) else "lost"


def interrupt(name):
    connection = connect(name)
    if connection is not None:
        os.kill(peer(connection), signal.SIGINT)
    say({"type": "done", "found": connection is not None})


def end(name):
    """Kills the session, removes its files, and returns whether there was one."""
    found = load(name) is not None
    connection = connect(name)
    if connection is not None:
        found = True
        pid = peer(connection)
        connection.settimeout(5)
        try:
            leads = os.getpgid(pid) == pid
            os.kill(-pid if leads else pid, signal.SIGKILL)
            while connection.recv(1 << 16):  # until the kernel has closed its sockets
                pass
        except OSError:
            pass
    remove(name, "sock", "json", "log", "lock", "src")
    return found


def main(command, name="", timeout="0", fresh=""):
    if command == "run":
        run(name, float(timeout), fresh == "new")
    elif command == "interrupt":
        interrupt(name)
    elif command == "close":
        say({"type": "done", "found": end(name)})
    elif command == "ls":
        ls()


main(*sys.argv[1:])
