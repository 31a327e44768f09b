"""tau-bench v1 trajectories and tau2-bench results. Gold actions are inside; schemas are usually not.

v1: a list of `{task_id, reward, info: {task, reward_info}, traj, trial}`. tau2: `{info, tasks, simulations}`, a
simulation holds `messages`, `reward_info` and `termination_reason`; the user may call tools too, which is not the
agent's doing. Described in the public repositories sierra-research/tau-bench and sierra-research/tau2-bench.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from seal.errors import Blame, DataError, Failure
from seal.logs.gold import changes_state
from seal.logs.readers.chat import ROLES, call_of, message_of, said_of
from seal.logs.record import Action, Context, Gold, Log, Said, WrittenCall
from seal.logs.repair import guess_call
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, name_of, number_of, parse, text_of
from seal.types import Finish, StateDifference

NAME = "tau"
_STEP_LIMITS = {"max_steps": Finish.STEP_LIMIT, "context_window_exceeded": Finish.TOKEN_LIMIT}
_ACTION = re.compile(r"^[ \t]*Action[ \t]*:\s*(\{.*)\Z", re.MULTILINE | re.DOTALL)
_OUTPUT = "API output:"
_BROKEN = {"infrastructure_error", "unexpected_error", "user_error"}


def matches(record: object) -> bool:
    """Whether a record is an episode of tau-bench or tau2-bench."""
    if not isinstance(record, dict):
        return False
    if isinstance(record.get("traj"), list):
        return "reward" in record or "task_id" in record
    return isinstance(record.get("messages"), list) and "termination_reason" in record and "task_id" in record


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate an episode.

    Raises:
        DataError: If its messages are none.
    """
    yield _first(record, context) if isinstance(record.get("traj"), list) else _second(record, context)


def _first(record: dict[str, Any], context: Context) -> Log:
    info = mapping_of(record.get("info"))
    task = mapping_of(info.get("task"))
    outcome = mapping_of(info.get("reward_info"))
    checks = mapping_of(outcome.get("info"))
    outputs = mapping_of(checks.get("outputs"))
    unsaid = tuple(text for text, told in outputs.items() if told is False)
    # The state is compared, so that reads in the gold actions do not count; a good state absolves all of them.
    right_state = (number_of(checks.get("r_actions")) or 0) >= 1 and "r_actions" in checks
    actions = [] if right_state else [action for action in _actions(task.get("actions")) if changes_state(action.name)]
    said = _acted(said_of(record["traj"], where="traj"))
    error = info.get("error")
    failure = Failure(Blame.INFRASTRUCTURE, "error", name_of(error)[:400]) if error and not said else None
    return Log(
        id=name_of(record.get("task_id")),
        said=said,
        tools=specs_of(record.get("tools")),
        category=name_of(record.get("env")) or _domain(context.stem),
        model=_model(context.stem),
        sample=int(number_of(record.get("trial")) or 0),
        reward=number_of(record.get("reward")),
        kind="r_outputs" if unsaid else "r_actions" if "r_actions" in checks else None,
        detail="information missing from the answers" if unsaid else "the database is not as the reference leaves it",
        failure=failure,
        gold=Gold(tuple(actions), unsaid),
    )


def _acted(said: tuple[Said, ...]) -> tuple[Said, ...]:
    """The strategies `act` and `react` write calls as text (`Action:` and JSON) and get results as `API output:`."""
    if any(entry.calls for entry in said) or not any(
        entry.role == "assistant" and _ACTION.search(entry.text) for entry in said
    ):
        return said
    return tuple(_from_text(entry) for entry in said)


def _from_text(said: Said) -> Said:
    if said.role == "user" and said.text.startswith(_OUTPUT):
        return Said("tool", said.text.removeprefix(_OUTPUT).lstrip())
    match = _ACTION.search(said.text) if said.role == "assistant" else None
    if match is None:
        return said
    thought = said.text[: match.start()].strip()
    try:
        value = parse(match[1].encode("utf-8", errors="replace"))
    except DataError as error:
        problem = f"the action is no JSON ({str(error).removeprefix('not JSON: ')})"
        return Said("assistant", thought, (WrittenCall(guess_call(match[1]).name or "?", match[1], problem=problem),))
    if isinstance(value, dict) and value.get("name") == "respond":
        return Said("assistant", text_of(mapping_of(value.get("arguments")).get("content")))
    return Said("assistant", thought, (call_of(value),))


