"""Outputs of models in every dialect, from a seed: as written, mutated, and cut.

An output is what `Dialect.render` writes for random calls of random tools, with prose around it where the dialect has
room for it. Mutated outputs have characters and marks dropped, doubled, moved or put in; cut ones end early.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from seal.errors import DataError
from seal.parse import DIALECTS, Dialect
from seal.types import ToolCall, ToolSpec

WORDS = ("Oslo", "a b", "it's", 'say "hi"', "x" * 40, "naïve café", "東京", "1", "3.5", "true", "null", "", "C:\\tmp")
ODD = (
    "line\nbreak",
    " two  spaces ",
    "\ttab",
    "a, b)",
    "f(x)",
    "[1, 2]",
    '{"k": 1}',
    "a;b",
    "a|b",
    "</b>",
    "🙂",
    "\\n",
)
PLACES = ("city", "path", "query", "user_id", "n")
NAMES = ("get_weather", "search", "fs.read", "list_users", "f")
PROSE = ("Let me look.", "I will do that now:", "Sure!\n\nOne moment.", "Done.", "2 < 3, and (a) holds.")
WHOLE = frozenset({"llama3", "pythonic", "gorilla", "xlam"})
"""Dialects in which calls make up the whole message."""
FIRST = WHOLE | {
    "mistral-v3",
    "mistral-v11",
    "granite-3.0",
    "granite-3.1",
    "granite-20b",
    "phi-4-mini",
    "glaive",
    "react",
}
"""Dialects in which nothing can follow the calls."""
KINDS = ("written", "mutated", "cut")


@dataclass(frozen=True, slots=True)
class Output:
    """What a model might have written.

    Attributes:
        dialect: The dialect's name.
        kind: `written`, `mutated` or `cut`.
        text: The output.
        tools: The tools on offer.
        calls: What was written, before mutations and cuts.
    """

    dialect: str
    kind: str
    text: str
    tools: tuple[ToolSpec, ...]
    calls: tuple[ToolCall, ...]


def outputs(count: int, seed: int, names: tuple[str, ...] = tuple(DIALECTS)) -> Iterator[Output]:
    """Outputs of all dialects in turn: a half written, a third mutated, the others cut."""
    for index in range(count):
        dialect = DIALECTS[names[index % len(names)]]
        random = Random(f"{seed}:{index}")
        kind = random.choices(KINDS, (3, 2, 1))[0]
        tools, calls, text = _written(dialect, random)
        if kind == "mutated":
            text = mutated(text, dialect, random)
        elif kind == "cut":
            text = text[: random.randrange(len(text))]
        yield Output(dialect.name, kind, text, tools, calls)


def mutated(text: str, dialect: Dialect, random: Random) -> str:
    """A text with one to three changes."""
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(text) + 1)
        to = min(len(text), at + random.choice((1, 1, 2, 5, 20)))
        piece = random.choice(
            (*dialect.marks, *"{}[]()\"',:;=<>|\\\n `", "null", "True", "NaN", "1e999", "0x1", "é", "```")
        )
        change = random.randrange(5)
        if change == 0:
            text = text[:at] + text[to:]
        elif change == 1:
            text = text[:at] + text[at:to] + text[at:]
        elif change == 2:
            text = text[:at] + piece + text[at:]
        elif change == 3:
            text = text[:at] + piece + text[to:]
        elif dialect.marks:
            mark = random.choice(dialect.marks)
            text = text.replace(mark, random.choice(("", mark * 2, mark.lower(), mark[:-1])), 1)
    return text


def _written(dialect: Dialect, random: Random) -> tuple[tuple[ToolSpec, ...], tuple[ToolCall, ...], str]:
    while True:
        tools = tuple(_tool(name, random) for name in random.sample(NAMES, random.randint(1, 3)))
        calls = tuple(_call(random.choice(tools), random) for _ in range(random.choice((1, 1, 1, 2, 3))))
        try:
            text = dialect.render(calls)
        except DataError:
            continue
        text = spelled(text, dialect.name, random)
        if dialect.name not in WHOLE and random.random() < 0.3:
            text = f"{random.choice(PROSE)}\n{text}"
        if dialect.name not in FIRST and random.random() < 0.1:
            text = f"{text}\n{random.choice(PROSE)}"
        return tools, calls, text


def spelled(text: str, dialect: str, random: Random) -> str:
    """A text in another spelling of its dialect, half the time."""
    if random.random() < 0.5:
        return text
    match dialect:
        case "harmony":
            return re.sub(
                r"<\|channel\|>commentary to=(\S+) <\|constrain\|>json<", r" to=\1<|channel|>commentary json<", text
            )
        case "qwen3-coder":
            bare = text.replace("<tool_call>\n", "").replace("\n</tool_call>", "")
            return bare if random.random() < 0.5 else text.replace("tool_call>", "seed:tool_call>")
        case "xlam":
            return random.choice((f"```json\n{text}\n```", f"<tool_call>{text}</tool_call>"))
        case "kimi-k2":
            return text.replace("functions.", "")
        case "llama3":
            return f"<|python_tag|>{text}"
        case "hermes":
            return text.replace("<tool_call>\n", "<tool_call>").replace("\n</tool_call>", "</tool_call>")
    return text


def _tool(name: str, random: Random) -> ToolSpec:
    properties: dict[str, Any] = {}
    for place in random.sample(PLACES, random.randint(0, 4)):
        types = random.choice((*TYPES, *TYPES, ["string", "null"], ["integer", "null"], ["string", "integer"]))
        properties[place] = {"type": types}
    return ToolSpec(name, "A tool.", {"type": "object", "properties": properties})


TYPES = ("string", "string", "string", "integer", "number", "boolean", "array", "object", "null")


def _call(tool: ToolSpec, random: Random) -> ToolCall:
    given: dict[str, Any] = {}
    for place, schema in tool.parameters["properties"].items():
        if random.random() < 0.9:
            types = schema["type"]
            given[place] = value(random.choice(types) if isinstance(types, list) else types, random)
    return ToolCall(tool.name, given)


def value(kind: str, random: Random, depth: int = 0) -> Any:
    """A random value of a JSON type."""
    match kind:
        case "string":
            return random.choice(WORDS if random.random() < 0.7 else ODD)
        case "integer":
            return random.choice((0, 1, -7, 42, 10**6, 2**53 - 1, 2**63, -(2**63)))
        case "number":
            return random.choice((0.5, -1.25, 1e-07, 3.0, 12345.678, 2, 1e20))
        case "boolean":
            return random.random() < 0.5
        case "null":
            return None
    inner = TYPES if depth < 2 else TYPES[:6]
    items = [value(random.choice(inner), random, depth + 1) for _ in range(random.randint(0, 3))]
    return items if kind == "array" else {f"k{index}": item for index, item in enumerate(items)}
