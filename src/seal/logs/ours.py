"""Runs of our own among the logs: only their traces are logs, and tests before and after training are no training.

The layout is that of `seal.engines.rundir`: RUN/rounds.jsonl beside RUN/traces with round-0000.jsonl,
held-out-before.jsonl and held-out-after.jsonl.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from seal.config import parse_config
from seal.errors import SealError
from seal.interface import InterfaceOptions
from seal.toml import read_toml_file

TRAINING = "training"
OTHER = "other logs"
_PARTS = {"held-out-before.jsonl": "held-out, before training", "held-out-after.jsonl": "held-out, after training"}
_ROUND = re.compile(r"round-\d+\.jsonl")
_ORDER = (TRAINING, OTHER, *reversed(_PARTS.values()))


def without_records_of_runs(folder: Path, files: Sequence[Path]) -> list[Path]:
    """Files of a folder without what its runs keep beside their traces: settings, results, models."""
    folders = {above for parent in {file.parent for file in files} for above in _up_to(parent, folder)}
    runs = {place for place in folders if _is_run(place)}
    return [file for file in files if _is_trace(file) or not any(run in file.parents for run in runs)]


def parted(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Files by what was played in them; rates over several of these would say nothing.

    Returns:
        The part to look at in detail first: training rounds, else other logs, else the last test.
    """
    found: dict[str, list[Path]] = {}
    for file in files:
        found.setdefault(_part(file), []).append(file)
    return {name: found[name] for name in _ORDER if name in found}


def interface_of(files: Iterable[Path]) -> InterfaceOptions | None:
    """What the interface may do in the one run that all traces are of; None if they are not of one."""
    runs = {file.resolve().parent.parent if _is_trace(file) else None for file in files}
    run = runs.pop() if len(runs) == 1 else None
    if run is None or not (run / "config.toml").is_file():
        return None
    try:
        return parse_config(read_toml_file(run / "config.toml")).interface
    except SealError:  # of another version, say: the traces can be read all the same
        return None


def _part(file: Path) -> str:
    if not _is_trace(file):
        return OTHER
    return TRAINING if _ROUND.fullmatch(file.name) else _PARTS.get(file.name, OTHER)


def _is_trace(file: Path) -> bool:
    """Whether a file is a trace of a run."""
    place = file.resolve().parent
    return place.name == "traces" and _is_run(place.parent)


def _is_run(folder: Path) -> bool:
    return (folder / "traces").is_dir() and any((folder / name).is_file() for name in ("rounds.jsonl", "config.toml"))


def _up_to(place: Path, top: Path) -> list[Path]:
    """A folder and those above it, up to `top` and including it."""
    above = [place, *place.parents]
    return above[: above.index(top) + 1] if top in above else []
