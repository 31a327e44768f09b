"""Bombs: short or repeated calls whose cost would grow without end. All refusals are the same on every machine."""

from collections.abc import Callable, Sequence

import pytest

from seal.envs.bfcl import BFCL
from seal.envs.bfcl.ledger import MAX_EPISODE, MAX_TEXT, MAX_TEXTS
from seal.envs.bfcl.session import BFCLSession
from seal.envs.bfcl.wording import MAX_SIZE, copy_arguments, rewrite
from seal.types import FaultKind, ToolCall, ToolResult

Begin = Callable[[str], BFCLSession]
GRIN = "\U0001f600"


def _call(session: BFCLSession, tool: str, **arguments: object) -> ToolResult:
    result = session.call(ToolCall(tool, arguments))
    assert len(result.raw) <= MAX_TEXT + 100
    return result


def _refused(result: ToolResult, kind: FaultKind, words: str) -> None:
    assert result.fault is not None
    assert (result.fault.kind, words in result.fault.message) == (kind, True), result.fault
    assert result.raw == f"Error during execution: {result.fault.message}"


@pytest.fixture
def files(begun: Begin) -> BFCLSession:
    return begun("base_0")


def _log_in(bfcl: BFCL, session: BFCLSession) -> str:
    scenario = bfcl._catalog.entries["multi_turn_base_0"].configuration["TwitterAPI"]
    _call(session, "authenticate_twitter", username=scenario["username"], password=scenario["password"])
    return str(scenario["username"])


@pytest.mark.parametrize("length", [1_000, 16_000])
def test_paths_of_a_directory_in_itself(files: BFCLSession, length: int) -> None:
    """1,000 levels of a name of 1,000 characters are half a gigabyte of paths; of 16,000, 7.5 GB."""
    name = "n" * length
    _call(files, "mkdir", dir_name=name)
    _call(files, "cp", source=name, destination=name)
    _refused(_call(files, "find"), FaultKind.TOOL, "paths to look at are too long")
    assert not files.end_turn().passed


def test_paths_of_a_deep_chain_without_any_copy(files: BFCLSession) -> None:
    name = "n" * 1_500
    for _ in range(700):
        _call(files, "mkdir", dir_name=name)
        _call(files, "cd", folder=name)
    _call(files, "cd", folder="/")
    _refused(_call(files, "find", path="/"), FaultKind.TOOL, "paths to look at are too long")
    assert _call(files, "find", path="nowhere").raw == '{"error": "find: \'nowhere\': No such file or directory"}'


def test_a_long_way_to_a_short_directory(begun: Begin) -> None:
    """Every path that `find` writes begins with the path that it was given."""
    session = begun("long_context_0")
    _refused(_call(session, "find", path="./" * 400_000 + "."), FaultKind.TOOL, "paths to look at are too long")
    assert _call(session, "find", path="./.").fault is None


def test_a_move_can_tangle_as_well(files: BFCLSession) -> None:
    """`mv .` puts a directory's contents into itself, without any copy."""
    name = "n" * 3_000
    _call(files, "mkdir", dir_name=".")
    assert _call(files, "mv", source=".", destination=name).fault is None
    _refused(_call(files, "find"), FaultKind.TOOL, "paths to look at are too long")
    assert "recursion" in _call(files, "du").raw


def test_disk_usage_reads_a_file_once_a_path(files: BFCLSession) -> None:
    for call in (
        ToolCall("mkdir", {"dir_name": "d"}),
        ToolCall("cd", {"folder": "d"}),
        ToolCall("touch", {"file_name": "f"}),
        ToolCall("echo", {"content": "x" * 900_000, "file_name": "f"}),
        ToolCall("cd", {"folder": ".."}),
    ):
        assert files.call(call).fault is None
    assert _call(files, "du").fault is None
    for number in range(12):
        _call(files, "cp", source="d", destination=f"x{number}")
        _call(files, "cp", source=f"x{number}", destination="d")
    # About 8,000 paths, far fewer than may be visited; but 3.7 GB of content.
    _refused(_call(files, "du"), FaultKind.DEADLINE, "would not finish")
    assert _call(files, "pwd").fault is None


def test_copied_contents_are_counted(files: BFCLSession) -> None:
    """A content that is a list is written out and hashed for every copy when the turn ends."""
    _call(files, "touch", file_name="f")
    _call(files, "echo", content=[0] * 900_000, file_name="f")
    copies = [_call(files, "cp", source="f", destination=f"g{number}") for number in range(5)]
    assert [copy.fault is None for copy in copies] == [True, True, True, False, False]
    _refused(copies[-1], FaultKind.ARGUMENTS, "arguments of this episode's calls are too large")


def test_entries_of_copied_directories_are_counted(begun: Begin) -> None:
    session = begun("base_0")
    _call(session, "mkdir", dir_name="d")
    _call(session, "cd", folder="d")
    for number in range(1_000):
        _call(session, "touch", file_name=str(number))
    _call(session, "cd", folder="..")
    before = session._machine._ledger.size
    _call(session, "cp", source="d", destination="e")
    assert session._machine._ledger.size - before > 8_000


