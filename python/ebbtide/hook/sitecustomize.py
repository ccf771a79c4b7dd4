"""Start-up hook of `ebb run`: Python imports this module by itself, because its directory leads PYTHONPATH.

It waits for the program to import torch and then calls ebbtide._enable_from_environment(): the process joins the job
of `ebb run`, and has a share of its budget as soon as it needs one. Each gets a page for its statistics: the first
process that is no launcher, each rank that a launcher has started on this machine (torchrun and all that sets
LOCAL_RANK as it does), and by its process id any other. Everything else is left as Python would have it without us:
another sitecustomize further along sys.path is run, our directory disappears from sys.path, and torch keeps its own
loader. Where there is no job (EBB_JOB is not set: the memory of a GPU) the budget is the first process's, or in equal
parts the ranks', and `ebb run` is told how many others imported torch.

A program that was to be managed and cannot be is stopped with exit code 2: running it unmanaged, silently, would let
it take all the memory that the budget was meant to save. Nothing else here may raise. Kept free of syntax that old
interpreters reject, since any Python the program starts reads this file.
"""

import os
import sys

_OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
_EXIT_CODE = 2
_OF_THE_FIRST = ("EBB_RECORD", "EBB_RECORD_ITERATIONS", "EBB_GUIDE")


def _stop(message):
    """End this process at once: an exception could be caught by the program, which would then run unmanaged."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    try:
        # Straight to the descriptor: the program may have replaced sys.stderr.
        os.write(2, ("ebb: %s\n" % message).encode("utf-8", "replace"))
    finally:
        os._exit(_EXIT_CODE)


def _rank():
    """This process's number among the ranks that a launcher has started on this machine, and how many they are."""
    try:
        rank, size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    except (KeyError, ValueError):
        return None
    return (rank, size) if 0 <= rank < size else None


def _launches():
    """Whether this process only starts ranks: it imports torch for that, and has no tensors."""
    words = getattr(sys, "orig_argv", sys.argv)
    modules = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
    named = [os.path.basename(word) for word in words[:3]]
    return "torchrun" in named or any(module in words[:4] for module in modules) or (
        "accelerate" in named and "launch" in words
    )


def _only_launches():
    return _rank() is None and _launches()


def _claim(path):
    """Whether this process is the one to be managed: it created the claim file, or did so before an exec."""
    own = str(os.getpid())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        try:
            with open(path) as claim:
                return claim.read() == own
        except OSError:
            return False
    except OSError:
        return False  # `ebb run` has ended and taken its directory along
    try:
        os.write(descriptor, own.encode())
    finally:
        os.close(descriptor)
    return True


def _rank_claim(path, rank):
    return path + ".rank%d" % rank


def _page():
    """The name of the page of the run; EBB_STATS may be that of the process that has started this one."""
    folder, name = os.path.split(os.environ["EBB_STATS"])
    return os.path.join(folder, name.split(".")[0])


def _claim_rank(path, rank, size):
    """The same for a rank, which may be started again after one with its number has ended; sets what is its share."""
    path = _rank_claim(path, rank)
    try:
        with open(path) as claim:
            holder = claim.read()
        if holder.isdigit() and not os.path.exists("/proc/" + holder):
            os.unlink(path)
    except OSError:
        pass
    if not _claim(path):
        return False
    if os.environ["EBB_STATS"].endswith(".rank%d" % rank):
        return True  # set before an exec
    os.environ["EBB_STATS"] = _page() + ".rank%d" % rank
    if "EBB_JOB" in os.environ:
        return True
    os.environ["EBB_MEMORY"] = str(int(os.environ["EBB_MEMORY"]) // size)
    directory, colon, limit = os.environ["EBB_FLASH"].rpartition(":")
    if colon and limit.isdigit():
        os.environ["EBB_FLASH"] = "%s:%d" % (directory, int(limit) // size)
    return True


def _join(path):
    """Takes a part in the job, or what is there of it: a name for the page, and the number of a rank."""
    rank = _rank()
    launches = _only_launches()
    os.environ["EBB_RANK"] = ""
    if not os.path.exists(os.path.dirname(path)):
        return False  # `ebb run` has ended and taken its directory along
    if rank is not None and _claim_rank(path, *rank):
        os.environ["EBB_RANK"] = "%d/%d" % rank
        first = rank[0] == 0
    else:
        first = rank is None and not launches and _claim(path)
        os.environ["EBB_STATS"] = _page() if first else _page() + ".p%d" % os.getpid()
    if not first and not launches:  # what it launches may be
        for name in _OF_THE_FIRST:
            os.environ.pop(name, None)
    return True


def _belongs():
    """Whether this process is to be managed. Without a job some are not, although they import torch: they are counted.
    """
    path = os.environ.get("EBB_CLAIM")
    if not path:
        return False
    if "EBB_JOB" in os.environ:
        return _join(path)
    if _launches():
        return False
    rank = _rank()
    if _claim(path) if rank is None else _claim_rank(path, *rank):
        return True
    try:
        descriptor = os.open(path + ".others", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(descriptor, b".")
        os.close(descriptor)
    except OSError:
        pass
    return False


def _enable():
    """Hand this process's memory to Ebbtide, or stop it with the reason."""
    if not _belongs():
        return
    importing = sys.modules.get("ebbtide.torch")
    if importing is not None and not hasattr(importing, "_enable_from_environment"):
        importing._when_imported = _start  # the program's use of ebbtide is what imports torch
    else:
        _start()


def _start():
    try:
        import ebbtide
    except Exception as error:
        _stop(_unloadable(error))
    # What a launcher hands on is its ranks'; a guide would have it make memory ready.
    of_its_ranks = {}
    if _only_launches():
        of_its_ranks = {name: os.environ.pop(name) for name in _OF_THE_FIRST if name in os.environ}
    try:
        ebbtide._enable_from_environment()
        os.environ.update(of_its_ranks)
    except ImportError as error:
        _stop(_unloadable(error))
    except Exception as error:
        expected = getattr(ebbtide, "Error", None)
        if isinstance(expected, type) and isinstance(error, expected):
            _stop(str(error))
        import traceback

        _stop("memory management could not start:\n%s" % traceback.format_exc().rstrip())


def _unloadable(error):
    torch = sys.modules.get("torch")
    version = getattr(torch, "__version__", "unknown")
    return (
        "Ebbtide's extension cannot be loaded into this Python (%s, %d.%d.%d, torch %s): %s\n"
        "ebb: install it for this Python: in Ebbtide's source folder, `%s -m pip install .`, and use the `ebb` that "
        "this installs; `ebb doctor` checks the result"
    ) % ((sys.executable,) + tuple(sys.version_info[:3]) + (version, error, sys.executable))


def _watch():
    """Waits for torch by a copy of imports.py of our own: the program finds nothing new among its modules."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("imports", os.path.join(_OWN_DIRECTORY, "imports.py"))
    imports = module_from_spec(spec)
    spec.loader.exec_module(imports)
    imports.when_imported("torch", lambda torch: _enable())


def _install():
    sys.path[:] = [entry for entry in sys.path if not _is_own(entry)]
    if os.environ.get("EBB_CLAIM"):
        _watch()  # enables at once if a .pth file has imported torch already


def _is_own(entry):
    return isinstance(entry, str) and os.path.abspath(entry) == _OWN_DIRECTORY


def _run_next():
    """Run the sitecustomize that Python would have found without us; its errors are its own and pass through."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if sys.version_info >= (3, 5):
    _install()
    _run_next()
