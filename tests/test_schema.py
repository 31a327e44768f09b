"""Schema violations: kinds, places, words; the same answers as the package jsonschema."""

import threading
from types import MappingProxyType
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seal.errors import DataError
from seal.schema import _compiled, violations
from seal.types import ToolSpec, ViolationKind


def tool(parameters: dict[str, Any], name: str = "drive") -> ToolSpec:
    return ToolSpec(name, "", parameters)


def one(schema: dict[str, Any], value: object) -> tuple[ViolationKind, tuple[str | int, ...], str]:
    (violation,) = violations(tool({"type": "object", "properties": {"x": schema}}), {"x": value})
    return violation.kind, violation.path, violation.message


K = ViolationKind


@pytest.mark.parametrize(
    ("schema", "value", "kind", "message"),
    [
        ({"enum": ["km", "mi"]}, "miles", K.ENUM, "argument 'x' must be one of 'km', 'mi'; got 'miles'"),
        ({"const": 3}, 4, K.ENUM, "argument 'x' must be 3; got 4"),
        ({"type": "integer"}, "3", K.TYPE, "argument 'x' must be an integer; got '3'"),
        ({"type": "integer"}, True, K.TYPE, "argument 'x' must be an integer; got true"),
        ({"type": "integer"}, 3.5, K.TYPE, "argument 'x' must be an integer; got 3.5"),
        ({"type": ["string", "null"]}, [], K.TYPE, "argument 'x' must be a string or null; got an empty list"),
        ({"type": "number"}, None, K.TYPE, "argument 'x' must be a number; got null"),
        ({"minimum": 3}, 2, K.RANGE, "argument 'x' must be at least 3; got 2"),
        ({"exclusiveMaximum": 3}, 3, K.RANGE, "argument 'x' must be less than 3; got 3"),
        ({"multipleOf": 5}, 3, K.RANGE, "argument 'x' must be a multiple of 5; got 3"),
        ({"maxLength": 2}, "abc", K.RANGE, "argument 'x' must have at most 2 characters; got 'abc'"),
        ({"minItems": 1}, [], K.RANGE, "argument 'x' must have at least 1 items; got an empty list"),
        ({"pattern": "^a"}, "b", K.FORMAT, "argument 'x' must match the pattern '^a'; got 'b'"),
        ({"format": "date"}, "May 1", K.FORMAT, "argument 'x' must have the format 'date'; got 'May 1'"),
        ({"uniqueItems": True}, [1, 1], K.STRUCTURE, "argument 'x' must not hold an item twice; got a list of 2 items"),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            3,
            K.TYPE,
            "argument 'x' must be a string or null; got 3",
        ),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, "b", K.ENUM, "argument 'x' must be one of 'a'; got 'b'"),
        (
            {"oneOf": [{"const": "a"}, {"const": "b"}]},
            "c",
            K.ENUM,
            "argument 'x' must be one of 'a', 'b'; got 'c'",
        ),
    ],
)
def test_kind_and_words(schema: dict[str, Any], value: object, kind: ViolationKind, message: str) -> None:
    assert one(schema, value) == (kind, ("x",), message)


def test_the_only_alternative_of_the_right_type_explains_itself() -> None:
    schema = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}
    assert one(schema, ["a", 2]) == (K.TYPE, ("x", 1), "argument 'x[1]' must be a string; got 2")


def test_required_unknown_and_nested_are_all_found() -> None:
    spec = tool(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "o": {"type": "object", "required": ["k"], "properties": {"k": {}}, "additionalProperties": False},
            },
            "required": ["a"],
        }
    )
    found = violations(spec, {"o": {"z": 1}, "b": 1, "c": 2})
    assert {(v.kind, v.path) for v in found} == {
        (K.REQUIRED, ("a",)),
        (K.REQUIRED, ("o", "k")),
        (K.UNKNOWN, ("o", "z")),
        (K.UNKNOWN, ("b",)),
        (K.UNKNOWN, ("c",)),
    }
    assert "required argument 'o.k' is missing" in {v.message for v in found}
    assert "argument 'b' does not exist" in {v.message for v in found}


@pytest.mark.parametrize("extra", [True, {}, {"type": "integer"}])
def test_arguments_stay_open_where_the_schema_says_so(extra: object) -> None:
    assert violations(tool({"properties": {}, "additionalProperties": extra}), {"b": 1}) == ()


@pytest.mark.parametrize("parameters", [{}, {"type": "object"}, {"properties": {}}, {"additionalProperties": False}])
def test_arguments_are_closed_otherwise(parameters: dict[str, Any]) -> None:
    (violation,) = violations(tool(parameters), {"b": 1})
    assert violation.kind is K.UNKNOWN


def test_arguments_may_be_declared_by_pattern() -> None:
    spec = tool({"patternProperties": {"^x_": {"type": "integer"}}})
    assert {(v.kind, v.path) for v in violations(spec, {"x_1": 1, "x_2": "a", "y": 1})} == {
        (K.TYPE, ("x_2",)),
        (K.UNKNOWN, ("y",)),
    }


