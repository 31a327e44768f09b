"""Play episodes against a hostile server on this machine and check that nothing crashes, hangs, swells or leaks.

Every answer begins as a good one (a call or a text) and is made worse in one of many ways: values of the JSON replaced
by others of any type, keys dropped, bytes flipped or cut; deep, huge, compressed or wrongly compressed bodies; a byte
now and then in status line, headers or body; statuses and Retry-After of any form; redirections; connections cut; the
request echoed in a message or an answer. Half of the answers stay good. The answer is drawn by seed and number of the
request. Checked:

- no exception leaves the rollout, and every episode is scored or unscored with a reason,
- every trajectory is read back from its trace as it was,
- neither traces nor messages hold the key, the password or the query's key,
- no batch takes longer than its requests' deadlines together allow, and peak memory stays within its bound.

    python scripts/fuzz_served.py [N] [SEED] [SECONDS]      # default: 5000 requests, seed 7, at most 600 seconds
"""

from __future__ import annotations

import base64
import contextlib
import copy
import gzip
import json
import os
import random
import resource
import socket
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from hostile_server import completion, http, raw_server  # noqa: E402 -- the path is set above
from seal import envs  # noqa: E402
from seal.episodes import play_tasks  # noqa: E402
from seal.models.openai import OpenAIPolicy  # noqa: E402
from seal.rollout import BARE  # noqa: E402
from seal.task import TaskSet  # noqa: E402
from seal.trace import LineWriter, Traced, dumps, read_traces, trace_record  # noqa: E402
from seal.types import Diagnosis, Trajectory  # noqa: E402

KEY, QUERY = "sk-fuzz-77c1e0b24d55", "qs-0123456789"
BASIC = base64.b64encode(b"us@er:p/w-0123456").decode()
WAYS = (
    ("", "", (KEY,)),
    ("", f"?api_key={QUERY}", (KEY, QUERY)),
    ("us%40er:p%2Fw-0123456@", f"?api_key={QUERY}", (KEY, QUERY, "p/w-0123456", "p%2Fw-0123456", BASIC)),
)
"""What stands before and behind the address, and the secrets that the server then knows."""
PER_BATCH = 60
CONCURRENCY = 16
TIMEOUT = 2.0
SLACK = 60.0
"""Seconds that a batch may take beyond its deadlines, on a machine that does other things too."""
MEMORY = 400 * 1024
"""KiB by which peak memory may grow over that of the start."""

DEEP = "[" * 100_000
NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**30, float("nan"), float("inf"), "", " ", "\x00", "\ud800", "\u202e", "a" * 5000,
    [], {}, [[]], [None], {"": None}, "{", "[" * 3000, '{"a":' * 300, "<tool_call>", "</tool_call>", "<think>",
    '{"name": "f", "arguments": {"x": ' * 40, "[f(", "f(" * 500, "\\" * 400, "9" * 5000, 10**400, ["x"] * 2000,
    "\x1b[2J", "=cmd()", {"function": {"name": {}}}, "assistant", "length", 2**63, "\u2028", "{}", "null", "NaN",
)  # fmt: skip
STATUSES = (
    "200 OK", "204 No", "206 Part", "300 Many", "400 Bad", "402 Pay", "409 C", "413 Big", "422 U", "429 Slow", "500 Oh",
    "503 Off", "529 Over", "599 X", "999 Z",
)  # fmt: skip
WAITS = ("1e400", "nan", "-inf", "9" * 300, "Fri, 31 Dec 99999 23:59:59 GMT", "Wed, 99 Foo", "\t", "-5", "0.01", "1e9")


