from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import letter
from engines.runs import BASE, rounds, same, timeless, weights
from seal.config import load_config
from seal.engines.checkpoints import STATE
from seal.errors import ConfigError, DataError, MissingError
from seal.trace import read_traces

torch = pytest.importorskip("torch")

PLACES = os.pathsep.join([str(Path(letter.__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
"""Where child processes find this directory, and whatever this process was told."""


def test_a_run_leaves_what_it_promises(run) -> None:
    directory, summary = run("interface.recipe=static", "exposure.peak=0.5")
    assert {p.name for p in directory.iterdir()} >= {
        "config.toml",
        "rounds.jsonl",
        "traces",
        "checkpoints",
        "summary.json",
    }
    assert json.loads((directory / "summary.json").read_text()) == summary
    records = rounds(directory)
    assert [r["round"] for r in records] == [0, 1, 2]
    assert [r["validation"] is not None for r in records] == [False, True, True]
    first = records[0]
    assert first["rollouts"] == 8
    assert 0 < first["success"] < 1
    assert sum(first["labels"].values()) + sum(first["profile"]["outside"].values()) == 16
    assert set(first["seconds"]) == {
        "rollout", "diagnose", "profile", "weights", "evolve", "reliance", "update", "validation", "total",
    }  # fmt: skip
    assert first["interface"]["active"]
    assert math.isfinite(first["reliance"]["mean"])
    assert set(first["reliance"]["by_cue"]) >= {"cap.act", "schema.required"}
    assert first["update"]["grad_norm"] > 0
    traced = list(read_traces(directory / "traces" / "round-0000.jsonl"))
    assert len(traced) == 8
    assert sum(t.trajectory.interface is not None for t in traced) == 4
    assert all((t.reliance is not None) == (t.trajectory.interface is not None) for t in traced)
    assert sum(t.advantage for t in traced) == pytest.approx(0, abs=1e-5)
    assert not list(directory.rglob("*.tmp"))


def test_the_update_moves_weights_towards_what_succeeded(run, model_dir) -> None:
    from safetensors.torch import load_file

    directory, _ = run("evaluation.every=0", "rollout.rounds=1")
    before, after = load_file(model_dir / "model.safetensors"), weights(directory)
    assert not same(before, after)


def test_success_rises(run) -> None:
    directory, _ = run(
        "evaluation.every=0",
        "rollout.rounds=10",
        "rollout.prompts=4",
        "rollout.group_size=8",
        "update.micro_batch=8",
        "update.learning_rate=0.03",
    )
    success = [record["success"] for record in rounds(directory)]
    assert sum(success[-3:]) / 3 > sum(success[:3]) / 3 + 0.25


def test_the_same_seed_gives_the_same_run(run) -> None:
    one, _ = run(name="one")
    two, _ = run(name="two")
    assert timeless(one) == timeless(two)
    assert same(weights(one), weights(two))
    other, _ = run("seed=1", name="other")
    assert timeless(one) != timeless(other)


CHOOSING = (
    "interface.recipe=random", "interface.by=tool", "interface.budget=120", "interface.weaning=helpfulness",
    "interface.measure_every=2", "exposure.peak=0.5",
)  # fmt: skip
"""A state of the interface with everything in it: draws, costs, helpfulness, tools, limits."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("extra", [(), ("update.mini_batch=1", "weights.preset=adaptive", *CHOOSING)])
def test_a_killed_run_ends_with_the_weights_of_one_that_was_not(run, tmp_path, model_dir, extra) -> None:
    """SIGKILL at whatever moment; resume as often as it takes."""
    whole, _ = run(*extra, name="whole")
    killed = tmp_path / "killed"
    overrides = [*BASE, f"model.source={model_dir}", *extra]
    code = (
        "import sys, letter, logging; letter.register(); from pathlib import Path; "
        "from seal.config import load_config; from seal.engines.trl import train; "
        f"train(load_config(None, {overrides!r}), Path(sys.argv[1]), resume=sys.argv[2] == 'resume')"
    )
    environment = {**os.environ, "PYTHONPATH": PLACES, "OMP_NUM_THREADS": "1"}
    # Kill when something has just appeared: the first round's line, then the second checkpoint half written.
    for wanted, mode in (("rounds.jsonl", "new"), ("checkpoints/checkpoint-*/optimizer.pt", "resume")):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(killed), mode], env=environment, stderr=subprocess.DEVNULL
        )
        before = set(killed.glob(wanted))
        deadline = time.monotonic() + 600
        while process.poll() is None and not set(killed.glob(wanted)) - before:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    resumed, _ = run(*extra, name="killed", resume=True)
    assert timeless(resumed) == timeless(whole)
    last = max((whole / "checkpoints").glob("checkpoint-*"), key=lambda p: int(p.name[11:])).name
    assert same(weights(resumed, last), weights(whole, last))
    assert same(weights(resumed), weights(whole))


def test_a_torn_checkpoint_is_not_resumed_from(run) -> None:
    directory, _ = run(name="whole")
    torn = max((directory / "checkpoints").glob("checkpoint-*"), key=lambda p: int(p.name[11:]))
    (torn / STATE).unlink()
    (torn / "optimizer.pt").write_bytes(b"half")
    expected = timeless(directory)
    run(name="whole", resume=True)
    assert timeless(directory) == expected


def test_damage_is_found_before_it_can_reach_the_weights(run, monkeypatch) -> None:
    directory, _ = run(name="whole")
    expected, best = timeless(directory), weights(directory)
    newest = max((directory / "checkpoints").glob("checkpoint-*"), key=lambda p: int(p.name[11:]))
    last = weights(directory, newest.name)
    optimizer = newest / "optimizer.pt"
    content = bytearray(optimizer.read_bytes())
    content[len(content) // 2] ^= 16
    optimizer.write_bytes(content)
    run(name="whole", resume=True)
    assert timeless(directory) == expected
    assert same(weights(directory), best)
    assert same(weights(directory, newest.name), last)

    monkeypatch.setattr("seal.engines.origin.version", lambda name: "0.1" if name == "torch" else "1")
    with pytest.raises(ConfigError, match=r"torch was 2[^,]*, now it is 0\.1"):
        run(name="whole", resume=True)
    monkeypatch.undo()

    (directory / "checkpoints" / "best" / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"best/model\.safetensors is missing"):
        run(name="whole", resume=True)


def test_another_starting_model_is_another_run(run, model_dir, tmp_path) -> None:
    directory, _ = run("rollout.rounds=1", "evaluation.every=0")
    moved = tmp_path / "copy"
    shutil.copytree(model_dir, moved)
    content = bytearray((model_dir / "model.safetensors").read_bytes())
    content[-1] ^= 1
    try:
        (model_dir / "model.safetensors").write_bytes(content)
        with pytest.raises(ConfigError, match=r"model was SHA-256 .*, now it is SHA-256"):
            run("rollout.rounds=1", "evaluation.every=0", resume=True)
    finally:
        shutil.copy(moved / "model.safetensors", model_dir)
    run("rollout.rounds=1", "evaluation.every=0", resume=True)
    assert (directory / "summary.json").is_file()


@pytest.mark.parametrize("score_on", ["shown", "bare", "both"])
def test_scoring_contexts(run, score_on) -> None:
    directory, _ = run(
        f"update.score_on={score_on}", "interface.recipe=static", "rollout.rounds=2", "update.mini_batch=1"
    )
    assert all(math.isfinite(r["update"]["loss"]) for r in rounds(directory))


def test_without_cues_all_scoring_contexts_are_one(run) -> None:
    results = [
        weights(
            run(f"update.score_on={s}", "interface.recipe=off", "rollout.rounds=1", "evaluation.every=0", name=s)[0]
        )
        for s in ("shown", "bare", "both")
    ]
    assert same(results[0], results[1])
    for key in results[0]:  # the batch is doubled: the same gradient up to the order of sums
        assert torch.allclose(results[0][key], results[2][key], atol=2e-3), key


def test_lora_with_kl_and_several_steps_a_round(run) -> None:
    directory, _ = run(
        "lora.enabled=true",
        "lora.r=2",
        "update.kl=0.1",
        "update.mini_batch=1",
        "update.iterations=2",
        "weights.by=turn",
    )
    assert (directory / "checkpoints" / "best" / "adapter_config.json").is_file()
    assert all(r["update"]["kl"] >= 0 for r in rounds(directory))


def test_full_weights_with_kl(run) -> None:
    directory, _ = run("update.kl=0.1")
    assert rounds(directory)[0]["update"]["kl"] == pytest.approx(0, abs=1e-6)
    assert rounds(directory)[-1]["update"]["kl"] > 0


def test_the_held_out_split_is_tested_before_and_after(run) -> None:
    directory, summary = run(
        "evaluation.held_out=validation", "evaluation.held_out_tasks=2", "update.learning_rate=0.05"
    )
    assert {summary["held_out"][when]["n"] for when in ("before", "after")} == {2}
    for when in ("before", "after"):
        (successes,) = {
            sum(t.trajectory.verdict.reward for t in read_traces(directory / "traces" / f"held-out-{when}.jsonl"))
        }
        assert successes == summary["held_out"][when]["success"] * 2


def test_the_interface_gap_is_measured_greedy_and_sampled_on_the_same_tasks(run) -> None:
    directory, _ = run("interface.recipe=static", "evaluation.interface_gap=true", "rollout.rounds=2")
    plain, _ = run("interface.recipe=static", "rollout.rounds=2", name="plain")
    (first, last), (_, other) = rounds(directory), rounds(plain)
    assert first["interface_gap"] is None, "evaluation.every is 2"
    gap = last["interface_gap"]
    assert gap["active"] == last["interface"]["active"]
    assert gap["sampled"]["temperature"] == 1.0
    assert gap["greedy"]["bare"] == last["validation"]["success"]
    for name in ("greedy", "sampled"):
        found = gap[name]
        assert found["n"] == last["validation"]["n"]
        assert found["difference"] == pytest.approx(found["shown"] - found["bare"])
        assert found["low"] <= found["difference"] <= found["high"]
    assert other["interface_gap"] is None
    assert same(weights(directory), weights(plain)), "measuring the gap changes nothing"


def test_without_cues_there_is_no_gap_to_measure(run) -> None:
    directory, _ = run("interface.recipe=off", "evaluation.interface_gap=true", "rollout.rounds=2")
    assert [record["interface_gap"] for record in rounds(directory)] == [None, None]


def test_a_tracker_that_is_not_installed(run, monkeypatch) -> None:
    from seal.engines import trackers

    monkeypatch.setattr(trackers, "find_spec", lambda _name: None)
    with pytest.raises(MissingError, match=r"pip install 'seal-rl\[wandb\]'"):
        run("output.report_to=['wandb']")


def test_too_few_tasks_for_a_round(run) -> None:
    with pytest.raises(ConfigError, match="a round needs 10 different tasks"):
        run("rollout.prompts=10", "update.micro_batch=1")


@pytest.fixture
def thinking_model(tmp_path, tokenizer_for, model_for) -> Path:
    tokenizer = tokenizer_for("qwen3")
    model_for(len(tokenizer), positions=512).save_pretrained(tmp_path / "thinking")
    tokenizer.save_pretrained(tmp_path / "thinking")
    return tmp_path / "thinking"


def test_thinking_is_switched_off_in_training_and_evaluation_alike(
    tmp_path, thinking_model, tokenizer_for, capsys
) -> None:
    from seal.cli.policies import policy_for
    from seal.engines.progress import Silent
    from seal.engines.trl import train
    from seal.envs import make
    from seal.evaluate import evaluate

    class Told(Silent):
        def __init__(self) -> None:
            self.notes: list[str] = []

        def note(self, text: str) -> None:
            self.notes.append(text)

    told, directory, tokenizer = Told(), tmp_path / "run", tokenizer_for("qwen3")
    overrides = [*BASE, f"model.source={thinking_model}", "rollout.rounds=1", "evaluation.every=0"]
    off = "model.template_options.enable_thinking=false"
    train(load_config(None, [*overrides, off]), directory, reporter=told)
    opening = "<think>\n\n</think>\n\n"
    described = json.loads((directory / "chat.json").read_text())
    assert described["template_options"] == {"enable_thinking": False}
    assert described["opens_with"] == opening
    (difference,) = described["differences"]
    assert "opens with" in difference
    assert told.notes == [f"chat template: {text}" for text in described["differences"]]

    environment = make("letter")
    tasks = environment.tasks("validation").take(1)
    for options, expected in (({}, True), ({"template_options": {}}, False)):
        capsys.readouterr()
        policy = policy_for(str(directory), environment, tasks, temperature=0.0, options=options)
        (pair,) = evaluate(environment, tasks, policy, seed=0)
        text = tokenizer.decode(pair[0].turns[0].steps[0].generation.tokens.shown)
        assert text.endswith(opening) is expected
        assert ("the generation prompt opens with" in capsys.readouterr().err) is expected
    first = next(read_traces(directory / "traces" / "round-0000.jsonl")).trajectory
    assert tokenizer.decode(first.turns[0].steps[0].generation.tokens.shown).endswith(opening)

    with pytest.raises(ConfigError, match=r"template_options\.enable_thoughts: .* did you mean 'enable_thinking'"):
        train(load_config(None, [*overrides, "model.template_options.enable_thoughts=false"]), tmp_path / "other")
    with pytest.raises(ConfigError, match="template_options must be a table"):
        policy_for(str(directory), environment, tasks, temperature=0.0, options={"template_options": "off"})
