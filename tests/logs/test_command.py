"""`seal diagnose` as people and scripts run it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from log_records import SCHEMAS, assistant, call, conversation, steps, user
from seal.cli import main

BAD = conversation(user("x"), assistant(None, call("lend", {"weeks": 2})), tools=SCHEMAS, id="bad")
GOOD = conversation(user("x"), steps(("lend", {"book": "b"}, "ok")), assistant("done"), tools=SCHEMAS, reward=1.0)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "100")

    def command(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["diagnose", *map(str, arguments)])
        return code, *capsys.readouterr()

    return command


def test_the_summary_fits_a_screen(run: Any, samples: Path) -> None:
    for path in samples.iterdir():
        if path.name == "tools.json":
            continue
        code, out, _ = run(path)
        lines = out.rstrip().splitlines()
        assert code == 0
        assert 3 <= len(lines) <= 45, path
        assert "records read" in lines[0]


def test_the_summary_says_what_where_and_what_to_do(run: Any, lines: Any) -> None:
    path = lines(BAD, BAD, GOOD)
    _, out, _ = run(path)
    assert "argument_mismatch in lend.book (required)" in out
    assert "required argument 'book' is missing" in out
    assert f"{path}:" in out
    assert "Fix:" in out
    assert "schema.required" in out


def test_json_is_one_object(run: Any, lines: Any) -> None:
    code, out, _ = run(lines(BAD, b"{", GOOD), "--json")
    data = json.loads(out)
    assert code == 0
    assert (data["format"], data["records"], data["read"]) == ("openai", 3, 2)
    assert data["failed"] == [{"file": str(lines(BAD, b"{", GOOD)), "line": 2, "reason": data["failed"][0]["reason"]}]
    assert data["labels"] == {"argument_mismatch": 1, "pass": 1}
    assert data["by_tool"] == {"lend": {"argument_mismatch": 1}}
    assert data["top"][0]["example"]["id"] == "bad"
    assert {"trajectories", "turns", "cues"} <= set(data)


@pytest.mark.parametrize(("bound", "code"), [("40%", 1), ("60%", 0), ("1", 0), ("0", 1)])
def test_fail_on(run: Any, lines: Any, bound: str, code: int) -> None:
    assert run(lines(BAD, GOOD), "--fail-on", f"argument_mismatch>{bound}")[0] == code


def test_fail_on_may_be_repeated_and_says_why(run: Any, lines: Any) -> None:
    code, out, _ = run(lines(BAD, GOOD), "--fail-on", "pass>90%", "--fail-on", "failures>=1", "--json")
    assert code == 1
    assert json.loads(out)["fail_on"] == ["failures is 1, and --fail-on says failures>=1"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nothing.jsonl",),
        ("{log}", "--fail-on", "nonsense"),
        ("{log}", "--tools", "nothing.json"),
        ("{log}", "--dialect", "klingon"),
        ("{log}", "--against", "nothing.jsonl"),
        ("{log}", "--workers", "0"),
        ("{log}", "--transcripts", "-1"),
        ("{log}", "--nonsense"),
        ("{empty}",),
        ("{broken}",),
    ],
    ids=" ".join,
)
def test_bad_input(run: Any, lines: Any, arguments: tuple[str, ...]) -> None:
    places = {
        "log": lines(BAD),
        "empty": lines(name="empty", end=b""),
        "broken": lines({"x": 1}, {"y": 2}, name="broken.jsonl"),
    }
    code, _, err = run(*(text.format(**places) for text in arguments))
    assert code == 2
    assert err.strip()
    assert "Traceback" not in err


def test_json_even_if_nothing_could_be_read(run: Any, lines: Any) -> None:
    code, out, _ = run(lines({"x": 1}, {"y": 2}), "--json")
    assert code == 2
    assert (json.loads(out)["records"], json.loads(out)["read"]) == (2, 0)


def test_csv(run: Any, lines: Any, tmp_path: Path) -> None:
    target = tmp_path / "new" / "turns.csv"
    run(lines(BAD, GOOD), "--csv", target)
    with target.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert [(row["line"], row["id"], row["label"], row["argument"]) for row in found] == [
        ("1", "bad", "argument_mismatch", "book"),
        ("2", "", "pass", ""),
    ]


def test_html(run: Any, lines: Any, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    code, out, _ = run(lines(BAD, GOOD), "--html", target, "--json")
    assert code == 0
    assert json.loads(out)["html"] == str(target)
    assert target.read_bytes().startswith(b"<!doctype html>")


def test_against(run: Any, lines: Any) -> None:
    before = lines(BAD, BAD, name="before.jsonl")
    now = lines(GOOD, GOOD, name="now.jsonl")
    _, out, _ = run(now, "--against", before)
    assert "Compared with" in out
    assert "-100.0" in out
    _, out, _ = run(now, "--against", before, "--json")
    assert json.loads(out)["against"]["labels"]["argument_mismatch"]["difference"] == -1.0


def test_several_files_and_formats(run: Any, samples: Path) -> None:
    _, out, _ = run(samples / "tau_v1.json", samples / "sharegpt.json", "--json")
    data = json.loads(out)
    assert data["format"] == "sharegpt+tau"
    assert len(data["files"]) == 2
    assert data["trajectories"] == 7


def test_text_of_a_model_cannot_steer_the_terminal(run: Any, lines: Any) -> None:
    evil = conversation(user("x"), assistant(None, call("lend\x1b[2J", '{"a\x1b]0;owned\x07": 1,}')), id="\x1b[31mred")
    _, out, _ = run(lines(evil))
    assert "\x1b" not in out
    assert "\x07" not in out


def _run_directory(place: Path) -> Path:
    """A run as `seal train` leaves it: two rounds that mostly fail, a test before and one after."""
    failed = conversation(user("x"), assistant("no"), reward=0.0)
    traces = place / "traces"
    traces.mkdir(parents=True)
    for name, rewards in {
        "round-0000": (0.0, 0.0, 0.0),
        "round-0001": (0.0, 0.0, 1.0),
        "held-out-before": (0.0, 0.0),
        "held-out-after": (1.0, 1.0),
    }.items():
        lines = [json.dumps({**failed, "reward": reward}) for reward in rewards]
        (traces / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (place / "rounds.jsonl").write_text('{"round": 0}\n{"round": 1}\n')
    (place / "summary.json").write_text("{}")
    (place / "made_with.json").write_text("{}")
    (place / "config.toml").write_text('[interface]\nrecipe = "off"\n')
    (place / "checkpoints" / "best").mkdir(parents=True)
    (place / "checkpoints" / "best" / "config.json").write_text('{"vocab_size": 3}')
    return place


def test_of_a_run_only_traces_are_read_and_tests_are_apart_from_training(run: Any, tmp_path: Path) -> None:
    place = _run_directory(tmp_path / "runs" / "mine")
    code, out, _ = run(place, "--json")
    found = json.loads(out)
    assert (code, found["records"], found["failed_count"]) == (0, 6, 0)
    assert found["part"] == "training"
    assert found["success_rate"] == pytest.approx(1 / 6)
    rates = {name: part["success_rate"] for name, part in found["parts"].items()}
    assert rates == {"held-out, before training": 0.0, "held-out, after training": 1.0}
    assert json.loads(run(tmp_path / "runs", "--json")[1])["records"] == 6, "so it is of a folder of runs"
    text = run(place)[1]
    assert "In detail below: training" in text
    assert re.search(r"held-out, after training +2 +100.0 %", text)
    alone = json.loads(run(place / "traces" / "held-out-after.jsonl", "--json")[1])
    assert alone["success_rate"] == 1.0
    assert "parts" not in alone


def test_suggested_cues_are_those_that_the_run_may_use(run: Any, tmp_path: Path) -> None:
    place = _run_directory(tmp_path / "mine")
    (place / "traces" / "round-0000.jsonl").write_text(json.dumps(BAD) + "\n")
    (place / "traces" / "round-0001.jsonl").unlink()

    def suggested(interface: str) -> set[str]:
        (place / "config.toml").write_text(f"[interface]\n{interface}\n")
        return {cue["id"] for cue in json.loads(run(place, "--json")[1])["cues"]}

    everything = suggested("")
    assert len(everything) > 1
    one = min(everything)
    assert suggested(f'cues = ["{one}"]') == {one}
    assert suggested('recipe = "off"') == set()
