"""A new environment to change: tools, ten tasks, a test and a recipe."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from seal.errors import ConfigError, StorageError

FILES = ("environment.py", "tasks.jsonl", "test_environment.py", "train.toml")
"""What is written."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def write(directory: Path) -> list[Path]:
    """Write a new environment.

    Args:
        directory: Where; its last part is the environment's name.

    Returns:
        The files.

    Raises:
        ConfigError: If the name cannot be one, or the directory holds something.
        StorageError: If it cannot be written.
    """
    name = directory.name
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name for an environment; use letters, digits, - and _, as in my-shop")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigError(f"{directory} is there already; choose another name, or remove it first")
    starter = files("seal.envs.functions") / "starter"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file in FILES:
            source = starter / (file if file.endswith(".jsonl") else f"{file}.txt")
            text = (
                source.read_text(encoding="utf-8").replace("{{name}}", name).replace("{{path}}", directory.as_posix())
            )
            (directory / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {directory}: {error}") from error
    return [directory / file for file in FILES]
