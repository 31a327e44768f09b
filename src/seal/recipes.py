"""Recipes as files: TOML, of which one may extend another, so that neighbours differ only where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seal.errors import ConfigError, MissingError
from seal.toml import read_toml_file

EXTENDS = "extends"
"""Key at the top of a recipe that names another one: a path beside it, with or without `.toml`."""


def read_recipe(path: Path) -> dict[str, Any]:
    """Read a recipe and those that it extends into one tree, without `extends`.

    Args:
        path: A TOML file.

    Raises:
        MissingError: If it or one that it extends is not there.
        ConfigError: If one is not TOML, or extends itself in the end.
    """
    chain: list[Path] = []
    trees: list[Mapping[str, Any]] = []
    following: Path | None = path
    while following is not None:
        if following.resolve() in chain:
            raise ConfigError(f"{path} extends itself: {' -> '.join(item.name for item in [*chain, following])}")
        chain.append(following.resolve())
        tree = _read(following)
        trees.append(tree)
        following = _parent(following, tree)
    merged: dict[str, Any] = {}
    for tree in reversed(trees):
        merged = merge(merged, tree)
    merged.pop(EXTENDS, None)
    return merged


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one tree over another: tables are merged, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = merge(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise MissingError(f"there is no recipe at {path}; recipes of this project are in recipes/")
    return read_toml_file(path)


def _parent(path: Path, tree: Mapping[str, Any]) -> Path | None:
    if EXTENDS not in tree:
        return None
    name = tree[EXTENDS]
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{path}: extends names another recipe's file, got {name!r}")
    beside = path.parent / name
    parent = beside if beside.is_file() else beside.with_name(f"{beside.name}.toml")
    if not parent.is_file():
        raise MissingError(f"{path} extends {name!r}, but there is no {parent}")
    return parent
