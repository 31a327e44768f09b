import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seal.envs.bfcl import BFCL, locate
from seal.envs.bfcl.session import BFCLSession
from seal.errors import MissingError
from seal.types import ToolCall, ToolResult

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts"))
sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))


@pytest.fixture(scope="session")
def root() -> Path:
    try:
        return locate()
    except MissingError as error:
        pytest.skip(f"needs the BFCL data: {error}")


@pytest.fixture(scope="session")
def bfcl(root: Path) -> BFCL:
    return BFCL(root=root)


Play = Callable[..., ToolResult]


@pytest.fixture
def begun(bfcl: BFCL) -> Callable[[str], BFCLSession]:
    """A session in its first turn."""

    def begin(task_id: str) -> BFCLSession:
        session = bfcl.open(bfcl.task(task_id))
        session.user_message()
        return session

    return begin


@pytest.fixture
def math_call(begun: Callable[[str], BFCLSession]) -> Play:
    """Calls a tool of MathAPI in a session of its own."""

    def call(name: str, **arguments: object) -> ToolResult:
        return begun("base_3").call(ToolCall(name, arguments))

    return call
