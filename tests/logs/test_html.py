# ruff: noqa: E501 -- the probe is JavaScript, one thought a line
"""The page: self-contained, nothing of a model's text becomes markup or code, filters work in a browser."""

from __future__ import annotations

import html.parser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from log_records import SCHEMAS, answer, assistant, call, conversation, steps, user
from seal.logs import Settings, diagnose_files
from seal.logs.html import page

EVIL = "</script><img src=x onerror=\"document.title='owned'\"><!--<script>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _records() -> list[dict[str, Any]]:
    evil = conversation(
        user(EVIL),
        assistant(EVIL, call(EVIL, {EVIL: EVIL}), call("lend", EVIL)),
        answer(f"Error: {EVIL}"),
        id=EVIL,
        model=EVIL,
        category=EVIL,
        tools=SCHEMAS,
    )
    failing = [conversation(user("x"), steps(("find", {"title": f"t{n}"}, "Error: down")), assistant("no"), id=f"find-{n}",
                            reward=0.0, tools=SCHEMAS) for n in range(12)]  # fmt: skip
    fine = [conversation(user("x"), assistant("hi"), id=f"fine-{n}", reward=1.0, tools=SCHEMAS) for n in range(12)]
    return [evil, *failing, *fine]


@pytest.fixture
def content(lines: Any) -> bytes:
    outcome = diagnose_files([lines(*_records(), {EVIL: 1})], Settings(transcripts=60))
    return page(outcome.report, outcome.transcripts, 60)


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_a_models_text_is_never_markup(content: bytes) -> None:
    text = content.decode()
    parser = _Tags()
    parser.feed(text)
    tags = [tag for tag, _ in parser.found]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert not [attributes for _, attributes in parser.found if any(name.startswith("on") for name in attributes)]
    assert EVIL not in text


def test_the_data_is_all_there(content: bytes) -> None:
    block = re.search(rb'<script type="application/json" id="data">(.*?)</script>', content, re.DOTALL)
    assert block is not None
    data = orjson.loads(block[1])
    evil = next(item for item in data["transcripts"] if item["id"] == EVIL)
    (turn,) = evil["turns"]
    assert turn["user"] == EVIL
    assert turn["steps"][0]["calls"][0]["name"] == EVIL
    assert data["report"]["records"] == 26


def test_the_page_asks_nobody_for_anything(content: bytes) -> None:
    parser = _Tags()
    parser.feed(content.decode())
    assert not [a for _, a in parser.found if "src" in a or "href" in a]
    shell = re.sub(rb'<script type="application/json".*?</script>', b"", content, flags=re.DOTALL)
    assert b"http:" not in shell
    assert b"https:" not in shell
    assert b"default-src 'none'" in shell


def test_the_script_sets_text_only() -> None:
    places = ("logs/page.html", "report/page.html", "page/parts.js")
    source = "".join((Path(__file__).parents[2] / "src/seal" / place).read_text() for place in places)
    for risky in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert risky not in source


def test_transcripts_keep_raw_and_shown_apart(tmp_path: Path) -> None:
    from seal.trace import LineWriter, Traced, trace_record
    from seal.types import (
        Diagnosis,
        Finish,
        Generation,
        Step,
        ToolCall,
        ToolResult,
        Trajectory,
        Turn,
        TurnVerdict,
        Verdict,
    )

    result = ToolResult("Error: locked", "Error: locked\nHint: unlock it.")
    turn = Turn(0, "u", "u!", ("f",), (Step(Generation("", "", (ToolCall("f", {}),)), (result,)),), TurnVerdict(True))
    trajectory = Trajectory("t", "c", 0, (), (turn,), 1, Verdict(1.0), Finish.COMPLETED, interface="t3:err.recovery")
    path = tmp_path / "trace.jsonl"
    with LineWriter(path) as writer:
        writer.write(trace_record(Traced(trajectory, Diagnosis())))
    (kept,) = diagnose_files([path], Settings(transcripts=5)).transcripts
    (shown,) = kept["turns"]
    assert (shown["user"], shown["user_shown"]) == ("u", "u!")
    entry = shown["steps"][0]["calls"][0]
    assert (entry["raw"], entry["shown"]) == ("Error: locked", "Error: locked\nHint: unlock it.")


def test_long_transcripts_are_cut(lines: Any) -> None:
    long = conversation(user("x" * 9000), steps(*[("f", {"n": n, "text": "y" * 5000}, "z" * 5000) for n in range(40)]))
    (kept,) = diagnose_files([lines(long)], Settings(transcripts=5)).transcripts
    assert len(orjson.dumps(kept)) < 60_000
    assert kept["turns"][0]["left_out"]


def test_the_sample_is_bounded_and_holds_every_failure(lines: Any) -> None:
    path = lines(*_records())
    kept = diagnose_files([path], Settings(transcripts=6)).transcripts
    assert len(kept) <= 6
    labels = {turn["label"] for item in kept for turn in item["turns"]}
    assert {"recovery_failure", "invalid_tool_call"} <= labels


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; apt-get install chromium")
def test_filters_work_in_a_browser(content: bytes, tmp_path: Path) -> None:
    probe = b"""<script>
      const shown = () => [...document.querySelectorAll("#list button")].map((b) => b.item.id);
      const pick = (id, value) => { const s = document.getElementById(id); s.value = value; s.dispatchEvent(new Event("change")); };
      const out = { title: document.title, all: shown().length };
      const name = () => document.querySelector("#transcript h3").textContent;
      const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      const second = shown()[1]; press("j"); out.next = name() === second; press("k"); out.back = name() === shown()[0];
      const theme = () => document.documentElement.dataset.theme; const was = theme(); press("t"); out.flipped = theme() !== was;
      pick("filter-label", "recovery_failure"); out.failing = shown();
      pick("filter-outcome", "success"); out.none = shown().length;
      out.nothing = document.getElementById("transcript").textContent;
      pick("filter-outcome", ""); document.querySelectorAll("#list button")[1].click();
      out.text = document.getElementById("transcript").textContent;
      pick("filter-label", "");
      const search = document.getElementById("filter-text"); search.value = out.failing[0].toUpperCase(); search.dispatchEvent(new Event("input"));
      out.found = shown(); out.images = document.images.length;
      document.body.replaceChildren(); const pre = document.createElement("pre"); pre.id = "out";
      pre.textContent = JSON.stringify(out); document.body.append(pre);
    </script></body>"""
    path = tmp_path / "page.html"
    path.write_bytes(content.replace(b"</body>", probe))
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000",
         "--dump-dom", path.as_uri()],
        check=False, capture_output=True, timeout=90,
    )  # fmt: skip
    match = re.search(r'<pre id="out">(.*?)</pre>', done.stdout.decode(), re.DOTALL)
    assert match is not None, done.stderr.decode()[-2000:]
    out = orjson.loads(html.unescape(match[1]))
    assert out["title"] == "seal diagnose"
    assert out["images"] == 0
    assert (out["next"], out["back"], out["flipped"]) == (True, True, True)
    assert out["all"] == 21  # 60 transcripts leave 10 for each label: 1 evil, 10 of 12 failing, 10 of 12 fine
    assert len(out["failing"]) == 10
    assert all(name.startswith("find-") for name in out["failing"])
    assert out["none"] == 0
    assert "Nothing fits" in out["nothing"]
    assert "Error: down" in out["text"]
    assert out["failing"][0] in out["found"]
    assert all(out["failing"][0] in name for name in out["found"])
