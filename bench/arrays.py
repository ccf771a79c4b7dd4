#!/usr/bin/env python3
"""Combined operators beside single ones, and beside NumPy, numexpr and torch.compile, on arrays beyond the cache.

    bench/arrays.py [--elements N] [--rounds N] [--json] [--save]

Contenders take turns by rounds in one process; reported are medians, of times and of the quotients within a round.
"Single" are the same operators with combination switched off, each a pass of its own; both sides run the same kernels
on the same threads. All use as many threads as there are cores, but "numpy", which is the expression as one writes it:
it has one thread, and above glibc's largest threshold (32 MiB) its results and temporaries are fresh pages each time.
"numpy, in parts" is what one writes instead: parts that fit in the cache, on all threads, into a given array. numexpr
and torch.compile write into a given array, ebbtide into what it freed; so these pay for no fresh pages. Before anything
is timed every element is compared: with NumPy's up to rounding, and combined with single operators to the bit.
Compilers have compiled by then. The bandwidth of a pass is set beside a STREAM triad (McCalpin) compiled here with -O3
-march=native, on as many threads, in its turn. A peer that is not installed is named with the reason.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "python"))

import numpy as np  # noqa: E402
from output import print_table, save, sitting  # noqa: E402
from reports.arrays import combination_table, expressions_table  # noqa: E402

import ebbtide.array as xp  # noqa: E402
from ebbtide import _array  # noqa: E402

# The same text for NumPy, numexpr, torch and us, and the functions in it.
EXPRESSIONS = ("2*a + 3*b", "a*b - 4.1*a", "sqrt(a*a + b*b)", "exp(-a*a)*b", "sin(a)*sin(a) + cos(b)")
FUNCTIONS = ("sqrt", "exp", "sin", "cos")
TRIAD = """extern "C" void triad(float* a, const float* b, const float* c, long n) {
#pragma omp parallel for
  for (long i = 0; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
}
"""
# A contender's threads may spin for a while after its turn (OpenMP's do), which would be taken from the next one's.
REST_S = 0.02
PART = 1 << 16  # elements: 256 KiB of each array


def turns(contenders, rounds):
    """Seconds of each in every round, taking turns; the first turn does not count."""
    times = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            time.sleep(REST_S)
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - start)
    return times


def medians(times):
    return {name: statistics.median(values) for name, values in times.items()}


def ratio(times, above, below):
    """The median over rounds of the quotient within a round: a machine that is slow for a while is so for both."""
    return statistics.median(x / y for x, y in zip(times[above], times[below]))


def triad_of_stream(elements, folder):
    """McCalpin's triad as a function without arguments, on arrays like those of the other contenders."""
    source, library = pathlib.Path(folder, "triad.cc"), pathlib.Path(folder, "triad.so")
    source.write_text(TRIAD, encoding="utf-8")
    subprocess.run([os.environ.get("CXX", "c++"), "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-o", library,
                    source], check=True)
    function = ctypes.CDLL(str(library)).triad
    arrays = [np.full(elements, value, np.float32) for value in (0, 1, 2)]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]

    def run():
        function(*pointers, ctypes.c_long(elements))
        return arrays[0]

    if not np.array_equal(run(), np.full(elements, 7, np.float32)):
        raise SystemExit("the triad that was compiled computes something else")
    return run


def combination(elements, rounds):
    """Chains of operators with one operand, combined and one at a time."""
    x = xp.uniform((elements,), seed=1).evaluate()
    b = xp.uniform((elements,), seed=2).evaluate()
    limits = _array.limits()

    def chain(length):
        y = x
        for i in range(length):
            y = y * 1.5 if i % 2 else y + 0.5
        return y

    def single(length):
        _array.set_limits(1, 1, 0)
        y = chain(length).evaluate()
        _array.set_limits(*limits)
        return y

    contenders = {}
    for length in (2, 8):
        both = [np.from_dlpack(chain(length).evaluate()), np.from_dlpack(single(length))]
        if both[0].tobytes() != both[1].tobytes():
            raise SystemExit(f"{length} operators combined compute something else than one by one")
        contenders[f"{length} combined"] = lambda n=length: chain(n).evaluate()
        contenders[f"{length} single"] = lambda n=length: single(n)
    contenders["triad"] = lambda: (x + 3.0 * b).evaluate()
    with tempfile.TemporaryDirectory() as folder:
        contenders["STREAM's triad"] = triad_of_stream(elements, folder)
        times = turns(contenders, rounds)
    seconds = medians(times)
    moved = 3 * 4 * elements
    return {"times": times, "seconds": seconds, "two": ratio(times, "2 single", "2 combined"),
            "eight": ratio(times, "8 single", "8 combined"),
            "stream_triad_bytes_per_s": moved / seconds["STREAM's triad"],
            "our_triad_bytes_per_s": moved / seconds["triad"], "of_stream": ratio(times, "STREAM's triad", "triad")}


