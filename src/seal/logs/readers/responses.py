"""Requests and answers of OpenAI's Responses API: `input` and `output` lists of items, or a bare list of items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.errors import Blame, Failure
from seal.logs.readers.items import is_item, said_of_items
from seal.logs.record import Context, Log, Said
from seal.logs.rewards import score_of
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, name_of, text_of
from seal.types import Finish

NAME = "responses"


def matches(record: object) -> bool:
    """Whether a record is a list of items, a response, or a request with or without its response."""
    if isinstance(record, list):
        return bool(record) and all(isinstance(item, dict) for item in record) and any(map(is_item, record[:50]))
    if not isinstance(record, dict) or "run_type" in record:
        return False
    request = mapping_of(record.get("request")) or mapping_of(record.get("body")) or record
    response = _response(record)
    if response.get("object") == "response" and isinstance(response.get("output"), list):
        return True
    lists = [value for value in (request.get("input"), response.get("output")) if isinstance(value, list)]
    return any(is_item(item) for value in lists for item in value[:50])


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a conversation.

    Raises:
        DataError: If an item is none.
    """
    if isinstance(record, list):
        yield Log("", tuple(said_of_items(record, where="the list")))
        return
    request = mapping_of(record.get("request")) or mapping_of(record.get("body")) or record
    response = _response(record)
    asked = request.get("input", record.get("input"))
    said: list[Said] = []
    if isinstance(asked, str):
        said.append(Said("user", text_of(asked)))
    items = [*(asked if isinstance(asked, list) else []), *(response.get("output") or [])]
    said.extend(said_of_items(items, where="input"))
    cut = mapping_of(response.get("incomplete_details")).get("reason") == "max_output_tokens"
    error = mapping_of(response.get("error"))
    failure = None
    if error and not any(part.role == "assistant" for part in said):
        failure = Failure(Blame.INFRASTRUCTURE, "error", name_of(error.get("message"))[:400])
    yield Log(
        id=name_of(record.get("id") or record.get("custom_id") or response.get("id")),
        said=tuple(said),
        tools=specs_of(request.get("tools")) or specs_of(response.get("tools")),
        model=name_of(record.get("model") or request.get("model") or response.get("model")),
        reward=score_of(record.get("reward", record.get("score"))),
        finish=Finish.TOKEN_LIMIT if cut else Finish.COMPLETED,
        failure=failure,
    )


def _response(record: dict[str, Any]) -> dict[str, Any]:
    response = mapping_of(record.get("response"))
    return mapping_of(response.get("body")) or response or record
