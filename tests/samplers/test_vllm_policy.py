"""The engine says what transformers says, after every transfer; the policy samples from it, token-exact."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from seal.errors import ConfigError
from seal.models.load import POCKET, load_model
from seal.task import Conversation, Message

torch = pytest.importorskip("torch")

KINDS = ("Llama", "Llama untied", "Qwen2", "Qwen3", "pocket")


def small(kind: str, seed: int = 0):
    import transformers

    if kind == "pocket":
        return load_model("pocket", device="cpu").model
    name, _, untied = kind.partition(" ")
    config = getattr(transformers, f"{name}Config")(
        vocab_size=400,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=512,
        initializer_range=0.2,
        tie_word_embeddings=not untied,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return getattr(transformers, f"{name}ForCausalLM")(config).eval()


def shake(model, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1 + 0.2 * torch.randn(weight.shape, generator=generator))


def plain_scores(model, row: list[int]) -> list[float]:
    with torch.no_grad():
        logits = model(torch.tensor([row])).logits[0, :-1].float()
    return logits.log_softmax(-1).gather(1, torch.tensor(row[1:])[:, None]).squeeze(1).tolist()


@pytest.fixture(scope="module")
def engine():
    """One engine of the pocket model, in float32; tests leave it with the pocket model's weights."""
    from seal.models.vllm_engine import VllmEngine

    found = VllmEngine(load_model("pocket", device="cpu").model)
    yield found
    found.close()


@pytest.mark.parametrize("kind", KINDS)
def test_after_every_transfer_it_says_what_the_model_says(kind: str) -> None:
    from seal.models.vllm_engine import VllmEngine

    model = small(kind)
    engine = VllmEngine(model, max_context=256)
    row = [int(i) for i in torch.randint(0, 400, (200,), generator=torch.Generator().manual_seed(1))]
    try:
        for seed in range(3):
            assert engine.score([row])[0] == pytest.approx(plain_scores(model, row), abs=1e-3)
            shake(model, seed)
            away = torch.tensor(engine.score([row])[0]) - torch.tensor(plain_scores(model, row))
            assert away.abs().max() > 0.1, "nothing that is compared here has changed"
            engine.transfer(model)
        assert engine.score([row])[0] == pytest.approx(plain_scores(model, row), abs=1e-3)
        assert len(engine.transfers) == 4
        assert max(engine.transfers) < 1e-4
    finally:
        engine.close()


