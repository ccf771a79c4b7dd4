#!/usr/bin/env python3
"""What each part of `foresight` is for: the benches of loops and sequences with one part after the other taken away.

    bench/simulated/ablation.py --recordings DIR --save
    bench/simulated/ablation.py --recordings DIR --only routine --tree TREE
    bench/simulated/ablation.py --check         only whether each part can still be taken away

A part is taken away by an edit of the sources (parts.toml) in a copy of the tree, which is built, and with which
`loops.py` and `sequences.py` run on the same recordings as without it: those of DIR/loops and DIR/sequences, which are
made where they are missing. Simulated, so the machine may have other things to do meanwhile. Exit code 1 if a part can
no longer be taken away.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parents[1]
ROOT = HERE.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), *(str(HERE / name) for name in ("training", "sequences", "loops", "simulated")),
                str(ROOT / "tools")]

import loops  # noqa: E402
import possible  # noqa: E402
import sequences  # noqa: E402
from children import ChildError  # noqa: E402
from mutating.edits import applied  # noqa: E402
from output import progress_line, report, sitting  # noqa: E402
from reports.simulated.ablation import table  # noqa: E402
from tidying.tree import copy  # noqa: E402

PARTS = HERE / "simulated" / "parts.toml"
BENCHES = ("sequences", "loops")
BUILD = "build/ablation"


class Failed(Exception):
    """Something could not be built or run; the message says what."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--recordings", type=pathlib.Path, metavar="DIR", help="of loops.py and sequences.py")
    parser.add_argument("--only", default="", metavar="WORD", help="parts whose name has it")
    parser.add_argument("--benches", default=",".join(BENCHES), help="comma-separated, of " + ", ".join(BENCHES))
    parser.add_argument("--tree", type=pathlib.Path, metavar="DIR", help="where the copy of the tree is, and stays")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers and simulations at once")
    parser.add_argument("--check", action="store_true", help="only whether each part can still be taken away")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    arguments.benches = arguments.benches.split(",")
    if unknown := set(arguments.benches) - set(BENCHES):
        parser.error(f"--benches {min(unknown)}: choose from {', '.join(BENCHES)}")
    if not arguments.check and arguments.recordings is None:
        parser.error("--recordings DIR: where the recordings are, or are to be kept")
    return arguments


def parts(word):
    with open(PARTS, "rb") as file:
        return [part for part in tomllib.load(file)["part"] if word in part["name"]]


def check(chosen):
    bad = [part["name"] for part in chosen if applied(ROOT, part)[2] is None]
    for name in bad:
        print(f"cannot be taken away: {name}: its text does not stand in its file exactly once")
    print(f"{len(chosen)} parts of foresight, {len(bad)} cannot be taken away")
    return 1 if bad else 0


def run(command, tree, what, **options):
    command = [str(word) for word in command]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{what}: {(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


def build(tree, jobs):
    if not (tree / BUILD / "build.ninja").is_file():
        run(["cmake", "-G", "Ninja", "-S", ".", "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release", "-DEBB_TESTS=OFF",
             "-DEBB_UNITY=OFF", "-DEBB_MIRROR=OFF", "-DEBB_PYTHON="], tree, "configure")
    run(["cmake", "--build", BUILD, "-j", jobs, "--target", "ebb_program"], tree, "build")
    return tree / BUILD / "cli" / "ebb"


def with_all(bench, arguments):
    """The points of a bench with everything, as it reports them."""
    command = [sys.executable, HERE / "simulated" / f"{bench}.py", "--recordings", arguments.recordings / bench,
               "--json", "--jobs", arguments.jobs]
    found = json.loads(run(command, ROOT, bench))
    if bench == "sequences":
        return [{"name": f"{row['program']} at {row['share']}", "file": f"{row['program']}.jsonl.gz",
                 "budget_bytes": row["budget_bytes"], "bound_s": row["bound_s"], "seconds": row["seconds"]["foresight"]}
                for row in found["rows"]]
    return [{"name": f"{point['loop']} at {point['memory']} on {point['disk']}",
             "file": f"{point['loop']}.jsonl.zst", "disk": point["disk"], "budget_bytes": point["budget_bytes"],
             "bound_s": point["bound_ns"] and point["bound_ns"] / 1e9,
             "seconds": point["policies"]["foresight"]["step_ns"] / 1e9}
            for point in found["points"] if not point["fits"]]


def simulate(bench, point, arguments):
    """Seconds of a step, or of a sequence, as the bench has them."""
    file = arguments.recordings / bench / point["file"]
    if bench == "loops":
        return loops.step_ns(loops.simulate(file, point["budget_bytes"], loops.DISKS[point["disk"]], ["foresight"],
                                            "--no-bound")["results"][0]) / 1e9
    found = possible.ask("sim", file, "--policy", "foresight", "--device-memory", point["budget_bytes"], "--no-bound",
                         *sequences.DISK)
    return found["results"][0]["total_ns"] / 1e9


def without(part, points, tree, arguments):
    """By bench and point the seconds without the part."""
    path, before, after = applied(tree, part)
    if after is None:
        raise Failed(f"{part['name']}: its text does not stand in {part['file']} exactly once")
    path.write_text(after, encoding="utf-8")
    try:
        os.environ["EBB_BINARY"] = str(build(tree, arguments.jobs))
        with concurrent.futures.ThreadPoolExecutor(max_workers=arguments.jobs) as pool:  # each waits for a process
            return {bench: list(pool.map(lambda point, bench=bench: simulate(bench, point, arguments), points[bench]))
                    for bench in points if bench in part["on"]}
    finally:
        path.write_text(before, encoding="utf-8")


def main():
    arguments = parse_arguments()
    chosen = parts(arguments.only)
    if arguments.check:
        return check(chosen)
    show, results = progress_line(arguments.json), {**sitting(packages=()), "parts": []}
    tree = arguments.tree or pathlib.Path(tempfile.mkdtemp(prefix="ebb-ablation-"))
    try:
        tree.mkdir(parents=True, exist_ok=True)
        copy(ROOT, tree)
        show("all parts")
        os.environ["EBB_BINARY"] = str(build(tree, arguments.jobs))
        results["points"] = {bench: with_all(bench, arguments) for bench in arguments.benches}
        for part in chosen:
            show(f"without {part['name']}")
            results["parts"].append({"name": part["name"],
                                     "seconds": without(part, results["points"], tree, arguments)})
    except (Failed, ChildError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    finally:
        if not arguments.tree:
            shutil.rmtree(tree, ignore_errors=True)
    show("")
    report(results, table(results), "ablation", arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
