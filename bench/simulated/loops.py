#!/usr/bin/env python3
"""Held-out loops: how near to the proved bound a planned step of other people's models comes.

Every loop of bench/loops/catalogue.py is recorded once with room for everything (`ebb run --record`). `ebb sim` then
gives the step time and the bound (docs/design/0005) of that recording in 1/2 to 1/8 of its peak, on two disks, without
host memory, the machine that `ebb run` has on a CPU. A step time is the mean of several iterations: a single one may be
faster than those around it. With --recordings DIR recordings are kept there, and those that are there are not made
again: after a change of a policy only simulations are run. What could not be recorded, and points that have no bound,
are listed with the reason. Exit code 1 if a loop could not be recorded though its packages are there.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training"), str(HERE / "loops")]

import children  # noqa: E402
import contenders  # noqa: E402
import possible  # noqa: E402
from catalogue import LOOPS, missing_package  # noqa: E402
from children import ChildError, ebb_binary, flash_directory  # noqa: E402
from output import progress_line, report, sitting  # noqa: E402
from reports.loops import table  # noqa: E402

SHARES = {"1/2": 1 / 2, "1/3": 1 / 3, "1/4": 1 / 4, "1/8": 1 / 8}
Disk = collections.namedtuple("Disk", "read_bps write_bps total_bps")
DISKS = {"2.52/3.76/3.45": Disk(2.52e9, 3.76e9, 3.45e9), "7/5/9": Disk(7e9, 5e9, 9e9)}
STEPS = 6  # the recording is of one near the end
ITERATIONS, COUNTED = 8, 4  # of a simulation, and how many at its end make the mean
TIMEOUT_S = 1800


def names_of(text, known, option, parser):
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"{option} {unknown[0]}: choose from {', '.join(known)}")
    return [name for name in known if name in names]


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="loops:\n" + "\n".join(f"  {name:<16}{loop.what}" for name, loop in LOOPS.items()))
    parser.add_argument("--only", default=",".join(LOOPS), metavar="NAME,...", help="these loops, not all")
    parser.add_argument("--policies", default="foresight,window", metavar="NAME,...",
                        help="policies of `ebb sim`; the table is of the first (default foresight,window)")
    parser.add_argument("--recordings", type=pathlib.Path, metavar="DIR",
                        help="keep recordings there, and use those that are there")
    parser.add_argument("--flash", help="directory for flash while recording")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="simulations at once")
    parser.add_argument("--quick", action="store_true", help="tiny models, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    arguments.only = names_of(arguments.only, LOOPS, "--only", parser)
    arguments.policies = arguments.policies.split(",")
    if arguments.jobs < 1:
        parser.error(f"-j {arguments.jobs}: at least 1")
    return arguments


def record(name, path, arguments):
    """Writes the recording of a loop to `path`, whole or not at all."""
    script = [sys.executable, HERE / "loops" / "run_loop.py", name, "--steps", STEPS,
              *(["--quick"] if arguments.quick else [])]
    unfinished = path.with_name(f"unfinished-{path.name}")
    try:
        children.ebb_run(script, memory=contenders.memory_for_all(), flash=arguments.flash, record=unfinished,
                         env=children.environment(), timeout=TIMEOUT_S)
        if not unfinished.exists():
            raise ChildError(f"`ebb run --record` wrote no trace of {name}")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def recordings(arguments, folder, results, progress):
    """Name to path of what `folder` has, after recording what it has not; the others are in results["left_out"]."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name in arguments.only:
        path = folder / f"{name}{'-quick' if arguments.quick else ''}.jsonl.zst"
        made = not path.exists()
        package = missing_package(name) if made else None
        if package:
            reason = f"{package} is not installed: tools/bootstrap --bench installs it"
            results["left_out"].append({"loop": name, "reason": reason, "failed": False})
            continue
        progress(f"recording {name}" if made else f"{name} is recorded")
        try:
            if made:
                record(name, path, arguments)
        except ChildError as error:
            results["left_out"].append({"loop": name, "reason": str(error), "failed": True})
            continue
        paths[name] = path
        results["recordings"][name] = {"what": LOOPS[name].what, "made_now": made, "bytes": path.stat().st_size,
                                       "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return paths


def peak_of(path):
    return possible.ask("plan", path, "--host-memory", 0)["peak_live_bytes"]


def simulate(path, budget, disk, policies, *more):
    return possible.ask("sim", path, "--policy", ",".join(policies), "--iterations", ITERATIONS, "--device-memory",
                        budget, "--host-memory", 0, *possible.flash_options(disk._asdict()), *more)


def step_ns(result):
    return statistics.fmean(result["iterations_ns"][-COUNTED:])


def point(name, disk, share, peak, budget, simulated):
    """What `ebb sim` says of one recording in one memory on one disk."""
    first = simulated["results"][0]
    bound = first["bound_ns"]
    policies = {}
    for result in simulated["results"]:
        step = step_ns(result)
        policies[result["policy"]] = {"step_ns": step, "of_bound": bound / step if bound else None,
                                      "iterations_ns": result["iterations_ns"], "stalls": result["stalls"],
                                      "lanes": result["lanes"]}
    return {"loop": name, "disk": disk, "memory": share, "peak_bytes": peak, "budget_bytes": budget,
            "fits": budget >= peak, "ideal_ns": first["ideal_ns"], "bound_ns": bound,
            "bound_note": simulated["bound_note"], "policies": policies}


def run_all(paths, arguments, results, progress):
    with concurrent.futures.ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        peaks = dict(zip(paths, pool.map(peak_of, paths.values())))
        futures = {}
        for name, path in paths.items():
            for disk, speeds in DISKS.items():
                for share, part in SHARES.items():
                    blocks = max(int(peaks[name] * part) // contenders.BLOCK_BYTES, contenders.BLOCKS_MIN)
                    budget = blocks * contenders.BLOCK_BYTES
                    future = pool.submit(simulate, path, budget, speeds, arguments.policies)
                    futures[future] = (name, disk, share, peaks[name], budget)
        for count, _ in enumerate(concurrent.futures.as_completed(futures), 1):
            progress(f"{count} of {len(futures)} simulations")
        results["points"] = [point(*what, future.result()) for future, what in futures.items()]


def summarize(points, policy):
    """Of one policy: median and worst share of the bound over the points that have one and do not hold all."""
    shares = sorted((each["policies"][policy]["of_bound"], f"{each['loop']} at {each['memory']} on {each['disk']}")
                    for each in points if each["bound_ns"] and not each["fits"])
    if not shares:
        return {"points": len(points), "counted": 0, "median": None, "worst": None, "above": []}
    return {"points": len(points), "counted": len(shares),
            "median": statistics.median(share for share, _ in shares),
            "worst": {"of_bound": shares[0][0], "point": shares[0][1]},
            "above": [f"{name}, {share:.2%}" for share, name in shares if share > 1]}


def notes(results):
    """What the table does not say: the summary of each policy, why a cell has no share, what has no row."""
    lines = []
    for name, found in results["summary"].items():
        if found["median"] is None:
            lines.append(f"{name}: no point counts")
            continue
        lines.append(f"{name}: {found['median']:.1%} of the bound in the median, at worst "
                     f"{found['worst']['of_bound']:.1%} ({found['worst']['point']}); "
                     f"{found['counted']} of {found['points']} points count")
        lines += [f"  faster than the bound: {each}" for each in found["above"]]
    unbounded = collections.defaultdict(lambda: collections.defaultdict(dict))
    for each in results["points"]:
        if each["bound_ns"] is None:
            unbounded[each["bound_note"]][each["loop"]][each["memory"]] = True
    for reason, loops in unbounded.items():
        lines.append(f"(times the ideal) where there is no bound: {reason}: "
                     + "; ".join(f"{loop} at {', '.join(shares)}" for loop, shares in loops.items()))
    # Of a program that failed the last line is what went wrong; the JSON has all of them.
    lines += [f"left out: {each['loop']}: {each['reason'].strip().splitlines()[-1]}" for each in results["left_out"]]
    return lines


def main():
    arguments = parse_arguments()
    progress = progress_line(arguments.json)
    results = {**sitting(), "quick": arguments.quick, "disks": {name: disk._asdict() for name, disk in DISKS.items()},
               "recordings": {}, "left_out": [], "summary": {}, "points": []}
    try:
        ebb_binary()
        arguments.flash = flash_directory(arguments.flash)
        with tempfile.TemporaryDirectory(prefix="ebb-loops-") as folder:
            paths = recordings(arguments, arguments.recordings or pathlib.Path(folder), results, progress)
            run_all(paths, arguments, results, progress)
    except ChildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    progress("")
    results["summary"] = {policy: summarize(results["points"], policy) for policy in arguments.policies}
    report(results, table(results["points"], arguments.policies[0]), "loops", arguments)
    for line in notes(results):
        print(line, file=sys.stderr if arguments.json else sys.stdout)
    return 1 if any(each["failed"] for each in results["left_out"]) else 0


if __name__ == "__main__":
    sys.exit(main())
