"""Start-up hook of `ebb plan -- PROGRAM`: Python imports this module by itself, because its directory leads PYTHONPATH.

The hook of `ebb run` stands next on that path and does all the waiting for torch and the choosing of the process. This
one runs it and replaces what happens once torch is there: instead of managing memory, tensors become fake. Kept free of
syntax that old interpreters reject, since any Python the program starts reads this file.
"""

import os
import sys

_OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def _load(name, path, **options):
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, path, **options)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _start(hook):
    """Makes tensors fake in this process if it is the one that claims the run, or stops it with the reason.

    A launcher of ranks only launches; of its ranks the first one is followed, in a group in which it is alone.
    """
    path = os.environ.get("EBB_CLAIM")
    if not path or hook._launches():
        return
    rank = hook._rank()
    if rank is not None and rank[0] > 0:
        os._exit(0)  # what it would do is what the first one does
    if not hook._claim(path):
        return
    try:
        package = os.path.dirname(os.path.dirname(_OWN_DIRECTORY))
        if "ebbtide" not in sys.modules:
            _load("ebbtide", os.path.join(package, "__init__.py"), submodule_search_locations=[package])
        from ebbtide import whatif

        whatif.start()
    except Exception as error:
        hook._stop("tensors cannot be made fake in this Python (%s): %s" % (sys.executable, error))


def _install():
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _OWN_DIRECTORY]
    # While torch is there already (a .pth file imported it) the other hook would start at once; it may not.
    claim = os.environ.pop("EBB_CLAIM", None) if "torch" in sys.modules else None
    hook = _load("sitecustomize", os.path.join(_OWN_DIRECTORY, "..", "..", "hook", "sitecustomize.py"))
    hook._enable = lambda: _start(hook)
    if claim is not None:
        os.environ["EBB_CLAIM"] = claim
        hook._enable()


if sys.version_info >= (3, 5):
    _install()
