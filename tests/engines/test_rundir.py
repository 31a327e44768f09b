from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seal.config import load_config
from seal.engines.checkpoints import Checkpoints
from seal.engines.rundir import RunDirectory, read_config
from seal.engines.whole import read_signed
from seal.errors import ConfigError, DataError, MissingError, StorageError

ORIGIN = {"torch": "2.13.0", "model": "SHA-256 00"}


def config(*overrides):
    return load_config(None, overrides)


def save(run, rounds, *, best_round=None, keep=2, size=1000):
    """A checkpoint as an engine would leave it."""
    place = run.store.path / f"checkpoint-{rounds}"
    place.mkdir()
    (place / "model.safetensors").write_bytes(bytes([rounds]) * size)
    (place / "optimizer.pt").write_bytes(bytes([100 + rounds]) * 50)
    run.store.save(place, {"at": rounds}, rounds=rounds, best_round=best_round, keep=keep)


def make(path, rounds, *, best=(), keep=2):
    """A run of some rounds; `best` are those that became the best checkpoint."""
    with RunDirectory(path, config(), resume=False) as run:
        run.take_up(ORIGIN)
        latest = None
        for t in range(rounds):
            run.write_round({"round": t, "text": "x" * 50})
            run.write_traces(t, [])
            (path / "traces" / f"round-{t:04d}.jsonl").write_text(f"a trace of round {t}\n")
            if t in best:
                latest = t
                run.store.keep_best(t, lambda place, t=t: (place.mkdir(), (place / "w").write_bytes(bytes([t]) * 9)))
            save(run, t + 1, best_round=latest, keep=keep)


def take_up(path, *, anyway=False, origin=None):
    with RunDirectory(path, config(), resume=True, anyway=anyway) as run:
        return run.take_up(origin or ORIGIN)


def flip(path, position=0):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def test_a_run_is_made_and_taken_up_again(tmp_path) -> None:
    with RunDirectory(tmp_path / "run", config(), resume=False) as run:
        run.take_up(ORIGIN)
        for t in range(3):
            run.write_round({"round": t})
            run.write_traces(t, [])
            if t == 0:
                save(run, 1)
    assert read_config(tmp_path / "run") == config()
    with RunDirectory(tmp_path / "run", config("output.keep=3"), resume=True) as run:
        assert run.take_up(ORIGIN).rounds == 1
        run.write_round({"round": 1})
    assert (tmp_path / "run" / "rounds.jsonl").read_text() == '{"round":0}\n{"round":1}\n'
    assert [p.name for p in (tmp_path / "run" / "traces").iterdir()] == ["round-0000.jsonl"]


def test_a_run_is_not_overwritten_nor_changed_on_the_way(tmp_path) -> None:
    with RunDirectory(tmp_path, config(), resume=False) as run:
        run.write_round({"round": 0})
    with pytest.raises(ConfigError, match="not empty; continue with --resume"):
        RunDirectory(tmp_path, config(), resume=False)
    with pytest.raises(ConfigError, match="started with seed = 0, now it is 1"):
        RunDirectory(tmp_path, config("seed=1"), resume=True)
    with pytest.raises(MissingError, match="no run to resume"):
        RunDirectory(tmp_path / "other", config(), resume=True)
    with pytest.raises(MissingError, match="no config"):
        read_config(tmp_path / "other")


def test_a_run_that_never_began_may_be_begun_with_another_configuration(tmp_path) -> None:
    RunDirectory(tmp_path, config("model.source=nonsense"), resume=False).close()
    RunDirectory(tmp_path, config(), resume=False).close()
    assert read_config(tmp_path) == config()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        RunDirectory(tmp_path, config(), resume=False)


def test_one_process_at_a_time(tmp_path) -> None:
    code = (
        "import sys; from pathlib import Path; from seal.config import RunConfig; "
        "from seal.engines.rundir import RunDirectory; "
        "run = RunDirectory(Path(sys.argv[1]), RunConfig(), resume=False); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match="another process is training"):
            RunDirectory(tmp_path / "run", config(), resume=True)
        holder.kill()
    RunDirectory(tmp_path / "run", config(), resume=True).close()


def test_a_place_that_cannot_be_written(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write"):
        RunDirectory(tmp_path / "file" / "run", config(), resume=False)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "seal_state.json"])
@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_a_damaged_newest_checkpoint_is_skipped_and_said(tmp_path, name, damage) -> None:
    make(tmp_path, 3, best=(0,))
    damage(tmp_path / "checkpoints" / "checkpoint-3" / name)
    found = take_up(tmp_path)
    assert (found.path.name, found.state, found.rounds) == ("checkpoint-2", {"at": 2}, 2)
    assert "checkpoint-3 is left out" in found.notes[0]
    assert name in found.notes[0]
    assert not (tmp_path / "checkpoints" / "checkpoint-3").exists(), "its round is made again"
    assert (tmp_path / "rounds.jsonl").read_text().count("\n") == 2
    assert not (tmp_path / "traces" / "round-0002.jsonl").exists()


