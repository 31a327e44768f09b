"""`seal ablate`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from seal.cli import recipes
from seal.cli.exits import NO, OK, resumable
from seal.cli.extras import needs
from seal.cli.options import Flag
from seal.cli.output import complain, result, stderr
from seal.trace import write_json


def ablate(design: Path, *, out: Path | None = None, jobs: int = 1, collect: Flag = False, json: Flag = False) -> int:
    """Run a matched experiment from one file: the same tasks, starting weights and seeds in every cell.

    Runs that are finished are never made again; a killed command goes on where it stopped.
    Exit code 1 if a run failed.

    Args:
        design: A TOML file; docs/ablate.md says what it holds.
        out: Where runs and results go; runs/DESIGN unless given.
        jobs: Runs side by side, each a process with one thread.
        collect: Train nothing; put what is finished into numbers.
        json: Print the results as one JSON object, as in results.json.
    """
    from seal.ablate.design import read_design  # noqa: PLC0415 -- not for --help

    asked = read_design(design, find=recipes.find)
    place = out or Path("runs") / asked.name
    with resumable("Run the same command again to go on."), result(as_json=json) as answer, needs("arena", "ablations"):
        from seal.ablate.collect import collect as gather  # noqa: PLC0415 -- loads scipy
        from seal.ablate.page import sentence, write_page  # noqa: PLC0415
        from seal.ablate.run import run_design  # noqa: PLC0415

        failed = [] if collect else run_design(asked, place, jobs=jobs, watcher=_Lines())
        for log in failed:
            complain(f"a run failed: {log}", _last_line(log))
        answer.data = gather(asked, place)
        write_json(place / "results.json", answer.data)
        page = write_page(answer.data, place)
        for cell in answer.data["cells"]:
            around = f" ({100 * cell['low']:.1f} to {100 * cell['high']:.1f})" if cell["low"] is not None else ""
            rate = "-" if cell["success"] is None else f"{100 * cell['success']:.1f} %{around}"
            answer.say(f"{cell['name']:28} {cell['seeds']:3} runs  {rate}")
        answer.say("", *(sentence(effect).replace("**", "") for effect in answer.data["effects"]), "", f"Page: {page}")
    return NO if failed else OK


class _Lines:
    """Progress as lines on stderr."""

    def __init__(self) -> None:
        self._done = self._total = 0

    def begin(self, total: int, done: int) -> None:
        """Say what there is to do."""
        self._done, self._total = done, total
        stderr().print(f"{total} runs, {done} of them finished before")

    def finished(self, name: str, *, seconds: float, failed: Path | None, left: float | None) -> None:
        """Say how a run ended and how long the rest will take."""
        self._done += failed is None
        how = f"FAILED, see {failed}" if failed is not None else f"{seconds:.0f} s"
        rest = f", about {timedelta(seconds=round(left))} left" if left else ""
        stderr().print(f"[{self._done}/{self._total}] {name}: {how}{rest}", markup=False, soft_wrap=True)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
