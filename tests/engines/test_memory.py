"""The memory that is computed from a model's sizes, against models: counted, and measured by torch's profiler."""

from __future__ import annotations

import gc
import runpy
from pathlib import Path

import pytest

from seal.config import load_config
from seal.engines.memory import Sizes, need

torch = pytest.importorskip("torch")


def configuration(kind: str, **settings):
    import transformers

    common = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    settings = {**common, "intermediate_size": 96, "vocab_size": 200, "max_position_embeddings": 4096, **settings}
    return getattr(transformers, f"{kind}Config")(**settings)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT asks by the old name
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("kind", "more"), [("Llama", {}), ("Qwen2", {}), ("Qwen3", {"head_dim": 32})])
def test_weights_are_counted_exactly(kind, more, tied) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    config = configuration(kind, tie_word_embeddings=tied, **more)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    sizes = Sizes.of(config)
    assert sizes.parameters == sum(weight.numel() for weight in model.parameters())
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    trained = sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)
    assert sizes.adapter(4) == trained


def test_keys_and_values_are_counted_exactly() -> None:
    from transformers import AutoModelForCausalLM

    config = configuration("Qwen3", head_dim=32)
    model = AutoModelForCausalLM.from_config(config)
    cache = model(input_ids=torch.zeros((2, 10), dtype=torch.long), use_cache=True).past_key_values
    kept = sum(part.nbytes for layer in cache.layers for part in (layer.keys, layer.values))
    assert kept == 2 * 10 * Sizes.of(config).kept_per_token(4)


def peak(call) -> int:
    """Bytes that torch allocates on top of what there was, at the most."""
    from torch.profiler import ProfilerActivity, profile

    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({"hidden_size": 256, "intermediate_size": 16384, "vocab_size": 512}, 8),  # layers are most of it
        ({"hidden_size": 256, "intermediate_size": 512, "vocab_size": 16384}, 8),  # the head is
        ({"hidden_size": 512, "intermediate_size": 512, "vocab_size": 512, "num_hidden_layers": 24}, 2),  # weights are
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_a_step_takes_is_measured(settings, rows) -> None:
    """Weights, gradients and moments to the byte; what comes on top while computing never more than was computed."""
    from transformers import LlamaForCausalLM
    from trl.trainer.utils import add_fused_lm_head

    config = configuration("Llama", **{"num_hidden_layers": 2, "num_attention_heads": 8, **settings})
    model = LlamaForCausalLM(config).train()
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    ids = torch.randint(0, config.vocab_size, (rows, 128))

    def backward() -> None:
        out = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids, fused_lm_head=True)
        out.log_probs.sum().backward()

    backward()
    optimizer.step()
    run = load_config(
        None,
        [f"update.micro_batch={rows}", "model.max_context=128", "update.kl=0.0", "update.gradient_checkpointing=true"],
    )
    computed = need(Sizes.of(config), run)
    assert computed.always["weights"] == sum(weight.nbytes for weight in model.parameters())
    assert computed.update["gradients"] == sum(weight.grad.nbytes for weight in model.parameters())
    moments = [part for state in optimizer.state.values() for part in state.values() if part.dim()]
    assert computed.always["optimizer"] == sum(part.nbytes for part in moments)
    top = sum(computed.update.values()) - computed.update["gradients"]
    assert 0.6 * top < peak(backward) < top


def test_what_settings_change() -> None:
    sizes = Sizes.of(configuration("Llama", hidden_size=1024, num_hidden_layers=12))
    plain = ("update.kl=0.0", "output.reliance=false", "model.dtype=bfloat16")
    base = need(sizes, load_config(None, plain))
    with_kl = need(sizes, load_config(None, [*plain[1:], "update.kl=0.1"]))
    assert with_kl.peak - base.peak == base.always["weights"], "a reference"
    four = need(sizes, load_config(None, plain), shards=4)
    assert four.always["optimizer"] * 4 == base.always["optimizer"]
    assert four.rollout["compute copy"] == 2 * sizes.parameters, "whole while it samples, in 16 bits"
    lora = need(sizes, load_config(None, [*plain, "lora.enabled=true"]))
    assert lora.always["optimizer"] == 8 * sizes.adapter(16)
    assert lora.update["gradients"] == 4 * sizes.adapter(16)
    assert lora.always["weights"] == 2 * sizes.parameters + 4 * sizes.adapter(16)
    vllm = need(sizes, load_config(None, [*plain, "rollout.sampler=vllm"]))
    assert vllm.vllm["weights"] == 2 * sizes.parameters
    assert vllm.rollout["keys and values"] == 0
    assert need(sizes, load_config(None, [*plain[:2], "rollout.sampler=vllm"])).vllm["weights"] == 4 * sizes.parameters


def test_rows_are_scored_in_slices_to_the_same_bits(monkeypatch) -> None:
    from transformers import AutoModelForCausalLM

    from seal.models import logprobs

    model = AutoModelForCausalLM.from_config(configuration("Llama")).eval()
    prompts, completions = [[1, 2, 3], [4]], [list(range(20)), list(range(50, 61))]
    whole = logprobs.sequence_logprobs(model, prompts, completions, temperature=0.7)
    monkeypatch.setattr(logprobs, "_AT_ONCE", 3)
    assert logprobs.sequence_logprobs(model, prompts, completions, temperature=0.7) == whole
    assert [len(row) for row in whole] == [20, 11]


def test_the_tables_of_the_documentation_are_up_to_date() -> None:
    script = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "memory_table.py"))
    written = script["TARGET"].read_text(encoding="utf-8")
    assert script["page"](written) == written, "run `make docs`"
    assert all(load_config(script["recipes"].find(name)).rollout.rounds == 75 for name in script["MODELS"])
