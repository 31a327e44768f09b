"""Whether the environment that runs this is whole: every pinned distribution there, its files too, and importable.

`make setup` asks this of a finished `.venv` and makes it again if the answer is no (exit code 1, one line on stderr).
Takes a few seconds; files are looked for, not read.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"
IMPORTED = (
    "numpy",
    "orjson",
    "jsonschema_rs",
    "tokenizers",
    "safetensors",
    "torch",
    "transformers",
    "pytest",
    "seal.cli",
)
"""What has compiled parts, or stands for much else."""


def trouble(pins: dict[str, str]) -> str:
    """What is wrong, in a phrase; empty if nothing is.

    Args:
        pins: Name -> version.
    """
    for name, version in pins.items():
        try:
            found = distribution(name)
        except PackageNotFoundError:
            return f"{name} is not installed"
        if name != "torch" and found.version != version:  # torch: whichever build this machine was given
            return f"{name} is {found.version}, not {version}"
        for file in found.files or ():
            if file.suffix in (".py", ".so", ".json") and not Path(str(file.locate())).is_file():
                return f"{name} lacks its file {file}"
    for module in IMPORTED:
        try:
            importlib.import_module(module)
        except Exception as error:
            return f"{module} cannot be imported ({type(error).__name__}: {error})"
    return ""


if __name__ == "__main__":
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    reason = trouble(dict(line.split()[0].split("==") for line in lines if line and line[0] not in "# "))
    if reason:
        sys.exit(f"{sys.prefix}: {reason}")
