"""Chat templates are programs from strangers: the same text as transformers gives, and bounds on time and size."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from seal.errors import ConfigError
from seal.models import template as module
from seal.models.chat import ChatFormat
from seal.models.template import Template, TemplateRunsWild

TEMPLATES = sorted((Path(__file__).parent / "templates").glob("*.jinja"))
POCKET = Path(module.__file__).parent / "pocket" / "chat_template.jinja"
MESSAGES = [
    {"role": "system", "content": "Be brief. {:>99999999} %99999999d"},
    {"role": "user", "content": "Copy a\nto b" + " and c" * 500},
    {"role": "assistant", "content": "done {{ 7 * 7 }}"},
    {"role": "user", "content": "and again"},
]
TOOL = {
    "name": "copy",
    "description": "Copy.",
    "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
}


@pytest.mark.parametrize("path", [*TEMPLATES, POCKET], ids=lambda path: path.stem)
@pytest.mark.parametrize("tools", [None, [{"type": "function", "function": TOOL}]], ids=["bare", "tools"])
def test_the_text_is_the_one_of_transformers(path: Path, tools: list[object] | None) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    source = path.read_text()
    given = {"tools": tools, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    for messages in (MESSAGES, MESSAGES[1:]):
        try:
            wanted = render_jinja_template([messages], chat_template=source, **given)[0][0]
        except Exception as error:
            with pytest.raises(type(error)):
                Template(source).render(messages=messages, documents=None, **given)
            continue
        assert Template(source).render(messages=messages, documents=None, **given) == wanted


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ loop.last }} {{ loop.nextitem is defined }},{% endfor %}",  # noqa: E501
        "{% for k, v in messages[0].items() %}{{ k }}={{ v }}{{ loop.length }}{% endfor %}",
        "{% for m in messages if m.role == 'user' %}{{ m.content[:3] ~ loop.index ~ none }}{% else %}no{% endfor %}",
        "{% for c in 'abc' %}{{ c }}{% if c == 'b' %}{% break %}{% endif %}{% endfor %}",
        "{% for x in nothing %}{{ x }}{% else %}none{% endfor %}",
        "{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f('a') ~ f(1.5) }}{% set y %}{{ f('z') }}{% endset %}{{ y|upper }}",
        "{{ messages | map(attribute='role') | join(', ') }} {{ messages[1].content | replace('and', '&') | length }}",
        "{{ 'a,b'.split(',') | tojson(indent=2) }} {{ '%s-%05d' | format('x', 7) }} {{ '{:>4}'.format('y') }}",
        "{% set ns = namespace(n=0) %}{% for i in range(50) %}{% set ns.n = ns.n + i * 2 %}{% endfor %}{{ ns.n ** 2 }}",
        "{% for a in [[1, [2]], [3, []]] recursive %}{{ a if a is number else loop(a) }}{% endfor %}",
        "{% generation %}x{% endgeneration %}{{ 'abc' | indent(2) }}{{ 'x' | center(9) }}{{ '-' * 5 }}",
    ],
)
def test_what_templates_use_works_as_before(source: str) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    wanted = render_jinja_template([MESSAGES], chat_template=source)[0][0]
    assert Template(source).render(messages=MESSAGES, tools=None, documents=None) == wanted


LOOPS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "recursive macro": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "loops over text": "{% for a in 'x' * 9999 %}{% for b in 'x' * 9999 %}{% for c in 'xx' %}{% endfor %}{% endfor %}{% endfor %}",  # noqa: E501
    "filters": "{% for a in range(9999) %}{% set b = range(99999) | list | sort | reverse | list %}{% endfor %}",
}
BOMBS = {
    "repeat": "{{ 'a' * 10 ** 10 }}",
    "repeated list": "{{ [0] * 10 ** 10 }}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "doubling": "{% set ns = namespace(x='aa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "doubling by sum": "{% set ns = namespace(x='aa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",  # noqa: E501
    "center": "{{ 'a' | center(10000000000) }}",
    "ljust": "{{ 'a'.ljust(10000000000) }}",
    "percent": "{{ '%9999999999d' % 1 }}",
    "format": "{{ '{:>9999999999}'.format(1) }}",
    "format filter": "{{ '%9999999999d' | format(1) }}",
    "width from an argument": "{{ '%*d' % (9999999999, 1) }}",
    "nested width": "{{ '{:>{}}'.format(1, 9999999999) }}",
    "indent": "{{ ('\n' * 9999) | indent(99999999) }}",
    "replace": "{{ ('a' * 99999).replace('a', 'b' * 99999) }}",
    "join": "{{ ('b' * 99999).join('a' * 99999) }}",
    "join of a list": "{{ (['a' * 99999] * 99999) | join }}",
    "join of a generator": "{{ range(99999) | map('center', 999999) | join }}",
    "batch": "{{ [1] | batch(10000000000, 'x') | list }}",
    "output": "{% set x = 'a' * 9999999 %}{% for i in range(99999) %}{{ x }}{% endfor %}",
    "a block": "{% set y %}{% set x = 'a' * 999999 %}{% for i in range(99999) %}{{ x }}{% endfor %}{% endset %}",
    "many": "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = ns.x + ['a' * 999999] %}{% endfor %}",  # noqa: E501
    "tojson": "{{ [1, [2, [3]]] | tojson(indent=1000000000) }}",
    "expandtabs": "{{ ('\t' * 99999).expandtabs(99999) }}",
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_template_that_loops_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.3)
    compiled = Template(LOOPS[name])
    started = time.process_time()
    with pytest.raises(TemplateRunsWild, match="processor time"):
        compiled.render(messages=MESSAGES)
    assert time.process_time() - started < 20


@pytest.mark.parametrize("name", BOMBS)
def test_a_template_that_grows_is_refused(name: str) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TemplateRunsWild):
        Template(BOMBS[name]).render(messages=MESSAGES)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_500_000, "kilobytes"


def test_the_bound_holds_in_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.3)
    raised: list[BaseException] = []

    def render() -> None:
        try:
            Template(LOOPS["nested loops"]).render()
        except TemplateRunsWild as error:
            raised.append(error)

    threads = [threading.Thread(target=render) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(raised) == 3


def test_a_model_whose_template_loops_is_one_message(tokenizer_for, monkeypatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.3)
    tokenizer = tokenizer_for("chatml")
    monkeypatch.setattr(tokenizer, "chat_template", LOOPS["nested loops"] + tokenizer.chat_template)
    started = time.process_time()
    with pytest.raises(ConfigError, match=r"the chat template of .* cannot be used: it ran for more than"):
        ChatFormat(tokenizer)
    assert time.process_time() - started < 20, "not once for each probe"


def test_a_template_that_is_no_jinja(tokenizer_for, monkeypatch) -> None:
    tokenizer = tokenizer_for("chatml")
    monkeypatch.setattr(tokenizer, "chat_template", "{% for %}")
    with pytest.raises(ConfigError, match="is not valid Jinja"):
        ChatFormat(tokenizer)
