"""Trajectories per CPU second of `seal diagnose`, and its memory as the log grows.

The log holds OpenAI chat conversations of 4 user turns with 4 to 8 calls, three tools with schemas in every record, and
a realistic share of errors: bad arguments, unknown tools, unreadable JSON, failing results; about 3.3 kB a record.

- *Ours*: the command as a person runs it, in processes of its own, start-up, summary and JSON output included.
- *Other*: what one writes in an afternoon: `json.loads` of each line and `jsonschema.validate` of each call against its
  tool. It parses and validates; it finds no turns, errors, loops, labels, profile or examples, and makes no output.
  `other_cached` is the same with each validator built once, which takes knowing that `validate` builds one a call.

Memory is the largest process's peak; it must not grow with the log. CPU seconds are those of all processes together.

    python benchmarks/diagnose.py [TRAJECTORIES]      # default: 100000
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

TRAJECTORIES = 100_000
BLOCK = 2_000
"""Different records; the log repeats them under other ids."""
OTHER = 1_000
"""Records that the other side reads."""

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "book_flight",
            "description": "Book a flight.",
            "parameters": {
                "type": "object",
                "properties": {
                    "origin": {"type": "string"},
                    "date": {"type": "string", "format": "date"},
                    "cabin": {"type": "string", "enum": ["economy", "business"]},
                    "seats": {"type": "integer", "minimum": 1, "maximum": 9},
                },
                "required": ["origin", "date"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "find_user",
            "description": "Find a user by their e-mail address.",
            "parameters": {"type": "object", "properties": {"email": {"type": "string"}}, "required": ["email"]},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    },
]


def conversation(number: int, rng: Random) -> dict[str, Any]:
    """One record of 4 turns."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a travel agent. " * 8}]
    for turn in range(4):
        messages.append({"role": "user", "content": f"Please see to part {turn} of my journey, number {number}."})
        for step in range(rng.choice((1, 1, 2))):
            name = rng.choice(("book_flight", "find_user", "get_weather"))
            arguments: dict[str, Any] = {
                "book_flight": {"origin": "Paris", "date": f"2026-01-{rng.randint(10, 28)}", "cabin": "economy"},
                "find_user": {"email": f"user{number}@example.org"},
                "get_weather": {"city": "Rome"},
            }[name]
            if rng.random() < 0.05:
                arguments["cabin"] = "first"
            if rng.random() < 0.02:
                name = "bookflight"
            text = json.dumps(arguments)
            if rng.random() < 0.02:
                text = text[:-1] + ",}"
            failing = rng.random() < 0.08
            answer = (
                "Error: no seats left" if failing else json.dumps({"reference": f"AB{number:05d}", "note": "x" * 60})
            )
            identifier = f"call_{turn}_{step}"
            call = {"id": identifier, "type": "function", "function": {"name": name, "arguments": text}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": identifier, "content": answer})
        messages.append(
            {"role": "assistant", "content": f"Part {turn} is settled; here is what you need to know. " * 2}
        )
    record = {"id": f"journey-{number}", "model": rng.choice(("model-a", "model-b")), "category": "travel",
              "messages": messages, "tools": TOOLS}  # fmt: skip
    return {**record, "reward": rng.choice((0, 1))} if rng.random() < 0.7 else record


def write(path: Path, count: int, seed: int = 7) -> None:
    """Write a log of `count` records."""
    rng = Random(seed)
    block = [json.dumps(conversation(number, rng)) for number in range(min(BLOCK, count))]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(block[number % len(block)].replace('"journey-', f'"journey-{number // len(block)}-', 1) + "\n")


def run(path: Path, workers: int) -> tuple[float, float, float, dict[str, Any]]:
    """Run the command: wall seconds, CPU seconds, peak MiB of the largest process, its JSON."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    command = [sys.executable, "-m", "seal", "diagnose", str(path), "--json", "--workers", str(workers)]
    done = subprocess.run(command, check=True, capture_output=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, after.ru_maxrss / 1024, json.loads(done.stdout)


def naive(path: Path, *, cached: bool) -> float:
    """Records per CPU second of the afternoon's script."""
    import jsonschema  # noqa: PLC0415 -- the other side only

    validators: dict[str, Any] = {}
    broken = 0
    began = time.process_time()
    with path.open(encoding="utf-8") as file:
        for _, line in zip(range(OTHER), file, strict=False):
            record = json.loads(line)
            schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in record["tools"]}
            for message in record["messages"]:
                for call in message.get("tool_calls") or ():
                    name = call["function"]["name"]
                    try:
                        arguments = json.loads(call["function"]["arguments"])
                        if not cached:
                            jsonschema.validate(arguments, schemas[name])
                            continue
                        if name not in validators:
                            validators[name] = jsonschema.Draft202012Validator(schemas[name])
                        validators[name].validate(arguments)
                    except (ValueError, KeyError, jsonschema.ValidationError):
                        broken += 1
    assert broken > 0
    return OTHER / (time.process_time() - began)


def measure(count: int = TRAJECTORIES) -> dict[str, float]:
    """Measure both sides.

    Returns:
        `ours` and `other` in trajectories per CPU second, `ratio`, `other_cached`; `trajectories` and wall `seconds`
        for them on `cores` processes; peak memory in MiB for a fifth of the log and for all of it.
    """
    cores = min(2, os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.jsonl", Path(folder) / "large.jsonl"
        write(small, count // 5)
        write(large, count)
        _, _, mib_small, _ = run(small, cores)  # first: the peak that is reported is that of all children so far
        wall, cpu, mib_large, found = run(large, cores)
        assert found["trajectories"] == found["read"] == found["records"] == count
        other, cached = naive(large, cached=False), naive(large, cached=True)
    ours = count / cpu
    return {
        "ratio": ours / other,
        "ours": ours,
        "other": other,
        "other_cached": cached,
        "trajectories": count,
        "seconds": wall,
        "cores": cores,
        "mib_fifth": mib_small,
        "mib": mib_large,
    }


def main() -> None:
    """Print the line that `make bench` collects."""
    found = measure(int(sys.argv[1]) if len(sys.argv) > 1 else TRAJECTORIES)
    print(
        f"diagnose: ratio {found['ratio']:.1f} (ours {found['ours']:.0f}, other {found['other']:.0f}, with validators "
        f"kept {found['other_cached']:.0f} trajectories per CPU second); {found['trajectories']} trajectories in "
        f"{found['seconds']:.0f} s on {found['cores']} cores; peak memory {found['mib_fifth']:.0f} MiB for a fifth, "
        f"{found['mib']:.0f} MiB for all"
    )


if __name__ == "__main__":
    main()
