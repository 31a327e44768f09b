"""A sample in each dialect: marks that are special tokens survive decoding, other special tokens do not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from seal.models.chat import ChatFormat
from seal.parse import DIALECTS
from seal.types import StopReason, ToolCall, ToolSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TOOLS = (
    ToolSpec(
        "get_weather",
        "Weather.",
        {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    ),
)
CALL = ToolCall("get_weather", {"city": "Oslo", "days": 3})


@pytest.mark.parametrize("name", DIALECTS)
def test_a_sample_in_each_dialect_is_read(name: str, tokenizer_for: Callable[[str], PreTrainedTokenizerFast]) -> None:
    tokenizer = copy.deepcopy(tokenizer_for("chatml"))
    marks = [mark for mark in DIALECTS[name].marks if mark.strip() == mark]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    chat = ChatFormat(tokenizer, name)
    written = chat.dialect.render([CALL])
    sampled = (*chat.encode(f"{written}<|im_start|>"), chat.end_id)
    generation = chat.generation(
        sampled, (0.0,) * len(sampled), ((1,), (1,)), stop=StopReason.STOP, prompt_tokens=1, tools=TOOLS
    )
    assert generation.text == written
    (call,) = generation.calls
    assert isinstance(call, ToolCall), call
    assert (call.name, call.arguments) == (CALL.name, CALL.arguments)
    assert generation.content == ""


def test_the_response_template_of_a_tokenizer_decides(
    tokenizer_for: Callable[[str], PreTrainedTokenizerFast],
) -> None:
    tokenizer = copy.deepcopy(tokenizer_for("chatml"))
    assert ChatFormat(tokenizer).dialect.name == "hermes"
    tokenizer.response_template = {
        "fields": {"tool_calls": {"open": "<|tool_call_start|>", "close": "<|tool_call_end|>"}}
    }
    assert ChatFormat(tokenizer).dialect.name == "lfm2"
    assert ChatFormat(tokenizer, "pythonic").dialect.name == "pythonic"
