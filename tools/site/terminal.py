#!/usr/bin/env python3
"""Draws docs/img/terminal.svg, a terminal in which `ebb run` trains, and docs/img/top.svg, one in which `ebb top` looks
at two ranks, as it really went.

    build/site/venv/bin/python tools/site/terminal.py [run | top] [--ebb build/release/cli/ebb] [--python COMMAND]

The program runs on a pseudo-terminal; pyte keeps its screen, and each screen becomes a frame of an SVG that shows them
one after the other, with their colours. It has no script and no font of its own, and where motion is not wanted it
shows the last one. Needs pyte (tools/requirements-site.txt).
"""

import argparse
import contextlib
import dataclasses
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import xml.sax.saxutils

import pyte

ROOT = pathlib.Path(__file__).resolve().parents[2]
FRAME_S = 0.2  # the least time between two frames
LAST_S = 6.0  # for which the last one stays
CELL_WIDTH, LINE_HEIGHT, MARGIN, BAR = 7.8, 17, 14, 30
COLOURS = {"default": "#d6deeb", "black": "#5f7e97", "red": "#ef5350", "green": "#7fdb9a", "brown": "#f2d479",
           "blue": "#82aaff", "magenta": "#c792ea", "cyan": "#7fdbca", "white": "#ffffff"}
WORDS = re.compile(r"\S+(?: \S+)*")  # what stands in one column
BACKGROUND, TITLE = "#0d1626", "#8fa3bf"


@dataclasses.dataclass(frozen=True)
class Scene:
    file: str
    says: str  # for who cannot see it
    command: str
    rows: int
    columns: int
    beside: str = ""  # runs meanwhile, and has done so for BEFORE_S
    keys: tuple = ()  # seconds, and what is typed then; the last one ends it, and what comes after it is not shown


BEFORE_S = 15.0
SCENES = {
    "run": Scene("terminal.svg", "A terminal: ebb run trains in 96 MiB a model that needs 264",
                 "ebb run --memory 96MiB -- python examples/train/train.py", 38, 124),
    "top": Scene("top.svg", "A terminal: ebb top shows a run of two ranks, their memory, traffic and waits",
                 "ebb top", 24, 124, "ebb run --quiet --memory 192MiB -- "
                 "torchrun --nproc-per-node 2 examples/train/train.py --steps 100000",
                 ((4, b"\x1b[B"), (8, b"\x1b[B"), (12, b"q"))),
}


