"""Loading a policy: from a directory, a hub id, a GGUF file, an installed package, or one that SEAL fetches."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seal.cache import expand
from seal.errors import ConfigError, DataError, MissingError, SealError
from seal.models.packages import KNOWN, fetch_package_model, gguf_model, only_gguf, package_model

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_ADAPTER = "adapter_config.json"
_DTYPES = ("auto", "float32", "bfloat16", "float16")
POCKET = Path(__file__).parent / "pocket"
"""The model that ships with the package."""


class LoadedModel(NamedTuple):
    """A model in evaluation mode, and its tokenizer with a padding token."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def load_model(
    source: str,
    *,
    dtype: str = "auto",
    device: str = "auto",
    threads: int | None = None,
    trainable: bool = False,
    trust_remote_code: bool = False,
    progress: Callable[[str], None] | None = None,
) -> LoadedModel:
    """Load a causal language model and its tokenizer.

    Args:
        source: One of
            a directory with a model, with a LoRA adapter (loaded on its base model), or with one GGUF file;
            a GGUF file; `pocket` (ships with SEAL); `smollm2` (fetched once, 93 MB);
            `package:NAME` (the GGUF file of an installed package); a hub id such as `Qwen/Qwen2.5-7B-Instruct`.
        dtype: `float32`, `bfloat16`, `float16`, or `auto`: float32 on a CPU, elsewhere what the checkpoint says.
        device: `cpu`, `cuda`, `cuda:1`, `mps`, or `auto`: a GPU if there is one.
        threads: CPU threads for torch; None leaves torch's choice.
        trainable: Keep a LoRA adapter apart and trainable, instead of merging it into the weights.
        trust_remote_code: Run Python code that comes with the model. Nobody is asked.
        progress: Told in words of anything slow.

    Returns:
        Model and tokenizer. GGUF files are converted once into the cache; the model's `name_or_path` is the directory
        that it was loaded from.

    Raises:
        ConfigError: If an option cannot be used here, or the model needs code of its own and that is not allowed.
        MissingError: If there is nothing at `source`, or a package that it needs is not installed.
        DataError: If what is there cannot be read.
    """
    if dtype not in _DTYPES:
        raise ConfigError(f"dtype is {dtype!r}; expected one of: {', '.join(_DTYPES)}")
    if not isinstance(trust_remote_code, bool):
        raise ConfigError(f"trust_remote_code is {trust_remote_code!r}; expected true or false")
    import torch  # noqa: PLC0415 -- heavy

    if threads is not None:
        if threads < 1:
            raise ConfigError(f"threads is {threads}; expected at least 1")
        torch.set_num_threads(threads)
    place = _device(device)
    where = model_directory(source, progress=progress)
    if isinstance(where, Path) and (where / _ADAPTER).is_file():
        return _load_adapter(
            where, dtype, place, trainable=trainable, trust_remote_code=trust_remote_code, progress=progress
        )
    return _load(where, dtype, place, trust_remote_code=trust_remote_code)


def model_directory(source: str, *, progress: Callable[[str], None] | None = None) -> Path | str:
    """Find what a source stands for: a model directory on this machine, or else the hub id itself.

    Fetches and converts on first use where that is needed.

    Raises:
        MissingError: If it looks like a path and nothing is there, or the directory holds no model.
        ConfigError: If a directory holds several GGUF files.
    """
    if source == "pocket":
        if not (POCKET / "config.json").is_file():
            raise MissingError(f"the pocket model is not in this installation ({POCKET}); reinstall seal-rl")
        return POCKET
    if source.startswith("package:"):
        return package_model(source.removeprefix("package:"), progress=progress)
    path = expand(source)
    if path.is_file() and path.suffix == ".gguf":
        return gguf_model(path, progress=progress)
    if path.is_dir():
        if (path / "config.json").is_file() or (path / _ADAPTER).is_file():
            return path
        gguf = only_gguf(path)
        if gguf is not None:
            return gguf_model(gguf, progress=progress)
        found = ", ".join(sorted(item.name for item in path.iterdir())[:6]) or "nothing"
        raise MissingError(
            f"{path} holds no model: expected a config.json with weights, an {_ADAPTER}, or a .gguf file; found {found}"
        )
    if source in KNOWN:
        return fetch_package_model(source, progress=progress)
    if path.exists():
        raise MissingError(f"{path} is a file, but no .gguf; expected a model directory or a GGUF file")
    if path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1 or source.endswith(".gguf"):
        raise MissingError(f"there is no model at {path}; give a directory, a hub id, or one of: {', '.join(KNOWN)}")
    return source


