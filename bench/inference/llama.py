"""Child of bench/inference.py: llama.cpp, through llama-cpp-python, on a GGUF file that this makes.

    llama.py make FILE LAYERS     the architecture of generate.py in f16, random weights, no vocabulary
    llama.py run FILE TOKENS      greedy generation; prints how long each token took

Weights are used where they are mapped (`--no-repack`). By default llama.cpp copies them to memory of its own in
another layout where the processor has one (AMX), and a model larger than memory dies as it is loaded.
"""

import json
import sys
import time

PROMPT = 16
WIDTH, INNER, HEADS, KV_HEADS, VOCABULARY = 2048, 5632, 16, 4, 32000


def make(path, layers):
    import gguf
    import numpy

    random = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama", use_temp_file=True)
    writer.add_block_count(layers)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns), dtype=numpy.float32) * 0.02
        writer.add_tensor(name, values.astype(numpy.float16))

    matrix("token_embd.weight", VOCABULARY, WIDTH)
    for layer in range(layers):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", numpy.ones(WIDTH, dtype=numpy.float32))
        narrow = WIDTH // HEADS * KV_HEADS
        for name, rows, columns in (("attn_q", WIDTH, WIDTH), ("attn_k", narrow, WIDTH), ("attn_v", narrow, WIDTH),
                                    ("attn_output", WIDTH, WIDTH), ("ffn_gate", INNER, WIDTH),
                                    ("ffn_up", INNER, WIDTH), ("ffn_down", WIDTH, INNER)):
            matrix(f"blk.{layer}.{name}.weight", rows, columns)
    writer.add_tensor("output_norm.weight", numpy.ones(WIDTH, dtype=numpy.float32))
    matrix("output.weight", VOCABULARY, WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def run(path, tokens):
    import llama_cpp
    import numpy

    defaults = llama_cpp.llama_cpp.llama_model_default_params

    def mapped_only():
        parameters = defaults()
        parameters.use_extra_bufts = False
        return parameters

    llama_cpp.llama_cpp.llama_model_default_params = mapped_only

    started = time.perf_counter()
    model = llama_cpp.Llama(path, n_ctx=256, n_batch=64, use_mmap=True, verbose=False, logits_all=False)
    before = time.perf_counter()
    record = {"load": before - started, "seconds": [], "tokens": []}
    given = [(i * 1237 + 11) % VOCABULARY for i in range(PROMPT)]
    for _ in range(tokens):
        model.eval(given)
        logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(model.ctx, -1), shape=(VOCABULARY,))
        given = [int(logits.argmax())]
        now = time.perf_counter()
        record["seconds"].append(now - before)
        record["tokens"] += given
        before = now
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    {"make": make, "run": run}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
