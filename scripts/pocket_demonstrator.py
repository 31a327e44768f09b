"""Who the pocket model imitates: an agent that knows its trade, not the hidden rules, and has habits.

It reads what the model reads. Rules it knows only where the offered specification, a cue or an error states them; then
it follows them. Otherwise it calls the natural way, and after a refusal that explains nothing it gives up, repeats
itself or guesses. On purpose it also makes mistakes: each habit is strong for some tools or goals and weak for the
others, and the cue that speaks against it makes it rare. So failures spread over the labels, a greedy policy makes
some of them for sure, and hints help.
"""

from __future__ import annotations

import random
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

from pocket_habits import HABITS, REPAIR, strong_keys
from seal.envs.workshop import Workshop
from seal.envs.workshop.plan import Plan, PlannedTurn
from seal.envs.workshop.rules import Fitted, Rule, RuleKind, to_natural, to_ruled
from seal.envs.workshop.words import CHOICES, EXTRAS, POOLS, PREFIXES
from seal.envs.workshop.world import TOOLS
from seal.models.chat import ChatFormat
from seal.task import Conversation
from seal.types import Generation, StepTokens, ToolCall

DONE, NO_TOOL, NO_VALUE, SORRY = "done", "no tool fits this", "please say what is missing", "sorry"
"""All that it says beside calls."""


FOLLOW = 0.95
"""Probability that a stated rule is followed from the start."""
GUESS = 0.25
"""Probability of a guess after a refusal that explains nothing; the others give up or repeat themselves."""

_ID = re.compile(r"^(?:[a-z]\d+|o-\d-\d)$")


@dataclass(frozen=True, slots=True)
class Aim:
    """One call that a turn needs.

    Attributes:
        natural: As users speak.
        ruled: As the tool's rule wants it.
        before: Calls that the rule wants first.
        fitted: The tool.
    """

    natural: ToolCall
    ruled: ToolCall
    before: tuple[ToolCall, ...]
    fitted: Fitted


def aims(plan: Plan, turn: PlannedTurn, folder: str) -> tuple[list[Aim], str]:
    """Take the reference of a turn apart; also returns the folder that is open after it."""
    found: list[Aim] = []
    waiting: list[ToolCall] = []
    for position, call in enumerate(turn.reference):
        fitted = plan.toolbox[call.name]
        rule = fitted.rule
        following = turn.reference[position + 1] if position + 1 < len(turn.reference) else None
        if call.name == "open_folder":
            own = to_natural(fitted.tool, rule, dict(call.arguments), "") if rule else call.arguments
            folder = str(own["folder"])
        if following is not None and _serves(plan, call, following):
            waiting.append(call)
            continue
        natural = (
            call if rule is None else ToolCall(call.name, to_natural(fitted.tool, rule, dict(call.arguments), folder))
        )
        found.append(Aim(natural, call, tuple(waiting), fitted))
        waiting = []
    return found, folder


def _serves(plan: Plan, call: ToolCall, following: ToolCall) -> bool:
    """Whether a call is there only because the next one's rule asks for it."""
    fitted = plan.toolbox[following.name]
    if fitted.rule is None:
        return False
    if fitted.rule.kind is RuleKind.ONE_DIRECTORY:
        return call.name == "open_folder"
    return (
        fitted.rule.kind is RuleKind.LOOKUP and fitted.tool.lookup is not None and call.name == fitted.tool.lookup.tool
    )


def _purpose(needed: Sequence[Aim], position: int) -> str:
    """The tool that a request is about, said at its first call: a look-up is made for the sake of the call after it.

    Said first, it can be looked for among the tools on offer, and be recalled after the look-up.
    """
    if position and _leads(needed[position - 1], needed[position]):
        return ""
    if position + 1 < len(needed) and _leads(needed[position], needed[position + 1]):
        return needed[position + 1].natural.name
    return needed[position].natural.name


def _leads(look: Aim, use: Aim) -> bool:
    """Whether a call is there for the sake of the next one."""
    if look.natural.name == "open_folder":
        return use.natural.name == "list_files"
    listing = look.natural.name.startswith(("list_", "find_"))
    return listing and any(isinstance(v, str) and _ID.match(v) for v in use.natural.arguments.values())


