"""A code session: a process that keeps the variables of Python code between runs. bridge.py starts it.

Its arguments are the session's name, and the seconds after which an unused session ends. The doc comment of sb's
package core/code has the requests and events.
"""

import ast
import base64
import builtins
import codecs
import fcntl
import io
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import threading
import time

PROTOCOL = 1
LINE_LIMIT = 64 << 20
TEXT_LIMIT = 1 << 20
DATA_LIMIT = 32 << 20
HELD_LIMIT = 64 << 10
FILE_LIMIT = 1000
FIRST_LIMIT = 60  # seconds until the first client connects
DIRECTORY = "/tmp/.sb-code-%d" % os.getuid()


def path(name, kind):
    return os.path.join(DIRECTORY, name + "." + kind)


def save(name, state):
    temporary = path(name, "new")
    with open(temporary, "w") as f:
        json.dump(state, f)
    os.rename(temporary, path(name, "json"))


class Shield:
    """Delays an interrupt while an event is sent, which would tear its line."""

    def __init__(self):
        self.main = threading.get_ident()
        self.depth = 0
        self.running = False
        self.pending = False

    def handle(self, *_):
        if not self.running:
            return
        if self.depth:
            self.pending = True
        else:
            raise KeyboardInterrupt

    def __enter__(self):
        if threading.get_ident() == self.main:
            self.depth += 1

    def __exit__(self, *_):
        if threading.get_ident() == self.main:
            self.depth -= 1
            if self.pending and not self.depth:
                self.pending = False
                if self.running:
                    raise KeyboardInterrupt


class Client:
    """One connection. Events of other requests are not mixed with its own."""

    def __init__(self, connection):
        self.connection = connection
        self.lock = threading.Lock()
        self.gone = False
        self.canceled = False
        self.runs = False  # it has requested a run, so the session is in use

    def send(self, event):
        line = json.dumps(event).encode() + b"\n"
        with self.lock:
            if self.gone:
                return
            try:
                self.connection.sendall(line)
            except OSError:
                self.gone = True


class Output:
    """The output of code, in order. Small writes are collected for a moment."""

    def __init__(self, shield):
        self.shield = shield
        self.lock = threading.Lock()
        self.client = None
        self.kind, self.parts, self.size = "", [], 0
        self.held, self.held_size = [], 0
        self.waiting = threading.Event()
        threading.Thread(target=self.flush_later, daemon=True).start()

    def flush_later(self):
        while True:
            self.waiting.wait()
            time.sleep(0.02)
            self.waiting.clear()
            self.flush()

    def write(self, kind, text):
        with self.shield:
            with self.lock:
                if kind != self.kind:
                    self.send_text()
                    self.kind = kind
                self.parts.append(text)
                self.size += len(text)
                if self.size > 8192:
                    self.send_text()
                else:
                    self.waiting.set()

    def flush(self):
        with self.shield:
            with self.lock:
                self.send_text()

    def send_text(self):
        text, self.parts, self.size = "".join(self.parts), [], 0
        for at in range(0, len(text), TEXT_LIMIT):
            self.deliver({"type": self.kind, "text": text[at:at + TEXT_LIMIT]})

    def send(self, event):
        with self.shield:
            with self.lock:
                self.send_text()
                self.deliver(event)

    def deliver(self, event):
        if self.client is not None:
            self.client.send(event)
            return
        # Threads that outlive their run print to the next one.
        self.held.append(event)
        self.held_size += len(event.get("text", "")) + 100
        while self.held_size > HELD_LIMIT:
            self.held_size -= len(self.held.pop(0).get("text", "")) + 100

    def serve(self, client):
        self.flush()
        with self.lock:
            self.client = client
            held, self.held, self.held_size = self.held, [], 0
            if client is not None:
                for event in held:
                    client.send(event)