def compiled_by_torch(text, a, b):
    """The expression as torch.compile has it from a program: a function of the expression's source."""
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    scope = {name: getattr(torch, name) for name in FUNCTIONS}
    exec(f"def function(a, b, out):\n    out.copy_({text})", scope)
    compiled = torch.compile(scope["function"], fullgraph=True, dynamic=False)
    s, t = torch.from_numpy(a), torch.from_numpy(b)
    out = torch.from_numpy(np.empty_like(a))  # on huge pages, as NumPy asks for them

    def run():
        compiled(s, t, out)
        return out

    run()  # compiles
    return run


def in_parts(code, functions, a, b):
    """NumPy on all threads, into a given array, with temporaries that stay in the cache."""
    out = np.empty_like(a)
    pool = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def part(begin):
        at = slice(begin, begin + PART)
        out[at] = eval(code, functions, {"a": a[at], "b": b[at]})

    def run():
        list(pool.map(part, range(0, len(a), PART)))
        return out

    return run


def contenders_of(text, a, b, missing):
    functions = {name: getattr(np, name) for name in FUNCTIONS}
    x, y = xp.asarray(a), xp.asarray(b)
    ours = {name: getattr(xp, name) for name in FUNCTIONS}
    code = compile(text, "expression", "eval")
    found = {"ebbtide": lambda: eval(code, ours, {"a": x, "b": y}).evaluate(),
             "numpy": lambda: eval(code, functions, {"a": a, "b": b}),
             "numpy, in parts": in_parts(code, functions, a, b)}
    try:
        import numexpr

        numexpr.set_num_threads(len(os.sched_getaffinity(0)))
        out = np.empty_like(a)
        found["numexpr"] = lambda: numexpr.evaluate(text, {"a": a, "b": b}, out=out)
    except ImportError as error:
        missing["numexpr"] = f"not installed: {error}"
    try:
        found["torch.compile"] = compiled_by_torch(text, a, b)
    except Exception as error:  # noqa: BLE001, whatever the compiler of this machine lacks
        missing["torch.compile"] = f"{type(error).__name__}: {str(error)[:200]}"
    return found


def expression(text, a, b, rounds, missing):
    found = contenders_of(text, a, b, missing)
    want = found["numpy"]()
    for name, run in found.items():
        got = np.from_dlpack(run())
        if not np.allclose(got, want, rtol=1e-5, atol=1e-6):
            raise SystemExit(f"{name} computes something else than NumPy for {text}")
    return turns(found, rounds)


def with_best_peer(times):
    seconds = medians(times)
    best = min((name for name in seconds if name != "ebbtide"), key=seconds.get)
    return {"times": times, "seconds": seconds, "best_peer": best, "speedup": ratio(times, best, "ebbtide")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--elements", type=int, default=1 << 25, help="of every array, f32 (default 2^25)")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--quick", action="store_true", help="2^20 elements and two rounds, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of tables")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.elements, arguments.rounds = 1 << 20, 2
    missing: dict = {}
    results = {**sitting(), "quick": arguments.quick, "elements": arguments.elements, "rounds": arguments.rounds,
               "combination": combination(arguments.elements, arguments.rounds)}
    rng = np.random.default_rng(1)
    a, b = (rng.random(arguments.elements, dtype=np.float32) for _ in range(2))
    results["expressions"] = {text: with_best_peer(expression(text, a, b, arguments.rounds, missing))
                              for text in EXPRESSIONS}
    results["missing"] = missing
    if arguments.json:
        print(json.dumps(results, indent=1))
    else:
        print_table(combination_table(results))
        print_table(expressions_table(results))
        for name, reason in missing.items():
            print(f"{name}: {reason}")
    if arguments.save:
        print(f"saved {save(results, 'arrays')}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
