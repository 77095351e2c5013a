"""What a fit did, in words: whom it protects, and from which rows it learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uneven.checks import join_words
from uneven.planner import describe_steps_taken
from uneven.words import format_count

if TYPE_CHECKING:
    from uneven.training import FileFit


def tell_protection(trained: FileFit) -> str:
    """Who is protected, and at what ε, and who is not."""
    if trained.simulated:
        return "Protected: nobody, because with a seed the noise can be repeated: this is a simulation."
    used = [source for source in trained.plan.sources if source.name in trained.plan.order]
    each = [
        f"{source.name!r} at ε = {source.noise.epsilon_per_row:g}"
        + (" (outside its site)" if source.noise.once_a_batch else "")
        + ("" if source.noise.protects_features else " (labels only, NOT the features)")
        for source in used
        if source.noise.private
    ]
    others = [source.name for source in used if not source.noise.private]
    protected = f"Protected: each row of {join_words(each)}." if each else "Protected: nobody."
    unused = [source.name for source in trained.plan.sources if source not in used and source.noise.private]
    rest = f" Read, but not used and not charged: {join_words(list(map(repr, unused)))}." if unused else ""
    whole = all(source.noise.protects_features for source in used)
    every = "All rows are protected." if whole else "All labels are protected."
    open_rows = f"Not protected: {join_words(list(map(repr, others)))}." if others else every
    return f"{protected} {open_rows}{rest}"


def tell_training(trained: FileFit) -> list[str]:
    """From which rows it was learned, and in what way."""
    plan, passes = trained.plan, trained.model.settings.pass_count
    groups = trained.trained.groups
    rows = groups.row_counts
    stepped = [name for name in plan.order if name not in plan.converged]
    lines = []
    if plan.converged:
        named = join_words([f"{format_count(rows[name])} of {name!r}" for name in plan.converged])
        lines.append(f"Learned from {named}, to convergence.")
    used = [f"{format_count(rows[name])} of {name!r}" for name in stepped]
    if stepped:
        told = join_words(used) if plan.shuffled else ", then ".join(used)
        together = ", all together" if plan.shuffled else ", in this order" if len(stepped) > 1 else ""
        lines.append(
            f"{'Then' if plan.converged else 'Learned'} from {told}{together}: "
            f"{describe_steps_taken(plan, max(state.step for state in trained.trained.states))}, "
            f"each row used {'once' if passes == 1 else f'{passes} times'} ({plan.strategy})."
        )
    if left_out := [name for name in rows if name not in plan.order]:
        lines.append(f"Left out and not charged: {join_words(list(map(repr, left_out)))}.")
    return lines
