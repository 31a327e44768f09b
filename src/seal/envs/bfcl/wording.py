"""What the official executor makes of a call's text, without ever evaluating it.

The official code writes a call as `name(key=repr(value),...)`, puts the instance's name before every known method name
that stands before an opening parenthesis, and hands the result to `eval`. Two things follow that matter to verdicts,
and both are reproduced here on data:

- The rewriting also reaches *inside string arguments*: `send_message(message="sort (x)")` sends
  `<instance>.sort(x)`, and blanks before a parenthesis vanish. Instance names differ between the model's run and the
  reference's run, so such a text never equals the reference's.
- A call that is no plain call fails with the interpreter's own words (`name 'x' is not defined`, `invalid syntax`).

Where the official executor would run code (builtins by name, code in names or keys), the call is simply invalid here.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from seal.types import FaultKind, ToolCall

PREFIX = "Error during execution: "
"""How the official executor begins every error text."""

MAX_SIZE = 1_000_000
"""Characters and values that the arguments of one call may hold."""

_FORBIDDEN = frozenset({"kill", "exit", "quit", "remove", "unlink", "popen", "Popen", "run"})
_CALLEE = re.compile(r"\b([a-zA-Z_]\w*)\s*(?=\()")
_BLANKS = " \t\r\n\f"
_SHALLOW = 20
_SHORT = 10_000
_LARGE = 2**62
_MAX_BITS = 14_000
_BITS_OF_SIZE = 3
"""A digit of an integer counts like a character."""
_FLOAT = 8
"""Size of a float, whose text takes more time than its length tells."""
_PARSED = 50_000
"""Size of an argument that is handed to the parser, which takes about 700 bytes a value."""
_BACKSLASH = "\\"

InstanceOf = Callable[[str], str | None]
"""Method name -> name of the instance that has it, None for unknown methods."""


class Refused(Exception):
    """The call is not run. Carries the official error text without its prefix, and the kind of fault."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class TooLarge(Refused):
    """The arguments have more characters and values than they may."""


def rewrite(source: str, instance_of: InstanceOf) -> str:
    """Put instance names before method names in source text, as the official executor does.

    One addition keeps the text parsable. Where a method's name begins with the letter of an escape (a carriage return
    and `m(` look like a backslash and `rm(` in the source), the official text gets an invalid escape; Python reads it
    as two characters and warns about; here the backslash is doubled, which means the same.
    """

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        instance = instance_of(name)
        if instance is None:
            return name
        first = start = match.start()
        while first and source[first - 1] == _BACKSLASH:
            first -= 1
        backslashes = start - first
        return f"{'' if backslashes % 2 == 0 else _BACKSLASH}{instance}.{name}"

    return _CALLEE.sub(replace, source)


