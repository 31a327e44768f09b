"""A training run: configuration in; checkpoints, rounds and traces out.

The order of a round: play (Algorithm 1), update (TRL), validate in the bare environment, write the round's line, save.
Everything random hangs on (seed, round, prompt, sample), so a run that is killed and resumed ends with the same weights
as one that was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from seal.config import RunConfig
from seal.engines.checkpoints import Resumed
from seal.engines.evaluations import Count, Evaluations
from seal.engines.origin import origin
from seal.engines.progress import Reporter, Silent
from seal.engines.records import rollout_records, round_record
from seal.engines.rundir import RunDirectory
from seal.engines.trackers import Trackers, check_installed
from seal.engines.trl import start
from seal.engines.trl.trained import TrainedModel
from seal.envs import make
from seal.evaluate import summarise
from seal.loop import LoopOptions, Round, State, begin, one_round, schedule
from seal.models.vllm_install import require_vllm
from seal.redact import settings
from seal.task import Environment, TaskSet
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
    environment = make(config.environment.name, **config.environment.options)
    tasks = environment.tasks(config.environment.train).take(config.environment.train_tasks)
    order = schedule(
        tasks,
        rounds=config.rollout.rounds,
        prompts=config.rollout.prompts,
        seed=config.seed,
        order=config.rollout.order,
    )
    validation = None
    if config.evaluation.every:
        validation = environment.tasks(config.environment.validation).take(config.environment.validation_tasks)
    from seal.engines.trl.build import processes, quiet  # noqa: PLC0415 -- loads torch and transformers
    from seal.engines.trl.sharding import check_launch  # noqa: PLC0415

    process = processes(config)
    check_launch(config, process.num_processes)
    test = None
    if config.evaluation.held_out:
        test = environment.tasks(config.evaluation.held_out).take(config.evaluation.held_out_tasks)
    with process.main_process_first():
        directory = RunDirectory(run_dir, config, resume=resume, main=process.is_main_process, anyway=anyway)
    reporter = reporter or Silent()
    trackers = config.output.report_to if process.is_main_process else ()
    with directory, quiet(), Trackers(trackers, run_dir, settings(asdict(config)), note=reporter.note) as tracked:
        run = _Run(
            config,
            directory,
            environment,
            validation=validation,
            test=test,
            reporter=reporter,
            trackers=tracked,
            main=process.is_main_process,
        )
        return run.train([task.id for task in order])


@dataclass(slots=True)
class _Measured:
    """What a run has measured so far; stored in every checkpoint beside the loop's state."""

    before: dict[str, Any] | None = None
    last: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    best_round: int | None = None
    held_out_before: dict[str, Any] | None = None
    seconds: float = 0.0


