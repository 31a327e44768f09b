"""Small inputs that once took minutes or gigabytes, each of any size: attacks on `seal diagnose`.

Each makes a record of about `size` units (calls, characters, levels). The time to read it has to grow about linearly
with its size; `benchmarks/diagnose_sweep.py` doubles the size and bounds the exponent.
"""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

TOOL = {"name": "lend", "description": "", "parameters": {"type": "object", "properties": {"book": {"type": "string"}}}}


def _said(text: str, **more: Any) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": text}],
        "tools": [TOOL],
        **more,
    }


def _call(number: int, name: str = "lend", arguments: str = '{"book": "b"}') -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def react_blanks(size: int) -> dict[str, Any]:
    """`Action:` and blanks: a pattern backtracked cubically."""
    return _said("Action:" + " " * size + "\nx" + "\n" * size + "Action Input:" + " " * size)


def line_breaks(size: int) -> dict[str, Any]:
    """Nothing but line breaks around an action in tau-bench's style."""
    return {"task_id": 1, "reward": 0, "traj": [
        {"role": "user", "content": "x"}, {"role": "assistant", "content": "Action:" + "\n" * size + "Act"},
        {"role": "assistant", "content": 'Action: {"name": "f", "arguments": {}}'}]}  # fmt: skip


def hermes_tags(size: int) -> dict[str, Any]:
    """Opening tags that never close."""
    return _said("<tool_call>" * size)


