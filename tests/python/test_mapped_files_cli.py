"""What may become of a mapped file, or of its mapping, while a program runs under `ebb run`: beside the same program
without it, as root and as an ordinary user.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest
from ebb_program import EBB, needs_ebb
from mapping_program import PREAMBLE, WORSE, compile_c

pytestmark = needs_ebb
MIB = 2**20
# An ordinary user, who may read what lies in root's home.
ORDINARY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
            "--ambient-caps=+dac_read_search"]


@pytest.fixture(scope="module")
def files():
    """A folder that everybody may use, with files of noise."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        for file, size in (("first", 64 * MIB), ("worse", 20 * MIB + 777)):
            (folder / file).write_bytes(os.urandom(size))
            (folder / file).chmod(0o644)
        yield folder


@pytest.fixture(params=["root", "ordinary"])
def user(request):
    if request.param == "root":
        return []
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become somebody else here")
    return ORDINARY


def run(box, files, program, *arguments, user=(), memory="8MiB", flash="", stock=False, **environment):
    """A script in blocks of 256 KiB; stock: without Ebbtide."""
    script = files / "program.py"
    script.write_text(PREAMBLE + program, encoding="utf-8")
    command = [sys.executable, "-I", str(script), str(files / "first"), *map(str, arguments)]
    options = ["--memory", memory, "--block", "256KiB", "--flash", f"{files}{flash}", "--quiet"]
    prefix = [] if stock else [EBB, "run", *options, "--"]
    return subprocess.run([*user, *prefix, *command], capture_output=True, text=True, timeout=120, cwd="/", check=False,
                          env={**readable(box), "TMPDIR": str(files), **environment})


def readable(box):
    """Its environment without its own packages, which only root can read."""
    return {name: value for name, value in box.environment.items() if name not in ("EBB_PYTHON_DIR", "PYTHONPATH")}


def copy(files, name="copy"):
    path = files / name
    path.unlink(missing_ok=True)
    shutil.copy(files / "worse", path)
    path.chmod(0o666)
    return path


def compared(box, files, program, *arguments, **options):
    """Its output, which is that of the same program without Ebbtide but for lines that begin with "#"."""
    expected = run(box, files, program, *arguments, stock=True, user=options.get("user", ()))
    found = run(box, files, program, *arguments, **options)
    assert expected.returncode == 0 and found.returncode == 0, expected.stderr + found.stderr
    lines = [text.stdout.splitlines() for text in (expected, found)]
    assert [line for line in lines[0] if line[0] != "#"] == [line for line in lines[1] if line[0] != "#"]
    return [line for line in lines[1] if line[0] == "#"], found.stderr


ADVICE = """
path = sys.argv[1]
fd, size = os.open(path, os.O_RDONLY), os.path.getsize(path)
whole = (size + PAGE - 1) // PAGE * PAGE
for protection, flags in ((R | W, PRIVATE), (R, PRIVATE), (R, SHARED)):
    data = map_(fd, size, protection, flags)
    print("# managed", managed(data))
    memory = view(data, size)
    for advice in (0, 1, 2, WILLNEED, COLD, PAGEOUT, FREE, REMOVE, 10, 11, 14, 15, 16, 17, 22):
        print(protection, flags, advice, call(libc.madvise, data + 8 * MIB, MIB, advice))
    for begin, end in ((0, PAGE), (5 * PAGE, 9 * PAGE), (MIB, 3 * MIB), (4 * MIB - PAGE, 6 * MIB + PAGE),
                       (size // PAGE * PAGE, whole), (0, whole)):
        if protection & W:
            for place in range(0, size, 50_000):
                memory[place] ^= 255
            memory[size - 1] ^= 255
        print(begin, end, call(libc.madvise, data + begin, end - begin, DONTNEED), digest(data, size))
    print("mprotect", call(libc.mprotect, data, MIB, R), call(libc.mprotect, data, MIB, R | W))
    if flags == PRIVATE:
        memory[7] ^= 255
    print(digest(data, size))
print(hashlib.sha256(open(path, "rb").read()).hexdigest())
"""


def test_advice_and_protection_are_the_kernels(box, files, user):
    told, said = compared(box, files, ADVICE, files / "worse", user=user)
    assert told == ["# managed True"] * 3 and said == ""


