"""A round of training in any environment, with a random model of a few thousand parameters.

A random model writes no calls that could be read. So a dialect stands between: the character that a message begins with
chooses one of a few prepared messages, calls or a text. Groups then hold right and wrong episodes, and there is
something to learn from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seal.parse import Parsed
from seal.types import ToolCall, ToolSpec

Choices = Sequence[Sequence[ToolCall] | str]


class Choosing:
    """A dialect of prepared messages."""

    def __init__(self, name: str, choices: Choices) -> None:
        self.name, self._choices = name, tuple(choices)
        self.marks: tuple[str, ...] = ()

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        chosen = self._choices[ord(text[0]) % len(self._choices)] if text else ""
        return Parsed(chosen, ()) if isinstance(chosen, str) else Parsed(text, tuple(chosen))

    def render(self, calls: Sequence[ToolCall]) -> str:
        return "b" * len(calls)

    def instructions(self, tools: Sequence[ToolSpec]) -> str:
        return "\n".join(tool.name for tool in tools)

    def announce(self, tools: Sequence[ToolSpec]) -> str:
        return self.instructions(tools)


def train_a_round(environment: Any, choices: Choices, directory: Path) -> dict[str, Any]:
    """Train for one round with cues, and return its record."""
    import seal.envs
    import seal.parse
    from models.conftest import make_model, make_tokenizer
    from seal.config import load_config
    from seal.engines.trl import train

    tokenizer = make_tokenizer("chatml")
    make_model(len(tokenizer), positions=4096).save_pretrained(directory / "model")
    tokenizer.save_pretrained(directory / "model")
    name = environment.name
    before, dialects = dict(seal.envs.BUILT_IN), seal.parse.DIALECTS
    seal.parse.DIALECTS = {**dialects, "choosing": Choosing("choosing", choices)}
    globals()["CURRENT"] = lambda: environment
    seal.envs.BUILT_IN[name] = "rounds:CURRENT"
    try:
        config = load_config(
            None,
            [
                f"environment.name={name}",
                f"model.source={directory / 'model'}",
                "model.dialect=choosing",
                "model.max_context=4000",
                "model.threads=1",
                "interface.recipe=static",
                "exposure.peak=0.5",
                "rollout.rounds=1",
                "rollout.prompts=1",
                "rollout.group_size=4",
                "rollout.max_new_tokens=4",
                "update.micro_batch=2",
                "update.kl=0.0",
                "evaluation.every=0",
            ],
        )
        train(config, directory / "run")
    finally:
        seal.envs.BUILT_IN.clear()
        seal.envs.BUILT_IN.update(before)
        seal.parse.DIALECTS = dialects
    (line,) = (directory / "run" / "rounds.jsonl").read_text().splitlines()
    record: dict[str, Any] = json.loads(line)
    return record
