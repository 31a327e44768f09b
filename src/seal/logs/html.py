"""One self-contained page: profile, failure modes, tables, transcripts with filters. It asks no server for anything.

All data stands in one JSON block in which `<`, `>` and `&` are escaped, and the page's script puts texts into the
document as text only; so nothing that a model wrote can become markup or code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import orjson

from seal.logs.report import Report

_ESCAPES = ((b"&", b"\\u0026"), (b"<", b"\\u003c"), (b">", b"\\u003e"), (b"\xe2\x80\xa8", b"\\u2028"),
            (b"\xe2\x80\xa9", b"\\u2029"))  # fmt: skip


def page(report: Report, transcripts: Sequence[Mapping[str, Any]], limit: int) -> bytes:
    """The page as UTF-8.

    Args:
        report: The result.
        transcripts: Transcripts to show.
        limit: How many may be kept at most, for the page to say.
    """
    data = orjson.dumps({"report": report.to_json(), "transcripts": list(transcripts), "limit": limit})
    for plain, escaped in _ESCAPES:
        data = data.replace(plain, escaped)
    template = files("seal.logs").joinpath("page.html").read_bytes()
    head, _, tail = template.partition(b"__DATA__")
    return head + data + tail