RIGHTS = """
path = sys.argv[1]
size = os.path.getsize(path)
for mode in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH):
    fd = os.open(path, mode)
    for protection in (0, R, W, R | W):
        for flags in (PRIVATE, SHARED):
            data = map_(fd, size, protection, flags)
            print(mode, protection, flags, data if isinstance(data, str) else "mapped")
            if isinstance(data, int) and protection == R and flags == SHARED:
                print("#", mode, managed(data))
                can = call(libc.mprotect, data, size, R | W)
                print(can)
                if can == "0":
                    view(data, size)[123_456] = 77
    os.close(fd)
print(map_(fd, size), map_(os.open("/", os.O_RDONLY), MIB), map_(os.open(path, os.O_RDONLY), size, R, PRIVATE, 100))
print(open(path, "rb").read()[123_456])
"""


def test_what_may_not_be_mapped_or_written(box, files, user):
    """Also by who does not own the file, and so cannot ask who else has it open for writing."""
    told, _ = compared(box, files, RIGHTS, copy(files), user=user)
    assert told == ["# 0 True", "# 2 False"]


CHANGED = """
path, how = sys.argv[1:]
fd, size = os.open(path, os.O_RDONLY), os.path.getsize(path)
data = map_(fd, size)
before = digest(data, size)
if how == "truncated":
    os.truncate(path, 3 * MIB + 5)
elif how == "overwritten":
    with open(path, "r+b") as file:
        for place in range(100, size, 100_000):
            file.seek(place)
            file.write(b"other")
elif how == "replaced":
    open(path + ".new", "wb").write(bytes(size))
    os.rename(path + ".new", path)
elif how == "unlinked":
    os.unlink(path)
elif how == "grown":
    open(path, "ab").write(b"more" * 10_000)
elif how == "failing":
    open(os.environ["WORSE_DISK"], "w").close()
print(managed(data), [digest(data, size) == before for _ in range(3)])
"""


@pytest.mark.parametrize("how", ["replaced", "unlinked", "grown"])
def test_a_file_that_is_still_what_it_was(box, files, user, how):
    found = run(box, files, CHANGED, copy(files), how, user=user)
    assert found.stdout == "True [True, True, True]\n", found.stderr


def test_a_file_that_has_shrunk(box, files, user):
    path = copy(files)
    found = run(box, files, CHANGED, path, "truncated", user=user)
    assert found.returncode == -signal.SIGBUS and found.stdout == ""
    assert f"'{path}' cannot be read any more, or has shrunk" in found.stderr


WRITTEN = """
path, how = sys.argv[1:]
fd, size = os.open(path, os.O_RDONLY), os.path.getsize(path)
data = map_(fd, size, R, SHARED)
print("#", managed(data))
print(digest(data, size))
for turn in range(3):
    if how == "mapped":
        other = map_(os.open(path, os.O_RDWR), size, R | W, SHARED)
        for place in range(100 + turn, size, 100_000):
            view(other, size)[place] ^= 255
    elif how == "written":
        with open(path, "r+b") as file:
            for place in range(100 + turn, size, 100_000):
                file.seek(place)
                file.write(b"other")
    else:
        subprocess.run([sys.executable, "-c", "import sys; f = open(sys.argv[1], 'r+b'); f.seek(3_000_000); "
                        "f.write(sys.argv[2].encode() * 1_000_000)", path, str(turn)], check=True)
    time.sleep(1)  # the mapping shows it within less
    print(digest(data, size))
"""


@pytest.mark.parametrize("how", ["mapped", "written", "elsewhere"])
@pytest.mark.parametrize("memory", ["8MiB", "64MiB"])
def test_a_shared_mapping_shows_what_is_written_to_its_file(box, files, user, how, memory):
    script = "import subprocess, time\n" + WRITTEN
    expected = run(box, files, script, copy(files), how, user=user, stock=True)
    found = run(box, files, script, copy(files), how, user=user, memory=memory)
    assert expected.returncode == found.returncode == 0, found.stderr
    told, *lines = found.stdout.splitlines()
    assert told == "# True" and lines == expected.stdout.splitlines()[1:] and len(set(lines)) == 4


def test_a_private_mapping_goes_on_with_what_its_file_has(box, files, user):
    found = run(box, files, CHANGED, copy(files), "overwritten", user=user)
    assert (found.returncode, found.stdout, found.stderr) == (0, "True [False, False, False]\n", "")


