"""Every number of a configuration has its range, and what is outside is one message that names the key."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import typing
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seal.config import RunConfig, load_config, parse_config
from seal.errors import ConfigError
from seal.ranges import Range, ranges

SECTIONS = {"": RunConfig} | {
    field.name: kind
    for field in dataclasses.fields(RunConfig)
    if dataclasses.is_dataclass(kind := typing.get_type_hints(RunConfig)[field.name])
}


def numbers() -> Iterator[tuple[str, str, type]]:
    """Section, key and type of every numeric key."""
    for section, kind in SECTIONS.items():
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            options = set(typing.get_args(hints[field.name])) or {hints[field.name]}
            for number in {int, float} & options:
                yield section, field.name, number


NUMBERS = sorted(numbers(), key=str)


def laid_out(section: str, key: str, value: object) -> dict[str, object]:
    return {section: {key: value}} if section else {key: value}


def test_every_number_has_a_range() -> None:
    assert len(NUMBERS) > 35
    for section, key, _ in NUMBERS:
        assert key in ranges(SECTIONS[section]), f"{section}.{key} has no range"


@pytest.mark.parametrize(("section", "key", "number"), NUMBERS, ids=lambda part: str(getattr(part, "__name__", part)))
def test_what_is_outside_is_refused_by_name(section: str, key: str, number: type) -> None:
    allowed = ranges(SECTIONS[section])[key]
    place = f"{section}.{key}" if section else key
    outside = st.integers().filter(lambda n: n not in allowed)
    if number is float:
        outside = st.floats().filter(lambda x: x not in allowed) | outside

    @given(outside)
    @settings(max_examples=25, deadline=None)
    def refused(value: float) -> None:
        with pytest.raises(ConfigError) as error:
            parse_config(laid_out(section, key, value))
        assert place in str(error.value)
        assert "\n" not in str(error.value)

    refused()
    edges = [allowed.low - 1, allowed.high + 1, -1e18 if number is float else -(10**18), 10**400]
    edges += [math.nan, math.inf, -math.inf] if number is float else []
    for value in edges:
        with pytest.raises(ConfigError, match=place.replace(".", r"\.")):
            parse_config(laid_out(section, key, number(value) if abs(value) < 1e300 else value))


@pytest.mark.parametrize(("section", "key", "number"), NUMBERS, ids=lambda part: str(getattr(part, "__name__", part)))
def test_the_ends_of_a_range_are_inside(section: str, key: str, number: type) -> None:
    """Alone; what two keys together rule out is said for both."""
    allowed = ranges(SECTIONS[section])[key]
    for end in (allowed.high, *(() if allowed.above else (allowed.low,))):
        with contextlib.suppress(ConfigError):
            parse_config(laid_out(section, key, number(end)))
            continue
        with pytest.raises(ConfigError, match=r"^((?!must be a number).)*$"):
            parse_config(laid_out(section, key, number(end)))


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "+nan", "1e999"])
def test_toml_can_write_what_is_no_number(text: str) -> None:
    for override in ("rollout.temperature", "update.clip", "update.max_grad_norm", "weights.alpha"):
        with pytest.raises(ConfigError, match=rf"{override} must be a number (from|above) .*, got "):
            load_config(None, [f"{override}={text}"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rollout.rounds=100000000000", r"rollout\.rounds must be a number from 1 to 1000000, got 100000000000"),
        ("rollout.rounds=1e11", r"rollout\.rounds must be int, got 100000000000\.0"),
        ("model.threads=100000", r"model\.threads must be a number from 1 to 1024"),
        ("seed=-1", "seed must be a number from 0"),
        ("model.device=meta", r"model\.device must be auto, cpu, cuda, cuda:N or mps, got 'meta'"),
        ("lora.dropout=0.1", r"lora\.dropout is no key any more, got 0\.1: with dropout"),
    ],
)
def test_single_values(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, [override])


def test_a_schedule_of_endless_length() -> None:
    with pytest.raises(ConfigError, match=r"rollout\.rounds x prompts must be at most 10,000,000, got 65,536,000,000"):
        load_config(None, ["rollout.rounds=1000000", "rollout.prompts=65536"])
    with pytest.raises(ConfigError, match=r"rollout\.prompts x group_size must be at most 1,000,000"):
        load_config(None, ["rollout.prompts=65536", "rollout.group_size=16"])


def test_a_retired_key_reads_where_it_changes_nothing() -> None:
    assert parse_config({"lora": {"dropout": 0.0}}) == RunConfig()


def test_what_a_range_says() -> None:
    assert [str(Range(0, 1)), str(Range(0, 10, above=True)), str(Range(0.01, 100))] == [
        "from 0 to 1",
        "above 0, up to 10",
        "from 0.01 to 100",
    ]
    assert True not in Range(0, 1)
    assert "1" not in Range(0, 1)
