"""Sampled tokens per CPU second: our own decoding, transformers' continuous batching, vLLM. In vLLM's environment.

    make bench-vllm [BENCH_OPTIONS="--models pocket smollm2 --prompts 400 4000"]

Groups of 8 rollouts play some turns from prompts of a length: the first reads the prompt, each later one adds 100
tokens. Nothing ends a message but its length, so that all do the same work. One thread. Our decoding and vLLM keep what
they have read over turns, and read what a group shares once; continuous batching shares within a call and is given
whole contexts. The pocket model's positions end at 1,024; here they are let go on, for only speed is looked at.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from seal.models.chat import ChatFormat
from seal.models.load import load_model
from seal.models.local import LocalPolicy
from seal.models.vllm import VllmPolicy
from seal.models.vllm_engine import VllmEngine
from seal.task import Conversation, Message
from seal.types import Generation, StopReason

GROUP = 8
TEXT = "please move the file to the folder, then tell me the size of the result and who wrote it first. "
POSITIONS = 8192

Generate = Callable[[Sequence[Conversation]], Sequence[Generation | None]]


def text_of(chat: ChatFormat, tokens: int, start: str) -> str:
    """A text of about so many tokens."""
    each = len(chat.encode(TEXT))
    return start + TEXT * max(1, round((tokens - len(chat.encode(start))) / each))


def play(generate: Generate, chat: ChatFormat, *, prompt: int, groups: int, turns: int) -> tuple[int, float]:
    """Sampled tokens and CPU seconds."""
    conversations = []
    for group in range(groups):
        text = text_of(chat, prompt, f"task {group}. ")
        conversations += [Conversation((), (), [Message("user", text, text)], seed=(0, group, i)) for i in range(GROUP)]
    sampled, spent = 0, 0.0
    for turn in range(turns):
        began = time.process_time()
        generations = generate(conversations)
        spent += time.process_time() - began
        for conversation, generation in zip(conversations, generations, strict=True):
            assert generation is not None, "the context is full"
            sampled += generation.completion_tokens
            conversation.messages.append(Message("assistant", generation.text, generation.text, generation=generation))
            text = text_of(chat, 100, f"turn {turn}. ")
            conversation.messages.append(Message("user", text, text))
    return sampled, spent


class Continuous:
    """Transformers' continuous batching over whole contexts."""

    def __init__(self, model: Any, chat: ChatFormat, new: int) -> None:
        self._model, self._chat, self._new = model, chat, new

    def __call__(self, conversations: Sequence[Conversation]) -> list[Generation]:
        """Continue conversations."""
        from transformers import ContinuousBatchingConfig, GenerationConfig  # noqa: PLC0415 -- not in every version

        settings: Any = GenerationConfig

        contexts = [self._chat.step_context(conversation) for conversation in conversations]
        ids = [[*self._chat.history_ids(c), *new[0]] for c, new in zip(conversations, contexts, strict=True)]
        page = 32
        blocks = sum((len(row) + self._new) // page + 2 for row in ids)
        outputs = self._model.generate_batch(
            inputs=ids,
            generation_config=settings(do_sample=True, max_new_tokens=self._new, eos_token_id=-1, pad_token_id=0),
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=page, num_blocks=blocks, max_batch_tokens=2048, use_cuda_graph=False, use_async_batching=False
            ),
        )
        found = sorted(outputs.values(), key=lambda output: int(output.request_id.rpartition("_")[2]))
        assert len(found) == len(ids), f"{len(found)} of {len(ids)} came back"
        return [
            self._chat.generation(
                output.generated_tokens,
                [0.0] * len(output.generated_tokens),
                context,
                stop=StopReason.LENGTH,
                prompt_tokens=len(row),
            )
            for output, context, row in zip(found, contexts, ids, strict=True)
        ]


def measure(source: str, prompts: Sequence[int], *, new: int, turns: int, repeats: int) -> list[dict[str, Any]]:
    """The three on one model: a row for each length of prompts."""
    torch.set_num_threads(1)
    model, tokenizer = load_model(source, device="cpu", dtype="float32")
    model.config.max_position_embeddings = POSITIONS
    chat = ChatFormat(tokenizer)
    engine = VllmEngine(model, max_context=POSITIONS, cached_tokens=60_000)
    rows = []
    for prompt in prompts:
        groups = 2 if prompt <= 1000 else 1
        row: dict[str, Any] = {"model": source, "prompt": prompt, "groups": groups, "turns": turns, "new": new}
        for name in ("ours", "continuous", "vllm"):
            best, why = 0.0, ""
            for _ in range(repeats):
                try:
                    sampled, spent = play(
                        sampler(name, model=model, tokenizer=tokenizer, chat=chat, engine=engine, new=new),
                        chat,
                        prompt=prompt,
                        groups=groups,
                        turns=turns,
                    )
                except Exception as error:  # one that does not run here is a result, too
                    why = f"{type(error).__name__}: {error}"[:200]
                    break
                best = max(best, sampled / spent)
            row[name] = why or round(best, 1)
        rows.append(row)
        print(json.dumps(row), flush=True)
    engine.close()
    return rows


def sampler(name: str, *, model: Any, tokenizer: Any, chat: ChatFormat, engine: VllmEngine, new: int) -> Generate:
    """A fresh one: nothing is remembered from one measurement to the next."""
    if name == "continuous":
        return Continuous(model, chat, new)
    policy: Any
    if name == "ours":
        policy = LocalPolicy(model, tokenizer, chat=chat, max_new_tokens=new, max_context=POSITIONS)
    else:
        engine.transfer(model)
        policy = VllmPolicy(engine, chat, max_new_tokens=new)
    policy.stop_ids = frozenset()
    generate: Generate = policy.generate
    return generate


def main() -> None:
    """Print a line for each model and length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["pocket"])
    parser.add_argument("--prompts", nargs="+", type=int, default=[400, 4000])
    parser.add_argument("--new", type=int, default=48, help="tokens of a message")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write the rows there as JSON")
    arguments = parser.parse_args()
    rows = []
    for source in arguments.models:
        rows += measure(source, arguments.prompts, new=arguments.new, turns=arguments.turns, repeats=arguments.repeats)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
