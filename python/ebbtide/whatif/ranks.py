"""Ranks: a process of a distributed program, alone. Its groups have the size that the launcher says, and no other
process in them: collectives have the shapes that they would have, exchange nothing, and take no time.

Backends are replaced by torch's own "fake" one. Parts of torch.distributed that are written in C++ and look at what
tensors hold are replaced by what they do to memory. Applied once, where torch has torch.distributed.
"""

import functools
import os

import torch
from torch.utils._python_dispatch import _disable_current_modes

NOTE = "collectives exchange nothing and take no time: what a network costs, ebb sim --ranks says"

_ALIKE = "what a stage of another rank passes on is taken to be like what this rank's stages do"
_UNHEARD = ("this rank waits for what another one says, and is followed alone: ebb run --record, and ebb sim of what "
            "it recorded, foretell such a rank")

_BUCKET_BYTES = 25 << 20


def present():
    """How many ranks there are on this machine, and in all; 1 and 1 for a program without any."""
    def number(name):
        text = os.environ.get(name, "")
        return int(text) if text.isdigit() and int(text) > 0 else 1

    return number("LOCAL_WORLD_SIZE"), max(number("WORLD_SIZE"), number("LOCAL_WORLD_SIZE"))


class _Anything:
    """Has every method, and none does anything."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_args, **_kwargs: None


class _Buckets(_Anything):
    """What DistributedDataParallel's reducer does to memory: a gradient is copied into a bucket as soon as it is
    complete, and back when the bucket has been summed up."""

    def __init__(self, parameters, bucket_bytes):
        self._handles, group, size = [], [], 0
        for parameter in reversed(parameters):
            group.append(parameter)
            size += parameter.numel() * parameter.element_size()
            if size >= bucket_bytes:
                self._add(group)
                group, size = [], 0
        if group:
            self._add(group)

    def _add(self, parameters):
        for dtype in {parameter.dtype for parameter in parameters}:
            some = [parameter for parameter in parameters if parameter.dtype == dtype]
            flat = torch.empty(sum(each.numel() for each in some), dtype=dtype, device=some[0].device)
            views = [part.view_as(each) for part, each in zip(flat.split([each.numel() for each in some]), some)]
            complete = []

            def completed(parameter, places=dict(zip(map(id, some), views)), all_of=some, complete=complete):
                places[id(parameter)].copy_(parameter.grad)
                complete.append(parameter)
                if len(complete) == len(all_of):
                    for each in complete:
                        each.grad.copy_(places[id(each)])
                    complete.clear()

            self._handles += [each.register_post_accumulate_grad_hook(completed) for each in some]


def _in_buckets(self, parameters, *_args, **_kwargs):
    """In place of DistributedDataParallel._ddp_init_helper."""
    self.reducer = _Anything() if self.gradient_as_bucket_view else _Buckets(parameters, _BUCKET_BYTES)
    self.logger = _Anything()


def _data_parallel():
    from torch.nn.parallel import distributed

    distributed._verify_param_shape_across_processes = distributed._sync_module_states = lambda *_args, **_named: None
    distributed.DistributedDataParallel._ddp_init_helper = _in_buckets
    distributed.DistributedDataParallel._sync_buffers = lambda self: None


def _meshes_of_numbers():
    """A mesh finds its place by comparing numbers, which it keeps in tensors: these are real ones."""
    from torch.distributed import device_mesh

    def real(method):
        @functools.wraps(method)
        def without_modes(*args, **kwargs):
            with _disable_current_modes():
                return method(*args, **kwargs)

        return without_modes

    mesh = device_mesh.DeviceMesh
    mesh.__init__, mesh.__getitem__ = real(mesh.__init__), real(mesh.__getitem__)
    device_mesh.init_device_mesh = torch.distributed.init_device_mesh = real(device_mesh.init_device_mesh)


def _objects(c10d):
    """Of objects of other ranks nothing is known: where all say something they say what this one says, and what only
    another one says cannot be heard."""
    def all_gather_object(object_list, obj, *_others, **_named):
        object_list[:] = [obj] * len(object_list)

    def gather_object(obj, object_gather_list=None, *_others, **_named):
        if object_gather_list:
            object_gather_list[:] = [obj] * len(object_gather_list)

    def broadcast_object_list(_objects, src=None, group=None, device=None, group_src=None, **_named):
        own = c10d.get_rank(group) if group_src is not None else c10d.get_rank()
        if (group_src if group_src is not None else src or 0) != own:
            raise RuntimeError(_UNHEARD)

    def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, *_others, **_named):
        if not scatter_object_input_list:
            raise RuntimeError(_UNHEARD)
        scatter_object_output_list[0] = scatter_object_input_list[0]

    def send_object_list(*_others, **_named):
        pass

    def recv_object_list(*_others, **_named):
        raise RuntimeError(_UNHEARD)

    for function in (all_gather_object, gather_object, broadcast_object_list, scatter_object_list, send_object_list,
                     recv_object_list):
        for module in (c10d, torch.distributed):
            setattr(module, function.__name__, function)


def _stages(notes):
    """Stages of a pipeline tell each other what they will send. A gradient is like what it is the gradient of. What an
    earlier stage on another rank makes is taken to be like what the last one on this rank made."""
    try:
        from torch.distributed.pipelining import stage
        forward, backward, derived = stage._StageForwardMeta, stage._StageBackwardMeta, stage._derive_grad_metas
    except (ImportError, AttributeError):
        return  # the first stage of other versions hears nothing from others
    made = []

    def send_meta(_self, meta, _to):
        if isinstance(meta, forward):
            made[:] = [meta]

    def receive_meta(self, source):
        if source > self.stage_index:
            return backward(backward_metas=derived(self._stage_meta.outputs))
        if not made:
            raise RuntimeError(_UNHEARD)
        notes.add(_ALIKE)
        return made[0]

    stage.PipelineStage._send_meta, stage.PipelineStage._recv_meta = send_meta, receive_meta


def _storages_that_come_and_go(recorder):
    resize = torch.UntypedStorage.resize_

    def resize_and_tell(storage, size):
        before = storage.nbytes()
        resized = resize(storage, size)
        if storage.nbytes() != before and storage.device.type == "meta":
            recorder.resized(storage)
        return resized

    torch.UntypedStorage.resize_ = resize_and_tell


def install(notes, recorder):
    if not torch.distributed.is_available() or present()[1] == 1:
        return
    from torch.distributed import distributed_c10d as c10d
    from torch.testing._internal.distributed.fake_pg import FakeStore

    begin, divide = c10d.init_process_group, c10d.new_group

    def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, *_others, **_named):
        notes.add(NOTE)
        size = world_size if world_size > 0 else present()[1]
        begin("fake", store=FakeStore(), world_size=size, rank=rank if rank >= 0 else int(os.environ.get("RANK", "0")))

    def new_group(ranks=None, timeout=None, backend=None, *others, **named):
        return divide(ranks, None, "fake", *others, **named)

    # By these names they are called: c10d's own, and what torch.distributed has taken over from it.
    for module in (c10d, torch.distributed):
        module.init_process_group, module.new_group = init_process_group, new_group
    _objects(c10d)
    _stages(notes)
    _data_parallel()
    _meshes_of_numbers()
    _storages_that_come_and_go(recorder)