def test_arguments_declared_by_an_alternative_are_known() -> None:
    spec = tool({"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}]})
    assert violations(spec, {"a": "x"}) == ()


@pytest.mark.parametrize(("schema", "value"), [("number", 3), ("number", 2.5), ("integer", 3.0), ("integer", 3)])
def test_numbers_follow_json_schema(schema: str, value: float) -> None:
    assert violations(tool({"properties": {"x": {"type": schema}}}), {"x": value}) == ()


@pytest.mark.parametrize(
    "value", ["a" * 10**6, ["a"] * 10**5, {str(i): 0 for i in range(10**4)}, 10**4000, "\x00" * 1000], ids=str.__class__
)
def test_messages_stay_short(value: object) -> None:
    spec = tool({"properties": {"x": {"enum": [f"value {i}" for i in range(1000)]}}})
    (violation,) = violations(spec, {"x": value})
    assert violation.kind is K.ENUM
    assert len(violation.message) < 400
    assert "and 988 more" in violation.message


def test_enormous_names_stay_short() -> None:
    (violation,) = violations(tool({}), {"n" * 10**6: 1})
    assert len(violation.message) < 200


@pytest.mark.parametrize("arguments", [{"x": {1, 2}}, {3: 4}, {"\ud800": 1}], ids=["set", "number as key", "surrogate"])
def test_what_is_not_json_is_a_violation_not_a_crash(arguments: dict[str, Any]) -> None:
    (violation,) = violations(tool({"properties": {"x": {"type": "object"}}}), arguments)
    assert violation.kind is K.STRUCTURE


def test_depth_is_no_danger() -> None:
    deep: list[object] = []
    for _ in range(50_000):
        deep = [deep]
    assert violations(tool({"properties": {"x": {"type": "array"}}}), {"x": deep}) == ()


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "dict"},
        {"properties": {"a": {"type": "float"}}},
        {"properties": []},
        {"properties": {"a": {"pattern": "("}}},
        {"$ref": "#/nowhere"},
        {"$ref": "http://example.invalid/schema"},
        {"properties": {"a": {"enum": {1, 2}}}},
    ],
)
def test_a_broken_schema_names_the_tool(parameters: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"tool 'drive'"):
        violations(tool(parameters), {})


def test_read_only_parameters_are_fine_and_compiled_once() -> None:
    _compiled.cache_clear()
    for _ in range(3):
        parameters = MappingProxyType({"properties": MappingProxyType({"a": MappingProxyType({"type": "integer"})})})
        assert len(violations(ToolSpec("t", "", parameters), {"a": "x"})) == 1
    assert _compiled.cache_info().misses == 1


def test_one_validator_serves_many_threads() -> None:
    spec = tool({"properties": {"a": {"type": "integer"}}})
    counts: list[int] = []

    def work() -> None:
        counts.extend(len(violations(spec, {"a": i % 2 or "x"})) for i in range(200))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 8 * 100


# --- the oracle ------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 12), st.sampled_from([0.5, 3.0, -2.0]), st.sampled_from(["", "x", "abc"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
PLAIN: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "number", "boolean", "null"])}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": st.integers(-3, 3), "exclusiveMaximum": st.integers(4, 9), "multipleOf": st.just(2)},
    ),
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"minLength": st.integers(0, 2), "maxLength": st.integers(2, 3), "pattern": st.just("^a")},
    ),
    st.fixed_dictionaries({"enum": st.lists(SCALARS, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": SCALARS}),
)


def _composed(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner}, optional={"minItems": st.integers(0, 2), "maxItems": st.just(2)}
        ),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
            optional={"required": st.lists(NAMES, unique=True, max_size=2), "additionalProperties": st.booleans()},
        ),
    )


SCHEMAS = st.recursive(PLAIN, _composed, max_leaves=5)
PARAMETERS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(NAMES, SCHEMAS, max_size=4)},
    optional={"required": st.lists(NAMES, unique=True, max_size=2), "additionalProperties": st.booleans()},
)

ORACLE_KINDS = {
    "type": K.TYPE,
    "enum": K.ENUM,
    "const": K.ENUM,
    "pattern": K.FORMAT,
    **dict.fromkeys(
        ["minimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems"], K.RANGE
    ),
}


def oracle(parameters: dict[str, Any], arguments: dict[str, Any]) -> set[tuple[ViolationKind, tuple[str | int, ...]]]:
    """What the package jsonschema finds, with properties closed by hand."""
    closed = {"additionalProperties": False, **parameters}
    found: set[tuple[ViolationKind, tuple[str | int, ...]]] = set()
    for error in jsonschema.Draft202012Validator(closed).iter_errors(arguments):
        path = tuple(error.absolute_path)
        if error.validator == "required":
            found |= {(K.REQUIRED, (*path, name)) for name in error.validator_value if name not in error.instance}
        elif error.validator == "additionalProperties":
            known = error.schema.get("properties", {})
            found |= {(K.UNKNOWN, (*path, name)) for name in error.instance if name not in known}
        else:
            found.add((ORACLE_KINDS[error.validator], path))
    return found


@settings(max_examples=200, deadline=None)
@given(PARAMETERS, st.data())
def test_same_answers_as_jsonschema(parameters: dict[str, Any], data: st.DataObject) -> None:
    names = st.sampled_from([*parameters["properties"], "a", "e"])
    arguments = data.draw(st.dictionaries(names, VALUES, max_size=4))
    found = violations(tool(parameters), arguments)
    assert {(v.kind, v.path) for v in found} == oracle(parameters, arguments)


@settings(max_examples=120, deadline=None)
@given(st.lists(SCHEMAS, min_size=1, max_size=3), st.sampled_from(["anyOf", "oneOf", "allOf", "not"]), VALUES)
def test_same_verdict_as_jsonschema_on_combinations(schemas: list[dict[str, Any]], keyword: str, value: object) -> None:
    schema = {keyword: schemas[0] if keyword == "not" else schemas}
    parameters = {"type": "object", "properties": {"x": schema}}
    valid = jsonschema.Draft202012Validator(parameters).is_valid({"x": value})
    found = violations(tool(parameters), {"x": value})
    assert bool(found) is not valid
    assert all(v.path[0] == "x" for v in found)
