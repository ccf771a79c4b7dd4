"""EbbtideCallback: Ebbtide's counters in all loggers of a Lightning Trainer, every `log_every_n_steps`.

For `lightning` and for `pytorch_lightning`, whichever the program has imported. On every rank, each with its own
counters; what is logged and printed is the first rank's, as Lightning has it.
"""

from __future__ import annotations

import sys

from .meter import Meter

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError as missing:
        if missing.name not in ("lightning", "lightning.pytorch"):
            raise
        from pytorch_lightning import Callback


class EbbtideCallback(Callback):
    """Trainer(..., callbacks=[EbbtideCallback()]). At the end of training it prints where the time went, to stderr."""

    def __init__(self):
        self._meter = Meter()
        self._logged = 0

    def on_train_start(self, trainer, pl_module):
        self._meter.begin()
        self._logged = trainer.global_step

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        every = trainer.log_every_n_steps
        if every == 0 or trainer.global_step // every == self._logged // every:
            return
        self._logged = trainer.global_step
        if values := self._meter.scalars():
            for logger in trainer.loggers:
                logger.log_metrics(values, step=trainer.global_step - 1)  # as Lightning numbers what a step has logged

    def on_train_end(self, trainer, pl_module):
        if trainer.is_global_zero and (text := self._meter.summary()):
            print(text, file=sys.stderr, flush=True)
