"""Programs that map files as C does, for tests of the command line; and a library that makes a file system worse."""

import shutil
import subprocess

import pytest

# Before each program: the C library's calls, and a mapping that gives the process its runtime. argv[1] is a file of
# 64 MiB, and whatever follows is the program's.
PREAMBLE = """
import ctypes, errno, hashlib, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
SIZE, POINTER, LONG = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_long
libc.mmap.restype = POINTER
libc.mmap.argtypes = [POINTER, SIZE, ctypes.c_int, ctypes.c_int, ctypes.c_int, LONG]
libc.munmap.argtypes = [POINTER, SIZE]
libc.mprotect.argtypes = libc.madvise.argtypes = [POINTER, SIZE, ctypes.c_int]
MIB, PAGE, R, W, SHARED, PRIVATE = 2**20, 4096, 1, 2, 1, 2
DONTNEED, FREE, REMOVE, WILLNEED, COLD, PAGEOUT = 4, 8, 9, 3, 20, 21

def call(function, *arguments):
    return "0" if function(*arguments) == 0 else errno.errorcode[ctypes.get_errno()]

def map_(fd, size, protection=R, flags=PRIVATE, offset=0):
    data = libc.mmap(None, size, protection, flags, fd, offset)
    return errno.errorcode[ctypes.get_errno()] if data == POINTER(-1).value else data

def view(data, size):
    return (ctypes.c_ubyte * size).from_address(data)

def digest(data, size):
    return hashlib.sha256(memoryview(view(data, size))).hexdigest()

def managed(data):
    for line in open("/proc/self/maps"):
        first, last = (int(word, 16) for word in line.split()[0].split("-"))
        if first <= data < last:
            return len(line.split()) < 6 or not line.split()[5].startswith("/") or "memfd:" in line
    return None

map_(os.open(sys.argv[1], os.O_RDONLY), 64 * MIB)
sys.argv.pop(1)
"""

# Preloaded in front: WORSE_OPEN refuses O_DIRECT, WORSE_READ refuses to read what was opened so, WORSE_DISK is a file
# that makes each read of files with "worse" in their names fail as long as it is there.
WORSE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int named_worse(int fd) {
  char link[64], name[512];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, name, sizeof name - 1);
  name[n < 0 ? 0 : n] = 0;
  return strstr(name, "worse") != 0;
}

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  int fd = ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
  if (fd >= 0 && (flags & O_DIRECT) && getenv("WORSE_OPEN") && named_worse(fd)) {
    close(fd);
    errno = EINVAL;
    return -1;
  }
  return fd;
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));

ssize_t pread(int fd, void *data, size_t size, off_t at) {
  const char *disk = getenv("WORSE_DISK");
  if (disk && access(disk, F_OK) == 0 && named_worse(fd)) {
    errno = EIO;
    return -1;
  }
  if (getenv("WORSE_READ") && (fcntl(fd, F_GETFL) & O_DIRECT) && named_worse(fd)) {
    errno = EINVAL;
    return -1;
  }
  return ((ssize_t (*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread"))(fd, data, size, at);
}
ssize_t pread64(int, void *, size_t, off_t) __attribute__((alias("pread")));
"""


def compile_c(folder, name, source, *options):
    """What was made of it; skips where there is no compiler, or not what it takes."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    code = folder / f"{name}.c"
    code.write_text(source, encoding="utf-8")
    made = subprocess.run([compiler, *options, "-o", folder / name, code, "-ldl"], capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"cannot be compiled here: {made.stderr.decode()}")
    return folder / name
