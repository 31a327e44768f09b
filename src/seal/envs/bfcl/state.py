"""States of simulators: fresh copies, comparable snapshots, comparison as the official checker does it, differences.

The official checker compares every public attribute of every instance with `==`. A *snapshot* holds those attributes
in a form that shares nothing with the instance: plain data as it is, the file system as nested `Tree` tuples.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import islice
from typing import Any, NamedTuple

from seal.envs.bfcl.simulators import LazyRandom, Simulators
from seal.types import StateDifference

MAX_DIFFERENCES = 20
"""Differences listed of one state, in order of place."""

_ABSENT = "(absent)"
_LONGEST_KEY = 160
_IMMUTABLE = (str, int, float, bool, type(None))


class Tree(NamedTuple):
    """A file or directory of a snapshot.

    Attributes:
        name: Its own name (which need not be the key that it is listed under).
        content: A file's content; None for a directory.
        entries: A directory's entries; None for a file.
    """

    name: object
    content: object
    entries: Mapping[object, Tree] | None


Snapshot = Mapping[str, object]
"""Public attribute -> value."""


def public(instance: object) -> dict[str, object]:
    """The attributes that the official checker compares."""
    return {name: value for name, value in vars(instance).items() if not name.startswith("_")}


def _tree(node: Any) -> Tree:
    contents = getattr(node, "contents", None)
    if contents is None:
        return Tree(node.name, deepcopy(node.content), None)
    return Tree(node.name, None, {key: _tree(child) for key, child in contents.items()})


def snapshot(instance: object) -> Snapshot:
    """Take a snapshot. Only for instances that run reference calls: a model can build endless file systems."""
    return {
        name: _tree(value) if hasattr(value, "contents") else deepcopy(value)
        for name, value in public(instance).items()
    }


def _same_tree(node: Any, tree: Tree) -> bool:
    contents = getattr(node, "contents", None)
    entries = tree.entries
    if contents is None or entries is None:
        return contents is None and entries is None and node.name == tree.name and node.content == tree.content
    if node.name != tree.name or len(contents) != len(entries):
        return False
    for key, child in contents.items():
        other = entries.get(key)
        if other is None or not _same_tree(child, other):
            return False
    return True


def same(instance: object, expected: Snapshot) -> bool:
    """Whether the official checker would find the instance equal. Work is bounded by the size of `expected`."""
    attributes = vars(instance)
    root = expected.get("root")
    if type(root) is not Tree:
        return expected.items() <= attributes.items()
    return attributes["long_context"] == expected["long_context"] and _same_tree(attributes["root"], root)


class Prototype:
    """A simulator as its scenario begins, and fast independent copies of it.

    Attributes:
        instance: The one that is copied; only ever read.
        snapshot: Its public state.
    """

    def __init__(self, instance: object, simulators: Simulators) -> None:
        self.instance = instance
        self._class: Any = type(instance)
        self._directory: Any = simulators.directory
        self._file: Any = simulators.file
        self._plain: dict[str, object] = {}
        self._random: dict[str, LazyRandom] = {}
        self._root: Any = None
        containers: dict[str, object] = {}
        for name, value in vars(instance).items():
            if isinstance(value, simulators.directory):
                self._root = value if name == "root" else self._root
            elif isinstance(value, LazyRandom):
                self._random[name] = value
            elif isinstance(value, _IMMUTABLE):
                self._plain[name] = value
            else:
                containers[name] = value
        self._containers = marshal.dumps(containers)
        self.snapshot = snapshot(instance)

    def copy(self) -> Any:
        """Return a fresh instance that shares nothing mutable with any other."""
        new = self._class.__new__(self._class)
        attributes = new.__dict__
        attributes.update(self._plain)
        attributes.update(marshal.loads(self._containers))  # noqa: S302 -- written by this process a moment ago
        for name, source in self._random.items():
            attributes[name] = source.copy()
        if self._root is not None:
            attributes["root"] = attributes["_current_dir"] = self._copy_directory(self._root, None)
        return new

    def _copy_directory(self, source: Any, parent: Any) -> Any:
        new = self._directory.__new__(self._directory)
        contents: dict[str, Any] = {}
        new.__dict__.update(name=source.name, parent=parent, contents=contents)
        for key, item in source.contents.items():
            if isinstance(item, self._directory):
                contents[key] = self._copy_directory(item, new)
            else:
                contents[key] = file = self._file.__new__(self._file)
                file.__dict__.update(item.__dict__)
        return new


def _tree_print(node: Any, memo: dict[int, object]) -> object:
    """Hash of a file or directory; shared nodes are visited once, a cycle ends where it closes."""
    key = id(node)
    if key in memo:
        return memo[key]
    memo[key] = "cycle"
    contents = getattr(node, "contents", None)
    if contents is None:
        content = node.content
        memo[key] = result = hash((node.name, content if isinstance(content, str) else repr(content)))
    else:
        memo[key] = result = hash((node.name, *((name, _tree_print(item, memo)) for name, item in contents.items())))
    return result


def fingerprint(instance: object) -> object:
    """A value that changes when the public state does; comparable within this process only."""
    plain: dict[str, object] = {}
    prints: list[object] = []
    try:
        for name, value in public(instance).items():
            if hasattr(value, "contents"):
                prints.append(_tree_print(value, {}))
            else:
                plain[name] = value
        # Version 2 writes no references, so the bytes depend on values only.
        return marshal.dumps(plain, 2), prints
    except (RecursionError, ValueError):
        return object()


def brief(value: object, limit: int = 160) -> str:
    """Shorten a value for reading; different values give different texts. Never looks at more than it writes needs."""
    if isinstance(value, Tree) or hasattr(value, "parent"):
        tree: Any = value
        entries = tree.entries if isinstance(value, Tree) else tree.contents
        if entries is not None:
            names = [_key(str(name)) for name in islice(entries, 8)]
            more = f" and {len(entries) - len(names)} more" if len(entries) > len(names) else ""
            return f"directory with {', '.join(names) or 'nothing'}{more}"
    if hasattr(value, "content"):
        return f"file {brief(value.content, limit)}"
    try:
        text = repr(value)
    except (ValueError, RecursionError) as error:
        return f"{type(value).__name__} that cannot be printed ({error})"
    if len(text) <= limit:
        return text
    digest = hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{text[:limit]}... ({len(text)} characters, #{digest})"


def _key(text: str) -> str:
    """A key in a place: as it is, unless it is long."""
    return text if len(text) <= _LONGEST_KEY else brief(text)


def _inside_tree(place: str, node: Any, tree: Tree) -> Iterator[StateDifference]:
    contents = getattr(node, "contents", None)
    if contents is None or tree.entries is None:
        yield StateDifference(place, brief(node), brief(tree))
        return
    found = False
    for key, expected in tree.entries.items():
        inner = f"{place}/{_key(str(key))}"
        if key not in contents:
            found = True
            yield StateDifference(inner, _ABSENT, brief(expected))
        elif not _same_tree(contents[key], expected):
            found = True
            yield from _inside_tree(inner, contents[key], expected)
    for key, item in contents.items():
        if key not in tree.entries:
            found = True
            yield StateDifference(f"{place}/{_key(str(key))}", brief(item), _ABSENT)
    if not found:
        yield StateDifference(f"{place} (own name)", brief(node.name), brief(tree.name))


def _inside_dict(place: str, actual: dict[Any, Any], expected: dict[Any, Any]) -> Iterator[StateDifference]:
    for key, value in expected.items():
        inner = f"{place}[{_key(repr(key))}]"
        if key not in actual:
            yield StateDifference(inner, _ABSENT, brief(value))
        elif actual[key] != value:
            yield from _inside(inner, actual[key], value)
    for key, value in actual.items():
        if key not in expected:
            yield StateDifference(f"{place}[{_key(repr(key))}]", brief(value), _ABSENT)


def _inside(place: str, actual: object, expected: object) -> Iterator[StateDifference]:
    """Yield the deepest places that differ. Descends only where both sides are containers of one kind."""
    if isinstance(expected, Tree):
        yield from _inside_tree(place, actual, expected)
    elif isinstance(expected, dict) and isinstance(actual, dict):
        yield from _inside_dict(place, actual, expected)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for position, (a, e) in enumerate(zip(actual, expected, strict=True)):
            if a != e:
                yield from _inside(f"{place}[{position}]", a, e)
    else:
        yield StateDifference(place, brief(actual), brief(expected))


def differences(owner: str, instance: object, expected: Snapshot) -> Iterator[StateDifference]:
    """Yield where an instance differs from a snapshot, place by place; nothing if `same`.

    Args:
        owner: The simulator's class name, with which every place begins.
        instance: What the model made of the scenario.
        expected: What the reference made of it.
    """
    attributes = vars(instance)
    for name, value in expected.items():
        actual = attributes[name]
        place = f"{owner}.{name}"
        equal = _same_tree(actual, value) if type(value) is Tree else actual == value
        if not equal:
            yield from _inside(place, actual, value)
