#!/usr/bin/env python3
"""Converts what G10's artifact has worked out of a network into a trace (docs/trace.md).

    python3 bench/g10/convert.py STATISTICS --model BERT_Base --batch 256 --times measured --to FILE.jsonl.gz

STATISTICS is a folder `results/NET/BATCH-POLICY/statistics` that the artifact's program (github.com/platformxlab/G10,
`make` in src, `./gpg configs/BERT/256-sim_lru.config`) writes before it begins to simulate. Its files, described in the
artifact's results/README.md, are text:

    tensors.config  every tensor: number, whether it is global (lives across iterations), bytes in whole pages
    kernels.config  every launch in order: name, execution time in cycles of 1.2 GHz, tensors in and out
    layers.config   for each layer its tensors by role; a gradient's role begins with `d_`

A global tensor is a weight here, what a layer calls `d_…` a gradient, what stands in no layer a workspace, and the rest
are activations. Of tensors in a launch the artifact's order depends on addresses, so they are written in that of their
numbers. The same input gives the same bytes.
"""

import argparse
import gzip
import json
import pathlib
import re
import sys

TENSOR = re.compile(r"tensor(\d+) Is weight \(global\)\?: ([01]), Size in byte: (\d+)")
ROLE = re.compile(r"(\w[\w ]*?)(?:\(s\))?:\s*(?=tensor|$)")
KERNEL = re.compile(r"Kernel ID: (\d+), Name: (\w+)$")
SOURCE = "G10 artifact (platformxlab/G10, Apache-2.0), network and kernel-time files"
DEVICE = "NVIDIA A100 (per-kernel times)"


class FormatError(Exception):
    """A file that is not what the artifact writes; the message names it."""


def read_lines(folder, name):
    """The lines of a file, which may be compressed."""
    for path, opened in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
        if path.is_file():
            with opened(path, "rt", encoding="utf-8") as file:
                return file.read().splitlines()
    raise FormatError(f"{folder / name} is not there: name a folder `statistics` of the artifact's results")


def read_tensors(lines):
    """Number to (bytes, whether global), in order."""
    found = [match for match in map(TENSOR.match, lines) if match]
    tensors = {int(match[1]): (int(match[3]), match[2] == "1") for match in found}
    if not tensors:
        raise FormatError("tensors.config names no tensor")
    return dict(sorted(tensors.items()))


def read_roles(lines):
    """Tensors that stand in a layer, and those of them that are gradients."""
    named, gradients, role = set(), set(), ""
    for line in lines:
        tensor = TENSOR.search(line)
        start = ROLE.match(line)
        if start:
            role = start[1]
        if tensor:
            named.add(int(tensor[1]))
            if role.startswith("d_"):
                gradients.add(int(tensor[1]))
    return named, gradients


def nanoseconds(cycles):
    """Of 1.2 GHz, rounded to the nearest, a half to the even one."""
    return round(5 * cycles / 6)


def read_kernels(lines):
    """Launches as the trace has them."""
    launches, side = [], None
    for line in lines:
        kernel = KERNEL.match(line)
        if kernel:
            if int(kernel[1]) != len(launches):
                raise FormatError(f"kernels.config: kernel {kernel[1]} where {len(launches)} was expected")
            launches.append({"launch": len(launches), "op": kernel[2], "ns": 0, "reads": set(), "writes": set()})
            side = None
        elif line.startswith("Execution Time:"):
            launches[-1]["ns"] = nanoseconds(int(line.split(":")[1]))
        elif line.startswith("Input Tensors:"):
            side = "reads"
        elif line.startswith("Output Tensors:"):
            side = "writes"
        elif side and (tensor := TENSOR.match(line)):
            launches[-1][side].add(int(tensor[1]))
    if not launches:
        raise FormatError("kernels.config names no kernel")
    return [{**launch, "reads": sorted(launch["reads"]), "writes": sorted(launch["writes"])} for launch in launches]


def convert(folder, model, batch, times):
    """The lines of the trace, as objects."""
    tensors = read_tensors(read_lines(folder, "tensors.config"))
    named, gradients = read_roles(read_lines(folder, "layers.config"))
    launches = read_kernels(read_lines(folder, "kernels.config"))
    lines = [{"format": "ebb-trace", "version": 1, "model": model, "batch": batch, "device": DEVICE, "source": SOURCE,
              "times": times}]
    used = {number for launch in launches for side in ("reads", "writes") for number in launch[side]}
    if unknown := sorted(used - tensors.keys()):
        raise FormatError(f"kernels.config: tensor {unknown[0]} is not in tensors.config")
    for number, (size, persistent) in tensors.items():
        kind = ("weight" if persistent else "gradient" if number in gradients
                else "activation" if number in named else "workspace")
        lines.append({"tensor": number, "bytes": size, "kind": kind, "persistent": persistent})
    return lines + launches


def text_of(lines):
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def write(path, text):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    else:
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("statistics", type=pathlib.Path, help="folder results/NET/BATCH-POLICY/statistics")
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--times", default="measured", help="where the kernel times come from (default: measured)")
    parser.add_argument("--to", type=pathlib.Path, required=True, help="FILE.jsonl or FILE.jsonl.gz")
    arguments = parser.parse_args()
    try:
        write(arguments.to, text_of(convert(arguments.statistics, arguments.model, arguments.batch, arguments.times)))
    except (FormatError, OSError) as error:
        print(f"convert: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
