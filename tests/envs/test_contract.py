"""The contract: users who answer, tasks without reference, and environments named where they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes import Counter, CounterSession, Scripted, call, say, script
from seal import envs
from seal.errors import Blame, ConfigError, EnvironmentFailure, MissingError
from seal.labels import diagnose
from seal.models.scripted import ScriptedPolicy
from seal.rollout import Episode, rollout
from seal.task import Task
from seal.taxonomy import Label
from seal.types import Finish, Trajectory, TurnVerdict, Verdict


class Asking(CounterSession):
    """A user who asks back until the agent says a number, and a verifier who looks at the end only."""

    n_turns = None

    def __init__(self, amount: int, fails: Exception | None = None) -> None:
        super().__init__(amount)
        self.n_turns = None
        self.heard: list[str | None] = []
        self.seeds: list[tuple[int, ...]] = []
        self.fails = fails

    def seed(self, seed: tuple[int, ...]) -> None:
        self.seeds.append(seed)

    def user_message(self, answer: str | None = None) -> str | None:
        self.heard.append(answer)
        self.turn, self.called, self.at_turn_start = 0, [], self.value
        if answer is None:
            return f"add {self.amount}"
        if self.fails is not None:
            raise self.fails
        return None if str(self.amount) in answer else "what is it now?"

    def end_turn(self, *, forced: bool = False) -> TurnVerdict:
        self.verdicts.append(TurnVerdict(None))
        return self.verdicts[-1]

    def verdict(self) -> Verdict:
        return Verdict(float(self.value == self.amount))


class Talking(Counter):
    """The counter with such a user, and no reference."""

    name = "talking"

    def __init__(self, fails: Exception | None = None) -> None:
        super().__init__()
        self.fails = fails

    def open(self, task: Task) -> CounterSession:
        self.sessions.append(Asking(int(task.id.partition("_")[2]), self.fails))
        return self.sessions[-1]

    def reference(self, task: Task) -> None:  # type: ignore[override]
        return None


def play(policy: Scripted, environment: Talking) -> Trajectory:
    (tau,) = rollout(environment, [Episode(environment.task("counter_4"), seed=(7, 1))], policy)
    return tau


def test_the_user_hears_the_last_message_of_the_agent_and_decides_when_it_is_over() -> None:
    environment = Talking()
    tau = play(script(call("add", amount=4), say("I added it."), say("It is 4.")), environment)
    session = environment.sessions[0]
    assert isinstance(session, Asking)
    assert session.heard == [None, "I added it.", "It is 4."]
    assert session.seeds == [(7, 1)]
    assert [turn.user for turn in tau.turns] == ["add 4", "what is it now?"]
    assert (tau.n_turns, tau.finish, tau.verdict.reward) == (2, Finish.COMPLETED, 1.0)
    assert diagnose(tau).labels == (Label.PASS, Label.PASS), "the verifier accepted the episode as a whole"


def test_without_a_reference_a_failure_is_undetermined_unless_the_evidence_says_more() -> None:
    tau = play(script(say("Nothing to do."), say("It is 4.")), Talking())
    assert tau.verdict.reward == 0.0
    assert diagnose(tau).labels == (Label.UNDETERMINED, Label.UNDETERMINED)
    tau = play(script(call("add", amount="four"), say("I cannot."), say("It is 4.")), Talking())
    assert diagnose(tau).labels == (Label.ARGUMENT_MISMATCH, Label.UNDETERMINED)


@pytest.mark.parametrize(
    ("error", "blame"),
    [
        (TimeoutError("the user's server is away"), Blame.INFRASTRUCTURE),
        (EnvironmentFailure("a turn was begun inside a turn"), Blame.ENVIRONMENT),
    ],
)
def test_a_user_who_fails_is_never_the_agents_fault(error: Exception, blame: Blame) -> None:
    tau = play(script(call("add", amount=4), say("Done.")), Talking(error))
    assert tau.verdict.reward is None
    assert tau.failure is not None
    assert tau.failure.blame is blame
    assert len(tau.turns) == tau.n_turns == 1


def test_a_session_that_fails_before_its_first_turn_counts_one_turn() -> None:
    class Broken(Talking):
        def open(self, task: Task) -> CounterSession:
            raise OSError("no room")

    tau = play(script(say()), Broken())
    assert tau.n_turns == 1
    assert diagnose(tau).labels == (Label.VERIFIER_ERROR,)


def test_tasks_without_reference_cannot_be_played_by_it() -> None:
    environment = Talking()
    with pytest.raises(ConfigError, match="'counter_1' of talking has no reference calls"):
        ScriptedPolicy.references(environment, environment.tasks("train"))


CODE = """
from fakes import Counter

class Mine(Counter):
    name = "mine"

made = Mine(max_steps=2)
number = 3

def build(*, size: int = 1):
    return Mine(max_steps=size)

class Tools:
    environment = made
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own" / "my-env.py"
    path.parent.mkdir()
    path.write_text(CODE)
    (path.parent / "as_module.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(path.parent))
    return path


@pytest.mark.parametrize("place", ["own/my-env.py", "as_module"])
def test_an_environment_is_named_where_it_stands(file: Path, place: str) -> None:
    assert envs.make(f"{place}:made").max_steps == 2
    assert envs.make(f"{place}:build", size=4).max_steps == 4
    assert envs.make(f"{place}:Mine").name == "mine"
    assert envs.make(f"{place}:Tools.environment") is envs.make(f"{place}:made")
    assert envs.options(f"{place}:build") == ("size",)


def test_a_file_with_one_environment_needs_no_object(file: Path) -> None:
    assert envs.make("own/my-env.py").name == "mine"
    assert envs.make(str(file)) is envs.make("own/my-env.py"), "one file is one module"


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("own/other.py", {}, MissingError, "there is no file 'own/other.py'; a path counts from"),
        ("own/my-env.py:nothing", {}, ConfigError, "has no 'nothing'; environments in it: made"),
        ("own/my-env.py:number", {}, ConfigError, "is a int; expected an environment"),
        ("own/my-env.py:made", {"size": 2}, ConfigError, r"no option 'size' \(options: none\)"),
        ("own/my-env.py:build", {"sise": 2}, ConfigError, "did you mean 'size'"),
        ("no_such_module:x", {}, ConfigError, "there is no module 'no_such_module'"),
        (":x", {}, ConfigError, "expected module:object"),
        ("builtins:dict", {}, ConfigError, "is no environment, it lacks name, max_steps"),
    ],
)
def test_a_name_that_leads_nowhere(
    file: Path, name: str, options: dict[str, int], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        envs.make(name, **options)


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        ("import no_such_package_xyz", MissingError, "needs the Python package 'no_such_package_xyz'"),
        ("x = 1\nx = ) 2", ConfigError, "line 2 cannot be imported: SyntaxError"),
        ("1 / 0", ConfigError, "cannot be imported: ZeroDivisionError: division by zero"),
        ("x = 1", ConfigError, "has no 'environment'; there is no environment in it"),
    ],
)
def test_a_file_that_cannot_be_imported(tmp_path: Path, code: str, error: type[Exception], message: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(code)
    for _ in range(2):  # nothing half imported stays behind
        with pytest.raises(error, match=message):
            envs.make(str(path))