def test_a_list_that_all_tweets_share(bfcl: BFCL, files: BFCLSession) -> None:
    user = _log_in(bfcl, files)
    counter = files.instance("TwitterAPI").tweet_counter  # type: ignore[attr-defined]
    for _ in range(60):
        _call(files, "post_tweet", content="x")
    mentions = ["@" + "a" * 900] * 1_000
    # 0.9 MB in each of 60 tweets would make 54 MB of them.
    _refused(
        _call(files, "mention", tweet_id=counter, mentioned_usernames=mentions), FaultKind.ARGUMENTS, "are too large"
    )
    assert _call(files, "mention", tweet_id=counter, mentioned_usernames=["@b"]).fault is None
    assert _call(files, "get_user_tweets", username=user).raw.count("'@b'") == 60
    for _ in range(20):
        _call(files, "mention", tweet_id=counter, mentioned_usernames=mentions[:100])
    assert files._machine._ledger.size < MAX_EPISODE
    assert len(_call(files, "get_user_tweets", username=user).raw) < MAX_EPISODE


def test_a_keyword_for_every_tweet(bfcl: BFCL, files: BFCLSession) -> None:
    """The simulator puts the keyword into lower case twice a tweet; with 2,000 tweets that takes minutes."""
    _log_in(bfcl, files)
    for _ in range(2_000):
        _call(files, "post_tweet", content="x", tags=[], mentions=[])
    _refused(_call(files, "search_tweets", keyword="İ" * 900_000), FaultKind.DEADLINE, "would not finish")
    assert _call(files, "search_tweets", keyword="X").fault is None


@pytest.fixture
def tickets(bfcl: BFCL, begun: Begin) -> BFCLSession:
    for task in bfcl.tasks("all"):
        if "TicketAPI" in bfcl._catalog.entries[task.id].involved:
            return begun(task.id)
    raise AssertionError


def test_an_author_in_every_ticket(tickets: BFCLSession) -> None:
    _call(tickets, "ticket_login", username="u" * 900_000, password="x")
    made = [_call(tickets, "create_ticket", title="t") for _ in range(20)]
    assert [ticket.fault is None for ticket in made] == [True] * 3 + [False] * 17
    _refused(made[-1], FaultKind.ARGUMENTS, "are too large")
    assert _call(tickets, "get_user_tickets").fault is None
    tickets.end_turn()


def test_a_status_for_every_ticket(tickets: BFCLSession) -> None:
    _call(tickets, "ticket_login", username="u", password="x")
    for _ in range(2_000):
        _call(tickets, "create_ticket", title="t")
    _refused(_call(tickets, "get_user_tickets", status="İ" * 900_000), FaultKind.DEADLINE, "would not finish")
    assert _call(tickets, "get_user_tickets", status="open").fault is None


def test_a_date_for_every_route(begun: Begin) -> None:
    session = begun("long_context_150")
    route = {"travel_from": "SFO", "travel_to": "LAX", "travel_class": "first"}
    _refused(_call(session, "get_flight_cost", travel_date="1" * 900_000, **route), FaultKind.ARGUMENTS, "no date")
    assert _call(session, "get_flight_cost", travel_date="2024-01-01", **route).fault is None


@pytest.mark.parametrize("value", ["x" * 900_000, [1] * 900_000])
def test_a_text_times_an_exchange_rate(begun: Begin, value: object) -> None:
    money = {"base_currency": "USD", "target_currency": "JPY"}
    session = begun("base_150")
    _refused(_call(session, "compute_exchange_rate", value=value, **money), FaultKind.ARGUMENTS, "value is no number")
    assert _call(session, "compute_exchange_rate", value="x", **money).raw.endswith(f"float: '{'x' * 110}'")


def test_one_result_has_a_bound(files: BFCLSession) -> None:
    """Twelve characters of JSON for every one of a content."""
    _refused(_call(files, "echo", content=GRIN * 900_000), FaultKind.TOOL, "the result is too long (10800023 char")
    _refused(_call(files, "cd", folder=GRIN * 900_000), FaultKind.TOOL, "the result is too long (10800")
    assert _call(files, "echo", content=GRIN * 100_000).fault is None


def test_an_error_text_has_a_bound(begun: Begin) -> None:
    key = "\U000e0001" * 900_000
    _refused(_call(begun("base_50"), "lockDoors", unlock=True, door=[key]), FaultKind.TOOL, "the result is too long")


def test_all_results_have_a_bound(files: BFCLSession) -> None:
    """A file is written once and shown again and again: 61 calls made 986 MB."""
    _call(files, "touch", file_name="f")
    _call(files, "echo", content=GRIN * 300_000, file_name="f")
    shown = [_call(files, "cat", file_name="f") for _ in range(20)]
    assert sum(len(result.raw) for result in shown) < MAX_TEXTS + MAX_TEXT
    _refused(shown[-1], FaultKind.TOOL, "the results of this episode are too long")
    assert files.end_turn().kind is not None


