"""Finding recipes, by path or by name."""

from __future__ import annotations

import difflib
from pathlib import Path

import seal
from seal.errors import MissingError

DEFAULT = "workshop"
"""What `seal train` runs without arguments."""

DEMO = Path("runs") / "demo"
"""Where it runs it."""


def home() -> Path:
    """The directory of the recipes that come with SEAL: beside the package when installed, else in the repository.

    Raises:
        MissingError: If the installation lacks them.
    """
    package = Path(seal.__file__).parent
    places = (package / "recipes", package.parents[1] / "recipes")
    for place in places:
        if place.is_dir():
            return place
    raise MissingError(f"this installation holds no recipes (looked in {places[0]}); install seal-rl again")


def names() -> list[str]:
    """Names of the recipes that come with SEAL."""
    return sorted(name(path.name) for path in home().glob("*.toml"))


def name(recipe: str) -> str:
    """What a recipe is called: its file name without `.toml` (there may be other dots, as in `qwen2.5`)."""
    return Path(recipe).name.removesuffix(".toml")


def find(recipe: str) -> Path:
    """Find a recipe.

    Args:
        recipe: A path, or the name of a recipe that comes with SEAL. `recipes/NAME.toml` is found from anywhere.

    Raises:
        MissingError: If there is none, with what there is.
    """
    path = Path(recipe)
    if path.is_file():
        return path
    known = names()
    if path.parent in (Path(), Path("recipes")) and not path.is_dir() and name(recipe) in known:
        return home() / f"{name(recipe)}.toml"
    near = difflib.get_close_matches(name(recipe), known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise MissingError(f"there is no recipe {recipe!r}; {hint}Recipes of this project: {', '.join(known)}")