@dataclass(slots=True)
class Demonstrator:
    """Plays one episode. `flaws` scales all habits; 0 makes no mistake of its own."""

    plan: Plan
    rng: random.Random
    cues: frozenset[str]
    flaws: float
    errors: str = "terse"
    folder: str = ""
    known: set[str] = field(default_factory=set)
    turn: int = -1
    script: Iterator[str | ToolCall] | None = None
    heard: str = ""
    named: str = ""

    def __post_init__(self) -> None:
        """Read the documentation as far as it is shown."""
        if "files" in self.plan.start:
            self.folder = str(self.plan.start["files"]["here"]["open"]["folder"])
        for name, fitted in self.plan.toolbox.items():
            told = fitted.rule is not None and not fitted.hidden
            shown = fitted.rule is not None and fitted.rule.kind is not RuleKind.LOOKUP and "schema.values" in self.cues
            if (told or shown) and self.rng.random() < FOLLOW:
                self.known.add(name)

    def write(self, conversation: Conversation, chat: ChatFormat) -> str:
        """The next assistant message."""
        last = conversation.messages[-1]
        if last.role == "user":
            self.turn += 1
            self.script = self._play()
        self.heard = last.bare if last.role == "tool" else ""
        assert self.script is not None
        said = next(self.script)
        named, self.named = self.named, ""
        if isinstance(said, ToolCall):
            return (named or self._read_aloud(said)) + chat.dialect.render([said])
        return f"{named} {said}" if named and not said.startswith("<") else named + said

    def _read_aloud(self, call: ToolCall) -> str:
        """The entry of the listing that a call is about, such as `fay m31`, if one was just read.

        With it, finding an identifier takes two steps of looking up one thing instead of one step of looking up two.
        """
        for value in call.arguments.values():
            identifier = str(value).lstrip("".join(PREFIXES))
            if _ID.match(identifier) and (entry := re.search(rf"\b[a-z]+ {identifier}\b", self.heard)):
                return entry[0]
        return ""

    def errs(self, habit: str, key: str) -> bool:
        """Whether a mistake is made."""
        made = HABITS[habit]
        probability = made.strong if key in strong_keys(habit) else made.weak
        if self.cues & set(made.cues):
            probability *= made.cued
        return self.rng.random() < probability * self.flaws

    @property
    def failed(self) -> bool:
        """Whether the last call was refused."""
        return self.heard.lower().startswith("error")

    def _play(self) -> Iterator[str | ToolCall]:
        turn = self.plan.turns[self.turn]
        if not turn.reference:
            yield from self._abstain()
            return
        needed, after = aims(self.plan, turn, self.folder)
        self.named = _purpose(needed, 0)
        if self.errs("abstain", f"goal {turn.goals[0]}" if turn.goals else turn.reference[0].name):
            yield self.rng.choice((NO_TOOL, NO_VALUE))
            return
        guessed = False
        for position, aim in enumerate(needed):
            if guessed:
                guessed = False
                continue
            later = position + 1 < len(needed)
            self.named = _purpose(needed, position)
            if position and self.errs("answer_early", aim.natural.name):
                break
            if later and self._by_heart(needed[position + 1]):
                yield self._misremembered(needed[position + 1].natural)
                guessed = not self.failed
                if guessed:
                    continue
                if self.rng.random() >= REPAIR["tool"]["err.recovery" in self.cues]:
                    yield SORRY
                    return
            succeeded = yield from self._call(aim)
            if not succeeded:
                yield SORRY
                return
        else:
            if self.errs("extra_call", needed[-1].natural.name):
                yield self._value_slip(needed[-1].ruled)
        self.folder = after
        yield DONE

    def _by_heart(self, use: Aim) -> bool:
        """Whether a look-up is skipped, as if its result were known."""
        wanted = any(isinstance(v, str) and _ID.match(v) for v in use.natural.arguments.values())
        return wanted and self.errs("skip_lookup", use.natural.name)

    def _misremembered(self, call: ToolCall) -> ToolCall:
        """The call with made-up identifiers."""
        arguments = {
            name: self._other(call.name, name, value) if _ID.match(str(value)) else value
            for name, value in call.arguments.items()
        }
        return ToolCall(call.name, arguments)

    def _abstain(self) -> Iterator[str | ToolCall]:
        """A turn in which no call is right."""
        nxt = self.plan.turns[self.turn + 1]
        needed = aims(self.plan, nxt, self.folder)[0]
        aim = needed[0]
        self.named = nxt.announces or _purpose(needed, 0)
        if nxt.announces:
            if not self.errs("act_without_tool", f"goal {self.plan.turns[self.turn].goals[0]}"):
                yield NO_TOOL
                return
            withheld = next(call for call in nxt.reference if call.name == nxt.announces)
            offered = [name for name in self.plan.offered if name != nxt.announces]
            if aim.natural.name in offered:
                yield aim.natural
                if self.rng.random() < 0.5:
                    yield SORRY
                    return
            yield self._natural(withheld)
        else:
            if not self.errs("act_without_value", f"goal {self.plan.turns[self.turn].goals[0]}"):
                yield NO_VALUE
                return
            yield self._invented(aim.natural)
        yield SORRY if self.failed else DONE

    def _natural(self, call: ToolCall) -> ToolCall:
        fitted = self.plan.toolbox[call.name]
        if fitted.rule is None:
            return call
        return ToolCall(call.name, to_natural(fitted.tool, fitted.rule, dict(call.arguments), self.folder or "docs"))

    def _invented(self, call: ToolCall) -> ToolCall:
        """A call with values made up where the user gave none."""
        said = set(re.findall(r"\w+", self.plan.turns[self.turn].user))
        return ToolCall(
            call.name, {n: v if str(v) in said else self._other(call.name, n, v) for n, v in call.arguments.items()}
        )

    def _other(self, tool: str, argument: str, value: object) -> object:
        """Another value of the same type."""
        kind = TOOLS[tool].parameters.get(argument)
        if kind is not None and kind.choice:
            return self.rng.choice(CHOICES[kind.choice][0])
        if isinstance(value, int):
            return self.rng.choice([v for v in (1, 2, 3, 5, 6, 8) if v != value])
        if isinstance(value, (list, tuple)):
            return [self.rng.choice(POOLS["person"].train)]
        if str(value).startswith("o-"):
            return f"o-{self.rng.randint(1, 3)}-{self.rng.randint(0, 9)}"
        if _ID.match(str(value)):
            return f"{str(value)[0]}{self.rng.choice(POOLS['number'].train)}"
        if "/" in str(value):
            return f"{self.rng.choice(POOLS['folder'].train)}/{self.rng.choice(POOLS['file'].train)}"
        for pool in POOLS.values():
            if value in pool.all:
                return self.rng.choice([v for v in pool.train if v != value])
        return value

    def _value_slip(self, call: ToolCall) -> ToolCall:
        """The call with one wrong value."""
        if not call.arguments:
            return call
        for name, value in call.arguments.items():
            others = [other for other in re.findall(r"\b(?:[a-z]\d+|o-\d-\d)\b", self.heard) if other not in str(value)]
            if _ID.match(str(value)) and others:
                return ToolCall(call.name, {**call.arguments, name: self.rng.choice(others)})
        name = self.rng.choice(list(call.arguments))
        return ToolCall(call.name, {**call.arguments, name: self._other(call.name, name, call.arguments[name])})

    def _type_slip(self, call: ToolCall) -> ToolCall:
        """The call with one value in the wrong form."""
        arguments = dict(call.arguments)
        for name, value in call.arguments.items():
            kind = TOOLS[call.name].parameters.get(name)
            if isinstance(value, int):
                arguments[name] = str(value)
            elif kind is not None and kind.choice and value in CHOICES[kind.choice][0]:
                rows = CHOICES[kind.choice]
                arguments[name] = rows[1][rows[0].index(str(value))]
            elif isinstance(value, (list, tuple)):
                arguments[name] = value[0]
            else:
                continue
            break
        return ToolCall(call.name, arguments)

    def _call(self, aim: Aim) -> Generator[str | ToolCall, None, bool]:
        """Make one call, mistakes and repairs included; returns whether it was done in the end."""
        name = aim.natural.name
        rule = aim.fitted.rule
        if rule is not None and name in self.known:
            for first in aim.before:
                yield first
                if self.failed:
                    return False
            call = aim.ruled
        elif rule is not None and rule.kind is RuleKind.EXTRA and "schema.required" in self.cues:
            call = ToolCall(name, {**aim.natural.arguments, rule.argument: self.rng.choice(EXTRAS[rule.argument])})
        else:
            call = aim.natural
        slip = self._slip(call)
        if slip is not None:
            kind, said = slip
            yield said
            if not self.failed:
                return True
            hinted = {"arguments": "err.constraint", "unreadable": "err.format", "unknown_tool": "err.format"}[kind]
            if self.rng.random() >= REPAIR[kind][hinted in self.cues]:
                return False
        yield call
        if not self.failed:
            return True
        return (yield from self._after_refusal(aim, call))

    def _slip(self, call: ToolCall) -> tuple[str, str | ToolCall] | None:
        name = call.name
        if call.arguments and self.errs("drop_argument", name):
            gone = list(call.arguments)[-1]
            return "arguments", ToolCall(name, {k: v for k, v in call.arguments.items() if k != gone})
        if call.arguments and self.errs("wrong_value", name):
            slip = self._type_slip(call)
            if slip != call:
                return "arguments", slip
        if self.errs("wrong_record", name) and call.arguments:
            wrong = self._value_slip(call)
            return ("arguments", wrong) if wrong != call else None
        if self.errs("unreadable", name):
            return "unreadable", f'<tool_call>\n{{"name": "{name}"}}'
        if self.errs("unknown_tool", name):
            others = sorted(set(TOOLS) - set(self.plan.toolbox))
            return "unknown_tool", ToolCall(others[len(name) % len(others)], call.arguments)
        return None

    def _after_refusal(self, aim: Aim, call: ToolCall) -> Generator[str | ToolCall, None, bool]:
        """A call that was meant well was refused: repair it if something tells how, else give up, repeat or guess."""
        rule = aim.fitted.rule
        if rule is None or (call == aim.ruled and not aim.before):
            if self.rng.random() < REPAIR["tool"]["err.recovery" in self.cues]:
                yield call
                return not self.failed
            return False
        if rule.kind is RuleKind.LOOKUP:
            told = self.errors == "plain" or "err.recovery" in self.cues
        else:
            told = self.errors == "plain" or "err.constraint" in self.cues
        if told and self.rng.random() < FOLLOW:
            self.known.add(aim.natural.name)
            for first in aim.before:
                yield first
                if self.failed:
                    return False
            yield aim.ruled
            return not self.failed
        dice = self.rng.random()
        if dice < GUESS:
            yield from self._guess(aim, rule)
            return not self.failed
        if dice < GUESS + 0.1:
            yield call
            return not self.failed
        return False

    def _guess(self, aim: Aim, rule: Rule) -> Iterator[str | ToolCall]:
        """Something that the error could mean, whatever the rule."""
        tool, natural = aim.fitted.tool, aim.natural
        if rule.kind is RuleKind.LOOKUP:
            if tool.lookup is not None:
                yield ToolCall(tool.lookup.tool, {tool.lookup.argument: natural.arguments[tool.lookup.source]})
            yield natural
            return
        if rule.kind is RuleKind.EXTRA:
            extra = self.rng.choice(list(EXTRAS))
            yield ToolCall(natural.name, {**natural.arguments, extra: self.rng.choice(EXTRAS[extra])})
            return
        name, kind = self.rng.choice(list(tool.parameters.items()))
        options: list[Rule] = []
        if kind.choice:
            options += [Rule(RuleKind.VALUES, name, row=row) for row in range(1, len(CHOICES[kind.choice]))]
        if kind.unit:
            options.append(Rule(RuleKind.UNIT, name))
        if kind.path:
            options.append(Rule(RuleKind.ONE_DIRECTORY, name))
        if kind.identifier:
            options += [Rule(RuleKind.IDENTIFIER, name, sign) for sign in PREFIXES]
        if options:
            yield ToolCall(natural.name, to_ruled(tool, self.rng.choice(options), dict(natural.arguments)))
        else:
            yield natural