def test_all_arguments_have_a_bound(files: BFCLSession) -> None:
    results = [_call(files, "mkdir", dir_name=f"{number}" + "x" * 900_000) for number in range(8)]
    assert [result.fault is None for result in results] == [True] * 4 + [False] * 4
    _refused(results[-1], FaultKind.ARGUMENTS, f"more than {MAX_EPISODE} characters")
    assert _call(files, "pwd").fault is None


def test_all_time_has_a_bound(bfcl: BFCL) -> None:
    """Every call of its own is within the deadline, and a lock is held meanwhile."""
    hasty = BFCL(deadline=0.1, root=bfcl._catalog.root)
    session = hasty.open(hasty.task("base_15"))
    session.user_message()
    results = [_call(session, "logarithm", value=5 + n, base=10, precision=5_000) for n in range(25)]
    allowed = sum(result.fault is None for result in results)
    assert 10 < allowed < 20
    _refused(results[-1], FaultKind.DEADLINE, "have used up 15 deadlines of 0.1 s")


def test_the_numbers_of_messages_do_not_run_out(bfcl: BFCL, begun: Begin) -> None:
    """There are 90,000; the simulator looks for a free one for ever when all are taken."""
    task = next(t for t in bfcl.tasks("all") if "MessageAPI" in bfcl._catalog.entries[t.id].involved)
    session = begun(task.id)
    for name in ("x", "y"):
        _call(session, "add_contact", user_name=name)
    users = session.instance("MessageAPI").user_map  # type: ignore[attr-defined]
    user = next(iter(users.values()))
    _call(session, "message_login", user_id=user)
    count = 0
    while _call(session, "send_message", receiver_id=user, message="").fault is None:
        count += 1
        assert count < 45_000
    assert count > 2_000


def test_numbers_count_by_their_digits(begun: Begin) -> None:
    session = begun("base_15")
    _refused(_call(session, "sum_values", numbers=[10**4_190] * 900), FaultKind.ARGUMENTS, "too large")
    assert _call(session, "max_value", numbers=[10**4_190] * 50).fault is None


def test_a_deep_value_is_parsed_only_if_it_is_small(files: BFCLSession) -> None:
    """The parser took 6 s and 600 MB for 900,000 values below 21 brackets."""
    deep: object = [0] * 60_000
    for _ in range(21):
        deep = [deep]
    _refused(_call(files, "echo", content=deep), FaultKind.ARGUMENTS, "too deep and too large")


@pytest.mark.parametrize("piece", ["ls(", "\\rm("])
def test_what_the_rewriting_adds_is_counted(files: BFCLSession, piece: str) -> None:
    text = piece * 100_000
    _refused(_call(files, "echo", content=text), FaultKind.ARGUMENTS, f"more than {MAX_SIZE} characters")
    assert _call(files, "echo", content=piece * 1_000).fault is None


def _looks(text: str) -> int:
    """How many characters of `text` the rewriting looks at, by counting reads of slices and single characters."""

    class Counting(str):
        __slots__ = ()
        reads = 0

        def __getitem__(self, key: object) -> str:  # type: ignore[override]
            found = super().__getitem__(key)  # type: ignore[index]
            Counting.reads += len(found)
            return found

    rewrite(Counting(text), lambda name: "i" if name == "rm" else None)
    return Counting.reads


def test_rewriting_is_linear() -> None:
    """Counting backslashes copied all the text before them: 200,000 of these took 10 s."""
    counts: Sequence[int] = [_looks("\\rm(" * size) for size in (1_000, 2_000)]
    assert counts[1] <= 2.1 * counts[0]
    assert rewrite("\\rm(\\\\rm(x rm (", lambda name: "i" if name == "rm" else None) == "\\\\i.rm(\\\\i.rm(x i.rm("


def test_the_size_of_arguments() -> None:
    call = ToolCall("f", {"a": "x" * 10, "b": 1, "c": True, "d": [1, "yy"], "e": 0.5})
    arguments, size = copy_arguments(call, lambda name: None)
    assert arguments == call.arguments
    assert size == 10 + 8 + 1 + (1 + 1 + 2) + 8


def test_long_names_are_short_in_the_evidence(files: BFCLSession) -> None:
    _call(files, "mkdir", dir_name="d" * 900_000)
    _call(files, "mkdir", dir_name="e" * 900_000)
    places = [difference.place for difference in files.end_turn().differences]
    assert len(places) == len(set(places)) >= 2
    assert max(map(len, places)) < 400


def test_refusals_repeat_themselves(begun: Begin) -> None:
    def texts() -> list[str]:
        session = begun("base_0")
        _call(session, "touch", file_name="f")
        _call(session, "echo", content=GRIN * 300_000, file_name="f")
        names = [_call(session, tool, file_name="f").raw for tool in ("cat", "sort", "wc", "tail") * 8]
        return [*names, str(session.end_turn())]

    assert texts() == texts()
