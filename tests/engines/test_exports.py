"""What is written is what was trained: reloaded by transformers and PEFT alone, from every start (design/engine.md)."""

from __future__ import annotations

import json
import warnings
import weakref
from pathlib import Path

import pytest

from engines import runs
from seal.config import load_config
from seal.errors import DataError, MissingError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # peft's own

BASE = (
    *runs.BASE,
    "lora.r=2",
    "rollout.rounds=2",
    "rollout.max_new_tokens=4",
    "update.learning_rate=0.02",
    "update.micro_batch=4",
    "update.entropy=0.1",  # a gradient even where all of a group end alike
    "evaluation.every=0",
    "output.traces=false",
)
IDS = [[5, 60, 7, 200, 31, 9, 118, 64, 77, 3], [9, 9, 41, 300, 12, 250, 8, 8, 19, 111]]
STARTS = ("base", "adapter", "merged", "full run", "LoRA run")


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
def base(model_dir) -> Path:
    return model_dir


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


def last_checkpoint(directory: Path) -> Path:
    return max((directory / "checkpoints").glob("checkpoint-*"), key=lambda item: int(item.name[11:]))


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
    last = last_checkpoint(directory)
    assert torch.allclose(logprobs(load_model(str(last)).model), said[-1], atol=1e-5)
    if trained == "LoRA" and start in ("adapter", "LoRA run"):
        from peft import AutoPeftModelForCausalLM

        with pytest.raises(OSError, match=r"adapter_config\.json"):  # rather than a model without its start
            AutoPeftModelForCausalLM.from_pretrained(last)


ODD = {
    "ranks and scales of their own": (
        {"use_rslora": True, "rank_pattern": {"layers.0.self_attn.q_proj": 5}, "alpha_pattern": {"down_proj": 7}},
        "adapter",
    ),
    "all layers but one": ({"target_modules": "all-linear", "exclude_modules": ["layers.1.mlp.up_proj"]}, "adapter"),
    "DoRA": ({"use_dora": True}, "model"),
    "biases": ({"bias": "all"}, "model"),
    "a tied output layer trained": ({"modules_to_save": ["lm_head"]}, "model"),
    "tied embeddings trained": ({"modules_to_save": ["embed_tokens"]}, "model"),
    "an adapter on a tied output layer": ({"target_modules": ["lm_head", "q_proj"]}, "model"),
    "an adapter on tied embeddings": ({"target_modules": ["embed_tokens", "q_proj"]}, "model"),
    "principal components": ({"init_lora_weights": "pissa"}, "model"),
}


@pytest.mark.filterwarnings("ignore:.*tie_word_embeddings", "ignore:Setting `save_embedding_layers`")
@pytest.mark.parametrize("name", ODD)
def test_other_adapters_to_start_from(name, base, run, tmp_path) -> None:
    """LoRA on an adapter of any kind: one adapter where that can be, else the whole model."""
    from seal.models.load import load_model

    settings, expected = ODD[name]
    source = adapt(base, tmp_path / "source", **settings)
    began = logprobs(reload(source))
    assert (began - logprobs(reload(base))).abs().max() > 0.01
    assert torch.allclose(logprobs(load_model(str(source)).model), began, atol=1e-5)
    directory, _, said = run(tmp_path / "run", source, "lora.enabled=true", "update.kl=0.001")
    best = directory / "checkpoints" / "best"
    assert kind(best) == expected
    assert (said[-1] - began).abs().max() > 0.01
    assert torch.allclose(logprobs(reload(best)), said[-1], atol=1e-5)
    assert torch.allclose(logprobs(load_model(str(directory)).model), said[-1], atol=1e-5)
    full, _, said = run(tmp_path / "full", source, "update.kl=0.001")
    assert torch.allclose(logprobs(reload(full / "checkpoints" / "best")), said[-1], atol=1e-5)
    for place in (directory, full):
        first = json.loads((place / "rounds.jsonl").read_text().splitlines()[0])
        assert first["update"]["kl"] == pytest.approx(0, abs=1e-6)


@pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`")
def test_an_adapter_with_a_longer_vocabulary(base, run, tmp_path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from seal.models.load import load_model

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens(["<new-one>", "<new-two>"])
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    adapted = get_peft_model(
        model, LoraConfig(target_modules=["q_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    )
    adapted.save_pretrained(tmp_path / "source")
    tokenizer.save_pretrained(tmp_path / "source")
    loaded = load_model(str(tmp_path / "source"))
    assert loaded.model.get_input_embeddings().weight.shape[0] == len(loaded.tokenizer) == len(tokenizer)
    assert torch.allclose(logprobs(loaded.model), logprobs(adapted), atol=1e-5)
    directory, _, said = run(tmp_path / "run", tmp_path / "source", "lora.enabled=true")
    best = directory / "checkpoints" / "best"
    assert kind(best) == "model", "an adapter alone would not fit the shorter embeddings"
    assert torch.allclose(logprobs(reload(best)), said[-1], atol=1e-5)


def test_gpt2_whose_layers_are_stored_transposed(base, run, tmp_path) -> None:
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"vocab_size": 400, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512, "initializer_range": 0.2}
    GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=None, eos_token_id=None)).save_pretrained(tmp_path / "base")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "base")
    source = tmp_path / "base"
    for name in ("first", "second"):
        began = logprobs(starting_policy(source))
        directory, _, said = run(tmp_path / name, source, "lora.enabled=true", "update.kl=0.001")
        best = directory / "checkpoints" / "best"
        assert kind(best) == "adapter"
        assert (said[-1] - began).abs().max() > 0.01
        assert torch.allclose(logprobs(reload(best)), said[-1], atol=1e-5)
        source = directory


def test_a_run_that_starts_from_an_adapter_can_be_resumed(starts, run, tmp_path) -> None:
    import shutil

    whole, _, said = run(tmp_path / "run", starts["adapter"], "lora.enabled=true", "output.keep=3")
    shutil.rmtree(last_checkpoint(whole))
    shutil.rmtree(whole / "checkpoints" / "best")
    _, _, again = run(tmp_path / "run", starts["adapter"], "lora.enabled=true", "output.keep=3", resume=True)
    assert torch.equal(said[-1], again[-1])


def test_a_run_that_was_moved_still_loads(starts, run, tmp_path) -> None:
    from seal.models.load import load_model

    directory, _, said = run(tmp_path / "run", starts["LoRA run"], "lora.enabled=true")
    directory.rename(tmp_path / "moved")
    assert torch.allclose(logprobs(reload(tmp_path / "moved" / "checkpoints" / "best")), said[-1], atol=1e-5)
    assert torch.allclose(logprobs(load_model(str(tmp_path / "moved")).model), said[-1], atol=1e-5)


def test_a_source_named_by_a_relative_path(base, run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(base.parent)
    directory, _, said = run(tmp_path / "run", Path(f"./{base.name}"), "lora.enabled=true", "rollout.rounds=1")
    monkeypatch.chdir(tmp_path)
    assert torch.allclose(logprobs(reload(directory / "checkpoints" / "best")), said[-1], atol=1e-5)


def test_a_base_that_has_gone_is_named_with_the_way_out(starts, tmp_path) -> None:
    import shutil

    from seal.models.load import load_model

    shutil.copytree(starts["adapter"], tmp_path / "adapter")
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    for base, error, message in (
        (
            "/gone/base",
            MissingError,
            "no model at /gone/base.*base of the adapter in .*correct base_model_name_or_path",
        ),
        (str(tmp_path / "adapter"), DataError, "names itself"),
    ):
        (tmp_path / "adapter" / "adapter_config.json").write_text(
            json.dumps({**settings, "base_model_name_or_path": base})
        )
        with pytest.raises(error, match=message):
            load_model(str(tmp_path / "adapter"))


def test_in_bfloat16_an_adapter_start_is_kept_to_rounding(starts, run, tmp_path) -> None:
    """Merged into bfloat16 the start is rounded once; the export does not have that error."""
    from seal.models.load import load_model

    directory, _, said = run(tmp_path / "run", starts["adapter"], "lora.enabled=true", "model.dtype=bfloat16")
    best = reload(directory / "checkpoints" / "best", dtype=torch.bfloat16)
    lost = logprobs(reload(starts["base"], dtype=torch.bfloat16)) - said[-1]
    assert (logprobs(best) - said[-1]).abs().mean() < 0.1 * lost.abs().mean()
    ours = load_model(str(directory), dtype="bfloat16").model
    assert torch.equal(logprobs(ours), logprobs(best)), "not merged, or the small update would be rounded away"


class Counted:
    """Loads of models, and how many of the models were alive at each."""

    def __init__(self, monkeypatch) -> None:
        from transformers import PreTrainedModel

        self.alive: list[int] = []
        models: list[weakref.ref] = []
        original = PreTrainedModel.from_pretrained.__func__

        def counting(cls, *arguments, **options):
            self.alive.append(sum(model() is not None for model in models))
            model = original(cls, *arguments, **options)
            models.append(weakref.ref(model))
            return model

        monkeypatch.setattr(PreTrainedModel, "from_pretrained", classmethod(counting))


@pytest.mark.parametrize("trained", ["full", "LoRA"])
@pytest.mark.parametrize("chosen", ["first", "last"])
@pytest.mark.parametrize("start", ["base", "adapter"])
def test_the_final_test_holds_one_model(start, chosen, trained, starts, run, tmp_path, monkeypatch) -> None:
    """The trainer's own, which takes the chosen weights back; else the export, after the trainer's has been let go."""
    from seal.engines.journal import Journal

    monkeypatch.setattr(Journal, "_best_so_far", lambda self, index, last: (index == 0) == (chosen == "first"))
    counted = Counted(monkeypatch)
    directory, summary, said = run(
        tmp_path / "run",
        starts[start],
        f"lora.enabled={str(trained == 'LoRA').lower()}",
        "update.kl=0.001",
        "evaluation.every=1",
        "evaluation.before=false",
        "environment.validation_tasks=1",
        "evaluation.held_out=validation",
        "output.traces=true",
    )
    assert summary["best"]["round"] == (0 if chosen == "first" else 1)
    assert len(said) == 1
    of_both = start == "adapter" and trained == "LoRA"
    assert counted.alive == ([0, 0] if chosen == "first" and of_both else [0])
    assert answers(directory / "traces" / "held-out-after.jsonl") == evaluated(directory)


@pytest.mark.parametrize("trained", ["full", "LoRA"])
@pytest.mark.parametrize("start", ["base", "adapter", "merged", "full run", "LoRA run"])
def test_weights_put_back_are_those_of_a_fresh_load(start, trained, starts, run, tmp_path, monkeypatch) -> None:
    """The model of the last round takes the first round's weights back: bit for bit what a fresh load has."""
    from seal.engines.journal import Journal
    from seal.engines.trl.restore import restore
    from seal.engines.trl.train import _Run

    seen = {}

    def look(self):
        model, best = self.model._model, self.directory.store.best
        last = logprobs(model)
        seen["restored"] = restore(model, best)
        seen["moved"] = (logprobs(model) - last).abs().max()
        seen["logprobs"] = logprobs(model)
        seen["state"] = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        raise Seen

    class Seen(Exception):
        pass

    monkeypatch.setattr(Journal, "_best_so_far", lambda self, index, last: index == 0)
    monkeypatch.setattr(_Run, "_summarise", look)
    with pytest.raises(Seen):
        run(
            tmp_path / "run", starts[start], f"lora.enabled={str(trained == 'LoRA').lower()}", "update.kl=0.0",
            "evaluation.every=1", "evaluation.before=false", "environment.validation_tasks=1",
        )  # fmt: skip
    fresh = reload(tmp_path / "run" / "checkpoints" / "best")
    if trained == "LoRA" and start in ("adapter", "LoRA run"):
        assert not seen["restored"], "the export holds the start, too"
        assert seen["moved"] == 0
        return
    assert seen["restored"]
    assert seen["moved"] > 0.01
    assert torch.equal(seen["logprobs"], logprobs(fresh))
    found = fresh.state_dict()
    assert seen["state"].keys() == found.keys()
    assert all(torch.equal(seen["state"][name], found[name]) for name in found)


def answers(traces: Path) -> list[list[tuple[int, ...]]]:
    from seal.trace import read_traces

    return [
        [step.generation.tokens.sampled for turn in traced.trajectory.turns for step in turn.steps]
        for traced in read_traces(traces)
    ]


def evaluated(directory: Path) -> list[list[tuple[int, ...]]]:
    """What `seal eval` on the run samples in the same tasks."""
    from seal.cli.policies import policy_for
    from seal.envs import make
    from seal.evaluate import evaluate

    environment = make("letter")
    tasks = environment.tasks("validation")
    policy = policy_for(str(directory), environment, tasks, temperature=0.0)
    return [
        [step.generation.tokens.sampled for turn in trajectory.turns for step in turn.steps]
        for trajectory, _ in evaluate(environment, tasks, policy, seed=0)
    ]
