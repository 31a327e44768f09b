"""transformers' `parse_response` as an oracle: response templates for the dialects that it can express.

Those of TRL are what `trl.chat_template_utils.add_response_schema` gives the tokenizers of these families. The others
are written here, in terms of transformers' own content parsers; what reads the output is transformers' code either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CALL = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
_EACH = {"type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}}
_TOOL_NAME = {"type": "function", "function": {"name": "{tool_name}", "arguments": "{parameters}"}}
_D = "｜"


@dataclass(frozen=True, slots=True)
class Template:
    """A response template.

    Attributes:
        source: `TRL`, or `here`.
        spec: The template.
        ending: The token that ends a message, which some of them wait for.
    """

    source: str
    spec: Mapping[str, Any]
    ending: str = ""


def templates() -> dict[str, Template]:
    """The templates by dialect."""
    from trl import chat_template_utils as trl  # noqa: PLC0415 -- slow

    return {
        "hermes": Template("TRL", trl.qwen3_template, "<|im_end|>"),
        "qwen3-coder": Template("TRL", trl.qwen3_5_template, "<|im_end|>"),
        "glm-4.5": Template("TRL", trl.glm4moe_template),
        "llama3": Template("TRL", trl.llama3_template, "<|eot_id|>"),
        "gemma4": Template("TRL", trl.gemma4_template),
        "lfm2": Template("TRL", trl.lfm2_2_5_template, "<|im_end|>"),
        **{name: Template("here", _spec(calls)) for name, calls in _HERE.items()},
    }


def ask(template: Template, text: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls that transformers reads.

    Raises:
        Exception: What its parsers raise on an output that they cannot read.
    """
    from transformers.utils.chat_parsing import parse_response  # noqa: PLC0415 -- slow

    message = parse_response(text + template.ending, dict(template.spec), prefix="", tools=list(tools))
    calls = message.get("tool_calls", [])
    return [call["function"] for call in calls]


def _spec(calls: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "defaults": {"role": "assistant"},
        "start_anchor": "<anchor>",
        "fields": {"tool_calls": dict(calls), "content": {"content": "text", "close_pattern": r"\Z"}},
    }


def _list(transform: Mapping[str, Any] = _EACH, **marks: str) -> dict[str, Any]:
    return {**marks, "content": "json", "transform": transform, "transform_each": True}


def _single(**marks: str) -> dict[str, Any]:
    return {**marks, "content": "json", "repeats": True, "transform": _CALL}


def _invoke() -> dict[str, Any]:
    return {
        "open_pattern": r'<invoke name="(?P<name>[^"]+)">',
        "close": "</invoke>",
        "repeats": True,
        "content": "xml-inline",
        "content_args": {
            "tag_pattern": r'<parameter name="(?P<key>[^"]+)">(?P<value>.*?)</parameter>',
            "value_parser": {"name": "text"},
        },
        "transform": _CALL,
    }


_HERE: dict[str, dict[str, Any]] = {
    "mistral-v3": _list(open_pattern=r"\[TOOL_CALLS\]\s*"),
    "mistral-v11": _single(
        open_pattern=r"\[TOOL_CALLS\](?P<name>[^\[{]+)\[ARGS\]", close_pattern=r"(?=\[TOOL_CALLS\])|\Z"
    ),
    "functiongemma": {
        "open_pattern": r"<start_function_call>call:(?P<name>[\w.]+)",
        "close": "<end_function_call>",
        "repeats": True,
        "content": "json",
        "content_args": {"string_delims": [["<escape>", "<escape>"]], "unquoted_keys": True},
        "transform": _CALL,
    },
    "kimi-k2": _single(
        open_pattern=r"<\|tool_call_begin\|>functions\.(?P<name>[^:]+):\d+<\|tool_call_argument_begin\|>",
        close="<|tool_call_end|>",
    ),
    "deepseek-v3": _single(
        open_pattern=rf"<{_D}tool▁call▁begin{_D}>function<{_D}tool▁sep{_D}>(?P<name>[^\n]+)\n```json\n",
        close_pattern=rf"\n```<{_D}tool▁call▁end{_D}>",
    ),
    "deepseek-v3.1": _single(
        open_pattern=rf"<{_D}tool▁call▁begin{_D}>(?P<name>[^<]+)<{_D}tool▁sep{_D}>",
        close=f"<{_D}tool▁call▁end{_D}>",
    ),
    "minimax-m2": _invoke(),
    "claude-xml": _invoke(),
    "hunyuan": _list(open="<tool_calls>", close="</tool_calls>"),
    "granite-3.0": _list(open="<|tool_call|>"),
    "granite-3.1": _list(open="<tool_call>"),
    "phi-4-mini": _list(open_pattern=r"functools(?=\[)"),
    "xlam": _list(open_pattern=r"\A(?=\[)|```json\n|<tool_call>", close_pattern=r"```|</tool_call>|\Z"),
    "harmony": _single(
        open_pattern=r"(?:to=functions\.(?P<name>\S+?)<\|channel\|>commentary\s+json"
        r"|<\|channel\|>commentary to=functions\.(?P<name>\S+) <\|constrain\|>json)<\|message\|>",
        close="<|call|>",
    ),
    "cohere": _list(_TOOL_NAME, open="<|START_ACTION|>", close="<|END_ACTION|>"),
    "command-r": _list(_TOOL_NAME, open_pattern=r"Action:\s*```json\s*", close="```"),
    "llama-function": _single(open_pattern=r"<function=(?P<name>[^>]+)>", close="</function>"),
    "granite-20b": {
        "open": "<function_call>",
        "close_pattern": r"(?=<function_call>)|\Z",
        "repeats": True,
        "content": "json",
        "transform": {"type": "function", "function": {"name": "{content.name}", "arguments": "{content.arguments}"}},
    },
    "react": _single(open_pattern=r"Action:[ \t]*(?P<name>[^\n]+)\nAction Input:", close_pattern=r"(?=\nAction:)|\Z"),
    "react-json": {
        "open_pattern": r"Action:\s*```json\s*",
        "close": "```",
        "repeats": True,
        "content": "json",
        "transform": {
            "type": "function",
            "function": {"name": "{content.action}", "arguments": "{content.action_input}"},
        },
    },
    "glaive": _single(
        open_pattern=r'<functioncall>\s*\{"name": "(?P<name>[^"]+)", "arguments": \'',
        close_pattern=r"'\}\s*(?=<functioncall>|\Z)",
    ),
    "pythonic": {
        "open_pattern": r"\A(?=\[)",
        "content": "python-call-list",
        "transform": _EACH,
        "transform_each": True,
    },
}
