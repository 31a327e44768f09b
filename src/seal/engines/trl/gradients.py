"""Which rows of a micro-batch make a gradient: all rows enter the loss and its metrics, only some are differentiated.

Rows without any gradient are often most of a round: groups whose rollouts all ended alike, cued failures that are
dropped. They cost a forward pass for the metrics and no backward pass.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch


class RowsWithGradient:
    """A model whose per-token log-probabilities and entropies carry a gradient in some rows only.

    The values are the model's own in every row, so a loss over all rows has the value and the metrics of the whole
    micro-batch, and the gradient of the chosen rows alone.

    Args:
        model: With TRL's fused head: called with tensors whose first axis is the row, it returns `log_probs` and
            `entropy`, shape (B, L), and `aux_loss`.
        rows: Whether each row makes a gradient, shape (B,), boolean.
        together: Compute all rows in one graph and cut it afterwards. Needed where every process must take part in
            every backward pass.
    """

    def __init__(self, model: Any, rows: torch.Tensor, *, together: bool) -> None:
        assert rows.dim() == 1, rows.shape
        assert rows.dtype == torch.bool, rows.dtype
        self._model = model
        self._rows = rows
        self._together = together

    def __call__(self, **inputs: Any) -> Any:
        """One forward pass, or two: first the rows with a gradient, then the others without one."""
        if self._rows.all():
            return self._model(**inputs)
        if self._together or inputs.get("output_router_logits"):
            out = self._model(**inputs)
            keep = self._rows.unsqueeze(1)
            return SimpleNamespace(
                log_probs=torch.where(keep, out.log_probs, out.log_probs.detach()),
                entropy=None if out.entropy is None else torch.where(keep, out.entropy, out.entropy.detach()),
                aux_loss=out.aux_loss,
            )
        parts = []
        if self._rows.any():
            parts.append(self._model(**_take(inputs, self._rows)))
        with torch.no_grad():
            parts.append(self._model(**_take(inputs, ~self._rows)))
        # From "chosen rows, then the others" back to the order in which they came.
        order = torch.cat([self._rows.nonzero().squeeze(1), (~self._rows).nonzero().squeeze(1)]).argsort()
        return SimpleNamespace(
            log_probs=torch.cat([part.log_probs for part in parts])[order],
            entropy=None if parts[0].entropy is None else torch.cat([part.entropy for part in parts])[order],
            aux_loss=None,
        )


def _take(inputs: dict[str, Any], rows: torch.Tensor) -> dict[str, Any]:
    """The chosen rows of every tensor that has one entry a row."""
    return {
        key: value[rows] if torch.is_tensor(value) and value.dim() and value.size(0) == rows.numel() else value
        for key, value in inputs.items()
    }


def no_gradient(model: torch.nn.Module) -> torch.Tensor:
    """Zero, with a gradient of zeros for every trained weight: the optimizer's moments decay as they would have."""
    return torch.stack([weight.sum() * 0.0 for weight in model.parameters() if weight.requires_grad]).sum()
