"""Secrets out of whatever is printed or written: the one place that does it.

What is known is taken out by value, in every spelling in which a server may echo it: as it is, percent-encoded,
escaped as in JSON, and in base64 as Basic authentication sends it. What is not known is taken out by its place: the
user part of an address, the value of `?api_key=`, the text behind `Authorization:`, and settings named like `password`.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

MASK = "***"

SHORTEST = 8
"""Characters that make a value a secret. Shorter ones (`none`, `EMPTY`, `test`) are words that a model may say."""

_NAMED = (
    r"(?:[\w-]*[_-])?(?:api)?"
    r"(?:key|token|secret|password|passwd|pwd|passphrase|credentials?|authorization|sig|signature)"
)
_SETTING = re.compile(_NAMED, re.IGNORECASE)
_USER = re.compile(r"\b([a-z][a-z0-9+.-]{0,30}://)[^\s/?#]*@", re.IGNORECASE)
_QUERY = re.compile(rf"(?<=[?&])({_NAMED}=)[^\s&#'\"]+", re.IGNORECASE)
_HEADER = re.compile(
    r"(authorization(?:\\?['\"])?\s*[:=,]\s*(?:b?\\?['\"])?(?:(?:bearer|basic)\s+)?)(?!bearer\s|basic\s)[^\s'\"\\,}]+",
    re.IGNORECASE,
)


class Redactor:
    """Takes known secrets out of texts.

    Args:
        secrets: Keys and passwords. Those shorter than `SHORTEST` are left alone.
        pairs: User and password of Basic authentication.
    """

    def __init__(self, secrets: Iterable[str] = (), pairs: Iterable[tuple[str, str]] = ()) -> None:
        pairs = list(pairs)
        spelled: set[str] = set()
        for secret in (*secrets, *(password or user for user, password in pairs)):
            if len(secret) >= SHORTEST:
                spelled |= _spellings(secret)
        for user, password in pairs:
            spelled |= _spellings(f"{user}:{password}") if password else set()
        self._known = re.compile("|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))) if spelled else None

    def exact(self, text: str) -> str:
        """The text without the known secrets: for what a model wrote, which is otherwise left as it is."""
        return self._known.sub(MASK, text) if self._known is not None else text

    def __call__(self, text: str) -> str:
        """The text without the known secrets and without what looks like one by its place: for messages."""
        return public(self.exact(text))

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Redactor:
        """Knows the environment variables whose names end in KEY, TOKEN, SECRET or the like, and those of proxies."""
        secrets = [value.strip() for name, value in environment.items() if _SETTING.fullmatch(name)]
        pairs = [
            pair
            for name, value in environment.items()
            if name.upper().endswith(("_PROXY", "_URL")) and (pair := user_and_password(value)) is not None
        ]
        return cls(secrets, pairs)


NOTHING = Redactor()
"""Knows no secret."""


def public(text: str) -> str:
    """The text without users and passwords in addresses, keys in queries, and authorization headers."""
    text = _USER.sub(rf"\1{MASK}@", text)
    text = _QUERY.sub(rf"\1{MASK}", text)
    return _HEADER.sub(rf"\1{MASK}", text)


def settings(value: Any) -> Any:
    """A copy of JSON-like settings that may be printed and written.

    Texts under names such as `api_key`, `password` or `Authorization` are masked, all others go through `public`.
    """
    if isinstance(value, Mapping):
        return {
            key: MASK if isinstance(item, str) and item and _SETTING.fullmatch(str(key)) else settings(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [settings(item) for item in value]
    return public(value) if isinstance(value, str) else value


def user_and_password(address: str) -> tuple[str, str] | None:
    """What stands before the @ of an address, decoded; None if nothing does or it is no address."""
    try:
        place = urlsplit(address).netloc
    except ValueError:
        return None
    before, at, _ = place.rpartition("@")
    if not at:
        return None
    user, _, password = before.partition(":")
    return unquote(user), unquote(password)


def query_secrets(query: Iterable[tuple[str, str]]) -> list[str]:
    """The values of a query's parameters that are keys by their name."""
    return [value for name, value in query if _SETTING.fullmatch(name)]


def _spellings(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    coded = base64.b64encode(raw).decode()
    return {
        secret,
        quote(secret, safe="", errors="replace"),
        quote(secret, errors="replace"),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        coded,
        coded.rstrip("="),
        coded.replace("/", "\\/"),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
    }
