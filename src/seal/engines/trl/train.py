"""A training run: configuration in; checkpoints, rounds and traces out.

The order of a round: play (Algorithm 1), update (TRL), validate in the bare environment, write the round's line, save.
Everything random hangs on (seed, round, prompt, sample), so a run that is killed and resumed ends with the same weights
as one that was not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from seal.config import RunConfig
from seal.engines.checkpoints import Resumed
from seal.engines.origin import origin
from seal.engines.progress import Reporter, Silent
from seal.engines.records import interface_gap, rollout_records, round_record
from seal.engines.rundir import RunDirectory
from seal.envs import make
from seal.episodes import play_tasks
from seal.errors import MissingError
from seal.evaluate import evaluate, summarise
from seal.loop import LoopOptions, Round, State, begin, one_round, schedule
from seal.task import Environment, TaskSet
from seal.trace import Traced
from seal.types import Diagnosis, Trajectory

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from seal.engines.trl.trainer import SealTrainer
    from seal.models.chat import ChatFormat
    from seal.models.local import LocalPolicy

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
    for tracker in config.output.report_to:
        if find_spec(tracker) is None:
            raise MissingError(f"output.report_to names {tracker!r}, which is not installed: pip install {tracker}")
    environment = make(config.environment.name, **config.environment.options)
    tasks = environment.tasks(config.environment.train).take(config.environment.train_tasks)
    order = schedule(tasks, rounds=config.rollout.rounds, prompts=config.rollout.prompts, seed=config.seed)
    validation = None
    if config.evaluation.every:
        validation = environment.tasks(config.environment.validation).take(config.environment.validation_tasks)
    from seal.engines.trl.build import processes, quiet  # noqa: PLC0415 -- loads torch and transformers

    process = processes(config)
    test = None
    if config.evaluation.held_out:
        test = environment.tasks(config.evaluation.held_out).take(config.evaluation.held_out_tasks)
    with process.main_process_first():
        directory = RunDirectory(run_dir, config, resume=resume, main=process.is_main_process, anyway=anyway)
    with directory, quiet():
        run = _Run(
            config,
            directory,
            environment,
            validation=validation,
            test=test,
            reporter=reporter or Silent(),
            main=process.is_main_process,
        )
        return run.train([task.id for task in order], anyway=anyway)


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

    trainer: SealTrainer
    tokenizer: PreTrainedTokenizerBase
    chat: ChatFormat

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        environment: Environment,
        *,
        validation: TaskSet | None,
        test: TaskSet | None,
        reporter: Reporter,
        main: bool,
    ) -> None:
        self.main = main
        self.config = config
        self.directory = directory
        self.environment = environment
        self.validation = validation
        self.test = test
        self.reporter = reporter
        self.options = LoopOptions(
            group_size=config.rollout.group_size,
            rounds=config.rollout.rounds,
            interface=config.interface,
            exposure=config.exposure,
            weights=config.weights,
            seed=config.seed,
        )
        self.measured = _Measured()
        self._round_started = self._update_started = perf_counter()
        self._played: Round | None = None
        self._record: dict[str, Any] = {}
        self._reliance: list[float | None] = []
        self._advantages: list[float] = []

    def train(self, order: list[str], *, anyway: bool) -> dict[str, Any]:
        """Train from the start or from the last whole checkpoint."""
        from accelerate.utils import broadcast_object_list  # noqa: PLC0415 -- loads torch

        from seal.engines.trl.build import build_trainer  # noqa: PLC0415 -- loads torch and TRL
        from seal.models.chat import ChatFormat  # noqa: PLC0415
        from seal.models.load import load_model, model_directory  # noqa: PLC0415

        self.reporter.begin("load", round_index=None, total=None)
        for caution in self.config.cautions():
            self.reporter.note(caution)
        source = model_directory(self.config.model.source, progress=self.reporter.note)
        model, self.tokenizer = load_model(
            str(source),
            dtype=self.config.model.dtype if self.config.lora.enabled else "float32",
            device=self.config.model.device,
            threads=self.config.model.threads,
            trust_remote_code=self.config.model.trust_remote_code,
        )
        found: list[Resumed | None] = [None]
        if self.main:
            found = [self.directory.take_up(origin(source, model, self.environment))]
        (resumed,) = broadcast_object_list(found)
        state, checkpoint = begin(self.options), resumed.path
        if checkpoint is not None:
            state, self.measured = State.from_json(resumed.state["loop"]), _Measured(**resumed.state["measured"])
        if resumed.best_lost:
            self.measured.best = self.measured.best_round = None
        for note in resumed.notes:
            self.reporter.note(note)
        dialect = self.config.model.dialect
        self.chat = ChatFormat(self.tokenizer, None if dialect == "auto" else dialect)
        self.chat.prove()
        self.trainer = build_trainer(
            self.config,
            model,
            self.tokenizer,
            order=order,
            state=state,
            events=self,
            checkpoints=self.directory.store.path,
        )
        if checkpoint is None:
            if self.validation is not None and self.config.evaluation.before:
                self.measured.before = summarise(self._validate()).to_json()
            if self.test is not None:
                with self._policy(0.0) as policy:
                    self.measured.held_out_before = self._test("before", policy)
        self.measured.seconds += perf_counter() - self._round_started
        self._round_started = perf_counter()
        self.trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint is not None else None)
        return self._summarise()

    def play(self, state: State, task_ids: list[str], offset: int) -> tuple[Round, State]:
        """Algorithm 1 with the current policy, then how much cued rollouts lean on their cues."""
        self.reporter.begin("rollout", round_index=state.round, total=len(task_ids))
        with self._policy(self.config.rollout.temperature) as policy:
            played, following = one_round(
                self.environment,
                [self.environment.task(task_id) for task_id in task_ids],
                policy,
                state,
                self.options,
                gather=self._gather,
                offset=offset,
                on_trajectory=_Count(self.reporter),
            )
        started = perf_counter()
        by_turn = self._measure_reliance(played)
        self._reliance = [sum(turns) if turns is not None else None for turns in by_turn]
        self._played = played
        everyone = [line for share in self._gather(rollout_records(played, by_turn)) for line in share]
        self._record = round_record(played, following, everyone, group_size=self.config.rollout.group_size)
        self._record["seconds"] = {**played.seconds, "reliance": perf_counter() - started}
        self.reporter.begin("update", round_index=played.index, total=None)
        self._update_started = perf_counter()
        return played, following

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
        if self._due(played.index):
            pairs = self._validate(played.index)
            record["validation"] = self.measured.last = summarise(pairs).to_json()
            if self.config.evaluation.interface_gap and played.interface.shown:
                record["interface_gap"] = self._gap(played, pairs)
            self._keep_best(played.index)
        now = perf_counter()
        seconds["validation"] = now - started
        seconds["total"] = now - self._round_started
        self.measured.seconds += seconds["total"]
        self._round_started = now
        record["seconds"] = seconds
        if self.config.output.traces:
            self.directory.write_traces(played.index, self._traced(played), rank=self.trainer.accelerator.process_index)
        if self.main:
            self.directory.write_round(record)
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

    @contextmanager
    def _policy(self, temperature: float, model: PreTrainedModel | None = None) -> Iterator[LocalPolicy]:
        """The current weights (or another model's) as a policy, computing in the data type of the update."""
        from seal.models.local import LocalPolicy  # noqa: PLC0415 -- loads torch

        with self.trainer.accelerator.autocast():
            policy = LocalPolicy(
                model or self.trainer.accelerator.unwrap_model(self.trainer.model),
                self.tokenizer,
                chat=self.chat,
                temperature=temperature,
                max_new_tokens=self.config.rollout.max_new_tokens,
                max_context=self.config.model.max_context,
                batch_size=self.config.rollout.batch_size,
                max_cached_tokens=self.config.rollout.max_cached_tokens,
                name=self.config.model.source,
            )
            try:
                yield policy
            finally:
                policy.close()

    def _gather(self, share: _Part) -> list[_Part]:
        """What every rank holds of a round, in the order of their rows (a group can straddle ranks)."""
        from accelerate.utils import gather_object  # noqa: PLC0415 -- loads torch

        shares: list[_Part] = gather_object([share])
        return shares

    def _measure_reliance(self, played: Round) -> list[list[float] | None]:
        if not self.config.output.reliance or not any(played.cued):
            return [None] * len(played.trajectories)
        from seal.engines.trl.reliance import reliance_by_turn  # noqa: PLC0415 -- loads torch

        with self.trainer.accelerator.autocast():
            return reliance_by_turn(
                self.trainer.accelerator.unwrap_model(self.trainer.model),
                played,
                temperature=self.config.rollout.temperature,
                micro_batch_tokens=self.config.model.max_context * self.config.update.micro_batch,
            )

    def _due(self, index: int) -> bool:
        every = self.config.evaluation.every
        return every > 0 and ((index + 1) % every == 0 or index + 1 == self.config.rollout.rounds)

    def _validate(self, index: int | None = None, *, temperature: float = 0.0) -> list[tuple[Trajectory, Diagnosis]]:
        assert self.validation is not None
        with self._policy(temperature) as policy:
            return self._evaluate(self.validation, policy, index)

    def _gap(self, played: Round, greedy: Sequence[tuple[Trajectory, Diagnosis]]) -> dict[str, Any]:
        """What the round's interface is worth on the validation tasks, greedy and at the rollouts' temperature."""
        temperature = self.config.rollout.temperature
        return {
            "active": list(played.interface.shown),
            "greedy": interface_gap(greedy, self._validate_shown(played, 0.0)),
            "sampled": {
                "temperature": temperature,
                **interface_gap(
                    self._validate(played.index, temperature=temperature), self._validate_shown(played, temperature)
                ),
            },
        }

    def _test(self, when: Literal["before", "after"], policy: LocalPolicy) -> dict[str, Any]:
        """Test on held-out tasks: once before training, once with the chosen checkpoint."""
        assert self.test is not None
        pairs = self._evaluate(self.test, policy, None)
        if self.main:
            self.directory.write_test(when, (Traced(trajectory, diagnosis) for trajectory, diagnosis in pairs))
        return summarise(pairs).to_json()

    def _evaluate(self, tasks: TaskSet, policy: LocalPolicy, index: int | None) -> list[tuple[Trajectory, Diagnosis]]:
        """In the bare environment; the evaluation module cannot show a cue."""
        self.reporter.begin("validate", round_index=index, total=len(tasks))
        count = _Count(self.reporter)
        return evaluate(
            self.environment,
            tasks,
            policy,
            seed=self.config.seed,
            on_trajectory=lambda trajectory, _diagnosis: count(trajectory),
            chunk=self.config.rollout.batch_size,
        )

    def _validate_shown(self, played: Round, temperature: float) -> list[tuple[Trajectory, Diagnosis]]:
        """The validation tasks through the round's interface, with the randomness of `_validate`."""
        assert self.validation is not None
        self.reporter.begin("validate", round_index=played.index, total=len(self.validation))
        count = _Count(self.reporter)
        with self._policy(temperature) as policy:
            return play_tasks(
                self.environment,
                self.validation,
                policy,
                played.interface.presenter(),
                seed=self.config.seed,
                on_trajectory=lambda trajectory, _diagnosis: count(trajectory),
                chunk=self.config.rollout.batch_size,
            )

    def _keep_best(self, index: int) -> None:
        """Keep the checkpoint that validates best; of equals, the first."""
        last, best = self.measured.last, self.measured.best
        assert last is not None
        if best is not None and last["success"] <= best["success"]:
            return
        self.measured.best, self.measured.best_round = last, index
        if self.main:
            self.directory.store.keep_best(index, self._export)

    def _export(self, target: Path) -> None:
        """Write model and tokenizer to a directory."""
        self.trainer.accelerator.unwrap_model(self.trainer.model).save_pretrained(target)
        self.tokenizer.save_pretrained(target)

    def _traced(self, played: Round) -> list[Traced]:
        return [
            Traced(tau, z, played.index, weight.trajectory, advantage, reliance)
            for tau, z, weight, advantage, reliance in zip(
                played.trajectories, played.diagnoses, played.weights, self._advantages, self._reliance, strict=True
            )
        ]

    def _load_best(self) -> PreTrainedModel:
        from seal.models.load import load_model  # noqa: PLC0415 -- loads torch

        options = self.config.model
        return load_model(
            str(self.directory.store.best),
            dtype="float32",
            device=options.device,
            trust_remote_code=options.trust_remote_code,
        ).model

    def _summarise(self) -> dict[str, Any]:
        measured, store = self.measured, self.directory.store
        best = store.best
        started = perf_counter()
        if self.main:
            if measured.best_round is None:  # nothing was validated: the last weights are all there is
                store.keep_best(None, self._export)
            store.prove_best(measured.best_round)
        self.trainer.accelerator.wait_for_everyone()
        held_out = None
        if self.test is not None:
            with self._policy(0.0, self._load_best()) as policy:
                held_out = {"before": measured.held_out_before, "after": self._test("after", policy)}
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


class _Count:
    """Counts finished episodes aloud."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter, self._done = reporter, 0

    def __call__(self, _trajectory: object) -> None:
        self._done += 1
        self._reporter.advance(self._done)