def _second(record: dict[str, Any], context: Context) -> Log:
    outcome = mapping_of(record.get("reward_info"))
    task = _task(context.header, record.get("task_id"))
    criteria = mapping_of(task.get("evaluation_criteria"))
    reason = name_of(record.get("termination_reason"))
    info = mapping_of(context.header.get("info"))
    failure = None
    if reason in _BROKEN:
        failure = Failure(Blame.INFRASTRUCTURE, reason, f"the simulation ended with {reason}")
    unsaid = tuple(
        name_of(check.get("info")) for check in _list(outcome.get("communicate_checks")) if check.get("met") is False
    )
    unmet = tuple(
        StateDifference(_assertion(check), "not met", "met")
        for check in _list(outcome.get("env_assertions"))
        if check.get("met") is False
    )
    basis = _basis(outcome, criteria)
    actions = [
        action
        for action in _actions(criteria.get("actions") or _checked(outcome))
        if "ACTION" in basis or ("DB" in basis and changes_state(action.name))
    ]
    if mapping_of(outcome.get("db_check")).get("db_match") is True and "ACTION" not in basis:
        actions = []
    breakdown = mapping_of(outcome.get("reward_breakdown"))
    failing = [str(part) for part, value in breakdown.items() if number_of(value) == 0]
    return Log(
        id=name_of(record.get("task_id")),
        said=tuple(_without_user_calls(record["messages"])),
        tools=specs_of(mapping_of(info.get("environment_info")).get("tool_defs")),
        category=name_of(mapping_of(info.get("environment_info")).get("domain_name")),
        model=name_of(mapping_of(info.get("agent_info")).get("llm")),
        sample=int(number_of(record.get("trial")) or 0),
        reward=number_of(outcome.get("reward")),
        kind="+".join(failing) or None,
        detail=f"failed: {', '.join(failing)}" if failing else "",
        finish=_STEP_LIMITS.get(reason, Finish.COMPLETED),
        failure=failure,
        gold=Gold(
            tuple(actions),
            unsaid if "COMMUNICATE" in basis else (),
            unmet if "ENV_ASSERTION" in basis else (),
        ),
    )


def _checked(outcome: dict[str, Any]) -> list[dict[str, Any]]:
    """The gold actions of a simulation in a file of its own, which leaves the task out."""
    return [mapping_of(check.get("action")) for check in _list(outcome.get("action_checks"))]


def _basis(outcome: dict[str, Any], criteria: dict[str, Any]) -> frozenset[str]:
    """The parts that the reward is made of; all of them where the file does not say."""
    named = outcome.get("reward_basis") or criteria.get("reward_basis")
    if isinstance(named, list) and named:
        return frozenset(str(part).rsplit(".", 1)[-1].upper() for part in named)
    return frozenset({"DB", "COMMUNICATE", "ENV_ASSERTION"})


def _assertion(check: dict[str, Any]) -> str:
    return name_of(mapping_of(check.get("env_assertion")).get("func_name")) or "assertion"


def _without_user_calls(messages: list[Any]) -> Iterator[Said]:
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise DataError(f"messages[{number}] should be an object, got {type(message).__name__}")
        if message.get("role") == "tool" and isinstance(message.get("tool_messages"), list):
            yield from _without_user_calls(message["tool_messages"])
            continue
        if message.get("requestor") == "user":
            continue
        role = ROLES.get(str(message.get("role", "")).lower())
        if role is None:
            raise DataError(f"messages[{number}] has the role {message.get('role')!r}; known: {', '.join(ROLES)}")
        if role == "user" and message.get("content") is None and message.get("tool_calls"):
            continue
        yield from message_of(_marked(message) if role == "tool" else message, role)


def _marked(message: dict[str, Any]) -> dict[str, Any]:
    """tau2 marks errors with a boolean `error`."""
    return {**message, "is_error": message.get("error") is True, "error": None}


def _actions(actions: object) -> Iterator[Action]:
    for action in _list(actions):
        name = action.get("name")
        if not isinstance(name, str) or action.get("requestor") == "user" or name == "respond":
            continue
        keys = action.get("compare_args")
        yield Action(
            name,
            mapping_of(action.get("kwargs", action.get("arguments"))),
            tuple(map(str, keys)) if isinstance(keys, list) else None,
        )


def _task(header: Mapping[str, Any], wanted: object) -> dict[str, Any]:
    for task in _list(header.get("tasks")):
        if name_of(task.get("id")) == name_of(wanted):
            return task
    return {}


def _list(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _domain(stem: str) -> str:
    return next((domain for domain in ("airline", "retail", "telecom", "telehealth") if domain in stem), "")


def _model(stem: str) -> str:
    """v1 file names read `tool-calling-MODEL-TEMPERATURE_range_...`; the record itself does not name the model."""
    head = stem.split("_range_", maxsplit=1)[0]
    if head == stem:
        return ""
    for strategy in ("tool-calling-", "act-", "react-", "few-shot-"):
        head = head.removeprefix(strategy)
    return head.rsplit("-", 1)[0]
