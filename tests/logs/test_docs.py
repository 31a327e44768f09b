"""The documentation's example runs and prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs" / "diagnose.md"


def test_the_worked_example() -> None:
    text = DOCS.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    printed = re.search(r"It prints:\n\n```\n(.*?)```", text, re.DOTALL)
    assert printed is not None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(DOCS), "exec"), {"__name__": "example"})
    assert out.getvalue() == printed[1]


def test_the_docstring_of_the_package() -> None:
    import doctest

    import seal.logs

    assert doctest.testmod(seal.logs).failed == 0


def test_every_format_is_in_the_table() -> None:
    from seal.logs.detect import READERS

    text = DOCS.read_text(encoding="utf-8")
    assert [name for name in READERS if f"| `{name}` |" not in text] == []


def test_importing_seal_is_instant_and_loads_no_reader() -> None:
    code = (
        "import time; began = time.process_time(); import seal; took = time.process_time() - began; import sys; "
        "print(took, [m for m in sys.modules if m.startswith('seal.logs')], callable(seal.diagnose))"
    )
    best = 1.0
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        seconds, rest = done.stdout.split(" ", 1)
        assert rest.strip() == "[] True"
        best = min(best, float(seconds))
    assert best < 0.05
