"""From the runs of a design to its results: success by cell, effects, cost, curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from seal.ablate.design import Design, Unit
from seal.ablate.effects import Contrast, Effect, difference, estimate, factorial, t_interval
from seal.ablate.measure import Measured
from seal.ablate.run import run_directory, start_directory
from seal.ablate.worker import COST, MEASURED
from seal.errors import DataError
from seal.trace import read_json

Decoding = Literal["greedy", "sampled"]
LATE = 3
"""Validations at the end of a run whose mean is reported beside the chosen checkpoint's test."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A finished run."""

    measured: Measured
    rounds: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]
    cpu_seconds: float

    @property
    def validation(self) -> list[list[float]]:
        """(rounds done, success) of every validation."""
        before = self.summary["validation"]["before"]
        points = [[0.0, before["success"]]] if before else []
        return points + [[r["round"] + 1.0, r["validation"]["success"]] for r in self.rounds if r["validation"]]

    @property
    def dealt(self) -> int:
        """Rounds in which some rollouts were dealt the interface, be it a silent one."""
        return sum(bool(r["interface"]["active"]) and r["interface"]["exposure"] > 0 for r in self.rounds)

    @property
    def cost(self) -> dict[str, float]:
        """Of training, without the held-out test; CPU seconds include it."""
        return {
            "rollouts": float(sum(r["rollouts"] for r in self.rounds)),
            "sampled_tokens": float(sum(r["tokens"]["sampled"] for r in self.rounds)),
            "model_tokens": float(sum(r["tokens"]["prompt"] + r["tokens"]["sampled"] for r in self.rounds)),
            "cpu_seconds": self.cpu_seconds,
        }


def collect(design: Design, out: Path) -> dict[str, Any]:
    """Put what is finished of a design into numbers.

    Args:
        design: What was asked for.
        out: Where its runs are.

    Returns:
        The content of results.json. `cells` hold name, seeds (finished units), success, low, high (greedy; Student's t
        over units); `effects` hold name, estimate, low, high, seeds, all in shares of episodes, over the units in which
        every cell of the effect is finished.

    Raises:
        DataError: If no run is finished, or runs were tested on different tasks.
    """
    runs = {
        cell: {unit: run for unit in design.units if (run := _read(run_directory(out, cell, unit))) is not None}
        for cell in design.cells
    }
    if not any(runs.values()):
        raise DataError(f"no run of {design.name} is finished in {out}")
    starts = {
        block: Measured.read(start_directory(out, block) / MEASURED)
        for block in design.blocks
        if (start_directory(out, block) / MEASURED).is_file()
    }
    _same_tasks(design, runs, starts)
    contrasts = {
        **factorial(design.cells, design.factors),
        **{name: difference(*pair) for name, pair in design.compare.items()},
    }
    cost = _equal_cost(runs)
    effects = [_effect(name, contrast, runs, design) for name, contrast in contrasts.items()]
    return {
        "design": design.name,
        "blocks": list(design.blocks),
        "wanted": len(design.units),
        "start": {
            block: {
                "greedy": _mean(measured.greedy),
                "sampled": _mean(measured.sampled),
                "n": len(measured.tasks),
                "weights_sha256": measured.weights,
            }
            for block, measured in starts.items()
        },
        "cells": [_cell(name, found, starts, cost.get(name)) for name, found in runs.items()],
        "effects": [effect for effect in effects if effect is not None],
    }


