"""One episode of a foreign environment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from seal.envs.functions.plain import cut
from seal.envs.isolation import Actor, Late
from seal.errors import EnvironmentFailure
from seal.schema import violations
from seal.types import Fault, FaultKind, ToolCall, ToolResult, ToolSpec, TurnVerdict, Verdict


class ForeignSession:
    """Implements `seal.task.Session` over an actor whose methods take and return JSON values.

    | method | returns |
    |---|---|
    | `begin()` | `system` (text or None), `user` (text) and `tools` (each `name`, `description`, `parameters`) |
    | `call(name, arguments)` | `text`, `kind` (of the fault, or None) and `done` (whether the episode is over) |
    | `answer(text)` | what the user says to the agent's answer; None if nothing |
    | `score(messages)` | `reward` (a number or None), `detail` (text), `over` (whether it came to its own end) |

    Args:
        actor: Closed with the session.
        passes: The least reward that is a success.
        max_turns: User turns after which the episode is cut short.
        max_output: Characters of a result that the agent sees.
    """

    n_turns: int | None = None

    def __init__(self, actor: Actor, *, passes: float, max_turns: int, max_output: int) -> None:
        self._actor, self._passes, self._max_turns, self._max_output = actor, passes, max_turns, max_output
        try:
            begun = actor.call("begin")
        except BaseException:
            actor.close()
            raise
        self._system: str | None = begun["system"]
        self._first: str = begun["user"]
        self._specs = {t["name"]: ToolSpec(t["name"], t["description"], t["parameters"]) for t in begun["tools"]}
        self._messages: list[dict[str, Any]] = []
        if self._system is not None:
            self._messages.append({"role": "system", "content": self._system})
        self._turns = 0
        self._open = self._over = self._ended = False

    def system_message(self) -> str | None:
        """The environment's own."""
        return self._system

    def tools(self) -> Sequence[ToolSpec]:
        """What is offered, the same in every turn."""
        return tuple(self._specs.values())

    def user_message(self, answer: str | None = None) -> str | None:
        """The next user turn: the first message, then what the environment's own user says.

        Raises:
            EnvironmentFailure: If the turn before was not ended.
        """
        if self._open:
            raise EnvironmentFailure("user_message() was called before end_turn()")
        if not self._turns:
            text: str | None = self._first
        else:
            self._messages.append({"role": "assistant", "content": answer or ""})
            said = None if self._over else self._actor.call("answer", answer or "")
            text = said if self._turns < self._max_turns else None
        if text is None:
            self._over = True
            return None
        self._turns += 1
        self._open = True
        self._messages.append({"role": "user", "content": text})
        return text

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call; arguments that break the offered schema never reach the tool.

        Raises:
            EnvironmentFailure: If no turn is open, or the environment is gone.
        """
        if not self._open:
            raise EnvironmentFailure("no user turn is open: call user_message() first")
        text, kind = self._execute(call)
        number = f"call_{len(self._messages)}"
        function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
        self._messages += [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": number, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": number, "name": call.name, "content": text},
        ]
        return ToolResult(text, text, None if kind is None else Fault(FaultKind(kind), text))

    def _execute(self, call: ToolCall) -> tuple[str, str | None]:
        spec = self._specs.get(call.name)
        if spec is None:
            return f"error: there is no tool {call.name!r}", FaultKind.UNKNOWN_TOOL
        if self._over:
            return "error: the episode is over", FaultKind.TOOL
        broken = violations(spec, call.arguments)
        if broken:
            return f"error: {'; '.join(violation.message for violation in broken)}", FaultKind.ARGUMENTS
        try:
            said = self._actor.call("call", call.name, dict(call.arguments))
        except Late:
            return f"error: {call.name} took too long", FaultKind.DEADLINE
        self._over = self._ended = bool(said["done"])
        return cut(said["text"], self._max_output), said["kind"]

    def end_turn(self, *, forced: bool = False) -> TurnVerdict:
        """End the turn. Only the whole episode is paid, so of the turn alone nothing is known.

        Raises:
            EnvironmentFailure: If no turn is open.
        """
        if not self._open:
            raise EnvironmentFailure("no user turn is open: call user_message() first")
        self._open = False
        self._over = self._over or forced
        return TurnVerdict(None)

    def verdict(self) -> Verdict:
        """Success if the reward is high enough; the reward itself is in the detail."""
        scored = self._actor.call("score", self._messages)
        reward, detail = scored["reward"], scored["detail"]
        if reward is None and not (scored["over"] or self._ended):
            # Else an agent that does nothing would leave the statistics instead of lowering them.
            return Verdict(0.0, "verifier:unrewarded", "the agent stopped before the environment gave a reward")
        if reward is None:
            return Verdict(None, "verifier:undecided", detail or "the environment gave no reward")
        said = f"reward {reward:g}{': ' if detail else ''}{detail}"
        return Verdict(1.0, None, said) if reward >= self._passes else Verdict(0.0, "verifier:rejected", said)

    def close(self) -> None:
        """Let the environment go."""
        self._open = False
        self._actor.close()
