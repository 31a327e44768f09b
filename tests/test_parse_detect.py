"""Which dialect a tokenizer's templates ask for; the templates here are our own, in the shape of real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
import pytest

from seal.errors import ConfigError
from seal.parse import DIALECTS, Parsed, detect, tool_object
from seal.types import ToolCall, ToolSpec

TEMPLATES = Path(__file__).parent / "models" / "templates"
SHAPES = sorted(path.stem for path in (TEMPLATES / "tools").glob("*.jinja"))
OTHERS = {"seed-oss": "qwen3-coder", "lfm2-without-calls": "lfm2"}
"""Shapes that are not named after their dialect."""
TOOL = ToolSpec(
    "get_weather",
    "Weather.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "now": {"type": "boolean"}},
    },
)
CALLS = (
    ToolCall("get_weather", {"city": "Oslo", "days": 3, "now": True}),
    ToolCall("get_weather", {"city": "a (b), c", "days": -1, "now": False}),
)


def source(shape: str) -> str:
    return (TEMPLATES / "tools" / f"{shape}.jinja").read_text()


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_gives_its_dialect(shape: str) -> None:
    assert detect(source(shape)).name == OTHERS.get(shape, shape)


@pytest.mark.parametrize("shape", sorted(set(SHAPES) - {"lfm2-without-calls"}))
def test_what_a_template_writes_is_read(shape: str) -> None:
    environment = jinja2.Environment()
    environment.filters["tojson"] = json.dumps  # as transformers does: no escapes for HTML
    calls = [{"function": {"name": call.name, "arguments": dict(call.arguments)}} for call in CALLS]
    template = environment.from_string(source(shape))
    end = template.render(messages=[{"role": "assistant", "content": "@"}]).partition("@")[2]
    message: dict[str, Any] = {"role": "assistant", "content": "@", "tool_calls": calls}
    text = template.render(messages=[message], tools=[tool_object(TOOL)]).partition("@")[2].removesuffix(end)
    read = DIALECTS[OTHERS.get(shape, shape)].parse(text, [TOOL])
    plain = Parsed(read.content, tuple(ToolCall(c.name, c.arguments) for c in read.calls if isinstance(c, ToolCall)))
    assert plain == Parsed("", CALLS), text


@pytest.mark.parametrize("shape", ["chatml", "gemma", "numbered"])
def test_a_template_without_tools_gives_hermes_in_its_own_words(shape: str) -> None:
    assert detect((TEMPLATES / f"{shape}.jinja").read_text()).name == "hermes"
    assert detect(None).name == "hermes"


@pytest.mark.parametrize(
    "template",
    [
        "{% if tools %}TOOLS: {{ tools | tojson }} call them as #name# {% endif %}",
        "{%- for tool_call in message.tool_calls %}~{{ tool_call.name }}~{% endfor %}",
        '{% if tools %}<|tools_prefix|>[{"name": {{ x }}, "parameters": {}}]{% endif %}',
        "{% if tools %}Write <tool_call><invoke name=...><arg>...</arg></invoke></tool_call>{{ tools }}{% endif %}",
        "{% if tools %}<TOOLCALL>[{{ tools }}]</TOOLCALL>{% endif %}",
    ],
)
def test_an_unknown_template_is_an_error_that_says_how_to_name_a_dialect(template: str) -> None:
    with pytest.raises(ConfigError, match=r"dialect = .* under \[model\].*--option dialect=") as error:
        detect(template)
    assert all(name in str(error.value) for name in DIALECTS)


def test_a_comment_is_no_sign() -> None:
    assert detect("{# never <function= or <|tool_call_start|> #}{{ messages }}").name == "hermes"


RESPONSES: dict[str, dict[str, Any]] = {
    "hermes": {"open": "<tool_call>", "close": "</tool_call>", "content": "json"},
    "qwen3-coder": {
        "open_pattern": r"<tool_call>\s*<function=(?P<name>[^>]+)>",
        "content_args": {"tag_pattern": "<parameter=(?P<key>[^>]+)>(?P<value>.*?)</parameter>"},
    },
    "lfm2": {"open_pattern": r"<\|tool_call_start\|>", "content": "python-call-list"},
    "gemma4": {"open_pattern": r"<\|tool_call>call:(?P<name>\w+)", "content": "json"},
    "harmony": {"open_pattern": r"to=functions\.(?P<name>\S+?)<\|channel\|>commentary", "content": "json"},
    "mistral-v11": {"open_pattern": r"\[TOOL_CALLS\](?P<name>\w+)\[ARGS\]", "content": "json"},
    "glm-4.5": {"open_pattern": "<tool_call>(?P<name>.+)", "content_args": {"tag_pattern": "<arg_key>(?P<key>.+)"}},
    "pythonic": {"open_pattern": r"\A(?=\[)", "content": "python-call-list"},
}


@pytest.mark.parametrize("name", RESPONSES)
def test_a_response_template_decides(name: str) -> None:
    template = {"fields": {"tool_calls": RESPONSES[name], "content": {}}}
    assert detect(source("react"), template).name == name


@pytest.mark.parametrize("template", [None, {}, {"fields": {}}, {"fields": {"tool_calls": {"open": "~"}}}, "text", 3])
def test_a_response_template_that_says_nothing_leaves_it_to_the_chat_template(template: object) -> None:
    assert detect(source("react"), template).name == "react"


def test_those_of_trl_are_known() -> None:
    trl = pytest.importorskip("trl.chat_template_utils")
    found = {
        name: detect(None, getattr(trl, f"{name}_template")).name
        for name in ("qwen3", "qwen3_5", "nemotron_3", "glm4moe", "llama3", "gptoss", "lfm2_2_5", "gemma4")
    }
    assert list(found.values()) == [
        *("hermes", "qwen3-coder", "qwen3-coder", "glm-4.5", "llama3", "harmony", "lfm2", "gemma4")
    ]
