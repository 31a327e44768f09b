"""Make the pocket model: `python scripts/make_pocket.py --out src/seal/models/pocket`.

Seeded; one CPU thread. Stages: a tokenizer from what conversations look like; copying of random sequences; imitation of
clean episodes; imitation of flawed ones (`pocket_demonstrator`), with and without cues. Data: the split `train` alone,
in worlds whose rules are drawn at random and are never those of world 0, which the presets use.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from pocket_demonstrator import DONE, NO_TOOL, NO_VALUE, SORRY, Demonstrator, Imitated, plans
from pocket_tokenizer import SPECIALS, TEMPLATE, build
from pocket_wiring import PART, SPREAD, wire
from seal.cues import CUES
from seal.envs.workshop import Workshop
from seal.envs.workshop.words import CHOICES, POOLS
from seal.interface import showing
from seal.models.chat import ChatFormat
from seal.rollout import BARE, Episode, rollout

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

LONGEST = 640
"""Tokens of a training row at most; longer episodes are left out."""
STRANGE = ("person", "room", "folder", "file", "topic", "item", "device", "company", "city", "author")
"""Word types whose words change places or are replaced in some episodes: copying must not hang on the word."""


@dataclass(frozen=True, slots=True)
class Row:
    """One training row.

    Attributes:
        ids: Tokens, shape (T,).
        loss: How much each of them is learned, 0 for not at all, shape (T,).
    """

    ids: np.ndarray
    loss: np.ndarray


Kind = Literal["short", "missing", "told", "mixed"]
"""Which worlds: one-turn tasks; tasks that mostly lack a tool or a value at first; short tasks full of hidden rules,
always with cues that tell them; all kinds."""

PER_WORLD = 48


def worlds(rng: random.Random, count: int, kind: Kind) -> Iterator[tuple[Workshop, list[int]]]:
    """Worlds with random rules, none of them world 0, and which training tasks to take from each."""
    for _ in range(count):
        seed, rule_set = rng.randrange(1, 10**6), rng.randrange(1, 10**6)
        fixed: dict[str, Any] = {"seed": seed, "rule_set": rule_set, "sizes": {"train": 4096}}
        drawn = rng.sample(range(4096), 4 * PER_WORLD)
        if kind == "short":
            fixed |= {"turns": 1, "tools_shown": 3, "long_records": 4, "categories": ("base", "long_context")}
            yield Workshop("easy", **fixed), drawn[:PER_WORLD]
        elif kind == "missing":
            fixed |= {"turns": rng.choice((2, 2, 3)), "tools_shown": rng.choice((3, 4, 5))}
            fixed |= {"hidden": rng.choice((0.0, 0.2)), "categories": ("miss_func", "miss_param") * 2 + ("base",)}
            yield Workshop(rng.choice(("easy", "default")), **fixed), drawn[:PER_WORLD]
        elif kind == "told":
            fixed |= {"turns": rng.choice((1, 2)), "tools_shown": 3, "hidden": rng.choice((0.6, 0.9)), "double": 0.0}
            yield Workshop("default", **fixed, categories=("base", "long_context")), drawn[:PER_WORLD]
        else:
            fixed |= {"hidden": rng.choice((0.0, 0.2, 0.4, 0.7)), "varying": rng.choice((0.0, 0.3)), "turns": 4}
            fixed |= {
                "stated": rng.choice((1.0, 0.5)),
                "rule_errors": rng.choices(("terse", "named", "plain"), (6, 1, 2))[0],
            }
            world = Workshop(rng.choices(("easy", "default", "hard"), (3, 6, 2))[0], **fixed)
            # Long conversations pay the reading of their tools with more calls to learn from.
            long = [i for i in drawn if len(world.plan(world.task(f"workshop/train/{i}")).turns) >= 3]
            yield world, long[:PER_WORLD] if rng.random() < 0.75 else drawn[:PER_WORLD]


TELLING = (("schema.values",), ("err.constraint", "err.recovery"), ("err.constraint",), tuple(CUES))
"""Sets of cues that state hidden rules."""


def draw_cues(rng: random.Random, bare: float, kind: Kind) -> tuple[str, ...]:
    """Which cues an episode shows."""
    if kind == "told":
        return rng.choice(TELLING)
    if rng.random() < bare:
        return ()
    dice = rng.random()
    if dice < 0.4:
        return (rng.choice(list(CUES)),)
    if dice < 0.75:
        return tuple(CUES)
    return tuple(cue for cue in CUES if rng.random() < 0.4)


def episodes(
    chat: ChatFormat,
    rng: random.Random,
    count: int,
    *,
    flaws: float,
    bare: float,
    kind: Kind = "mixed",
    texts: list[str] | None = None,
) -> list[Row]:
    """Rows of at least `count` demonstrated episodes.

    Args:
        chat: Turns conversations into tokens.
        rng: Draws everything.
        count: How many.
        flaws: Scale of the demonstrator's habits.
        bare: Share of the episodes without any cue.
        kind: Of which worlds.
        texts: If given, receives the conversations as text.
    """
    rows: list[Row] = []
    for world, indices in worlds(rng, math.ceil(count / PER_WORLD), kind):
        shown = [draw_cues(rng, bare, kind) for _ in indices]
        players = [
            Demonstrator(plan, random.Random(rng.random()), frozenset(cues), flaws, world.dials.rule_errors)
            for plan, cues in zip(plans(world, indices), shown, strict=True)
        ]
        policy = Imitated(chat, players)
        policy.texts = None if texts is None else {}
        played = [
            Episode(world.task(plan.plan.task_id), 0, showing(cues).presenter() if cues else BARE, (i,))
            for i, (plan, cues) in enumerate(zip(players, shown, strict=True))
        ]
        rollout(world, played, policy)
        if texts is not None and policy.texts is not None:
            texts += policy.texts.values()
        for steps in policy.rows.values():
            ids = [i for step in steps for i in (*step.shown, *step.sampled)]
            loss = [flag for step in steps for flag in [False] * len(step.shown) + [True] * len(step.sampled)]
            if len(ids) <= LONGEST:
                rows.append(Row(np.array(ids, np.int64), np.array(loss, np.float32)))
    return rows


class Strangers:
    """Makes words strange, so that values and wordings which no episode holds can be dealt with.

    Words that never occur in the data keep their random starting vectors for good. In training, stand-ins (tokens of
    single bytes, with fresh vectors of the same kind for every batch) take the place of values, identifiers and some
    words of the user. So an unknown word is nothing new: it is copied, and read by its place.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, rows: Sequence[Row], rng: np.random.Generator) -> None:
        self.rng = rng
        vocabulary = tokenizer.get_vocab()
        size = len(tokenizer)
        self.tokens = tokenizer.convert_ids_to_tokens(list(range(size)))
        seen = np.zeros(size, bool)
        for row in rows:
            seen[row.ids] = True
        self.stand_ins = np.array([vocabulary[f"<0x{byte:02X}>"] for byte in range(128, 256)])
        assert not seen[self.stand_ins].any()
        self.seen, self.unseen = np.flatnonzero(seen), np.flatnonzero(~seen)
        self.words = np.array(sorted({vocabulary[w] for kind in STRANGE for w in POOLS[kind].train}))
        numbers = [vocabulary[w] for kind in ("amount", "price") for w in POOLS[kind].train if int(w) >= 10]
        self.value = np.zeros(size, bool)
        self.value[self.words] = True
        self.value |= np.array([re.fullmatch(r"[a-z]\d\d", token) is not None for token in self.tokens])
        self.number = np.zeros(size, bool)
        self.number[numbers] = True
        # Where a rule turns hours into minutes, a number is more than a thing to be copied.
        self.unit = np.array([token in ("minutes", "cents", "9900", "360") for token in self.tokens])
        kept = {word for rows_ in CHOICES.values() for row_ in rows_ for word in row_}
        plain = [re.fullmatch(r"[a-z]+", token) is not None and token not in kept for token in self.tokens]
        self.plain = np.array(plain) & ~self.value
        self.user, self.end = vocabulary["<|user|>"], vocabulary["<|end|>"]

    def refresh(self, embedding: torch.Tensor) -> None:
        """Give the stand-ins fresh vectors."""
        with torch.no_grad():
            fresh = torch.from_numpy(self.rng.standard_normal((len(self.stand_ins), PART)).astype(np.float32))
            embedding[torch.from_numpy(self.stand_ins), :PART] = fresh * SPREAD

    def hold(self, gradient: torch.Tensor | None) -> None:
        """Let words that are never seen stay as they are."""
        if gradient is not None:
            gradient[torch.from_numpy(self.unseen)] = 0

    def __call__(self, row: Row) -> Row:
        """The episode with some of its words dealt anew or replaced by stand-ins, the same for the whole episode."""
        table = np.arange(len(self.tokens))
        dice = self.rng.random()
        stand_ins = list(self.rng.permutation(self.stand_ins))
        if dice < 0.5:
            usable = self.value | self.number if not self.unit[row.ids].any() else self.value
            for token in np.unique(row.ids[usable[row.ids]]):
                if stand_ins and self.rng.random() < 0.6:
                    table[token] = stand_ins.pop()
        elif dice < 0.65:
            table[self.words] = self.rng.permutation(self.words)
        ids = table[row.ids]
        if self.rng.random() < 0.3:
            lost = self.plain[row.ids] & self._in_user(row.ids) & (self.rng.random(len(ids)) < 0.12)
            for place in np.flatnonzero(lost):
                if stand_ins:
                    ids[place] = stand_ins.pop()
        return Row(ids, row.loss)

    def _in_user(self, ids: np.ndarray) -> np.ndarray:
        """Which tokens the user says."""
        inside = np.zeros(len(ids), bool)
        on = False
        for place, token in enumerate(ids):
            on = (on or token == self.user) and token != self.end
            inside[place] = on
        return inside


