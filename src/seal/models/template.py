"""Rendering a model's chat template, within bounds.

A chat template is a program that comes with a model, from strangers. transformers compiles it for Jinja's sandbox,
which keeps it from Python, but not from looping or growing without end. Here the same environment counts: every
iteration, call, filter and operation looks at the processor time that the rendering has used, and no value may grow
beyond a bound. That holds in any thread, and does not depend on how busy the machine is.

The template is rewritten before it is compiled: what loops iterate over, and what `~` joins, passes through a filter.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer
from transformers.utils.chat_template_utils import _compile_jinja_template

from seal.errors import ConfigError

SECONDS = 10.0
"""Processor time of one rendering; real ones take milliseconds."""

LARGEST = 2**24
"""Characters of a text, items of a list, and bits of a number."""

ALTOGETHER = 2**29
"""Characters of all texts that one rendering makes."""

_LOOP, _JOIN = "seal_loop", "seal_join"
_WIDTH = re.compile(r"[0-9]{7}")


class TemplateRunsWild(ConfigError):
    """A chat template loops, or makes something enormous."""


class Template:
    """A compiled chat template.

    Args:
        source: In Jinja, as transformers understands it.

    Raises:
        jinja2.TemplateError: If it is no Jinja.
    """

    def __init__(self, source: str) -> None:
        # Of transformers' own compilation only the environment is wanted: the source is not compiled without bounds.
        found: Any = _compile_jinja_template("")
        self._environment = _Bounded(found.environment)
        self._compiled = self._environment.from_string(source)

    def render(self, **variables: Any) -> str:
        """Render it.

        Raises:
            TemplateRunsWild: If it takes too long or grows too large.
            Exception: Whatever the template raises.
        """
        self._environment.begin()
        return self._compiled.render(**variables)


class _Bounded(ImmutableSandboxedEnvironment):
    """The environment that transformers made for a template, with bounds."""

    intercepted_binops = frozenset({"+", "*", "**", "%", "//"})

    def __init__(self, like: Any) -> None:
        super().__init__(
            trim_blocks=like.trim_blocks,
            lstrip_blocks=like.lstrip_blocks,
            extensions=[type(extension) for extension in like.extensions.values()],
        )
        self._spent = threading.local()
        self.globals = {name: value for name, value in like.globals.items() if name != "lipsum"}
        self.filters = {name: self._bounded(name, function) for name, function in like.filters.items()}
        self.filters[_LOOP], self.filters[_JOIN] = self._loop, self._concat
        self.tests = like.tests
        self.concat = self._concat  # type: ignore[method-assign]  # compiled templates look it up here

    def begin(self) -> None:
        """Begin a rendering in this thread."""
        self._spent.ends, self._spent.made = time.thread_time() + SECONDS, 0

    def tick(self) -> None:
        """Look at the clock."""
        if time.thread_time() > getattr(self._spent, "ends", float("inf")):
            raise TemplateRunsWild(f"it ran for more than {SECONDS:g} s of processor time")

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Rewrite().visit(super()._parse(source, name, filename))
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute `left operator right`, if the result cannot be enormous."""
        self.tick()
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            _check(left.bit_length() * abs(right))
        elif operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, str | bytes | list | tuple) and isinstance(other, int):
                    _check(len(one) * other)
        elif operator == "%" and isinstance(left, str):
            _check_format(left)
        return self._checked(super().call_binop(context, operator, left, right))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 -- as Jinja has it
        """Call a function, macro or method, if the result cannot be enormous."""
        __self.tick()
        method = getattr(__obj, "__wrapped__", __obj)  # the sandbox wraps str.format
        owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
        if isinstance(owner, str | bytes):
            args = tuple(map(__self._weighed, args))
            if name == "join" and args:
                _check(_joined(args[0], owner))
            elif name in _GROWTH:
                _check(_GROWTH[name](owner, *args, **kwargs))
        return __self._checked(super().call(__context, __obj, *args, **kwargs))

    def _bounded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def filtered(*args: Any, **kwargs: Any) -> Any:
            self.tick()
            args = tuple(map(self._weighed, args))
            if name in _GROWTH:
                value, *rest = args[1:] if hasattr(function, "jinja_pass_arg") else args
                _check(_GROWTH[name](value, *rest, **kwargs))
            return self._checked(function(*args, **kwargs))

        # Jinja reads from these attributes what else a filter wants to be given.
        filtered.__dict__.update(getattr(function, "__dict__", {}))
        return filtered

    def _weighed(self, value: Any) -> Any:
        """An iterator as the list of what it gives, which may not be enormous either; other values as they are."""
        return self._listed(value) if isinstance(value, Iterator) else value

    def _listed(self, values: Iterable[Any]) -> list[Any]:
        total, kept = 0, []
        for value in values:
            self.tick()
            total += len(value) if isinstance(value, str | bytes) else 1
            _check(total)
            kept.append(value)
        return kept

    def _loop(self, values: Iterable[Any]) -> Iterable[Any]:
        """What a loop iterates over. What has a length keeps it, since templates ask for `loop.length`."""
        return _Counted(values, self.tick) if isinstance(values, Sequence | Mapping) else self._ticking(values)

    def _ticking(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.tick()
            yield value

    def _concat(self, parts: Iterable[Any]) -> str:
        text: str = self._checked("".join(map(str, self._listed(str(part) for part in parts))))
        return text

    def _checked(self, value: Any) -> Any:
        if isinstance(value, str | bytes):
            _check(len(value))
            self._spent.made = getattr(self._spent, "made", 0) + len(value)
            if self._spent.made > ALTOGETHER:
                raise TemplateRunsWild(f"it makes more than {ALTOGETHER:,} characters altogether")
        elif isinstance(value, list | tuple | dict):
            _check(len(value))
        elif isinstance(value, int):
            _check(value.bit_length())
        return value


class _Counted:
    """A collection whose iteration looks at the clock."""

    def __init__(self, values: Sequence[Any] | Mapping[Any, Any], tick: Callable[[], None]) -> None:
        self._values, self._tick = values, tick

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        for value in self._values:
            self._tick()
            yield value


class _Rewrite(NodeTransformer):
    """Puts filters of ours around what loops and what joins."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 -- named by Jinja
        """`for x in y` becomes `for x in y | seal_loop`."""
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, _LOOP, [], [], None, None, lineno=node.lineno, environment=node.environment)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802 -- named by Jinja
        """`a ~ b` becomes `[a, b] | seal_join`."""
        self.generic_visit(node)
        where = {"lineno": node.lineno, "environment": node.environment}
        return nodes.Filter(nodes.List(node.nodes, **where), _JOIN, [], [], None, None, **where)


def _check(size: float) -> None:
    if size > LARGEST:
        raise TemplateRunsWild(f"it makes something larger than {LARGEST:,} characters or items")


def _check_format(text: str) -> int:
    """Refuse format strings with a width of seven digits, as `%9999999d`, or one that comes from an argument."""
    if _WIDTH.search(text) or "*" in text or re.search(r"\{[^{}]*\{", text):
        raise TemplateRunsWild("it formats to a width that may be enormous")
    return 0


def _replaced(text: Any, old: Any = "", new: Any = "", *_rest: Any, **_options: Any) -> int:
    text, old = str(text), str(old)
    return len(text) + (text.count(old) if old else len(text) + 1) * len(str(new))


def _padded(text: Any, width: Any = 80, *_rest: Any, **options: Any) -> int:
    width = options.get("width", options.get("linecount", options.get("slices", width)))
    return len(str(text)) + (width if isinstance(width, int) else 0)


def _indented(text: Any, width: Any = 4, *_rest: Any, **options: Any) -> int:
    width = options.get("width", width)
    unit: int = width if isinstance(width, int) else len(str(width))
    return len(str(text)) + (str(text).count("\n") + 1) * unit


def _expanded(text: Any, size: Any = 8, **options: Any) -> int:
    return len(str(text)) * int(options.get("tabsize", size))


def _wrapped(text: Any, *rest: Any, **options: Any) -> int:
    return len(str(text)) * max([1, *(len(v) for v in (*rest, *options.values()) if isinstance(v, str))])


def _dumped(value: Any, *rest: Any, **options: Any) -> int:
    return max([0, *(1000 * (v if isinstance(v, int) else len(str(v))) for v in (*rest, *options.values()))])


def _joined(items: Any, separator: Any = "", *_rest: Any, **options: Any) -> int:
    items, separator = items if isinstance(items, str | Sequence) else [items], options.get("d", separator)
    return sum(len(item) if isinstance(item, str) else 1 for item in items) + len(items) * len(str(separator))


_GROWTH: Mapping[str, Callable[..., int]] = {
    "replace": _replaced,
    "center": _padded,
    "ljust": _padded,
    "rjust": _padded,
    "zfill": _padded,
    "batch": _padded,
    "slice": _padded,
    "indent": _indented,
    "expandtabs": _expanded,
    "wordwrap": _wrapped,
    "translate": lambda text, *_: len(text) * 64,
    "tojson": _dumped,
    "join": _joined,
    "format": lambda text, *_, **__: _check_format(str(text)),
    "format_map": lambda text, *_, **__: _check_format(str(text)),
}
"""How large the result of a string method or filter may become, as far as it can be more than a few times its input."""
