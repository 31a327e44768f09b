"""What a log's own verdicts, rewards, checkers and tools' answers mean: kinds of faults that real files showed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from log_records import SCHEMAS, answer, assistant, call, conversation, steps, user
from seal.envs import make as make_environment
from seal.errors import ConfigError, MissingError
from seal.logs import Report, diagnose, diagnose_each
from seal.logs.convert import passed
from seal.logs.faults import fault_of
from seal.logs.gold import takes_leave
from seal.logs.place import evidence_of
from seal.logs.record import Said
from seal.logs.rewards import score_of
from seal.types import MalformedCall, ToolCall

ASK = user("Lend me Emma.")


def _labels(*records: Any, **options: Any) -> list[str]:
    return [str(label) for found in diagnose_each(records, **options) for label in found.diagnosis.labels]


def _calls(record: Any) -> list[ToolCall | MalformedCall]:
    (found,) = diagnose_each([record])
    return [c for turn in found.trajectory.turns for step in turn.steps for c in step.generation.calls]


class TestAnswersOfTools:
    """A tool message that answers a call means that the server accepted it."""

    UNKNOWN = '§§call lend book="Emma"§§ {"name": "lend", "arguments": {"book": "Emma"},}'

    def test_an_unreadable_call_that_was_answered_was_accepted(self) -> None:
        record = conversation(ASK, assistant(self.UNKNOWN), {"role": "tool", "content": "lent"}, tools=SCHEMAS)
        (found,) = _calls(record)
        assert isinstance(found, ToolCall)
        assert found.name == "lend"
        assert _labels(record) == ["undetermined"]

    def test_a_tool_that_ran_and_failed_shows_it_too(self) -> None:
        record = conversation(
            ASK,
            assistant(self.UNKNOWN),
            {"role": "tool", "content": "Error: lent to Ada"},
            assistant("Sorry."),
            tools=SCHEMAS,
        )
        assert _labels(record) == ["recovery_failure"]

    def test_an_unreadable_call_that_was_refused_stays_one(self) -> None:
        refused = {"role": "tool", "content": "Error: invalid JSON in the arguments"}
        record = conversation(ASK, assistant(self.UNKNOWN), refused, tools=SCHEMAS)
        assert _labels(record) == ["invalid_tool_call"]
        structured = conversation(ASK, assistant(None, call("lend", '{"book": ')), answer("Error: bad"), tools=SCHEMAS)
        assert _labels(structured) == ["invalid_tool_call"]

    def test_answers_without_any_call_say_that_the_dialect_is_unknown(self) -> None:
        silent = [conversation(ASK, assistant("⟦lend Emma⟧"), answer("lent"), assistant("Yours.")) for _ in range(3)]
        report = diagnose(silent)
        assert report.calls["unseen"] == 3
        assert "dialect that is not known" in report.warnings[0]
        assert "dialect" not in " ".join(diagnose([conversation(ASK, steps(("lend", {}, "ok")))]).warnings)

    def test_answers_find_earlier_calls_of_the_turn_by_id(self) -> None:
        late = conversation(
            ASK,
            assistant(None, call("find", {"title": "x"}, "a")),
            assistant(None, call("lend", {"book": "b"}, "b")),
            answer("for b", "b"),
            answer("for a", "a"),
        )
        (found,) = diagnose_each([late])
        assert [s.results[0].raw for s in found.trajectory.turns[0].steps if s.results[0]] == ["for a", "for b"]


class TestRewards:
    """Success is a share of episodes; what a reward means is never guessed."""

    @staticmethod
    def _report(*rewards: float, **options: Any) -> Report:
        return diagnose([conversation(ASK, assistant("ok"), reward=reward) for reward in rewards], **options)

    def test_rewards_above_one_need_a_threshold(self) -> None:
        report = self._report(1.9, 1.6)
        assert report.success_rate is None
        assert report.mean_reward == pytest.approx(1.75)
        assert any("1.6 to 1.9" in text and "--threshold" in text for text in report.warnings)
        assert "pass" not in report.labels
        decided = self._report(1.9, 1.6, threshold=1.7)
        assert (decided.success_rate, decided.lost) == (0.5, 1)
        assert decided.labels == {"pass": 1, "response_mismatch": 1}

    def test_success_is_a_share(self) -> None:
        assert self._report(90, 40, threshold=50).success_rate == 0.5
        assert self._report(1, 1, 0, 0.5).success_rate == 0.5
        assert any("between 0 and 1" in text for text in self._report(1, 0.5).warnings)
        assert any("below 0" in text for text in self._report(1, -1).warnings)

    @pytest.mark.parametrize(
        ("reward", "threshold", "outcome"),
        [
            (None, None, None),
            (1, None, True),
            (0, None, False),
            (-2, None, False),
            (0.4, None, None),
            (1.4, None, None),
            (0.4, 0.4, True),
            (0.39, 0.4, False),
            (35, 50, False),
            (80, 50, True),
        ],
    )
    def test_passed(self, reward: float | None, threshold: float | None, outcome: bool | None) -> None:
        assert passed(reward, threshold) is outcome

    def test_a_reward_under_another_key(self) -> None:
        records = [conversation(ASK, assistant("ok"), evaluation={"utility": value}) for value in (True, False, "0.0")]
        report = diagnose(records, reward="evaluation.utility")
        assert (report.scored, report.success_rate) == (3, pytest.approx(1 / 3))
        missing = diagnose(records, reward="evaluation.grade")
        assert missing.scored == 0
        assert any("'evaluation.grade'" in text for text in missing.warnings)

    def test_options_without_sense(self) -> None:
        for options in ({"reward": "a..b"}, {"threshold": float("nan")}):
            with pytest.raises(ConfigError):
                diagnose([], **options)

    @pytest.mark.parametrize(
        ("value", "score"),
        [
            ("1.0", 1.0),
            ("pass", 1.0),
            ("Incorrect", 0.0),
            (True, 1.0),
            ("nan", None),
            ("good", None),
            (None, None),
            ([1], None),
        ],
    )
    def test_scores_as_logs_write_them(self, value: object, score: float | None) -> None:
        assert score_of(value) == score


class TestCauses:
    """One cause an episode stands before the shares of turns."""

    def test_a_lost_episode_counts_once_for_its_gravest_turn(self) -> None:
        bad = assistant(None, call("lend", {"weeks": 2}))
        failed = steps(("find", {"title": "x"}, "Error: down"))
        records = [
            conversation(ASK, failed, assistant("no"), ASK, bad, tools=SCHEMAS, reward=0),
            conversation(ASK, failed, assistant("no"), ASK, assistant("bye"), tools=SCHEMAS, reward=0),
            conversation(ASK, assistant("a"), ASK, assistant("b"), tools=SCHEMAS, reward=0),
            conversation(ASK, bad, tools=SCHEMAS, reward=1),
        ]
        report = diagnose(records)
        assert [(cause.title, cause.episodes) for cause in report.causes] == [
            ("argument_mismatch in lend.book (required)", 1),
            ("no sign in any turn", 1),
            ("recovery_failure in find", 1),
        ]
        assert sum(cause.episodes for cause in report.causes) == report.lost == 3
        assert report.causes[0].example is not None

    def test_a_turn_counts_once_in_a_cue(self) -> None:
        both = conversation(ASK, assistant(None, call("lend", {"weeks": 2}), call("lend", "{")), tools=SCHEMAS)
        assert all(cue.share <= 1 for cue in diagnose([both]).cues)


class TestLoops:
    """A loop is a sign with and without a reward."""

    @pytest.mark.parametrize("reward", [None, 0, 1])
    def test_loop(self, reward: float | None) -> None:
        same = ("status", {"id": 1}, "pending")
        record = conversation(ASK, steps(same, same, same), **({} if reward is None else {"reward": reward}))
        (found,) = diagnose_each([record])
        assert [str(s.label) for s in found.diagnosis.turns[0].signals] == ["recovery_failure"]
        assert _labels(record) == ["pass" if reward == 1 else "recovery_failure"]


class TestShells:
    """Errors of shells and of JSON tools."""

    @pytest.mark.parametrize(
        "text",
        [
            "zsh: command not found: lend",
            "/bin/sh: 1: lend: not found\nsh: line 1: lend: command not found",
            "ls: cannot access 'shelf': No such file or directory",
            "<returncode>127</returncode>\n<output>\n</output>",
            "fatal: not a git repository (or any parent)",
            "make: *** [all] Error 2",
            "[The command completed with exit code 1.]",
            "Process exited with code 3\nOutput:\nno",
            "Exit code: 2",
            '{"exit_code": 1, "stderr": "no"}',
            '{"returncode": 3, "output": ""}',
            '{"exception": "KeyError: shelf"}',
            '{"errorMessage": "no shelf"}',
        ],
    )
    def test_errors(self, text: str) -> None:
        assert fault_of(Said("tool", text), "lend") is not None, text

    @pytest.mark.parametrize(
        "text",
        [
            "<returncode>0</returncode>\n<output>\nfatal: is a word\n</output>",
            "Process exited with code 0\nOutput:\nerror: is only printed",
            "[The command completed with exit code 0.]",
            '{"exit_code": 0, "stderr": "warning"}',
            '{"code": "DE-1", "name": "fatal: a novel"}',
            "1: usage of the shelf\n2: No such luck",
            "The documentation says that exit code 2 means a missing file.",
            "shelf.py\ntests/test_errors.py",
        ],
    )
    def test_no_errors(self, text: str) -> None:
        assert fault_of(Said("tool", text), "lend") is None, text

    def test_programs_that_say_no_with_their_exit_code(self) -> None:
        silent = Said("tool", "<returncode>1</returncode>\n<output>\n</output>")
        assert fault_of(silent, "cd shelf && grep -rn Emma .") is None
        assert fault_of(silent, "python lend.py") is not None


F = {
    "name": "library.lend",
    "description": "",
    "parameters": {
        "type": "dict",
        "properties": {"book": {"type": "string"}, "weeks": {"type": "array", "items": {"type": "integer"}}},
        "required": ["book"],
    },
}
G = {**F, "name": "library.find"}


def _scored(kind: str, error: str, raw: object, *functions: dict[str, Any], **more: Any) -> dict[str, Any]:
    prompt = {"id": "simple_1", "question": [[ASK]], "function": list(functions or (F,))}
    return {
        "id": "simple_1",
        "model_name": "m",
        "valid": False,
        "error": [error],
        "error_type": kind,
        "prompt": prompt,
        "model_result_raw": raw,
        **more,
    }


def _sign(record: dict[str, Any]) -> tuple[str, str | None, str | None, str]:
    (found,) = diagnose_each([record])
    turn = found.diagnosis.turns[0]
    signal = next((s for s in turn.signals if s.label == turn.label), None)
    evidence = evidence_of(found.trajectory.turns[0], turn)
    return str(turn.label), signal.tool if signal else None, signal.argument if signal else None, evidence


class TestBfcl:
    """Score files: the official checker's word counts, with tool and argument."""

    @pytest.mark.parametrize(
        ("kind", "error", "argument"),
        [
            ("value_error:string", "Invalid value for parameter 'book': 'Ema'. Expected one of ['Emma'].", "book"),
            (
                "type_error:nested",
                "Nested type checking failed for parameter 'weeks'. Expected outer type array.",
                "weeks",
            ),
            ("simple_function_checker:missing_optional", "Optional parameter 'weeks' not provided.", "weeks"),
            ("simple_function_checker:missing_required", "Missing required parameter: 'book'.", "book"),
            ("simple_function_checker:unexpected_param", "Unexpected parameter: 'title'.", "title"),
        ],
    )
    def test_arguments(self, kind: str, error: str, argument: str) -> None:
        native = _scored(kind, error, [{"library_lend": '{"book": "Ema"}'}])
        assert _sign(native)[:3] == ("argument_mismatch", "library.lend", argument)
        assert _sign(native)[3] == error

    def test_a_wrong_tool_and_a_wrong_number(self) -> None:
        wrong = _scored(
            "simple_function_checker:wrong_func_name",
            "Function name 'library.find' not found in model output.",
            [{"library_lend": '{"book": "Emma"}'}],
            F,
            G,
        )
        assert _sign(wrong)[:2] == ("missing_tool_call", "library.find")
        one = [{"library_lend": '{"book": "Emma"}'}]
        few = _scored(
            "parallel_function_checker_no_order:wrong_count",
            "Wrong number of functions.",
            one,
            F,
            G,
            test_category="parallel",
        )
        assert _sign(few)[:2] == ("missing_tool_call", None)
        known = {**few, "possible_answer": [{"library.lend": {}}, {"library.find": {}}]}
        assert _sign(known)[:2] == ("missing_tool_call", "library.find")
        many = _scored(
            "simple_function_checker:wrong_count", "Wrong number of functions.", one * 2, test_category="simple"
        )
        assert _sign(many)[0] == "state_mismatch"
        assert "2, expected 1" in _sign(many)[3]

    def test_inference_errors_are_counted(self, lines: Any, capsys: pytest.CaptureFixture[str]) -> None:
        from seal.cli import main

        broken = [{"id": f"multi_turn_base_{n}", "result": "Error during inference: code 503 - busy"} for n in range(3)]
        single = {"id": "simple_python_1", "result": "Error during inference: code 503 - busy"}
        report = diagnose([*broken, single])
        assert (report.trajectories, report.scored) == (4, 0)
        assert [(item.kind, item.episodes, item.message) for item in report.unscored] == [
            ("inference error", 4, "code 503 - busy")
        ]
        main(["diagnose", str(lines(*broken))])
        assert "3 records = 0 scored + 3 inference errors (code 503 - busy)" in capsys.readouterr().out

    def test_a_totals_line_is_no_record(self, lines: Any, capsys: pytest.CaptureFixture[str]) -> None:
        from seal.cli import main

        totals = {"accuracy": 1.0, "correct_count": 2, "total_count": 2}
        report = diagnose([totals])
        assert (report.records, report.read, report.skipped) == (0, 0, 1)
        assert main(["diagnose", str(lines(totals))]) == 2

    def test_a_step_with_one_malformed_call_runs_nothing(self) -> None:
        _bfcl()
        tweet = json.dumps({"content": "file1.txt, file2.txt", "tags": ["#fileshowcase"]})
        second = [{"post_tweet": "{"}, {"post_tweet": tweet}]
        record = {"id": "multi_turn_base_11", "result": [[[{"ls": '{"a": true}'}], []], [second]]}
        (found,) = diagnose_each([record])
        assert [str(label) for label in found.diagnosis.labels] == ["pass", "invalid_tool_call"]
        reasons = [call.reason for call in found.trajectory.turns[1].steps[0].generation.calls]  # type: ignore[union-attr]
        assert "nothing in the step is executed" in reasons[1]

    def test_the_score_file_wins_over_our_replay(self, samples: Path) -> None:
        _bfcl()
        lines = (samples / "bfcl_result.json").read_text(encoding="utf-8").splitlines()
        won = next(r for r in map(json.loads, lines) if _labels(r) and set(_labels(r)) == {"pass"})
        claimed = {**won, "valid": False, "error_type": "multi_turn:instance_state_mismatch", "error": ["no"]}
        report = diagnose([claimed])
        assert (report.success_rate, report.labels) == (0.0, {"undetermined": sum(report.labels.values())})
        assert any(text.startswith("CONFLICT") for text in report.warnings)


