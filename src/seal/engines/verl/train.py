"""A training run on a Ray cluster: configuration in; checkpoints, rounds and traces out, as from the engine trl."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from seal.config import RunConfig
from seal.engines import start
from seal.engines.journal import Journal, Pairs
from seal.engines.origin import origin
from seal.engines.plan import Plan, plan
from seal.engines.progress import Reporter, Silent
from seal.engines.records import rollout_records
from seal.engines.rundir import RunDirectory
from seal.engines.sessions import options_of
from seal.engines.trackers import Trackers, check_installed
from seal.engines.verl.options import check
from seal.errors import InfrastructureFailure
from seal.evaluate import summarise
from seal.labels import diagnose
from seal.loop import Round, State, begin
from seal.redact import settings as redacted
from seal.trace import read_json, write_atomic, write_json

if TYPE_CHECKING:
    from seal.engines.verl.trainer import SealVerlTrainer

SETTINGS = "verl.json"
"""In the run directory: what `--verl` said."""


def train(
    config: RunConfig,
    run_dir: Path,
    *,
    resume: bool = False,
    anyway: bool = False,
    reporter: Reporter | None = None,
    settings: Sequence[str] = (),
) -> dict[str, Any]:
    """Train a policy with verl: as `seal.engines.trl.train`, on storage that every node shares.

    Args:
        config: Everything that is to be decided.
        run_dir: Where results go; see `seal.engines.rundir`.
        resume: Continue an interrupted run from its last whole checkpoint.
        anyway: Accept, when resuming, what would otherwise be refused.
        reporter: Told of progress.
        settings: Further settings of verl, `key=value`; a resumed run keeps its own unless some are given.

    Raises:
        ConfigError: If the configuration or a setting cannot be used here.
        MissingError: If a model, data or a run to resume is not there.
        DataError: If no checkpoint of a run to resume is whole.
        InfrastructureFailure: If a process of the cluster failed.
    """
    check(config)
    check_installed(config.output.report_to)
    planned, home, reporter = plan(config), run_dir.resolve(), reporter or Silent()
    with (
        RunDirectory(home, config, resume=resume, anyway=anyway) as directory,
        Trackers(config.output.report_to, home, redacted(asdict(config)), note=reporter.note) as trackers,
    ):
        journal = Journal(config, directory, reporter, trackers)
        return Run(config, directory, planned, journal, reporter).train(settings)


class Run:
    """The run's side of every round."""

    trainer: SealVerlTrainer

    def __init__(
        self, config: RunConfig, directory: RunDirectory, planned: Plan, journal: Journal, reporter: Reporter
    ) -> None:
        self.config, self.directory, self.reporter = config, directory, reporter
        self.environment, self.order, validation, _ = planned
        self.validation = validation.tasks if validation is not None else ()
        self.journal = journal

    def train(self, settings: Sequence[str]) -> dict[str, Any]:
        """Train from the start or from the last whole checkpoint."""
        with warnings.catch_warnings():  # of engines that are not there, and that nobody asked for
            warnings.simplefilter("ignore")
            from seal.engines.verl.cluster import cluster  # noqa: PLC0415 -- only where verl is installed
            from seal.engines.verl.trainer import SealVerlTrainer  # noqa: PLC0415

        self.reporter.begin("load", round_index=None, total=None)
        for caution in self.config.cautions():
            self.reporter.note(caution)
        verl, made_with = self._prepare(settings)
        resumed = self.directory.take_up(made_with)
        state = self.journal.take_up(resumed) or begin(options_of(self.config))
        with cluster(verl, threads=self.config.model.threads):
            self.trainer = SealVerlTrainer(verl, self, state, resumed.path)
            self.trainer.play_and_update()
        self.directory.store.prove_best(self.journal.measured.best_round)
        self.journal.lap()
        return self.journal.summary(held_out=None)

    def _prepare(self, settings: Sequence[str]) -> tuple[Any, dict[str, str]]:
        """Verl's configuration, and what the run is made with."""
        import torch  # noqa: PLC0415 -- takes seconds to import
        from transformers import AutoConfig, AutoTokenizer, GenerationConfig  # noqa: PLC0415

        from seal.engines.verl.build import agents, build_config  # noqa: PLC0415
        from seal.models.load import model_directory  # noqa: PLC0415

        home = self.directory.path
        source = model_directory(self.config.model.source, progress=self.reporter.note)
        chat, proof = start.prove_chat(AutoTokenizer.from_pretrained(source), self.config, self.reporter)
        write_json(home / "chat.json", chat.described(proof))
        try:
            stop = GenerationConfig.from_pretrained(source).eos_token_id
        except OSError:
            stop = AutoConfig.from_pretrained(source).eos_token_id
        write_atomic(home / "agents.yaml", agents(home / "config.toml", stop).encode())
        kept = home / SETTINGS
        settings = settings or (read_json(kept) if kept.is_file() else ())
        verl = build_config(self.config, str(source), home, settings, gpus=torch.cuda.device_count())
        write_json(kept, list(settings))
        ranks = verl.trainer.nnodes * verl.trainer.n_gpus_per_node
        return verl, {**origin(source, None, self.environment, engine="verl"), "ranks": str(ranks)}

    # -- what a trainer tells, in this order -------------------------------------------------------------------------

    def started(self, state: State) -> None:
        """Everything is loaded."""
        if state.round == 0 and len(self.validation) and self.config.evaluation.before:
            self.journal.before_training(summarise(self._validate(None, 0.0, None)).to_json())
        self.journal.lap()

    def begins(self, state: State) -> None:
        """A round begins."""
        rows = self.config.rollout.prompts * self.config.rollout.group_size
        self.reporter.begin("rollout", round_index=state.round, total=rows)

    def played(self, played: Round, following: State, by_turn: list[list[float] | None], gaps: list[float]) -> None:
        """Its rollouts are there; `by_turn` is their reliance on cues, `gaps` |sampler - actor| by token, in nats."""
        failures = [tau.failure for tau in played.trajectories if tau.failure is not None]
        if len(failures) == len(played.trajectories):
            raise InfrastructureFailure(
                f"no rollout of round {played.index + 1} could be scored; the first said {failures[0].kind}: "
                f"{failures[0].message}. Earlier rounds are saved"
            )
        mean, most = (fmean(gaps), max(gaps)) if gaps else (None, None)
        name = str(self.trainer.config.actor_rollout_ref.rollout.name)
        self.journal.played(
            played,
            following,
            rollout_records(played, by_turn),
            by_turn,
            sampler={"name": name, "mean": mean, "max": most, "tokens": len(gaps)},
            seconds={**played.seconds, "rollout": self.trainer.timing_raw.get("gen", 0.0)},
        )

    def updated(self, metrics: dict[str, Any], checkpoint: Path | None, state: State) -> None:
        """The update is done and the servers have its weights; `checkpoint` holds verl's files, if it was time."""
        named = {"kl": "kl_loss", "clip_ratio": "pg_clipfrac", "learning_rate": "lr"}
        keys = ("loss", "grad_norm", "kl", "entropy", "clip_ratio", "learning_rate")
        update = {key: metrics.get(f"actor/{named.get(key, key)}") for key in keys}
        export = checkpoint / "actor" / "huggingface" if checkpoint is not None else Path()
        keep = partial(self.directory.store.keep_best, write=partial(_move, export))
        self.journal.updated(update, self._validate, keep)
        if checkpoint is None:
            return
        if state.round == self.config.rollout.rounds and self.journal.measured.best_round is None:
            keep(None)  # nothing was validated: the last weights are all there is
        shutil.rmtree(export, ignore_errors=True)
        self.journal.saved(checkpoint, state)

    def _validate(self, index: int | None, temperature: float, shown: Round | None) -> Pairs:
        self.reporter.begin("validate", round_index=index, total=len(self.validation))
        return [(tau, diagnose(tau)) for tau in self.trainer.play(self.validation, temperature, shown)]


def _move(export: Path, target: Path) -> None:
    """Make verl's export the best checkpoint. Its weights are float32, and it says bfloat16: they would be rounded."""
    shutil.move(export, target)
    said = read_json(target / "config.json")
    write_json(target / "config.json", {**said, "dtype": "float32"})
