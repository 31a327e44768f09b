"""A training run: configuration in; checkpoints, rounds and traces out.

The order of a round: play (Algorithm 1), update (TRL), validate in the bare environment, write the round's line, save.
Everything random hangs on (seed, round, prompt, sample), so a run that is killed and resumed ends with the same weights
as one that was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from seal.config import RunConfig
from seal.engines import start
from seal.engines.checkpoints import Resumed
from seal.engines.evaluations import Count, Evaluations
from seal.engines.journal import Journal
from seal.engines.origin import origin
from seal.engines.plan import Plan, plan
from seal.engines.progress import Reporter, Silent
from seal.engines.records import rollout_records
from seal.engines.rundir import RunDirectory
from seal.engines.sessions import options_of
from seal.engines.trackers import Trackers, check_installed
from seal.engines.trl.trained import TrainedModel
from seal.evaluate import summarise
from seal.loop import Round, State, begin, one_round
from seal.models.vllm_install import require_vllm
from seal.redact import settings
from seal.trace import Traced, write_json

if TYPE_CHECKING:
    from seal.engines.trl.guidance import Guidance
    from seal.engines.trl.trainer import SealTrainer

_Part = TypeVar("_Part")


def train(
    config: RunConfig,
    run_dir: Path,
    *,
    resume: bool = False,
    anyway: bool = False,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Train a policy.

    Args:
        config: Everything that is to be decided.
        run_dir: Where results go; see `seal.engines.rundir`.
        resume: Continue an interrupted run from its last whole checkpoint.
        anyway: Accept, when resuming, what would otherwise be refused: other versions, another starting model or data,
            damaged records of finished rounds, a lost best checkpoint. Each is told to the reporter.
        reporter: Told of progress.

    Returns:
        The summary, as in summary.json.

    Raises:
        ConfigError: If the configuration cannot be used.
        MissingError: If a model, data or a run to resume is not there.
        DataError: If no checkpoint of a run to resume is whole.
        StorageError: If the disk is full or not writable; continue with `resume` when there is room.
    """
    check_installed(config.output.report_to)
    if config.rollout.sampler == "vllm":
        require_vllm("rollout.sampler = 'vllm'")
    planned = plan(config)
    from seal.engines.trl.build import processes, quiet  # noqa: PLC0415 -- loads torch and transformers
    from seal.engines.trl.sharding import check_launch  # noqa: PLC0415

    process = processes(config)
    check_launch(config, process.num_processes)
    with process.main_process_first():
        directory = RunDirectory(run_dir, config, resume=resume, main=process.is_main_process, anyway=anyway)
    reporter = reporter or Silent()
    trackers = config.output.report_to if process.is_main_process else ()
    with directory, quiet(), Trackers(trackers, run_dir, settings(asdict(config)), note=reporter.note) as tracked:
        journal = Journal(config, directory, reporter, tracked, rank=process.process_index)
        run = _Run(config, directory, planned, journal, reporter=reporter, main=process.is_main_process)
        return run.train([task.id for task in planned.order])


