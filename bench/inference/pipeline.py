"""Child of bench/inference.py: makes an image pipeline of several models, or runs it and prints each prompt's time.

    pipeline.py make FOLDER CHANNELS      in bfloat16, random weights; 320: Stable Diffusion 1.5's shape, 1.99 GiB
    pipeline.py run FOLDER PROMPTS        as anybody would: from_pretrained(), and one image a prompt

A prompt runs the text encoder on it and on the empty prompt, the denoiser once a step, and the decoder once. The
tokenizer knows letters only, so nothing is downloaded.
"""

import hashlib
import json
import pathlib
import string
import sys
import time

import diffusers
import torch
import transformers

CHANNELS, STEPS, PIXELS = 320, 6, 192
PROMPTS = ["a boat on a quiet lake at dawn", "two foxes in the snow", "an old street after the rain", "a bowl of fruit"]


def make_tokenizer(folder):
    """CLIP's, with a vocabulary of single letters."""
    letters = string.ascii_lowercase
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=77)


def weights(model):
    return sum(each.nbytes for each in model.parameters())


def make(folder, channels):
    torch.manual_seed(1)
    whole = channels == CHANNELS  # with less the text encoder and the decoder are small
    words, width, layers, heads, decoded = (49408, 768, 12, 12, 128) if whole else (64, 128, 4, 4, 32)
    widening = (1, 2, 4, 4)
    text = transformers.CLIPTextConfig(
        vocab_size=words, hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers,
        num_attention_heads=heads, projection_dim=width, bos_token_id=52, eos_token_id=53, pad_token_id=53)
    denoiser = diffusers.UNet2DConditionModel(  # whose `attention_head_dim` is the number of heads
        sample_size=64, cross_attention_dim=width, attention_head_dim=8,
        block_out_channels=[channels * times for times in widening])
    decoder = diffusers.AutoencoderKL(
        block_out_channels=[decoded * times for times in widening], layers_per_block=2,
        down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4)
    encoder = transformers.CLIPTextModel(text)
    diffusers.StableDiffusionPipeline(
        text_encoder=encoder, unet=denoiser, vae=decoder,
        tokenizer=make_tokenizer(folder / "tokenizer"), scheduler=diffusers.DDIMScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False,
            set_alpha_to_one=False, steps_offset=1),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    ).to(torch.bfloat16).save_pretrained(folder)
    looked_up = encoder.get_input_embeddings().weight.nbytes  # a few rows of it
    print(json.dumps({"steps": STEPS, "denoiser": weights(denoiser),
                      "others": weights(encoder) - looked_up + weights(decoder.decoder)}))


def images(folder, prompts, pixels=PIXELS):
    """Loads the pipeline; then for each prompt the seconds since before, and the image's hash."""
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(folder, dtype=torch.bfloat16)
    pipeline.set_progress_bar_config(disable=True)
    before = time.perf_counter()
    for number in range(prompts):
        image = pipeline(PROMPTS[number % len(PROMPTS)], num_inference_steps=STEPS, height=pixels, width=pixels,
                         output_type="np", generator=torch.Generator().manual_seed(number)).images
        digest = hashlib.sha256(image.tobytes()).hexdigest()
        after = time.perf_counter()
        yield after - before, digest
        before = after


def run(folder, prompts):
    started = time.perf_counter()
    made = list(images(folder, prompts))
    seconds = [each for each, _ in made]
    print(json.dumps({"load": time.perf_counter() - started - sum(seconds), "seconds": seconds,
                      "images": [digest for _, digest in made]}), flush=True)


def main():
    kind, folder, number = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    return make(folder, number) if kind == "make" else run(folder, number)


if __name__ == "__main__":
    main()
