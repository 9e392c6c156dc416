"""A small causal language model on disk for tests: a random Qwen2 with a byte-level tokenizer and a chat template."""

import atexit
import functools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import gguf
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

LAYERS = 8
VOCABULARY = 300
POSITIONS = 256
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@functools.cache
def shared(*, tied: bool = True) -> Path:
    """Return a directory with the model. Tests must not change it; see `copy_to`."""
    folder = Path(tempfile.mkdtemp(prefix="tiny-chat-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make_tokenizer(folder)
    make_model(tied=tied).save_pretrained(folder)
    return folder


def copy_to(folder: Path) -> Path:
    """Return a copy of the shared directory that a test may damage."""
    return Path(shutil.copytree(shared(), folder / "model"))


def make_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(["Rome has seven hills and stands on the Tiber."], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    details = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(details), encoding="utf-8")


def make_model(*, tied: bool) -> Any:
    """Return a random Qwen2, the same one each time; large weights, so that its layers differ clearly."""
    library: Any = transformers  # its annotations leave out what a configuration takes
    config = library.Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=tied,
        initializer_range=0.4,
        eos_token_id=2,
        bos_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(11)
        return library.Qwen2ForCausalLM(config).eval()


def gguf_in(folder: Path) -> Path:
    """Write the shared model as a GGUF file in `folder`, its weights unrounded; return its path."""
    kinds: Any = transformers
    model = kinds.AutoModelForCausalLM.from_pretrained(shared())
    config, path = model.config, folder / "tiny.gguf"
    words = json.loads((shared() / "tokenizer.json").read_text())["model"]
    tokens = sorted(words["vocab"], key=words["vocab"].__getitem__)
    tokens += [f"[PAD{i}]" for i in range(len(tokens), VOCABULARY)]
    out: Any = gguf.GGUFWriter(str(path), "qwen2")
    out.add_block_count(config.num_hidden_layers)
    out.add_context_length(config.max_position_embeddings)
    out.add_embedding_length(config.hidden_size)
    out.add_feed_forward_length(config.intermediate_size)
    out.add_head_count(config.num_attention_heads)
    out.add_head_count_kv(config.num_key_value_heads)
    out.add_layer_norm_rms_eps(config.rms_norm_eps)
    out.add_rope_freq_base(config.rope_parameters["rope_theta"])
    out.add_vocab_size(VOCABULARY)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("qwen2")
    out.add_token_list(tokens)
    control = [token in SPECIAL or token not in words["vocab"] for token in tokens]
    out.add_token_types([gguf.TokenType.CONTROL if each else gguf.TokenType.NORMAL for each in control])
    out.add_token_merges([" ".join(pair) for pair in words["merges"]])
    out.add_eos_token_id(SPECIAL.index("<|im_end|>"))
    out.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name != "lm_head.weight":  # the same as the input embeddings
            stem, _, ending = name.rpartition(".")
            out.add_tensor(f"{names.get_name(stem)}.{ending}", tensor.numpy())
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path
