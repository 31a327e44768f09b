"""Which real chat templates can be trained with, and what each rewrites: the table of docs/parsers.md.

    python scripts/templates_table.py [--write docs/parsers.md] [--templates DIR]

The templates are those that TRL ships as copies of the models' own, and those of a folder, each as NAME.jinja with one
of the names of `FAMILIES` at its beginning. None of them is part of this repository. A small tokenizer with a family's
control tokens, trained on the template's own text, stands for each model's.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seal.errors import ConfigError

CHATML = ("<|im_end|>", ("<|im_start|>", "<|endoftext|>"))
"""The end of sequence of a family's tokenizer, and its other control tokens, the one at the beginning first."""
LFM2 = ("<|im_end|>", ("<|startoftext|>", "<|im_start|>", "<|tool_call_start|>", "<|tool_call_end|>"))
LLAMA = (
    "<|eot_id|>",
    ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|python_tag|>"),
)
HARMONY = ("<|return|>", ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>"))
GLM = ("<|endoftext|>", ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"))
GEMMA4 = (
    "<eos>",
    (
        *("<bos>", "<|turn>", "<turn|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>"),
        *("<tool_response|>", '<|"|>', "<|channel>", "<channel|>", "<|think|>"),
    ),
)
DEEPSEEK = ("<｜end▁of▁sentence｜>", ("<｜begin▁of▁sentence｜>",))
KIMI = ("<|im_end|>", ("[BOS]", "[EOS]", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>"))
MINIMAX = ("[e~[", ("]~!b[", "]~b]"))
FAMILIES = {
    "deepseek": DEEPSEEK,
    "gemma4": GEMMA4,
    "glm": GLM,
    "gptoss": HARMONY,
    "kimi": KIMI,
    "lfm2": LFM2,
    "llama3": LLAMA,
    "minimax": MINIMAX,
    "nemotron_3": CHATML,
    "qwen": CHATML,
}
"""Control tokens by the beginning of a template's name."""
WORDS = (
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    *("<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>"),
    *("<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>"),
    *("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
)
"""Tokens that are added, and not called special, in the tokenizers that have them."""
_OPTION = re.compile(r"template_options = (\{ [^}]+ \})")
BEGIN, END = "<!-- begin: templates_table -->", "<!-- end: templates_table -->"


def shipped() -> Path:
    """Where TRL keeps its copies of templates."""
    found = find_spec("trl")
    if found is None or found.origin is None:
        raise SystemExit("TRL is not installed: run make setup")
    return Path(found.origin).with_name("chat_templates")


def _small(text: str) -> Any:
    """A byte-level tokenizer whose merges come from a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415 -- slow
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 -- slow

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    core.train_from_iterator(text.splitlines(keepends=True), trainer)
    fast: Any = PreTrainedTokenizerFast
    return fast(tokenizer_object=core, clean_up_tokenization_spaces=False)


def tokenizer(name: str, folder: Path | None = None) -> Any:
    """A small tokenizer with a real template and its family's control tokens.

    Args:
        name: The template's, without its ending.
        folder: Where it is; TRL's by default.
    """
    from tokenizers import AddedToken  # noqa: PLC0415 -- slow

    eos, others = next(tokens for family, tokens in FAMILIES.items() if name.lower().startswith(family))
    template = (folder or shipped()).joinpath(f"{name}.jinja").read_text(encoding="utf-8")
    # A merge that spelled a control token would have its id.
    made = _small(re.sub("|".join(map(re.escape, (eos, *others, *WORDS))), " ", template))
    made.add_special_tokens({"additional_special_tokens": [*others, eos]})
    made.add_tokens([AddedToken(word, special=False, normalized=False) for word in WORDS])
    made.eos_token, made.bos_token = eos, others[0]
    made.chat_template = template
    return made


def rows(folder: Path) -> Iterator[str]:
    """A row for each template of a folder whose family is known; those that TRL changed for its training left out."""
    from seal.models.chat import ChatFormat  # noqa: PLC0415 -- slow

    for path in sorted(folder.glob("*.jinja")):
        name = path.stem
        if not name.lower().startswith(tuple(FAMILIES)) or name.endswith("_training"):
            continue
        try:
            chat = ChatFormat(tokenizer(name, folder))
            proof = chat.prove()
        except ConfigError as error:
            yield f"| `{name}` | | no | | {_cell(str(error).partition(chr(10))[0])} | |"
            continue
        told = [_cell(text) for text in proof.differences if not text.startswith("so a server")]
        helps = ", ".join(f"`{option}`" for text in proof.differences for option in _OPTION.findall(text))
        where = "the template" if chat.takes_calls else "its tool role" if chat.tool_role else "user messages"
        yield f"| `{name}` | `{chat.dialect.name}` | yes | {where} | {'; '.join(told) or 'none'} | {helps} |"


def _cell(text: str) -> str:
    """What a difference says, without its example."""
    said = text.partition(": ")[0].removeprefix("a fresh rendering ").partition("; the context keeps")[0]
    return said.replace("|", "\\|").replace("which a fresh rendering drops", "dropped")


def main() -> int:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    parser.add_argument("--templates", type=Path, help="a folder of further templates")
    given = parser.parse_args()
    found = [row for folder in (shipped(), given.templates) if folder for row in rows(folder)]
    heading = f"Copies in trl {version('trl')}, {len(found)} templates."
    columns = ("template", "dialect", "trainable", "results are rendered by", "a fresh rendering ...", "helped by")
    head = [heading, "", f"| {' | '.join(columns)} |", "|---|---|---|---|---|---|"]
    table = "\n".join([*head, *found])
    print(table)
    if given.write:
        text = given.write.read_text(encoding="utf-8")
        before, begin, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise SystemExit(f"{given.write} has no place for the table: {BEGIN} ... {END}")
        given.write.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
