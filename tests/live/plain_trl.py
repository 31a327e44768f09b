"""A plain TRL run with the pocket model: its tools, its prompts, its trainer, and nothing of SEAL's but the reward."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOM = "would you keep the radio in birch going for 5 hours?"

TEMPLATE = (
    "{%- if tools %}{{ '<|tools|>' }}{%- for tool in tools %}{{ tool.function | tojson }}"
    "{%- if not loop.last %}{{ '\\n' }}{%- endif %}{%- endfor %}{{ '<|end|>' }}{%- endif %}"
    "{%- for message in messages %}{{ '<|' + message['role'] + '|>' + (message['content'] or '') }}"
    "{%- for call in message['tool_calls'] or [] %}{{ '<tool_call>\\n' + "
    "({'name': call.function.name, 'arguments': call.function.arguments} | tojson) + '\\n</tool_call>' }}{%- endfor %}"
    "{{ '<|end|>' }}{%- endfor %}{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}"
)
"""The pocket model's own template, and how it writes calls, which TRL asks of a template."""

ANSWERS = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>", "close_pattern": r"</tool_call>\s*", "repeats": True, "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|end\|>\s*", "content": "text"},
    },
}  # fmt: skip
"""How transformers reads an answer of the model back."""


def list_devices(room: str) -> str:
    """List the devices in a room.

    Args:
        room: The room.
    """
    if not room.startswith("#"):
        raise ValueError("bad value")
    return "camera d10 off; radio d11 on; lamp d14 on"


def set_timer(id: str, length: int) -> str:  # noqa: A002 -- the tool's own name for it
    """Keep a device going for some hours.

    Args:
        id: The device.
        length: The hours.
    """
    return f"timer of {id} set"


class House:
    """An environment of TRL's, whose methods are tools, and which owns its reward."""

    def reset(self, **_columns: Any) -> None:
        self.timers = 0

    def list_devices(self, room: str) -> str:
        """List the devices in a room.

        Args:
            room: The room.
        """
        return list_devices(room)

    def set_timer(self, id: str, length: int) -> str:  # noqa: A002 -- the tool's own name for it
        """Keep a device going for some hours.

        Args:
            id: The device.
            length: The hours.
        """
        self.timers += 1
        return set_timer(id, length)

    def get_reward(self) -> float:
        """Whether a timer was set."""
        return float(self.timers > 0)


def timed(completions: list[Any], **_columns: Any) -> list[float]:
    """A reward as users write them: whether a timer was set."""
    return [float(any(m["role"] == "tool" and m["content"].startswith("timer") for m in c)) for c in completions]


def tokenizer(*, calls: bool = True) -> Any:
    from transformers import AutoTokenizer

    from seal.models.pocket import path

    loaded = AutoTokenizer.from_pretrained(path())
    if calls:
        loaded.chat_template, loaded.response_template = TEMPLATE, ANSWERS
    return loaded


def trainer(directory: Path, rewards: list[Callable[..., Any]], prompts: list[Any], *, calls: bool = True,
            options: dict[str, Any] | None = None, **further: Any) -> Any:  # fmt: skip
    """A GRPOTrainer on CPU, two groups of four a step."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from seal.models.pocket import path

    given = {
        "output_dir": str(directory), "use_cpu": True, "max_steps": 1, "per_device_train_batch_size": 8,
        "num_generations": 4, "max_completion_length": 100, "max_tool_calling_iterations": 2, "report_to": [],
        "save_strategy": "no", "logging_steps": 1, "learning_rate": 1e-3, "seed": 3, "disable_tqdm": True,
        "gradient_checkpointing": False, "bf16": False,
    } | (options or {})  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GRPOTrainer(
            model=str(path()),
            reward_funcs=rewards,
            args=GRPOConfig(**given),
            train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
            processing_class=tokenizer(calls=calls),
            **further,
        )


def train(run: Any) -> list[dict[str, float]]:
    """Train, and return what was logged at each step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run.train()
    return [entry for entry in run.state.log_history if "reward" in entry]
