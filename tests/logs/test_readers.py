"""Every format: detected from content, labelled turn by turn, with places that can be looked up."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

import log_records as make
from seal.envs import make as make_environment
from seal.errors import MissingError
from seal.logs import Report, Settings, diagnose, diagnose_each, diagnose_files
from seal.logs.rows import COLUMNS
from seal.trace import LineWriter, Traced, trace_record
from seal.types import (
    Diagnosis,
    Finish,
    Generation,
    Step,
    ToolCall,
    ToolResult,
    ToolSpec,
    Trajectory,
    Turn,
    TurnVerdict,
    Verdict,
)


def _rows(path: Path, **settings: Any) -> tuple[Report, list[tuple[str, ...]]]:
    """The report, and (line, id, turn, label, tool) of every turn."""
    import csv
    import io

    text: list[str] = []
    outcome = diagnose_files([path], Settings(csv=True, **settings), on_rows=text.append)
    rows = csv.DictReader(io.StringIO("".join(text)), fieldnames=COLUMNS)
    return outcome.report, [(r["line"], r["id"], r["turn"], r["label"], r["tool"]) for r in rows]


EXPECTED = {
    "openai_chat.jsonl": [
        ("1", "loan-1", "0", "undetermined", ""),
        ("1", "loan-1", "1", "recovery_failure", "renew_loan"),
        ("2", "loan-2", "0", "invalid_tool_call", "lend_book"),
        ("3", "loan-3", "0", "invalid_tool_call", "search_catalogue"),
        ("4", "loan-4", "0", "undetermined", ""),
    ],
    "openai_legacy.json": [("2", "", "0", "argument_mismatch", "find_book")],
    "tau_v1.json": [
        ("2", "0", "0", "pass", ""),
        ("133", "1", "0", "missing_tool_call", "cancel_order"),
        ("224", "2", "0", "state_mismatch", "cancel_order"),
        ("224", "2", "1", "undetermined", ""),
        ("339", "3", "0", "response_mismatch", ""),
    ],
    "tau2_results.json": [
        ("87", "[data]roaming", "0", "state_mismatch", "enable_roaming"),
        ("183", "refuel", "0", "response_mismatch", ""),
        ("258", "refuel", "0", "pass", ""),
        ("374", "refuel", "0", "response_mismatch", ""),
        ("420", "refuel", "0", "verifier_error", ""),
    ],
    "inspect.json": [
        ("26", "files-1", "0", "pass", ""),
        ("110", "files-1", "0", "invalid_tool_call", "bash"),
        ("197", "files-2", "0", "response_mismatch", ""),
        ("278", "files-3", "0", "verifier_error", ""),
    ],
    "verifiers_results.jsonl": [
        ("1", "0", "0", "pass", ""),
        ("2", "1", "0", "argument_mismatch", "find_book"),
    ],
    "verifiers_traces.jsonl": [
        ("1", "library-5", "0", "invalid_tool_call", "find_book"),
        ("2", "6", "0", "verifier_error", ""),
    ],
    "sharegpt.json": [
        ("2", "", "0", "undetermined", ""),
        ("2", "", "1", "argument_mismatch", "lend_book"),
        ("40", "", "0", "undetermined", ""),
    ],
    "toolbench.json": [("1", "toolbench", "0", "undetermined", "")],
    "otel.jsonl": [("2", "t1", "0", "argument_mismatch", "lend_book")],
    "bfcl_score.json": [
        ("2", "simple_python_3", "0", "argument_mismatch", "lend"),
        ("3", "irrelevance_7", "0", "spurious_tool_call", ""),
        ("4", "simple_python_5", "0", "argument_mismatch", "lend"),
    ],
    "claude_code.jsonl": [
        ("1", "lib-1", "0", "recovery_failure", "Bash"),
        ("1", "lib-1", "1", "undetermined", ""),
    ],
    "codex.jsonl": [
        ("1", "cat-9", "0", "undetermined", ""),
        ("1", "cat-9", "1", "invalid_tool_call", "shell"),
    ],
    "responses.json": [
        ("1", "resp_7", "0", "argument_mismatch", "lend"),
    ],
    "anthropic.json": [
        ("1", "", "0", "undetermined", ""),
    ],
    "gemini.json": [
        ("1", "", "0", "recovery_failure", "lend"),
    ],
    "atif.json": [
        ("1", "shelf-3", "0", "argument_mismatch", "lend"),
    ],
    "swe_agent.traj": [
        ("1", "swe_agent", "0", "recovery_failure", "open"),
    ],
    "mini_swe_agent.json": [
        ("1", "mini_swe_agent", "0", "undetermined", ""),
    ],
    "openhands.jsonl": [
        ("1", "shelf-1", "0", "recovery_failure", "execute_bash"),
        ("2", "shelf-2", "0", "undetermined", ""),
    ],
    "openinference.jsonl": [
        ("1", "0xa", "0", "argument_mismatch", "lend"),
        ("2", "0xb", "0", "recovery_failure", "find"),
    ],
    "otel_silent.jsonl": [
        ("1", "0x9", "0", "recovery_failure", "lend"),
    ],
    "langsmith.json": [
        ("2", "r1", "0", "recovery_failure", "lend"),
    ],
    "langchain.json": [
        ("1", "", "0", "invalid_tool_call", "lend"),
    ],
    "agentdojo.json": [
        ("1", "user_task_1", "0", "recovery_failure", "lend"),
    ],
    "harbor_export.jsonl": [
        ("1", "lending__1", "0", "invalid_tool_call", "lent"),
        ("1", "lending__1", "1", "undetermined", ""),
        ("2", "lending__2", "0", "pass", ""),
    ],
    "tau2_simulation.json": [
        ("1", "refuel", "0", "state_mismatch", "refuel_data"),
    ],
    "verifiers_strings.jsonl": [
        ("1", "4", "0", "recovery_failure", "lend"),
    ],
    "toolbench_by_query.json": [
        ("1", "77", "0", "argument_mismatch", "lend"),
        ("1", "78", "0", "undetermined", ""),
    ],
    "bfcl_2024.json": [
        ("2", "simple_2", "0", "state_mismatch", ""),
        ("3", "simple_3", "0", "argument_mismatch", "library.lend"),
    ],
    "bfcl_v4.json": [
        ("1", "web_search_base_1", "0", "recovery_failure", "search"),
    ],
    "whowhen.json": [
        ("1", "q1", "0", "recovery_failure", "code"),
    ],
    "bfcl_result_with_log.json": [("1", "multi_turn_base_9999", "0", "recovery_failure", "cd")],
}

FORMATS = {
    "openai": ("openai_chat.jsonl", "openai_legacy.json"),
    "tau": ("tau_v1.json", "tau2_results.json", "tau2_simulation.json"),
    "inspect": ("inspect.json",),
    "verifiers": ("verifiers_results.jsonl", "verifiers_traces.jsonl", "verifiers_strings.jsonl"),
    "sharegpt": ("sharegpt.json", "harbor_export.jsonl"),
    "toolbench": ("toolbench.json", "toolbench_by_query.json"),
    "otel": ("otel.jsonl", "openinference.jsonl", "otel_silent.jsonl"),
    "bfcl": ("bfcl_result.json", "bfcl_result_with_log.json", "bfcl_score.json", "bfcl_2024.json", "bfcl_v4.json"),
    "claude-code": ("claude_code.jsonl",),
    "codex": ("codex.jsonl",),
    "responses": ("responses.json",),
    "anthropic": ("anthropic.json",),
    "gemini": ("gemini.json",),
    "atif": ("atif.json",),
    "swe-agent": ("swe_agent.traj", "mini_swe_agent.json"),
    "openhands": ("openhands.jsonl",),
    "langsmith": ("langsmith.json",),
    "langchain": ("langchain.json",),
    "agentdojo": ("agentdojo.json",),
    "who&when": ("whowhen.json",),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_labels(samples: Path, name: str) -> None:
    report, rows = _rows(samples / name)
    assert rows == EXPECTED[name]
    assert report.failed_count == 0


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, files in FORMATS.items() for file in files])
def test_the_name_of_a_file_does_not_matter(samples: Path, tmp_path: Path, name: str, file: str) -> None:
    copy = tmp_path / "notes.txt"
    shutil.copy(samples / file, copy)
    assert diagnose(copy).format == name


def test_every_sample_is_expected(samples: Path) -> None:
    files = {path.name for path in samples.iterdir()} - {"tools.json"}
    assert files == {file for files in FORMATS.values() for file in files}


def test_eval_archive(eval_archive: Path, samples: Path) -> None:
    report, rows = _rows(eval_archive)
    assert [row[1:] for row in rows] == [row[1:] for row in EXPECTED["inspect.json"]]
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    assert report.by_category == _rows(samples / "inspect.json")[0].by_category
    assert set(report.by_category) == {"file_count"}


def test_archive_of_an_unfinished_log(eval_archive: Path, tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "unfinished.eval"
    with zipfile.ZipFile(eval_archive) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            if name != "header.json":
                new.writestr(name, old.read(name))
    report, _ = _rows(path)
    assert set(report.by_category) == {"file_count"}


def test_gzip(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress((samples / "openai_chat.jsonl").read_bytes()))
    assert _rows(path)[1] == EXPECTED["openai_chat.jsonl"]


def test_layouts_of_one_log_agree(samples: Path, tmp_path: Path) -> None:
    """Lines, an array, an indented array, values one after another: the same labels."""
    records = [orjson.loads(line) for line in (samples / "openai_chat.jsonl").read_bytes().splitlines()]
    wanted = [row[1:] for row in EXPECTED["openai_chat.jsonl"]]
    pretty = [orjson.dumps(record, option=orjson.OPT_INDENT_2) for record in records]
    for content in (
        orjson.dumps(records),
        orjson.dumps(records, option=orjson.OPT_INDENT_2),
        b"\n".join(pretty),
        b"\xef\xbb\xbf" + orjson.dumps(records),
        b"\r\n".join(map(orjson.dumps, records)),
    ):
        path = tmp_path / "log"
        path.write_bytes(content)
        report, rows = _rows(path)
        assert [row[1:] for row in rows] == wanted
        assert (report.records, report.failed_count) == (4, 0)


def test_one_conversation_as_a_list_of_messages(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(orjson.dumps([make.user("hi"), make.assistant(None, make.call("f", "{"))]))
    report = diagnose(path)
    assert (report.records, dict(report.labels)) == (1, {"invalid_tool_call": 1})


def test_schema_file_stands_in(samples: Path) -> None:
    record = make.conversation(make.user("x"), make.steps(("lend_book", {"book_id": "b"}, "ok")))
    without = diagnose([record])
    with_tools = diagnose([record], tools=samples / "tools.json")
    assert dict(without.labels) == {"undetermined": 1}
    assert dict(with_tools.labels) == {"argument_mismatch": 1}
    assert any("--tools" in warning for warning in without.warnings)
    assert not any("--tools" in warning for warning in with_tools.warnings)


def test_tools_of_another_version_are_called_out(samples: Path) -> None:
    records = [make.conversation(make.user("x"), make.steps(*[("f", {}, "ok"), ("g", {}, "ok")] * 2)) for _ in range(3)]
    report = diagnose(records, tools=samples / "tools.json")
    assert any("12 of 12 calls" in text and "another version" in text for text in report.warnings)


def test_tau_strategies_that_write_calls_as_text() -> None:
    """`act` and `react` log neither `tool_calls` nor messages of a tool."""
    good = {"name": "cancel", "arguments": {"order_id": "#W1"}}
    traj = [
        make.user("Cancel W1."),
        make.assistant('Thought:\nFirst look.\nAction:\n{"name": "get", "arguments": {"order_id": "W1"}}'),
        make.user("API output: Error: order not found"),
        make.assistant(f"Thought:\nWith a hash.\nAction:\n{orjson.dumps(good).decode()}"),
        make.user('API output: {"status": "cancelled"}'),
        make.assistant('Thought:\nDone.\nAction:\n{"name": "respond", "arguments": {"content": "It is cancelled."}}'),
        make.user("And W2."),
        make.assistant("Thought:\nSo be it.\nAction:\n{'name': 'cancel', 'arguments': {'order_id': '#W2'}}"),
    ]
    action = {"name": "cancel", "kwargs": {"order_id": "#W1"}}
    record = {"task_id": 1, "reward": 0.0, "info": {"task": {"actions": [action]}}, "traj": traj}
    (found,) = diagnose_each([record])
    assert [turn.user for turn in found.trajectory.turns] == ["Cancel W1.", "And W2."]
    assert [str(label) for label in found.diagnosis.labels] == ["undetermined", "invalid_tool_call"]
    first = found.trajectory.turns[0].steps
    assert [call.name for step in first for call in step.generation.calls] == ["get", "cancel"]
    assert first[-1].generation.text == "It is cancelled."


def test_failed_execute_tool_span_marks_the_result(samples: Path) -> None:
    """The result's text says nothing of an error; the span does."""
    lines = [orjson.loads(line) for line in (samples / "otel.jsonl").read_bytes().splitlines()]
    (joined,) = [{"resourceSpans": [line["resourceSpans"][0] for line in lines]}]
    (found,) = diagnose_each([joined])
    fault = found.trajectory.turns[0].steps[0].results[0]
    assert fault is not None
    assert fault.fault is not None


