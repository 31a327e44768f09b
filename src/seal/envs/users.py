"""Users who answer: simulated by a script, a function, or a language model on a server.

A user is a function of the conversation so far and of the episode's seed. It returns what the user says next, or None
when the conversation is over. What it raises is infrastructure: the episode is unscored, and nobody blames the agent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from seal.errors import InfrastructureFailure, MissingError


@dataclass(frozen=True, slots=True)
class Said:
    """One message between agent and user; calls and their results are not part of it."""

    role: Literal["user", "agent"]
    text: str


User = Callable[[Sequence[Said], tuple[int, ...]], "str | None"]
"""Conversation so far and episode seed in, the user's next message out; None when the conversation is over."""


@dataclass(frozen=True, slots=True)
class ScriptedUser:
    """Answers questions by keyword, and leaves when the agent asks nothing that it knows.

    Attributes:
        answers: What to say when the agent's last message holds a keyword (case ignored), first match first, each once.
        opening: The first message, where the task does not give one.
    """

    answers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    opening: str = ""

    def __call__(self, said: Sequence[Said], seed: tuple[int, ...]) -> str | None:
        """The next message."""
        if not said:
            return self.opening or None
        before = {message.text for message in said if message.role == "user"}
        asked = said[-1].text.lower()
        for keyword, answer in self.answers.items():
            if keyword.lower() in asked and answer not in before:
                return answer
        return None


@dataclass(frozen=True, slots=True)
class ChatUser:
    """A language model plays the user, on any OpenAI-compatible server.

    Attributes:
        model: As the server calls it.
        instructions: Who the user is, what they want, and what they know.
        base_url: The server.
        api_key: None for the environment variable OPENAI_API_KEY; local servers take anything.
        stop: What the model writes when the user is done.
        temperature: Of sampling; the episode's seed is passed on.
        timeout: Seconds for one answer, tries included.
        retries: After a failure.
    """

    model: str
    instructions: str
    base_url: str | None = None
    api_key: str | None = None
    stop: str = "[DONE]"
    temperature: float = 0.0
    timeout: float = 60.0
    retries: int = 2

    def __call__(self, said: Sequence[Said], seed: tuple[int, ...]) -> str | None:
        """Ask the server for the next message.

        Raises:
            InfrastructureFailure: If it does not answer.
            MissingError: If the package openai is not installed.
        """
        try:
            import openai  # noqa: PLC0415 -- an extra
        except ModuleNotFoundError as error:
            raise MissingError("a simulated user on a server needs: pip install 'seal-rl[openai]'") from error
        # The model is the user here, so the agent's messages are what it answers to.
        system = (
            f"{self.instructions}\n\nYou are the user who talks to an assistant, not the assistant. Write only your "
            f"next message. When you have got what you want, or cannot get it, write {self.stop}."
        )
        messages: list[Any] = [{"role": "system", "content": system}]
        messages += [{"role": "assistant" if m.role == "user" else "user", "content": m.text} for m in said]
        if not said:
            messages.append({"role": "user", "content": "How can I help you?"})
        try:
            with openai.OpenAI(
                base_url=self.base_url,
                api_key=self.api_key or os.environ.get("OPENAI_API_KEY") or (None if self.base_url is None else "none"),
                timeout=self.timeout,
                max_retries=self.retries,
            ) as client:
                answer = client.chat.completions.create(
                    model=self.model, messages=messages, temperature=self.temperature, seed=_number(seed)
                )
            text = answer.choices[0].message.content if answer.choices else None
        except openai.OpenAIError as error:
            raise InfrastructureFailure(f"the simulated user {self.model} did not answer: {error}") from error
        if not text:
            raise InfrastructureFailure(f"the simulated user {self.model} answered without a text")
        return None if self.stop in text else text.strip()


def _number(seed: tuple[int, ...]) -> int:
    """One number for many; servers take 32 bits."""
    number = 0
    for part in seed:
        number = (number * 1_000_003 + part) % 2**31
    return number
