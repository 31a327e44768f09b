"""The page holds what the run holds, asks no server, and lets no model text become markup."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from cli_support import record, trajectory
from fakes import call, say
from seal.cli.app import main
from seal.errors import ConfigError, DataError, MissingError
from seal.labels import diagnose
from seal.profile import aggregate
from seal.report import browser, write_report
from seal.trace import LineWriter, Traced, trace_record, write_json

pytest.importorskip("altair")


def traced(number: int = 3, *, said: str = "done", round_index: int = 0, cues: tuple[str, ...] = ()) -> Traced:
    tau = trajectory(call("add", amount=number), say(said), say("ok"), number=number, cues=cues)
    return Traced(tau, diagnose(tau), round_index, 1.25, -0.5, 3.5 if cues else None)


def run_directory(place: Path, *, rounds: int = 3, **changes: Any) -> Path:
    (place / "traces").mkdir(parents=True)
    items = [traced(3), traced(5, said="<script>alert(1)</script>", cues=("schema.values",))]
    profile = aggregate([(item.trajectory, item.diagnosis) for item in items]).to_json()
    with LineWriter(place / "rounds.jsonl") as lines:
        for index in range(rounds):
            lines.write(record(index, profile=profile, **changes))
    with LineWriter(place / "traces" / "round-0000.jsonl") as trace:
        trace.write(*(trace_record(item) for item in items))
    return place


def unpacked(page: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The data block, and all transcripts in it."""
    html = page.read_text()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    packs = [json.loads(zlib.decompress(base64.b64decode(pack), -15)) for pack in data["packs"]]
    return data, [item for pack in packs for item in pack]


def test_a_run_s_page_has_its_figures_and_every_trajectory(tmp_path: Path) -> None:
    done = write_report(run_directory(tmp_path / "run"), tmp_path / "page.html", figures=tmp_path / "figures")
    html = (tmp_path / "page.html").read_text()
    for title in ("Success", "Failure profile", "Cues", "Misalignment", "Entropy and groups without contrast"):
        assert f"<h2>{title}</h2>" in html
    assert "Training run run" in html
    assert "3 rounds · not finished" in html
    data, transcripts = unpacked(tmp_path / "page.html")
    assert [entry[3] for entry in data["index"]] == [0, 0]
    assert [entry[7:10] for entry in data["index"]] == [[-0.5, 1.25, None], [-0.5, 1.25, 3.5]]
    assert [item["id"] for item in transcripts] == ["counter_3", "counter_5"]
    assert {Path(file).name for file in done["figures"]} >= {"success.svg", "failure-profile.svg", "cues.svg"}
    assert "var(--" not in (tmp_path / "figures" / "success.svg").read_text()


def test_a_teacher_and_a_rescue_have_figures_where_there_are_any(tmp_path: Path) -> None:
    titles = ("Gap of the teacher", "Rescued groups")
    write_report(run_directory(tmp_path / "plain"), tmp_path / "plain.html")
    taught = run_directory(
        tmp_path / "taught",
        distill={"gap_success": 0.1, "gap_failure": None},
        rescue={"groups": 2, "rescued": 1, "rollouts": 8},
    )
    write_report(taught, tmp_path / "taught.html")
    for title in titles:
        assert f"<h2>{title}</h2>" in (tmp_path / "taught.html").read_text()
        assert f"<h2>{title}</h2>" not in (tmp_path / "plain.html").read_text()


def test_the_page_asks_no_server_and_model_text_is_no_markup(tmp_path: Path) -> None:
    write_report(run_directory(tmp_path / "run"), tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    assert "<script>alert(1)</script>" not in html
    assert "default-src 'none'" in html
    addresses = set(re.findall(r"(?:https?:)?//[a-z][\w.-]+", re.sub(r"(?s)<script type=.*?</script>", "", html)))
    assert addresses <= {"http://www.w3.org"}  # names of SVG's namespaces
    assert any("<script>alert(1)</script>" in json.dumps(item) for item in unpacked(tmp_path / "page.html")[1])


def test_an_evaluation_s_page_has_success_by_category_and_says_when_cues_were_on(tmp_path: Path) -> None:
    file = tmp_path / "eval.jsonl"
    with LineWriter(file) as trace:
        trace.write(*(trace_record(traced(number)) for number in (3, 4, 5)))
    write_json(tmp_path / "eval.jsonl.settings.json", {"model": "m", "interface": ["err.format"]})
    write_report(file, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    assert "Evaluation eval.jsonl" in html
    assert "WITH CUES err.format: not the bare environment" in html
    assert "<h2>Success by category</h2>" in html


def test_too_many_transcripts_are_thinned_evenly_and_the_index_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "PACK", 4)
    monkeypatch.setattr(browser, "BUDGET", 4000)
    items = [
        ("trace", traced(number, said=base64.b85encode(bytes([number] * 200)).decode())) for number in range(3, 43)
    ]
    data = browser.browse(items)
    assert len(data["index"]) == 40
    assert data["stride"] > 1
    assert sum(map(len, data["packs"])) <= 4000
    texts = [item for pack in data["packs"] for item in json.loads(zlib.decompress(base64.b64decode(pack), -15))]
    assert [item["id"] for item in texts] == [entry[0] for entry in data["index"][:: data["stride"]]]


def test_a_run_without_rounds_or_with_a_torn_line_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="nothing to report"):
        write_report(tmp_path, tmp_path / "page.html")
    run = run_directory(tmp_path / "run")
    with (run / "rounds.jsonl").open("a") as file:
        file.write('{"round": 3, "succ')
    with pytest.raises(DataError, match=r"rounds.jsonl:4 is no JSON"):
        write_report(run, tmp_path / "page.html")
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(DataError, match="not what seal ablate writes"):
        write_report(tmp_path, tmp_path / "page.html")


def test_the_page_never_replaces_what_it_is_about(tmp_path: Path) -> None:
    file = tmp_path / "eval.jsonl"
    with LineWriter(file) as trace:
        trace.write(trace_record(traced()))
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="not what the report is about"):
        write_report(file, file)
    assert file.read_bytes() == before


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory(tmp_path / "run")
    assert main(["report", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["page"] == str(run / "report.html")
    assert told["trajectories"] == 2
    assert (run / "report.html").stat().st_size == told["bytes"]


def test_cue_text_stands_against_the_budget_and_helpfulness_beside_it(tmp_path: Path) -> None:
    cue = "schema.values@add:amount"
    use = {
        "characters": 37.5,
        "most": 60,
        "left_out": 2,
        "wanted": {cue: 41.0},
        "helpfulness": {cue: {"difference": 0.25, "weight": 4.0}},
    }
    omega = {"active": [cue], "shown": [cue], "exposure": 0.5, "changes": [], "version": 1, "budget": 60, "use": use}
    write_report(run_directory(tmp_path / "run", interface=omega), tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    for text in ("<h2>Cue text</h2>", "6 texts no longer fitted", "41.0", "<h2>Helpfulness of cues</h2>", "+25.0", cue):
        assert text in html


def test_rounds_are_counted_from_one_wherever_a_person_reads_them(tmp_path: Path) -> None:
    write_report(run_directory(tmp_path / "run"), tmp_path / "page.html", figures=tmp_path / "figures")
    html = (tmp_path / "page.html").read_text()
    assert "round " + '" + item[ROUND]' not in html
    assert html.count("item[ROUND] + 1") == 2
    labels = re.findall(r">(\d+)</text>", (tmp_path / "figures" / "seconds-by-stage.svg").read_text())
    assert {"1", "3"} <= set(labels)
