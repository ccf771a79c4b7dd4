"""Files as memory, each way that programs map them, and models whose weights are in files. Run by child.py, stock and
managed; the results are the same.
"""

import hashlib
import mmap
import os
import pathlib
import sys
import tempfile

import numpy
import torch
from workloads import hash_tensors

MIB = 2**20


def noise_file(folder, name="noise", bytes_=16 * MIB + 4321):
    """The same file for whoever comes first, and last."""
    path = pathlib.Path(folder) / name
    if not path.exists():
        words = numpy.random.default_rng(bytes_).integers(0, 2**63, bytes_ // 8 + 1, dtype=numpy.int64)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(words.tobytes()[:bytes_])
        part.rename(path)
    return path


def digest(data):
    return hashlib.sha256(memoryview(data).cast("B")).hexdigest()


def mappings(folder):
    """By Python, NumPy and PyTorch: to read, and copied when written."""
    path = noise_file(folder)
    size = path.stat().st_size
    results = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        results += [digest(mapped), mapped.find(mapped[9 * MIB:9 * MIB + 40]), digest(mapped[-5000:])]
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 8 * MIB, access=mmap.ACCESS_COPY, offset=mmap.ALLOCATIONGRANULARITY * 3)
        mapped[5 * MIB:5 * MIB + 4] = b"mine"
        mapped.madvise(mmap.MADV_SEQUENTIAL)
        results += [digest(mapped), digest(mapped)]
        mapped.close()
    for mode in ("r", "c"):
        array = numpy.memmap(path, dtype=numpy.uint8, mode=mode)
        if mode == "c":
            array[::100_003] += 1
        results += [digest(array), int(array[::4097].sum(dtype=numpy.int64))]
    for shared in (False, True):
        tensor = torch.from_file(str(path), shared=shared, size=size, dtype=torch.uint8)
        if not shared:
            tensor[::1000] = 7
        results += [digest(tensor.numpy()), int(tensor[size // 2::5001].sum())]
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as again:  # two of the same file
            results.append(mapped[3 * MIB:7 * MIB] == again[3 * MIB:7 * MIB])
    results.append(digest(path.read_bytes()))
    return results


def workers(folder):
    """A mapping that forked children read and write."""
    path = noise_file(folder)
    array = numpy.memmap(path, dtype=numpy.uint8, mode="c")
    array[::65536] = 1
    results = [digest(array)]
    for turn in range(2):
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            array[turn::3 * MIB] = 9
            os.write(write, digest(array).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            results.append(pipe.read().decode())
        os.waitpid(child, 0)
    return results + [digest(array)]


def checkpoints(folder):
    """torch.load(mmap=True) of a checkpoint larger than memory, and training on top of it."""
    path = pathlib.Path(folder) / "checkpoint.pt"
    torch.manual_seed(0)
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        torch.save({f"w{i}": torch.randn(512, 1024) for i in range(12)}, part)
        part.rename(path)
    state = torch.load(path, mmap=True, weights_only=True)
    low = torch.zeros(1024, 4, requires_grad=True)
    optimizer = torch.optim.SGD([low], lr=1e-4)
    losses = []
    for _ in range(3):
        x = torch.ones(2, 1024)
        for weight in state.values():
            x = torch.tanh(x @ weight.T) @ weight + (x @ low) @ low.T
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    return losses + [hash_tensors(state.values()), hash_tensors([low])]


def _architecture(name):
    """The class of a small model, and its configuration."""
    import transformers as t

    common = {"vocab_size": 2048, "hidden_size": 256, "num_hidden_layers": 8, "num_attention_heads": 4}
    few = {**common, "num_hidden_layers": 3, "num_key_value_heads": 2}
    return {
        "llama": (t.LlamaForCausalLM, t.LlamaConfig(**common, intermediate_size=768, num_key_value_heads=2)),
        "gpt2": (t.GPT2LMHeadModel, t.GPT2Config(vocab_size=2048, n_embd=256, n_layer=8, n_head=4)),
        "mixtral": (t.MixtralForCausalLM, t.MixtralConfig(**few, intermediate_size=512, num_local_experts=6)),
        "bert": (t.BertModel, t.BertConfig(**common, intermediate_size=1024)),
        "t5": (t.T5ForConditionalGeneration, t.T5Config(vocab_size=2048, d_model=256, d_kv=64, d_ff=1024, num_layers=6,
                                                        num_heads=4, decoder_start_token_id=0)),
    }[name]


def _checkpoint(folder, name):
    """The class of a small model, and its checkpoint."""
    architecture, configuration = _architecture(name)
    path = pathlib.Path(folder) / name
    if not path.exists():
        torch.manual_seed(1)
        part = path.with_suffix(f".{os.getpid()}")
        architecture(configuration).to(torch.bfloat16).save_pretrained(part, max_shard_size="6MB")
        part.rename(path)
    return architecture, path


def pretrained(folder, name):
    """A model of transformers from its checkpoint: generated text, and the logits by which it was chosen."""
    architecture, path = _checkpoint(folder, name)
    torch.manual_seed(2)
    model = architecture.from_pretrained(path, dtype=torch.bfloat16).eval()
    tokens = torch.randint(3, 2000, (2, 12))
    mask = torch.ones_like(tokens)
    mask[1, :5] = 0  # padded on the left
    with torch.no_grad():
        if name == "bert":
            return [hash_tensors([model(tokens + turn, attention_mask=mask).last_hidden_state]) for turn in range(6)]
        results = []
        for chosen in ({}, {"do_sample": True}, {"cache_implementation": "static"}):
            if chosen and name in ("t5", "mixtral"):
                continue
            made = model.generate(tokens, attention_mask=mask, max_new_tokens=6, min_new_tokens=6, pad_token_id=0,
                                  return_dict_in_generate=True, output_logits=True, **chosen)
            results += [made.sequences.tolist(), hash_tensors(made.logits)]
    return results


def _adapter_by_hand(model, texts):
    optimizer = torch.optim.AdamW((each for each in model.parameters() if each.requires_grad), lr=1e-2)
    losses = []
    for text in texts:
        loss = model(input_ids=text, labels=text).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def _adapter_by_trainer(model, texts, folder):
    import transformers

    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=len(texts), per_device_train_batch_size=len(texts[0]), learning_rate=1e-2,
        logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True, seed=0)
    data = [{"input_ids": text, "labels": text} for text in torch.cat(texts)]
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=data)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def adapters(folder, name, trainer=False, merged=False):
    """LoRA by peft on a frozen checkpoint: losses and the adapter, as it is saved; and what the model says then."""
    import peft

    architecture, path = _checkpoint(folder, name)
    torch.manual_seed(2)
    model = architecture.from_pretrained(path, dtype=torch.bfloat16)
    modules = {"llama": ["q_proj", "v_proj", "down_proj"], "gpt2": ["c_attn", "c_proj"]}[name]
    model = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_dropout=0.1, target_modules=modules,
                                                       fan_in_fan_out=name == "gpt2"))
    texts = [torch.randint(3, 2000, (2, 12)) for _ in range(4)]
    with tempfile.TemporaryDirectory(dir=folder) as saved:
        losses = _adapter_by_trainer(model, texts, saved) if trainer else _adapter_by_hand(model, texts)
        model.save_pretrained(saved)
        adapter = digest((pathlib.Path(saved) / "adapter_model.safetensors").read_bytes())
    if merged:
        model = model.merge_and_unload()  # writes to the weights, so to copies of them
    with torch.no_grad():
        return losses + [adapter, hash_tensors([model.eval()(texts[0]).logits])]


def mapped_by_hand(folder):
    """ebbtide.map_file() beside a plain reading of the file."""
    import ebbtide

    path = noise_file(folder)
    try:
        view = ebbtide.map_file(path)
    except ebbtide.Error:
        view = memoryview(bytearray(path.read_bytes()))  # stock
    tensor = torch.frombuffer(view, dtype=torch.uint8)
    tensor[::999] = 3
    results = [digest(view), digest(tensor.numpy()), digest(numpy.frombuffer(view, dtype=numpy.uint8, offset=8 * MIB))]
    del view
    return results + [digest(tensor.numpy()), digest(path.read_bytes())]


def images(folder):
    """An image pipeline of diffusers from its checkpoint: text encoder, denoiser and decoder take turns."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench" / "inference"))
    import pipeline

    path = pathlib.Path(folder) / "pipeline"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        pipeline.make(part, 32)
        part.rename(path)
    return [digest for _, digest in pipeline.images(path, 3, 64)]
