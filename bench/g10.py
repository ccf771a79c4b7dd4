#!/usr/bin/env python3
"""G10's published evaluation, point by point: `ebb sim` with every policy beside the numbers of G10's own simulator.

    bench/g10.py [--traces DIR] [--reference FILE]     every network, batch, host memory, flash bandwidth and variation
    bench/g10.py --quick                               the three headline networks only
    bench/g10.py --plots docs/img                      also draws the figures as SVG

The traces and the reference numbers (JSON) come from G10's artifact (Apache-2.0); they are looked for in ../shared/g10.
Results go to bench/results/. Nothing here depends on the machine: virtual time, the same numbers everywhere.
"""

import argparse
import collections
import concurrent.futures
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "training"), str(HERE / "g10")]

import plots  # noqa: E402
from machine import describe_machine  # noqa: E402
from output import print_table, save  # noqa: E402

SHARED = HERE.parent.parent / "shared/g10"
TIMINGS = ("strict", "artifact")
CLOSE = 0.98  # of the bound
ITERATIONS = 5  # the fourth is the first that follows a plan from where a planned one ended
# The artifact's names for what we simulate too.
COLUMNS = {"lru": "on_demand", "FlashNeuron": "flashneuron", "deepUM": "deepum", "G10GDSSSD": "g10_flash",
           "G10GDSFULL": "g10_host", "prefetch_lru": "g10"}
POLICIES = ("on_demand", "window", "deepum", "flashneuron", "g10_flash", "g10_host", "g10", "belady", "foresight")
TITLES = {"batch": "Batch sizes (figures 11 and 15)", "host": "Host memory (figures 16 and 17)",
          "flash": "Flash bandwidth, PCIe 32 GB/s (figure 18)", "variation": "Variation of kernel times (figure 19)"}

Point = collections.namedtuple("Point", "sweep net batch host_gib flash_gbps pcie_gbps vary")


class BenchError(Exception):
    """Something the user can repair; the message says how."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--traces", type=pathlib.Path, default=SHARED / "traces", help="folder of NET-BATCH.jsonl.gz")
    parser.add_argument("--reference", type=pathlib.Path, default=SHARED / "reference.json")
    parser.add_argument("--quick", action="store_true", help="the three headline networks only")
    parser.add_argument("--plots", type=pathlib.Path, metavar="DIR", help="also write the figures there, as SVG")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="simulations at once")
    return parser.parse_args()


def ebb_binary():
    for candidate in (os.environ.get("EBB_BIN"), HERE.parent / "build/release/cli/ebb", HERE.parent / ".venv/bin/ebb"):
        if candidate and os.access(candidate, os.X_OK):
            return str(candidate)
    raise BenchError("no `ebb` program: run `make setup`, or name it in EBB_BIN")


def read_points(reference, quick):
    """Every point of the evaluation, with the artifact's seconds by our policy names."""
    defaults = reference["_meta"]["defaults"]
    host, flash, pcie = defaults["host_mem_GiB"], defaults["ssd_GBps"], defaults["pcie_GBps"]
    points = collections.defaultdict(dict)

    def add(sweep, row, seconds, host_gib=host, flash_gbps=flash, pcie_gbps=pcie, vary=0.0):
        point = Point(sweep, row["net"], row["batch"], host_gib, flash_gbps, pcie_gbps, vary)
        for name, value in seconds.items():
            if name in COLUMNS and value is not None:
                points[point][COLUMNS[name]] = value

    for row in reference["overall_performance"]["rows"] + ([] if quick else reference["batchsize"]["rows"]):
        add("batch", row, row["seconds"])
    if quick:
        return points
    for row in reference["cpumem_combined"]["rows"] + reference["cpumem"]["rows"]:
        add("host", row, {row["policy"]: row["seconds"]}, host_gib=row["host_mem_GiB"])
    for row in reference["ssdbw"]["rows"]:
        add("flash", row, row["seconds"], flash_gbps=row["ssd_GBps"], pcie_gbps=row["pcie_GBps"])
    ideal = {(row["net"], row["batch"]): row["ideal_cycles"] / 1.2e9 for row in reference["networks"]}
    for row in reference["variation"]["rows"]:
        for share, value in row["ideal_over_actual"].items():
            vary = float(share.rstrip("%")) / 100
            # Comparable as a share of ideal only: the artifact's draws are its own.
            add("variation", row, {row["policy"]: ideal[row["net"], row["batch"]] / value}, vary=vary)
    return points


