"""Files: one level of folders; a file is named `folder/file`, or by its name alone under the one-directory rule."""

from __future__ import annotations

from seal.envs.workshop.domain import Domain
from seal.envs.workshop.goals import Draw, Goal, Intent, NaturalCall, NoFit
from seal.envs.workshop.state import Tables
from seal.envs.workshop.tools import PATH, WORD, Arguments, Tool, ToolError, existing, listing


def _open(tables: Tables, args: Arguments) -> str:
    existing(tables["folders"], args["folder"], "folder")
    tables["here"]["open"]["folder"] = args["folder"]
    return f"in {args['folder']}"


def _here(tables: Tables, args: Arguments) -> str:
    return listing(sorted(tables["folders"][str(tables["here"]["open"]["folder"])]))


def _find(tables: Tables, path: str) -> tuple[str, str]:
    folder, _, name = path.partition("/")
    if name not in tables["folders"].get(folder, {}):
        raise ToolError(f"error: no file {path}")
    return folder, name


def _free(tables: Tables, folder: str, name: str) -> None:
    if name in existing(tables["folders"], folder, "folder"):
        raise ToolError(f"error: {folder}/{name} exists")


def _read(tables: Tables, args: Arguments) -> str:
    folder, name = _find(tables, args["file"])
    return f"about {tables['folders'][folder][name]}"


def _rename(tables: Tables, args: Arguments) -> str:
    folder, name = _find(tables, args["file"])
    _free(tables, folder, args["name"])
    tables["folders"][folder][args["name"]] = tables["folders"][folder].pop(name)
    return f"renamed to {args['name']}"


def _copy(tables: Tables, args: Arguments) -> str:
    folder, name = _find(tables, args["file"])
    _free(tables, args["folder"], name)
    tables["folders"][args["folder"]][name] = tables["folders"][folder][name]
    return f"copied to {args['folder']}"


def _delete(tables: Tables, args: Arguments) -> str:
    folder, name = _find(tables, args["file"])
    del tables["folders"][folder][name]
    return f"deleted {name}"


def _start(draw: Draw) -> Tables:
    folders = draw.sample("folder", 3)
    return {
        "folders": {f: {name: draw.any("topic") for name in draw.sample("file")} for f in folders},
        "here": {"open": {"folder": folders[0]}},
    }


def _file(draw: Draw) -> tuple[str, str]:
    folders = draw.state["files"]["folders"]
    left = [(f, n) for f, names in folders.items() for n in names if ("files", f"{f}/{n}") not in draw.used]
    if not left:
        raise NoFit
    folder, name = draw.rng.choice(left)
    draw.used.add(("files", f"{folder}/{name}"))
    return folder, name


def _draw_list(draw: Draw) -> Intent:
    tables = draw.state["files"]
    folder = draw.rng.choice([f for f in tables["folders"] if f != tables["here"]["open"]["folder"]])
    return Intent({"folder": folder}, (NaturalCall("open_folder", {"folder": folder}), NaturalCall("list_files", {})))


def _draw_read(draw: Draw) -> Intent:
    folder, name = _file(draw)
    path = f"{folder}/{name}"
    return Intent({"path": path}, (NaturalCall("read_file", {"file": path}),))


def _draw_rename(draw: Draw) -> Intent:
    folder, name = _file(draw)
    new = draw.fresh("file", draw.state["files"]["folders"][folder])
    path = f"{folder}/{name}"
    return Intent({"path": path, "name": new}, (NaturalCall("rename_file", {"file": path, "name": new}),))


def _draw_copy(draw: Draw) -> Intent:
    folder, name = _file(draw)
    targets = [f for f, names in draw.state["files"]["folders"].items() if name not in names]
    if not targets:
        raise NoFit
    target, path = draw.rng.choice(targets), f"{folder}/{name}"
    return Intent({"path": path, "folder": target}, (NaturalCall("copy_file", {"file": path, "folder": target}),))


def _draw_delete(draw: Draw) -> Intent:
    folder, name = _file(draw)
    path = f"{folder}/{name}"
    return Intent({"path": path}, (NaturalCall("delete_file", {"file": path}),))


FILES = Domain(
    name="files",
    tools=(
        Tool("open_folder", "go to a folder", {"folder": WORD}, _open),
        Tool("list_files", "list the open folder", {}, _here),
        Tool("read_file", "read a file", {"file": PATH}, _read),
        Tool("rename_file", "rename a file", {"file": PATH, "name": WORD}, _rename),
        Tool("copy_file", "copy a file", {"file": PATH, "folder": WORD}, _copy),
        Tool("delete_file", "delete a file", {"file": PATH}, _delete),
    ),
    goals=(
        Goal(
            "files",
            _draw_list,
            (
                "go to {folder} and list the files",
                "show me the files in {folder}",
                "open {folder} and list it",
                "look what files are there in {folder}",
                "go into {folder} and show me what it has",
            ),
            ("look into {folder} and tell me what is there",),
            lists=True,
        ),
        Goal(
            "read",
            _draw_read,
            (
                "read [{path}]",
                "tell me what [{path}] is about",
                "look at the file [{path}]",
                "find out what [{path}] says",
                "tell me the subject of the file [{path}]",
            ),
            ("find out the subject of [{path}]",),
        ),
        Goal(
            "rename",
            _draw_rename,
            (
                "rename {path} [to {name}]",
                "give {path} the name [{name}]",
                "call the file {path} [{name}]",
                "change the name of {path} [to {name}]",
                "turn the title of the file {path} [into {name}]",
            ),
            ("change the title of {path} [into {name}]",),
        ),
        Goal(
            "copy",
            _draw_copy,
            (
                "copy {path} [to {folder}]",
                "put a copy of {path} [in {folder}]",
                "copy the file {path} [into {folder}]",
                "duplicate the file {path} [in {folder}]",
                "bring a copy of {path} [over to {folder}]",
            ),
            ("duplicate {path} [over to {folder}]",),
        ),
        Goal(
            "delete",
            _draw_delete,
            (
                "delete [{path}]",
                "remove the file [{path}]",
                "get rid of [{path}]",
                "erase the file [{path}]",
                "remove [{path}] for good",
            ),
            ("erase [{path}]",),
        ),
    ),
    start=_start,
)