def test_a_file_that_was_not_there_is_damage(tmp_path) -> None:
    make(tmp_path, 2)
    (tmp_path / "checkpoints" / "checkpoint-2" / "pytorch_model.bin").write_text("x")
    found = take_up(tmp_path)
    assert found.path.name == "checkpoint-1"
    assert "pytorch_model.bin was not there" in found.notes[0]


def test_if_no_checkpoint_is_whole_each_damaged_file_is_named_and_nothing_is_deleted(tmp_path) -> None:
    make(tmp_path, 2)
    checkpoints = tmp_path / "checkpoints"
    flip(checkpoints / "checkpoint-2" / "model.safetensors")
    cut(checkpoints / "checkpoint-1" / "optimizer.pt")
    (checkpoints / "checkpoint-1" / "model.safetensors").unlink()
    before = sorted(tmp_path.rglob("*"))
    for anyway in (False, True):
        with pytest.raises(DataError) as caught:
            take_up(tmp_path, anyway=anyway)
        text = str(caught.value)
        assert "checkpoint-2: model.safetensors has other content" in text
        assert "checkpoint-1: model.safetensors is missing; optimizer.pt has 25 of 50 bytes" in text
        assert "--anyway" not in text, "no flag makes weights whole"
    assert sorted(tmp_path.rglob("*")) == before


def test_checkpoints_that_are_gone_are_not_taken_for_a_run_that_just_began(tmp_path) -> None:
    make(tmp_path, 3)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(DataError, match=r"holds no checkpoint, though rounds\.jsonl tells of 3 finished rounds"):
        take_up(tmp_path)
    assert (tmp_path / "rounds.jsonl").read_text().count("\n") == 3


def test_a_run_killed_while_its_first_checkpoint_was_written_begins_again(tmp_path) -> None:
    make(tmp_path, 1)
    (tmp_path / "checkpoints" / "checkpoint-1" / "seal_state.json").unlink()
    found = take_up(tmp_path)
    assert (found.path, found.rounds) == (None, 0)
    assert (tmp_path / "rounds.jsonl").read_text() == ""


@pytest.mark.parametrize("name", ["rounds.jsonl", "traces/round-0001.jsonl"])
@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_records_are_checked_against_the_checkpoint(tmp_path, name, damage) -> None:
    """Round 2's records: the checkpoint before it is whole without them."""
    make(tmp_path, 2)
    position = 80 if name == "rounds.jsonl" else 0
    damage(tmp_path / name, position) if damage is flip else damage(tmp_path / name)
    if name == "rounds.jsonl" and damage is Path.unlink:
        with pytest.raises(DataError, match=r"checkpoint-1: rounds.jsonl is missing[\s\S]*--anyway"):
            take_up(tmp_path)
        return
    found = take_up(tmp_path)
    assert found.path.name == "checkpoint-1"
    assert name in found.notes[0]


def test_records_of_rounds_before_every_checkpoint_are_refused_or_accepted_by_a_flag(tmp_path) -> None:
    make(tmp_path, 4)
    flip(tmp_path / "traces" / "round-0000.jsonl")
    with pytest.raises(DataError, match=r"checkpoint-4: traces/round-0000.jsonl has other content[\s\S]*--anyway"):
        take_up(tmp_path)
    found = take_up(tmp_path, anyway=True)
    assert found.path.name == "checkpoint-4"
    assert "going on although traces/round-0000.jsonl has other content" in found.notes[0]


def test_lines_past_the_checkpoint_are_cut_off(tmp_path) -> None:
    make(tmp_path, 2)
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write('{"round":2}\n{"rou')
    assert take_up(tmp_path).path.name == "checkpoint-2"
    assert (tmp_path / "rounds.jsonl").read_text().count("\n") == 2


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_a_damaged_best_checkpoint_is_never_exchanged_for_another(tmp_path, damage) -> None:
    make(tmp_path, 2, best=(0,))
    damage(tmp_path / "checkpoints" / "best" / "w")
    with pytest.raises(DataError, match=r"checkpoint-2: best/w [\s\S]*--anyway"):
        take_up(tmp_path)
    found = take_up(tmp_path, anyway=True)
    assert found.best_lost
    assert not (tmp_path / "checkpoints" / "best").exists()