@dataclass(slots=True)
class _Copier:
    """Copies argument values (calls are frozen records, simulators keep and change what they are given)."""

    instance_of: InstanceOf
    limit: int
    size: int = 0
    deepest: int = 0

    def copy(self, value: object, depth: int = 0) -> object:
        if isinstance(value, str):
            self.spend(len(value))
            return self._text(value) if "(" in value else value
        self.spend(1)
        if value is None or isinstance(value, bool | int):
            if value is not None and value.bit_length() > _MAX_BITS:
                raise Refused(FaultKind.ARGUMENTS, "an argument is a number of more than 4200 digits")
            self.spend(0 if value is None else value.bit_length() // _BITS_OF_SIZE)
            return value
        if isinstance(value, float):
            self.spend(_FLOAT - 1)
            if math.isfinite(value):
                return value
            # repr() gives a name that the official namespace does not have.
            raise Refused(FaultKind.ARGUMENTS, f"name '{str(value).lstrip('-')}' is not defined")
        self.deepest = max(self.deepest, depth)
        if depth >= 200:
            raise Refused(FaultKind.ARGUMENTS, "too many nested parentheses (<string>, line 1)")
        if isinstance(value, list):
            return [self.copy(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return tuple(self.copy(item, depth + 1) for item in value)
        if isinstance(value, Mapping):
            return {self.copy(k, depth + 1): self.copy(v, depth + 1) for k, v in value.items()}
        raise Refused(FaultKind.ARGUMENTS, f"an argument is a {type(value).__name__}, which is no JSON value")

    def _text(self, value: str) -> str:
        source = repr(value)
        changed = rewrite(source, self.instance_of)
        if changed == source:
            return value
        # An instance's name is much longer than `ls(`.
        self.spend(max(0, len(changed) - len(source)))
        return str(ast.literal_eval(changed))

    def spend(self, amount: int) -> None:
        """Count something that is kept of the arguments."""
        self.size += amount
        if self.size > self.limit:
            raise TooLarge(FaultKind.ARGUMENTS, f"the arguments are too large (more than {MAX_SIZE} characters)")


def copy_arguments(call: ToolCall, instance_of: InstanceOf, limit: int = MAX_SIZE) -> tuple[dict[str, object], int]:
    """Copy the arguments as the official executor would see them.

    Args:
        call: The call.
        instance_of: Names of instances, for the rewriting.
        limit: Size that the arguments may have.

    Returns:
        The copies, and their size: characters, values and digits, after the rewriting.

    Raises:
        TooLarge: If they are larger than `limit`.
        Refused: If a value cannot be written as a Python literal, or is too deep for the parser.
    """
    size = 0
    copier: _Copier | None = None
    arguments: dict[str, object] = {}
    for key, value in call.arguments.items():
        kind = type(value)
        if kind is str and "(" not in value and len(value) < _SHORT:
            size += len(value)
        elif (kind is int or kind is float) and -_LARGE < value < _LARGE:
            size += _FLOAT
        elif kind is bool:
            size += 1
        else:
            if copier is None:
                copier = _Copier(instance_of, limit)
            before = copier.size
            arguments[key] = copier.copy(value)
            if copier.deepest >= _SHALLOW:
                copier.deepest = 0
                if copier.size - before > _PARSED:
                    raise Refused(FaultKind.ARGUMENTS, "an argument is both too deep and too large for the parser")
                _compile(f"_({key}={value!r})", FaultKind.ARGUMENTS)
            continue
        arguments[key] = value  # Nothing that could be changed, and nothing to look into.
    if copier is not None:
        copier.spend(size)
        size = copier.size
    elif size > limit:
        raise TooLarge(FaultKind.ARGUMENTS, f"the arguments are too large (more than {MAX_SIZE} characters)")
    return arguments, size


def _compile(source: str, kind: FaultKind) -> None:
    """Raise the interpreter's own objection to a source text, which is parsed and never run."""
    try:
        compile(source, "<string>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Refused(kind, str(error)) from error


def irregular(call: ToolCall, instance_of: InstanceOf) -> ToolCall:
    """Sort out a call whose name or keys are not those of a known method.

    Returns:
        The call with normalised keys, if its name is known and its keys are at least identifiers.

    Raises:
        Refused: If it cannot be a call: with the official text, or, where the official executor would run code,
            with a plain one.
    """
    # The official executor drops blanks between a name and its parenthesis, and Python those around a key.
    name = call.name.rstrip().lstrip(_BLANKS)
    lines = call.name[: len(call.name) - len(call.name.lstrip(_BLANKS))].count("\n")
    keys = [key.strip(_BLANKS) for key in call.arguments]
    known = instance_of(name) is not None
    kind = FaultKind.ARGUMENTS if known else FaultKind.UNKNOWN_TOOL
    size = len(name) + sum(map(len, keys))
    parts = name.split(".")
    plain = size <= 1000 and all(part.isidentifier() for part in parts) and all(key.isidentifier() for key in keys)
    head = (rewrite(f"{name}(", instance_of) if size <= 1000 else name).split("(")[0]
    head = head.split(".")[1] if "." in head else head
    if head in _FORBIDDEN:
        raise Refused(kind, f"Function call {head} is not allowed.")
    # Lines count: an error text names the one that it is about.
    source = "\n" * min(lines, 1000) + f"{name}({','.join(f'{key}=0' for key in keys)})"
    if not plain:
        if size <= 1000 and "\\" not in source:
            try:
                ast.parse(rewrite(source, instance_of).lstrip(" \t"), "<string>", "eval")
            except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
                raise Refused(kind, str(error)) from error
        raise Refused(kind, "the function name or an argument name is not a plain name")
    if any(keyword.iskeyword(word) or word == "__debug__" for word in (*parts, *keys)):
        _compile(source, kind)
    arguments: dict[str, object] = {}
    for key, value in zip(keys, call.arguments.values(), strict=True):
        normal = unicodedata.normalize("NFKC", key)
        if normal in arguments:
            raise Refused(kind, f"keyword argument repeated: {normal} (<string>, line {lines + 1})")
        arguments[normal] = value
    if not known:
        raise Refused(kind, f"name '{unicodedata.normalize('NFKC', parts[0])}' is not defined")
    return ToolCall(name, arguments, call.id)