@contextlib.contextmanager
def running(command, environment):
    """A program that ends with the block, with all that it has started."""
    if not command:
        yield
        return
    child = subprocess.Popen(command.split(), cwd=ROOT, env=environment, start_new_session=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(BEFORE_S)
        if child.poll() is not None:
            sys.exit(f"terminal: {command}: ended with {child.returncode}")
        yield
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(timeout=60)


def record(scene, ebb, python, folder):
    """Screens and the seconds at which they began."""
    (folder / "ebb").symlink_to(ebb.resolve())
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EBB_") and key != "NO_COLOR"}
    environment.update(TERM="xterm-256color", PATH=f"{folder}:{python.absolute().parent}:{os.environ['PATH']}")
    with running(scene.beside, environment):
        return screens(scene, environment)


def screens(scene, environment):
    screen = pyte.Screen(scene.columns, scene.rows)
    stream = pyte.ByteStream(screen)
    stream.feed(f"$ {scene.command}\r\n".encode())
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", scene.rows, scene.columns, 0, 0))
        os.chdir(ROOT)
        command = scene.command.split()
        os.execvpe(command[0], command, environment)
    begin, frames, keys = time.monotonic(), [(0.0, snapshot(screen))], list(scene.keys)
    open_ = True
    while open_:
        if keys and time.monotonic() - begin >= keys[0][0]:
            os.write(fd, keys.pop(0)[1])
        if select.select([fd], [], [], 0.05)[0]:
            try:
                piece = os.read(fd, 65536)
            except OSError:  # the other side is closed
                piece = b""
            open_ = bool(piece)
            # The program asks where the cursor is, as a terminal would tell it.
            screen.write_process_input = lambda answer: os.write(fd, answer.encode())
            stream.feed(piece)
        if scene.keys and not keys:
            continue  # it ends
        now, content = time.monotonic() - begin, snapshot(screen)
        if content != frames[-1][1] and (now - frames[-1][0] >= FRAME_S or not open_):
            frames.append((now, content))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 0:
        sys.exit(f"terminal: the program ended with {code}")
    return frames


def snapshot(screen):
    """Lines of runs: text, colour, bold, reversed."""
    lines = []
    for row in range(screen.lines):
        runs = []
        for column in range(screen.columns):
            cell = screen.buffer[row][column]
            style = (cell.fg, cell.bold, cell.reverse)
            if runs and runs[-1][1] == style:
                runs[-1][0].append(cell.data)
            else:
                runs.append(([cell.data], style))
        lines.append(tuple(("".join(text), style) for text, style in runs))
    return tuple(lines)


def colour(name):
    return COLOURS.get(name) or (f"#{name}" if len(name) == 6 else COLOURS["default"])


def draw_line(runs, row):
    """Where each column begins is said, so that neither a font's width nor runs of spaces matter."""
    y, column, parts = BAR + MARGIN + row * LINE_HEIGHT, 0, []
    for text, (name, bold, reverse) in runs:
        x, width = MARGIN + column * CELL_WIDTH, len(text) * CELL_WIDTH
        fill = colour(name)
        if reverse:
            parts.append(f'<rect x="{x:.1f}" y="{y - 1}" width="{width:.1f}" height="{LINE_HEIGHT}" fill="{fill}"/>')
            fill = BACKGROUND
        weight = ' font-weight="bold"' if bold else ""
        for word in WORDS.finditer(text):
            left, width = MARGIN + (column + word.start()) * CELL_WIDTH, len(word[0]) * CELL_WIDTH
            parts.append(f'<text x="{left:.1f}" y="{y + 12}" textLength="{width:.1f}" fill="{fill}"{weight}>'
                         f'{xml.sax.saxutils.escape(word[0])}</text>')
        column += len(text)
    return "".join(parts)


def draw(scene, frames):
    width, height = 2 * MARGIN + scene.columns * CELL_WIDTH, BAR + 2 * MARGIN + scene.rows * LINE_HEIGHT
    end, title = frames[-1][0] + LAST_S, " ".join(scene.command.split()[:2])
    rules, lines = [], {}  # of each different line, in which frames it is
    for number, (_, content) in enumerate(frames):
        for row, runs in enumerate(content):
            lines.setdefault((row, runs), []).append(number)
    groups = {}
    for (row, runs), numbers in lines.items():
        if drawn := draw_line(runs, row):
            groups.setdefault(tuple(numbers), []).append(drawn)
    body = []
    for index, (numbers, drawn) in enumerate(groups.items()):
        if len(numbers) == len(frames):
            body.append("<g>" + "".join(drawn) + "</g>")
            continue
        steps = []
        for number in range(len(frames)):
            at = 100 * frames[number][0] / end
            steps.append(f"{at:.2f}%{{opacity:{int(number in numbers)}}}")
        shown = int(len(frames) - 1 in numbers)
        rules.append(f"@keyframes k{index}{{{''.join(compressed(steps))}}}"
                     f".k{index}{{opacity:{shown};animation:k{index} {end:.1f}s step-end infinite}}")
        body.append(f'<g class="k{index}">' + "".join(drawn) + "</g>")
    dots = "".join(f'<circle cx="{18 + 18 * i}" cy="15" r="5" fill="{fill}"/>'
                   for i, fill in enumerate(("#ef5350", "#f2d479", "#7fdb9a")))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
            f'aria-label="{scene.says}">'
            f'<style>text{{font:13px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}}'
            f'{"".join(rules)}@media(prefers-reduced-motion:reduce){{g{{animation:none!important}}}}</style>'
            f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>{dots}'
            f'<text x="{width / 2:.0f}" y="19" text-anchor="middle" fill="{TITLE}">{title}</text>'
            + "\n".join(body) + "</svg>\n")


def compressed(steps):
    """Without those that repeat the one before."""
    last = None
    for step in steps:
        value = step.split("{")[1]
        if value != last:
            yield step
        last = value


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ebb", type=pathlib.Path, default=ROOT / "build/release/cli/ebb")
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / ".venv/bin/python")
    parser.add_argument("--to", type=pathlib.Path, help="(default: where the documents have it)")
    parser.add_argument("scene", nargs="?", choices=SCENES, default="run", help="(default: run)")
    arguments = parser.parse_args()
    scene = SCENES[arguments.scene]
    with tempfile.TemporaryDirectory() as folder:
        frames = record(scene, arguments.ebb, arguments.python, pathlib.Path(folder))
    to = arguments.to or ROOT / "docs/img" / scene.file
    to.write_text(draw(scene, frames), encoding="utf-8")
    print(f"{to}: {len(frames)} frames of {frames[-1][0]:.1f} s")


if __name__ == "__main__":
    main()
