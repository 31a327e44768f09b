"""Which dialect a chat template, or a tokenizer's response template, asks its model to write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from seal.errors import ConfigError


class Sign(NamedTuple):
    """What tells a dialect in a template.

    Attributes:
        dialect: Its name.
        all: Strings that all stand in the template.
        none: Strings none of which does.
    """

    dialect: str
    all: tuple[str, ...]
    none: tuple[str, ...] = ()


SIGNS = (
    Sign("deepseek-v3.2", ("DSML",)),
    Sign("deepseek-v3", ("tool▁call▁begin", "```json")),
    Sign("deepseek-v3.1", ("tool▁call▁begin",)),
    Sign("kimi-k2", ("<|tool_call_argument_begin|>",)),
    Sign("kimi-k2", ("<|tool_calls_section_begin|>",)),
    Sign("minimax-m2", ("<minimax:tool_call>",)),
    Sign("minimax-m2", ("minimax:tool_call", "<invoke name=")),
    Sign("harmony", ("<|channel|>", "commentary")),
    Sign("gemma4", ("<|tool_call>", "call:")),
    Sign("functiongemma", ("<start_function_call>",)),
    Sign("lfm2", ("<|tool_call_start|>",)),
    Sign("lfm2", ("<|tool_list_start|>",)),
    Sign("cohere", ("<|START_ACTION|>",)),
    Sign("command-r", ("Action:", '"tool_name"')),
    Sign("mistral-v11", ("[TOOL_CALLS]", "[ARGS]")),
    Sign("mistral-v3", ("[TOOL_CALLS]",)),
    Sign("glm-4.5", ("<arg_key>",)),
    Sign("qwen3-coder", ("<function=", "<parameter=")),
    Sign("llama-function", ("<function=",), ("<tool_call>",)),
    Sign("phi-4-mini", ("functools[",)),
    Sign("phi-4-mini", ("<|tool|>", "<|/tool|>")),
    Sign("granite-3.0", ("<|tool_call|>",)),
    Sign("granite-20b", ("<function_call>",)),
    Sign("glaive", ("<functioncall>",)),
    Sign("gorilla", ("<<function>>",)),
    Sign("claude-xml", ("<function_calls>", "<invoke name=")),
    Sign("olmo", ("<function_calls>",)),
    Sign("hunyuan", ("<tool_calls>",)),
    Sign("react", ("Action Input:",)),
    Sign("react-json", ('"action_input"',)),
    Sign("granite-3.1", ("<tool_call>[",)),
    Sign("hermes", ("<tool_call>", '"name"'), ("<invoke",)),
    Sign("pythonic", ("[func_name1(",)),
    Sign("llama3", ('"name":', '"parameters":')),
    Sign("llama3", ("python_tag",)),
    Sign("llama3", ("ipython",)),
)
"""The first that fits decides."""

_FOREIGN = ("<atem:", "<TOOLCALL>", "<|tools_prefix|>", "<|action_start|>", "<steptml:")
"""Marks of known ways that no reader here reads; their templates also hold what looks like another's sign."""
_OFFERS = re.compile(r"\{[%{][^}]*?\b(?:tools|tool_calls|functions|available_tools)\b")
_ESCAPED = re.compile(r"\\(.)")
_JINJA_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)


def by_template(template: str) -> str | None:
    """The dialect that a chat template asks for; `hermes` for one that has nothing to do with tools, None if unknown.

    Args:
        template: The template's source.
    """
    text = _JINJA_COMMENT.sub("", template).replace('\\"', '"')
    if any(mark in text for mark in _FOREIGN):
        return None
    for sign in SIGNS:
        if all(mark in text for mark in sign.all) and not any(mark in text for mark in sign.none):
            return sign.dialect
    return None if _OFFERS.search(text) else "hermes"


def by_response_template(template: object) -> str | None:
    """The dialect that a tokenizer's response template (transformers 5.13 and later) reads; None if unknown.

    Args:
        template: The template: a mapping with `fields`, of which `tool_calls` says how calls are marked.
    """
    fields = template.get("fields") if isinstance(template, Mapping) else None
    calls = fields.get("tool_calls") if isinstance(fields, Mapping) else None
    if not isinstance(calls, Mapping):
        return None
    text = "\n".join(_strings(calls))
    for dialect, marks in _RESPONSE:
        if all(mark in text for mark in marks):
            return dialect
    return None


_RESPONSE = (
    ("deepseek-v3.2", ("DSML",)),
    ("deepseek-v3", ("tool▁call▁begin", "```json")),
    ("deepseek-v3.1", ("tool▁call▁begin",)),
    ("kimi-k2", ("tool_call_argument_begin",)),
    ("minimax-m2", ("minimax:tool_call",)),
    ("harmony", ("to=functions",)),
    ("gemma4", ("<|tool_call>",)),
    ("functiongemma", ("<start_function_call>",)),
    ("lfm2", ("<|tool_call_start|>",)),
    ("cohere", ("<|START_ACTION|>",)),
    ("mistral-v11", ("[TOOL_CALLS]", "[ARGS]")),
    ("mistral-v3", ("[TOOL_CALLS]",)),
    ("glm-4.5", ("<arg_key>",)),
    ("qwen3-coder", ("<function=", "<parameter=")),
    ("granite-3.0", ("<|tool_call|>",)),
    ("olmo", ("<function_calls>",)),
    ("hunyuan", ("<tool_calls>",)),
    ("hermes", ("<tool_call>", "json")),
    ("pythonic", ("python-call-list",)),
    ("llama3", ('"parameters":',)),
)


def unknown(names: Mapping[str, object]) -> ConfigError:
    """What to say about a template that asks for calls in no known way.

    Args:
        names: The dialects that there are.
    """
    return ConfigError(
        "the chat template offers tools, but how it wants calls written is not known; name the dialect: "
        'dialect = "..." under [model] in a recipe, --option dialect=... for seal eval, one of '
        f"{', '.join(sorted(names))} (docs/parsers.md shows each)"
    )


def _strings(value: object) -> Iterator[str]:
    """Every string in a response template, regular expressions without their backslashes."""
    if isinstance(value, str):
        yield value
        yield _ESCAPED.sub(r"\1", value)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
