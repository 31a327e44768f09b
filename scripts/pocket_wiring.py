"""Starting weights with which copying is cheap: a Llama whose attention already looks back, copies and matches.

A model this small, trained from random weights, spends its whole budget on learning to copy a value out of its context
(almost no value copied after 1.0 M tokens in our trial). So some heads start as what training would have to find first
(in the spirit of mimetic initialisation, Trockman and Kolter 2023; induction heads, Olsson et al. 2022):

| layer | head | starts as |
|---|---|---|
| 0 | 0 | looks at the previous token, and notes it in the part B of the residual stream |
| 1 to 3 | 0 | looks where the token before is the present one, and copies what stands there |
| 1 | 1 | anything (random queries and keys), and notes what stands there in the part C |
| 2, 3 | 2 | looks where the token before is what C holds, and copies what stands there |
| others | | random queries and keys, values are copied |

All weights are trained afterwards; nothing here is special at inference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

PART = 64
"""Width of each of the parts A (the token itself), B (the token before) and C (what was looked up)."""
SPREAD = 0.25
"""Standard deviation of a token's vector in its part A."""
_SLOW, _FAST = 0.006, 0.02
"""Rotary frequencies in radians a token: content is matched on slower ones, the previous token found on faster ones."""


def wire(model: LlamaForCausalLM, *, match: float = 2.0, back: float = 10.0, seed: int = 1) -> None:
    """Set the starting weights in place.

    Args:
        model: Width 192, three heads of 64, at least three layers, tied embeddings.
        match: Scale of queries and keys that match content.
        back: Scale of the head that looks back.
        seed: Of the random part.
    """
    config = model.config
    size = config.hidden_size // config.num_attention_heads
    assert config.hidden_size >= 3 * PART
    assert size == PART
    half = size // 2
    theta = config.rope_parameters["rope_theta"]
    frequencies = [theta ** (-i / half) for i in range(half)]
    slots = [i + part for part in (0, half) for i, f in enumerate(frequencies) if f < _SLOW]
    generator = torch.Generator().manual_seed(seed)
    a, b, c = (range(i * PART, (i + 1) * PART) for i in range(3))
    constant = config.hidden_size - 1
    c = range(c.start, constant)
    with torch.no_grad():
        embedding = model.model.embed_tokens.weight
        embedding.zero_()
        embedding[:, :PART] = torch.randn(len(embedding), PART, generator=generator) * SPREAD
        embedding[:, constant] = 0.5
        for number, layer in enumerate(model.model.layers):
            attention, mlp = layer.self_attn, layer.mlp
            for part in (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj):
                part.weight.normal_(0, 0.03, generator=generator)
            for part in (mlp.gate_proj, mlp.up_proj, mlp.down_proj):
                part.weight.normal_(0, 0.03, generator=generator)

            def content(head: int, query: Sequence[int], key: Sequence[int]) -> None:
                mix, _ = torch.linalg.qr(torch.randn(PART, PART, generator=generator))
                rows = slice(head * size, (head + 1) * size)
                for weight, source in ((attention.q_proj.weight, query), (attention.k_proj.weight, key)):  # noqa: B023
                    weight[rows] = 0
                    for row, slot in enumerate(slots):
                        weight[head * size + slot, source[0] : source[-1] + 1] = mix[row, : len(source)] * match

            def move(head: int, source: Sequence[int], target: Sequence[int], scale: float) -> None:
                rows = slice(head * size, (head + 1) * size)
                attention.v_proj.weight[rows] = 0  # noqa: B023
                attention.o_proj.weight[:, rows] = 0  # noqa: B023
                for i, (one, other) in enumerate(zip(source, target, strict=False)):
                    attention.v_proj.weight[head * size + i, one] = 1  # noqa: B023
                    attention.o_proj.weight[other, head * size + i] = scale  # noqa: B023

            if number == 0:
                attention.q_proj.weight[:size] = 0
                attention.k_proj.weight[:size] = 0
                for i, frequency in enumerate(frequencies):
                    if frequency > _FAST:
                        # The key points along the pair's first axis and the query is turned by one step, so that the
                        # score of distance n is cos(frequency (n - 1)).
                        attention.k_proj.weight[i, constant] = back / 2
                        attention.q_proj.weight[i, constant] = back / 2 * math.cos(frequency)
                        attention.q_proj.weight[i + half, constant] = -back / 2 * math.sin(frequency)
                move(0, a, b, 0.35)
                continue
            content(0, a, b)
            move(0, a, a, 0.35 if number > 1 else 0.2)
            if number == 1:
                move(1, a, c, 0.3)
                move(2, a, a, 0.2)
            else:
                move(1, a, a, 0.3)
                content(2, c, b)
                move(2, a, a, 0.3)