class Hostile:
    """Draws an answer for each request.

    Args:
        seed: Of everything drawn.

    Attributes:
        served: Answers by kind.
        secrets: What it knows and echoes.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._lock = threading.Lock()
        self.served: Counter[str] = Counter()
        self.secrets: tuple[str, ...] = ()

    def answer(self, connection: socket.socket, request: bytes) -> None:
        """Answer one request."""
        with self._lock:
            number = self.served.total()
            rng = random.Random(f"{self._seed}/{number}")
            kind = "good" if rng.random() < 0.5 else rng.choice(KINDS)
            self.served[kind] += 1
        good = _good(rng, request)
        if kind == "good":
            connection.sendall(http(json.dumps(good).encode()))
        elif kind.startswith("drip"):
            _drip(connection, kind)
        else:
            head = " ".join((request.partition(b"\r\n\r\n")[0].decode(), *self.secrets))
            content, status, headers = _worse(kind, good, rng, head)
            raw = http(content, status, **headers)
            connection.sendall(raw[: rng.randrange(len(raw))] if kind == "cut connection" else raw)


KINDS = (
    "values", "values", "values", "keys", "keys", "bytes", "cut", "deep", "huge", "gzip", "gzip bomb", "wrong encoding",
    "drip status", "drip body", "status", "status", "retry", "redirect", "cut connection", "echo", "echo", "no JSON",
)  # fmt: skip


def _good(rng: random.Random, request: bytes) -> dict[str, Any]:
    body = request.partition(b"\r\n\r\n")[2]
    last = json.loads(body)["messages"][-1]["role"] if body else "user"  # a redirected request may have lost its body
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    if last == "tool" or rng.random() < 0.4:
        return {**completion(content="done"), "usage": usage}
    function = {
        "name": rng.choice(("list_devices", "set_timer", "nothing")),
        "arguments": '{"room": "birch", "n": [1]}',
    }
    calls = [{"id": f"c{i}", "type": "function", "function": function} for i in range(rng.randrange(1, 4))]
    return {**completion(content=None, tool_calls=calls), "usage": usage}


def _worse(  # noqa: PLR0912 -- a flat list of kinds
    kind: str, good: dict[str, Any], rng: random.Random, head: str
) -> tuple[bytes, str, dict[str, str]]:
    status, headers = "200 OK", {}
    content = json.dumps(good).encode()
    if kind in ("values", "keys"):
        for _ in range(rng.randrange(1, 4)):
            good = _mutated(good, rng, drop=kind == "keys")
        content = json.dumps(good).encode()
    elif kind == "bytes":
        flipped = bytearray(content)
        for _ in range(rng.randrange(1, 9)):
            flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        content = bytes(flipped)
    elif kind == "cut":
        content = content[: rng.randrange(len(content))]
    elif kind == "deep":
        content = rng.choice((DEEP, '{"choices": ' + DEEP, '{"error": ' + DEEP + "]" * 100_000 + "}")).encode()
        status = rng.choice(STATUSES)
    elif kind == "huge":
        content, status = b" " * (6 * 2**20), rng.choice(("200 OK", "500 Oh"))
    elif kind == "gzip":
        content, headers = gzip.compress(content), {"Content_Encoding": "gzip"}
    elif kind == "gzip bomb":
        twice = rng.random() < 0.3
        content = gzip.compress(BOMB) if twice else BOMB
        headers = {"Content_Encoding": "gzip, gzip" if twice else "gzip"}
    elif kind == "wrong encoding":
        content = rng.choice((content, zlib.compress(content)[:20], b"\x1f\x8b"))
        headers = {
            "Content_Encoding": rng.choice(("gzip", "deflate", "br", "zstd", "x")),
            "Content_Type": "x; charset=hex",
        }
    elif kind == "status":
        status, content = rng.choice(STATUSES), rng.choice((content, b"", b"\xff", b'{"error": [[1]]}', b"<html>"))
    elif kind == "retry":
        status, headers = rng.choice(("429 Slow", "503 Off")), {"Retry_After": rng.choice(WAITS)}
    elif kind == "redirect":
        place = rng.choice(("/v1/again", "//", "http://[", "ftp://h/", "/" + "a" * 4000, "\t"))
        status, headers = rng.choice(("301 M", "302 F", "307 T", "308 P")), {"Location": place}
    elif kind == "echo":
        status = rng.choice(("200 OK", "400 Bad", "500 Oh"))
        said = (
            completion(content=head) if status == "200 OK" else {"error": {"message": "x" * rng.randrange(300) + head}}
        )
        content = json.dumps(said).encode()
    elif kind == "no JSON":
        content = rng.choice((b"", b"null", b"7", b"[]", b"\xff\xfe", b"<html>" * 99, b"9" * 5000, b'"x"'))
    return content, status, headers


BOMB = gzip.compress(b'{"choices": "' + b" " * 64 * 2**20)


def _mutated(value: Any, rng: random.Random, *, drop: bool) -> Any:
    """A copy in which one place holds something else, or is gone."""
    value = copy.deepcopy(value)
    holder, inner = value, value
    while isinstance(inner, (dict, list)) and inner:
        holder = inner
        key: Any = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        inner = holder[key]
        if rng.random() < 0.3:
            break
    if holder is inner:
        return rng.choice(NASTY)
    if drop:
        del holder[key]
    else:
        holder[key] = rng.choice(NASTY)
    return value


def _drip(connection: socket.socket, kind: str) -> None:
    if kind == "drip body":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(200):
            connection.sendall(b"H")
            time.sleep(0.1)


def _check(pairs: list[tuple[Trajectory, Diagnosis]], path: Path, secrets: tuple[str, ...]) -> None:
    with LineWriter(path) as writer:
        for trajectory, diagnosis in pairs:
            assert (trajectory.verdict.reward is None) == (trajectory.failure is not None), trajectory.task_id
            writer.write(trace_record(Traced(trajectory, diagnosis)))
    for traced, (trajectory, diagnosis) in zip(read_traces(path), pairs, strict=True):
        assert dumps(traced.trajectory) == dumps(trajectory)
        assert traced.diagnosis == diagnosis
    told = path.read_text()
    for secret in secrets:
        assert secret not in told, f"{secret} is in {path}"
        assert json.dumps(secret)[1:-1] not in told


def main(requests: int = 5000, seed: int = 7, seconds: float = 600.0) -> None:
    """Run until so many requests were answered or the time is over, whichever is first."""
    os.environ["FUZZ_KEY"] = f"{KEY}\n"
    environment = envs.make("workshop")
    tasks = list(environment.tasks("train"))[: 40 * PER_BATCH]
    hostile = Hostile(seed)
    scored = unscored = batches = 0
    reasons: Counter[str] = Counter()
    start = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as directory, raw_server(hostile.answer) as url:
        while hostile.served.total() < requests and time.monotonic() - start < seconds:
            first = batches * PER_BATCH % len(tasks)
            before_host, behind, hostile.secrets = WAYS[batches % 3]
            address = url.replace("://", f"://{before_host}") + behind
            mode: Any = ("tools", "text")[batches % 2]
            policy = OpenAIPolicy(
                "m", address, api_key_env="FUZZ_KEY", mode=mode, concurrency=CONCURRENCY, timeout=TIMEOUT, retries=0
            )
            batch = TaskSet("fuzz", tuple(tasks[first : first + PER_BATCH]))
            asked, began = hostile.served.total(), time.monotonic()
            pairs = play_tasks(environment, batch, policy, BARE, seed=seed)
            took, allowed = time.monotonic() - began, (hostile.served.total() - asked) * TIMEOUT / CONCURRENCY + SLACK
            policy.close()
            assert took < allowed, f"batch {batches} took {took:.0f} s, {allowed:.0f} were allowed"
            assert len(pairs) == len(batch)
            _check(pairs, Path(directory) / f"{batches}.jsonl", hostile.secrets)
            for trajectory, _ in pairs:
                scored += trajectory.verdict.reward is not None
                unscored += trajectory.verdict.reward is None
                if trajectory.failure is not None:
                    assert trajectory.failure.blame == "infrastructure", trajectory.failure
                    reasons[trajectory.failure.kind] += 1
            batches += 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MEMORY, f"peak memory grew by {grown} KiB"
    print(f"{hostile.served.total()} requests, {scored + unscored} episodes: {scored} scored, {unscored} unscored")
    print("answers:", ", ".join(f"{kind} {count}" for kind, count in hostile.served.most_common()))
    print("unscored:", ", ".join(f"{kind} {count}" for kind, count in reasons.most_common()))
    print(f"seed {seed}, {time.monotonic() - start:.0f} s, peak memory grew by {grown / 1024:.0f} MiB")
    print("no crash, no hang, no secret, every trace read back")


if __name__ == "__main__":
    main(*(kind(argument) for kind, argument in zip((int, int, float), sys.argv[1:4], strict=False)))
