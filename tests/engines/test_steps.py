from __future__ import annotations

import pytest

from seal.engines.trl.steps import places


def held(rows, world, views):
    """What the processes hand in, one after the other: (rendering, row) by place."""
    share = rows // world
    return [(view, rank * share + i) for rank in range(world) for view in range(views) for i in range(share)]


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize(("steps", "micro_batch"), [(1, 2), (2, 2), (4, 1), (2, 1)])
def test_steps_are_whole_groups_in_order_on_any_number_of_processes(steps, micro_batch, world, views) -> None:
    """16 rows: micro-batch by micro-batch, the processes together compute what one computes alone."""
    rows = 16

    def micro_batches(world):
        batches = {}
        for rank in range(world):
            options = {"steps": steps, "micro_batch": micro_batch, "views": views, "rank": rank, "world": world}
            mine = [held(rows, world, views)[k] for k in places(rows, **options)]
            per_step = len(mine) // steps
            for i in range(0, len(mine), micro_batch * views):
                batches[(i // per_step, rank, i)] = mine[i : i + micro_batch * views]
        return [batches[key] for key in sorted(batches)]

    together = micro_batches(world)
    assert together == micro_batches(1)
    flat = [row for batch in together for view, row in batch if view == 0]
    assert flat == list(range(rows))
    for batch in together:
        assert [row for view, row in batch if view == 0] * views == [row for _, row in batch]