def adapter_base(directory: Path) -> str | None:
    """What the base model of a LoRA adapter is called; None if the directory holds no adapter.

    Raises:
        DataError: If the adapter names none.
    """
    if not (directory / _ADAPTER).is_file():
        return None
    base = _json(directory / _ADAPTER).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise DataError(f"{directory / _ADAPTER} names no base model (base_model_name_or_path)")
    return base


def _load(where: Path | str, dtype: str, device: torch.device, *, trust_remote_code: bool) -> LoadedModel:
    import torch  # noqa: PLC0415 -- heavy
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415 -- heavy

    from seal.models.padding import set_padding  # noqa: PLC0415 -- with transformers

    chosen = "float32" if dtype == "auto" and device.type == "cpu" else dtype
    with _reading(where):
        # Given in both cases: without a value transformers asks on stdin.
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=trust_remote_code)
        model: Any = AutoModelForCausalLM.from_pretrained(
            where, dtype="auto" if chosen == "auto" else getattr(torch, chosen), trust_remote_code=trust_remote_code
        )
    set_padding(model, tokenizer)
    return LoadedModel(model.to(device).eval(), tokenizer)


def _load_adapter(
    where: Path,
    dtype: str,
    device: torch.device,
    *,
    trainable: bool,
    trust_remote_code: bool,
    progress: Callable[[str], None] | None,
) -> LoadedModel:
    try:
        from peft import PeftModel  # noqa: PLC0415 -- optional
    except ImportError as error:
        raise MissingError(f"{where} holds a LoRA adapter, which needs peft; run: pip install peft") from error
    from transformers import AutoTokenizer  # noqa: PLC0415 -- heavy

    base = adapter_base(where)
    assert base is not None
    found = model_directory(base, progress=progress)
    if isinstance(found, Path) and (found / _ADAPTER).is_file():
        raise DataError(f"the adapter in {where} is built on another adapter, {found}; merge that one first")
    loaded, tokenizer = _load(found, dtype, device, trust_remote_code=trust_remote_code)
    with _reading(where), warnings.catch_warnings():
        # peft asks transformers for a property by its old name.
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        if (where / "tokenizer_config.json").is_file():
            tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=trust_remote_code)
        adapted = PeftModel.from_pretrained(loaded, where, is_trainable=trainable)
    model: Any = adapted if trainable else adapted.merge_and_unload()
    model.config._name_or_path = str(where)
    return LoadedModel(model.eval(), tokenizer)


def _json(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is broken: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} is broken: expected an object, got {type(found).__name__}")
    return found


def _device(name: str) -> torch.device:
    import torch  # noqa: PLC0415 -- heavy

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device is {name!r}; expected auto, cpu, cuda, cuda:N or mps") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device is {name!r}, but this machine has {torch.cuda.device_count()} GPUs; use auto or cpu")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device is 'mps', which this machine does not have; use auto or cpu")
    return device


@contextmanager
def _reading(where: Path | str) -> Iterator[None]:
    """Turn what transformers raises while reading a model into one message."""
    if isinstance(where, Path) and (where / "config.json").is_file():
        _json(where / "config.json")
    try:
        yield
    except SealError:
        raise
    except MemoryError:
        raise
    except Exception as error:  # transformers, tokenizers, safetensors and peft raise what they like
        reason = " ".join(str(error).split()) or type(error).__name__
        if "trust_remote_code" in reason:
            raise ConfigError(
                f"the model {where} comes with Python code of its own, which can do all that you can, and which SEAL "
                "does not run by itself. Read it; to allow it: seal train --set model.trust_remote_code=true, or "
                "seal eval --model-option trust_remote_code=true"
            ) from error
        if isinstance(where, Path):
            raise DataError(f"the model in {where} cannot be read: {reason}") from error
        raise MissingError(
            f"{where!r} is neither a directory here, nor one of {', '.join(KNOWN)}, nor could it be loaded from the "
            f"hub: {reason}"
        ) from error
