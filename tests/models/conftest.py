"""Tiny tokenizers and models, made in seconds from nothing; chat templates in the shape of the real ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATES = Path(__file__).parent / "templates"
TEXT = (
    """You are a test model. Copy the file, please, and tell me its name. The system says: user, assistant, tool.
{"name": "copy_file", "arguments": {"source": "a b.txt"}} {"type": "function", "function": {"description": "x"}}
<tool_response>
{"ok": true}
</tool_response>

Hello there, this is a small text; it don't matter what it says, but words and word pieces should be merged.
"""
    * 3
)
SPECIALS = {
    "chatml": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "llama31": ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"],
}


@cache
def make_tokenizer(style: str, vocabulary: int = 400) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with the chat template of a style."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    llama = style == "llama31"
    specials = SPECIALS["llama31" if llama else "chatml"]
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(TEXT.splitlines(keepends=True), trainer)
    if style.startswith("qwen"):
        words = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
        core.add_tokens([AddedToken(word, special=False, normalized=False) for word in words])
    if llama:  # The real one adds begin-of-text by itself, and its template writes it too.
        core.post_processor = processors.TemplateProcessing(
            single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=specials[0] if style in {"llama31", "gemma"} else None,
        eos_token="<|eot_id|>" if llama else "<|im_end|>",
        pad_token=specials[0],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = (TEMPLATES / f"{style}.jinja").read_text()
    return tokenizer


REAL = (
    *("qwen3", "qwen3_5_think", "qwen3_6", "qwen3_8", "nemotron_3_nano", "glm4moe", "gptoss", "gemma4_v5"),
    *("lfm2_2_5_v2", "deepseekv3"),
)
"""Real chat templates, by their names in TRL."""


@cache
def real_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """A small tokenizer with a real chat template and its family's control tokens."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = Path(__file__).parents[2] / "scripts" / "templates_table.py"
    spec = spec_from_file_location("templates_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    made: PreTrainedTokenizerFast = module.tokenizer(name)
    return made


def make_model(
    vocabulary: int,
    *,
    hidden: int = 32,
    layers: int = 2,
    heads: int = 4,
    key_heads: int = 2,
    positions: int = 2048,
    seed: int = 0,
) -> LlamaForCausalLM:
    """A random Llama. The scale of its weights makes samples differ from one another."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        max_position_embeddings=positions,
        initializer_range=0.2,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="session")
def tokenizer_for() -> Callable[..., PreTrainedTokenizerFast]:
    return make_tokenizer


@pytest.fixture(scope="session")
def model_for() -> Callable[..., LlamaForCausalLM]:
    return make_model


@pytest.fixture(scope="session")
def real_tokenizer_for() -> Callable[[str], PreTrainedTokenizerFast]:
    return real_tokenizer


@pytest.fixture(scope="session", params=sorted(REAL))
def real_template(request: pytest.FixtureRequest) -> str:
    """The name of each real template in turn."""
    return str(request.param)