def test_numbered_attributes_and_events_of_older_spans() -> None:
    numbered = {
        "traceId": "t",
        "attributes": {
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "Find Dune.",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.tool_calls.0.name": "find",
            "gen_ai.completion.0.tool_calls.0.arguments": '{"title": ',
        },
    }
    events = {
        "context": {"trace_id": "t2"},
        "attributes": {"gen_ai.operation.name": "chat"},
        "events": [
            {"name": "gen_ai.user.message", "attributes": {"content": "Find Dune."}},
            {"name": "gen_ai.choice", "attributes": {"message": '{"content": "[find(title=Dune)]"}'}},
        ],
    }
    report = diagnose([numbered, events])
    assert dict(report.labels) == {"invalid_tool_call": 2}


def test_toolbench_tree_without_chain_and_converted_answer(samples: Path) -> None:
    record = orjson.loads((samples / "toolbench.json").read_bytes())
    chain = record["answer_generation"].pop("chain")
    nested: dict[str, Any] = {}
    for node in reversed(chain[:5]):
        nested = {**node, "children": [nested] if nested else []}
    record["tree"]["tree"] = {"node_type": "Action Input", "description": "", "children": [nested]}
    details: dict[str, Any] = {"role": "assistant", "message": "no", "next": []}
    details = {
        "role": "tool",
        "message": "{'name': 'prices', 'arguments': '{\"plant\": 1}', 'response': '{\"error\": \"bad plant\"}'}",
        "next": [details],
    }
    converted = {"query": "Price?", "available_tools": [], "answer": {"method": "m", "answer_details": [details]}}
    first, second = diagnose_each([record, converted])
    assert str(first.diagnosis.turns[0].label) == "invalid_tool_call"
    assert str(second.diagnosis.turns[0].label) == "recovery_failure"


