"""Session: the life of a program with fake tensors: where its steps begin and end, and how it is left.

A step ends when the optimizer that was the first to step has stepped again, as the adapter counts steps. A program
without an optimizer is inference: there a repetition ends with a call of the same outermost module without gradients,
which is a token if a generate() calls it.
After the last step that is wanted the process is left at once, before the program can go on to save or to evaluate.

One session a process, on the thread that imported torch. Settings, from the environment: EBB_WHATIF names the folder
that takes trace.jsonl and report.json, EBB_WHATIF_STEPS how many steps to take; if EBB_WHATIF_GUIDE is set, there will
be a guide.jsonl instead of the trace.
"""

import atexit
import dataclasses
import json
import os
import sys
import time
import traceback
import weakref

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from .. import _lists
from . import answers, kinds, patches, ranks
from .recorder import Recorder

_EVENTS_MAX = 12_000_000  # a trace has at most 16 Mi lines
_FAILED = 1


@dataclasses.dataclass
class Boundary:
    """A moment between two steps."""

    event: int
    views: int
    kinds: dict  # of storages, as far as the program itself says


class Session:
    def __init__(self, folder, steps):
        self.folder, self.steps = folder, steps
        self.started = time.perf_counter()
        self.notes = answers.Notes()
        self.fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.recorder = Recorder(self.fake_mode, self.notes)
        self.boundaries = []
        self.first_call = None  # before the first call of an outermost module
        self.leader = None  # the optimizer, or the module of an inference, whose turns are steps
        self.optimizers, self.modules = weakref.WeakSet(), weakref.WeakSet()
        self.model = ""
        self.generates = False  # what is repeated are tokens
        self.ended = False

    def begin(self):
        answers.install(self.notes)
        patches.install(self.notes)
        ranks.install(self.notes, self.recorder)
        self._watch()
        if not os.environ.get("EBB_WHATIF_GUIDE"):  # a guide has parameters whole
            _lists.split("cpu", _lists.BYTES_MAX, more_types=(FakeTensor,))
        self._excepthook = sys.excepthook
        sys.excepthook = self._failed
        atexit.register(self._program_ended)
        self.fake_mode.__enter__()
        self.recorder.__enter__()

    # Where the program is

    def _watch(self):
        from torch.nn.modules import module
        from torch.optim import optimizer

        module.register_module_module_registration_hook(self._registered)
        module.register_module_parameter_registration_hook(self._registered)
        module.register_module_buffer_registration_hook(self._registered)
        module.register_module_forward_pre_hook(self._call_begins)
        module.register_module_forward_hook(self._call_ends, always_call=True)
        optimizer.register_optimizer_step_pre_hook(self._step_begins)
        optimizer.register_optimizer_step_post_hook(self._step_ends)
        construct = torch.optim.Optimizer.__init__

        def constructed(optimizer, *args, **kwargs):
            self.optimizers.add(optimizer)
            construct(optimizer, *args, **kwargs)

        torch.optim.Optimizer.__init__ = constructed

    def _registered(self, module, _name, _value):
        self.modules.add(module)

    def _call_begins(self, module, _inputs):
        phase = self.recorder.phase
        if phase.depth == 0:
            if self.first_call is None:
                self.first_call = self._here()
                self.model = type(module).__name__
            if len(self.recorder.events) > _EVENTS_MAX:
                self._leave(f"a step has more than {_EVENTS_MAX} operators, too many for a trace")
        phase.depth += 1

    def _call_ends(self, module, _inputs, _output):
        phase = self.recorder.phase
        phase.depth = max(0, phase.depth - 1)
        inference = phase.depth == 0 and not self.optimizers and not torch.is_grad_enabled()
        if not inference or (self.leader is not None and self.leader() is not module):
            return
        self.leader = weakref.ref(module)
        self.generates = _within_generate()
        self._step_done()

    def _step_begins(self, *_):
        self.recorder.phase.optimizer += 1

    def _step_ends(self, optimizer, *_):
        self.recorder.phase.optimizer -= 1
        self.optimizers.add(optimizer)
        leads = isinstance(self.leader() if self.leader else None, torch.optim.Optimizer)
        if not leads:
            self.boundaries.clear()  # what looked like inference was an evaluation before the training
            self.leader = weakref.ref(optimizer)
        if self.leader() is optimizer:
            self._step_done()

    def _here(self):
        return Boundary(len(self.recorder.events), self.recorder.views, {})

    def _step_done(self):
        boundary = self._here()
        boundary.kinds = kinds.declared(self.recorder, self.modules, self.optimizers)
        self.boundaries.append(boundary)
        if len(self.boundaries) >= self.steps:
            self._leave(None)

    # How it ends

    def _failed(self, kind, error, trace):
        """An exception that nobody caught: the program, or something in it that needs data."""
        if self.ended or not issubclass(kind, Exception):
            self._excepthook(kind, error, trace)
            return
        self._excepthook(kind, error, trace)
        self._leave(_explain(kind, error, trace))

    def _program_ended(self):
        if not self.ended:
            self._leave(None)

    def _leave(self, problem):
        """Writes what was found and ends the process."""
        self.ended = True
        code = _FAILED
        try:
            from . import accumulate, trace

            self.recorder.__exit__(None, None, None)
            self.fake_mode.__exit__(None, None, None)
            accumulate.in_place(self.recorder)
            write = trace.write_guide if os.environ.get("EBB_WHATIF_GUIDE") else trace.write
            report = {"error": problem} if problem else write(self)
            with open(os.path.join(self.folder, "report.json"), "w", encoding="utf-8") as file:
                json.dump(report, file)
            code = _FAILED if report.get("error") else 0
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            os._exit(code)


def _within_generate():
    """Whether a model is called by a generate(), as those of transformers have: each call then makes a token."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "generate":
        frame = frame.f_back
    return frame is not None


def _explain(kind, error, trace):
    where = next((frame for frame in reversed(traceback.extract_tb(trace))
                  if "site-packages" not in frame.filename and "ebbtide" not in frame.filename
                  and not frame.filename.startswith("<")), None)
    place = f"{os.path.basename(where.filename)}:{where.lineno}: " if where else ""
    text = " ".join(str(error).split())[:300]
    fake = kind.__module__ == fake_tensor.__name__ or any(
        word in text.lower() for word in ("faketensor", "data pointer", "meta tensor", "data_ptr", "storage"))
    if fake:
        return (f"{place}this needs the content of a tensor, and a plan has only shapes: {kind.__name__}: {text}; "
                "take the step with `ebb run`, or leave this out while planning")
    return f"{place}the program failed: {kind.__name__}: {text}"


def start():
    folder = os.environ["EBB_WHATIF"]
    Session(folder, int(os.environ.get("EBB_WHATIF_STEPS", "2"))).begin()
