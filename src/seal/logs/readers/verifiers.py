"""verifiers (PrimeIntellect): results of the legacy evaluator and v1 traces.

Legacy `results.jsonl`: `{example_id, prompt, completion, reward, tool_defs?, ...}`, messages in OpenAI's shape. v1
`traces.jsonl`: a message graph, `nodes` with `parent` and `message`; the conversation is the path from the root to the
last leaf. `rewards` are named and weighted; `errors` and `stop_condition` say how it ended. Described in the public
repository PrimeIntellect-ai/verifiers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.errors import Blame, DataError, Failure
from seal.logs.readers.chat import said_of
from seal.logs.record import Context, Log
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, messages_in, name_of, number_of
from seal.types import Finish

NAME = "verifiers"
_STOPS = {
    "max_turns": Finish.STEP_LIMIT,
    "max_turns_reached": Finish.STEP_LIMIT,
    "max_input_tokens": Finish.TOKEN_LIMIT,
    "max_output_tokens": Finish.TOKEN_LIMIT,
    "max_total_tokens": Finish.TOKEN_LIMIT,
    "prompt_too_long": Finish.TOKEN_LIMIT,
}


def matches(record: object) -> bool:
    """Whether a record is a rollout of verifiers."""
    if not isinstance(record, dict):
        return False
    if isinstance(record.get("nodes"), list):
        return "rewards" in record or "agent" in record or "task" in record
    return "completion" in record and "prompt" in record and isinstance(record["completion"], (list, str))


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a rollout.

    Raises:
        DataError: If its messages are none, or its graph has no path.
    """
    yield _trace(record) if isinstance(record.get("nodes"), list) else _result(record)


def _result(record: dict[str, Any]) -> Log:
    prompt, completion = record.get("prompt"), record.get("completion")
    prompt, completion = messages_in(prompt) or prompt, messages_in(completion) or completion
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    if isinstance(completion, str):
        completion = [{"role": "assistant", "content": completion}]
    said = (*said_of(prompt or [], where="prompt"), *said_of(completion or [], where="completion"))
    error = record.get("error")
    failure = Failure(Blame.INFRASTRUCTURE, "error", _words(error)) if error and not completion else None
    finish = _STOPS.get(name_of(record.get("stop_condition")), Finish.COMPLETED)
    if record.get("is_truncated") is True and finish is Finish.COMPLETED:
        finish = Finish.TOKEN_LIMIT
    info = mapping_of(record.get("info"))
    return Log(
        id=name_of(record.get("example_id", record.get("id", record.get("sample_id")))),
        said=said,
        tools=specs_of(record.get("tool_defs")) or specs_of(info.get("oai_tools")),
        category=name_of(record.get("task")) or name_of(record.get("env_name")),
        model=name_of(record.get("model")),
        reward=number_of(record.get("reward")),
        detail=_words(error) if error else "",
        finish=finish,
        failure=failure,
    )


def _trace(record: dict[str, Any]) -> Log:
    rewards = mapping_of(record.get("rewards"))
    known = [value for value in map(_reward, rewards.values()) if value is not None]
    task = mapping_of(record.get("task"))
    agent = mapping_of(record.get("agent"))
    calls = [call for call in record.get("calls") or [] if isinstance(call, dict)]
    errors = [item for item in record.get("errors") or [] if isinstance(item, dict)]
    failure = None
    if errors and not known:
        failure = Failure(Blame.INFRASTRUCTURE, name_of(errors[-1].get("type")) or "error", _words(errors[-1]))
    model = next((name for call in calls if (name := name_of(call.get("model")))), "")
    finish = _STOPS.get(name_of(record.get("stop_condition")), Finish.COMPLETED)
    return Log(
        id=name_of(task.get("key")) or name_of(mapping_of(task.get("data")).get("idx")) or name_of(record.get("id")),
        said=said_of(_path(record["nodes"]), where="nodes"),
        tools=specs_of(record.get("tools")),
        category=name_of(task.get("type")),
        model=model or name_of(mapping_of(agent.get("config")).get("model")),
        reward=sum(known) if known else None,
        detail=", ".join(f"{name} {value}" for name, value in zip(rewards, known, strict=False)),
        finish=finish,
        failure=failure,
    )


def _reward(value: object) -> float | None:
    if isinstance(value, dict):
        score, weight = number_of(value.get("score")), number_of(value.get("weight", 1.0))
        return None if score is None or weight is None else score * weight
    return number_of(value)


def _path(nodes: list[Any]) -> list[Any]:
    """The messages from the root to the last leaf."""
    path: list[Any] = []
    at: int | None = len(nodes) - 1 if nodes else None
    while at is not None:
        node = nodes[at] if 0 <= at < len(nodes) else None
        if not isinstance(node, dict) or not isinstance(node.get("message"), dict):
            raise DataError(f"nodes[{at}] is no message node")
        path.append(node["message"])
        if len(path) > len(nodes):
            raise DataError("the parents of the nodes form a circle")
        parent = node.get("parent")
        at = parent if isinstance(parent, int) and not isinstance(parent, bool) else None
    return path[::-1]


def _words(error: object) -> str:
    if isinstance(error, dict):
        return name_of(error.get("message") or error.get("error_chain_str") or error.get("error"))[:400]
    return name_of(error)[:400]