def _bfcl() -> None:
    try:
        make_environment("bfcl")
    except MissingError as error:
        pytest.skip(f"the BFCL data is not installed: {error}")


def _tau(*turns: tuple[str, list[dict[str, Any]]], actions: list[dict[str, Any]], **checks: Any) -> dict[str, Any]:
    traj = [message for text, said in turns for message in (user(text), *said)]
    return {
        "task_id": 1,
        "reward": 0.0,
        "info": {"task": {"actions": actions}, "reward_info": {"info": checks}},
        "traj": traj,
    }


class TestTau:
    """Only actions that change state, then outputs; nobody is blamed for a farewell."""

    READ: ClassVar[dict[str, Any]] = {"name": "get_loan", "kwargs": {"id": "L1"}}
    CANCEL: ClassVar[dict[str, Any]] = {"name": "cancel_loan", "kwargs": {"id": "L1"}}

    def test_reads_of_the_reference_are_no_duty(self) -> None:
        done = [*steps(("cancel_loan", {"id": "L1"}, "ok")), assistant("Cancelled.")]
        record = _tau(
            ("Cancel L1. What do I get back?", done),
            actions=[self.READ, self.CANCEL],
            r_outputs=0.0,
            outputs={"12": False},
        )
        label, _tool, _argument, evidence = _sign(record)
        assert label == "response_mismatch"
        assert "12" in evidence

    def test_a_good_state_absolves_the_actions(self) -> None:
        said = [*steps(("look", {}, "ok")), assistant("No.")]
        record = _tau(("Cancel L1.", said), actions=[self.CANCEL], r_actions=1.0)
        assert _labels(record) == ["response_mismatch"]
        assert _labels(_tau(("Cancel L1.", said), actions=[self.CANCEL], r_actions=0.0)) == ["missing_tool_call"]

    def test_no_farewell_is_blamed(self) -> None:
        record = _tau(
            ("Cancel L1.", [assistant("I do not do that.")]),
            ("Thanks, bye! ###STOP###", [assistant("Bye.")]),
            actions=[self.CANCEL],
        )
        assert _labels(record) == ["empty_turn_model_response", "undetermined"]

    @pytest.mark.parametrize(
        ("text", "leave"),
        [
            ("Thanks, bye! ###STOP###", True),
            ("###STOP###", True),
            ("I'll check that and get back to you. Thank you for your assistance!", True),
            ("I understand. I'll make sure to find it first. Thanks for your help!", True),
            ("I appreciate it! I'll get back to you if I need further help. Take care!", True),
            ("Yes, please cancel it. Thank you!", False),
            ("I want it cancelled, thanks.", False),
            ("Thanks. Could you also renew L2?", False),
            ("Cancel L1.", False),
        ],
    )
    def test_what_a_farewell_is(self, text: str, leave: bool) -> None:
        assert takes_leave(text) is leave

    def test_the_basis_of_the_reward_counts(self) -> None:
        messages = [user("Refuel L2."), *steps(("look", {}, "ok")), assistant("No.")]
        for basis, labels in (
            (["COMMUNICATE"], ["response_mismatch"]),
            (["DB"], ["missing_tool_call"]),
            (["ACTION"], ["missing_tool_call"]),
        ):
            checks = [{"action": {"name": "refuel", "arguments": {}, "requestor": "assistant"}, "action_match": False}]
            outcome = {
                "reward": 0.0,
                "reward_basis": basis,
                "action_checks": checks,
                "communicate_checks": [{"info": "4.00", "met": False}],
            }
            record = {
                "id": "s",
                "task_id": "t",
                "termination_reason": "user_stop",
                "messages": messages,
                "reward_info": outcome,
            }
            assert _labels(record) == labels, basis

    def test_state_mismatches_say_tool_and_argument(self) -> None:
        wrong = [*steps(("cancel_loan", {"id": "L2"}, "ok")), assistant("Done.")]
        assert _sign(_tau(("Cancel L1.", wrong), actions=[self.CANCEL]))[:3] == ("state_mismatch", "cancel_loan", "id")
        (mode,) = diagnose([_tau(("Cancel L1.", wrong), actions=[self.CANCEL])]).modes
        assert mode.title == "state_mismatch in cancel_loan.id"


