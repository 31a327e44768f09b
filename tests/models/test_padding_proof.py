"""Padding and positions: rows that share a forward pass say what they say alone, or the model is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel

from seal.errors import ConfigError
from seal.models.logprobs import sequence_logprobs
from seal.models.padding_proof import padding_fault, prove_length

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_COMMON: dict[str, Any] = {
    "vocab_size": 400,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
_ATTENTION = {**_COMMON, "intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 512}
_GPT2 = {**_COMMON, "n_positions": 512}
_DYNAMIC = {"rope_type": "dynamic", "factor": 8.0, "rope_theta": 10000.0}
_LONG = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "short_factor": [1.0] * 4,
    "long_factor": [6.0] * 4,
    "original_max_position_embeddings": 24,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("Llama", _ATTENTION),
    "Llama with dynamic NTK": ("Llama", {**_ATTENTION, "max_position_embeddings": 17, "rope_parameters": _DYNAMIC}),
    "GPT-2": ("GPT2", _GPT2),
    "OPT": ("OPT", {**_COMMON, "ffn_dim": 64, "word_embed_proj_dim": 32, "init_std": 0.2}),
    "Bloom": ("Bloom", {**_COMMON, "n_layer": 2, "n_head": 4}),
    "Lfm2": ("Lfm2", {**_ATTENTION, "layer_types": ["conv", "full_attention"]}),
    "Mamba": ("Mamba", {**_COMMON, "state_size": 8}),
}


def make(name: str) -> PreTrainedModel:
    kind, settings = MODELS[name]
    config = getattr(transformers, f"{kind}Config")(**settings)
    torch.manual_seed(0)
    names = {"GPT2": "GPT2LMHeadModel"}
    model = getattr(transformers, names.get(kind, f"{kind}ForCausalLM"))(config).eval()
    model.generation_config.pad_token_id = None
    return model  # type: ignore[no-any-return]


class Unplaced(GPT2LMHeadModel):
    """A GPT-2 that cannot be told positions: padding on the left moves its tokens."""

    def forward(  # type: ignore[override]
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        cache: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **more: Any,
    ) -> Any:
        return super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            cache=cache,
            use_cache=use_cache,
            logits_to_keep=logits_to_keep,
            **more,
        )


@pytest.fixture(scope="module")
def unplaced() -> Unplaced:
    torch.manual_seed(0)
    model = Unplaced(GPT2Config(**_GPT2)).eval()
    assert model.generation_config is not None
    return model


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_different_length_share_a_forward_pass(name: str) -> None:
    model = make(name)
    assert padding_fault(model) == ""
    rows = [[7, 3, 200, 31, 9], [5, 60, 118, 2, 77, 3, 12, 250, 8, 41, 19], [11, 300]]
    prompts, completions = [row[:1] for row in rows], [row[1:] for row in rows]
    together = sequence_logprobs(model, prompts, completions)
    alone = [sequence_logprobs(model, [p], [c])[0] for p, c in zip(prompts, completions, strict=True)]
    for one, other in zip(together, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_the_trainer_scores_a_padded_row_as_it_scores_it_alone(
    name: str, tokenizer_for: Callable[..., PreTrainedTokenizerFast], tmp_path: Path
) -> None:
    """TRL pads prompts on the left and passes no positions: 4.1 nats in GPT-2, and dynamic NTK counts the padding."""
    from seal.config import load_config
    from seal.engines.trl.build import build_trainer, quiet
    from seal.loop import LoopOptions, begin

    model, tokenizer = make(name), tokenizer_for("chatml")
    config = load_config(None, ["update.kl=0.0", "update.micro_batch=4", "rollout.group_size=4", "rollout.prompts=1"])
    with quiet():
        trainer = build_trainer(
            config,
            model,
            tokenizer,
            order=["a"] * 10,
            state=begin(LoopOptions()),
            events=None,  # type: ignore[arg-type]  # nothing is played
            checkpoints=tmp_path,
        )
    # Each row fits into 17 places, both padded to a rectangle do not.
    prompts, completions = [[7, 3], [5, 60, 118, 2, 77, 3, 12, 250, 8, 41, 19, 4, 4, 9]], [[9, 31, 5, 6, 7, 8], [8, 1]]

    def padded(rows: list[tuple[list[int], list[int]]]) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = max(len(p) for p, _ in rows), max(len(c) for _, c in rows)
        ids = [[0] * (left - len(p)) + p + c + [0] * (right - len(c)) for p, c in rows]
        mask = [[0] * (left - len(p)) + [1] * len(p + c) + [0] * (right - len(c)) for p, c in rows]
        return torch.tensor(ids), torch.tensor(mask)

    rows = list(zip(prompts, completions, strict=True))
    with torch.no_grad():
        together, _, _ = trainer._get_per_token_logps_and_entropies(model, *padded(rows), 6)
        for i, (prompt, completion) in enumerate(rows):
            (expected,) = sequence_logprobs(model, [prompt], [completion])
            assert together[i, : len(completion)].tolist() == pytest.approx(expected, abs=1e-4)


def test_frequencies_that_follow_the_longest_text_are_refused_beyond_the_first_context() -> None:
    from transformers import Phi3Config, Phi3ForCausalLM

    config = Phi3Config(**{**_ATTENTION, "rope_parameters": _LONG, "original_max_position_embeddings": 24})
    torch.manual_seed(0)
    model = Phi3ForCausalLM(config).eval()
    prove_length(model, 24)
    message = r"Phi3ForCausalLM scores early tokens otherwise .* 'longrope'.*set model.max_context to at most 24"
    with pytest.raises(ConfigError, match=message):
        prove_length(model, 400)


def test_other_models_are_the_same_at_any_length() -> None:
    for name in MODELS:
        prove_length(make(name), 100_000)


def test_half_precision_is_no_fault() -> None:
    assert padding_fault(make("Llama").to(torch.bfloat16)) == ""


def test_a_model_that_padding_changes(unplaced: Unplaced) -> None:
    assert "padding on the left changes its log-probabilities" in padding_fault(unplaced)


def test_it_is_sampled_one_conversation_at_a_time(
    unplaced: Unplaced, tokenizer_for: Callable[..., PreTrainedTokenizerFast]
) -> None:
    from seal.models.local import LocalPolicy
    from seal.task import Conversation, Message

    def conversations() -> list[Conversation]:
        return [
            Conversation((), (), [Message("user", text, text)], seed=(i,)) for i, text in enumerate(("a", "b c " * 9))
        ]

    def sampled(policy: LocalPolicy, given: list[Conversation]) -> list[tuple[int, ...]]:
        return [g.tokens.sampled for g in policy.generate(given) if g is not None and g.tokens is not None]

    tokenizer = tokenizer_for("qwen25")
    options: dict[str, Any] = {"keep_memory": False, "max_new_tokens": 8}
    policy = LocalPolicy(unplaced, tokenizer, **options)
    assert "one conversation at a time: padding on the left" in policy.note
    alone = [sampled(LocalPolicy(unplaced, tokenizer, **options), [one])[0] for one in conversations()]
    assert sampled(policy, conversations()) == alone


def test_training_on_it_needs_rows_apart(unplaced: Unplaced) -> None:
    from seal.config import load_config
    from seal.engines.start import prove_padding

    assert prove_padding(unplaced, load_config(None, ["update.micro_batch=1"]))
    with pytest.raises(ConfigError, match=r"Unplaced: padding on the left.*update\.micro_batch = 1"):
        prove_padding(unplaced, load_config(None, ["update.micro_batch=8"]))


def test_a_memory_of_its_own_kind_is_refused_by_name(tokenizer_for: Callable[..., PreTrainedTokenizerFast]) -> None:
    from transformers import RwkvConfig, RwkvForCausalLM

    from seal.models.local import LocalPolicy

    settings = {key: value for key, value in _COMMON.items() if key != "num_attention_heads"}
    model = RwkvForCausalLM(RwkvConfig(**settings)).eval()
    assert padding_fault(model)
    with pytest.raises(ConfigError, match="RwkvForCausalLM returns no cache"):
        LocalPolicy(model, tokenizer_for("qwen25"))
