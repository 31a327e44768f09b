"""Experiment trackers: what of a round's line they get, by name, and that none of them can cost a run.

`rounds.jsonl` is the record; a tracker is a window on it. One that cannot start stops the run at its start, before
anything was computed. One that fails later is told about and gets nothing more, and the run goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from seal.cues import CUES
from seal.errors import ConfigError, MissingError
from seal.scoped import Scoped
from seal.taxonomy import OUTSIDE_PROFILE

PROJECT = "seal"
"""What runs are filed under, where a tracker has projects."""


class Tracker(Protocol):
    """Takes numbers."""

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        """The numbers of a round, 0-based."""
        ...

    def close(self) -> None:
        """There are no more."""
        ...


def check_installed(names: tuple[str, ...]) -> None:
    """Refuse trackers that are not installed.

    Raises:
        MissingError: Naming the extra.
    """
    for name in names:
        if find_spec(name) is None:
            raise MissingError(
                f"output.report_to names {name!r}, which is not installed: pip install 'seal-rl[{name}]', or take it "
                "out"
            )


class Trackers(AbstractContextManager["Trackers"]):
    """All trackers of a run. A context manager.

    Args:
        names: Those of `output.report_to`.
        run: The run directory; its name is the run's name.
        config: The effective configuration, as sections of plain values.
        note: Told when one of them fails.

    Raises:
        ConfigError: If one cannot start.
    """

    def __init__(
        self, names: tuple[str, ...], run: Path, config: Mapping[str, Any], *, note: Callable[[str], None]
    ) -> None:
        self._note = note
        self._open: dict[str, Tracker] = {}
        for name in names:
            try:
                self._open[name] = _KINDS[name](run, config)
            except Exception as error:  # whatever a tracker raises: no key, no server, no room
                self.close()
                raise ConfigError(
                    f"the tracker {name} does not start: {_why(error)}. Put that right ({_HINTS[name]}), or take it "
                    "out of output.report_to"
                ) from error

    def log(self, record: Mapping[str, Any]) -> None:
        """Hand on a round's line."""
        numbers = scalars(record)
        for name in list(self._open):
            self._try(name, lambda tracker: tracker.log(numbers, int(record["round"])))

    def close(self) -> None:
        """End them all. May be called twice."""
        for name in list(self._open):
            self._try(name, lambda tracker: tracker.close())
            self._open.pop(name, None)

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _try(self, name: str, call: Callable[[Tracker], None]) -> None:
        try:
            call(self._open[name])
        except Exception as error:  # a window on the record is not worth the run
            del self._open[name]
            self._note(
                f"the tracker {name} failed and gets nothing more: {_why(error)}. The run goes on; rounds.jsonl has "
                "it all"
            )


# -- names -------------------------------------------------------------------------------------------------------------


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a round's line by name; what was not measured is left out, never 0.

    `profile/LABEL` is the share of the turns that count; `cues/ID` is 1 while a cue is on, for
    whatever tool, else 0.

    Args:
        record: As in rounds.jsonl.
    """
    found: dict[str, Any] = {
        key: record.get(key) for key in ("success", "success_cued", "success_bare", "unscored", "rollouts")
    }
    found["groups_without_contrast"] = record.get("zero_variance")
    found |= _named("profile", _shares(record.get("labels") or {}))
    interface = record.get("interface") or {}
    found["cues/exposure"] = interface.get("exposure")
    active = {Scoped.parse(cue).cue for cue in interface.get("active") or ()}
    found |= {f"cues/{cue}": float(cue in active) for cue in CUES}
    gap = record.get("interface_gap") or {}
    for decoding in ("greedy", "sampled"):
        found |= _named(f"gap/{decoding}", gap.get(decoding) or {}, "difference", "low", "high")
    for section in ("reliance", "calls", "weights", "update", "tokens", "seconds", "sampler"):
        found |= _flat(section, record.get(section) or {})
    found |= _named("utility", record.get("utilities") or {})
    validation = record.get("validation") or {}
    found |= _named("validation", validation, "success", "low", "high", "n")
    for category, part in (validation.get("by_category") or {}).items():
        found |= _named(f"validation/{category}", part, "success")
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _shares(labels: Mapping[str, int]) -> dict[str, float]:
    outside = {str(label) for label in OUTSIDE_PROFILE}
    counted = {label: n for label, n in labels.items() if label not in outside}
    turns = sum(counted.values())
    return {label: n / turns for label, n in counted.items()} if turns else {}


def _named(section: str, values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {f"{section}/{name}": values.get(name) for name in names or values}


def _flat(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_leaves(section, values))


def _leaves(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{place}/{key}", inner)
    else:
        yield place, value


# -- the trackers ------------------------------------------------------------------------------------------------------


class _TensorBoard:
    """Event files in the run directory; a resumed run's rounds replace those that were taken back."""

    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 -- heavy

        # After a crash, steps from here on are forgotten: they will be written again.
        self._writer: Any = SummaryWriter(str(run / "tensorboard"), purge_step=_finished(run))
        self._writer.add_text("config", "\n".join(f"    {key} = {value}" for key, value in _leaves("", config)))

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _WandB:
    """A run of its own name; WANDB_MODE=offline writes it into the run directory."""

    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        import wandb  # noqa: PLC0415 -- optional

        self._run: Any = wandb.init(
            project=PROJECT, name=run.name, id=_identity(run), dir=str(run), config=dict(config), resume="allow"
        )

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        self._run.log(dict(scalars), step=step)

    def close(self) -> None:
        self._run.finish()


class _Trackio:
    """A local dashboard (`trackio show`); TRACKIO_DIR says where it is kept."""

    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        import trackio  # noqa: PLC0415 -- optional

        self._module: Any = trackio
        trackio.init(
            project=PROJECT, name=f"{run.name}-{_identity(run)}", config=dict(config), resume="allow", embed=False
        )

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        self._module.log(dict(scalars), step=step)

    def close(self) -> None:
        self._module.finish()


_KINDS: Mapping[str, Callable[[Path, Mapping[str, Any]], Tracker]] = {
    "tensorboard": _TensorBoard,
    "wandb": _WandB,
    "trackio": _Trackio,
}
_HINTS = {
    "tensorboard": "it writes below the run directory",
    "wandb": "wandb login, or WANDB_MODE=offline",
    "trackio": "TRACKIO_DIR is where it writes",
}


def _identity(run: Path) -> str:
    """The same for a run that is resumed, another for another directory."""
    return hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:12]


def _finished(run: Path) -> int:
    lines = run / "rounds.jsonl"
    return lines.read_bytes().count(b"\n") if lines.is_file() else 0


def _why(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
