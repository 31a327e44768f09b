import decimal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import mpmath
import pytest

from seal.envs.bfcl import BFCL
from seal.envs.bfcl.session import BFCLSession
from seal.types import FaultKind, ToolCall, ToolResult

Begin = Callable[[str], BFCLSession]
DEADLINE = 2.0


@pytest.fixture
def math_session(begun: Begin) -> BFCLSession:
    return begun("base_15")


def _timed(session: BFCLSession, name: str, **arguments: object) -> ToolResult:
    started = time.perf_counter()
    result = session.call(ToolCall(name, arguments))
    assert time.perf_counter() - started < DEADLINE
    return result


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("power", {"base": 10, "exponent": 10**9}, FaultKind.TOOL),
        ("power", {"base": -3, "exponent": 10**12}, FaultKind.TOOL),
        ("logarithm", {"value": 5, "base": 10, "precision": int(3e7)}, FaultKind.DEADLINE),
        ("logarithm", {"value": 5, "base": 10, "precision": 3e7}, FaultKind.DEADLINE),
        ("logarithm", {"value": 5, "base": 10, "precision": "30000000"}, FaultKind.DEADLINE),
        ("logarithm", {"value": "1e1000000000", "base": 10, "precision": 5}, FaultKind.DEADLINE),
        ("square_root", {"number": 2, "precision": int(1e8)}, FaultKind.DEADLINE),
        ("square_root", {"number": 2, "precision": 10**17}, FaultKind.DEADLINE),
        ("square_root", {"number": 2, "precision": 10**19}, FaultKind.TOOL),
    ],
)
def test_endless_arithmetic_is_an_error_at_once(
    math_session: BFCLSession, name: str, arguments: dict[str, object], kind: FaultKind
) -> None:
    result = _timed(math_session, name, **arguments)
    assert result.fault is not None
    assert result.fault.kind is kind
    assert result.raw.startswith("Error during execution: ")
    assert math_session.call(ToolCall("add", {"a": 1, "b": 2})).raw == '{"result": 3}'


def test_a_number_too_long_to_print_has_the_official_words(math_session: BFCLSession) -> None:
    limit = sys.get_int_max_str_digits()
    # 2**n has limit digits for the largest n below, and one more for the next: both are computed, as officially.
    at_limit = math_session.call(ToolCall("power", {"base": 10, "exponent": limit - 1}))
    assert at_limit.fault is None
    for exponent in (limit, limit + 1, 10**8):
        result = math_session.call(ToolCall("power", {"base": 10, "exponent": exponent}))
        assert f"Exceeds the limit ({limit} digits) for integer string conversion" in result.raw


def test_rounding_to_absurd_places_is_zero(math_session: BFCLSession) -> None:
    assert _timed(math_session, "round_number", number=123, decimal_places=-(10**9)).raw == '{"result": 0}'
    assert _timed(math_session, "round_number", number=-150, decimal_places=-2).raw == '{"result": -200}'


def test_a_slow_call_costs_other_sessions_nothing(bfcl: BFCL) -> None:
    stop = threading.Event()

    def hostile() -> None:
        session = bfcl.open(bfcl.task("base_15"))
        session.user_message()
        while not stop.is_set():
            session.call(ToolCall("square_root", {"number": 2, "precision": 10**8}))
            session.call(ToolCall("power", {"base": 10, "exponent": 10**9}))

    thread = threading.Thread(target=hostile)
    thread.start()
    try:
        session = bfcl.open(bfcl.task("base_15"))
        session.user_message()
        for _ in range(20):
            assert _timed(session, "logarithm", value=100, base=10, precision=10).fault is None
    finally:
        stop.set()
        thread.join()


def test_the_process_keeps_its_own_precision(math_session: BFCLSession) -> None:
    mpmath.mp.dps = 17
    decimal.getcontext().prec = 19
    try:
        assert "2.0" in math_session.call(ToolCall("logarithm", {"value": 100, "base": 10, "precision": 50})).raw
        math_session.call(ToolCall("square_root", {"number": 2, "precision": 5}))
        assert mpmath.mp.dps == 17
        assert decimal.getcontext().prec == 19
    finally:
        mpmath.mp.dps = 15
        decimal.getcontext().prec = 28


def test_results_do_not_depend_on_what_was_computed_before(math_session: BFCLSession) -> None:
    """mpmath caches constants; a warm cache must not change a digit."""

    def all_results() -> list[str]:
        return [
            math_session.call(ToolCall("logarithm", {"value": value, "base": base, "precision": precision})).raw
            for value in (2, 10, 20, 0.3, 12345.678)
            for base in (2, 10, 2.718281828)
            for precision in (1, 5, 10, 30)
        ]

    before = all_results()
    math_session.call(ToolCall("logarithm", {"value": 20, "base": 10, "precision": 5000}))
    assert all_results() == before


def test_copies_of_copies_do_not_blow_up(begun: Begin) -> None:
    """Copied directories share their children: 2**k paths after k rounds. Every call must still come back."""
    session = begun("base_0")
    session.call(ToolCall("mkdir", {"dir_name": "d"}))
    for number in range(60):
        session.call(ToolCall("cp", {"source": "d", "destination": f"x{number}"}))
        session.call(ToolCall("cp", {"source": f"x{number}", "destination": "d"}))
    for name, arguments in (("find", {"path": "."}), ("du", {}), ("ls", {}), ("pwd", {})):
        _timed(session, name, **arguments)
    refused = session.call(ToolCall("find", {}))
    assert refused.fault is not None
    assert refused.fault.kind is FaultKind.DEADLINE
    started = time.perf_counter()
    verdict = session.end_turn()
    assert time.perf_counter() - started < DEADLINE
    assert verdict.kind == "multi_turn:instance_state_mismatch"
    assert verdict.state_changed