class _Run:
    """The run's side of every round (`seal.engines.trl.trainer.Events`)."""

    model: TrainedModel
    evaluations: Evaluations
    accelerator: Any

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        environment: Environment,
        *,
        validation: TaskSet | None,
        test: TaskSet | None,
        reporter: Reporter,
        trackers: Trackers,
        main: bool,
    ) -> None:
        self.main = main
        self.config = config
        self.directory = directory
        self.environment = environment
        self.validation = validation
        self.test = test
        self.reporter = reporter
        self.trackers = trackers
        self.options = LoopOptions(
            group_size=config.rollout.group_size,
            rounds=config.rollout.rounds,
            interface=config.interface,
            exposure=config.exposure,
            weights=config.weights,
            teacher=config.distill.teacher,
            seed=config.seed,
        )
        self.measured = _Measured()
        self._round_started = self._update_started = perf_counter()
        self._played: Round | None = None
        self._record: dict[str, Any] = {}
        self._reliance: list[float | None] = []
        self._advantages: list[float] = []

    def train(self, order: list[str]) -> dict[str, Any]:
        """Train from the start or from the last whole checkpoint."""
        self.reporter.begin("load", round_index=None, total=None)
        for caution in self.config.cautions():
            self.reporter.note(caution)
        trainer, checkpoint = self._build(order)
        if checkpoint is None:
            if self.validation is not None and self.config.evaluation.before:
                self.measured.before = summarise(self.evaluations.validate()).to_json()
            if self.test is not None:
                self.measured.held_out_before = self._test("before")
        self.measured.seconds += perf_counter() - self._round_started
        self._round_started = perf_counter()
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
        for note in resumed.notes:
            self.reporter.note(note)
        if resumed.path is None:
            return begin(self.options), None
        self.measured = _Measured(**resumed.state["measured"])
        if resumed.best_lost:
            self.measured.best = self.measured.best_round = None
        return State.from_json(resumed.state["loop"]), resumed.path

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
        self._reliance = [sum(turns) if turns is not None else None for turns in by_turn]
        self._played = played
        seconds = {**played.seconds, "reliance": perf_counter() - started}
        started = perf_counter()
        guidance = self.model.guidance(played, gather=self._gather, offset=offset)
        if guidance.certainty is not None or guidance.taught is not None:
            seconds["guidance"] = perf_counter() - started
        records = rollout_records(played, by_turn, certainty=guidance.certainty, taught=guidance.taught)
        everyone = [line for share in self._gather(records) for line in share]
        self._record = round_record(played, following, everyone, group_size=self.config.rollout.group_size)
        started = perf_counter()
        self._record["sampler"], handing_over = self.model.sampled_from(played)
        if self._record["sampler"] is not None:
            seconds["sampler"] = handing_over + perf_counter() - started
        self._record["seconds"] = seconds
        self.reporter.begin("update", round_index=played.index, total=None)
        self._update_started = perf_counter()
        return played, following, guidance

    def advantages(self, values: list[float]) -> None:
        """Remember A_j for the trace."""
        self._advantages = values

    def updated(self, metrics: Mapping[str, float]) -> None:
        """Validate, then write the round's line and its traces."""
        played = self._played
        assert played is not None
        record, seconds = self._record, self._record.pop("seconds")
        now = perf_counter()
        seconds["update"], started = now - self._update_started, now
        record["update"] = {
            "loss": metrics.get("loss"),
            "grad_norm": metrics.get("grad_norm"),
            "kl": metrics.get("kl"),
            "entropy": metrics.get("entropy"),
            "clip_ratio": metrics.get("clip_ratio/region_mean"),
            "learning_rate": metrics.get("learning_rate"),
        }
        record["validation"] = record["interface_gap"] = None
        if self.evaluations.due(played.index):
            pairs = self.evaluations.validate(played.index)
            record["validation"] = self.measured.last = summarise(pairs).to_json()
            if self.config.evaluation.interface_gap and played.interface.shown:
                record["interface_gap"] = self.evaluations.gap(played, pairs)
            self._keep_best(played.index)
        now = perf_counter()
        seconds["validation"] = now - started
        seconds["total"] = now - self._round_started
        self.measured.seconds += seconds["total"]
        self._round_started = now
        record["seconds"] = seconds
        if self.config.output.traces:
            self.directory.write_traces(played.index, self._traced(played), rank=self.accelerator.process_index)
        if self.main:
            self.directory.write_round(record)
            self.trackers.log(record)
            self.reporter.finished_round(record)
        self.reporter.begin("save", round_index=played.index, total=None)

    def saved(self, checkpoint: Path, state: State) -> None:
        """Make the checkpoint whole."""
        self.directory.store.save(
            checkpoint,
            {"loop": state.to_json(), "measured": asdict(self.measured)},
            rounds=state.round,
            best_round=self.measured.best_round,
            keep=self.config.output.keep,
        )

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

    def _keep_best(self, index: int) -> None:
        """Keep the checkpoint that validates best; of equals, the first."""
        last, best = self.measured.last, self.measured.best
        assert last is not None
        if best is not None and last["success"] <= best["success"]:
            return
        self.measured.best, self.measured.best_round = last, index
        write = self.model.exporter()
        if self.main:
            self.directory.store.keep_best(index, write)

    def _traced(self, played: Round) -> list[Traced]:
        first = [Traced(a.trajectory, a.diagnosis, played.index) for a in played.first if a is not None]
        return first + [
            Traced(tau, z, played.index, weight.trajectory, advantage, reliance)
            for tau, z, weight, advantage, reliance in zip(
                played.trajectories, played.diagnoses, played.weights, self._advantages, self._reliance, strict=True
            )
        ]

    def _summarise(self) -> dict[str, Any]:
        measured, store = self.measured, self.directory.store
        best = store.best
        started = perf_counter()
        if measured.best_round is None:  # nothing was validated: the last weights are all there is
            write = self.model.exporter()
            if self.main:
                store.keep_best(None, write)
        if self.main:
            store.prove_best(measured.best_round)
        self.accelerator.wait_for_everyone()
        held_out = None
        if self.test is not None:
            if measured.best_round not in (None, self.config.rollout.rounds - 1):
                self.model.become(best)
            held_out = {"before": measured.held_out_before, "after": self._test("after")}
        measured.seconds += perf_counter() - started
        summary = {
            "seed": self.config.seed,
            "rounds": self.config.rollout.rounds,
            "seconds": measured.seconds,
            "model": self.config.model.source,
            "environment": self.config.environment.name,
            "validation": {"before": measured.before, "after": measured.last, "best": measured.best},
            "held_out": held_out,
            "best": {
                "round": measured.best_round,
                "success": measured.best["success"] if measured.best is not None else None,
            },
            "checkpoint": str(best.relative_to(self.directory.path)),
        }
        if self.main:
            self.directory.write_summary(summary)
        return summary
