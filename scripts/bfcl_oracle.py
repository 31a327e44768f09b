"""The official BFCL checker as an oracle, for the parity script, the benchmark and the tests; never for the product.

The two official files run as they are. Their package is not imported: stand-in package objects with the right search
path let Python find `multi_turn_checker`, `multi_turn_utils`, the class table and the simulators, and nothing else.

What the process shares and an episode must not see is reset here, between model and reference as well:

- instances that the checker keeps in the globals of its module;
- the default of `post_tweet(mentions=[])`, one list for the process: here one per instance;
- the extension dictionaries that every long-context travel instance holds: here a copy per instance;
- the order of the members of a set in two error texts, which is that of the process's string hashes: here sorted.
"""

from __future__ import annotations

import copy
import importlib
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGES = (
    "bfcl_eval",
    "bfcl_eval.constants",
    "bfcl_eval.eval_checker",
    "bfcl_eval.eval_checker.multi_turn_eval",
    "bfcl_eval.eval_checker.multi_turn_eval.func_source_code",
)
_HERE = "bfcl_eval.eval_checker.multi_turn_eval"
MODEL = "model"


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """Write a call as the official handlers of models with native tool calls do."""
    return f"{name}({','.join(f'{key}={value!r}' for key, value in arguments.items())})"


class Oracle:
    """The official executor and checker on the files of an installed benchmark.

    Args:
        root: What `seal.envs.bfcl.locate()` returned.
        isolate: Reset the contaminations; False runs the official code bare, for timing.
    """

    def __init__(self, root: Path, *, isolate: bool = True) -> None:
        for name in _PACKAGES:
            package = ModuleType(name)
            package.__path__ = [str(root / name.replace(".", "/"))]
            sys.modules.setdefault(name, package)
        # What lies beside the benchmark's files in the cache would count as a change of it.
        sys.dont_write_bytecode = True
        self.checker: Any = importlib.import_module(f"{_HERE}.multi_turn_checker")
        self.utils: Any = importlib.import_module(f"{_HERE}.multi_turn_utils")
        sources = f"{_HERE}.func_source_code"
        self._travel: Any = importlib.import_module(f"{sources}.travel_booking")
        self._post_tweet = importlib.import_module(f"{sources}.posting_api").TwitterAPI.post_tweet
        self._extensions = (
            copy.deepcopy(self._travel.CREDIT_CARD_EXTENSION),
            copy.deepcopy(self._travel.BOOKING_RECORD_EXTENSION),
        )
        self._defaults: dict[str, tuple[list[str], list[str]]] = {}
        self._execute = self.utils.execute_multi_turn_func_call
        setattr(self.checker, "execute_multi_turn_func_call", self._isolated if isolate else self._execute)  # noqa: B010
        data = root / "bfcl_eval" / "data"
        self.entries: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, list[list[str]]] = {}
        for category in ("base", "miss_func", "miss_param", "long_context"):
            name = f"BFCL_v4_multi_turn_{category}.json"
            for line in (data / name).read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self.entries[entry["id"]] = entry
            for line in (data / "possible_answer" / name).read_text(encoding="utf-8").splitlines():
                answer = json.loads(line)
                self.answers[answer["id"]] = answer["ground_truth"]

    def _isolated(self, *, model_name: str, **rest: Any) -> tuple[list[str], dict[str, Any]]:
        self._post_tweet.__defaults__ = self._defaults.setdefault(model_name, ([], []))
        if rest["long_context"] and "TravelAPI" in rest["involved_classes"]:
            self._travel.CREDIT_CARD_EXTENSION, self._travel.BOOKING_RECORD_EXTENSION = copy.deepcopy(self._extensions)
        results, instances = self._execute(model_name=model_name, **rest)
        return [_sorted_sets(text) for text in results], instances

    def reset(self) -> None:
        """Forget all instances."""
        state = vars(self.utils)
        for name in [name for name in state if name.endswith("_instance")]:
            del state[name]
        self._defaults.clear()

    def execute(self, task_id: str, calls: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
        """Execute one step of the model as the checker does; instances live until `reset`.

        Returns:
            The observations and the model's instances by class.
        """
        entry = self.entries[task_id]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._isolated(
                func_call_list=list(calls),
                initial_config=entry["initial_config"],
                involved_classes=entry["involved_classes"],
                model_name=MODEL,
                test_entry_id=task_id,
                long_context="long_context" in task_id,
                is_evaL_run=True,
            )

    def verdict(self, task_id: str, turns: Sequence[Sequence[Sequence[str]]]) -> str | None:
        """The official result of calls by turn and step: None for success, else the error kind.

        The length check and the removal of empty steps stand in the official `eval_runner`, before the checker.
        """
        answers = self.answers[task_id]
        if len(turns) != len(answers):
            return "multi_turn:force_terminated"
        decoded = [[list(step) for step in turn if step] for turn in turns]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = self.checker.multi_turn_checker(
                decoded, answers, self.entries[task_id], task_id.rsplit("_", 1)[0], MODEL
            )
        return None if result["valid"] else str(result["error_type"])


def _sorted_sets(text: str) -> str:
    if "Must be one of {" not in text and not text.startswith('{"error": "Invalid fields for update: '):
        return text
    try:
        result = json.loads(text)
        head, brace, rest = result["error"].partition(" {")
        if not brace:
            head, brace, rest = result["error"].partition("update: ")
    except (ValueError, TypeError, KeyError, AttributeError):
        return text
    members = ", ".join(sorted(rest.rstrip("}").split(", ")))
    return json.dumps({**result, "error": f"{head}{brace}{members}{'}' if rest.endswith('}') else ''}"})


def plain_state(instance: Any) -> dict[str, Any]:
    """The attributes that the official checker compares, free of the classes that hold them."""

    def plain(value: Any) -> Any:
        if hasattr(value, "contents"):
            return ("directory", value.name, {key: plain(item) for key, item in value.contents.items()})
        return ("file", value.name, value.content) if hasattr(value, "content") else value

    return {name: plain(value) for name, value in vars(instance).items() if not name.startswith("_")}
