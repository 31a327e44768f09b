from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from seal.config import RunConfig, load_config, parse_config, to_toml
from seal.errors import ConfigError, MissingError
from seal.interface import Recipe


def test_what_is_written_reads_back(tmp_path) -> None:
    config = load_config(None, ["model.source=some/model", "rollout.rounds=3", "interface.cues=['cap.act']"])
    assert (config.model.source, config.rollout.rounds, config.interface.cues) == ("some/model", 3, ("cap.act",))
    (tmp_path / "c.toml").write_text(to_toml(config))
    assert load_config(tmp_path / "c.toml") == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rolout.rounds=2", "unknown key 'rolout'; did you mean 'rollout'"),
        ("rollout.round=2", "unknown key 'rollout.round'; did you mean 'rounds'"),
        ("rollout.rounds=many", "rollout.rounds must be int, got 'many'"),
        ("rollout.rounds=true", "rollout.rounds must be int, got True"),
        ("rollout.rounds=0", r"rollout\.rounds must be a number from 1 to 1000000, got 0"),
        ("rollout=3", r"\[rollout\] must be a section|must be a section"),
        ("update.score_on=cued", "one of 'shown', 'bare', 'both', got 'cued'"),
        ("interface.recipe=none", "one of 'off', 'paper'"),
        ("interface.cues=['nope']", "unknown cue 'nope'"),
        ("update.mini_batch=3", "must divide rollout.prompts"),
        ("update.micro_batch=5", "must divide mini_batch x group_size"),
        ("output.report_to=['mlflow']", "unknown 'mlflow'"),
        ("rounds", "section.key=value"),
        ("seed.x=1", "unknown key|must be int|is a value"),
    ],
)
def test_mistakes_get_one_message_that_names_the_place(override, message) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, [override])


def test_files_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(MissingError, match="there is no recipe"):
        load_config(tmp_path / "none.toml")
    with pytest.raises(MissingError, match="there is no recipe"):
        load_config(tmp_path)
    (tmp_path / "bad.toml").write_text("[rollout\n")
    with pytest.raises(ConfigError, match=r"bad\.toml is not valid TOML"):
        load_config(tmp_path / "bad.toml")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(ConfigError, match=r"deep\.toml is nested too deeply"):
        load_config(tmp_path / "deep.toml")
    (tmp_path / "long.toml").write_text("seed = " + "9" * 5000)
    with pytest.raises(ConfigError, match=r"long\.toml is not valid TOML: Exceeds the limit"):
        load_config(tmp_path / "long.toml")
    with pytest.raises(ConfigError, match="configuration: unknown key"):
        parse_config({"nope": 1})


KEPT_BARE = ("update.score_on=bare", "update.cued_failures=keep", "update.kl=0.001")


def test_a_combination_that_may_blow_up_is_said_with_its_reason() -> None:
    (caution,) = load_config(None, KEPT_BARE).cautions()
    assert "score_on = 'bare' with cued_failures = 'keep' and kl = 0.001" in caution
    assert "cued_failures = 'drop', or kl = 0, or score_on = 'shown'" in caution
    for mended in ("update.score_on=shown", "update.cued_failures=drop", "update.kl=0", "interface.recipe=off"):
        assert load_config(None, [*KEPT_BARE, mended]).cautions() == []


def test_the_control_differs_from_the_default_recipe_in_what_is_shown_alone() -> None:
    recipes = Path(__file__).parents[1] / "recipes"
    default, control = (load_config(recipes / f"{name}.toml") for name in ("workshop", "workshop-control"))
    assert control.interface.recipe is Recipe.PLACEBO
    assert replace(control, interface=replace(control.interface, recipe=Recipe.CLOSED_LOOP)) == default


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        (".".join(["a"] * 3000) + " = 1", "nested too deeply"),
        ("seed = " + "9" * 6000, "not valid TOML"),
        ("seed = 1\x00", "not valid TOML"),
    ],
    ids=["brackets", "dots", "digits", "nul"],
)
def test_toml_that_the_reader_chokes_on(tmp_path, text, words) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_config(path)


def test_an_override_that_is_nested_too_deeply() -> None:
    with pytest.raises(ConfigError, match=r"override of environment\.options\.x is nested too deeply"):
        load_config(None, ["environment.options.x=" + "[" * 3000 + "]" * 3000])


def test_recipes_that_extend_the_default_differ_in_what_their_names_say() -> None:
    recipes = Path(__file__).resolve().parents[1] / "recipes"
    default = load_config(recipes / "workshop.toml")
    for name, sections in {
        "workshop-control": {"interface"},
        "workshop-vanilla": {"interface", "exposure", "update"},
        "workshop-naive": {"exposure", "update"},
        "workshop-rescue": {"exposure", "update"},
        "workshop-sage": {"exposure", "update"},
        "workshop-sdar": {"exposure", "distill", "update"},
        "workshop-opsd": {"exposure", "distill", "update"},
        "workshop-sdpo": {"interface", "exposure", "distill", "update"},
        "workshop-aem": {"interface", "exposure", "weights", "update"},
    }.items():
        other = load_config(recipes / f"{name}.toml")
        different = {f.name for f in fields(RunConfig) if getattr(other, f.name) != getattr(default, f.name)}
        assert different == sections, name


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["rollout.sampler=vlm"], "rollout.sampler"),
        (["rollout.sampler_tolerance=0.1"], "needs rollout.sampler = 'vllm'"),
        (["update.importance_cap=2.0"], "needs rollout.sampler = 'vllm'"),
        (["rollout.sampler=vllm", "update.importance_cap=0.5"], "importance_cap"),
        (["rollout.sampler=vllm", "update.importance_cap=2.0", "update.score_on=bare"], "score_on = 'shown'"),
        (["rollout.sampler=vllm", "update.importance_cap=2.0", "update.score_on=both"], "score_on = 'shown'"),
        (["rollout.sampler=vllm", "lora.enabled=true", "model.dtype=bfloat16"], "model.dtype = 'float32'"),
        (["rollout.sampler=vllm", "model.trust_remote_code=true"], "trust_remote_code"),
        (["rollout.sampler=vllm", "model.device=mps"], "mps"),
    ],
)
def test_what_the_sampler_cannot_do_is_refused_by_name(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(None, overrides)


def test_what_the_sampler_can_do_is_not() -> None:
    config = load_config(None, ["rollout.sampler=vllm", "update.importance_cap=2.0", "lora.enabled=true"])
    assert config.update.importance_cap == 2.0
