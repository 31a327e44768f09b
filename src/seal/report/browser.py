"""The trajectories of a page: a small index of all of them, and transcripts in compressed packs read when asked for."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from seal.logs.place import Place
from seal.logs.transcript import transcript
from seal.trace import Traced

PACK = 100
"""Transcripts a pack."""

BUDGET = 2_200_000
"""Characters of all packs: a page stays under 3 MB."""


def browse(traced: Iterable[tuple[str, Traced]]) -> dict[str, Any]:
    """Index and packs for the page's script.

    Args:
        traced: (name of the trace file, trajectory), in order.

    Returns:
        `index`: one list a trajectory [task id, sample, category, round, reward, labels, tools, advantage, weight,
        reliance, source]; `packs`: base64 of raw-deflated JSON lists of `pack` transcripts each, those of every
        `stride`-th trajectory of the index: 1 unless all of them would be too large for a page.
    """
    index: list[list[Any]] = []
    texts: list[bytes] = []
    for name, item in traced:
        trajectory = item.trajectory
        shown = transcript(Place(name, len(index)), trajectory, item.diagnosis)
        texts.append(orjson.dumps(shown))
        index.append(
            [
                shown["id"],
                trajectory.sample,
                shown["category"],
                item.round,
                trajectory.verdict.reward,
                [str(label) for label in item.diagnosis.labels],
                shown["tools"],
                _short(item.advantage),
                _short(item.weight),
                _short(item.reliance),
                name,
            ]
        )
    stride, packs = 1, _packs(texts)
    while (size := sum(map(len, packs))) > BUDGET:
        stride = max(stride + 1, math.ceil(stride * size / BUDGET))
        packs = _packs(texts[::stride])
    return {"index": index, "packs": packs, "pack": PACK, "stride": stride}


def _packs(texts: Sequence[bytes]) -> list[str]:
    return [_squeezed(b"[" + b",".join(texts[i : i + PACK]) + b"]") for i in range(0, len(texts), PACK)]


def _squeezed(data: bytes) -> str:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(squeeze.compress(data) + squeeze.flush()).decode("ascii")


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
