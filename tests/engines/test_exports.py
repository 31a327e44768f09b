"""What a run writes down is what it trained: reloaded by transformers and PEFT alone, from every start (design/engine.md)."""

from __future__ import annotations

import json
import warnings
import weakref
from pathlib import Path

import pytest

import letter
from seal.config import load_config
from seal.errors import DataError, MissingError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # peft's own

BASE = (
    "environment.name=letter",
    "model.dialect=even",
    "model.max_context=512",
    "model.threads=1",
    "lora.r=2",
    "rollout.rounds=2",
    "rollout.prompts=2",
    "rollout.group_size=4",
    "rollout.max_new_tokens=4",
    "update.learning_rate=0.02",
    "update.micro_batch=4",
    "update.entropy=0.1",  # a gradient even where all of a group end alike
    "evaluation.every=1",
    "evaluation.before=false",
    "environment.validation_tasks=1",
    "output.traces=false",
)
IDS = [[5, 60, 7, 200, 31, 9, 118, 64, 77, 3], [9, 9, 41, 300, 12, 250, 8, 8, 19, 111]]
STARTS = ("base", "adapter", "merged", "full run", "LoRA run")


@pytest.fixture(scope="module", autouse=True)
def _registered():
    import seal.envs
    import seal.parse

    names, dialects = dict(seal.envs.BUILT_IN), seal.parse.DIALECTS
    letter.register()
    yield
    seal.envs.BUILT_IN.clear()
    seal.envs.BUILT_IN.update(names)
    seal.parse.DIALECTS = dialects


def logprobs(model):
    ids = torch.tensor(IDS)
    with torch.no_grad():
        logits = model.eval()(input_ids=ids).logits.float()
    return logits.log_softmax(-1)[:, :-1].gather(2, ids[:, 1:, None]).squeeze(2)


def reload(place: Path, dtype="auto"):
    """As a stranger would: without SEAL."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    if not (place / "adapter_config.json").is_file():
        return AutoModelForCausalLM.from_pretrained(place, dtype=dtype)
    base = json.loads((place / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert Path(base).is_absolute(), "a relative path means something else in another directory"
    return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=dtype), place)


def kind(place: Path) -> str:
    return "adapter" if (place / "adapter_config.json").is_file() else "model"


@pytest.fixture(scope="module")
def run():
    """Train; returns the directory, the summary, and what the trainer's own model said at each export."""
    from seal.engines.trl import export as module
    from seal.engines.trl import train

    def start(place: Path, source: Path, *overrides: str, resume=False):
        said = []
        original = module.export

        def watched(model, *arguments):
            model_was_training = model.training
            said.append(logprobs(model))
            model.train(model_was_training)
            original(model, *arguments)

        module.export = watched
        try:
            config = load_config(None, [*BASE, f"model.source={source}", *overrides])
            return place, train(config, place, resume=resume), said
        finally:
            module.export = original

    return start


@pytest.fixture(scope="module")
def base(tmp_path_factory, tokenizer_for, model_for) -> Path:
    place = tmp_path_factory.mktemp("base")
    tokenizer = tokenizer_for("chatml")
    model_for(len(tokenizer), positions=512).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def adapt(base: Path, place: Path, seed: int = 1, **settings) -> Path:
    """A random adapter on the base."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(seed)
    settings = {"r": 3, "lora_alpha": 2, "target_modules": ["q_proj", "v_proj", "down_proj"], **settings}
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(task_type="CAUSAL_LM", **settings))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and "magnitude" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(place)
    AutoTokenizer.from_pretrained(base).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def starts(base, run, tmp_path_factory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("starts")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        adapter = adapt(base, place / "adapter")
        whole = reload(adapter).merge_and_unload()
    whole.save_pretrained(place / "merged")
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(base).save_pretrained(place / "merged")
    full, _, _ = run(place / "full", base, "update.kl=0.0")
    lora, _, _ = run(place / "lora", base, "update.kl=0.0", "lora.enabled=true")
    return {"base": base, "adapter": adapter, "merged": place / "merged", "full run": full, "LoRA run": lora}


def starting_policy(place: Path):
    return reload(place / "checkpoints" / "best" if (place / "checkpoints").is_dir() else place)


WRITTEN = {"base": "adapter", "adapter": "adapter", "merged": "adapter", "full run": "adapter", "LoRA run": "adapter"}
"""What training with LoRA writes from each start; full training always writes a model."""


@pytest.mark.parametrize("kl", [0.0, 0.001])
@pytest.mark.parametrize("trained", ["full", "LoRA"])
@pytest.mark.parametrize("start", STARTS)
def test_an_export_is_what_was_trained(start, trained, kl, starts, run, tmp_path) -> None:
    from seal.models.load import load_model

    lora = f"lora.enabled={str(trained == 'LoRA').lower()}"
    directory, _, said = run(tmp_path / "run", starts[start], lora, f"update.kl={kl}")
    best = directory / "checkpoints" / "best"
    began = logprobs(starting_policy(starts[start]))
    assert (said[-1] - began).abs().max() > 0.01, "something was learned"
    assert kind(best) == (WRITTEN[start] if trained == "LoRA" else "model")
    assert torch.allclose(logprobs(reload(best)), said[-1], atol=1e-5)
    assert torch.allclose(logprobs(load_model(str(directory)).model), said[-1], atol=1e-5), "seal eval reads the same"
    rounds = [json.loads(line) for line in (directory / "rounds.jsonl").read_text().splitlines()]
    if kl:  # the reference is the policy that training starts from, adapter included
        assert rounds[0]["update"]["kl"] == pytest.approx(0, abs=1e-6)
        assert rounds[1]["update"]["kl"] > 1e-6
    # The last checkpoint too, which a resumed run goes on from.
    last = max((directory / "checkpoints").glob("checkpoint-*"), key=lambda item: int(item.name[11:]))
    assert load_model(str(last)).model is not None