def test_a_disk_that_fails(box, files):
    library, path = compile_c(files, "worse.so", WORSE, "-shared", "-fPIC"), copy(files, "worse-copy")
    failing = files / "failing"
    failing.unlink(missing_ok=True)
    found = run(box, files, CHANGED, path, "failing", LD_PRELOAD=str(library), WORSE_DISK=str(failing),
                EBB_FLASH_DRIVER="threads")
    assert found.returncode == -signal.SIGBUS and f"'{path}' cannot be read any more" in found.stderr


PASSES = """
fd, size = os.open(sys.argv[1], os.O_RDONLY), os.path.getsize(sys.argv[1])
print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())
for offset, length in ((0, size), (3 * PAGE, size - 3 * PAGE), (2 * MIB + 77 * PAGE, 5 * MIB + 123)):
    data = map_(fd, length, R, PRIVATE, offset)
    print("#", managed(data))
    print(digest(data, length), digest(data, length), bytes(view(data + length, -length % PAGE)))
"""


@pytest.mark.parametrize("worse", ["WORSE_OPEN", "WORSE_READ"])
def test_a_file_system_without_direct_reading(box, files, user, worse):
    library = compile_c(files, "worse.so", WORSE, "-shared", "-fPIC")
    told, said = compared(box, files, PASSES, files / "worse", user=user, LD_PRELOAD=str(library),
                          EBB_FLASH_DRIVER="threads", **{worse: "1"})
    assert told == ["# True"] * 3
    assert said.count("cannot be read past the page cache") == 1 and str(files / "worse") in said