@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_a_tied_head_that_is_not_packed_again_is_found_out(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU vLLM keeps packed weights of a tied output layer unless it is given them under their own name too."""
    from seal.models import vllm_engine as module

    model = small(kind)
    engine = module.VllmEngine(model, max_context=256)
    try:
        monkeypatch.setattr(module, "_pack_tied_heads", lambda _model: None)
        monkeypatch.setattr(module, "merged_weights", lambda base: iter(list(base.named_parameters())))
        shake(model, 0)
        with pytest.raises(
            ConfigError, match=r"differ by .* nats on fixed tokens .* more than sampler_tolerance = 0.001"
        ):
            engine.transfer(model)
        monkeypatch.undo()
        monkeypatch.setattr(module, "merged_weights", lambda base: iter(list(base.named_parameters())))
        assert engine.transfer(model) < 1e-4  # packing alone is enough
    finally:
        engine.close()


def test_an_adapter_is_merged_into_what_is_handed_over() -> None:
    from peft import LoraConfig, get_peft_model

    from seal.models.vllm_engine import VllmEngine

    model = get_peft_model(small("Llama"), LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))
    engine = VllmEngine(model, max_context=256)
    row = list(range(3, 60))
    try:
        before = engine.score([row])[0]
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight.normal_(generator=torch.Generator().manual_seed(3))
        assert engine.transfer(model) < 1e-4
        after = engine.score([row])[0]
        assert after == pytest.approx(plain_scores(model.eval(), row), abs=1e-3)
        assert torch.tensor(before).sub(torch.tensor(after)).abs().max() > 0.1
    finally:
        engine.close()
    with pytest.raises(ConfigError, match="rounded away in bfloat16"):
        VllmEngine(model, dtype=torch.bfloat16)


def test_sixteen_bits_are_refused_unless_they_are_allowed() -> None:
    from seal.models.vllm_engine import VllmEngine

    model = load_model("pocket", device="cpu", dtype="bfloat16").model
    with pytest.raises(ConfigError, match=r"in bfloat16: both round in 16 bits.* larger sampler_tolerance"):
        VllmEngine(model)
    engine = VllmEngine(model, tolerance=1.0)
    assert 1e-3 < engine.transfers[0] < 1.0
    engine.close()


def test_the_process_is_as_it_was(engine) -> None:
    states = random.getstate(), torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    assert torch.get_num_threads() == threads + 1, "vLLM has replaced torch.set_num_threads"
    torch.set_num_threads(threads)
    engine.sample([[5, 6, 7]], [4], [1], temperature=1.0, stop_ids=frozenset({1}))
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert (torch.get_num_threads(), torch.get_default_dtype()) == states[2:]


# -- the policy -------------------------------------------------------------------------------------------------------


def talks(count: int, *, seed: int = 0) -> list[Conversation]:
    words = ("would you turn on the radio in birch?", "what is on in the hall?", "set a timer for 5 hours")
    return [
        Conversation((), (), [Message("user", text := f"{words[i % 3]} {i}", text)], seed=(seed, 0, i, 0))
        for i in range(count)
    ]


def pocket_policies(engine, **options):
    from seal.models.chat import ChatFormat
    from seal.models.limits import model_stop_ids
    from seal.models.local import LocalPolicy
    from seal.models.vllm import VllmPolicy

    model, tokenizer = load_model("pocket", device="cpu")
    chat = ChatFormat(tokenizer)
    ours = LocalPolicy(model, tokenizer, chat=chat, **options)
    return ours, VllmPolicy(engine, chat, stop_ids=model_stop_ids(model), **options), model


def test_greedily_it_says_the_same_as_ours_over_turns(engine) -> None:
    ours, theirs, _ = pocket_policies(engine, temperature=0.0, max_new_tokens=24)
    one, other = talks(6), talks(6)
    known = 0
    for turn in range(3):
        hits = engine.cache_hits
        first, second = ours.generate(one), theirs.generate(other)
        for a, b in zip(first, second, strict=True):
            assert a is not None
            assert b is not None
            assert (a.text, a.calls, a.stop) == (b.text, b.calls, b.stop)
            assert (a.prompt_tokens, a.completion_tokens) == (b.prompt_tokens, b.completion_tokens)
            assert a.tokens.shown == b.tokens.shown
            assert a.tokens.bare == b.tokens.bare
            assert a.tokens.sampled == b.tokens.sampled
            assert b.tokens.logprobs == pytest.approx(a.tokens.logprobs, abs=1e-3)
        assert engine.cache_hits - hits >= known, "what an earlier turn read or sampled was read again"
        known = sum((b.prompt_tokens + b.completion_tokens - 1) // 32 * 32 for b in second)
        for conversations, generations in ((one, first), (other, second)):
            for conversation, found in zip(conversations, generations, strict=True):
                conversation.messages.append(Message("assistant", found.text, found.text, generation=found))
                text = f"Go on with number {turn}, please, and tell me what it says about the radio in the birch room."
                conversation.messages.append(Message("user", text, text))
    assert known >= 6 * 64


def test_what_it_samples_is_distributed_as_its_log_probabilities_say(engine) -> None:
    from seal.models.logprobs import sequence_logprobs

    _, policy, model = pocket_policies(engine, temperature=0.7, max_new_tokens=16)
    conversations = talks(12)
    together = policy.generate(conversations)
    alone = [policy.generate([conversation])[0] for conversation in conversations]
    assert [g.tokens.sampled for g in together] == [g.tokens.sampled for g in alone], "draws depend on the batch"
    assert (
        len({g.tokens.sampled for g in policy.generate(talks(12, seed=1))} | {g.tokens.sampled for g in together}) > 12
    )
    prompts = [policy.chat.context_ids(conversation) for conversation in conversations]
    scored = sequence_logprobs(model, prompts, [g.tokens.sampled for g in together], temperature=0.7)
    for generation, again in zip(together, scored, strict=True):
        assert generation.tokens.logprobs == pytest.approx(again, abs=1e-3)

    # 4,000 first tokens of a flat distribution against their probabilities.
    context, n = [5, 6, 7, 8], 4000
    samples = engine.sample([context] * n, [1] * n, list(range(n)), temperature=2.0, stop_ids=frozenset())
    with torch.no_grad():
        wanted = (model(torch.tensor([context])).logits[0, -1].float() / 2.0).softmax(-1)
    counts = Counter(ids[0] for ids, _, _ in samples)
    top = wanted.topk(10).indices.tolist()
    assert len(counts) > 20
    for index in top:
        p = float(wanted[index])
        assert abs(counts[index] / n - p) < 4.5 * (p * (1 - p) / n) ** 0.5


def test_messages_are_read_with_the_tools_on_offer(engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some dialects take the types of values from a tool's schema."""
    from seal.types import ToolSpec

    ours, theirs, _ = pocket_policies(engine, temperature=0.0, max_new_tokens=8)
    tools = (ToolSpec("f", "F.", {"type": "object", "properties": {}}),)
    text = "would you turn on the radio in birch?"
    seen = []
    monkeypatch.setattr(type(ours.chat), "generation", lambda _self, *_a, **options: seen.append(options))
    for policy in (ours, theirs):
        policy.generate([Conversation(tools, tools, [Message("user", text, text)], seed=(1,))])
    assert seen[0] == seen[1]
    assert list(seen[1]["tools"]) == list(tools)


def test_a_message_ends_with_a_stop_id_or_at_its_limit(engine) -> None:
    _, policy, _ = pocket_policies(engine, temperature=0.0, max_new_tokens=3)
    (short,) = policy.generate(talks(1))
    assert short.completion_tokens == 3
    assert short.stop.value == "length"
    _, policy, _ = pocket_policies(engine, temperature=0.0, max_new_tokens=100)
    (whole,) = policy.generate(talks(1))
    assert whole.tokens.sampled[-1] in policy.stop_ids
    assert not set(whole.tokens.sampled[:-1]) & policy.stop_ids
    assert whole.stop.value == "stop"


def test_a_full_context_is_none(engine) -> None:
    _, policy, _ = pocket_policies(engine, temperature=0.0)
    text = "the radio in birch " * 400
    full = Conversation((), (), [Message("user", text, text)], seed=(0,))
    found = policy.generate([full, *talks(1)])
    assert found[0] is None
    assert found[1] is not None


@pytest.mark.parametrize(("options", "said"), [({"temperature": 0.005}, "0.01"), ({"max_new_tokens": 0}, "at least 1")])
def test_options_that_cannot_be_used_are_refused(engine, options, said: str) -> None:
    from seal.models.vllm import VllmPolicy

    with pytest.raises(ConfigError, match=said):
        VllmPolicy(engine, load_chat(), **options)


def load_chat():
    from transformers import AutoTokenizer

    from seal.models.chat import ChatFormat

    return ChatFormat(AutoTokenizer.from_pretrained(POCKET))
