"""The same for verl: a `compute_score` whose results carry the labels.

verl (0.9) calls `compute_score` once for each rollout, in several processes, and takes a dictionary with `score` and
further keys. Numbers among these are logged at every validation (`val-aux/DATA_SOURCE/KEY/mean@N`); all of them stand
in the rollouts that it writes to `rollout_data_dir` and `validation_data_dir`. Every rollout has to have the same keys.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from seal.errors import ConfigError
from seal.live.monitor import PREFIX, Monitor, settings_of
from seal.live.records import record_of
from seal.live.wrap import then
from seal.logs import Settings
from seal.logs.text import AUTO
from seal.taxonomy import OUTSIDE_PROFILE, SUCCESS, Label

MESSAGES = "seal_messages"
"""Key under which `KeepsMessages` hands the conversation on."""

FAILURES = tuple(label for label in Label if label not in SUCCESS | OUTSIDE_PROFILE)
"""Labels that are numbers of their own in verl, which draws bootstrap samples of every number."""


def diagnosed(
    compute_score: Callable[..., Any],
    *,
    tools: object = None,
    dialect: str = AUTO,
    round_size: int = 256,
    numbers: bool = True,
) -> Callable[..., Any]:
    """Wrap a `compute_score` of verl so that its results say why a rollout failed. The score stays as it is.

    Args:
        compute_score: The function that `reward.custom_reward_function` would name, synchronous or not; it returns a
            number or a dictionary with `score`.
        tools: What the model is offered: schemas, or the path of a schema file.
        dialect: Strict dialect of calls in text, or `auto`.
        round_size: Rollouts in each process that make one round of the interface, for `seal_cue`.
        numbers: Whether to return numbers too. verl draws bootstrap samples of each when it validates with several
            rollouts a prompt.

    Returns:
        A function of the same kind, whose results have, besides what they had, the texts `seal_label`, `seal_evidence`
        and `seal_cue`, and the numbers `seal/label/LABEL` for each failure (1 or 0), `seal/calls` and
        `seal/unreadable_calls` (counts).

    Raises:
        ConfigError: If `compute_score` is no function, a tool is none, or there is no such dialect.
    """
    if not callable(compute_score):
        raise ConfigError(f"diagnosed takes a compute_score function, got {compute_score!r:.80}")
    if round_size < 1:
        raise ConfigError(f"round_size is a number of rollouts, 1 or more; got {round_size}")
    labeller = _Labeller(settings_of(tools, dialect), round_size, numbers)
    return cast(
        "Callable[..., Any]",
        then(compute_score, lambda result, args, kwargs: labeller.add(result, _call(args, kwargs))),
    )


def _call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name; verl gives all of them by name, its tests and other callers in order."""
    return {**dict(zip(("data_source", "solution_str", "ground_truth", "extra_info"), args, strict=False)), **kwargs}


class KeepsMessages:
    """Mixin for verl's `ToolAgentLoop` that hands the messages of a rollout on to `compute_score`.

    Without it, `compute_score` sees the decoded response alone, with the tools' answers somewhere in it.

    >>> from verl.experimental.agent_loop.agent_loop import register  # doctest: +SKIP
    >>> from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop  # doctest: +SKIP
    >>> @register("diagnosed_tool_agent")  # doctest: +SKIP
    ... class DiagnosedToolAgentLoop(KeepsMessages, ToolAgentLoop): ...
    """

    async def _handle_generating_state(self, agent_data: Any, *args: Any, **kwargs: Any) -> Any:
        known = len(agent_data.messages)
        state = await super()._handle_generating_state(agent_data, *args, **kwargs)  # type: ignore[misc]
        # The loop's own list, in which the tools' answers follow. What the policy said is kept as it was written:
        # verl's messages lack attempts at calls that its parser did not take, and the last one where a limit ended it.
        kept = agent_data.extra_fields.setdefault(MESSAGES, {"prompt_length": known, "written": {}, "cut": False})
        kept["messages"] = agent_data.messages
        loop: Any = self
        kept["written"][known] = _written(loop.tokenizer, agent_data.response_ids)
        kept["cut"] = len(agent_data.response_mask) >= loop.response_length
        return state


def _written(tokenizer: Any, ids: Sequence[int]) -> str:
    """What was sampled, marks of calls included, without the token that ended it."""
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    kept = list(ids)
    while kept and kept[-1] in ends:
        kept.pop()
    return str(tokenizer.decode(kept, skip_special_tokens=False))


def _halves(kept: Any) -> tuple[list[Any], list[Any], bool]:
    """The prompt, what the policy made of it, and whether that was cut off.

    Args:
        kept: What `KeepsMessages` left, or the messages of another loop; of these the policy's are those that follow
            the last message of the user.
    """
    if isinstance(kept, Mapping):
        messages = list(kept["messages"])
        for at, text in sorted(kept["written"].items()):
            messages[at : at + 1] = [{"role": "assistant", "content": text}]
        return messages[: kept["prompt_length"]], messages[kept["prompt_length"] :], kept["cut"]
    users = [i for i, message in enumerate(kept) if message.get("role") == "user"]
    start = users[-1] + 1 if users else 0
    return list(kept[:start]), list(kept[start:]), False


class _Labeller:
    """A monitor for the many threads of one process; in another process it starts anew."""

    def __init__(self, settings: Settings, round_size: int, numbers: bool) -> None:
        self._settings, self._round_size, self._numbers = settings, round_size, numbers
        self._monitor = Monitor(settings)
        self._lock = threading.Lock()
        self._count = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _Labeller, (self._settings, self._round_size, self._numbers)

    def add(self, result: Any, call: Mapping[str, Any]) -> dict[str, Any]:
        """The result with what the labels say."""
        # verl logs a bare score as `acc` too, and would miss it in a dictionary.
        given = dict(result) if isinstance(result, Mapping) else {"score": result, "acc": result}
        info = call.get("extra_info")
        kept = info.get(MESSAGES) if isinstance(info, Mapping) else None
        prompt, completion, cut = (None, call.get("solution_str", ""), False) if kept is None else _halves(kept)
        score = given.get("score")
        record = record_of(prompt, completion, reward=None if score is None else float(score), cut=cut)
        with self._lock:
            batch = self._monitor.batch([record], round_number=self._count // self._round_size)
            self._count += 1
        (label,), (evidence,) = batch.labels, batch.evidence
        told = {
            f"{PREFIX}_label": str(label or ""),
            f"{PREFIX}_evidence": evidence,
            f"{PREFIX}_cue": batch.cues[0] if batch.cues else "",
        }
        return {**given, **told, **(_numbers(label, batch.report.calls) if self._numbers else {})}


def _numbers(label: Label | None, calls: Mapping[str, int]) -> dict[str, int]:
    """The same keys for every rollout: verl reads them off the first one. Counts, since a share may have no value."""
    return {
        **{f"{PREFIX}/label/{failure}": int(label is failure) for failure in FAILURES},
        f"{PREFIX}/calls": calls["read"] + calls["malformed"],
        f"{PREFIX}/unreadable_calls": calls["malformed"],
    }
