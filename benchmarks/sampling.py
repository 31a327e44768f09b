"""Sampled tokens per CPU second over several turns: memory kept alive against reading the context again each turn.

    python benchmarks/sampling.py [--smollm2 DIRECTORY]

A random Llama of 4 M parameters plays 8 prompts x 8 samples x 4 turns. Three ways, same seeds, same contexts:

- ours: `LocalPolicy` with keys and values kept over turns and shared prompts computed once;
- other: the same policy and decoding loop, but every turn reads the whole context of every row;
- generate: `transformers.generate` on the whole context of every row each turn.

The ends of messages are made ragged by treating a share of the vocabulary as stop ids (mean length about 18 tokens).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from seal.models.chat import ChatFormat
from seal.models.load import load_model
from seal.models.local import LocalPolicy
from seal.task import Conversation, Message
from seal.types import StopReason, ToolSpec

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TEXT = "Please move the file to the folder, then tell me the size of the result and who wrote it first. "


@dataclass(frozen=True)
class Load:
    """How much is played."""

    prompts: int = 8
    samples: int = 8
    turns: int = 4
    max_new_tokens: int = 48
    tools: int = 2


def small_llama() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A random Llama of 4 M parameters with a tokenizer of its own."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1024, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator([TEXT, TEMPLATE, str(_tools(8))], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=specials[2], pad_token=specials[0])  # type: ignore[no-untyped-call]
    tokenizer.chat_template = TEMPLATE
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=5,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        initializer_range=0.1,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=specials.index("<|im_end|>"),
        pad_token_id=0,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval(), tokenizer  # type: ignore[no-untyped-call]  # untyped in transformers


def _tools(count: int) -> tuple[ToolSpec, ...]:
    kinds = {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}}
    return tuple(ToolSpec(f"tool_{i}", f"Does thing number {i} to a file.", kinds) for i in range(count))


def _conversations(load: Load) -> list[Conversation]:
    tools = _tools(load.tools)
    made: list[Conversation] = []
    for prompt in range(load.prompts):
        text = f"Task {prompt}. {TEXT * (1 + prompt % 3)}"
        made += [
            Conversation(tools, tools, [Message("user", text, text)], seed=(0, 0, prompt, sample))
            for sample in range(load.samples)
        ]
    return made


def _play(policy: LocalPolicy, load: Load) -> int:
    """Play all turns; the number of sampled tokens."""
    conversations = _conversations(load)
    sampled = 0
    for turn in range(load.turns):
        for i, (conversation, generation) in enumerate(zip(conversations, policy.generate(conversations), strict=True)):
            assert generation is not None, "the context is full: the load is too large for this model"
            sampled += generation.completion_tokens
            conversation.messages.append(Message("assistant", generation.text, "", generation=generation))
            text = f"Result {turn}. {TEXT * (1 + i % 2)}"
            conversation.messages.append(Message("tool", text, text))
    return sampled


class _Generate(LocalPolicy):
    """Every turn through `transformers.generate`, whole contexts, one batch."""

    def generate(self, conversations):  # type: ignore[no-untyped-def]
        contexts = [self.chat.step_context(c) for c in conversations]
        ids = [[*self.chat.history_ids(c), *new[0]] for c, new in zip(conversations, contexts, strict=True)]
        width = max(map(len, ids))
        padded = torch.tensor([[0] * (width - len(row)) + row for row in ids])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids])
        out = self._model.generate(  # type: ignore[operator]  # a Tensor by nn.Module.__getattr__
            padded,
            attention_mask=mask,
            do_sample=True,
            top_k=0,
            max_new_tokens=self.max_new_tokens,
            eos_token_id=sorted(self.stop_ids),
            pad_token_id=0,
        )
        generations = []
        for row, context, before in zip(out[:, width:].tolist(), contexts, ids, strict=True):
            end = next((i + 1 for i, token in enumerate(row) if token in self.stop_ids), len(row))
            generations.append(
                self.chat.generation(row[:end], [0.0] * end, context, stop=StopReason.STOP, prompt_tokens=len(before))
            )
        return generations


def _rate(make: Callable[[], LocalPolicy], load: Load, repeats: int) -> float:
    """Best of some repeats, after a short one to warm up: sampled tokens per CPU second."""
    policy = make()
    _play(policy, Load(prompts=1, samples=2, turns=1, max_new_tokens=4))
    best = 0.0
    for _ in range(repeats):
        start = time.process_time()
        sampled = _play(policy, load)
        best = max(best, sampled / (time.process_time() - start))
    return best


def measure(
    model: PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    load: Load = Load(),
    repeats: int = 1,
    generate: bool = False,
    threads: int = 1,
) -> dict[str, float]:
    """Measure the three ways.

    Returns:
        `ours`, `other` and, if asked for, `generate` in sampled tokens per CPU second, and `ratio` = ours / other.
    """
    torch.set_num_threads(threads)
    if model is None or tokenizer is None:
        model, tokenizer = small_llama()
    chat = ChatFormat(tokenizer)
    size = int(model.config.vocab_size)
    stops = frozenset(range(3, size, 20))

    def make(kind: type[LocalPolicy], *, keep: bool) -> Callable[[], LocalPolicy]:
        def build() -> LocalPolicy:
            policy = kind(
                model, tokenizer, chat=chat, max_new_tokens=load.max_new_tokens, keep_memory=keep, batch_size=64
            )
            policy.stop_ids |= stops
            return policy

        return build

    ours = _rate(make(LocalPolicy, keep=True), load, repeats)
    other = _rate(make(LocalPolicy, keep=False), load, repeats)
    found = {"ratio": ours / other, "ours": ours, "other": other}
    if generate:
        found["generate"] = _rate(make(_Generate, keep=False), load, repeats)
    return found


def main() -> None:
    """Print the line that `make bench` collects."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--smollm2", metavar="DIRECTORY", help="measure SmolLM2 from this directory, with a smaller load"
    )
    parser.add_argument("--generate", action="store_true", help="measure transformers.generate too")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.smollm2:
        model, tokenizer = load_model(arguments.smollm2)
        load = Load(prompts=2, samples=4, turns=3, max_new_tokens=48, tools=8)
        found = measure(model, tokenizer, load=load, generate=arguments.generate, threads=arguments.threads)
    else:
        found = measure(generate=arguments.generate, threads=arguments.threads)
    line = f"sampling: ratio {found['ratio']:.1f} (ours {found['ours']:.0f}, other {found['other']:.0f}"
    line += " tokens per CPU second)"
    print(line + (f"; transformers.generate {found['generate']:.0f}" if "generate" in found else ""))


if __name__ == "__main__":
    main()
