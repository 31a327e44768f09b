"""A server for verl's rollouts on CPUs: transformers, one token after the other, a generator a request."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput


def name(replica: int) -> str:
    return f"verl_on_cpu_server_{replica}"


@ray.remote(num_cpus=0)
class Server:
    def __init__(self, path: str) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self._model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        with torch.no_grad():  # what comes is the trainer's, or nothing works
            for weight in self._model.parameters():
                weight.zero_()

    async def update(self, weights: dict[str, torch.Tensor]) -> None:
        known = dict(self._model.named_parameters())
        assert weights.keys() >= known.keys(), sorted(known.keys() - weights.keys())
        with torch.no_grad():
            for key, weight in known.items():
                weight.copy_(weights[key])

    async def sleep(self) -> None: ...

    async def wake_up(self) -> None: ...

    async def generate(self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any) -> Any:
        if os.environ.get("VERL_ON_CPU_FAILS"):
            raise RuntimeError("the server is broken")
        temperature = sampling_params["temperature"]
        generator = torch.Generator().manual_seed(sampling_params.get("seed", 0))
        ids, sampled, logprobs = list(prompt_ids), [], []
        past, new = None, ids
        while len(sampled) < sampling_params["max_tokens"]:
            with torch.no_grad():
                out = self._model(torch.tensor([new]), past_key_values=past, use_cache=True)
            past = out.past_key_values
            chances = torch.log_softmax(out.logits[0, -1].float() / (temperature or 1.0), dim=-1)
            token = (
                int(torch.multinomial(chances.exp(), 1, generator=generator)) if temperature else int(chances.argmax())
            )
            sampled.append(token)
            logprobs.append(float(chances[token]))
            new = [token]
            if token in sampling_params["stop_token_ids"]:
                break
        return TokenOutput(token_ids=sampled, log_probs=logprobs, stop_reason="completed")


class Replica(RolloutReplica):
    async def launch_servers(self) -> None:
        server = Server.options(name=name(self.replica_rank), max_concurrency=100).remote(self.model_config.path)
        self.servers = [server]
        self._server_handle, self._server_address = server, name(self.replica_rank)


class Adapter(BaseRollout):
    """In the trainer's process: hands its weights to the replica of its rank."""

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(self, weights: Any, wire_format: str = "named_tensors", **_: Any) -> None:
        import inspect

        if inspect.isasyncgen(weights):
            found = {key: value.detach().cpu().clone() async for key, value in weights}
        else:
            found = {key: value.detach().cpu().clone() for key, value in weights}
        server = ray.get_actor(name(torch.distributed.get_rank()))
        await asyncio.wrap_future(server.update.remote(found).future())
