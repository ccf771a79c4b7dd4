"""Stock PyTorch as somebody would run it who knows how: huge pages, and memory that is kept after it is freed.

Ebbtide asks for huge pages and keeps its frames, so a comparison with an allocator that does neither says little. Which
way is best depends on the program: each is tried in the same sitting, and the fastest is the contender.
"""

import os
import statistics
import subprocess

import children

GLIBC = ("glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=17179869184:"
         "glibc.malloc.top_pad=268435456")
AS_IT_COMES = "as it comes"
TRIED_STEPS = 4  # a turn, of which the last two count
TIMEOUT_S = 3600
PRELOADED = {
    "jemalloc": ("libjemalloc.so.2",
                 {"MALLOC_CONF": "thp:always,dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0"}),
    "mimalloc": ("libmimalloc.so.2", {"MIMALLOC_ALLOW_LARGE_OS_PAGES": "1", "MIMALLOC_PURGE_DELAY": "-1"}),
}


def can_be_preloaded(library):
    """Loading it into this process would not tell: jemalloc needs more thread-local storage than is left by then."""
    tried = subprocess.run(["true"], env=os.environ | {"LD_PRELOAD": library}, capture_output=True, check=False)
    return not tried.stderr  # of the loader, which goes on without what it cannot load


def ways():
    """Name to the variables of the environment, of those that this machine has; and notes about the others."""
    found = {AS_IT_COMES: {}, "glibc's tunables": {"GLIBC_TUNABLES": GLIBC},
             "THP_MEM_ALLOC_ENABLE": {"THP_MEM_ALLOC_ENABLE": "1"},
             "both": {"GLIBC_TUNABLES": GLIBC, "THP_MEM_ALLOC_ENABLE": "1"}}
    notes = []
    for name, (library, variables) in PRELOADED.items():
        if can_be_preloaded(library):
            found[name] = {"LD_PRELOAD": library, **variables}
        else:
            notes.append(f"stock with {name}: {library} is not installed")
    return found, notes


def run(script, way, cgroup=None):
    """One turn; `way` is the environment's variables."""
    return children.run(script, env=children.environment(way), timeout=TIMEOUT_S, cgroup=cgroup).check()


def calibrate(script_of_steps, progress):
    """The fastest way but the first, the variables of it, and what each took: seconds of the steps that count."""
    found, notes = ways()
    seconds = {}
    for name, variables in found.items():
        progress(f"stock, {name}")
        try:
            seconds[name] = run(script_of_steps(TRIED_STEPS), variables).all("seconds")[-2:]
        except children.ChildError as error:
            notes.append(f"stock with {name}: {error.reason()}")
    tuned = {name: statistics.mean(values) for name, values in seconds.items() if name != AS_IT_COMES}
    if not tuned:
        raise children.ChildError("stock PyTorch runs in no tuned way here: " + "; ".join(notes))
    best = min(tuned, key=tuned.get)
    return best, found[best], {"seconds": seconds, "notes": notes, "chosen": best, "variables": found[best]}