def test_a_ram_disk_is_left_to_the_kernel(box, files, user):
    """Managed, it would be in memory twice."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no RAM disk here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        os.chmod(name, 0o755)
        told, said = compared(box, files, PASSES, shutil.copy(files / "worse", name), user=user)
    assert told == ["# False"] * 3 and said == ""


MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-b", "1024", "IMAGE"],
    "btrfs": ["mkfs.btrfs", "-q", "IMAGE"],
    "squashfs": ["mksquashfs", "FOLDER", "IMAGE", "-quiet", "-noappend"],
}


@pytest.mark.parametrize("kind", MAKE)
def test_file_systems(box, files, kind):
    """Small blocks, compressed ones, holes: each in a file system of its own, if one can be made here."""
    if os.geteuid() != 0 or not shutil.which(MAKE[kind][0]):
        pytest.skip(f"no {MAKE[kind][0]}, or not root")
    image, folder = box.path / "image", box.path / "folder"
    folder.mkdir()
    with (folder / "text").open("wb") as file:
        file.writelines(b"line %d\n" % i for i in range(1_500_000))
    with (folder / "sparse").open("wb") as file:
        for place in (0, 5 * MIB + 1, 17 * MIB):
            file.seek(place)
            file.write(b"something")
        file.truncate(20 * MIB + 5)
    with image.open("wb") as file:
        file.truncate(256 * MIB)
    words = {"IMAGE": str(image), "FOLDER": str(folder)}
    subprocess.run([words.get(word, word) for word in MAKE[kind]], check=True, capture_output=True)
    where = box.path / "mounted"
    where.mkdir()
    options = "loop,compress-force=zstd" if kind == "btrfs" else "loop"
    if subprocess.run(["mount", "-o", options, image, where], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{kind} cannot be mounted here")
    try:
        for name in ("text", "sparse"):
            if kind != "squashfs":
                shutil.copy(folder / name, where / name)
            told, said = compared(box, files, PASSES, where / name)
            assert told == ["# True"] * 3
            assert ("past the page cache" in said) == (kind == "squashfs")
    finally:
        subprocess.run(["umount", where], check=True)


MANY = """
path, count, size, step = sys.argv[1], *map(int, sys.argv[2:])
fd, end, all_, times = os.open(path, os.O_RDONLY), os.path.getsize(path), [], []
for turn in range(5):
    begin = time.perf_counter()
    for i in range(turn * count // 5, (turn + 1) * count // 5):
        offset = i * step % (end - size) // PAGE * PAGE
        all_.append((map_(fd, size, R, PRIVATE, offset), offset))
    times.append(time.perf_counter() - begin)
content = open(path, "rb")
for data, offset in all_[::97]:
    content.seek(offset)
    assert bytes(view(data, PAGE)) == content.read(PAGE)
print(managed(all_[0][0]), min(times), max(times[-1], 0.01))
for data, _ in all_:
    assert libc.munmap(data, size) == 0
"""


@pytest.mark.parametrize("size, memory", [(64 * 1024, "8MiB"), (2 * MIB, "64MiB"), (2 * MIB, "8MiB")])
def test_ten_thousand_mappings(box, files, user, size, memory):
    """Small ones, which are the kernel's; large ones; and more than a small budget has room for the tables of."""
    found = run(box, files, MANY, files / "first", 10_000, size, 12_345, user=user, memory=memory)
    assert found.returncode == 0, found.stderr
    managed, fastest, last = found.stdout.split()
    assert managed == str(size > MIB)
    assert float(last) < 20 * max(float(fastest), 0.01), "each mapping takes longer than the one before"
    assert found.stderr.count("left to the kernel") == (memory == "8MiB" and size > MIB), found.stderr


HUGE = """
fd, size = os.open(sys.argv[1], os.O_RDONLY), os.path.getsize(sys.argv[1])
data = map_(fd, size)
print(managed(data), bytes(view(data + 5 * 2**30, 4)), managed(map_(fd, 64 * MIB)))
"""


@pytest.mark.parametrize("gib, memory, remedy", [(40, "64MiB", None), (40, "8MiB", "--memory"),
                                                (200, "8MiB", "--flash DIR:SIZE")])
def test_a_file_larger_than_memory_and_flash(box, files, user, gib, memory, remedy):
    """It needs neither, but tables, and addresses, of which there are half a million blocks."""
    path = files / "huge"
    with path.open("wb") as file:
        file.truncate(gib * 2**30)
        file.seek(5 * 2**30)
        file.write(b"here")
    found = run(box, files, HUGE, path, user=user, memory=memory, flash=":200MiB")
    path.unlink()
    assert found.stdout == f"{remedy is None} b'here' True\n", found.stderr
    if remedy is None:
        assert found.stderr == ""
    else:
        assert found.stderr.count("\n") == 1 and "left to the kernel" in found.stderr and remedy in found.stderr
        assert f" GiB of '{path}'" in found.stderr


MANY_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
kept = []
for i in range(100):
    path = f"{sys.argv[1]}.{i}"
    with open(path, "wb") as file:
        file.truncate(2 * MIB)
        file.write(b"%d" % i)
    fd = os.open(path, os.O_RDONLY)
    kept.append(map_(fd, 2 * MIB))
    os.close(fd)
    os.unlink(path)
assert all(bytes(view(data, 2)).startswith(b"%d" % i) for i, data in enumerate(kept))
print(managed(kept[0]), managed(kept[-1]))
"""


def test_descriptors_are_the_programs(box, files, user):
    found = run(box, files, MANY_FILES, files / "many", user=user)
    assert found.stdout == "True False\n", found.stderr
    assert found.stderr.count("\n") == 1 and "ulimit -n" in found.stderr


HELLO = '#include <stdio.h>\nint main(void) { return puts("hello") < 0; }\n'


def summary_of(box, *command, user=()):
    found = subprocess.run([*user, EBB, "run", "--memory", "32MiB", "--", *command], capture_output=True,
                           text=True, timeout=60, cwd="/", env={**readable(box), "TMPDIR": "/tmp"}, check=False)
    assert found.returncode == 0 and found.stdout == "hello\n", found.stderr
    return found.stderr.splitlines()


def test_a_static_program_is_told_of(box, files, user):
    program = compile_c(files, "static", HELLO, "-static")
    said = summary_of(box, str(program), user=user)
    assert len(said) == 2
    assert f"'{program}' is linked statically" in said[0] and "linked dynamically" in said[0]
    assert f"no memory was managed: '{program}' is linked statically" in said[1]
    # What a script starts is not known beforehand; the summary names what it may have been.
    script = files / "script"
    script.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    script.chmod(0o755)
    said = summary_of(box, str(script), user=user)
    assert len(said) == 1 and "linked statically" in said[0]
    # A script whose interpreter is static is one, too.
    script.write_text(f"#!{program}\n", encoding="utf-8")
    assert "is linked statically" in summary_of(box, str(script), user=user)[0]


def test_a_program_with_rights_of_its_own_is_told_of(box, files):
    if os.geteuid() != 0:
        pytest.skip("only root can make one")
    program = compile_c(files, "others", HELLO)
    assert len(summary_of(box, str(program))) == 1, "an ordinary program"
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    said = summary_of(box, str(program))
    assert f"'{program}' is set-uid" in said[0] and len(said) == 2