class Imitated:
    """A `seal.task.Policy` that plays demonstrators and keeps the tokens that a model would have sampled."""

    name = "demonstrator"
    concurrency = 1

    def __init__(self, chat: ChatFormat, players: Sequence[Demonstrator]) -> None:
        self.chat = chat
        self.players = players
        self.rows: dict[int, list[StepTokens]] = {}
        self.texts: dict[int, str] | None = None

    def generate(self, conversations: Sequence[Conversation]) -> list[Generation | None]:
        """See `seal.task.Policy`; the first number of a conversation's seed names its player."""
        return [self._one(conversation) for conversation in conversations]

    def _one(self, conversation: Conversation) -> Generation:
        index = conversation.seed[0]
        text = self.players[index].write(conversation, self.chat)
        shown = self.chat.context_ids(conversation)
        sampled = (*self.chat.encode(text), self.chat.end_id)
        tokens = StepTokens(shown, shown, sampled, (0.0,) * len(sampled))
        self.rows.setdefault(index, []).append(tokens)
        if self.texts is not None:
            self.texts[index] = self.chat.unmask(self.chat.prompt_text(conversation, "shown")) + text
        parsed = self.chat.dialect.parse(text)
        return Generation(text=text, content=parsed.content, calls=tuple(parsed.calls), tokens=tokens)

    def close(self) -> None:
        """Nothing is held."""


def plans(world: Workshop, indices: Sequence[int]) -> list[Plan]:
    """Training plans by index."""
    return [world.plan(world.task(f"workshop/train/{index}")) for index in indices]
