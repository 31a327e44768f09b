"""verl's side of a session: an agent loop that plays one episode, and a manager that stamps Omega on training alone."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.utils import tensordict_utils

from seal.config import RunConfig, parse_config
from seal.engines.rows import make_row
from seal.engines.sessions import Request, Sample, Sessions, packed, views_wanted
from seal.envs import make
from seal.models.chat import ChatFormat
from seal.rollout import BARE
from seal.toml import read_toml_file
from seal.types import Trajectory

OMEGA = "seal_omega"
"""Field of a prompt: Omega_t, stamped by the manager."""

TRAJECTORY = "seal_trajectory"
"""Extra field of a session's last row."""


@lru_cache(maxsize=1)
def _sessions(recipe: str, tokenizer: Any, stop_ids: tuple[int, ...]) -> tuple[RunConfig, Sessions]:
    """What a process plays with, made once: verl makes an agent loop for every session."""
    config = parse_config(read_toml_file(Path(recipe)), where=recipe)
    environment = make(config.environment.name, **config.environment.options)
    chat = ChatFormat(tokenizer, config.model.dialect, template_options=config.model.template_options)
    return config, Sessions(config, environment, chat.closed_by(stop_ids))


class SealAgentLoopManager(AgentLoopManagerTQ):
    """verl's manager that stamps Omega_t on what is played in training, and on nothing else.

    Attributes:
        omega: As it travels; None to stamp nothing.
    """

    omega: str | None = None

    def generate_sequences(self, prompts: Any) -> None:
        """Dispatch a batch; a validation never sees the interface."""
        if "validate" not in prompts and self.omega is not None:
            tensordict_utils.assign_non_tensor_data(prompts, OMEGA, self.omega)
        super().generate_sequences(prompts)


class SealAgentLoop(AgentLoopBase):
    """Plays one episode.

    Args:
        recipe: The run's config.toml, where every node can read it.
        stop_ids: What the model itself calls the end of a message.
    """

    def __init__(self, *args: Any, recipe: str, stop_ids: list[int], **options: Any) -> None:
        super().__init__(*args, **options)
        self._config, self._sessions = _sessions(recipe, self.tokenizer, tuple(stop_ids))

    async def run(self, sampling_params: dict[str, Any], **fields: Any) -> list[AgentLoopOutput]:
        """Play the episode that a prompt's fields describe.

        Args:
            sampling_params: verl's; the prompt's own temperature comes first.
            fields: `seal_task` (its id), `seal_prompt` (position in the batch), `seal_training`, `seal_temperature`,
                verl's `uid` and `session_id`, and Omega if the manager stamped it.

        Returns:
            A row for every rendering that is wanted; the last one carries the trajectory.
        """
        session, stamp = int(fields["session_id"]), fields.get(OMEGA)
        episode = self._sessions.episode(
            fields["seal_task"], int(fields["seal_prompt"]), session, stamp, training=bool(fields["seal_training"])
        )
        temperature = float(fields["seal_temperature"])
        seeded = temperature > 0 and self.rollout_config.name != "sglang"  # which takes no seed with a request

        async def sampler(request: Request) -> Sample:
            asked = {**sampling_params, "temperature": temperature, "logprobs": True, "max_tokens": request.room}
            asked |= {"stop_token_ids": request.stop_ids, **({"seed": request.seed} if seeded else {})}
            output = await self.server_manager.generate(
                f"{fields['uid']}-{session}", prompt_ids=request.ids, sampling_params=asked
            )
            aborted = output.stop_reason == "aborted"
            return Sample([] if aborted else list(output.token_ids), output.log_probs)

        return self.rows(await self._sessions.play(episode, sampler), cued=episode.presenter is not BARE)

    def rows(self, trajectory: Trajectory, *, cued: bool) -> list[AgentLoopOutput]:
        """A trajectory as verl's rows; the reward of an unscored one is a placeholder that nothing reads."""
        found = []
        for view in views_wanted(self._config, cued=cued):
            row = make_row(trajectory, view, filler=self.tokenizer.eos_token_id)
            found.append(
                AgentLoopOutput(
                    prompt_ids=list(row.prompt_ids),
                    response_ids=list(row.completion_ids),
                    response_mask=list(row.mask),
                    response_logprobs=list(row.logprobs),
                    reward_score=trajectory.verdict.reward or 0.0,
                    num_turns=len(trajectory.turns),
                    metrics=AgentLoopMetrics(),
                    extra_fields={"reward_extra_info": {}},
                )
            )
        found[-1].extra_fields[TRAJECTORY] = packed(trajectory)
        return found
