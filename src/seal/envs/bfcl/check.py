"""What BFCL offers its checker: how it takes arguments, and the same tasks with tools that are not on offer refused."""

from __future__ import annotations

from collections.abc import Callable

from seal.proof import Proof
from seal.task import Environment

LENIENT = "the benchmark's simulators take arguments of any type"


def proof(enforcing: Callable[[], Environment] | None) -> Proof:
    """What the environment offers.

    Args:
        enforcing: Makes the same environment with `enforce_tools`; None if it enforces already. Officially a tool that
            is not on offer runs when it is called; one task cannot be solved otherwise.
    """
    return Proof(lenient=LENIENT, variants={} if enforcing is None else {"enforce_tools": enforcing})
