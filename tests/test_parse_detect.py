"""Which dialect a tokenizer's templates ask for."""

import pytest

from seal.errors import ConfigError
from seal.parse import DIALECTS, detect


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (None, "hermes"),
        ("{% for m in messages %}<|im_start|>{{ m.role }}{% endfor %}", "hermes"),
        ("within <tool_call></tool_call> XML tags", "hermes"),
        ('{{- \'{"name": "\' + tool_call.name + \'", "parameters": \' }}', "llama3"),
        ("{{- 'Environment: ipython\\n' }}", "llama3"),
        ("<tool_call>\n<function=example>\n<parameter=x>", "qwen3-coder"),
    ],
)
def test_detect(template: str | None, name: str) -> None:
    assert detect(template).name == name


def test_an_unknown_template_that_offers_tools_is_an_error_that_says_how_to_name_a_dialect() -> None:
    template = "{% if tools %}TOOLS: {{ tools | tojson }} call them as #name# {% endif %}"
    with pytest.raises(ConfigError, match=r"dialect = .* under \[model\].*--option dialect=") as error:
        detect(template)
    assert all(name in str(error.value) for name in DIALECTS)
