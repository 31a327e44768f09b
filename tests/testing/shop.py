"""A sound little shop for the checker, and the same shop with one fault each."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from seal.envs.functions import Functions, ToolTask, UserTurn
from seal.envs.functions.session import FunctionsSession
from seal.task import Task
from seal.types import ToolCall, ToolSpec

TASKS = [
    ToolTask(
        id=f"order-{n}",
        split=("train", "validation", "held-out")[n % 3],
        turns=(
            UserTurn(
                user=f"order {n} of {item}",
                calls=(ToolCall("look", {"item": item}), ToolCall("order", {"item": item, "count": n})),
            ),
            UserTurn(user="thanks", calls=()),
        ),
    )
    for n, item in ((1, "lamp"), (2, "mug"), (3, "lamp"), (4, "mug"), (5, "lamp"), (6, "mug"))
]


class Shop:
    """A shop."""

    def __init__(self) -> None:
        self.stock = {"lamp": 10, "mug": 10}

    def look(self, item: Literal["lamp", "mug"]) -> str:
        """How many there are.

        Args:
            item: Which.
        """
        return f"{self.stock[item]} left"

    def order(self, item: Literal["lamp", "mug"], count: int) -> str:
        """Order some."""
        if not 0 < count <= self.stock[item]:
            raise ValueError("not so many")
        self.stock[item] -= count
        return f"{count} ordered"


def made(tools: Any = Shop, tasks: Any = TASKS, **options: Any) -> Functions:
    return Functions(tools, tasks, name="shop", **{"isolation": "none", **options})


class SharedState(Shop):
    """State in a class attribute."""

    stock: dict[str, int] = {"lamp": 100, "mug": 100}  # noqa: RUF012 -- the fault

    def __init__(self) -> None:
        pass

    def snapshot(self) -> dict[str, int]:
        return dict(self.stock)


ORDERED: list[int] = []


class LeakingGlobal(Shop):
    """State that outlives the session in a global."""

    def look(self, item: Literal["lamp", "mug"]) -> str:
        """How many there are."""
        ORDERED.append(1)
        return f"{self.stock[item]} left, {len(ORDERED)} looked"


class Unstable(Shop):
    """A snapshot with a clock in it."""

    def snapshot(self) -> dict[str, Any]:
        return {"stock": self.stock, "now": time.perf_counter()}


class Hanging(Shop):
    """A tool that never answers some calls."""

    def wait(self, minutes: int = 1) -> str:
        """Wait."""
        time.sleep(3600)
        return "waited"


class Dying(Shop):
    """A tool that takes its process with it."""

    def leave(self) -> str:
        """Leave."""
        os._exit(1)


class Random(Shop):
    """Results that change by themselves."""

    def look(self, item: Literal["lamp", "mug"]) -> str:
        """How many there are."""
        return f"{self.stock[item]} left, offer {random.random()}"


class Coercing(FunctionsSession):
    """Arguments are bent until they fit."""

    def call(self, call: ToolCall) -> Any:
        arguments = dict(call.arguments)
        if isinstance(arguments.get("count"), str) and arguments["count"].isdigit():
            arguments["count"] = int(arguments["count"])
        arguments = {name: value for name, value in arguments.items() if name in ("item", "count")}
        return super().call(ToolCall(call.name, arguments))


class Whispering(FunctionsSession):
    """The documentation knows the task."""

    def documentation(self) -> Mapping[str, ToolSpec]:
        found = dict(super().documentation())
        count = next(c.arguments["count"] for turn in self._task.turns for c in turn.calls or () if c.name == "order")
        spec = found["order"]
        return {**found, "order": ToolSpec(spec.name, f"{spec.description} Best: {count}", spec.parameters)}


class BadSchema(FunctionsSession):
    """A type that JSON does not have."""

    def tools(self) -> Any:
        *rest, last = super().tools()
        return (
            *rest,
            ToolSpec(last.name, last.description, {"type": "object", "properties": {"item": {"type": "str"}}}),
        )


class By(Functions):
    """The shop, with other sessions."""

    session: type[FunctionsSession]

    def open(self, task: Task) -> FunctionsSession:
        opened = super().open(task)
        opened.__class__ = type(self).session
        return opened

    def proof(self) -> Any:
        from seal.proof import Proof

        return Proof()


def with_session(kind: type[FunctionsSession], tasks: Any = TASKS) -> Functions:
    return type("Shop", (By,), {"session": kind})(Shop, tasks, name="shop", isolation="none")


def silent() -> list[ToolTask]:
    """Tasks that do not say the number: the first call tells it, or a cue that must not."""
    return [
        ToolTask(
            id=f"silent-{n}",
            split=("train", "validation")[n % 2],
            turns=(
                UserTurn(
                    user=f"order what is best of {item}",
                    calls=(ToolCall("look", {"item": item}), ToolCall("order", {"item": item, "count": n})),
                ),
            ),
        )
        for n, item in ((3, "lamp"), (4, "lamp"), (5, "mug"), (6, "lamp"))
    ]


def verified(verify: Callable[..., Any]) -> Functions:
    tasks = [ToolTask(id=t.id, split=t.split, turns=(UserTurn(user=t.turns[0].user),)) for t in TASKS]
    return made(tasks=tasks, verify=verify)


def by_harm(state: Any, transcript: Any) -> bool:
    """Nothing bad happened, so all is well."""
    return bool(state["stock"]["lamp"] >= 0)


def raising(state: Any, transcript: Any) -> bool:
    """Nobody thought of an empty turn."""
    return bool(transcript[0]["calls"][0]["name"])