def _traced() -> Traced:
    result = ToolResult("Error: locked", "Error: locked\nHint: look it up first.", None)
    turn = Turn(0, "u", "u", ("f",), (Step(Generation("t", "t", (ToolCall("f", {}),)), (result,)),), TurnVerdict(False))
    spec = ToolSpec("f", "", {"type": "object"})
    trajectory = Trajectory("task", "base", 0, (spec,), (turn,), 3, Verdict(0.0), Finish.EARLY_STOP, interface="t1:x")
    return Traced(trajectory, Diagnosis())


def test_own_traces_keep_every_evidence(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with LineWriter(path) as writer:
        writer.write({"record": "round", "version": 1}, trace_record(_traced()))
    report = diagnose(path)
    assert (report.format, report.records, report.trajectories) == ("seal", 2, 1)
    assert dict(report.labels) == {"unreached": 2, "response_mismatch": 1}
    assert report.turns == 1
    (mode,) = report.modes
    assert mode.example is not None
    assert "rejects the turn" in mode.example.evidence


def test_trace_of_another_version_fails(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(orjson.dumps({"record": "trajectory", "version": 99}))
    report = diagnose(path)
    assert "version 99" in report.failed[0].reason


def test_bfcl_verdicts_come_from_our_own_environment(samples: Path) -> None:
    try:
        make_environment("bfcl")
    except MissingError as error:
        pytest.skip(f"the BFCL data is not installed: {error}")
    report, rows = _rows(samples / "bfcl_result.json")
    assert [row[3] for row in rows] == [
        *["pass"] * 4,
        "pass",
        "invalid_tool_call",
        "empty_turn_model_response",
        "instance_mismatch",
    ]
    assert report.success_rate == 0.5
    assert not report.warnings


def test_bfcl_episodes_that_broke_off() -> None:
    """An inference error is unscored; turns that a forced end left out were never reached."""
    record = {"id": "multi_turn_base_1", "valid": False, "error": {"error_type": "multi_turn:force_terminated"}}
    broken, cut = diagnose_each(
        [
            {**record, "model_result": "Error during inference: quota"},
            {**record, "model_result": [["[ls(a=True)]", "ok"], ["[cd(folder='workspace')]"]]},
        ]
    )
    assert broken.trajectory.verdict.reward is None
    assert broken.diagnosis.labels == ()
    try:
        make_environment("bfcl")
    except MissingError as error:
        pytest.skip(f"the BFCL data is not installed: {error}")
    assert [str(label) for label in cut.diagnosis.labels[2:]] == ["unreached", "unreached"]
    assert cut.trajectory.verdict.kind in ("multi_turn:force_terminated", "multi_turn:instance_state_mismatch")


def test_bfcl_without_the_benchmark_says_so(samples: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEAL_CACHE", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    report = diagnose(samples / "bfcl_result.json")
    assert any("seal env setup bfcl" in text for text in report.warnings)
    assert set(report.labels) <= {"undetermined", "invalid_tool_call"}


def test_reader_failures_name_the_place(lines: Any) -> None:
    path = lines(
        {"messages": [{"role": "wizard", "content": "x"}]},
        {"messages": [make.user("nobody answers")]},
        {"traj": [{"role": "user", "content": "x"}, 7], "reward": 1},
        {"conversations": [{"from": "moon", "value": "x"}]},
        {"nodes": [{"parent": 0, "message": {"role": "user", "content": "x"}}], "rewards": {}},
        {"hello": "world"},
    )
    report = diagnose(path)
    assert [item.line for item in report.failed] == [1, 2, 3, 4, 5, 6]
    reasons = [item.reason for item in report.failed]
    assert "'wizard'" in reasons[0]
    assert "no message of an assistant" in reasons[1]
    assert "traj[1]" in reasons[2]
    assert "'moon'" in reasons[3]
    assert "circle" in reasons[4]
    assert "keys hello" in reasons[5]
