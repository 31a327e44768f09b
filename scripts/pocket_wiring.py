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
| 3 | 1 | looks where the present token stood before, and notes in C what came before it there (is it on offer?) |
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
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

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
    assert config.hidden_size >= 3 * PART
    assert config.hidden_size // config.num_attention_heads == PART
    half = PART // 2
    assert config.rope_parameters is not None
    theta = float(config.rope_parameters["rope_theta"] or 0)
    frequencies = [theta ** (-i / half) for i in range(half)]
    generator = torch.Generator().manual_seed(seed)
    constant = config.hidden_size - 1
    token, before, found = range(PART), range(PART, 2 * PART), range(2 * PART, constant)
    last = len(model.model.layers) - 1
    with torch.no_grad():
        embedding = model.model.embed_tokens.weight
        embedding.zero_()
        embedding[:, :PART] = torch.randn(len(embedding), PART, generator=generator) * SPREAD
        embedding[:, constant] = 0.5
        for number, layer in enumerate(model.model.layers):
            wiring = _Wiring(layer, frequencies, match, generator)
            wiring.randomise()
            if number == 0:
                wiring.look_back(0, constant, back)
                wiring.move(0, token, before, 0.35)
                continue
            wiring.content(0, token, before)
            wiring.move(0, token, token, 0.35 if number > 1 else 0.2)
            if number == 1:
                wiring.move(1, token, found, 0.3)
                wiring.move(2, token, token, 0.2)
                continue
            if number == last:
                wiring.content(1, token, token)
                wiring.move(1, before, found, 0.3)
            else:
                wiring.move(1, token, token, 0.3)
            wiring.content(2, found, before)
            wiring.move(2, token, token, 0.3)


class _Wiring:
    """Sets the heads of one layer; the caller turns gradients off."""

    def __init__(
        self, layer: LlamaDecoderLayer, frequencies: Sequence[float], match: float, generator: torch.Generator
    ) -> None:
        self.attention, self.mlp = layer.self_attn, layer.mlp
        self.frequencies = frequencies
        self.match = match
        self.generator = generator

    def randomise(self) -> None:
        """Small random weights everywhere."""
        for part in (self.attention.q_proj, self.attention.k_proj, self.attention.v_proj, self.attention.o_proj):
            part.weight.normal_(0, 0.03, generator=self.generator)
        for part in (self.mlp.gate_proj, self.mlp.up_proj, self.mlp.down_proj):
            part.weight.normal_(0, 0.03, generator=self.generator)

    def look_back(self, head: int, constant: int, scale: float) -> None:
        """Attend to the previous token.

        The key points along the first axis of each pair and the query is turned by one step, so that the score of
        distance n is cos(frequency (n - 1)).
        """
        start = head * PART
        self.attention.q_proj.weight[start : start + PART] = 0
        self.attention.k_proj.weight[start : start + PART] = 0
        for i, frequency in enumerate(self.frequencies):
            if frequency > _FAST:
                self.attention.k_proj.weight[start + i, constant] = scale / 2
                self.attention.q_proj.weight[start + i, constant] = scale / 2 * math.cos(frequency)
                self.attention.q_proj.weight[start + i + PART // 2, constant] = -scale / 2 * math.sin(frequency)

    def content(self, head: int, query: Sequence[int], key: Sequence[int]) -> None:
        """Attend to where the part `key` of the residual stream holds what the part `query` holds here."""
        slots = [i + part for part in (0, PART // 2) for i, f in enumerate(self.frequencies) if f < _SLOW]
        mix, _ = torch.linalg.qr(torch.randn(PART, PART, generator=self.generator))
        rows = slice(head * PART, (head + 1) * PART)
        for weight, source in ((self.attention.q_proj.weight, query), (self.attention.k_proj.weight, key)):
            weight[rows] = 0
            for row, slot in enumerate(slots):
                weight[head * PART + slot, source[0] : source[-1] + 1] = mix[row, : len(source)] * self.match

    def move(self, head: int, source: Sequence[int], target: Sequence[int], scale: float) -> None:
        """Write what stands in one part of the residual stream where the head looks into another part here."""
        rows = slice(head * PART, (head + 1) * PART)
        self.attention.v_proj.weight[rows] = 0
        self.attention.o_proj.weight[:, rows] = 0
        for i, (one, other) in enumerate(zip(source, target, strict=False)):
            self.attention.v_proj.weight[head * PART + i, one] = 1
            self.attention.o_proj.weight[other, head * PART + i] = scale
