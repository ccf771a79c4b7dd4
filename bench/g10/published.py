#!/usr/bin/env python3
"""Compares bench/data/g10/published.json with the results in G10's artifact, number by number.

    python3 bench/g10/published.py G10/example_results

The artifact's files are text: a line of column names parted by `|`, then a line with what a row is about and a line
with its numbers, `inf` where there is none. Cycles are of 1.2 GHz. Exit code 1 if a number differs.
"""

import argparse
import json
import math
import pathlib
import re
import sys

PUBLISHED = pathlib.Path(__file__).resolve().parents[1] / "data" / "g10" / "published.json"
HZ = 1.2e9
FILES = {"BERT_Base": "bert.txt", "VIT": "vit.txt", "ResNet152": "resnet.txt"}
NAMES = {"BERT": "BERT_Base", "ViT": "VIT", "ResNet152": "ResNet152"}
ROW = re.compile(r"(\w+)\|B = (\d+)")


def read(path):
    """Row to column to number, None where there is none."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    columns = [word.strip() for word in lines[0].split("|")]
    table = {}
    for about, numbers in zip(lines[1::2], lines[2::2]):
        values = [None if word == "inf" else float(word) for word in numbers.split()]
        table[about] = dict(zip(columns, values))
    return table


def by_network(table):
    """Rows `BERT|B = 256|…` under (network, batch), of the networks that are here."""
    found = {ROW.match(about): row for about, row in table.items()}
    return {(NAMES[match[1]], int(match[2])): row for match, row in found.items() if match and match[1] in NAMES}


def pairs(published, folder):
    """(what, ours, the artifact's) of every number in use, in seconds; variation in parts of ideal."""
    def seconds(cycles):
        return None if cycles is None else cycles / HZ

    whole = by_network(read(folder / "overall_performance/all.base.txt"))
    for row in published["overall_performance"]["rows"]:
        for name, value in row["seconds"].items():
            yield f"overall {row['net']} {name}", value, seconds(whole[row["net"], row["batch"]][name])
    for row in published["batchsize"]["rows"]:
        theirs = read(folder / "overall_batchsize" / FILES[row["net"]])[str(row["batch"])]
        for name, value in row["seconds"].items():
            yield f"batch {row['net']} {row['batch']} {name}", value, seconds(theirs[name])
    for row in published["ssdbw"]["rows"]:
        table = read(folder / "sensitivity_ssdbw" / FILES[row["net"]])
        theirs = next(values for about, values in table.items() if float(about) == float(row["ssd_GBps"]))
        for name, value in row["seconds"].items():
            yield f"flash {row['net']} {row['ssd_GBps']} {name}", value, seconds(theirs[name])
    for section, parent in (("cpumem", "sensitivity_cpumem"), ("cpumem_combined", "sensitivity_cpumem_combined")):
        for row in published[section]["rows"]:
            path = folder / parent / (row["policy"] if section == "cpumem_combined" else "") / FILES[row["net"]]
            theirs = read(path)[str(row["host_mem_GiB"])][str(row["batch"])]
            yield f"{section} {row['net']} {row['batch']} {row['host_mem_GiB']}", row["seconds"], seconds(theirs)
    varied = by_network(read(folder / "sensitivity_variation/all.txt"))
    for row in published["variation"]["rows"]:
        for share, value in row["ideal_over_actual"].items():
            yield f"variation {row['net']} {share}", value, varied[row["net"], row["batch"]][share]


def equal(ours, theirs):
    if ours is None or theirs is None:
        return ours is theirs
    return math.isclose(ours, theirs, rel_tol=1e-9)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="example_results of the artifact")
    arguments = parser.parse_args()
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    try:
        found = list(pairs(published, arguments.folder))
    except (OSError, KeyError, StopIteration) as error:
        print(f"published: {arguments.folder} is not the artifact's example_results: {error!r}", file=sys.stderr)
        return 2
    differ = [(what, ours, theirs) for what, ours, theirs in found if not equal(ours, theirs)]
    for what, ours, theirs in differ:
        print(f"{what}: {ours} here, {theirs} there")
    print(f"{len(found)} numbers compared, {len(differ)} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
