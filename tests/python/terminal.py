"""A pseudo-terminal: stands in for a person who looks at the screen and types."""

import fcntl
import os
import pty
import select
import struct
import termios
import time

from ebb_program import EBB
from fake_program import TIMEOUT_S


class Terminal:
    """Runs a command on a new pseudo-terminal that it controls, and collects what it writes there."""

    def __init__(self, command, cwd, environment, rows=24, columns=100):
        self.output = b""
        self.position = 0  # what read_until has returned already
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # The size is set here, before anything asks for it.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.chdir(cwd)
            os.execvpe(command[0], command, environment)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.fd, keys)

    def read_until(self, words=None):
        """The next output up to and with `words`; without words, all until the other side closes."""
        begin = self.position
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            found = -1 if words is None else self.output.find(words, begin)
            if found >= 0:
                self.position = found + len(words)
                return self.output[begin : self.position]
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    piece = os.read(self.fd, 65536)
                except OSError:  # the other side is closed
                    piece = b""
                if not piece:
                    break
                self.output += piece
        assert words is None, f"{words!r} never came; got {self.output!r}"
        return self.output[begin:]

    def finish(self):
        self.read_until()
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def terminal(box, *arguments, rows=24, columns=100, **changes):
    """`ebb` with these arguments, in the directory and with the environment of a fake program."""
    environment = {**box.environment, **changes}
    return Terminal([EBB, *map(str, arguments)], box.path, environment, rows, columns)
