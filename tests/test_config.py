from __future__ import annotations

import pytest

from seal.config import load_config, parse_config, to_toml
from seal.errors import ConfigError, MissingError


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
        ("rollout.rounds=0", "must be positive"),
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
    with pytest.raises(ConfigError, match="configuration: unknown key"):
        parse_config({"nope": 1})
