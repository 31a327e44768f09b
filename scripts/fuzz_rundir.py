"""Attack run directories: kill real (tiny) training runs, damage their files, let the disk be full; then resume.

    python scripts/fuzz_rundir.py [TRIALS] [SEED]

What is promised of every trial: resuming either ends with what the uninterrupted run ended with, bit for bit (weights
of the last and of the best checkpoint, rounds.jsonl without its seconds, every trace), or is refused with one message
and exit code 2. Never another result with exit code 0, never "a bug in seal", never a hang. Exit code 1 if a trial
broke it.

A trial is one of
    kill    SIGKILL at up to three random moments, resumed in between
    damage  a run that was killed, or is finished, then one to three of its files truncated, flipped, deleted or emptied
    fill    no file may grow beyond a random size (RLIMIT_FSIZE), then room again; where this may mount, a full tmpfs

Each run is a process forked from this one, in which torch is imported already. Bounded: a trial that takes longer than
LIMIT seconds is a hang.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

LIMIT = 900.0
RECIPE = """
[environment]
name = "workshop"
train_tasks = 8
validation_tasks = 2
[model]
source = "pocket"
threads = 1
max_context = 1024
[rollout]
rounds = 3
prompts = 2
group_size = 2
max_new_tokens = 16
[interface]
recipe = "static"
[update]
learning_rate = 1e-3
micro_batch = 4
kl = 0.0
weight_decay = 0.1
[evaluation]
every = 1
"""


class Runs:
    """Training runs below a scratch directory."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.recipe = scratch / "recipe.toml"
        self.recipe.write_text(RECIPE, encoding="utf-8")

    def start(self, run: Path, *, before: Callable[[], None] = lambda: None) -> int:
        """Fork a process that begins or resumes a run; returns its id. What it says goes to `run`.said."""
        command = ["train", "--run", str(run), "--quiet"]
        command += ["--resume"] if (run / "config.toml").exists() else ["--recipe", str(self.recipe)]
        child = os.fork()
        if child:
            return child
        code = 99
        try:
            said = os.open(f"{run}.said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            for stream in (1, 2):
                os.dup2(said, stream)
            before()
            from seal.cli import main  # noqa: PLC0415 -- in the child

            code = main(command)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 98
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def finish(self, run: Path, *, before: Callable[[], None] = lambda: None) -> int | None:
        """Begin or resume a run and wait for it; its exit code, None if it hangs."""
        return wait(self.start(run, before=before), LIMIT)


def wait(child: int, seconds: float) -> int | None:
    """Exit code of a child, negative for a signal; None (and the child is killed) if it takes longer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def result(run: Path) -> dict[str, object]:
    """What a finished run ended with."""
    checkpoints = sorted((run / "checkpoints").glob("checkpoint-*"), key=lambda p: int(p.name[11:]))
    lines = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    summary = json.loads((run / "summary.json").read_text())
    return {
        "last": (checkpoints[-1].name, (checkpoints[-1] / "model.safetensors").read_bytes()),
        "best": (run / "checkpoints" / "best" / "model.safetensors").read_bytes(),
        "rounds": [{k: v for k, v in line.items() if k != "seconds"} for line in lines],
        "traces": {path.name: path.read_bytes() for path in sorted((run / "traces").iterdir())},
        "summary": {k: v for k, v in summary.items() if k != "seconds"},
    }


def kill(runs: Runs, run: Path, rng: random.Random, seconds: float) -> str:
    """SIGKILL at random moments."""
    moments = [rng.uniform(0, seconds) for _ in range(rng.randint(1, 3))]
    for moment in moments:
        wait(runs.start(run), moment)
    return "killed after " + ", ".join(f"{moment:.1f} s" for moment in moments)


def damage(runs: Runs, run: Path, rng: random.Random, seconds: float) -> str:
    """Damage files of a run that was killed late, or is finished."""
    wait(runs.start(run), rng.uniform(0.4, 2.0) * seconds)
    files = sorted(path for path in run.rglob("*") if path.is_file() and path.name != ".lock")
    if not files:
        return "killed before it wrote anything"
    done = []
    for path in rng.sample(files, min(len(files), rng.randint(1, 3))):
        how = rng.choice(["truncate", "flip", "delete", "empty"])
        size = path.stat().st_size
        if how == "delete":
            path.unlink()
        elif how == "empty" or not size:
            path.write_bytes(b"")
        elif how == "truncate":
            os.truncate(path, rng.randrange(size))
        else:
            with path.open("r+b") as file:
                place = rng.randrange(size)
                file.seek(place)
                byte = file.read(1)[0]
                file.seek(place)
                file.write(bytes([byte ^ (1 << rng.randrange(8))]))
        done.append(f"{how} {path.relative_to(run)}")
    return "; ".join(done)


def fill(runs: Runs, run: Path, rng: random.Random, seconds: float) -> str:
    """Let the disk be full: on a tmpfs where one may be mounted, else by a limit on the size of a file."""
    megabytes = rng.uniform(0.001, 80.0)
    run.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={max(64, int(megabytes * 1024))}k", "tmpfs", str(run)]
    if rng.random() < 0.5 and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            code = runs.finish(run)
            kept = runs.scratch / f"{run.name}.kept"
            shutil.copytree(run, kept)
        finally:
            subprocess.run(["umount", str(run)], check=True)
        run.rmdir()
        kept.rename(run)
        what = f"a disk of {megabytes:.2f} MB"
    else:
        limit = int(rng.uniform(200, 16e6) if rng.random() < 0.8 else rng.uniform(200, 20e3))
        code = runs.finish(run, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        what = f"no file beyond {limit} bytes"
    if code not in (0, 2):
        text = Path(f"{run}.said").read_text(errors="replace")
        return f"BROKEN: {what} gave exit code {code}: {' '.join(text.split())[-300:]}"
    return what


def judge(runs: Runs, run: Path, expected: dict[str, object]) -> tuple[str, str]:
    """Resume a run that was attacked: how it ended, and why that is not what was promised (empty if it is)."""
    code = runs.finish(run)
    text = Path(f"{run}.said").read_text(errors="replace").strip()
    if code is None:
        return "hang", "it hangs"
    if code == 2 and "bug in seal" not in text and "Traceback" not in text and text:
        return "refused", ""
    if code != 0:
        return "broken", f"exit code {code}: {text[-300:]}"
    found = result(run)
    other = [name for name, value in expected.items() if found[name] != value]
    return ("equal", "") if not other else ("other", f"exit code 0 with other {', '.join(other)}")


def main(trials: int, seed: int) -> int:
    """Run the trials; exit code."""
    import seal.engines.trl.trainer  # noqa: F401, PLC0415 -- once, for all the forked processes
    from seal.engines.trl import build  # noqa: F401, PLC0415

    counts: Counter[str] = Counter()
    broken = 0
    with tempfile.TemporaryDirectory(prefix="seal-fuzz-") as name:
        runs = Runs(Path(name))
        whole = runs.scratch / "whole"
        started = time.monotonic()
        if runs.finish(whole) != 0:
            sys.exit(f"the uninterrupted run failed: {Path(f'{whole}.said').read_text()}")
        seconds = time.monotonic() - started
        expected = result(whole)
        for trial in range(trials):
            rng = random.Random(f"{seed}/{trial}")
            attack = (kill, damage, damage, fill)[trial % 4]
            run = runs.scratch / f"run-{trial}"
            what = attack(runs, run, rng, seconds)
            how, why = ("broken", what) if what.startswith("BROKEN") else judge(runs, run, expected)
            counts[f"{attack.__name__}: {how}"] += 1
            print(f"{trial}: {what}: {how}", file=sys.stderr, flush=True)
            if why:
                broken += 1
                print(f"trial {trial} ({attack.__name__}, {what}): {why}", flush=True)
            shutil.rmtree(run, ignore_errors=True)
    print(f"{trials} trials, seed {seed}: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    print(f"broken promises: {broken}")
    return int(broken > 0)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*numbers, *(40, 0)[len(numbers) :]))