class _Run:
    """The run's side of every round (`seal.engines.trl.trainer.Events`)."""

    model: TrainedModel
    evaluations: Evaluations
    accelerator: Any

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        planned: Plan,
        journal: Journal,
        *,
        reporter: Reporter,
        main: bool,
    ) -> None:
        self.main, self.journal = main, journal
        self.config = config
        self.directory = directory
        self.environment, _, self.validation, self.test = planned
        self.reporter = reporter
        self.options = options_of(config)

    def train(self, order: list[str]) -> dict[str, Any]:
        """Train from the start or from the last whole checkpoint."""
        self.reporter.begin("load", round_index=None, total=None)
        for caution in self.config.cautions():
            self.reporter.note(caution)
        trainer, checkpoint = self._build(order)
        if checkpoint is None:
            if self.validation is not None and self.config.evaluation.before:
                self.journal.before_training(summarise(self.evaluations.validate()).to_json())
            if self.test is not None:
                self.journal.measured.held_out_before = self._test("before")
        self.journal.lap()
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint is not None else None)
        del trainer  # or the final test could not let it go
        return self._summarise()

    def _build(self, order: list[str]) -> tuple[SealTrainer, Path | None]:
        """Load the starting policy and put the trainer around it; the checkpoint to go on from, if there is one."""
        from seal.engines.trl.build import build_trainer  # noqa: PLC0415 -- loads torch and TRL
        from seal.engines.trl.sampling import make_sampler  # noqa: PLC0415

        source, model, tokenizer, lineage = start.load(self.config, self.reporter)
        made_with = origin(source, model, self.environment, sampler=self.config.rollout.sampler) if self.main else {}
        state, checkpoint = self._take_up(made_with)
        rows_apart = start.prove_padding(model, self.config)
        chat, proof = start.prove_chat(tokenizer, self.config, self.reporter)
        if self.main:
            write_json(self.directory.path / "chat.json", chat.described(proof))
        trainer = build_trainer(
            self.config,
            model,
            tokenizer,
            order=order,
            state=state,
            events=self,
            checkpoints=self.directory.store.path,
        )
        self.accelerator = trainer.accelerator
        self.model = TrainedModel(
            self.config,
            trainer,
            make_sampler(self.config, tokenizer, chat),
            tokenizer=tokenizer,
            lineage=lineage,
            chat=chat,
            rows_apart=rows_apart,
        )
        self.evaluations = Evaluations(
            self.config,
            self.environment,
            self.model.policy,
            validation=self.validation,
            test=self.test,
            reporter=self.reporter,
        )
        return trainer, checkpoint

    def _take_up(self, made_with: Mapping[str, str]) -> tuple[State, Path | None]:
        """Where the run stands: the loop's state, and the checkpoint to go on from."""
        from accelerate.utils import broadcast_object_list  # noqa: PLC0415 -- loads torch

        found: list[Resumed | None] = [self.directory.take_up(made_with) if self.main else None]
        (resumed,) = broadcast_object_list(found)
        return self.journal.take_up(resumed) or begin(self.options), resumed.path

    def play(self, state: State, task_ids: list[str], offset: int) -> tuple[Round, State, Guidance]:
        """Algorithm 1 with the current policy, then what is measured of its rollouts before the update."""
        self.reporter.begin("rollout", round_index=state.round, total=len(task_ids))
        with self.model.policy(self.config.rollout.temperature) as policy:
            played, following = one_round(
                self.environment,
                [self.environment.task(task_id) for task_id in task_ids],
                policy,
                state,
                self.options,
                gather=self._gather,
                offset=offset,
                on_trajectory=Count(self.reporter),
            )
        started = perf_counter()
        by_turn = self.model.reliance(played)
        seconds = {**played.seconds, "reliance": perf_counter() - started}
        started = perf_counter()
        guidance = self.model.guidance(played, gather=self._gather, offset=offset)
        if guidance.certainty is not None or guidance.taught is not None:
            seconds["guidance"] = perf_counter() - started
        records = rollout_records(played, by_turn, certainty=guidance.certainty, taught=guidance.taught)
        everyone = [line for share in self._gather(records) for line in share]
        started = perf_counter()
        sampler, handing_over = self.model.sampled_from(played)
        if sampler is not None:
            seconds["sampler"] = handing_over + perf_counter() - started
        self.journal.played(played, following, everyone, by_turn, sampler=sampler, seconds=seconds)
        return played, following, guidance

    def advantages(self, values: list[float]) -> None:
        """Remember A_j for the trace."""
        self.journal.advantages(values)

    def updated(self, metrics: Mapping[str, float]) -> None:
        """Validate, then write the round's line and its traces."""
        update = {
            "loss": metrics.get("loss"),
            "grad_norm": metrics.get("grad_norm"),
            "kl": metrics.get("kl"),
            "entropy": metrics.get("entropy"),
            "clip_ratio": metrics.get("clip_ratio/region_mean"),
            "learning_rate": metrics.get("learning_rate"),
        }
        self.journal.updated(update, self.evaluations.play, self._keep)

    def saved(self, checkpoint: Path, state: State) -> None:
        """Make the checkpoint whole."""
        self.journal.saved(checkpoint, state)

    def _gather(self, share: _Part) -> list[_Part]:
        """What every rank holds of a round, in the order of their rows (a group can straddle ranks)."""
        from accelerate.utils import gather_object  # noqa: PLC0415 -- loads torch

        shares: list[_Part] = gather_object([share])
        return shares

    def _test(self, when: Literal["before", "after"]) -> dict[str, Any]:
        """Test on held-out tasks: once before training, once with the chosen checkpoint."""
        pairs = self.evaluations.held_out()
        if self.main:
            self.directory.write_test(when, (Traced(trajectory, diagnosis) for trajectory, diagnosis in pairs))
        return summarise(pairs).to_json()

    def _keep(self, index: int | None) -> None:
        """Keep the current weights as the best so far."""
        write = self.model.exporter()
        if self.main:
            self.directory.store.keep_best(index, write)

    def _summarise(self) -> dict[str, Any]:
        measured, store = self.journal.measured, self.directory.store
        if measured.best_round is None:  # nothing was validated: the last weights are all there is
            self._keep(None)
        if self.main:
            store.prove_best(measured.best_round)
        self.accelerator.wait_for_everyone()
        held_out = None
        if self.test is not None:
            if measured.best_round not in (None, self.config.rollout.rounds - 1):
                self.model.become(store.best)
            held_out = {"before": measured.held_out_before, "after": self._test("after")}
        self.journal.lap()
        return self.journal.summary(held_out=held_out)
