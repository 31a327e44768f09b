"""The local policy: same tokens as plain decoding, exact log-probabilities, and memory that never changes a thing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seal.errors import ConfigError
from seal.models.chat import ChatFormat
from seal.models.decode import PlainDecoder, SlotDecoder, sample
from seal.models.kv import prefix_tree
from seal.models.local import LocalPolicy
from seal.models.logprobs import sequence_logprobs
from seal.task import Conversation, Message, Policy
from seal.types import Generation, StopReason

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


class Lab:
    """A tiny model, its tokenizer, and policies on both."""

    def __init__(self, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.chat = ChatFormat(tokenizer)

    def policy(self, *, stops: bool = True, **options: Any) -> LocalPolicy:
        policy = LocalPolicy(
            self.model, self.tokenizer, **{"chat": self.chat, "max_new_tokens": 12, "min_new_tokens": 1, **options}
        )
        if stops:  # Ragged ends: a tenth of the vocabulary ends a message.
            policy.stop_ids |= frozenset(range(5, len(self.tokenizer), 10))
        return policy


@pytest.fixture(scope="module")
def lab(model_for: Callable[..., LlamaForCausalLM], tokenizer_for: Callable[..., PreTrainedTokenizerFast]) -> Lab:
    tokenizer = tokenizer_for("qwen25")
    return Lab(model_for(len(tokenizer)), tokenizer)


def _conversations(prompts: int, samples: int) -> list[Conversation]:
    """Groups that share a long beginning and differ in length."""
    texts = ["Hello there, this is a small text; " * 4 + f"task {i} " * (i + 1) for i in range(prompts)]
    return [
        Conversation((), (), [Message("user", text, text)], seed=(7, 0, i, j))
        for i, text in enumerate(texts)
        for j in range(samples)
    ]


def _play(policy: LocalPolicy, conversations: Sequence[Conversation], turns: int = 3) -> list[list[Generation]]:
    played: list[list[Generation]] = [[] for _ in conversations]
    for turn in range(turns):
        for i, (conversation, generation) in enumerate(zip(conversations, policy.generate(conversations), strict=True)):
            assert generation is not None
            played[i].append(generation)
            text = f"result {turn} " * (1 + 3 * (sum(conversation.seed) % 4))
            conversation.messages += [
                Message("assistant", generation.text, generation.text, generation=generation),
                Message("tool", text, text),
            ]
    return played


def _ids(played: list[list[Generation]]) -> list[list[tuple[int, ...]]]:
    return [[g.tokens.sampled for g in turns if g.tokens is not None] for turns in played]


def _context_before(conversation: Conversation, step: int) -> tuple[list[int], tuple[int, ...], tuple[float, ...]]:
    """The context of a step, its samples and their log-probabilities, from the records alone."""
    records = [m.generation.tokens for m in conversation.messages if m.generation and m.generation.tokens]
    context = [i for record in records[:step] for i in (*record.shown, *record.sampled)] + list(records[step].shown)
    return context, records[step].sampled, records[step].logprobs


class TestExactness:
    @pytest.mark.parametrize("temperature", [0.0, 1.0, 0.7])
    def test_memory_and_batching_change_no_token(self, lab: Lab, temperature: float) -> None:
        kept = lab.policy(temperature=temperature, batch_size=8)
        assert kept.note == ""
        fresh = lab.policy(temperature=temperature, batch_size=1, keep_memory=False)
        assert fresh.note
        assert _ids(_play(kept, _conversations(4, 3))) == _ids(_play(fresh, _conversations(4, 3)))

    @pytest.mark.parametrize("temperature", [0.0, 1.0, 0.7])
    def test_logprobs_equal_an_uncached_forward_pass(self, lab: Lab, temperature: float) -> None:
        conversations = _conversations(3, 2)
        _play(lab.policy(temperature=temperature), conversations)
        for conversation in conversations:
            for step in range(3):
                context, sampled, logprobs = _context_before(conversation, step)
                with torch.no_grad():
                    logits = lab.model(torch.tensor([[*context, *sampled]])).logits[0, len(context) - 1 : -1]
                expected = (logits / (temperature or 1.0)).log_softmax(-1)[range(len(sampled)), list(sampled)]
                assert torch.allclose(torch.tensor(logprobs), expected, atol=1e-4)

    def test_greedy_equals_transformers_generate(self, lab: Lab) -> None:
        conversations = _conversations(3, 1)
        policy = lab.policy(temperature=0)
        _play(policy, conversations)
        for conversation in conversations:
            for step in range(3):
                context, sampled, _ = _context_before(conversation, step)
                ids = torch.tensor([context])
                out = lab.model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=False,
                    max_new_tokens=12,
                    eos_token_id=sorted(policy.stop_ids),
                    pad_token_id=0,
                )
                assert tuple(out[0, len(context) :].tolist()) == sampled

    def test_a_conversation_does_not_depend_on_its_company(self, lab: Lab) -> None:
        together = _ids(_play(lab.policy(), _conversations(4, 3)))
        alone = [_ids(_play(lab.policy(), [conversation]))[0] for conversation in _conversations(4, 3)]
        assert together == alone

    def test_twice_is_the_same_and_seeds_matter(self, lab: Lab) -> None:
        first, again = (_ids(_play(lab.policy(), _conversations(2, 4))) for _ in range(2))
        assert first == again
        assert _ids(_play(lab.policy(seed=1), _conversations(2, 4))) != first
        assert len({tuple(map(tuple, turns)) for turns in first[:4]}) > 1, "samples of a group differ"

    def test_stopping(self, lab: Lab) -> None:
        policy = lab.policy()
        ends = set()
        for turns in _play(policy, _conversations(4, 4)):
            for generation in turns:
                assert generation.tokens is not None
                sampled = generation.tokens.sampled
                assert len(sampled) == generation.completion_tokens <= 12
                assert not set(sampled[:-1]) & policy.stop_ids
                assert (generation.stop is StopReason.STOP) == (sampled[-1] in policy.stop_ids)
                ends.add(generation.stop)
        assert ends == set(StopReason)


class TestMemory:
    def test_it_is_freed_with_the_conversation(self, lab: Lab) -> None:
        policy = lab.policy()
        conversations = _conversations(2, 3)
        _play(policy, conversations, turns=2)
        assert policy.cached_tokens > 0
        del conversations[1:]
        gc.collect()
        (conversation,) = conversations
        assert policy.cached_tokens < len(policy.chat.history_ids(conversation)) + 1
        conversations.clear()
        del conversation
        gc.collect()
        assert policy.cached_tokens == 0

    def test_shared_prompts_are_kept_once(self, lab: Lab) -> None:
        policy = lab.policy()
        conversations = _conversations(1, 8)
        _play(policy, conversations, turns=1)
        prompt = len(policy.chat.context_ids(_conversations(1, 1)[0]))
        assert policy.cached_tokens < prompt + 8 * 13

    @pytest.mark.parametrize("limit", [0, 100, None])
    def test_a_limit_changes_no_token(self, lab: Lab, limit: int | None) -> None:
        policy = lab.policy(max_cached_tokens=limit)
        played = _ids(_play(policy, conversations := _conversations(3, 2)))
        assert played == _ids(_play(lab.policy(keep_memory=False), _conversations(3, 2)))
        assert limit is None or policy.cached_tokens <= limit
        assert conversations

    def test_it_is_forgotten_when_the_weights_change(
        self, lab: Lab, model_for: Callable[..., LlamaForCausalLM]
    ) -> None:
        model = model_for(len(lab.tokenizer), seed=3)
        other = Lab(model, lab.tokenizer)
        policy, conversations = other.policy(temperature=0), _conversations(2, 1)
        _play(policy, conversations, turns=1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        model(torch.tensor([[1, 2, 3]])).logits.logsumexp(-1).sum().backward()
        optimizer.step()
        found = _ids(_play(policy, conversations, turns=1))
        replay = _conversations(2, 1)
        for old, new in zip(conversations, replay, strict=True):
            new.messages[:] = old.messages[:3]
        assert found == _ids(_play(other.policy(temperature=0, keep_memory=False), replay, turns=1))

    def test_a_conversation_that_was_rewritten_is_read_anew(self, lab: Lab) -> None:
        policy = lab.policy(temperature=0)
        (conversation,) = _conversations(1, 1)
        _play(policy, [conversation], turns=1)
        conversation.messages[:] = [Message("user", "Something else", "Something else")]
        (found,) = policy.generate([conversation])
        fresh = Conversation((), (), list(conversation.messages), seed=conversation.seed)
        assert found == lab.policy(temperature=0).generate([fresh])[0]

    def test_reading_does_less_work(self, lab: Lab) -> None:
        """Tokens that go through the model: a shared prompt once, later turns only what is new."""
        read: list[int] = []
        hook = lab.model.model.embed_tokens.register_forward_hook(lambda _, inputs, __: read.append(inputs[0].numel()))
        try:
            totals = []
            for keep in (True, False):
                policy = lab.policy(keep_memory=keep, max_new_tokens=2)
                read.clear()
                _play(policy, _conversations(2, 8))
                totals.append(sum(read))
        finally:
            hook.remove()
        assert totals[0] < totals[1] / 3


class TestLimits:
    def test_a_full_context_gives_none(self, lab: Lab) -> None:
        conversations = _conversations(3, 1)
        lengths = [len(lab.chat.context_ids(conversation)) for conversation in conversations]
        policy = lab.policy(max_context=lengths[1] + 4, min_new_tokens=4)
        found = policy.generate(conversations)
        assert [generation is None for generation in found] == [False, False, True]
        assert found[1] is not None
        assert found[1].completion_tokens <= 4
        assert found[1].prompt_tokens == lengths[1]

    def test_no_conversations(self, lab: Lab) -> None:
        assert lab.policy().generate([]) == []

    def test_the_models_own_limit_holds(self, lab: Lab) -> None:
        assert lab.policy(max_context=10**6).max_context == 2048

    @pytest.mark.parametrize(
        "option", [{"temperature": -1}, {"max_new_tokens": 0}, {"batch_size": 0}, {"seed": -1}, {"min_new_tokens": 0}]
    )
    def test_bad_options(self, lab: Lab, option: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match=rf"{next(iter(option))} is .*expected at least"):
            lab.policy(**option)

    def test_the_template_is_proved(self, lab: Lab, tokenizer_for: Callable[..., PreTrainedTokenizerFast]) -> None:
        with pytest.raises(ConfigError, match="cannot be appended to"):
            LocalPolicy(lab.model, tokenizer_for("numbered"))

    def test_it_is_a_policy_and_leaves_the_model_as_it_was(self, lab: Lab) -> None:
        policy = lab.policy()
        assert isinstance(policy, Policy)
        lab.model.train()
        try:
            policy.generate(_conversations(1, 1))
            assert lab.model.training
        finally:
            lab.model.eval()
        policy.close()
        policy.close()
        assert policy.cached_tokens == 0


class TestOtherArchitectures:
    def test_sliding_windows_are_read_anew_each_turn(
        self, lab: Lab, model_for: Callable[..., LlamaForCausalLM]
    ) -> None:
        from transformers import MistralConfig, MistralForCausalLM

        config = MistralConfig(
            vocab_size=len(lab.tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            sliding_window=16,
            initializer_range=0.2,
            bos_token_id=None,
            eos_token_id=None,
        )
        torch.manual_seed(0)
        model = MistralForCausalLM(config).eval()
        other = Lab(model, lab.tokenizer)  # type: ignore[arg-type]
        policy = other.policy()
        assert "plain attention" in policy.note
        alone = [_ids(_play(other.policy(), [conversation]))[0] for conversation in _conversations(3, 2)]
        assert _ids(_play(policy, _conversations(3, 2))) == alone

    def test_short_convolutions_too(self, lab: Lab) -> None:
        from transformers import Lfm2Config, Lfm2ForCausalLM

        config = Lfm2Config(
            vocab_size=len(lab.tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            layer_types=["conv", "full_attention", "conv"],
            initializer_range=0.2,
            bos_token_id=None,
            eos_token_id=None,
        )
        torch.manual_seed(0)
        other = Lab(Lfm2ForCausalLM(config).eval(), lab.tokenizer)  # type: ignore[arg-type]
        policy = other.policy()
        assert policy.note
        alone = [_ids(_play(other.policy(), [conversation]))[0] for conversation in _conversations(3, 2)]
        assert _ids(_play(policy, _conversations(3, 2))) == alone

    @pytest.mark.filterwarnings(
        "ignore:.is_gradient_checkpointing:FutureWarning"
    )  # peft asks transformers by its old name
    def test_an_adapter_is_sampled_with(self, lab: Lab, model_for: Callable[..., LlamaForCausalLM]) -> None:
        from peft import LoraConfig, get_peft_model

        torch.manual_seed(0)
        settings = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
        adapted = get_peft_model(model_for(len(lab.tokenizer)), settings)
        other = Lab(adapted, lab.tokenizer)
        policy = other.policy(temperature=0)
        assert policy.note == ""
        kept = _ids(_play(policy, _conversations(2, 2)))
        assert kept == _ids(_play(other.policy(temperature=0, keep_memory=False), _conversations(2, 2)))
        assert kept != _ids(_play(lab.policy(temperature=0), _conversations(2, 2)))


class TestSample:
    def test_draws_follow_the_distribution(self) -> None:
        logits = torch.tensor([0.2, 0.5, 0.3]).log().expand(3000, 3)
        uniforms = (torch.arange(3000, dtype=torch.float64) + 0.5) / 3000
        ids, logprobs = sample(logits, 1.0, uniforms)
        assert ids.bincount().tolist() == [600, 1500, 900]
        assert torch.allclose(logprobs[0], torch.tensor(0.2).log())

    def test_temperature_sharpens(self) -> None:
        logits = torch.tensor([[0.2, 0.8]]).log()
        _, logprob = sample(logits, 0.5, torch.tensor([0.9], dtype=torch.float64))
        assert logprob.item() == pytest.approx(torch.tensor(0.64 / 0.68).log().item(), abs=1e-6)

    def test_impossible_ids_are_never_drawn(self) -> None:
        logits = torch.tensor([[float("-inf"), 0.0, float("-inf"), 0.0, float("-inf")]])
        edges = (0.0, 0.25, 0.5, 0.75, 1.0 - 2**-53)
        assert [sample(logits, 1.0, torch.tensor([u], dtype=torch.float64))[0].item() for u in edges] == [1, 1, 3, 3, 3]


class TestPrefixTree:
    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple), min_size=1, max_size=8, unique=True)
    )
    def test_every_sequence_is_one_path(self, sequences: list[tuple[int, ...]]) -> None:
        levels = prefix_tree(sequences, shortest=2)
        spelled = {}
        for level in levels:
            for branch in level:
                ids, parent = branch.ids, branch.parent
                while parent is not None:
                    ids, parent = parent.ids + ids, parent.parent
                spelled.update(dict.fromkeys(branch.ends, ids))
        assert spelled == dict(enumerate(sequences))

    def test_what_is_shared_is_computed_once(self) -> None:
        head, tail = tuple(range(100)), tuple(range(200, 250))
        sequences = [(*head, *tail, 1), (*head, *tail, 2), (*head, 3), (9, 9)]
        total = sum(len(branch.ids) for level in prefix_tree(sequences) for branch in level)
        assert total == 100 + 50 + 1 + 1 + 1 + 2


class TestSequenceLogprobs:
    def test_equal_to_one_row_at_a_time(self, lab: Lab) -> None:
        generator = torch.Generator().manual_seed(0)
        rows = [
            (
                torch.randint(len(lab.tokenizer), (prompt,), generator=generator).tolist(),
                torch.randint(len(lab.tokenizer), (completion,), generator=generator).tolist(),
            )
            for prompt, completion in ((5, 9), (1, 1), (30, 0), (17, 40), (3, 12), (60, 2))
        ]
        found = sequence_logprobs(
            lab.model, [p for p, _ in rows], [c for _, c in rows], temperature=0.7, micro_batch_tokens=64
        )
        for (prompt, completion), logprobs in zip(rows, found, strict=True):
            with torch.no_grad():
                logits = lab.model(torch.tensor([prompt + completion])).logits[0] / 0.7
            expected = logits.log_softmax(-1)[range(len(prompt) - 1, len(prompt) + len(completion) - 1), completion]
            assert len(logprobs) == len(completion)
            assert torch.allclose(torch.tensor(logprobs), expected, atol=1e-5)

    def test_it_agrees_with_what_was_sampled(self, lab: Lab) -> None:
        conversations = _conversations(2, 2)
        _play(lab.policy(temperature=0.8), conversations)
        for conversation in conversations:
            context, sampled, logprobs = _context_before(conversation, 2)
            (found,) = sequence_logprobs(lab.model, [context], [sampled], temperature=0.8)
            assert found == pytest.approx(logprobs, abs=1e-4)

    def test_empty_prompts_are_refused(self, lab: Lab) -> None:
        with pytest.raises(ValueError, match="at least one id"):
            sequence_logprobs(lab.model, [[]], [[1]])


def test_both_decoders_read_alike(lab: Lab) -> None:
    """Logits, not only samples: with and without memory, before and after rows are dropped."""
    from seal.models.decode import Row, evaluating, plain_attention

    rows = [[1, 4, 9, 16], list(range(20)), [7, 7]]
    with evaluating(lab.model):
        shape, _ = plain_attention(lab.model)
        assert shape is not None
        logits = []
        for decoder in (SlotDecoder(lab.model, shape, prefill_tokens=8), PlainDecoder(lab.model)):
            batch = [Row(list(ids), 5, torch.zeros(5, dtype=torch.float64)) for ids in rows]
            decoder.prepare(batch)
            steps = [decoder.start(batch), decoder.step(torch.tensor([3, 2, 1]))]
            assert decoder.keep([0, 2])
            steps.append(decoder.step(torch.tensor([5, 6])))
            logits.append(steps)
    for ours, theirs in zip(*logits, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)
