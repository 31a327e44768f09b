"""Logs that people already have: read, labelled and summarised (`seal diagnose`).

>>> import seal
>>> report = seal.diagnose([{"messages": [
...     {"role": "user", "content": "Weather in Paris?"},
...     {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": "{'city': 'Paris'}"}}]},
... ]}])
>>> report.labels
{'invalid_tool_call': 1}
>>> print(report.top[0].example.evidence.partition(" (")[2].rpartition(" (")[2])
repairable: Python literals)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from seal.logs.analyse import Analyst, Diagnosed, Settings
from seal.logs.findings import FailureMode, SuggestedCue
from seal.logs.report import Report, report_of
from seal.logs.run import Outcome, diagnose_files
from seal.logs.tally import Tally
from seal.logs.text import AUTO
from seal.logs.tools import read_tools, specs_of
from seal.types import ToolSpec

__all__ = [
    "Diagnosed",
    "FailureMode",
    "Outcome",
    "Report",
    "Settings",
    "SuggestedCue",
    "diagnose",
    "diagnose_each",
    "diagnose_files",
    "read_tools",
]


def diagnose(
    records: Iterable[object] | str | Path,
    *,
    tools: object = None,
    dialect: str = AUTO,
    workers: int | None = None,
    reward: str | None = None,
    threshold: float | None = None,
) -> Report:
    """Say why an agent fails, from records or from a file.

    Args:
        records: Parsed records in any format that `seal diagnose` reads, or the path of a file or folder.
        tools: Schemas that stand in where a record holds none: OpenAI tools, `ToolSpec`s, or the path of a schema file.
        dialect: Strict dialect of calls in text, one of `seal.parse.DIALECTS`, or `auto`.
        workers: Processes for a file; more than one needs a script that guards its main part (see `multiprocessing`).
        reward: Where records hold their reward, as keys joined by dots (`evaluation.utility`), if not where their
            format has it.
        threshold: The lowest reward of a success; 1 unless given.

    Returns:
        Counts, failure modes with examples, and what the method suggests. Records that cannot be read are in `failed`.

    Raises:
        ConfigError: If there is no such dialect, or an option has no sense.
        DataError: If `tools` holds no tool, or the file cannot be read at all.
    """
    settings = Settings(_tools(tools), dialect, reward=reward, threshold=threshold)
    if isinstance(records, (str, Path)):
        return diagnose_files([Path(records)], settings, workers=workers or 1).report
    total = Tally()
    for tally, _episodes in Analyst(settings).records(records):
        total.merge(tally)
    return report_of(
        total, tools_given=settings.tools is not None, threshold=settings.threshold, reward=settings.reward
    )


def diagnose_each(
    records: Iterable[object],
    *,
    tools: object = None,
    dialect: str = AUTO,
    reward: str | None = None,
    threshold: float | None = None,
) -> Iterator[Diagnosed]:
    """Label parsed records one after another, and hand over trajectories and diagnoses themselves.

    Raises:
        DataError: For a record that cannot be read, with its number and the reason.
    """
    from seal.errors import DataError  # noqa: PLC0415 -- beside its only use

    settings = Settings(_tools(tools), dialect, reward=reward, threshold=threshold)
    for tally, episodes in Analyst(settings).records(records):
        if tally.failures:
            raise DataError(f"record {tally.failures[0].line}: {tally.failures[0].reason}")
        yield from episodes


def _tools(tools: Any) -> tuple[ToolSpec, ...] | None:
    from seal.errors import DataError  # noqa: PLC0415 -- beside its only use

    if tools is None:
        return None
    if isinstance(tools, (str, Path)):
        return read_tools(Path(tools))
    if isinstance(tools, Sequence) and tools and all(isinstance(tool, ToolSpec) for tool in tools):
        return tuple(tools)
    specs = specs_of(tools)
    if not specs:
        raise DataError("`tools` holds no tool: expected a list of objects with `name` and `parameters`, or a path")
    return specs