def policies_for(point, published, timing):
    """All of them where the batch size varies; elsewhere those with published numbers, and ours."""
    if point.sweep == "batch" and timing == "strict":
        return POLICIES
    return tuple(policy for policy in POLICIES if policy in published or policy == "foresight")


def simulate(ebb, traces, point, timing, policies):
    trace = traces / f"{point.net}-{point.batch}.jsonl.gz"
    command = [ebb, "sim", str(trace), "--json", "--timing", timing, "--policy", ",".join(policies),
               "--host-memory", f"{point.host_gib}GiB", "--pcie", f"{point.pcie_gbps}GB/s",
               "--flash-read", f"{point.flash_gbps}GB/s", "--flash-write", f"{point.flash_gbps}GB/s",
               "--vary", str(point.vary), "--iterations", str(ITERATIONS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(done.stderr.strip() or f"{' '.join(command)}: exit code {done.returncode}")
    return json.loads(done.stdout)["results"]


def run_all(ebb, traces, points, at_once):
    """Simulates every point once for each timing; equal machines are simulated once."""
    jobs = collections.defaultdict(set)
    for point, published in points.items():
        for timing in TIMINGS:
            jobs[point._replace(sweep=""), timing].update(policies_for(point, published, timing))
    results, tty = {}, sys.stderr.isatty()
    with concurrent.futures.ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = {}
        for job, chosen in jobs.items():
            in_order = [policy for policy in POLICIES if policy in chosen]
            futures[pool.submit(simulate, ebb, traces, *job, in_order)] = job
        for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
            results[futures[future]] = {result["policy"]: result for result in future.result()}
            if tty:
                print(f"\r\033[K{count} of {len(jobs)} simulations", end="", file=sys.stderr, flush=True)
    if tty:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return [collect(point, published, results) for point, published in points.items()]


def seconds_of(result, key):
    return result[key] and result[key] / 1e9


def collect(point, published, results):
    """One point: seconds of the artifact and of each of our policies in both timings, ideal and bounds."""
    found = {"published": published}
    for timing in TIMINGS:
        simulated = results[point._replace(sweep=""), timing]
        chosen = policies_for(point, published, timing)
        found[timing] = {name: seconds_of(simulated[name], "iteration_ns") for name in chosen}
        found[f"{timing}_first"] = {name: seconds_of(simulated[name], "first_iteration_ns") for name in chosen}
    ours = results[point._replace(sweep=""), "strict"]["foresight"]
    found["ideal"] = seconds_of(ours, "ideal_ns")
    found["bound"] = seconds_of(ours, "bound_ns")
    found["bound_written"] = seconds_of(ours, "bound_written_ns")
    found["stalls"], found["lanes"] = ours["stalls"], ours["lanes"]
    return {**point._asdict(), **found}


def as_published(row, policy):
    """Our seconds in the artifact's convention: for demand paging it took the faster of both iterations."""
    seconds = row["artifact"][policy]
    return min(seconds, row["artifact_first"][policy]) if policy == "on_demand" else seconds


def label(row):
    changed = {"batch": "", "host": f", {row['host_gib']} GiB", "flash": f", {row['flash_gbps']:g} GB/s",
               "variation": f", {row['vary']:.0%}"}[row["sweep"]]
    return f"{row['net']}-{row['batch']}{changed}"


def seconds_text(value):
    return "-" if value is None else f"{value:.2f}"


def print_sweep(sweep, rows):
    """Strict timing beside the published columns, then our rivals in the artifact's timing against the originals."""
    print(f"{TITLES[sweep]}: seconds an iteration\n")
    named = [policy for policy in COLUMNS.values() if any(policy in row["published"] for row in rows)]
    ours = [policy for policy in POLICIES if any(policy in row["strict"] for row in rows)]
    table = [["published"] + named + ["| strict:"] + ours + ["ideal", "bound", "written"]]
    for row in rows:
        table.append([label(row)] + [seconds_text(row["published"].get(policy)) for policy in named] + ["|"] +
                     [seconds_text(row["strict"].get(policy)) for policy in ours] +
                     [seconds_text(row[key]) for key in ("ideal", "bound", "bound_written")])
    print_table(table)
    table = [["artifact's timing, ours / published"] + named]
    for row in rows:
        table.append([label(row)] + [f"{as_published(row, policy) / row['published'][policy]:.3f}"
                                     if policy in row["published"] else "-" for policy in named])
    print_table(table)


def margin_of(row):
    """How many times as fast as published G10. Varied kernel times differ by their draws: slowdowns are compared."""
    return row["published"]["g10"] / row["nominal"] / (row["strict"]["foresight"] / row["ideal"])


def shares_of(rows, bound):
    shares = sorted((row[bound] / row["strict"]["foresight"], label(row)) for row in rows if row[bound])
    return {"median": round(shares[len(shares) // 2][0], 4), "faster": sum(share > 1.0005 for share, _ in shares),
            "worst": {"point": shares[0][1], "share": round(shares[0][0], 4)},
            "below_98_percent": [{"point": name, "share": round(share, 4)} for share, name in shares if share < CLOSE]}


def summarize(rows):
    nominal = {(row["net"], row["batch"]): row["ideal"] for row in rows if row["vary"] == 0}
    for row in rows:
        row["nominal"] = nominal.get((row["net"], row["batch"]), row["ideal"])
    margins = sorted((margin_of(row), label(row)) for row in rows if "g10" in row["published"])
    summary = {"points": len(margins), "at_least_as_fast_as_g10": sum(margin >= 1 for margin, _ in margins),
               "times_as_fast": {"mean": round(statistics.geometric_mean(margin for margin, _ in margins), 4),
                                 "best": {"point": margins[-1][1], "times": round(margins[-1][0], 4)}},
               "slower": [{"point": name, "times_as_fast": round(margin, 4)} for margin, name in margins if margin < 1],
               "of_bound": shares_of(rows, "bound"), "of_bound_written": shares_of(rows, "bound_written")}
    print(f"foresight, strict timing, is at least as fast as published G10 in the artifact's timing at "
          f"{summary['at_least_as_fast_as_g10']} of {len(margins)} points, "
          f"{summary['times_as_fast']['mean']:.2f} times as fast in the geometric mean, at best "
          f"{summary['times_as_fast']['best']['times']:.2f} times ({summary['times_as_fast']['best']['point']}).")
    for entry in summary["slower"]:
        print(f"  slower: {entry['point']}, {entry['times_as_fast']:.3f} times as fast")
    for key, words in (("of_bound", "the bound"), ("of_bound_written", "the bound if all that leaves is written")):
        found = summary[key]
        print(f"of {words} it reaches {found['median']:.1%} in the median, at worst {found['worst']['share']:.1%} "
              f"({found['worst']['point']}); faster than it at {found['faster']} points")
        for entry in found["below_98_percent"]:
            print(f"  below {CLOSE:.0%}: {entry['point']}, {entry['share']:.1%}")
    return summary


def main():
    arguments = parse_arguments()
    try:
        if not arguments.reference.is_file():
            raise BenchError(f"{arguments.reference} is not there: give --traces and --reference, from G10's artifact")
        reference = json.loads(arguments.reference.read_text(encoding="utf-8"))
        points = read_points(reference, arguments.quick)
        rows = run_all(ebb_binary(), arguments.traces, points, arguments.jobs)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    for sweep in TITLES:
        of_sweep = [row for row in rows if row["sweep"] == sweep]
        if of_sweep:
            print_sweep(sweep, of_sweep)
    results = {"date": datetime.date.today().isoformat(), "machine": describe_machine(), "quick": arguments.quick,
               "summary": summarize(rows), "points": rows}
    print(f"saved {save(results, 'g10')}", file=sys.stderr)
    if arguments.plots:
        for path in plots.draw(rows, arguments.plots):
            print(f"drew {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
