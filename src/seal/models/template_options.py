"""What a chat template can be asked for, beyond the conversation itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from seal.errors import ConfigError

if TYPE_CHECKING:
    from jinja2.nodes import Node
    from jinja2.parser import Parser

_OURS = frozenset({"messages", "tools", "documents", "add_generation_prompt", "continue_final_message"})
"""What the conversation fills in."""
_SURROUNDING = frozenset({"raise_exception", "strftime_now"})
"""Functions that transformers offers to templates."""


def switches(template: str) -> frozenset[str]:
    """Variables that a template reads and nobody fills in unless asked to, such as `enable_thinking`.

    Raises:
        ConfigError: If it is no Jinja template.
    """
    from jinja2 import Environment, TemplateSyntaxError, meta, nodes  # noqa: PLC0415 -- comes with transformers
    from jinja2.ext import Extension  # noqa: PLC0415

    class Generation(Extension):
        """Reads the block `generation`, which transformers adds to the language."""

        tags = {"generation"}  # noqa: RUF012 -- as in Jinja

        def parse(self, parser: Parser) -> Node | list[Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = Environment(extensions=["jinja2.ext.loopcontrols", Generation], trim_blocks=True, lstrip_blocks=True)  # noqa: S701 -- never rendered
    try:
        tree = environment.parse(template)
    except TemplateSyntaxError as error:
        raise ConfigError(f"the chat template is no valid Jinja: {error}") from error
    # A name that the template sets is one of its own, unless it asks whether somebody else has.
    own = {node.name for node in tree.find_all(nodes.Name) if node.ctx == "store"}
    asked = {
        test.node.name
        for test in tree.find_all(nodes.Test)
        if test.name in ("defined", "undefined") and isinstance(test.node, nodes.Name)
    }
    asked |= {
        found.node.name
        for found in tree.find_all(nodes.Filter)
        if found.name in ("default", "d") and isinstance(found.node, nodes.Name)
    }
    names = meta.find_undeclared_variables(tree) - (own - asked)
    return frozenset(names - _OURS - _SURROUNDING - environment.globals.keys())


def check_options(options: Iterable[str], template: str, specials: Iterable[str], name: str) -> None:
    """Refuse options that a template does not use.

    Args:
        options: Their names.
        template: Of the tokenizer.
        specials: Names of special tokens (`bos_token`, ...), which the tokenizer fills in.
        name: Of the model, for the message.

    Raises:
        ConfigError: For the first one that the template does not use, with those that it does.
    """
    if not (options := list(options)):
        return
    known = sorted(switches(template) - set(specials))
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it uses: {', '.join(known) or 'none'}"
            raise ConfigError(
                f"model.template_options.{option}: the chat template of {name} does not use {option!r}{hint}"
            )