class Stream(io.TextIOBase):
    """sys.stdout or sys.stderr of the code."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, output, kind, fd):
        self.output, self.kind, self.fd = output, kind, fd
        self.pid = os.getpid()
        self.buffer = os.fdopen(fd, "wb", buffering=0, closefd=False)

    def writable(self):
        return True

    def fileno(self):
        return self.fd

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        if os.getpid() != self.pid:  # a fork of the session has no part in its connection
            os.write(self.fd, text.encode("utf-8", "replace"))
        else:
            self.output.write(self.kind, text)
        return len(text)

    def flush(self):
        if os.getpid() == self.pid:
            self.output.flush()


class Pump:
    """Reads what other processes and C libraries write to the descriptors 1 and 2."""

    def __init__(self, output):
        self.output = output
        self.busy = False
        self.kinds = {}
        for fd, kind in ((1, "stdout"), (2, "stderr")):
            reader, writer = os.pipe()
            os.dup2(writer, fd)
            os.close(writer)
            self.kinds[reader] = kind
        self.decoders = {fd: codecs.getincrementaldecoder("utf-8")("replace") for fd in self.kinds}
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            ready, _, _ = select.select(list(self.kinds), [], [])
            self.busy = True
            for fd in ready:
                text = self.decoders[fd].decode(os.read(fd, 1 << 16))
                if text:
                    self.output.write(self.kinds[fd], text)
            self.busy = False

    def drain(self):
        """Waits until everything that was written before has been read."""
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            waiting = 0
            for fd in self.kinds:
                waiting += struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
            if not waiting and not self.busy:
                return
            time.sleep(0.0005)


METHODS = (
    ("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"), ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)


def bundle(value):
    """Returns the representations of a value by MIME type."""
    if is_figure(value):
        return figure_data(value)
    data = {}
    rich = not isinstance(value, type)
    try:
        rich = rich and getattr(value, "_sb_no_such_attribute_", None) is None  # mocks have every attribute
    except Exception:
        rich = False
    if rich:
        for method, mime in (("_repr_mimebundle_", ""),) + METHODS:
            try:
                made = getattr(value, method, None)
                made = made() if callable(made) else None
            except Exception:
                continue
            if isinstance(made, tuple):
                made = made[0]
            if mime and made is not None:
                data[mime] = made
            elif isinstance(made, dict):
                data.update(made)
    if "text/plain" not in data:
        data["text/plain"] = repr(value)
    return data


def send_result(output, data, count=None, metadata=None):
    """Sends representations. One that is too large is named instead."""
    kept, omitted, total = {}, {}, 0
    for mime, value in data.items():
        if isinstance(value, (bytes, bytearray)):
            value = base64.b64encode(value).decode()
        if mime == "text/plain" and isinstance(value, str) and len(value) > TEXT_LIMIT:
            value = value[:TEXT_LIMIT] + "\u2026"
        try:
            size = len(json.dumps(value))
        except (TypeError, ValueError):
            continue
        if total + size > DATA_LIMIT:
            omitted[mime] = size
            continue
        total += size
        kept[mime] = value
    event = {"type": "result", "data": kept}
    if omitted:
        event["omitted"] = omitted
    if count is not None:
        event["execution_count"] = count
    output.send(event)


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def figure_data(figure):
    target = io.BytesIO()
    figure.savefig(target, format="png", bbox_inches="tight")
    data = {"image/png": target.getvalue(), "text/plain": repr(figure)}
    try:
        chart = chart_of(figure)
        if chart:
            data["application/vnd.sb.chart+json"] = chart
    except Exception:
        pass  # the picture is there
    return data


def plain(value):
    """Returns a value that JSON has: numbers of numpy become Python's, other types text."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value if isinstance(value, (int, float, str, bool)) or value is None else str(value)


def chart_of(figure):
    """Returns the data of a figure's axes."""
    from matplotlib.container import BarContainer
    from matplotlib.collections import PathCollection
    from matplotlib.patches import Wedge

    charts = []
    for axes in figure.axes:
        common = {"title": axes.get_title(), "x_label": axes.get_xlabel(), "y_label": axes.get_ylabel()}
        ticks = {plain(at): label.get_text() for at, label in zip(axes.get_xticks(), axes.get_xticklabels())}
        wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
        bars = [c for c in axes.containers if isinstance(c, BarContainer)]
        dots = [c for c in axes.collections if isinstance(c, PathCollection)]
        if wedges:
            texts = [text.get_text() for text in axes.texts]
            charts.append(dict(common, type="pie", elements=[
                {"label": wedge.get_label() or (texts[i] if i < len(texts) else ""),
                 "angle": plain(wedge.theta2 - wedge.theta1)} for i, wedge in enumerate(wedges)]))
        if bars:
            charts.append(dict(common, type="bar", elements=[
                {"group": container.get_label(),
                 "label": ticks.get(plain(patch.get_x() + patch.get_width() / 2), ""),
                 "value": plain(patch.get_height())} for container in bars for patch in container.patches]))
        if dots:
            charts.append(dict(common, type="scatter", elements=[
                {"label": c.get_label(), "points": [[plain(x), plain(y)] for x, y in c.get_offsets()]} for c in dots]))
        lines = [line for line in axes.lines if not wedges]
        if lines:
            charts.append(dict(common, type="line", elements=[
                {"label": line.get_label(),
                 "points": [[plain(x), plain(y)] for x, y in zip(line.get_xdata(), line.get_ydata())]}
                for line in lines]))
    if len(charts) == 1:
        return charts[0]
    return {"type": "composite", "elements": charts} if charts else None