def test_content_that_was_not_captured_is_said(samples: Path) -> None:
    report = diagnose(samples / "otel_silent.jsonl")
    assert (report.trajectories, report.calls["errors"]) == (1, 1)
    assert any("capture of content was off" in text for text in report.warnings)


def test_blocks_whose_text_stands_under_value() -> None:
    """LLaMA-Factory's newer messages."""
    blocks = [
        {"type": "reasoning", "value": "so"},
        {"type": "tool_call", "value": '{"name": "lend", "arguments": {"title": "x"}}'},
    ]
    record = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "value": "Lend."}]},
            {"role": "assistant", "content": blocks},
        ],
        "tools": json.dumps(SCHEMAS),
    }
    (found,) = diagnose_each([record])
    assert found.trajectory.turns[0].user == "Lend."
    assert str(found.diagnosis.turns[0].label) == "argument_mismatch"


def test_tools_under_other_keys() -> None:
    record = conversation(ASK, assistant(None, call("lent", {"book": "b"})), tool_definitions=SCHEMAS)
    assert _labels(record) == ["invalid_tool_call"]


def test_functions_of_a_program_are_no_tools() -> None:
    """Read by hand: a disassembler's words were taken for an unknown tool."""
    said = Said("tool", "Function main not found! Instead, here is another one.")
    assert fault_of(said, "disassemble warmup") is None
    assert fault_of(said) is not None


