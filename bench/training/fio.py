"""fio: what the disk gives, measured by somebody else. Blocks of 2 MiB, 16 at a time, past the page cache, into huge
pages that are registered: without either it reads at half the speed.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from children import ChildError

LIMIT_S = 600
SCRATCH_BYTES = 2**31


def find():
    if shutil.which("fio") is None:
        raise ChildError("fio is not installed (Debian: apt-get install fio)")


def bandwidth(file, jobs, size):
    """Bytes a second of all `jobs` ("read", "write"), which share the first `size` bytes of the file, side by side."""
    each = size // len(jobs)
    command = ["fio", "--bs=2M", "--direct=1", "--ioengine=io_uring", "--iodepth=16", "--fixedbufs", "--mem=malloc",
               "--iomem_align=2M", "--output-format=json"]
    environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    for index, job in enumerate(jobs):
        command += [f"--name={job}", f"--filename={file}", f"--rw={job}", f"--offset={index * each}", f"--size={each}"]
    if "write" not in jobs:
        command.append("--readonly")
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment)
    if done.returncode != 0:
        raise ChildError(f"fio ended with code {done.returncode}: {(done.stderr or done.stdout).strip()}")
    ran = [job[job["jobname"]] for job in json.loads(done.stdout[done.stdout.index("{"):])["jobs"]]
    return sum(job["io_bytes"] for job in ran) / (max(job["runtime"] for job in ran) / 1e3)


class Scratch:
    """A file of its own in a folder, written once: what the disk gives just now."""

    def __init__(self, folder):
        find()
        self._folder = tempfile.TemporaryDirectory(prefix="ebb-fio-", dir=folder)
        self._file = pathlib.Path(self._folder.name, "file")
        bandwidth(self._file, ["write"], SCRATCH_BYTES)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def both_ways(self):
        """Bytes a second, of reads and writes beside each other together."""
        return bandwidth(self._file, ["read", "write"], SCRATCH_BYTES)
