"""`make bench`: run every benchmark of this directory, print a line each, keep the numbers in results.json.

A benchmark is a module with `measure() -> dict`. Each runs in a
process of its own, so that none inherits another's threads or memory. Exit code 1 if one fails; the others are kept.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BENCHMARKS = ("bfcl", "sampling", "round", "diagnose", "isolation", "scale")
UNITS = {"bfcl": "episodes/s", "sampling": "tokens/CPU s", "round": "tokens/CPU s", "diagnose": "trajectories/s"}
RESULTS = HERE / "results.json"


def line(name: str, found: Mapping[str, Any]) -> str:
    """One line for people: `bfcl: ratio 12.3 (ours 3100, other 252 episodes/s)`."""
    rest = [f"{k.replace('_', ' ')} {_number(v)}" for k, v in found.items() if k not in ("ratio", "ours", "other")]
    if not {"ratio", "ours", "other"} <= found.keys():
        return f"{name}: {'; '.join(f'{k} {_number(v)}' for k, v in found.items())}"
    sides = f"(ours {found['ours']:.0f}, other {found['other']:.0f} {UNITS.get(name, '')}".rstrip() + ")"
    return "; ".join([f"{name}: ratio {found['ratio']:.1f} {sides}", *rest])


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def one(name: str, target: Path) -> None:
    """Run one benchmark here and write its numbers."""
    sys.path.insert(0, str(HERE))
    found = importlib.import_module(name).measure()
    target.write_text(json.dumps(found), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(BENCHMARKS)}; all unless given")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        one(options.one[0], Path(options.one[1]))
        return 0
    unknown = sorted(set(options.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; known: {', '.join(BENCHMARKS)}")
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    failed = []
    for name in options.names or [name for name in BENCHMARKS if (HERE / f"{name}.py").exists()]:
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "found.json"
            command = [sys.executable, str(HERE / "run.py"), "--one", name, str(file)]
            # A benchmark may print as it goes; only its line belongs on stdout.
            done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr)
            if done.returncode or not file.exists():
                failed.append(name)
                print(f"{name}: failed (exit code {done.returncode})", flush=True)
                continue
            results[name] = json.loads(file.read_text(encoding="utf-8"))
        print(line(name, results[name]), flush=True)
        fresh = RESULTS.with_suffix(".json.new")
        fresh.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        fresh.replace(RESULTS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