def test_a_directory_inside_itself(begun: Begin) -> None:
    session = begun("base_0")
    session.call(ToolCall("mkdir", {"dir_name": "d"}))
    session.call(ToolCall("cp", {"source": "d", "destination": "d"}))
    result = _timed(session, "find", path=".")
    assert result.fault is not None
    assert "recursion" in result.fault.message
    assert session.end_turn().passed is False


@pytest.mark.parametrize(
    "name",
    ["print", "open", "__import__", "eval", "copy.deepcopy", "json.dumps", "globals", "method", "inspect", "os.system"],
)
def test_nothing_is_reachable_by_name(begun: Begin, name: str) -> None:
    result = begun("base_0").call(ToolCall(name, {"file": "/tmp/never", "mode": "w"}))
    assert result.raw == f"Error during execution: name '{name.partition('.')[0]}' is not defined"
    assert result.fault is not None
    assert result.fault.kind is FaultKind.UNKNOWN_TOOL


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ls(a=True) or cd", {"folder": "document"}),
        ("(lambda **k: cd(folder='document'))", {}),
        ("cd(folder='document'), print", {}),
        ("__import__('os').system", {"command": "true"}),
        ("cd", {"folder='document',x": 1}),
        ("cd", {"x=cd(folder='document'),y": 1}),
        ("cd", {"**{'folder': 'document'}, x": 1}),
        ("ls\\", {}),
        ("x" * 100_000, {}),
        ("cd", {"y" * 100_000: 1}),
        ("(" * 500, {}),
        ("", {}),
        ("cd\0", {}),
    ],
)
def test_code_in_names_and_keys_is_an_invalid_call(begun: Begin, name: str, arguments: dict[str, object]) -> None:
    session = begun("base_0")
    result = session.call(ToolCall(name, arguments))
    assert result.fault is not None
    assert result.fault.kind in (FaultKind.UNKNOWN_TOOL, FaultKind.ARGUMENTS)
    assert session.call(ToolCall("pwd", {})).raw == '{"current_working_directory": "/workspace"}', "nothing was run"


def test_blacklisted_names_have_the_official_words(begun: Begin) -> None:
    result = begun("base_0").call(ToolCall("remove", {"file_name": "x"}))
    assert result.raw == "Error during execution: Function call remove is not allowed."


def _fault(result: ToolResult) -> Any:
    assert result.fault is not None
    return result.fault


def test_fault_kinds(begun: Begin) -> None:
    session = begun("base_0")
    missing = session.call(ToolCall("cd", {}))
    assert missing.raw == (
        "Error during execution: GorillaFileSystem.cd() missing 1 required positional argument: 'folder'"
    )
    assert _fault(missing).kind is FaultKind.ARGUMENTS
    assert _fault(session.call(ToolCall("cd", {"folder": "document", "x": 1}))).kind is FaultKind.ARGUMENTS
    assert _fault(session.call(ToolCall("cd", {"folder": 5}))).kind is FaultKind.ARGUMENTS
    assert _fault(session.call(ToolCall("fly", {}))).kind is FaultKind.UNKNOWN_TOOL
    wrong = session.call(ToolCall("cd", {"folder": "nowhere"}))
    assert _fault(wrong).kind is FaultKind.TOOL
    assert _fault(wrong).message == "cd: 'nowhere': No such file or directory"
    assert wrong.raw == '{"error": "cd: \'nowhere\': No such file or directory"}'
    assert session.call(ToolCall("cd", {"folder": "document"})).fault is None


def test_errors_inside_lists_are_faults(begun: Begin) -> None:
    session = begun("base_100")
    session.call(ToolCall("trading_logout", {}))
    for name in ("get_watchlist", "get_order_history", "get_transaction_history"):
        assert _fault(session.call(ToolCall(name, {}))).kind is FaultKind.TOOL


def test_sets_in_error_texts_have_one_order(begun: Begin) -> None:
    session = begun("base_2")
    session.call(ToolCall("ticket_login", {"username": "a", "password": "b"}))
    session.call(ToolCall("create_ticket", {"title": "t"}))
    session.call(ToolCall("get_user_tickets", {}))
    counter = session.instance("TicketAPI").ticket_queue[-1]["id"]  # type: ignore[attr-defined]
    updates = dict.fromkeys("zyxwvuts", 1)
    result = session.call(ToolCall("edit_ticket", {"ticket_id": counter, "updates": updates}))
    assert result.raw == '{"error": "Invalid fields for update: s, t, u, v, w, x, y, z"}'


def test_rewriting_reaches_text_arguments(begun: Begin) -> None:
    """The official executor puts instance names into any text that looks like a call of a method."""
    result = begun("base_0").call(ToolCall("echo", {"content": "use sort (x), not other (y)"}))
    assert result.raw == (
        '{"terminal_output": "use model_eval_multi_turn_base_0_GorillaFileSystem_instance.sort(x), not other(y)"}'
    )


def test_huge_arguments_are_refused(begun: Begin) -> None:
    session = begun("base_0")
    result = session.call(ToolCall("echo", {"content": "x" * 1_000_001}))
    assert _fault(result).kind is FaultKind.ARGUMENTS
    assert "too large" in result.raw
    assert session.call(ToolCall("echo", {"content": "x" * 999_000})).fault is None
    assert _fault(session.call(ToolCall("echo", {"content": [0] * 1_000_001}))).kind is FaultKind.ARGUMENTS
