"""Writing a GGUF file as an ordinary model directory. Loads torch and transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from seal.errors import DataError
from seal.models.padding import set_padding

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SAMPLE = (
    "I don't know; it's  12:45.\n\n  def f(x):\n\treturn x+1 # naïve 東京 🙂 <|im_start|>user\n{'a': 1}<|im_end|>\n"
)


def write_directory(gguf: Path, directory: Path, *, half: bool) -> None:
    """Convert.

    Args:
        gguf: The file.
        directory: Where to; created.
        half: Write bfloat16 instead of float32.

    Raises:
        DataError: If the file cannot be read, or its tokenizer would change by being saved.
        OSError: If the directory cannot be written.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, trust_remote_code=False)
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            dtype=torch.bfloat16 if half else torch.float32,
            trust_remote_code=False,  # without a value transformers asks on stdin
        )
    except Exception as error:  # a broken file shows itself in many ways, as struct.error among others
        raise DataError(f"{gguf} cannot be read as a model: {type(error).__name__}: {error}") from error
    _restore_digits(gguf, tokenizer)
    set_padding(model, tokenizer)
    # The weights are ordinary numbers from here on.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.config._name_or_path = gguf.stem
    plain: Any = type(model)(model.config)
    plain.to(dtype=model.dtype)
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    plain.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    again = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
    if again.encode(_SAMPLE) != tokenizer.encode(_SAMPLE):
        raise DataError(f"the tokenizer in {gguf} gives other ids once saved; use the model's original directory")


def _restore_digits(gguf: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """Split digits before anything else, as tokenizers of the kind "smollm" do; the converter leaves that out."""
    from gguf import GGUFReader  # noqa: PLC0415 -- optional
    from tokenizers import pre_tokenizers  # noqa: PLC0415 -- with transformers

    kind = GGUFReader(gguf).fields.get("tokenizer.ggml.pre")
    if kind is not None and kind.contents() == "smollm":
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
