"""The command tree. Commands are imported when they run, so that `seal --help` is instant."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App, Parameter

from seal._version import __version__
from seal.cli.exits import guarded
from seal.cli.output import PipeConsole

EPILOGUE = "Exit codes: 0 done; 1 it ran and the answer is no; 2 bad input; 70 a bug in seal; 130 interrupted."

_TRAIN = """Train a model through the whole loop.

Without arguments it runs the recipe workshop into runs/demo. docs/configuration.md lists every key that --set takes.
"""


def build() -> App:
    """The whole tree."""
    # No `--no-x` beside every flag: the default is always the absence of the flag.
    app = App(
        name="seal",
        help="Train tool-use agents that learn together with their environment.",
        help_epilogue=EPILOGUE,
        version=__version__,
        default_parameter=Parameter(negative=""),
        suppress_keyboard_interrupt=False,
        console=PipeConsole(),
    )
    app.command("seal.cli.train:train", name="train", help=_TRAIN)
    app.command("seal.cli.eval:evaluate", name="eval", help="Measure success in the bare environment.")
    app.command("seal.cli.diagnose:diagnose", name="diagnose", help="Say why agents fail, from logs that you have.")
    app.command("seal.cli.ablate:ablate", name="ablate", help="Run a matched experiment: cells, seeds, effects.")
    app.command("seal.cli.report:report", name="report", help="One page about a run, an evaluation or a design.")
    app.command("seal.cli.push:push", name="push", help="Push a finished run to the Hugging Face hub, with its card.")
    env = App(name="env", help="List, make, install, check and look at environments.")
    env.command("seal.cli.env:list_", name="list", help="Which environments there are.")
    env.command("seal.cli.env:setup", name="setup", help="Install what an environment needs.")
    env.command("seal.cli.env:check", name="check", help="Prove an environment on its own tasks.")
    env.command("seal.cli.env:new", name="new", help="Write a new environment to change: tools, ten tasks, a test.")
    env.command("seal.cli.env:show", name="show", help="Print one task: messages, tools, reference calls.")
    app.command(env)
    trace = App(name="trace", help="Read what a run wrote.")
    trace.command("seal.cli.trace:show", name="show", help="Print transcripts with labels, evidence and cues.")
    app.command(trace)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Without the program's name; None for those of the process.

    Returns:
        The exit code; see `seal.cli.exits`.
    """
    # `-` alone is standard input, and to the parser an option without a name; as a path, `./-` is the same.
    given = sys.argv[1:] if arguments is None else arguments
    words = ["./-" if word == "-" else word for word in given]
    return guarded(
        lambda: build()(
            words, exit_on_error=False, print_error=False, result_action="return_value", help_on_error=False
        )
    )
