"""A small domain for tests of environments made of functions."""

from __future__ import annotations

import asyncio
import enum
import sqlite3
import time
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from seal.envs.functions import Functions, ToolTask, UserTurn, documented
from seal.types import ToolCall


class Place(BaseModel):
    """Where."""

    city: str
    title: str = "home"
    zip: Annotated[int, Field(ge=10000, le=99999)] | None = None


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Extra(TypedDict):
    note: str


class Desk:
    """Tools of every kind."""

    def __init__(self, stock: dict[str, int] | None = None) -> None:
        self.stock = dict(stock or {"lamp": 3, "mug": 0})
        self.orders: list[dict[str, Any]] = []
        self._secret = object()

    def look(self, item: str) -> dict[str, object]:
        """Say how many there are.

        The shop counts every night.

        Args:
            item: What to
                look for.
        """
        if item not in self.stock:
            raise KeyError(f"no {item}")
        return {"item": item, "stock": self.stock[item]}

    @documented("Order. Codes begin with #.", code={"pattern": "^#"}, count="how many, at most 9")
    def order(
        self,
        item: Literal["lamp", "mug"],
        count: int,
        code: str = "#0",
        where: Place | None = None,
        size: Size = Size.SMALL,
    ) -> str:
        """Order."""
        if self.stock[item] < count:
            raise ValueError("not enough")
        self.stock[item] -= count
        self.orders.append({"item": item, "count": count, "city": where.city if where else None, "size": size})
        return f"ordered {count}"

    async def wait(self, seconds: float = 0.0) -> None:
        await asyncio.sleep(seconds)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    @staticmethod
    def add(numbers: list[int], extra: Optional[Extra] = None) -> int:  # noqa: UP045
        """Add numbers.

        :param numbers: some
        """
        return sum(numbers)

    @classmethod
    def kind(cls) -> str:
        return cls.__name__

    def undocumented(self, anything, other=None):  # type: ignore[no-untyped-def]
        return anything

    def cancel(self) -> str:
        """Cancel the last order."""
        self.orders.pop()
        return "cancelled"

    @property
    def no_tool(self) -> int:
        return 1

    def _hidden(self) -> None:
        """Not a tool."""


@dataclass
class Ledger:
    """Another object, for bound methods."""

    lines: list[str] = field(default_factory=list)

    def write(self, line: str) -> int:
        """Write a line."""
        self.lines.append(line)
        return len(self.lines)


class Database:
    """A database, which `vars` cannot show by name but the default snapshot can."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute("create table items (name text)")

    def put(self, name: str) -> str:
        self.db.execute("insert into items values (?)", (name,))
        return "put"


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


TASKS = (
    ToolTask(
        id="order",
        turns=(
            UserTurn(user="order 2 lamps", calls=(call("look", item="lamp"), call("order", item="lamp", count=2))),
            UserTurn(user="thanks", calls=(), tools=("cancel",)),
            UserTurn(user="cancel it", calls=(call("cancel"),)),
        ),
    ),
    ToolTask(id="none", turns=(UserTurn(user="hello", calls=()),), state={"stock": {"lamp": 1}}),
)


def environment(**options: Any) -> Functions:
    return Functions(Desk, TASKS, name="desk", **options)
