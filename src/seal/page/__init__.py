"""What every page of ours is made of: one file, nothing asked of any server, no text of a model as markup or code.

A template holds marks in capitals. `__STYLE__` and `__SCRIPT__` are what all pages share (parts.css and parts.js:
colours, light and dark, filters, keys, how a turn is drawn), `__DATA__` is JSON for the page's script, others are HTML
that the caller has escaped. In the data `<`, `>` and `&` are escaped, and the scripts put texts into the document as
text nodes only.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import orjson

_ESCAPES = ((b"&", b"\\u0026"), (b"<", b"\\u003c"), (b">", b"\\u003e"), (b"\xe2\x80\xa8", b"\\u2028"),
            (b"\xe2\x80\xa9", b"\\u2029"))  # fmt: skip


def assemble(template: str, data: Any, **texts: str) -> bytes:
    """Put a page together.

    Args:
        template: HTML with marks.
        data: JSON for the page's script.
        texts: HTML by the name of its mark, escaped by the caller.

    Returns:
        The page as UTF-8.

    Raises:
        KeyError: If the template has a mark that nobody fills.
    """
    block = orjson.dumps(data)
    for plain, escaped in _ESCAPES:
        block = block.replace(plain, escaped)
    parts = {"STYLE": _part("parts.css"), "SCRIPT": _part("parts.js"), "DATA": block.decode("utf-8"), **texts}
    return re.sub("__([A-Z]+)__", lambda found: parts[found[1]], template).encode("utf-8")


def _part(name: str) -> str:
    return files("seal.page").joinpath(name).read_text(encoding="utf-8").rstrip("\n")
