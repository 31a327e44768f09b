"""`seal push`."""

from __future__ import annotations

from pathlib import Path

from seal.cli.extras import needs
from seal.cli.options import Flag
from seal.cli.output import result
from seal.trace import write_atomic


def push(run: Path, name: str, /, *, public: Flag = False, dry_run: Flag = False, json: Flag = False) -> int:
    """Push a finished run's best checkpoint to the Hugging Face hub, with a model card of what was measured.

    Args:
        run: The run directory.
        name: OWNER/NAME; made, private, if it is not there.
        public: Let anybody read it.
        dry_run: Only write the card, to card.md in the run directory.
        json: Print one JSON object about what was pushed.
    """
    with result(as_json=json) as answer, needs("trl", "pushing"):
        from seal.hub.card import model_card  # noqa: PLC0415 -- not for --help
        from seal.hub.upload import check, push  # noqa: PLC0415

        card = model_card(run, name)
        check(run, name)
        if dry_run:
            write_atomic(run / "card.md", card.encode())
            answer.data = {"card": str(run / "card.md"), "pushed": False}
            answer.say(f"The card: {run / 'card.md'}; nothing was pushed")
            return 0
        answer.data = {**push(run, name, public=public), "pushed": True}
        kind = "private" if answer.data["private"] else "public"
        answer.say(f"Pushed {len(answer.data['files'])} files to {answer.data['url']} ({kind})")
    return 0
