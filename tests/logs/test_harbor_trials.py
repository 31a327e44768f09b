"""Harbor's jobs: the verdict stands in a file beside the trajectory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seal.logs.inputs import expand
from seal.logs.trial import reward_beside


def _job(root: Path, results: dict[str, Any]) -> Path:
    job = root / "job"
    for name, result in results.items():
        agent = job / name / "agent"
        agent.mkdir(parents=True)
        call = {"tool_call_id": "c1", "function_name": "ls", "arguments": {}}
        seen = {"results": [{"source_call_id": "c1", "content": "a"}]}
        steps = [
            {"step_id": 1, "source": "user", "message": "List the files."},
            {"step_id": 2, "source": "agent", "message": "", "tool_calls": [call], "observation": seen},
            {"step_id": 3, "source": "agent", "message": "There is a."},
        ]
        whole = {"schema_version": "ATIF-v1.5", "session_id": name, "agent": {"name": "terminus"}, "steps": steps}
        (agent / "trajectory.json").write_text(json.dumps(whole))
        (job / name / "config.json").write_text(json.dumps({"task": {"path": "t"}}))
        (job / name / "result.json").write_text(result if isinstance(result, str) else json.dumps(result))
    (job / "config.json").write_text(json.dumps({"job_name": "j"}))
    (job / "result.json").write_text(json.dumps({"id": "j", "n_total_trials": len(results), "stats": {}}))
    return job


def _scored(**rewards: object) -> dict[str, Any]:
    return {"trial_name": "t", "verifier_result": {"rewards": rewards}}


@pytest.mark.parametrize(
    ("result", "reward"),
    [
        (_scored(reward=1.0), 1.0),
        (_scored(reward=0, speed=0.5), 0.0),
        (_scored(overall=0.25), 0.25),
        (_scored(speed=0.5, style=1), None),
        ({"trial_name": "t", "verifier_result": {"rewards": None}}, None),
        ({"trial_name": "t", "verifier_result": None, "exception_info": {}}, None),
        ([1], None),
        ("{", None),
    ],
)
def test_the_reward_of_a_trial(result: Any, reward: float | None, tmp_path: Path) -> None:
    job = _job(tmp_path, {"one": result})
    assert reward_beside(job / "one" / "agent" / "trajectory.json") == reward
    assert reward_beside(job / "one" / "agent" / "sessions" / "deep.jsonl") == reward
    assert reward_beside(job / "one" / "trajectory.json") is None


def test_a_job_is_read_with_its_verdicts(tmp_path: Path) -> None:
    import seal

    job = _job(tmp_path, {"good": _scored(reward=1), "bad": _scored(reward=0), "crashed": {"verifier_result": None}})
    files = expand([job])
    assert [path.parts[-3:] for path in files] == [
        (name, "agent", "trajectory.json") for name in ("bad", "crashed", "good")
    ], "what a job keeps about itself is no log"
    report = seal.diagnose(job)
    assert (report.trajectories, report.scored, report.success_rate) == (3, 2, 0.5)
