"""EbbtideCallback: Ebbtide's counters beside the loss, in all that a transformers.Trainer reports to.

On every rank, each with its own counters; what is reported and printed is the first rank's, as the Trainer has it.
"""

from __future__ import annotations

import sys

from transformers import TrainerCallback
from transformers.trainer_callback import CallbackHandler

from .meter import Meter


class EbbtideCallback(TrainerCallback):
    """Trainer(..., callbacks=[EbbtideCallback()]). At the end of training it prints where the time went, to stderr."""

    def __init__(self):
        self._meter = Meter()

    def on_init_end(self, args, state, control, **kwargs):
        self._come_first()

    def on_train_begin(self, args, state, control, **kwargs):
        self._come_first()
        self._meter.begin()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not logs or "loss" not in logs:  # metrics of an evaluation are the caller's
            return
        values = self._meter.scalars()
        logs.update(values)
        if state.log_history:
            state.log_history[-1].update(values)

    def on_train_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero and (text := self._meter.summary()):
            print(text, file=sys.stderr, flush=True)

    def _come_first(self) -> None:
        """A Trainer calls reporters before the callbacks that it is given, and does not show them its list of both: who
        calls us has it. It is being walked through; one that moves to its front makes nobody be left out."""
        frame = sys._getframe(1)
        while frame is not None:
            caller = frame.f_locals.get("self")
            if isinstance(caller, CallbackHandler) and self in caller.callbacks:
                caller.callbacks.remove(self)
                caller.callbacks.insert(0, self)
                return
            frame = frame.f_back
