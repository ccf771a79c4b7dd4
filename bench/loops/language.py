"""Language and speech models, as `transformers` and `peft` build them, with random weights."""

import torch
from steps import training


def gpt2(quick):
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_embd": 128, "n_layer": 2, "n_head": 2, "vocab_size": 512} if quick else {}
    config = GPT2Config(bos_token_id=0, eos_token_id=0, **sizes)
    model = GPT2LMHeadModel(config)
    return training(model, torch.optim.AdamW(model.parameters(), lr=1e-4),
                    lambda: torch.randint(0, config.vocab_size, (1, 32 if quick else 256)),
                    lambda batch: model(batch, labels=batch).loss)


def modernbert(quick):
    from transformers import ModernBertConfig, ModernBertForSequenceClassification

    sizes = {"hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 3, "num_attention_heads": 2,
             "vocab_size": 512, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1,
             "eos_token_id": 2} if quick else {}
    config = ModernBertConfig(num_labels=2, **sizes)
    model = ModernBertForSequenceClassification(config)
    count, tokens = (2, 32) if quick else (4, 128)
    return training(model, torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True),
                    lambda: (torch.randint(0, config.vocab_size, (count, tokens)), torch.randint(0, 2, (count,))),
                    lambda batch: model(input_ids=batch[0], attention_mask=torch.ones_like(batch[0]),
                                        labels=batch[1]).loss)


def whisper(quick):
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    width, layers = (128, 2) if quick else (512, 6)
    config = WhisperConfig(d_model=width, encoder_layers=layers, decoder_layers=layers,
                           encoder_attention_heads=width // 64, decoder_attention_heads=width // 64,
                           encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width)
    model = WhisperForConditionalGeneration(config)
    count, tokens = (1, 8) if quick else (2, 64)
    return training(model, torch.optim.AdamW(model.parameters(), lr=1e-5),
                    lambda: (torch.randn(count, config.num_mel_bins, 3000),
                             torch.randint(0, config.vocab_size, (count, tokens))),
                    lambda batch: model(input_features=batch[0], labels=batch[1]).loss)


def lora(quick):
    import peft
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2,
             "vocab_size": 512, "bos_token_id": 0, "eos_token_id": 0} if quick else {
             "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
             "vocab_size": 151936}
    config = Qwen2Config(num_key_value_heads=2, tie_word_embeddings=True, use_cache=False, **sizes)
    model = peft.get_peft_model(Qwen2ForCausalLM(config), peft.LoraConfig(
        r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
    trained = [each for each in model.parameters() if each.requires_grad]
    return training(model, torch.optim.AdamW(trained, lr=1e-4),
                    lambda: torch.randint(0, config.vocab_size, (1, 32 if quick else 128)),
                    lambda batch: model(input_ids=batch, labels=batch).loss)


def decode(quick):
    """Generation's inner loop: a token in, the next one out. The weights are the program's own memory, not a file's."""
    from transformers import AutoModelForCausalLM, LlamaConfig, StaticCache

    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 512} if quick else {
             "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
             "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256}
    config = LlamaConfig(tie_word_embeddings=True, max_position_embeddings=4096, bos_token_id=0, eos_token_id=0,
                         **sizes)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    cache = StaticCache(config=config, max_cache_len=1024)
    with torch.inference_mode():
        prompt = torch.randint(0, config.vocab_size, (1, 64))
        token = model(prompt, past_key_values=cache).logits[:, -1:].argmax(-1)

    def step():
        nonlocal token
        with torch.inference_mode():
            logits = model(token, past_key_values=cache).logits
            token = logits[:, -1:].argmax(-1)
        return logits.max().item()

    return step
