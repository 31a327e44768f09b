"""Adapters: merged into their base on the way in, and made whole again on the way out.

A policy that starts from an adapter is the base with the adapter merged into its weights. What is trained on top of it
must not forget that: an adapter that names the original base would lose the start. `Lineage` remembers what was
merged, so that an export can be one adapter of both parts on the original base:

    W + s_0 B_0 A_0 + s_1 B_1 A_1 = W + [s_0 B_0, s_1 B_1] [A_0; A_1]

(Hu et al. 2021, arXiv 2106.09685, eq 3). Where the merged adapter was more than that (DoRA, trained embeddings,
biases, ...) there is no such sum, and an export holds the whole model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seal.errors import DataError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

_PREFIX = "base_model.model."
"""What PEFT puts before the names of a model's modules."""

_HARMLESS = frozenset(
    {
        "peft_type", "task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision",
        "inference_mode", "runtime_config", "r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora",
        "lora_dropout", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "fan_in_fan_out",
    }
)  # fmt: skip
"""Settings of LoRA under which an adapter is still W + s B A, with s and its layers read from the model itself."""
_PLAIN_STARTS = (True, False, "gaussian", "orthogonal", "eva")
"""Initialisations that leave the base as it is."""


@dataclass(frozen=True, slots=True)
class Update:
    """A low-rank update B A of one linear layer; its scale is in B.

    Attributes:
        a: Shape (r, inputs).
        b: Shape (outputs, r).
    """

    a: Tensor
    b: Tensor

    def __add__(self, other: Update) -> Update:
        return Update(torch.cat([self.a, other.a]), torch.cat([self.b, other.b], dim=1))


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a loaded model comes from.

    Attributes:
        base: The directory (absolute) or hub id with the weights below all adapters.
        revision: Of the hub id, if an adapter asked for one.
        updates: What was merged into them, by the name of the layer; empty if nothing was; None if it was more than
            low-rank updates, so that base and updates do not make the model.
    """

    base: str
    revision: str | None = None
    updates: Mapping[str, Update] | None = field(default_factory=dict)

    def followed_by(self, updates: Mapping[str, Update] | None) -> Lineage:
        """This and another adapter on top."""
        return Lineage(self.base, self.revision, stacked(self.updates, updates))


def stacked(first: Mapping[str, Update] | None, then: Mapping[str, Update] | None) -> Mapping[str, Update] | None:
    """The sum of two sets of updates; None if one of them is None."""
    if first is None or then is None:
        return None
    total = dict(first)
    for name, update in then.items():
        total[name] = total[name] + update if name in total else update
    return total


def low_rank_updates(model: PeftModel, adapter: str = "default") -> dict[str, Update] | None:
    """What an adapter adds to the weights of its model, as scaled B A by layer; None if it does anything else."""
    from peft.tuners.lora import Linear, LoraLayer  # noqa: PLC0415 -- optional

    if not _is_plain(model.peft_config[adapter]):
        return None
    updates: dict[str, Update] = {}
    tuner: Any = model.base_model
    for name, layer in tuner.model.named_modules():
        if not isinstance(layer, LoraLayer):
            continue
        if adapter not in layer.lora_A:
            if adapter in layer.lora_embedding_A:
                return None
            continue
        if not isinstance(layer, Linear):
            return None
        first: Any = layer.lora_A[adapter]
        second: Any = layer.lora_B[adapter]
        a, b = first.weight.detach().float().cpu(), second.weight.detach().float().cpu()
        updates[name] = Update(a, b * layer.scaling[adapter])
    return updates


def _is_plain(config: Any) -> bool:
    from peft import LoraConfig  # noqa: PLC0415 -- optional

    if type(config) is not LoraConfig or config.init_lora_weights not in _PLAIN_STARTS:
        return False
    usual = LoraConfig()
    special = {item.name for item in fields(config)} - {*_HARMLESS, "init_lora_weights", "eva_config"}
    return not any(getattr(config, name) and getattr(config, name) != getattr(usual, name) for name in special)


# -- in ----------------------------------------------------------------------------------------------------------------


def put_on(base: PreTrainedModel, where: Path, *, trainable: bool = False) -> tuple[PeftModel, bool]:
    """Put an adapter on its base model, whose embeddings grow if the adapter has longer ones.

    Returns:
        The model with the adapter apart, and whether the adapter's file holds nothing but adapter weights.

    Raises:
        DataError: If it is an adapter that cannot be merged into weights (a soft prompt, say).
    """
    from peft import PeftModel  # noqa: PLC0415 -- optional
    from peft.utils import load_peft_weights  # noqa: PLC0415

    stored = load_peft_weights(str(where), device="cpu")
    rows = _embedding_rows(base, stored)
    if rows is not None:
        base.resize_token_embeddings(rows, mean_resizing=False)
    _untie_if_adapted(base, stored)
    adapted = PeftModel.from_pretrained(base, where, is_trainable=trainable)
    if not hasattr(adapted.base_model, "merge_and_unload"):
        kind = adapted.peft_config["default"].peft_type
        raise DataError(
            f"{where} holds an adapter of the kind {kind}, which is no change of weights; use one like LoRA"
        )
    return adapted, all(".lora_" in name for name in stored)


def merged(adapted: PeftModel) -> Any:
    """Merge an adapter into the weights below it: a model like one that never had an adapter.

    All of it can be trained again, and its configuration says whether the embeddings are still tied.
    """
    tuner: Any = adapted.base_model
    model: Any = tuner.merge_and_unload()
    model.requires_grad_(True)
    into, out = model.get_input_embeddings(), model.get_output_embeddings()
    if out is not None and into.weight is not out.weight:
        _say_untied(model)
    return model


def _embedding_rows(base: Any, stored: Mapping[str, Tensor]) -> int | None:
    """How many rows the embeddings in an adapter's file have, if other than the base's."""
    modules = {id(base.get_input_embeddings()), id(base.get_output_embeddings())}
    names = {name for name, module in base.named_modules() if id(module) in modules}
    for key, tensor in stored.items():
        name = key.removeprefix(_PREFIX).removesuffix(".weight").replace(".modules_to_save", "")
        if name in names and tensor.shape[0] != base.get_input_embeddings().weight.shape[0]:
            return int(tensor.shape[0])
    return None


def _untie_if_adapted(base: Any, stored: Mapping[str, Tensor]) -> None:
    """Give the output layer weights of its own if an adapter lies on one of two ends that share theirs.

    Apart from the weights it changes that end alone; merged into shared weights it would change both.
    """
    into, out = base.get_input_embeddings(), base.get_output_embeddings()
    if out is None or into.weight is not out.weight:
        return
    names = [name for name, module in base.named_modules() if module is into or module is out]
    if any(key.removeprefix(_PREFIX).startswith(f"{name}.lora_") for key in stored for name in names):
        out.weight = torch.nn.Parameter(out.weight.detach().clone(), requires_grad=out.weight.requires_grad)
        _say_untied(base)


def _say_untied(model: Any) -> None:
    for config in (model.config, model.config.get_text_config()):
        config.tie_word_embeddings = False


# -- out ---------------------------------------------------------------------------------------------------------------


def save(model: PeftModel, lineage: Lineage, target: Path) -> None:
    """Write a model with a trained adapter so that transformers and PEFT alone load the same model again.

    - On a base as it was loaded: the adapter, which names the base.
    - On a base into which low-rank updates were merged: one adapter of both, on the original base.
    - Otherwise: the whole model, everything merged into its weights.

    Args:
        model: With the adapter `default` on top of what was loaded.
        lineage: Of what was loaded.
        target: A directory; made if it is not there.
    """
    config = model.peft_config["default"]
    if lineage.updates is not None and not lineage.updates:
        config.base_model_name_or_path, config.revision = lineage.base, lineage.revision
        model.save_pretrained(str(target), selected_adapters=["default"])
        return
    updates = lineage.followed_by(low_rank_updates(model)).updates
    if updates is None:
        save_whole(model, target)
    else:
        _save_updates(model, lineage, updates, target)


def save_whole(model: PeftModel, target: Path) -> None:
    """Write the model with its adapter merged, leaving the model in memory as it is, bit for bit."""
    base: Any = model.get_base_model()
    base.save_pretrained(target, state_dict=dict(merged_weights(base)))


def merged_weights(base: Any) -> Iterator[tuple[str, Tensor]]:
    """The weights of a model by name, one after the other, those of adapted layers with the adapter merged.

    Args:
        base: A transformers model, or what a PEFT model with the adapter `default` has inside.
    """
    layers: dict[str, Any] = {name: layer for name, layer in base.named_modules() if hasattr(layer, "get_delta_weight")}
    for name, tensor in base.state_dict().items():
        owner, found, leaf = name.rpartition(".base_layer.")
        if found and owner in layers:
            layer = layers[owner]
            if leaf == "weight":
                tensor = (tensor.float() + layer.get_delta_weight("default").float()).to(tensor.dtype)  # noqa: PLW2901
            yield f"{owner}.{leaf}", tensor
        elif not any(name.startswith(f"{owner}.lora_") for owner in layers):
            yield name, tensor


def _save_updates(model: PeftModel, lineage: Lineage, updates: Mapping[str, Update], target: Path) -> None:
    """Write updates as one LoRA adapter of scale 1; layers with a lower rank are filled up with zeros."""
    from peft import LoraConfig  # noqa: PLC0415 -- optional
    from safetensors.torch import save_file  # noqa: PLC0415 -- with transformers

    trained: Any = model.peft_config["default"]
    rank = max(update.a.shape[0] for update in updates.values())
    names = [name for name, _ in model.get_base_model().named_modules() if ".base_layer" not in name]
    config = LoraConfig(
        task_type="CAUSAL_LM",
        base_model_name_or_path=lineage.base,
        revision=lineage.revision,
        inference_mode=True,
        r=rank,
        lora_alpha=rank,
        target_modules=_short(updates, names),
        fan_in_fan_out=trained.fan_in_fan_out,
    )
    tensors: dict[str, Tensor] = {}
    for name, update in updates.items():
        missing = rank - update.a.shape[0]
        tensors[f"{_PREFIX}{name}.lora_A.weight"] = torch.nn.functional.pad(update.a, (0, 0, 0, missing)).contiguous()
        tensors[f"{_PREFIX}{name}.lora_B.weight"] = torch.nn.functional.pad(update.b, (0, missing)).contiguous()
    target.mkdir(parents=True, exist_ok=True)
    save_file(tensors, target / "adapter_model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(str(target))


def _short(wanted: Mapping[str, Update], names: list[str]) -> list[str]:
    """The layers' last names if they mean these layers and no others (servers like them short), else the full ones."""
    last = {name.rpartition(".")[2] for name in wanted}
    return sorted(last if {name for name in names if name.rpartition(".")[2] in last} == set(wanted) else wanted)
