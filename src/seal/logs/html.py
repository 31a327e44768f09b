"""The page of a diagnosis: profile, failure modes, tables, transcripts with filters (`seal.page`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from seal.logs.report import Report
from seal.page import assemble


def page(report: Report, transcripts: Sequence[Mapping[str, Any]], limit: int) -> bytes:
    """The page as UTF-8.

    Args:
        report: The result.
        transcripts: Transcripts to show.
        limit: How many may be kept at most, for the page to say.
    """
    template = files("seal.logs").joinpath("page.html").read_text(encoding="utf-8")
    return assemble(template, {"report": report.to_json(), "transcripts": list(transcripts), "limit": limit})
