"""Write the table of malformed calls into docs/zoo.md, from what the code makes of the cases in tests/zoo.py.

python scripts/make_zoo_docs.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from zoo import table  # noqa: E402 -- the path is set above

_TABLE = re.compile(r"(<!-- table: begin -->\n).*?(\n<!-- table: end -->)", re.DOTALL)


def main() -> None:
    """Replace what stands between the two marks."""
    path = ROOT / "docs" / "zoo.md"
    text = path.read_text(encoding="utf-8")
    new = _TABLE.sub(lambda match: f"{match[1]}{table()}{match[2]}", text)
    path.write_text(new, encoding="utf-8")
    print(f"{path}: {'unchanged' if new == text else 'written'}")


if __name__ == "__main__":
    main()
