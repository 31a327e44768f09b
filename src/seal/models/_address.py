"""Where a server is and how to log in there, checked before anything is sent."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from seal.errors import ConfigError
from seal.redact import Redactor, public, query_secrets, user_and_password

OFFICIAL = "https://api.openai.com/v1"
"""Where requests go if nothing else is said."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONSTANT = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address, taken apart.

    Attributes:
        url: Scheme, host, port and path; nothing secret.
        query: Parameters that every request carries.
        login: User and password for Basic authentication; None without.
    """

    url: str
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    login: tuple[str, str] | None = field(default=None, repr=False)


def read_address(text: str) -> Address:
    """Take a base URL apart.

    Raises:
        ConfigError: If no request could be sent there; the message holds no password.
    """
    shown = public(text)
    if not text.lower().startswith(("http://", "https://")):
        raise ConfigError(f"base_url must begin with http:// or https://, got {shown!r}")
    try:
        parts = urlsplit(text)
        port = parts.port  # raises for what is no number up to 65535
    except ValueError as error:
        raise _unusable(shown, "its port or host cannot be read") from error.__cause__
    host = parts.hostname or ""
    if not host:
        raise _unusable(shown, "it names no host")
    if port == 0 or (port is None and parts.netloc.rpartition("@")[2].endswith(":")):
        raise _unusable(shown, "its port is missing")
    if re.search(r"[\s\x00-\x20\x7f<>\"\\^`{|}]", text):
        raise _unusable(shown, "it holds a blank or a character that no address has")
    try:
        host.encode("idna")
    except UnicodeError:
        raise _unusable(shown, "its host is no host name") from None
    if parts.fragment:
        raise _unusable(shown, "the part behind # is never sent to a server")
    place = parts.netloc.rpartition("@")[2]
    return Address(
        f"{parts.scheme}://{place}{parts.path}",
        dict(parse_qsl(parts.query, keep_blank_values=True)),
        user_and_password(text),
    )


def read_key(variable: object, *, official: bool) -> str:
    """The key in an environment variable, without blanks around it; empty if there is none and none is needed.

    Raises:
        ConfigError: If the name or the key cannot be used, or a key is missing. The message never holds the key, nor
            what might be one by mistake.
    """
    if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable):
        raise ConfigError(
            "api_key_env takes the name of an environment variable that holds the key, such as OPENAI_API_KEY; "
            "what was given is no such name (it is not repeated here, for it may be the key)"
        )
    given = os.environ.get(variable)
    key = (given or "").strip()
    if not key:
        if given is None and not _CONSTANT.fullmatch(variable):
            raise ConfigError(
                "api_key_env takes the name of an environment variable, such as OPENAI_API_KEY, and there is none of "
                "the name given (it is not repeated here, for it may be the key)"
            )
        if official:
            raise ConfigError(
                f"the environment variable {variable} is not set: set it to a key for {OFFICIAL}, "
                "or name another server with base_url"
            )
        if variable != "OPENAI_API_KEY":
            raise ConfigError(f"the environment variable {variable}, named by api_key_env, is not set or empty: set it")
        return ""
    odd = next((i for i, character in enumerate(key) if not "!" <= character <= "~"), None)
    if odd is not None:
        raise ConfigError(
            f"the key in {variable} cannot be sent: its character {odd + 1} of {len(key)} is a blank, a line break, or "
            f"no ASCII. Set {variable} to the key alone"
        )
    return key


def redactor(address: Address, key: str) -> Redactor:
    """Knows everything secret that goes to a server or to a proxy before it."""
    secrets = [key, *query_secrets(address.query.items())]
    proxies = [value for name, value in os.environ.items() if name.upper().endswith("_PROXY")]
    logins = [address.login, *map(user_and_password, proxies)]
    return Redactor(secrets, [login for login in logins if login is not None])


def _unusable(shown: str, why: str) -> ConfigError:
    return ConfigError(f"no server can be reached at {shown!r}: {why}; expected http://HOST:PORT/v1")
