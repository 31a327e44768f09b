"""Option types that several commands share."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

Flag = Annotated[bool, Parameter(show_default=False)]
"""Absent or present."""

Repeated = Annotated[tuple[str, ...], Parameter(show_default=False)]
"""May be given several times, one value each."""

Settings = Annotated[tuple[str, ...], Parameter(name="--set", show_default=False)]
"""`--set section.key=value`, any number of times."""
