"""serve(): Ebbtide's counters in Prometheus's text format, by a daemon thread of its own. Off unless called.

    server = ebbtide.integrations.prometheus.serve(9464)     # http://127.0.0.1:9464/metrics
    server.close()                                           # or `with serve(9464):`

A forked child does not serve, and gives the port up. One request at a time; a client that is slow is left.
"""

from __future__ import annotations

import http.server
import os
import socket
import socketserver
import threading

import ebbtide

from .meter import counters

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CLIENT_LIMIT_S = 5
PORT_MAX = 65535

# Name here, key in stats(), help.
_GAUGES = (
    ("budget_bytes", "budget_bytes", "Memory budget."),
    ("resident_bytes", "resident_bytes", "Memory in use within the budget, Ebbtide's own tables included."),
    ("peak_resident_bytes", "peak_resident_bytes", "The most memory that was in use within the budget."),
    ("live_bytes", "live_bytes", "Managed allocations that exist, wherever they are."),
    ("flash_bytes", "flash_bytes", "Flash in use."),
    ("flash_limit_bytes", "flash_limit_bytes", "Flash that may be used."),
)
_COUNTERS = (
    ("fetched_bytes_total", "fetched_bytes", "Bytes read from flash."),
    ("prefetched_bytes_total", "prefetched_bytes", "Bytes of those fetched before anything asked for them."),
    ("wasted_bytes_total", "wasted_bytes", "Bytes of those prefetched that left again before anything asked for them."),
    ("evicted_bytes_total", "evicted_bytes", "Bytes written to flash."),
    ("clean_bytes_total", "clean_bytes", "Bytes that left without a write."),
    ("launches_total", "launches", "Operators announced that touch managed memory."),
    ("faults_total", "faults", "Touches of absent blocks."),
    ("io_errors_total", "io_errors", "Transfers that failed and were tried again."),
    ("corrupt_blocks_total", "corrupt_blocks", "Blocks whose checksum did not match; never handed out."),
    ("steps_total", "steps", "Iterations that have ended."),
)


def metrics() -> str:
    """What a scrape gets. Of a process in which nothing is managed yet: `ebbtide_managed 0`."""
    stats = counters()
    lines: list[str] = []

    def add(name, kind, help_, *samples):
        lines.extend((f"# HELP ebbtide_{name} {help_}", f"# TYPE ebbtide_{name} {kind}"))
        lines.extend(f"ebbtide_{name}{labels} {value}" for labels, value in samples)

    add("managed", "gauge", "Whether tensors of this process are managed.", ("", int(stats is not None)))
    if stats is not None:
        for name, key, help_ in _GAUGES:
            add(name, "gauge", help_, ("", stats[key]))
        for name, key, help_ in _COUNTERS:
            add(name, "counter", help_, ("", stats[key]))
        waits = stats["waits"]
        add("stalled_seconds_total", "counter", "Time in which a thread of the program waited for memory.",
            ("", stats["stall_ns"] / 1e9))
        for label, key in (("cause", "causes_ns"), ("kind", "kinds_ns")):
            add(f"stalled_by_{label}_seconds_total", "counter", f"The same by {label}: docs/report.md.",
                *((f'{{{label}="{name}"}}', ns / 1e9) for name, ns in waits[key].items()))
    return "\n".join(lines) + "\n"


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = CLIENT_LIMIT_S
    server_version = f"ebbtide/{ebbtide.__version__}"

    def do_GET(self):
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(http.HTTPStatus.NOT_FOUND, explain="It is at /metrics")
            return
        body = metrics().encode()
        self.send_response(http.HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format, *args):  # the program's stderr is its own
        pass


class _Listener(socketserver.TCPServer):
    """Without HTTPServer's look-up of its own name, which may ask the network."""

    allow_reuse_address = True  # again at once after an earlier process; not beside one that listens

    def __init__(self, address: str, port: int):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), _Handler)

    def handle_error(self, request, client_address):  # a client that has gone
        pass


class Server:
    """What serve() started. close() ends it, and may be called again."""

    def __init__(self, listener: _Listener):
        self.address, self.port = listener.server_address[:2]
        self._listener: _Listener | None = listener
        self._thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.1},
                                        name="ebbtide-prometheus", daemon=True)
        self._thread.start()
        _servers.add(self)

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown()
            listener.server_close()
            self._thread.join()
            _servers.discard(self)

    def forget(self) -> None:
        """In a forked child, which has the socket and no thread."""
        if self._listener is not None:
            self._listener.server_close()
            self._listener = None

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_) -> None:
        self.close()


_servers: set[Server] = set()


def _forget_all() -> None:
    while _servers:
        _servers.pop().forget()


os.register_at_fork(after_in_child=_forget_all)


def serve(port: int, address: str = "127.0.0.1") -> Server:
    """Answers http://ADDRESS:PORT/metrics until close() or the end of the process; port 0: one that is free.

    Of several ranks each serves its own counters on a port of its own. There is no password: whoever reaches the
    address reads them. Raises ebbtide.Error where it cannot listen there.
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= PORT_MAX:
        raise ebbtide.Error(f"prometheus: {port!r} is no port; give a number from 0 (any that is free) to {PORT_MAX}")
    try:
        listener = _Listener(address, port)
    except OSError as error:
        why = error.strerror or error
        raise ebbtide.Error(f"prometheus: cannot listen on port {port} of {address}: {why}; give another port, or 0 "
                            "for any that is free") from None
    return Server(listener)
