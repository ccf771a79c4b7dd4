"""Child of bench/inference.py: makes a checkpoint, or generates from one and prints how long each token took.

    generate.py make FOLDER LAYERS        a Llama of 2048 by 5632 in bfloat16, 80 MiB a layer, random weights
    generate.py run FOLDER TOKENS         as anybody would: from_pretrained() and generate()
    generate.py offload FOLDER TOKENS BYTES
                                          the same with Accelerate: what exceeds so many bytes stays on the disk
    generate.py airllm FOLDER TOKENS      the same with AirLLM, which has one layer at a time in memory
"""

import contextlib
import hashlib
import json
import sys
import tempfile
import time

import torch
import transformers
from transformers.generation.streamers import BaseStreamer

PROMPT = 16


def make(folder, layers):
    torch.manual_seed(1)
    configuration = transformers.LlamaConfig(
        hidden_size=2048, intermediate_size=5632, num_hidden_layers=layers, num_attention_heads=16,
        num_key_value_heads=4, vocab_size=32000, tie_word_embeddings=False)
    with torch.no_grad():
        transformers.LlamaForCausalLM(configuration).to(torch.bfloat16).save_pretrained(folder)


class Times(BaseStreamer):
    """When each token was there."""

    def __init__(self):
        self.seen = []

    def put(self, value):
        self.seen.append(time.perf_counter())

    def end(self):
        pass


def load(folder, **how):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **how).eval()


def load_with_airllm(folder):
    import airllm
    from airllm.airllm_base import AirLLMBaseModel

    AirLLMBaseModel.get_tokenizer = lambda *arguments, **named: None  # the checkpoint has none
    with contextlib.redirect_stdout(sys.stderr):
        return airllm.AutoModel.from_pretrained(folder, device="cpu", dtype=torch.bfloat16,
                                                layer_shards_saving_path=f"{folder}/airllm")


def generate(folder, tokens, load=load, **how):
    started = time.perf_counter()
    model = load(folder, **how)
    loaded = time.perf_counter()
    torch.manual_seed(0)
    prompt = torch.randint(0, model.config.vocab_size, (1, PROMPT))
    times = Times()
    made = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, min_new_tokens=tokens,
                          do_sample=False, pad_token_id=0, streamer=times, return_dict_in_generate=True,
                          output_logits=True)
    digest = hashlib.sha256(b"".join(each.float().numpy().tobytes() for each in made.logits)).hexdigest()
    # The streamer is given the prompt first.
    seconds = [after - before for before, after in zip([loaded, *times.seen[1:]], times.seen[1:])]
    print(json.dumps({"load": loaded - started, "seconds": seconds, "logits": digest,
                      "tokens": made.sequences[0, PROMPT:].tolist()}), flush=True)


def main():
    kind, folder, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if kind == "make":
        return make(folder, number)
    if kind == "run":
        return generate(folder, number)
    if kind == "airllm":
        return generate(folder, number, load_with_airllm)
    with tempfile.TemporaryDirectory(dir=folder) as offloaded:
        return generate(folder, number, device_map="auto", max_memory={"cpu": int(sys.argv[4])},
                        offload_folder=offloaded)


if __name__ == "__main__":
    main()
