"""Forking: children that start where torch has been imported already, which takes longer than most tests.

One server per test process (child.py --serve) imports torch and the model libraries, nothing of ours, and forks once
for every request; the child sets up its own output and session and goes on as if it had been started alone. It is for
tests about tensors; what is about a process as a whole (its start, its exit, its memory) starts programs of its own.
Used by one thread.
"""

import atexit
import functools
import json
import os
import socket
import subprocess
import sys

MESSAGE_BYTES_MAX = 1 << 16


class Forked:
    """A child of the server, with the part of subprocess.Popen that children.run needs."""

    def __init__(self, connection, request, env):
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            socket.send_fds(connection, [json.dumps({"request": request, "env": env}).encode()], [out_end, err_end])
        finally:
            os.close(out_end)
            os.close(err_end)
        self.stdout = open(out, encoding="utf-8", errors="replace")
        self.stderr = open(err, encoding="utf-8", errors="replace")
        self.returncode = None
        self._connection = connection
        self.pid = self._answer()

    def _answer(self):
        answer = self._connection.recv(MESSAGE_BYTES_MAX)
        if not answer:
            raise RuntimeError("the process that forks children has ended")
        return int(answer)

    def wait(self):
        if self.returncode is None:
            self.returncode = self._answer()
            self.stdout.close()
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)


@functools.lru_cache(maxsize=None)
def connect(command, environment):
    """The server that runs `command --serve`; started on first use, ended with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen([*command, "--serve", str(theirs.fileno())], env=dict(environment),
                                   pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True)
    atexit.register(lambda: (ours.close(), process.wait()))
    return ours


def serve(descriptor, prepare):
    """The server's loop. Returns None when its client has gone, and in every child the request it was forked for.

    `prepare`: called with each request before the fork, so that what it imports is there for later children too.
    """
    connection = socket.socket(fileno=descriptor)
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES_MAX, 2)
        if not message:
            return None
        order = json.loads(message)
        prepare(order["request"])
        child = os.fork()
        if child == 0:
            os.setsid()
            connection.close()
            for end, standard in zip(descriptors, (1, 2)):
                os.dup2(end, standard)
                os.close(end)
            os.environ.update(order["env"])
            return order["request"]
        for end in descriptors:
            os.close(end)
        connection.send(str(child).encode())
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