def test_an_answer_that_only_holds_a_word_is_none(samples: Path) -> None:
    """Read by hand: ToolBench's server marks long answers as errors for a word in them."""
    record = json.loads((samples / "toolbench.json").read_bytes())
    good = json.dumps({"error": "Message error...", "response": "{'result': [{'title_': 'a message in a bottle'}]}"})
    bad = json.dumps({"error": "Message error...", "response": "{'status': 400, 'message': 'no such plant'}"})
    for text, failed in ((good, False), (bad, True)):
        node = {"node_type": "Action Input", "description": "{}", "observation": text, "observation_code": 11}
        chain = [{"node_type": "Action", "description": "prices"}, node]
        (found,) = diagnose_each([{**record, "answer_generation": {**record["answer_generation"], "chain": chain}}])
        result = found.trajectory.turns[0].steps[0].results[0]
        assert result is not None
        assert (result.fault is not None) == failed


def test_a_call_that_failed_changed_no_state() -> None:
    """Read by hand: gold actions were compared with calls that the tool had refused."""
    refused = [*steps(("cancel_loan", {"id": "L2"}, "Error: no such loan")), assistant("It does not work.")]
    record = _tau(("Cancel L1.", refused), actions=[TestTau.CANCEL])
    assert _labels(record) == ["recovery_failure"]
