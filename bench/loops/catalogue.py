"""Catalogue: the loops that bench/simulated/loops.py measures, in one place. Standard library only.

They are steps of models as other libraries build them, of the sizes that their authors give them or that a recording
of 4 GiB allows. They were chosen before any of them was measured; none leaves this list because of its result.
"""

import collections
import importlib.util

# The file whose function of that name builds it, what it needs beside torch, what it is, and whether its steps have to
# be marked because it has no optimizer.
Loop = collections.namedtuple("Loop", "file packages what marked", defaults=(False,))

LOOPS = {
    "gpt2": Loop("language", ("transformers",), "GPT-2, 12 layers of 768, 1 x 256 tokens, AdamW"),
    "modernbert": Loop("language", ("transformers",),
                       "ModernBERT-base, sequences classified, 4 x 128 tokens, AdamW fused as Trainer has it"),
    "whisper": Loop("language", ("transformers",), "Whisper-base, 2 x 30 s of speech, AdamW"),
    "lora": Loop("language", ("transformers", "peft"), "LoRA of rank 16 on Qwen2.5-0.5B, 1 x 128 tokens, AdamW"),
    "decode": Loop("language", ("transformers",), "inference: one token of Llama-3.2-1B in bfloat16, static cache",
                   marked=True),
    "vit": Loop("vision", ("timm",), "timm's vit_base_patch16_224, 8 images, AdamW foreach"),
    "resnet152": Loop("vision", ("torchvision",),
                      "torchvision's ResNet-152, 8 images of 160 pixels, SGD with momentum"),
    "swin": Loop("vision", ("torchvision",), "torchvision's Swin-S, 4 images, AdamW"),
    "unet": Loop("vision", ("diffusers",), "diffusers' UNet2DModel of its example, 2 images of 64 pixels, AdamW"),
    "transformer": Loop("others", (), "torch.nn.TransformerEncoder, 8 layers of 768, 2 x 192 tokens, AdamW"),
    "wide_mlp": Loop("others", (), "1024-8192-8192-8192-1024, batch 64, AdamW"),
    "wide_mlp_fused": Loop("others", (), "the same with AdamW fused, one operator over all parameters"),
    "graph": Loop("others", ("torch_geometric",), "GCNII of PyTorch Geometric, 32 layers of 128, 21k nodes, Adam"),
    "recommender": Loop("others", (), "DLRM's configuration for Criteo Kaggle from torch.nn.EmbeddingBag, batch 128, "
                                      "sparse SGD"),
}


def missing_package(name):
    """The first package that a loop needs and that is not installed, or None."""
    return next((each for each in LOOPS[name].packages if importlib.util.find_spec(each) is None), None)
