"""Write docs/configuration.md from the docstrings of the configuration classes. `--check` only compares."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docstring_parser import DocstringStyle, parse

from seal import config as config_module
from seal.config import RunConfig
from seal.cues import CUES
from seal.interface import Recipe
from seal.ranges import ranges

TARGET = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"

HEAD = """\
<!-- Made by scripts/make_config_docs.py (`make docs`) from the docstrings; change those. -->

# Configuration

A recipe is a TOML file. Every key has a default; an unknown key, a wrong type or an impossible value is an error that
names the place. `seal train --set section.key=value` lays values on top, and the effective configuration stands in the
run's `config.toml`. With `extends = "NAME"` at its top a recipe holds only what differs from another one beside it.
[method.md](method.md) has the equations behind `exposure.rescue`, `[distill]` and `weights.entropy`.

```toml
seed = 7

[environment]
name = "bfcl"
options = { enforce_tools = true }

[rollout]
rounds = 20
```
"""


def render() -> str:
    """The whole document."""
    return "\n".join([HEAD, *_sections(RunConfig), _recipes(), _cues()])


def _sections(root: type) -> Iterator[str]:
    hints = typing.get_type_hints(root)
    described = _described(root)
    plain = [field for field in dataclasses.fields(root) if not dataclasses.is_dataclass(hints[field.name])]
    yield "## Top level\n\n" + _table(root, plain, described)
    for field in dataclasses.fields(root):
        kind = hints[field.name]
        if not dataclasses.is_dataclass(kind) or not isinstance(kind, type):
            continue
        lead = _lead(kind) if kind.__module__ != config_module.__name__ else _lead(kind).partition(": ")[2]
        lead = lead[:1].upper() + lead[1:]
        yield f"## `[{field.name}]`\n\n{lead}\n\n" + _table(kind, list(dataclasses.fields(kind)), _described(kind))


def _lead(kind: type) -> str:
    parsed = parse(inspect.getdoc(kind) or "", style=DocstringStyle.GOOGLE)
    return parsed.short_description or ""


def _described(kind: type) -> Mapping[str, str]:
    parsed = parse(inspect.getdoc(kind) or "", style=DocstringStyle.GOOGLE)
    return {item.arg_name: re.sub(r"\s+", " ", item.description or "") for item in parsed.params}


def _table(kind: type, fields: list[dataclasses.Field[Any]], described: Mapping[str, str]) -> str:
    hints, limits = typing.get_type_hints(kind), ranges(kind)
    rows = ["| key | type | default | what |", "|---|---|---|---|"]
    for field in fields:
        if field.name not in described:
            sys.exit(f"{kind.__name__}.{field.name} has no description in its docstring")
        allowed = f", {limits[field.name]}" if field.name in limits else ""
        cells = (f"`{field.name}`", _type(hints[field.name]) + allowed, _default(field), described[field.name])
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _type(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("none" if a is type(None) else _type(a) for a in arguments)
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is not None:
        return "table"
    if issubclass(kind, enum.Enum):
        return ", ".join(f"`{member.value}`" for member in kind)
    return {str: "string", int: "integer", float: "number", bool: "true, false"}[kind]


def _default(field: dataclasses.Field[Any]) -> str:
    value = field.default if field.default is not dataclasses.MISSING else {}
    if value is None:
        return "none"
    if isinstance(value, enum.Enum):
        return f"`{value.value}`"
    if isinstance(value, float):
        return f"`{value:.4g}`"
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value)}`"


def _recipes() -> str:
    tree = ast.parse(inspect.getsource(Recipe)).body[0]
    assert isinstance(tree, ast.ClassDef)
    rows = ["## Interface recipes\n", "| `interface.recipe` | what |", "|---|---|"]
    for member, words in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(words, ast.Expr) and isinstance(words.value, ast.Constant):
            assert isinstance(member.value, ast.Constant)
            rows.append(f"| `{member.value.value!s}` | {words.value.value!s} |")
    return "\n".join(rows) + "\n"


def _cues() -> str:
    rows = [
        "## Cues\n",
        "For `interface.cues` and `seal eval --interface`.\n",
        "| cue | kind | turned on by | what it shows |",
        "|---|---|---|---|",
    ]
    for cue in CUES.values():
        labels = ", ".join(f"`{label}`" for label in cue.labels)
        rows.append(f"| `{cue.id}` | {cue.kind} | {labels} | {cue.text} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    """Write the document, or compare it."""
    text = render()
    if "--check" in sys.argv[1:]:
        fresh = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        print("docs/configuration.md is up to date" if fresh else "docs/configuration.md is stale: run `make docs`")
        return 0 if fresh else 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
