"""Text without a type gets one from the tool's schema: each line of the rule in `seal.parse.typed`."""

from __future__ import annotations

from typing import Any

import pytest

from seal.parse import DIALECTS
from seal.parse._json import NotJsonError
from seal.parse.typed import Schemas, types_of
from seal.types import MalformedCall, ToolCall, ToolSpec

ROOT = {"$defs": {"Unit": {"enum": ["C", "F"]}, "Loop": {"$ref": "#/$defs/Loop"}, "a/b": {"type": "array"}}}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({}, None),
        (None, None),
        ({"description": "x"}, None),
        ({"type": "any"}, None),
        ({"type": "integer"}, {"integer"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"type": "string", "nullable": True}, {"string", "null"}),
        ({"enum": ["a", 1, None]}, {"string", "integer", "null"}),
        ({"type": "string", "enum": ["1", "2"]}, {"string"}),
        ({"const": 2.5}, {"number"}),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, {"object", "null"}),
        ({"oneOf": [{"type": "integer"}, {"enum": ["auto"]}]}, {"integer", "string"}),
        ({"anyOf": [{"type": "integer"}, {}]}, None),
        ({"allOf": [{"type": ["integer", "string"]}, {"type": "integer"}]}, {"integer"}),
        ({"allOf": [{"$ref": "#/$defs/Unit"}], "default": "C"}, {"string"}),
        ({"$ref": "#/$defs/a~1b"}, {"array"}),
        ({"$ref": "#/$defs/None"}, None),
        ({"$ref": "#/$defs/Loop"}, None),
        ({"$ref": "http://example.com/x"}, None),
    ],
)
def test_the_types_that_a_schema_allows(schema: object, types: set[str] | None) -> None:
    assert types_of(schema, ROOT) == types


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
EITHER, MAYBE = {"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({}, "5", "5"),
        ({}, "null", "null"),
        (STRING, "5", "5"),
        (STRING, "null", "null"),
        (STRING, " x ", " x "),
        (STRING, '"x"', '"x"'),
        (STRING, "", ""),
        (INTEGER, " 5\n", 5),
        (INTEGER, "-7", -7),
        (INTEGER, "3.0", 3.0),
        (INTEGER, "five", "five"),
        (INTEGER, "007", "007"),
        (INTEGER, "+5", "+5"),
        (INTEGER, "true", True),
        (INTEGER, "", ""),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "number"}, "5", 5),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "boolean"}, "TRUE", "TRUE"),
        ({"type": "boolean"}, "1", 1),
        ({"type": "null"}, "None", None),
        ({"type": "null"}, "null", None),
        (EITHER, "5", 5),
        (EITHER, "5.5", "5.5"),
        (EITHER, "null", "null"),
        (EITHER, '"5"', '"5"'),
        ({"type": ["string", "number"]}, "5", 5),
        (MAYBE, "null", None),
        (MAYBE, "None", None),
        (MAYBE, "x", "x"),
        (MAYBE, "5", "5"),
        ({"type": ["string", "boolean"]}, "False", False),
        ({"enum": ["low", "high"]}, "low", "low"),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "array"}, "[1, 'a']", NotJsonError),
        ({"type": "array"}, '[1, "a"]', [1, "a"]),
        ({"type": "array"}, "a, b", "a, b"),
        ({"type": "object"}, '{"a": [null]}', {"a": [None]}),
        ({"type": "object"}, '{"a": 1} x', NotJsonError),
        ({"type": "object"}, "{'a': 1}", NotJsonError),
        ({"type": ["string", "object"]}, "{'a': 1}", NotJsonError),
        ({"type": ["string", "integer"]}, "{'a': 1}", "{'a': 1}"),
        ({"type": "object"}, '{"a": 1, "a": 2}', NotJsonError),
        (INTEGER, "1" * 30, NotJsonError),
        ({"type": "number"}, "1e999", NotJsonError),
        ({"type": "number"}, "NaN", NotJsonError),
        (STRING, "\ud800", NotJsonError),
    ],
)
def test_the_value_that_a_text_stands_for(schema: dict[str, Any], text: str, value: object) -> None:
    schemas = Schemas([ToolSpec("f", "", {"type": "object", "properties": {"p": schema}})])
    if value is NotJsonError:
        with pytest.raises(NotJsonError):
            schemas.value("f", "p", text)
        return
    read = schemas.value("f", "p", text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("parameters", [{}, {"properties": None}, {"properties": {"p": True}}, {"properties": []}])
def test_without_a_schema_text_stays_text(parameters: dict[str, Any]) -> None:
    assert Schemas([ToolSpec("f", "", parameters)]).value("f", "p", "5") == "5"
    assert Schemas(()).value("f", "p", "5") == "5"


WRITTEN = {
    "qwen3-coder": "<tool_call>\n<function=f>\n<parameter=p>\n{}\n</parameter>\n</function>\n</tool_call>",
    "glm-4.5": "<tool_call>f\n<arg_key>p</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>",
    "minimax-m2": '<minimax:tool_call>\n<invoke name="f">\n<parameter name="p">{}</parameter>\n</invoke>\n',
    "claude-xml": '<function_calls>\n<invoke name="f">\n<parameter name="p">{}</parameter>\n</invoke>\n',
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_dialects_that_need_it_follow_the_rule(name: str) -> None:
    def given(text: str, schema: dict[str, Any]) -> object:
        tools = [ToolSpec("f", "", {"type": "object", "properties": {"p": schema}})]
        (call,) = DIALECTS[name].parse(WRITTEN[name].format(text), tools).calls
        return call.arguments["p"] if isinstance(call, ToolCall) else call.reason

    assert given("5", STRING) == "5"
    assert given("5", INTEGER) == 5
    assert given("True", {"type": "boolean"}) is True
    assert given('{"a": 1}', {"type": "object"}) == {"a": 1}
    assert "parameter 'p' cannot be read" in str(given("{a: 1}", {"type": "object"}))
    (call,) = DIALECTS[name].parse(WRITTEN[name].format("5")).calls
    assert not isinstance(call, MalformedCall)
    assert call.arguments == {"p": "5"}