def copying(ids: np.ndarray, rng: np.random.Generator, count: int, length: int) -> list[Row]:
    """Random sequences said twice; the second time is learned."""
    rows = []
    for _ in range(count):
        size = int(rng.integers(length // 4, length // 2))
        once = rng.choice(ids, size)
        filler = rng.choice(ids, length - 2 * size)
        row = np.concatenate([once, filler, once])
        loss = np.zeros(len(row), np.float32)
        loss[len(row) - size + 1 :] = 1
        rows.append(Row(row, loss))
    return rows


def batches(rows: Sequence[Row], rng: np.random.Generator, tokens: int) -> Iterator[list[Row]]:
    """One pass in random order; rows of similar length together, about `tokens` a batch."""
    order = rng.permutation(len(rows))
    pool = 512
    for start in range(0, len(order), pool):
        part = sorted((rows[i] for i in order[start : start + pool]), key=lambda row: len(row.ids))
        found: list[list[Row]] = [[]]
        for row in part:
            if found[-1] and len(row.ids) * (len(found[-1]) + 1) > tokens:
                found.append([])
            found[-1].append(row)
        for i in rng.permutation(len(found)):
            yield found[i]


class Stress:
    """Learns harder what decides: how a message begins (which tool, call or not), and identifiers."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        self.assistant = tokens.index("<|assistant|>")
        self.identifier = np.array([re.fullmatch(r"[a-z]\d\d", token) is not None for token in tokens])

    def __call__(self, row: Row) -> Row:
        """The row with other weights."""
        factor = np.where(self.identifier[row.ids], 1.5, 1.0).astype(np.float32)
        for place in (1, 2):
            factor[place:][row.ids[:-place] == self.assistant] = 2.5
        return Row(row.ids, row.loss * factor)


def losses(model: LlamaForCausalLM, rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    """Weighted negative log-likelihood of the learned tokens, and whether each was the likeliest; shapes (N,)."""
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    weight = torch.zeros(len(rows), width)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = torch.from_numpy(row.ids)
        weight[i, : len(row.ids)] = torch.from_numpy(row.loss)
    learn = weight[:, 1:] > 0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1][learn]
        logits = model.lm_head(hidden).float()
    target = ids[:, 1:][learn]
    loss = torch.nn.functional.cross_entropy(logits, target, reduction="none") * weight[:, 1:][learn]
    return loss, logits.argmax(-1) == target


class Trainer:
    """AdamW with a warm-up and a cosine, over stages."""

    def __init__(self, model: LlamaForCausalLM, strangers: Strangers, *, peak: float, total: int) -> None:
        self.model = model
        self.strangers = strangers
        self.embedding = model.model.embed_tokens.weight
        self.peak = peak
        self.total = total
        self.step = 0
        self.seen = 0
        self.began = time.monotonic()
        decay = [p for p in model.parameters() if p.ndim > 1 and p is not self.embedding]
        rest = [p for p in model.parameters() if p.ndim == 1 or p is self.embedding]
        self.optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
            lr=peak,
            betas=(0.9, 0.98),
            fused=True,
        )

    def learn(self, rows: Sequence[Row], name: str) -> None:
        """One step."""
        progress = min(1.0, self.seen / self.total)
        rate = self.peak * min(1.0, (self.step + 1) / 60) * (0.05 + 0.95 * (0.5 + 0.5 * math.cos(math.pi * progress)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.strangers.refresh(self.embedding)
        loss, right = losses(self.model, rows)
        torch.autograd.backward(loss.mean())
        self.strangers.hold(self.embedding.grad)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.seen += sum(len(row.ids) for row in rows)
        if self.step % 50 == 0:
            spent = time.monotonic() - self.began
            print(
                f"{name} step {self.step}: {self.seen / 1e6:.2f} M tokens, {spent:.0f} s, {self.seen / spent:.0f}/s, "
                f"loss {loss.mean().item():.3f}, right {right.float().mean().item():.3f}, rate {rate:.1e}",
                flush=True,
            )


def new_model(vocabulary: int, end: int) -> LlamaForCausalLM:
    """A small Llama with tied embeddings, wired for copying."""
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415 -- heavy

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=192,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=3,
        num_key_value_heads=3,
        max_position_embeddings=1024,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    # On one CPU thread with bfloat16 autocast this is a third faster than the fused attention.
    model.set_attn_implementation("eager")
    wire(model)
    model.train()
    return model


def make_tokenizer(rng: random.Random, count: int) -> PreTrainedTokenizerFast:
    """A tokenizer from the conversations of `count` demonstrated episodes."""
    draft = ChatFormat(build([TEMPLATE], extra_words=(), at_least=10**9))
    texts: list[str] = []
    episodes(draft, rng, count, flaws=1.0, bare=0.4, texts=texts)
    return build(texts, extra_words=" ".join((DONE, NO_TOOL, NO_VALUE, SORRY)).replace(",", "").split())


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the curriculum.

    Attributes:
        name: For the log.
        until: Millions of tokens seen in all, contexts included, at its end.
        data: Which sets of episodes; none for copying.
        context: Share of the context's tokens that are learned too.
    """

    name: str
    until: float
    data: tuple[str, ...] = ()
    context: float = 0.0


STAGES = (
    Stage("copying", 0.4),
    Stage("short, with context", 1.0, ("short",), 0.12),
    Stage("short, missing, told and clean", 3.5, ("short", "missing", "told", "clean")),
    Stage("missing, told, clean and flawed", 6.0, ("missing", "told", "clean", "flawed")),
    Stage("missing, told and flawed", 10.0, ("missing", "told", "flawed")),
)
"""The curriculum."""


def train(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    data: Mapping[str, Sequence[Row]],
    *,
    scale: float,
    peak: float,
    seed: int,
    stage_done: Callable[[], None],
) -> Trainer:
    """Go through the curriculum; `scale` multiplies its token budgets."""
    rng = np.random.default_rng(seed)
    strangers = Strangers(tokenizer, [row for rows in data.values() for row in rows], rng)
    trainer = Trainer(model, strangers, peak=peak, total=int(scale * STAGES[-1].until * 1e6))
    plain = strangers.seen[strangers.seen >= len(SPECIALS) + 256]
    everything = np.concatenate([plain, strangers.stand_ins, strangers.stand_ins])
    stress = Stress(tokenizer)

    def copies(count: int) -> None:
        trainer.learn(copying(everything, rng, count, int(rng.choice([48, 64, 96]))), "copying")

    def imitate(rows: Sequence[Row], until: float, stage: Stage) -> None:
        while True:
            for batch in batches(rows, rng, 1280):
                if trainer.seen >= until:
                    return
                chosen = [strangers(row) for row in batch]
                if stage.context:
                    chosen = [
                        Row(
                            row.ids, np.maximum(row.loss, (rng.random(len(row.ids)) < stage.context).astype(np.float32))
                        )
                        for row in chosen
                    ]
                trainer.learn([stress(row) for row in chosen], stage.name)
                if trainer.step % 80 == 0:
                    copies(12)

    for stage in STAGES:
        until = scale * stage.until * 1e6
        if stage.data:
            imitate([row for name in stage.data for row in data[name]], until, stage)
        else:
            while trainer.seen < until:
                copies(32)
        stage_done()
    return trainer


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--short", type=int, default=4000, help="short clean episodes")
    parser.add_argument("--missing", type=int, default=6000, help="episodes that mostly lack a tool or a value")
    parser.add_argument("--told", type=int, default=6000, help="short episodes with hidden rules that cues tell")
    parser.add_argument("--clean", type=int, default=10000, help="clean episodes")
    parser.add_argument("--flawed", type=int, default=16000, help="flawed episodes")
    parser.add_argument("--flaws", type=float, default=0.7, help="scale of the demonstrator's habits")
    parser.add_argument("--peak", type=float, default=1.5e-3, help="learning rate")
    parser.add_argument("--scale", type=float, default=1.0, help="of all token budgets")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    began, cpu = time.monotonic(), time.process_time()
    rng = random.Random(options.seed)
    tokenizer = make_tokenizer(rng, 1000)
    chat = ChatFormat(tokenizer)
    print(f"tokenizer: {len(tokenizer)} tokens; {chat.prove().suffixes} suffixes proved", flush=True)
    data = {
        "short": episodes(chat, rng, options.short, flaws=0.0, bare=1.0, kind="short"),
        "missing": episodes(chat, rng, options.missing, flaws=options.flaws / 2, bare=0.6, kind="missing"),
        "told": episodes(chat, rng, options.told, flaws=0.0, bare=0.0, kind="told"),
        "clean": episodes(chat, rng, options.clean, flaws=0.0, bare=0.4),
        "flawed": episodes(chat, rng, options.flawed, flaws=options.flaws, bare=0.4),
    }
    sizes = {name: len(rows) for name, rows in data.items()}
    print(f"episodes: {sizes}; {time.monotonic() - began:.0f} s", flush=True)
    model = new_model(len(tokenizer), chat.end_id)

    def save() -> None:
        model.save_pretrained(options.out)
        tokenizer.save_pretrained(options.out)

    trainer = train(model, tokenizer, data, scale=options.scale, peak=options.peak, seed=options.seed, stage_done=save)
    torch.nn.Module.to(model, dtype=torch.bfloat16)
    save()
    numbers = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "episodes": sizes,
        "tokens": trainer.seen,
        "steps": trainer.step,
        "seconds": round(time.monotonic() - began),
        "cpu_seconds": round(time.process_time() - cpu),
        "options": {key: str(value) for key, value in vars(options).items()},
    }
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
