"""MCP servers from a package registry, played, diagnosed and trained on for a round: one over stdio, one over HTTP."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import beside
from rounds import train_a_round
from seal.envs.functions import ToolTask, UserTurn
from seal.envs.mcp import Http, Mcp, Stdio, sqlite
from seal.labels import diagnose
from seal.models.scripted import ScriptedPolicy
from seal.rollout import Episode, rollout
from seal.taxonomy import Label
from seal.testing import check_env
from seal.types import ToolCall, Trajectory

pytest.importorskip("mcp")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def operations(tmp_path: Path) -> Mcp:
    """finamatik-ops-mcp: the operations of a company in sqlite, over stdio, in the protocol of mcp 1."""
    tasks = [
        ToolTask(
            id=f"deal-{number}",
            split=split,
            turns=(UserTurn(user=f"D-{number} is won", calls=(stage(f"D-{number}"),)),),
        )
        for number, split in ((2001, "train"), (2002, "validation"))
    ]
    return Mcp(
        Stdio(
            command=[sys.executable, "-m", "finamatik_ops_mcp.server"],
            env={"PYTHONPATH": str(beside.site("mcp1")), "OPS_MCP_HOME": "{dir}", "FASTMCP_LOG_LEVEL": "ERROR"},
        ),
        tasks,
        name="operations",
        # Its sample data hold the day, and a few times that are drawn anew.
        snapshot=sqlite("ops.db", ignore=("created_at", "updated_at", "completed_at")),
        only=["search_contacts", "update_deal_stage", "list_tasks"],
        max_steps=3,
    )


def stage(deal: str, to: str = "won") -> ToolCall:
    return ToolCall("update_deal_stage", {"deal_id": deal, "stage": to})


def clock() -> Mcp:
    """mcp-server-time, served over HTTP in the protocol of mcp 2."""
    serve = (
        "import uvicorn; from mcp_server_time.server import create_server; "
        "uvicorn.run(create_server('UTC').streamable_http_app(), host='127.0.0.1', port={port}, log_level='warning')"
    )
    tasks = [
        ToolTask(
            id=f"at-{hour}",
            split=split,
            turns=(UserTurn(user=f"{hour}:00 in Tokyo is when in UTC?", calls=(convert(f"{hour}:00"),)),),
        )
        for hour, split in ((11, "train"), (12, "validation"))
    ]
    return Mcp(
        Http(
            url="http://127.0.0.1:{port}/mcp",
            command=[sys.executable, "-c", serve],
            env={"PYTHONPATH": str(beside.site("mcp2"))},
        ),
        tasks,
        name="clock",
        only=["convert_time"],
        max_steps=3,
    )


def convert(time: str, source: str = "Asia/Tokyo") -> ToolCall:
    return ToolCall("convert_time", {"source_timezone": source, "time": time, "target_timezone": "UTC"})


def played(environment: Mcp, task: str, *calls: ToolCall) -> Trajectory:
    (trajectory,) = rollout(environment, [Episode(environment.task(task))], ScriptedPolicy({task: (calls,)}))
    return trajectory


def label(trajectory: Trajectory) -> Label:
    return diagnose(trajectory).turns[0].label


def test_a_stdio_server(tmp_path: Path) -> None:
    environment = operations(tmp_path)
    right = played(environment, "deal-2001", stage("D-2001"))
    assert (right.verdict.reward, label(right)) == (1.0, Label.PASS), right.verdict
    wrong = played(environment, "deal-2001", stage("D-2003"))
    assert (wrong.verdict.reward, label(wrong)) == (0.0, Label.STATE_MISMATCH), wrong.verdict
    assert wrong.turns[0].verdict is not None
    assert [difference.place for difference in wrong.turns[0].verdict.differences] == ["deals"]
    nobody = played(environment, "deal-2001", stage("D-9"))
    assert "deal D-9 not found" in nobody.turns[0].steps[0].results[0].raw
    assert (nobody.verdict.reward, label(nobody)) == (0.0, Label.RECOVERY_FAILURE), nobody.verdict
    misread = played(environment, "deal-2001", stage("D-2001", "sold"))
    assert label(misread) is Label.ARGUMENT_MISMATCH
    record = train_a_round(environment, [[stage("D-2001")], [stage("D-2002")]], tmp_path)
    assert record["rollouts"] == 4
    environment.close()


def test_an_http_server(tmp_path: Path) -> None:
    environment = clock()
    right = played(environment, "at-11", convert("11:00"))
    assert (right.verdict.reward, label(right)) == (1.0, Label.PASS), right.verdict
    told: Any = json.loads(right.turns[0].steps[0].results[0].raw)
    assert told["target"]["datetime"].endswith("T02:00:00+00:00")
    assert told["source"]["datetime"][:4] == str(date.today().year)
    wrong = played(environment, "at-11", convert("25:99"))
    assert wrong.turns[0].steps[0].results[0].fault is not None
    assert wrong.verdict.reward == 0.0
    record = train_a_round(environment, [[convert("11:00")], [convert("12:00")]], tmp_path)
    assert record["rollouts"] == 4
    report = check_env(environment, 1)
    assert report.passed, report
    environment.close()
