"""Which scenarios are trained on, validated on and held out. Splits never cut through a scenario.

A scenario is one number; its four tasks (one a category) share files, users and wording, so a split by task would test
on what was trained on. The training part gives a share of its scenarios to validation, where checkpoints are chosen.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import orjson

from seal.envs.bfcl.catalog import PER_CATEGORY
from seal.errors import ConfigError

NAMES = ("train", "validation", "held-out", "all")
"""Split names; `eval` is another word for `held-out`."""

PUBLISHED = "published"
"""The scheme of the published runs: 100 scenarios (400 tasks) to train on, 100 held out."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A division of the scenarios.

    Attributes:
        text: As the user wrote it.
        parts: Scenario numbers by split name; the first three are disjoint and make up the fourth.
    """

    text: str
    parts: Mapping[str, frozenset[int]]


def published() -> tuple[frozenset[int], frozenset[int]]:
    """Scenario numbers of the published runs: training part and evaluation part."""
    table = orjson.loads(files("seal.envs.bfcl").joinpath("data/split_published.json").read_bytes())
    return frozenset(table["train"]), frozenset(table["eval"])


def scheme(text: str, *, validation: float, seed: int) -> Scheme:
    """Read a scheme: `published`, or `seeded:SEED:FRACTION` with the fraction of scenarios that is not held out.

    Args:
        text: The scheme.
        validation: Share of the training part's scenarios that goes to validation, in [0, 1).
        seed: Chooses them.

    Raises:
        ConfigError: If the text cannot be read, or a part would be empty that must not be.
    """
    if not 0 <= validation < 1:
        raise ConfigError(f"the validation share is {validation:g}; expected at least 0 and less than 1")
    if text == PUBLISHED:
        training, held_out = published()
    else:
        training, held_out = _seeded(text)
    count = math.ceil(len(training) * validation)
    if count >= len(training):
        raise ConfigError(
            f"a validation share of {validation:g} leaves nothing to train on: the training part of {text!r} has "
            f"{len(training)} scenarios"
        )
    chosen = frozenset(random.Random(f"validation:{seed}").sample(sorted(training), count))
    parts = {
        "train": training - chosen,
        "validation": chosen,
        "held-out": held_out,
        "all": training | held_out,
    }
    return Scheme(text, parts)


def _seeded(text: str) -> tuple[frozenset[int], frozenset[int]]:
    words = text.split(":")
    expected = f"expected {PUBLISHED!r} or 'seeded:SEED:FRACTION', such as 'seeded:7:0.5'"
    if len(words) != 3 or words[0] != "seeded":
        raise ConfigError(f"splits={text!r} is unknown; {expected}")
    try:
        seed, fraction = int(words[1]), float(words[2])
    except ValueError:
        raise ConfigError(f"splits={text!r} cannot be read; {expected}") from None
    count = round(PER_CATEGORY * fraction) if 0 < fraction <= 1 else 0
    if count < 1:
        raise ConfigError(f"splits={text!r}: the fraction must be over 0, at most 1, and give at least one scenario")
    training = frozenset(random.Random(f"split:{seed}").sample(range(PER_CATEGORY), count))
    return training, frozenset(range(PER_CATEGORY)) - training
