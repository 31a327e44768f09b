"""`seal diagnose`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seal.cli.exits import BAD_INPUT, NO, OK
from seal.cli.options import Flag, Repeated
from seal.cli.output import result, stderr, tracked
from seal.cli.targets import check_outputs
from seal.errors import ConfigError

if TYPE_CHECKING:
    from seal.logs import Outcome, Settings


def diagnose(
    files: tuple[Path, ...],
    /,
    *,
    tools: Path | None = None,
    env: str | None = None,
    option: Repeated = (),
    dialect: str = "auto",
    json: Flag = False,
    csv: Path | None = None,
    html: Path | None = None,
    transcripts: int = 200,
    fail_on: Repeated = (),
    against: Path | None = None,
    workers: int | None = None,
    reward: str | None = None,
    threshold: float | None = None,
) -> int:
    """Say why agents fail, from logs that you have: labels by turn, what costs most, what to fix first.

    Reads what agents, benchmarks, servers and tracers write; the content tells the format (see docs/diagnose.md). Of a
    run of SEAL it reads the traces: training rounds in detail, tests before and after apart. Exit code 1 if a --fail-on
    holds, 2 if nothing can be read.

    Args:
        files: Logs, folders, patterns, or - for standard input; JSON, JSON Lines (also gzipped, UTF-16) or .eval.
        tools: Schema file for logs that hold none.
        env: Environment whose tools stand in for logs that hold none; as in `seal env list`, or path/to/file.py:object.
        option: Option of the environment, as key=value (a TOML value); may be repeated.
        dialect: Of calls in text: auto, or a name from docs/parsers.md.
        json: Print one JSON object.
        csv: Write one row per turn to this file.
        html: Write a self-contained page to this file.
        transcripts: How many the page may hold.
        fail_on: Condition for exit code 1, such as 'invalid_tool_call>5%'; may be repeated.
        against: An earlier log to compare with.
        workers: Processes; by default what the size asks for.
        reward: Where records hold their reward, such as evaluation.utility, if not where their format has it.
        threshold: The lowest reward of a success; 1 unless given.
    """
    from seal.logs.gate import condition  # noqa: PLC0415 -- not for --help

    if not files:
        raise ConfigError("give at least one log file, such as `seal diagnose results.jsonl`")
    if transcripts < 0 or (workers is not None and workers < 1):
        raise ConfigError("--transcripts must be 0 or more and --workers at least 1")
    if tools is not None and env is not None:
        raise ConfigError("name the tools of logs that hold none by --tools or --env, not both")
    if option and env is None:
        raise ConfigError("--option belongs to --env")
    conditions = [condition(text) for text in fail_on]

    from seal.cli.diagnosis import show, show_change, show_parts  # noqa: PLC0415
    from seal.logs import Settings, read_tools  # noqa: PLC0415
    from seal.logs.compare import compare  # noqa: PLC0415
    from seal.logs.inputs import expand  # noqa: PLC0415

    named = tuple(expand(files))
    before = tuple(expand([against])) if against is not None else ()
    check_outputs({"--csv": csv, "--html": html}, (*named, *before, *([tools] if tools is not None else [])))
    specs = read_tools(tools) if tools is not None else None
    if env is not None:
        from seal.cli.environments import build, every_tool, parse_options  # noqa: PLC0415

        specs = tuple(every_tool(build(env, parse_options(option))))
    settings = Settings(
        tools=specs,
        dialect=dialect,
        transcripts=transcripts if html is not None else 0,
        csv=csv is not None,
        reward=reward,
        threshold=threshold,
    )
    with result(as_json=json) as answer:
        outcome = _run(named, settings, workers, csv)
        report = outcome.report
        answer.data = report.to_json()
        if outcome.others:
            answer.data["part"] = outcome.part
            answer.data["parts"] = {name: other.to_json() for name, other in outcome.others.items()}
        if not json:
            answer.say(*show_parts(outcome), *show(report))
        if against is not None:
            plain = replace(settings, transcripts=0, csv=False)
            change = compare(_run(before, plain, workers, None).report, report)
            answer.data["against"] = change.to_json()
            if not json:
                answer.say(*show_change(change))
        if html is not None:
            _write_page(outcome, html, transcripts)
            answer.data["html"] = str(html)
        reasons = [reason for item in conditions if (reason := item.met(report)) is not None]
        answer.data["fail_on"] = reasons
        if not json:
            answer.say(*reasons)
    if not report.read:
        stderr().print(f"Not one of {report.records} records could be read.", style="red", soft_wrap=True)
        return BAD_INPUT
    return NO if reasons else OK


def _run(files: tuple[Path, ...], settings: Settings, workers: int | None, csv: Path | None) -> Outcome:
    from seal.logs import diagnose_files  # noqa: PLC0415 -- not for --help
    from seal.logs.rows import header  # noqa: PLC0415
    from seal.trace import replacing  # noqa: PLC0415

    with ExitStack() as stack:
        bar = stack.enter_context(tracked("reading, KiB", None))
        on_rows: Callable[[str], object] | None = None
        if csv is not None:
            rows = stack.enter_context(replacing(csv))

            def write(text: str) -> None:
                rows.write(text.encode("utf-8", errors="replace"))

            write(header())
            on_rows = write
        return diagnose_files(
            files,
            settings,
            workers=workers,
            on_progress=lambda done, total: bar.reach(done >> 10, max(total >> 10, 1)),
            on_rows=on_rows,
        )


def _write_page(outcome: Outcome, path: Path, limit: int) -> None:
    from seal.logs.html import page  # noqa: PLC0415 -- only for --html
    from seal.trace import write_atomic  # noqa: PLC0415

    write_atomic(path, page(outcome.report, outcome.transcripts, limit))
