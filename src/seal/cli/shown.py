"""Playing with cues on purpose: to gate a cue alone, or to see what an evolved interface is worth.

`seal.evaluate` cannot show a cue, by contract. What is played here is therefore no evaluation of the bare environment,
and every output says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seal.cues import CUES
from seal.errors import ConfigError, DataError
from seal.interface import Interface, showing
from seal.trace import read_json


def parse_interface(text: str) -> Interface:
    """Read `--interface`.

    Args:
        text: `all`, cue ids joined by commas, or the path of a JSON file that holds an interface (what
            `Interface.to_json` gives, or any object with a list `active`).

    Raises:
        ConfigError: If it names an unknown cue or nothing at all.
        DataError: If the file holds no interface.
    """
    if text == "all":
        return showing(tuple(CUES))
    path = Path(text)
    if path.is_file():
        data = read_json(path)
        if isinstance(data, Mapping) and "interface" in data:
            data = data["interface"]  # a line of rounds.jsonl, or the state of a run
        if isinstance(data, Mapping) and isinstance(data.get("states"), Mapping):
            try:
                return Interface.from_json(data)
            except (KeyError, TypeError) as error:
                raise DataError(f"{path}: not an interface: {error}") from None
        if isinstance(data, Mapping) and isinstance(data.get("active"), list):
            # What a placebo would have shown is what it is asked for here; a random recipe showed others than it chose.
            return showing(tuple(str(cue) for cue in data.get("shown") or data["active"]))
        raise DataError(f"{path}: expected an object with 'states' or 'active', as in a run's rounds.jsonl")
    cues = tuple(part.strip() for part in text.split(",") if part.strip())
    if not cues:
        raise ConfigError(f"--interface needs cue ids, `all` or a file; cues: {', '.join(CUES)}")
    if text.endswith(".json") or "/" in text:
        raise ConfigError(f"--interface: there is no file {text!r}")
    return showing(cues)
