"""`seal train` around an engine that does not train: what is asked of it, what is said, what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from cli_support import Seal, record
from seal.cli import recipes
from seal.config import RunConfig, load_config
from seal.engines.progress import Reporter, Silent
from seal.engines.rundir import RunDirectory
from seal.errors import MissingError, StorageError

RATE = {"success": 0.25, "n": 40, "low": 0.1419, "high": 0.4019, "by_category": {}}


class Engine:
    """Stands for `seal.engines.trl.train`: keeps what it was given, makes the directory, reports two rounds."""

    def __init__(self) -> None:
        self.config = RunConfig()
        self.directory = Path()
        self.resume: bool | None = None
        self.anyway: bool | None = None
        self.raises: BaseException | None = None
        self.line: dict[str, Any] = {}

    def __call__(
        self,
        config: RunConfig,
        run_dir: Path,
        *,
        resume: bool = False,
        anyway: bool = False,
        reporter: Reporter | None = None,
    ) -> dict[str, Any]:
        self.config, self.directory, self.resume, self.anyway = config, run_dir, resume, anyway
        reporter = reporter or Silent()
        with RunDirectory(run_dir, config, resume=resume) as run:
            sys.stdout.write("a library that talks on stdout\n")
            for index in range(2):
                reporter.begin("rollout", round_index=index, total=64)
                reporter.advance(64)
                run.write_round({"round": index, **self.line})
                reporter.finished_round(record(index, success=0.1 * (index + 1)))
            if self.raises is not None:
                raise self.raises
        return {
            "seed": config.seed,
            "rounds": 2,
            "seconds": 20.0,
            "model": config.model.source,
            "environment": config.environment.name,
            "validation": {"before": None, "after": RATE, "best": RATE},
            "best": {"round": 1, "success": 0.25},
            "checkpoint": "checkpoints/best",
        }


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr("seal.engines.trl.train", made)
    return made


def test_without_arguments_it_runs_the_default_recipe(seal: Seal, engine: Engine) -> None:
    outcome = seal("train")
    assert outcome.code == 0
    assert engine.config == load_config(recipes.home() / f"{recipes.DEFAULT}.toml")
    assert engine.directory == Path("runs/demo")
    assert engine.resume is False
    assert "25.0 % (14.2 to 40.2, 40 episodes)" in outcome.out
    assert "seal eval --model runs/demo" in outcome.out


def test_flags_and_settings_lie_on_top_of_the_recipe(seal: Seal, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("seed = 3\n[rollout]\nrounds = 9\nprompts = 4\n")
    flags = (
        "--model",
        "7",
        "--env",
        "counter",
        "--rounds",
        5,
        "--set",
        "update.kl=0.5",
        "--set",
        "model.device=cuda:1",
    )
    assert seal("train", "--recipe", "mine.toml", *flags).code == 0
    config = engine.config
    assert (config.seed, config.rollout.rounds, config.rollout.prompts) == (3, 5, 4)
    assert (config.model.source, config.environment.name) == ("7", "counter")
    assert (config.update.kl, config.model.device) == (0.5, "cuda:1")
    assert engine.directory == Path("runs/mine")


def test_json_is_the_summary_and_nothing_else(seal: Seal, engine: Engine) -> None:
    outcome = seal("train", "--json", "--seed", 11)
    assert outcome.json["seed"] == 11
    assert outcome.json["best"] == {"round": 1, "success": 0.25}
    assert outcome.out.count("\n") == 1
    assert "a library that talks on stdout" in outcome.err


def test_away_from_a_terminal_every_round_is_one_line(seal: Seal, engine: Engine) -> None:
    lines = [line for line in seal("train", "--rounds", 2).err.splitlines() if line.startswith("round ")]
    assert len(lines) == 2
    assert "round 2/2 | success 20.0 %" in lines[1]
    assert seal("train", "--quiet", "--run", "other").err == ""


def test_a_run_without_any_contrast_does_not_end_as_a_success(seal: Seal, engine: Engine) -> None:
    assert "NOTHING TO LEARN FROM" not in seal("train", "--run", "good").out
    engine.line = {"success": 0.0, "zero_variance": 1.0}
    told = seal("train", "--run", "flat")
    assert "NOTHING TO LEARN FROM: in all 2 rounds no group had contrast" in told.out
    assert "seal trace show flat --round 1" in told.out


def test_a_used_directory_is_refused_and_a_resumed_one_keeps_its_configuration(seal: Seal, engine: Engine) -> None:
    assert seal("train", "--run", "run", "--seed", 5).code == 0
    again = seal("train", "--run", "run")
    assert again.code == 2
    assert "--resume" in again.err
    assert "--run" in again.err
    engine.resume = None
    assert seal("train", "--run", "run", "--resume").code == 0
    assert engine.resume is True
    assert engine.config.seed == 5
    assert seal("train", "--run", "run", "--resume", "--set", "output.keep=4").code == 0
    other = seal("train", "--run", "run", "--resume", "--seed", 6)
    assert other.code == 2
    assert "seed = 5" in other.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--recipe", "bfcl-smolm2"), "did you mean 'bfcl-smollm2'?"),
        (("--recipe", "nowhere/x.toml"), "there is no recipe 'nowhere/x.toml'"),
        (("--recipe", "broken.toml"), "broken.toml is not valid TOML"),
        (("--recipe", "unknown.toml"), "unknown.toml: unknown key 'rollout.round'; did you mean 'rounds'?"),
        (("--set", "rollout.rounds=-1"), "rollout.rounds must be a number from 1"),
        (("--set", "rounds"), "an override reads section.key=value"),
        (("--rounds", "0"), "rollout.rounds must be a number from 1"),
        (("--resume",), "there is no run to resume in runs/demo"),
        (("--run", "file"), "cannot write file"),
        (("--run", "file/below"), "cannot write file/below"),
        (("--run", "/proc/nowhere"), "cannot write /proc/nowhere"),
    ],
)
def test_bad_input_is_one_message(
    seal: Seal, engine: Engine, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "broken.toml").write_text("[rollout\n")
    (tmp_path / "unknown.toml").write_text("[rollout]\nround = 3\n")
    (tmp_path / "file").write_text("")
    outcome = seal("train", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def test_a_directory_in_use_is_refused(seal: Seal, engine: Engine, tmp_path: Path) -> None:
    with RunDirectory(tmp_path / "run", RunConfig(), resume=False):
        outcome = seal("train", "--run", "run", "--resume")
    assert outcome.code == 2
    assert "another process is training in run" in outcome.err


def test_an_unknown_environment_and_a_missing_model_reach_the_user(seal: Seal) -> None:
    outcome = seal("train", "--env", "countr")
    assert outcome.code == 2
    assert "did you mean 'counter'?" in outcome.err


def test_what_differs_is_accepted_by_a_flag_for_resuming(seal: Seal, engine: Engine) -> None:
    assert seal("train", "--run", "run").code == 0
    assert engine.anyway is False
    assert seal("train", "--run", "run", "--resume", "--anyway").code == 0
    assert engine.anyway is True
    refused = seal("train", "--run", "other", "--anyway")
    assert (refused.code, "--anyway is for --resume" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "seal train --resume --run 'my run'"),
        (StorageError("cannot write x: No space left on device; free some space"), 2, "free some space"),
        (MissingError("there is no model at here"), 2, "there is no model at here"),
        (ModuleNotFoundError("No module named 'trl'", name="trl"), 2, "pip install 'seal-rl[trl]'"),
        (ModuleNotFoundError("No module named 'seal.oops'", name="seal.oops"), 70, "This is a bug in seal"),
        (RuntimeError("I/O error: File too large (os error 27)"), 2, "The disk is full"),
        (RuntimeError("CUDA error"), 70, "Unexpected RuntimeError: CUDA error"),
    ],
)
def test_how_a_run_can_end(seal: Seal, engine: Engine, raised: BaseException, code: int, words: str) -> None:
    engine.raises = raised
    outcome = seal("train", "--run", "my run", "--json")
    assert outcome.code == code
    assert words in outcome.err
    assert outcome.out == ""
    assert (Path("my run") / "rounds.jsonl").read_text().count("\n") == 2, "what was written stays"


@pytest.mark.parametrize("name", recipes.names())
def test_recipes_of_the_project_are_found_by_name_and_by_path(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert recipes.find(name) == recipes.find(f"recipes/{name}.toml") == recipes.home() / f"{name}.toml"
    load_config(recipes.find(name))


def test_a_recipe_with_dots_in_its_name_names_its_run(seal: Seal, engine: Engine) -> None:
    assert seal("train", "--recipe", "bfcl-qwen2.5-7b").code == 0
    assert engine.directory == Path("runs/bfcl-qwen2.5-7b")


def test_table_4_stands_in_the_recipe() -> None:
    config = load_config(recipes.find("bfcl-qwen2.5-7b"))
    assert config.rollout.group_size == 8
    assert config.rollout.prompts == 32
    assert config.mini_batch == 8
    assert config.rollout.rounds * config.rollout.prompts == 6 * 400
    assert (config.update.learning_rate, config.update.clip, config.update.kl) == (1e-6, 0.2, 0.001)
    assert (config.update.entropy, config.rollout.temperature) == (0.0, 1.0)
    assert config.model.max_context == 16384
    assert config.environment.options["max_steps"] == 20
    assert config.environment.options["splits"] == "published"


def test_a_local_file_goes_before_a_recipe_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "bfcl-smollm2.toml").write_text("seed = 8\n")
    assert load_config(recipes.find("recipes/bfcl-smollm2.toml")).seed == 8
    assert load_config(recipes.find("bfcl-smollm2")).seed == 0


def test_the_configuration_reference_is_up_to_date() -> None:
    scripts = Path(__file__).resolve().parents[2] / "scripts"
    sys.path.insert(0, str(scripts))
    try:
        import make_config_docs  # type: ignore[import-not-found,unused-ignore]
    finally:
        sys.path.remove(str(scripts))
    assert make_config_docs.TARGET.read_text(encoding="utf-8") == make_config_docs.render(), "run `make docs`"


class Verl(Engine):
    """Stands for `seal.engines.verl.train`."""

    settings: tuple[str, ...] = ()

    def __call__(self, config: RunConfig, run_dir: Path, *, settings: Any = (), **options: Any) -> dict[str, Any]:  # type: ignore[override]
        self.settings = tuple(settings)
        answer = super().__call__(config, run_dir, **options)
        (run_dir / "verl.json").write_text("[]")
        return answer


@pytest.fixture
def verl(monkeypatch: pytest.MonkeyPatch) -> Verl:
    made = Verl()
    monkeypatch.setattr("seal.engines.verl.train", made)
    monkeypatch.setattr("seal.cli.train.find_spec", lambda _name: True)
    return made


def test_the_engine_verl_gets_its_settings_and_keeps_its_runs(seal: Seal, engine: Engine, verl: Verl) -> None:
    flags = ("--engine", "verl", "--verl", "trainer.nnodes=2", "--verl", "a.b=[c]")
    assert seal("train", "--run", "run", *flags).code == 0
    assert verl.settings == ("trainer.nnodes=2", "a.b=[c]")
    assert engine.directory == Path()
    assert seal("train", "--run", "run", "--resume").code == 0
    assert verl.resume is True
    assert verl.settings == ()
    other = seal("train", "--run", "run", "--resume", "--engine", "trl")
    assert other.code == 2
    assert "was started with --engine verl" in other.err


def test_settings_of_verl_without_its_engine_are_refused(seal: Seal, engine: Engine) -> None:
    outcome = seal("train", "--verl", "trainer.nnodes=2")
    assert outcome.code == 2
    assert "--verl is for --engine verl" in outcome.err
    assert "trl, verl" in seal("train", "--engine", "megatron").err.replace("'", "").replace('"', "")


def test_without_verl_one_is_told_how_to_get_it(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seal.cli.train.find_spec", lambda _name: None)
    outcome = seal("train", "--engine", "verl")
    assert outcome.code != 0
    assert "make setup-verl" in outcome.err
