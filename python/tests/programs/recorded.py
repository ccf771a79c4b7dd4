"""Recorded: trains a workload and keeps a checksum of what every operator made, to tell which was the first to differ.

Reading each result where it has just been made costs a tenth of a second a step, and moves what happens in time.
"""

import zlib

import torch
import workloads
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode


class Recorder(TorchDispatchMode):
    """Operators of forward and backward in the order in which they ran: [name, shape, checksum].

    Of an optimizer, whose operators are not the same ones where it goes through parameters in slices: all parameters.
    """

    def __init__(self):
        super().__init__()
        self.made = []
        self._stepping = False
        self._hooks = (register_optimizer_step_pre_hook(self._steps), register_optimizer_step_post_hook(self._stepped))

    def __exit__(self, *error):
        for hook in self._hooks:
            hook.remove()
        return super().__exit__(*error)

    def _steps(self, *_):
        self._stepping = True

    def _stepped(self, optimizer, *_):
        self._stepping = False
        for group in optimizer.param_groups:
            self.made += [self._of("parameter", each) for each in group["params"]]

    @staticmethod
    def _of(name, tensor):
        return [name, list(tensor.shape), zlib.crc32(workloads.tensor_bytes(tensor))]

    def __torch_dispatch__(self, operator, types, arguments=(), options=None):
        results = operator(*arguments, **(options or {}))
        if not self._stepping and "empty" not in operator.name():  # what is in new memory is anybody's
            for result, returned in zip(results if isinstance(results, (tuple, list)) else [results],
                                        operator._schema.returns):
                is_view = returned.alias_info is not None and not returned.alias_info.is_write
                if isinstance(result, torch.Tensor) and not is_view:
                    self.made.append(self._of(operator.name(), result))
        return results


def run(name, steps):
    """What workloads.run() returns, and `operators`."""
    with Recorder() as recorder:
        result = workloads.run(name, steps)
    return {**result, "operators": recorder.made}
