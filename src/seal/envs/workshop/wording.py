"""How users speak: frames around the goals' phrases, and what they say when a tool appears or a value was forgotten."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from seal.envs.workshop.goals import Goal


@dataclass(frozen=True, slots=True)
class Frames:
    """One set of wordings.

    Attributes:
        turns: Around a whole request, `{}` being the request.
        joins: Between two things that one turn asks for.
        announcements: When a tool becomes available, `{}` being its name.
        answers: When a forgotten value is given: `{noun}` and `{value}`.
    """

    turns: tuple[str, ...]
    joins: tuple[str, ...]
    announcements: tuple[str, ...]
    answers: tuple[str, ...]


TRAIN = Frames(
    (
        "{}",
        "please {}",
        "can you {}?",
        "hi, {}",
        "{}, please",
        "could you {}?",
        "now {}",
        "i need you to {}",
        "kindly {}",
        "would you {}?",
        "i want you to {}",
        "help me: {}",
        "if you like, {}",
        "it is time to {}",
    ),
    (" and ", ", then ", ", and also ", "; and next ", ", and after it "),
    (
        "now there is the tool {}, try again",
        "you can use {} now",
        "i added {} for you, please go on",
        "{} is installed here now, so go on",
        "what about {}? it works from now on",
        "i was just given the tool {} too",
    ),
    (
        "the {noun} is {value}",
        "{value}",
        "sorry, the {noun} is {value}",
        "use {value} as the {noun}",
        "take {value}",
        "i forgot to say {value}",
        "as for the {noun}: {value}",
    ),
)
"""Frames of every split but `held-out:wording`."""

HELD = Frames(
    ("would you kindly {}", "i would like you to {}", "it would help to {}"),
    (", after that ", "; next "),
    ("{} was just installed, what about now?", "from here on {} works too"),
    ("take {value} for the {noun}", "i forgot the {noun}: {value}"),
)
"""Frames of `held-out:wording`."""

_NOUNS = {
    "hours": ("length", "{} hours"),
    "amount": ("amount", "{} dollars"),
    "target": ("receiver", "{}"),
    "people": ("list", "{}"),
    "path": ("file", "{}"),
    "count": ("number", "{}"),
    "seats": ("number", "{} seats"),
}


def frames(*, held: bool) -> Frames:
    """The training or the held-out set."""
    return HELD if held else TRAIN


def wording(goal: Goal, rng: random.Random, *, held: bool) -> str:
    """One of a goal's templates."""
    return rng.choice(goal.held if held else goal.wordings)


def request(phrases: Sequence[str], rng: random.Random, *, held: bool) -> str:
    """A user turn that asks for everything in `phrases`."""
    return rng.choice(frames(held=held).turns).format(join(phrases, rng, held=held))


def join(phrases: Sequence[str], rng: random.Random, *, held: bool) -> str:
    """Several things in one sentence."""
    text = phrases[0]
    for phrase in phrases[1:]:
        text += rng.choice(frames(held=held).joins) + phrase
    return text


def announcement(tool: str, rng: random.Random, *, held: bool) -> str:
    """A user turn that makes a tool available."""
    return rng.choice(frames(held=held).announcements).format(tool)


def answer(slot: str, value: str, rng: random.Random, *, held: bool) -> str:
    """A user turn that gives a forgotten value."""
    noun, form = _NOUNS.get(slot, (slot, "{}"))
    return rng.choice(frames(held=held).answers).format(noun=noun, value=form.format(value))


def texts() -> list[str]:
    """Every frame, with its slots emptied, and every noun: for the vocabulary."""
    lines = [
        line
        for chosen in (TRAIN, HELD)
        for line in (*chosen.turns, *chosen.joins, *chosen.announcements, *chosen.answers)
    ]
    nouns = [form.format("") + " " + noun for noun, form in _NOUNS.values()]
    return [line.format("", noun="", value="") for line in lines] + nouns