class Figures:
    """The figures of matplotlib. They are shown when code shows them, and at the end of a run."""

    def __init__(self, output):
        self.output = output
        self.patched = False

    def prepare(self):
        os.environ.setdefault("MPLBACKEND", "agg")

    def patch(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and not self.patched and hasattr(pyplot, "show"):
            pyplot.show = lambda *_, **__: self.show()
            self.patched = True

    def show(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or not hasattr(pyplot, "get_fignums"):
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if figure.axes or figure.texts:
                send_result(self.output, figure_data(figure))
            pyplot.close(figure)

    def close(self, value):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and hasattr(pyplot, "close"):
            pyplot.close(value)


class PatchOnImport:
    """Replaces pyplot.show as soon as a run has imported it."""

    def __init__(self, figures):
        self.figures = figures

    def find_spec(self, name, *_):
        if name == "matplotlib.pyplot" and self in sys.meta_path:
            import importlib.util

            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.loader is not None:
                execute = spec.loader.exec_module

                def exec_module(module):
                    execute(module)
                    self.figures.patch()

                spec.loader.exec_module = exec_module
            return spec
        return None


class Plain:
    """Runs code with the interpreter alone."""

    def __init__(self, output, figures):
        import types

        self.output, self.figures = output, figures
        self.module = types.ModuleType("__main__")
        self.module.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = self.module
        self.loop = None
        builtins.display = self.display

    def display(self, *values):
        for value in values:
            send_result(self.output, bundle(value))

    def evaluate(self, code, filename, mode):
        compiled = compile(code, filename, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        result = eval(compiled, self.module.__dict__)
        if compiled.co_flags & 0x80:  # CO_COROUTINE
            if self.loop is None:
                import asyncio

                self.loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self.loop)
            return self.loop.run_until_complete(result)
        return result

    def run(self, code, count):
        """Runs code and returns whether it succeeded."""
        import linecache

        filename = "<cell %d>" % count
        linecache.cache[filename] = (len(code), None, code.splitlines(True), filename)
        try:
            tree = ast.parse(code, filename)
            last = None
            if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
                last = ast.Expression(tree.body.pop().value)
            if tree.body:
                self.evaluate(tree, filename, "exec")
            if last is not None:
                value = self.evaluate(last, filename, "eval")
                if value is not None:
                    self.module.__dict__["_"] = value
                    send_result(self.output, bundle(value), count)
                    if is_figure(value):
                        self.figures.close(value)
            return True
        except BaseException as error:
            self.report(error)
            return False

    def report(self, error):
        import traceback

        report = traceback.TracebackException.from_exception(error)
        hide_own(report)
        send_error(self.output, error, "".join(report.format()).splitlines())


def hide_own(report):
    """Removes the frames of this program from a traceback, and from those of its causes."""
    seen = set()
    while report is not None and id(report) not in seen:
        seen.add(id(report))
        report.stack[:] = [frame for frame in report.stack if frame.filename != "<session>"]
        report = report.__cause__ or report.__context__


def send_error(output, error, lines):
    try:
        value = str(error)
    except Exception:
        value = "<the error has no text>"
    output.send({
        "type": "error", "name": type(error).__name__, "value": value[:TEXT_LIMIT],
        "traceback": [line[:8192] for line in lines[-500:]],
    })


def ipython(output, figures):
    """Returns an engine that runs code with IPython, so magics and "!" work. ImportError: it is not installed."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets import Type
    from traitlets.config import Config

    class Hook(DisplayHook):
        def __call__(self, result=None):
            if result is None or self.quiet():
                return
            if is_figure(result):
                data = figure_data(result)
                figures.close(result)
            else:
                data, _ = self.compute_format_data(result)
            self.update_user_ns(result)
            send_result(output, data, self.shell.execution_count)

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, **_):
            send_result(output, data)

        def clear_output(self, wait=False):
            pass

    class Shell(InteractiveShell):
        displayhook_class = Type(Hook)
        display_pub_class = Type(Publisher)

        def _showtraceback(self, kind, error, lines):
            send_error(output, error, "\n".join(lines).splitlines())

        def init_display_formatter(self):
            super().init_display_formatter()
            self.display_formatter.active_types = self.display_formatter.format_types

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.xmode = "Context"
    shell = Shell.instance(config=config)

    class Engine:
        def run(self, code, _):
            return shell.run_cell(code, store_history=True).success

    return Engine()


def files():
    """Returns the files of the working directory with their sizes and times."""
    found = {}
    try:
        with os.scandir(".") as entries:
            for entry in entries:
                if len(found) >= FILE_LIMIT:
                    break
                if entry.is_file(follow_symlinks=False):
                    info = entry.stat(follow_symlinks=False)
                    found[entry.name] = (info.st_size, info.st_mtime_ns)
    except OSError:
        pass
    return found


class Session:
    def __init__(self, name, idle):
        import queue

        self.name, self.idle = name, idle
        self.requests = queue.Queue()
        self.shield = Shield()
        self.output = Output(self.shield)
        self.pump = Pump(self.output)
        self.figures = Figures(self.output)
        self.count = 0
        self.busy = False
        self.clients = 0
        self.started = self.used = time.time()
        self.until = self.started + max(idle, FIRST_LIMIT)
        self.engine = None

    def status(self):
        return {
            "type": "status", "state": "busy" if self.busy else "idle", "execution_count": self.count,
            "queued": self.requests.qsize(), "used": self.used,
        }

    def listen(self, server):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=self.attend, args=(connection,), daemon=True).start()

    def attend(self, connection):
        client = Client(connection)
        client.send({"type": "hello", "protocol": PROTOCOL, "language": "python", "started": self.started})
        reader = connection.makefile("rb")
        while True:
            line = reader.readline(LINE_LIMIT)
            if not line.endswith(b"\n"):
                break
            try:
                request = json.loads(line)
                op = request["op"]
            except (ValueError, KeyError, TypeError):
                break
            if op == "run":
                if self.busy or self.requests.qsize():
                    client.send({"type": "queued"})
                self.requests.put((client, request))
            elif op == "cancel":
                client.canceled = True
            elif op == "status":
                client.send(self.status())
        self.requests.put((client, None))

    def prepare(self):
        """Sets up what code sees of its process. Imports that take long come after the session listens."""
        sys.stdout, sys.stderr = Stream(self.output, "stdout", 1), Stream(self.output, "stderr", 2)
        sys.stdin = open(os.devnull)
        sys.argv = [""]
        sys.path.insert(0, "")
        self.figures.prepare()
        try:
            self.engine = ipython(self.output, self.figures)
        except Exception:
            self.engine = Plain(self.output, self.figures)
        sys.meta_path.insert(0, PatchOnImport(self.figures))

    def loop(self):
        import queue

        while True:
            try:
                client, request = self.requests.get(timeout=max(self.until - time.time(), 0.001))
            except queue.Empty:
                if not self.clients:
                    return "idle for %d seconds" % self.idle
                self.until = time.time() + self.idle
                continue
            if request is not None and not client.runs:
                client.runs = True
                self.clients += 1
            if client.runs:
                self.until = time.time() + self.idle
            if request is None:  # the client has no more requests
                self.clients -= client.runs
                try:
                    client.connection.shutdown(socket.SHUT_RDWR)
                    client.connection.close()
                except OSError:
                    pass
                continue
            if not client.canceled:
                self.run(client, str(request.get("code", "")))
                self.used = time.time()
                self.until = self.used + self.idle

    def run(self, client, code):
        self.busy = True
        self.count += 1
        client.send({"type": "begin"})
        self.output.serve(client)
        before = files()
        done = False
        try:
            signal.signal(signal.SIGINT, self.shield.handle)
            self.shield.running = True
            done = self.engine.run(code, self.count)
            self.figures.show()
            self.shield.running = False
        except BaseException as error:  # an interrupt between two runs, or a figure that cannot be drawn
            self.shield.running = False
            done = False
            send_error(self.output, error, [])
        self.shield.running = self.shield.pending = False
        self.pump.drain()
        changed = [
            {"name": name, "size": size}
            for name, (size, at) in sorted(files().items()) if before.get(name) != (size, at)
        ]
        self.output.flush()
        self.busy = False
        self.output.send({"type": "end", "ok": done, "execution_count": self.count, "files": changed})
        self.output.serve(None)


def serve(name, idle):
    lock = open(path(name, "lock"), "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # another start was first
    try:
        os.setsid()  # close kills the process group
    except OSError:
        pass
    try:
        os.unlink(path(name, "sock"))
    except OSError:
        pass
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path(name, "sock"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    session = Session(name, idle)
    state = {"language": "python", "pid": os.getpid(), "started": session.started, "idle_timeout": idle}
    save(name, state)
    server.listen(64)
    os.register_at_fork(after_in_child=server.close)
    threading.Thread(target=session.listen, args=(server,), daemon=True).start()
    session.prepare()
    state["ended"] = session.loop()
    os.unlink(path(name, "sock"))
    save(name, state)
    os._exit(0)  # threads of the code may still run


def main(name, idle):
    try:
        serve(name, int(idle))
    except BaseException:
        import traceback

        with open(path(name, "log"), "w") as log:
            traceback.print_exc(file=log)
        raise


main(*sys.argv[1:])
