"""Programs that only a GPU of NVIDIA's can run: cuDNN, cuBLAS, fused attention, Triton, casts, pinned batches.

Run by child.py, stock and managed; each gives digests that have to be the same, or losses where the libraries choose
among kernels by their speed, so that no two runs have the same bits.
"""

import os

import torch
from torch import nn
from torch.nn import functional as F
from workloads import hash_tensors


def _exact():
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)


def _train(model, loss_of, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [hash_tensors(losses), hash_tensors(list(model.parameters()))]


def products(device):
    """Matrix products of four types, larger ones than a quarter of what there is."""
    _exact()
    digests = []
    for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        a, b = (torch.randn(1024, 1024, device=device).to(kind) for _ in range(2))
        parts = torch.bmm(a.view(4, 256, 1024), b.view(4, 1024, 256))
        digests.append(hash_tensors([a @ b, torch.addmm(a, a, b), parts]))
    return digests


def convolutions(device):
    """cuDNN, which tries several kernels when it first sees a shape, and asks for memory to try them in."""
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 128, 3, stride=2), nn.ReLU(),
                          nn.Conv2d(128, 128, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for side in (64, 64, 48, 64):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randn(16, 3, side, side, device=device)),
                               torch.arange(16, device=device) % 10)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def recurrent(device):
    _exact()
    model = nn.LSTM(256, 512, num_layers=2, batch_first=True).to(device)
    data = torch.randn(16, 20, 256, device=device)
    return _train(model, lambda: model(data)[0].square().mean())


def attention(device):
    """Flash and memory-efficient attention, forward and backward."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    _exact()
    digests = []
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        q, k, v = (torch.randn(2, 8, 256, 64, device=device, dtype=torch.float16).requires_grad_() for _ in range(3))
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if backend is SDPBackend.FLASH_ATTENTION:
            out.float().square().sum().backward()
        digests.append(hash_tensors([x for x in (out, q.grad, k.grad, v.grad) if x is not None]))
    return digests


def compiled_training(device):
    _exact()
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.LayerNorm(512), nn.GELU())))
    model = model.to(device)
    run = torch.compile(model)
    data = torch.randn(64, 512, device=device)
    return _train(model, lambda: (run(data) - data).square().mean())


def mixed(device):
    """Casts for products, and a scale of the loss that is looked for."""
    _exact()
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU()))).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device)
    data, losses = torch.randn(64, 512, device=device), []
    for kind in (torch.float16, torch.float16, torch.bfloat16):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=kind):
            loss = (model(data) - data).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return [hash_tensors(losses), hash_tensors(list(model.parameters()))]


def loader(device):
    """Batches that workers make, pinned, and copied without waiting."""
    from torch.utils.data import DataLoader, TensorDataset

    _exact()
    data = TensorDataset(torch.arange(160000.0).view(160, 1000).sin())
    model = nn.Linear(1000, 1000).to(device)
    batches = DataLoader(data, batch_size=20, num_workers=2, pin_memory=True, multiprocessing_context="fork")
    totals = []
    for (batch,) in batches:
        batch = batch.to(device, non_blocking=True)
        loss = model(batch).square().mean()
        loss.backward()
        totals.append(loss.detach())
    return hash_tensors([*totals, model.weight.grad])


def statistics(device):
    """What programs ask of the allocator: what they can know, and calls that must not fail."""
    kept = torch.ones(2**20, device=device)
    used = torch.cuda.memory_allocated()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    free, total = torch.cuda.mem_get_info()
    text = torch.cuda.memory_summary()
    return {"used": used >= kept.nbytes, "peak": torch.cuda.max_memory_allocated() >= kept.nbytes,
            "free": 0 <= free <= total, "text": len(text) > 100,
            "name": torch.cuda.get_device_name(), "right": kept.sum().item() == 2**20}


EXACT = ("products", "recurrent", "attention", "compiled_training", "mixed", "loader", "statistics")
