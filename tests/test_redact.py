"""Secrets go, whatever their spelling; everything else stays."""

from __future__ import annotations

import base64
import json
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seal.redact import MASK, SHORTEST, Redactor, public, user_and_password
from seal.redact import settings as safe_settings

SECRET = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=SHORTEST, max_size=30)


@settings(max_examples=200, deadline=None)
@given(SECRET, st.text(max_size=20), st.text(max_size=20))
def test_every_spelling_of_a_secret_goes(secret: str, before: str, behind: str) -> None:
    redact = Redactor([secret])
    for spelled in (
        secret,
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        base64.b64encode(secret.encode()).decode(),
    ):
        if len(spelled) >= SHORTEST and MASK not in spelled:
            assert spelled not in redact.exact(f"{before} {spelled} {behind}")


def test_basic_authentication_and_form_encoding_go() -> None:
    redact = Redactor(pairs=[("me", "pässwörd/1"), ("u", "pw")])
    for spelled in ("pässwörd/1", quote("pässwörd/1", safe=""), base64.b64encode("me:pässwörd/1".encode()).decode()):
        assert spelled not in redact(f"x {spelled} y")
    assert quote_plus("pässwörd/1") not in redact(quote_plus("pässwörd/1"))
    assert base64.b64encode(b"u:pw").decode() not in redact(f"Basic {base64.b64encode(b'u:pw').decode()}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at http://u:p@w@h:80/v1 and", "at http://***@h:80/v1 and"),
        ("https://token@h", "https://***@h"),
        ("GET /v1?api-key=abc&x=1", "GET /v1?api-key=***&x=1"),
        ("?key=a&access_token=b#c", "?key=***&access_token=***#c"),
        ("Authorization: Bearer abc.def\n", "Authorization: Bearer ***\n"),
        ('{"authorization": "Basic dTpw"}', '{"authorization": "Basic ***"}'),
        (r"{\"Authorization\": \"Bearer abc\"}", r"{\"Authorization\": \"Bearer ***\"}"),
        ("[(b'Authorization', b'Bearer abc')]", "[(b'Authorization', b'Bearer ***')]"),
    ],
)
def test_what_looks_like_a_secret_by_its_place_goes(text: str, expected: str) -> None:
    assert public(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=5, see http://localhost:8000/v1?max_tokens=5&page=2",
        "write to me@example.org or look at /tmp/a@b",
        "Basic information about tokens and keys; the bearer of bad news",
        "set OPENAI_API_KEY to a valid key",
        "",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert public(text) == text
    assert Redactor(["none", "EMPTY", ""])(text) == text


def test_settings_are_masked_by_name() -> None:
    given = {
        "model": "openai:m@http://u:p@h/v1",
        "model_options": {
            "api_key_env": "MY_KEY",
            "extra_body": {"api_key": "k", "token": 5, "list": [{"PASSWORD": "p"}]},
        },
        "temperature": 0.0,
        "none": None,
    }
    assert safe_settings(given) == {
        "model": "openai:m@http://***@h/v1",
        "model_options": {
            "api_key_env": "MY_KEY",
            "extra_body": {"api_key": MASK, "token": 5, "list": [{"PASSWORD": MASK}]},
        },
        "temperature": 0.0,
        "none": None,
    }


def test_the_environment_s_own_secrets_are_known() -> None:
    environment = {
        "HF_TOKEN": "hf_0123456789\n",
        "MY_API_KEY": "key-0123456",
        "TOKENIZERS_PARALLELISM": "paralleled",
        "HTTPS_PROXY": "http://me:proxy-pw-01@h:1",
        "HOME": "/home/somebody",
    }
    redact = Redactor.of_environment(environment)
    assert redact("hf_0123456789 key-0123456 proxy-pw-01") == f"{MASK} {MASK} {MASK}"
    assert redact("paralleled /home/somebody") == "paralleled /home/somebody"


def test_users_of_addresses() -> None:
    assert user_and_password("http://a%40b:c%2Fd@h/v1") == ("a@b", "c/d")
    assert user_and_password("http://h/v1@x") is None
    assert user_and_password("http://[::1") is None


@pytest.mark.parametrize("piece", ["a.", "authorization: ", "?a-", "http://", "x://@", "?" + "_" * 1000, "  "])
def test_long_texts_take_linear_time(piece: str) -> None:
    begin = time.process_time()
    public((piece * 2**20)[: 2**20])
    assert time.process_time() - begin < 20