def test_going_back_brings_back_the_best_of_then(tmp_path) -> None:
    make(tmp_path, 3, best=(0, 2))
    store = Checkpoints(tmp_path)
    store.prove_best(2)
    cut(tmp_path / "checkpoints" / "checkpoint-3" / "model.safetensors")
    found = take_up(tmp_path)
    assert (found.path.name, found.best_lost) == ("checkpoint-2", False)
    assert (tmp_path / "checkpoints" / "best" / "w").read_bytes() == bytes(9)
    with pytest.raises(DataError, match="is from round 1, not round 3"):
        store.prove_best(2)


def test_a_kill_between_two_bests_is_mended(tmp_path) -> None:
    make(tmp_path, 2, best=(0,))
    checkpoints = tmp_path / "checkpoints"
    (checkpoints / "best").rename(checkpoints / ".best-0")
    (checkpoints / ".best.new").mkdir()
    (checkpoints / ".best.new" / "w").write_text("half")
    assert take_up(tmp_path).path.name == "checkpoint-2"
    assert (checkpoints / "best" / "w").read_bytes() == bytes(9)
    assert not (checkpoints / ".best.new").exists()


def test_only_as_many_checkpoints_stay_and_only_the_bests_that_they_speak_of(tmp_path) -> None:
    make(tmp_path, 6, best=(0, 1, 4), keep=2)
    assert {p.name for p in (tmp_path / "checkpoints").iterdir()} == {"checkpoint-5", "checkpoint-6", "best"}
    make(tmp_path / "more", 6, best=(0, 1, 5), keep=2)
    assert {p.name for p in (tmp_path / "more" / "checkpoints").iterdir()} == {
        "checkpoint-5", "checkpoint-6", "best", ".best-1",
    }  # fmt: skip


def test_what_a_killed_process_left_half_written_is_swept(tmp_path) -> None:
    make(tmp_path, 2)
    left = [tmp_path / ".summary.json.7.tmp", tmp_path / "traces" / ".round-0002.jsonl.7.tmp"]
    left.append(tmp_path / "checkpoints" / "checkpoint-2" / ".seal_state.json.7.tmp")
    for path in left:
        path.write_text("half")
    assert take_up(tmp_path).path.name == "checkpoint-2"
    assert not any(path.exists() for path in left)


def test_a_run_knows_what_it_was_made_with(tmp_path) -> None:
    make(tmp_path, 2)
    other = {**ORIGIN, "torch": "2.14.0"}
    with pytest.raises(ConfigError, match=r"torch was 2\.13\.0, now it is 2\.14\.0.*--anyway"):
        take_up(tmp_path, origin=other)
    found = take_up(tmp_path, origin=other, anyway=True)
    assert "going on although torch was 2.13.0, now it is 2.14.0" in found.notes[0]
    assert take_up(tmp_path, origin=other).path.name == "checkpoint-2", "accepted once"
    content, _ = read_signed(tmp_path / "made_with.json")
    assert [(part["from_round"], part["origin"]["torch"]) for part in content["made_with"]] == [
        (0, "2.13.0"),
        (2, "2.14.0"),
    ]


def test_a_run_without_a_checkpoint_yet_may_go_on_with_anything(tmp_path) -> None:
    with RunDirectory(tmp_path, config(), resume=False) as run:
        run.take_up(ORIGIN)
    assert take_up(tmp_path, origin={"torch": "3"}).path is None
    assert read_signed(tmp_path / "made_with.json")[0]["made_with"][0]["origin"] == {"torch": "3"}


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_a_run_that_does_not_know_any_more(tmp_path, damage) -> None:
    make(tmp_path, 2)
    path = tmp_path / "made_with.json"
    damage(path, path.read_bytes().index(b"2.13")) if damage is flip else damage(path)
    with pytest.raises(DataError, match=r"nobody knows what .* was made with: made_with.json"):
        take_up(tmp_path)
    assert take_up(tmp_path, anyway=True).path.name == "checkpoint-2"
    assert take_up(tmp_path).path.name == "checkpoint-2"


def test_an_edited_configuration_is_refused_by_name_and_a_free_key_is_honoured(tmp_path) -> None:
    make(tmp_path, 2)
    file = tmp_path / "config.toml"
    original = file.read_text()
    file.write_text(original.replace("seed = 0", "seed = 5"))
    with pytest.raises(ConfigError, match=r"started with seed = 0, now it is 5 .*edit of .*config\.toml"):
        RunDirectory(tmp_path, read_config(tmp_path), resume=True)
    assert "seed = 5" in file.read_text(), "nobody's edit is undone behind their back"
    file.write_text(original.replace("keep = 2", "keep = 4"))
    with RunDirectory(tmp_path, read_config(tmp_path), resume=True) as run:
        run.take_up(ORIGIN)
    assert "keep = 4" in file.read_text()