def tags_of_all_dialects(size: int) -> dict[str, Any]:
    """The opening marks of many dialects, again and again."""
    marks = (
        *("<tool_call>", "<function=", "[TOOL_CALLS]", "<|python_tag|>", "<invoke name=", "<function_calls>"),
        *("<think>", "<|tool_call_begin|>", "functools[", "```json\n{", "Action: f\nAction Input: {", "[f("),
        "<arg_key>",
    )
    return _said("".join(marks) * (size // 10 + 1))


def brackets_in_prose(size: int) -> dict[str, Any]:
    """Objects that begin like calls and never end."""
    return _said('{"name": "lend", "arguments": {' * size)


def python_in_prose(size: int) -> dict[str, Any]:
    """Calls in Python that never end."""
    return _said("so lend(" * size)


def fences(size: int) -> dict[str, Any]:
    """Code fences of broken calls."""
    return _said('```json\n{"name": "lend", "arguments": {"book": }}\n```\n' * size)


def calls_of_a_turn(size: int) -> dict[str, Any]:
    """Failing calls of one turn, one a step."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
    for number in range(size):
        messages.append({"role": "assistant", "content": None, "tool_calls": [_call(number, arguments='{"book": 1}')]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"Error: {number}"})
    return {"messages": messages, "tools": [TOOL]}


def calls_of_a_step(size: int) -> dict[str, Any]:
    """Parallel calls of one step, answered without ids and in reverse."""
    calls = [_call(number, f"t{number % 50}") for number in range(size)]
    answers = [{"role": "tool", "name": f"t{number % 50}", "content": "ok"} for number in reversed(range(size))]
    return {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": calls}, *answers]}


def unknown_tools(size: int) -> dict[str, Any]:
    """As many tools as calls to tools that are none of them."""
    tools = [{"name": f"tool_{number}", "parameters": {"type": "object"}} for number in range(size)]
    calls = [_call(number, f"other-{number}") for number in range(size)]
    return {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": calls}], "tools": tools}


def one_large_schema(size: int) -> dict[str, Any]:
    """A long schema, and many calls of its tool."""
    properties = {f"p{number}": {"type": "string", "description": "d" * 20} for number in range(size)}
    tool = {"name": "lend", "parameters": {"type": "object", "properties": properties}}
    return {**calls_of_a_turn(size), "tools": [tool]}


def doubling_references(size: int) -> dict[str, Any]:
    """A schema in which every definition refers to the next one twice."""
    step = [{"$ref": f"#/$defs/d{number + 1}"} for number in range(size)]
    defs: dict[str, Any] = {f"d{number}": {"anyOf": [step[number]] * 2} for number in range(size)}
    defs[f"d{size}"] = {"type": "integer"}
    parameters = {"type": "object", "properties": {"book": {"$ref": "#/$defs/d0"}}, "$defs": defs}
    return {**calls_of_a_turn(1), "tools": [{"name": "lend", "parameters": parameters}]}


def circular_references(size: int) -> dict[str, Any]:
    """A schema that refers to itself twice, and arguments as deep as it goes."""
    node = {"anyOf": [{"properties": {"l": {"$ref": "#/$defs/n"}}, "required": [key]} for key in ("q", "z")]}
    parameters = {"type": "object", "properties": {"book": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}}
    arguments: dict[str, Any] = {}
    for _ in range(min(size, 300)):
        arguments = {"l": arguments}
    call = _call(1, arguments=json.dumps({"book": arguments}))
    return {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}],
            "tools": [{"name": "lend", "parameters": parameters}]}  # fmt: skip


def gold_and_calls(size: int) -> dict[str, Any]:
    """A reference of many calls against as many actual ones."""
    traj: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
    traj += [{"role": "assistant", "tool_calls": [_call(n, arguments=json.dumps({"book": n}))]} for n in range(size)]
    actions = [{"name": "lend", "kwargs": {"book": -n}} for n in range(1, size)]
    return {"task_id": 1, "reward": 0.0, "info": {"task": {"actions": actions}}, "traj": traj}


def blanks_in_answers(size: int) -> dict[str, Any]:
    """Answers of tools made of what error patterns begin with."""
    texts = ("\n" * size, "a: " * size, "  error " * size, "exit code " * size, '{"error": ' * size)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
    for number, text in enumerate(texts):
        messages.append({"role": "assistant", "tool_calls": [_call(number, "bash", '{"command": "x"}')]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    return {"messages": messages}


RECORDS: Mapping[str, tuple[Callable[[int], dict[str, Any]], int]] = MappingProxyType(
    {
        made.__name__: (made, size)
        for made, size in (
            (react_blanks, 16_000),
            (line_breaks, 40_000),
            (hermes_tags, 20_000),
            (tags_of_all_dialects, 10_000),
            (brackets_in_prose, 4_000),
            (python_in_prose, 20_000),
            (fences, 2_000),
            (calls_of_a_turn, 6_000),
            (calls_of_a_step, 8_000),
            (unknown_tools, 4_000),
            (one_large_schema, 1_000),
            (doubling_references, 40),
            (circular_references, 40),
            (gold_and_calls, 150),
            (blanks_in_answers, 40_000),
        )
    }
)
"""Makers of records, and a size that takes well under a second where the time is linear."""


def files(folder: Path, *, mebibytes: int = 600, only: Sequence[str] = ()) -> dict[str, Path]:
    """Write files that are bombs: small on disk, large when unpacked or parsed.

    Args:
        folder: Where to.
        mebibytes: How large the bombs are when unpacked.
        only: Names of those wanted; all unless given.
    """
    lists = b"[]," * (2**20 // 3)
    packed: dict[str, tuple[bytes, bytes, bytes]] = {
        "gzip_blanks": (b"[", b" " * 2**20, b"{}]"),
        "gzip_text": (b'[{"messages": [{"role": "user", "content": "', b"x" * 2**20, b""),
        "gzip_lists": (b'{"messages": [', lists, b""),
        "gzip_one_line": (b'{"a": 1}\n{"messages": "', b"x" * 2**20, b""),
        "gzip_header": (b'{"info": {"x": [', lists, b'0]}, "simulations": [{}]}'),
    }
    members: dict[str, tuple[bytes, bytes, bytes, list[str]]] = {
        "eval_header": (b'{"eval": {"x": [', lists, b"0]}}", ["header.json"]),
        "eval_samples": (b"", b" " * 2**20, b"", [f"samples/{number}_epoch_1.json" for number in range(8)]),
    }
    made: dict[str, Path] = {}
    for name, (head, filler, tail) in packed.items():
        if not only or name in only:
            made[name] = folder / f"{name}.json.gz"
            with gzip.open(made[name], "wb", compresslevel=6) as file:
                file.write(head)
                for _ in range(mebibytes):
                    file.write(filler)
                file.write(tail)
    for name, (head, filler, tail, names) in members.items():
        if not only or name in only:
            made[name] = folder / f"{name}.eval"
            with zipfile.ZipFile(made[name], "w", zipfile.ZIP_DEFLATED) as archive:
                for inner in names:
                    with archive.open(inner, "w", force_zip64=True) as member:
                        member.write(head)
                        for _ in range(mebibytes // len(names)):
                            member.write(filler)
                        member.write(tail)
                if "header.json" not in names:
                    archive.writestr("header.json", b"{}")
    if not only or "small_lists" in only:
        made["small_lists"] = folder / "lists.jsonl"
        made["small_lists"].write_bytes(b'{"messages": [' + b"[]," * (2**23) + b"0]}\n" * 2)
    return made


def damaged(size: int) -> bytes:
    """A cut-off array of objects that begin inside each other."""
    out = io.BytesIO()
    out.write(b"[")
    out.write(b'{"a": [\n,{"b": ' * size)
    return out.getvalue()
