"""Child: the program that every test runs in a process of its own, stock or managed.

    python child.py '{"target": "workloads:run", "arguments": {…}, "options": {…} or null, "limits": {"AS": bytes}}'
    python child.py --serve FD          forks such a child for every request that comes in (forking.py)

Imports the module, sets the limits, if any, enables Ebbtide if there are options (on the device without a GPU,
soft_device, if they are named so), calls the function and prints one JSON object:
`result`, `seconds`, and when managed `stats`. A function may print objects of its own on the way (`emit`). Errors are
left to Python: traceback and exit code as in any program.
"""

import atexit
import importlib
import importlib.util
import json
import os
import pathlib
import resource
import signal
import sys
import time

import forking

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))

# What the first step of a training would import, too.
PRELOADED = ("torch", "torch._dynamo", "torchvision", "transformers.models.gpt2.modeling_gpt2",
             "transformers.models.bert.modeling_bert", "transformers.models.vit.modeling_vit", "workloads", "scenarios",
             "device_workloads", "device_scenarios", "hostile_workloads", "scenarios_files")


def emit(**record):
    print(json.dumps(record), flush=True)


def imported(request):
    """The function that a request names."""
    module, function = request["target"].split(":")
    return getattr(importlib.import_module(module), function)


def settle_first_calls():
    """What enable() does, in a stock process: else one in some hundred has other bits than all others."""
    path = pathlib.Path(__file__).resolve().parents[2] / "ebbtide" / "torch" / "first_calls.py"
    spec = importlib.util.spec_from_file_location("first_calls", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.settle()


def main():
    # A test run started in the background of a shell has Ctrl-C ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    forked = sys.argv[1] == "--serve"
    if forked:
        for name in PRELOADED:
            importlib.import_module(name)
        request = forking.serve(int(sys.argv[2]), imported)
        if request is None:
            return
    else:
        request = json.loads(sys.argv[1])
    options = request["options"]
    for name, limit in request.get("limits", {}).items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
    ebbtide = soft_device = None
    if options is not None:
        import ebbtide

        if "soft_device" in options:
            import soft_device

            soft_device.start(**options["soft_device"])
        else:
            ebbtide.enable(**options)
    else:
        settle_first_calls()
    target = imported(request)
    started = time.monotonic()
    result = target(**request["arguments"])
    if soft_device is not None:
        soft_device.finish()
    record = {"result": result, "seconds": time.monotonic() - started}
    if ebbtide is not None:
        record["stats"] = ebbtide.stats()
    emit(**record)
    if forked:  # without the second and more that Python takes to free every module one by one
        atexit._run_exitfuncs()
        os._exit(0)


if __name__ == "__main__":
    main()