def _read(place: Path) -> _Run | None:
    if not (place / MEASURED).is_file():
        return None
    lines = (place / "run" / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    return _Run(
        Measured.read(place / MEASURED),
        [json.loads(line) for line in lines],
        read_json(place / "run" / "summary.json"),
        float(read_json(place / COST)["cpu_seconds"]),
    )


def _same_tasks(design: Design, runs: Mapping[str, Mapping[Unit, _Run]], starts: Mapping[str, Measured]) -> None:
    for block in design.blocks:
        found = [run.measured.tasks for units in runs.values() for unit, run in units.items() if unit.block == block]
        found += [starts[block].tasks] if block in starts else []
        if any(tasks != found[0] for tasks in found):
            raise DataError(f"runs of block {block!r} were tested on different tasks; make them again in another --out")


def _cell(
    name: str, runs: Mapping[Unit, _Run], starts: Mapping[str, Measured], at_cost: float | None
) -> dict[str, Any]:
    found = list(runs.values())
    cell: dict[str, Any] = {"name": name, "seeds": len(runs), **_interval("success", [_greedy(run) for run in found])}
    if not found:
        return cell
    sampled = [value for run in found if (value := _mean(run.measured.sampled)) is not None]
    late = [fmean(point[1] for point in run.validation[-LATE:]) for run in found if run.validation]
    cell["temperature_1"] = _interval("success", sampled)
    cell["late_validation"] = _interval("success", late)
    cell["strata"] = {
        stratum: _interval("success", [_stratum(run.measured, stratum) for run in found])
        for stratum in sorted({stratum for run in found for stratum in run.measured.strata})
    }
    gains = [
        _greedy(run) - start
        for unit, run in runs.items()
        if unit.block in starts and (start := _mean(starts[unit.block].greedy)) is not None
    ]
    cell["over_start"] = _interval("estimate", gains)
    cell["blocks"] = {
        block: _interval("success", [_greedy(run) for unit, run in runs.items() if unit.block == block])
        for block in sorted({unit.block for unit in runs})
    }
    cell["cost"] = {key: fmean(run.cost[key] for run in found) for key in found[0].cost}
    cell["validation_at_equal_cost"] = at_cost
    cell["rounds_dealt"] = [run.dealt for run in found]
    cell["labels"] = _labels(found)
    cell["runs"] = [
        {
            "block": unit.block,
            "seed": unit.seed,
            "greedy": _greedy(run),
            "temperature_1": _mean(run.measured.sampled),
            "best_round": run.summary["best"]["round"],
            "validation": run.validation,
            "cues": [record["interface"]["shown"] for record in run.rounds],
            "reliance": [record["reliance"]["mean"] if record["reliance"] else None for record in run.rounds],
        }
        for unit, run in runs.items()
    ]
    return cell


def _effect(
    name: str, contrast: Contrast, runs: Mapping[str, Mapping[Unit, _Run]], design: Design
) -> dict[str, Any] | None:
    units = [unit for unit in design.units if all(unit in runs[cell] for cell in contrast)]
    if not units:
        return None
    found = _estimate(contrast, runs, units, "greedy")
    tasks: dict[str, int] = {}
    for unit in units:
        tasks[unit.block] = len(runs[next(iter(contrast))][unit].measured.tasks)
    record: dict[str, Any] = {
        "name": name,
        "contrast": dict(contrast),
        **_json(found),
        "blocks": {
            block: _json(_estimate(contrast, runs, [unit for unit in units if unit.block == block], "greedy"))
            for block in design.blocks
            if len(design.blocks) > 1 and any(unit.block == block for unit in units)
        },
        "strata": {
            stratum: _interval("estimate", _stratum_differences(contrast, runs, units, stratum))
            for stratum in sorted({s for unit in units for s in runs[next(iter(contrast))][unit].measured.strata})
        },
    }
    if design.samples:
        record["temperature_1"] = _json(_estimate(contrast, runs, units, "sampled"))
    return record


def _estimate(
    contrast: Contrast, runs: Mapping[str, Mapping[Unit, _Run]], units: Sequence[Unit], decoding: Decoding
) -> Effect:
    """Over units of several blocks, tasks of a block stand in columns of their own."""
    blocks = {unit.block: len(runs[next(iter(contrast))][unit].measured.tasks) for unit in units}
    width = sum(blocks.values())
    starts = dict(zip(blocks, np.cumsum([0, *blocks.values()]).tolist(), strict=False))

    def table(cell: str) -> npt.NDArray[np.float64]:
        found = np.full((len(units), width), np.nan)
        for row, unit in enumerate(units):
            values = [np.nan if v is None else v for v in getattr(runs[cell][unit].measured, decoding)]
            found[row, starts[unit.block] : starts[unit.block] + len(values)] = values
        return found

    return estimate(contrast, {cell: table(cell) for cell in contrast})


def _stratum_differences(
    contrast: Contrast, runs: Mapping[str, Mapping[Unit, _Run]], units: Sequence[Unit], stratum: str
) -> list[float]:
    return [
        sum(weight * _stratum(runs[cell][unit].measured, stratum) for cell, weight in contrast.items())
        for unit in units
    ]


def _stratum(measured: Measured, stratum: str) -> float:
    rewards = [
        reward
        for reward, kind in zip(measured.greedy, measured.strata, strict=True)
        if kind == stratum and reward is not None
    ]
    return fmean(rewards) if rewards else float("nan")


def _json(effect: Effect) -> dict[str, Any]:
    return {
        "estimate": effect.estimate,
        "low": effect.low,
        "high": effect.high,
        "seeds": effect.units,
        "low_tasks": effect.low_tasks,
        "high_tasks": effect.high_tasks,
    }


def _interval(name: str, values: Sequence[float]) -> dict[str, Any]:
    found = t_interval(values)
    return {
        name: fmean(values) if values else None,
        "low": found[0] if found else None,
        "high": found[1] if found else None,
    }


def _greedy(run: _Run) -> float:
    value = _mean(run.measured.greedy)
    assert value is not None, "a run without any scored episode"
    return value


def _mean(values: Sequence[float | None]) -> float | None:
    scored = [value for value in values if value is not None]
    return fmean(scored) if scored else None


def _labels(runs: Sequence[_Run]) -> dict[str, float]:
    names = sorted({name for run in runs for name in run.measured.labels})
    return {name: fmean(run.measured.labels.get(name, 0) for run in runs) for name in names}


def _equal_cost(runs: Mapping[str, Mapping[Unit, _Run]]) -> dict[str, float]:
    """Mean validation success of each cell when it has sampled as many tokens as the cheapest cell does in all.

    Between two validations the curve is taken to be straight.
    """
    finished = {cell: list(units.values()) for cell, units in runs.items() if units}
    budget = min(fmean(run.cost["sampled_tokens"] for run in found) for found in finished.values())
    return {
        cell: fmean(_at(run, budget) for run in found)
        for cell, found in finished.items()
        if all(run.validation for run in found)
    }


def _at(run: _Run, budget: float) -> float:
    spent = np.cumsum([0, *(record["tokens"]["sampled"] for record in run.rounds)])
    points = run.validation
    return float(np.interp(budget, [spent[int(rounds)] for rounds, _ in points], [success for _, success in points]))
