"""What the browser shows. It computes nothing: it shows what `uneven.plan` and the functions beside this page return.

Streamlit runs it from top to bottom after each change.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from uneven.datasets import Dataset, load_covertype_sample
from uneven.io import SourcesFile, read_sources, sources_from_text, sources_to_text
from uneven.losses import LOSSES
from uneven.noise import MOMENTS, NOISES
from uneven.noise.privacy import MECHANISMS
from uneven.planner import STRATEGIES, Plan, Source
from uneven.planner import text as words
from uneven.problem import RADII
from uneven.studio import pictures, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from uneven.studio.simulation import Simulation

TITLE = "Which data first, how far to step, and what is it worth?"
ABOUT = (
    "Describe your sources: how many rows each has, and its noise or protection. "
    "The plan below follows each change; settings and files are in the sidebar. No data is needed, and none is sent."
)
NARROW = 300
STYLE = """<style>
.stApp h1 {font-size: 2rem} .stApp h2 {font-size: 1.5rem} .stApp h3 {font-size: 1.2rem}
@media (max-width: 480px) {.stApp .stTable :is(th, td) {font-size: 0.8rem; padding: 0.25rem 0.2rem}}
</style>"""
DTYPES = dict(zip(table.COLUMNS, ("object", "Int64", "object", "float", "object", "float"), strict=True))


def main() -> None:
    """Show the page."""
    st.set_page_config("uneven studio", layout="wide")
    _begin()
    st.html(STYLE)
    st.title(TITLE)
    st.markdown(ABOUT)
    sources = _edited_sources()
    settings = _edited_settings()
    _files(sources, settings)
    try:
        planned = table.plan_of(sources, settings)
    except ValueError as error:
        _refuse(str(error))
        return
    others = planned.alternatives()
    _show_verdicts(st.session_state.verdicts)
    _show_plan(planned)
    _show_pictures(planned, others)
    _show_strategies(planned, others)
    _ask_what_if(planned)
    _ask_simulation(planned)
    with st.expander("The plan as plain values (Plan.to_dict)"):
        st.json(planned.to_dict())


def _begin() -> None:
    """At the start of a session: the file that was named on the command line, or two hospitals."""
    if "rows" in st.session_state:
        return
    _take(table.HOSPITALS, table.SETTINGS)
    if len(sys.argv) > 1:
        _take_or_refuse(lambda: read_sources(sys.argv[1]))


def _take(sources: Sequence[Source], settings: Mapping[str, Any], verdicts: Sequence[str] = ()) -> None:
    """Put sources and settings into the page. A new edition of the table forgets what was typed into the old one."""
    state = st.session_state
    state.rows = [table.row_of(source) for source in sources]
    state.edition = state.get("edition", 0) + 1
    state.refusal, state.verdicts = None, verdicts
    for name, value in settings.items():
        state[name] = value


def _take_or_refuse(read: Any) -> None:
    try:
        file: SourcesFile = read()
        sources, settings = [entry.source for entry in file.sources], table.settings_of(file)
        table.plan_of(sources, settings)
        verdicts = table.verdicts_of(file)
    except (ValueError, OSError) as error:
        st.session_state.refusal = str(error)
    else:
        _take(sources, settings, verdicts)


def _take_upload() -> None:
    upload = st.session_state.upload
    if upload is None:
        st.session_state.refusal = None
    else:
        _take_or_refuse(lambda: sources_from_text(upload.getvalue(), upload.name))


def _edited_sources() -> list[Source]:
    st.header("Sources")
    frame = pd.DataFrame(st.session_state.rows, columns=list(table.COLUMNS)).astype(DTYPES)
    edited = st.data_editor(
        frame,
        key=f"sources-{st.session_state.edition}",
        column_config=_column_config(),
        num_rows="dynamic",
        hide_index=True,
        placeholder="",
        width="stretch",
        alt="Table of sources",
    )
    rows = edited.astype(object).where(edited.notna(), None).to_dict("records")
    sources, refusals = table.sources_of(rows)
    for refusal in refusals:
        _refuse(refusal)
    st.caption(
        "Level: the epsilon of local-privacy, the rate of flipped-labels, the variance of additive noise. "
        "Price: of one row, if you may buy more."
    )
    return sources


def _column_config() -> dict[str, Any]:
    config = st.column_config
    return {
        "name": config.TextColumn("name", width="small"),
        "rows": config.NumberColumn("rows", step=1, format="localized", width="small"),
        "kind": config.SelectboxColumn("kind", options=list(NOISES), default="local-privacy", width="small"),
        "level": config.NumberColumn("level", help="epsilon, rate or variance", width="small"),
        "mechanism": config.SelectboxColumn(
            "mechanism", options=list(MECHANISMS), help="of local-privacy; quiet if empty", width="small"
        ),
        "price": config.NumberColumn("price", help="of one row", width="small"),
    }


def _edited_settings() -> dict[str, Any]:
    with st.sidebar:
        st.header("Settings")
        return {
            "alpha": st.number_input("L2 strength λ (alpha)", key="alpha", format="%g", step=1e-4),
            "batch_size": st.number_input("Rows per step (batch_size)", key="batch_size", min_value=1, step=1),
            "n_features": st.number_input("Dimension (n_features)", key="n_features", min_value=1, step=1),
            "strategy": st.selectbox("Strategy", list(STRATEGIES), key="strategy"),
            "loss": st.selectbox("Loss", list(LOSSES), key="loss"),
            "clip": st.number_input(
                "Clip gradients to", None, key="clip", format="%g", step=0.1, value=None, placeholder="no clip"
            ),
            "radius": st.selectbox("Radius", list(RADII), key="radius", help="The ball that the weights stay in."),
            "moments": st.selectbox(
                "Moments", ["auto", *MOMENTS], key="moments", help="What stands for the noise of a step."
            ),
        }


def _files(sources: Sequence[Source], settings: Mapping[str, Any]) -> None:
    with st.sidebar:
        st.header("File")
        st.file_uploader("Open a sources.toml", type="toml", key="upload", on_change=_take_upload)
        if st.session_state.refusal:
            _refuse(st.session_state.refusal)
        try:
            text = sources_to_text(sources, **settings)
        except ValueError:  # the page says why
            text = None
        st.download_button(
            "Save as sources.toml",
            text or "",
            file_name="sources.toml",
            mime="application/toml",
            disabled=text is None,
            on_click="ignore",
            width="stretch",
        )


def _show_verdicts(verdicts: Sequence[str]) -> None:
    """What a fit of the file would say of each private source before any ε is spent; nothing without public rows."""
    if verdicts:
        st.header("Is private data worth its ε?")
        st.markdown("\n".join(f"- {_literal(line)}" for line in verdicts))
        st.caption("Of the file as it was opened, from its rows without privacy; private rows were counted only.")


def _show_plan(planned: Plan) -> None:
    st.header("The plan")
    st.markdown("\n".join(f"- {_literal(line)}" for line in words.describe_use(planned)))
    _table(words.source_rows(planned), "The sources in order of use")
    st.markdown("\n".join(f"- {_literal(line)}" for line in words.describe_guarantee(planned)))


def _show_pictures(planned: Plan, others: Mapping[str, Plan]) -> None:
    left, right = st.columns(2)
    bounds = ", ".join(f"{name} {words.number(other.bound)}" for name, other in others.items())
    with left:
        _picture(pictures.steps_figure(planned, _ground()), f"Step sizes of {planned.strategy} over time, by source")
    with right:
        _picture(pictures.bounds_figure(planned, others, _ground()), f"Bound of every strategy: {bounds}")


def _show_strategies(planned: Plan, others: Mapping[str, Plan]) -> None:
    left, right = st.columns(2)
    with left:
        st.subheader("Every strategy")
        _table(words.strategy_rows(planned, others), "Bound of every strategy")
        st.caption(_literal(f"* this plan. {words.COMPARE}"))
    with right:
        st.subheader("Where to search for the rates c")
        _show_intervals(planned)


def _show_intervals(planned: Plan) -> None:
    try:
        found = table.intervals(planned)
    except ValueError as error:
        st.markdown(_literal(f"No interval: {error}."))
        return
    rows = [(name, words.number(low), words.number(high)) for name, (low, high) in found.items()]
    _table([("source", "from", "to"), *rows], "Interval of each rate")
    st.caption(
        "For steps c/t, as in the paper's Section 5: the rate of each source with lower and with upper moments. "
        "With two sources the second row is the interval of c₂."
    )


def _ask_what_if(planned: Plan) -> None:
    st.header("What if I buy more rows?")
    more = st.number_input(
        "Rows to buy, of one source or another", key="more", min_value=1, step=1000, value=10_000, width=NARROW
    )
    rows: list[tuple[str, ...]] = [("more of", "rows then", "bound now", "bound then", "change", "cost")]
    try:
        rows += [_what_if_row(table.what_if(planned, source.name, more)) for source in planned.sources]
    except ValueError as error:
        _refuse(str(error))
        return
    _table(rows, "Bound with more rows of each source")


def _what_if_row(asked: table.WhatIf) -> tuple[str, ...]:
    cost = "no price" if asked.cost is None else words.number(asked.cost)
    bounds = words.number(asked.before), words.number(asked.after)
    return asked.source.name, f"{asked.source.rows:,}", *bounds, f"{asked.percent:+.3g}%", cost


def _ask_simulation(planned: Plan) -> None:
    st.header("Does it hold?")
    st.markdown(
        "Runs every strategy on the sample of Covertype that comes with the package (54 features), with rows scaled "
        "down in proportion, and measures how far from the optimum w\\* it ends. The first run compiles for a while."
    )
    runs = st.number_input("Runs", key="runs", min_value=2, max_value=100, value=10, step=1, width=NARROW)
    if st.button("Run a small simulation", type="primary"):
        from uneven.studio.simulation import simulate  # brings the compiler: the page need not wait for it

        bar = st.progress(0.0, "Running")
        try:
            done = simulate(planned, _sample(), runs=runs, tick=lambda share: bar.progress(share, "Running"))
            st.session_state.simulation = planned, done
        except ValueError as error:
            _refuse(str(error))
        bar.empty()
    if "simulation" in st.session_state:
        _show_simulation(planned, *st.session_state.simulation)


def _show_simulation(planned: Plan, simulated: Plan, done: Simulation) -> None:
    if planned != simulated:
        st.warning("The sources or settings have changed since this was run; run it again.")
    left, right = st.columns(2)
    shown = done.plans[simulated.strategy]
    with left:
        alt = "Mean squared distance to the optimum, measured and predicted, by strategy"
        _picture(pictures.measured_figure(shown, done.plans, done.distance, _ground()), alt)
    with right:
        _table(tabulate_simulation(done), "Measured and predicted, by strategy")
        used = ", ".join(f"{rows:,} of {name}" for name, rows in done.rows.items())
        st.caption(
            _literal(
                f"{done.runs} runs; each used {used}. Means of ‖w - w*‖² ± one standard error. Accuracy is that on "
                f"10,000 test rows; that of w* is {100 * done.best_accuracy:.1f}%."
            )
        )


def tabulate_simulation(done: Simulation) -> list[tuple[str, ...]]:
    """Header and one row per strategy: what was measured beside the bound."""
    rows: list[tuple[str, ...]] = [("strategy", "measured", "bound", "accuracy", "AUC")]
    for name, own in done.plans.items():
        (mean, error), (share, wobble) = done.distance[name], done.accuracy[name]
        measured = f"{words.number(mean)} ± {error:.2g}"
        area = "{:.3f} ± {:.3f}".format(*done.auc[name])
        rows.append((name, measured, words.number(own.bound), f"{100 * share:.1f}% ± {100 * wobble:.1f}", area))
    return rows


@st.cache_resource(show_spinner=False)
def _sample() -> Dataset:
    return load_covertype_sample()


def _table(rows: Sequence[Sequence[str]], alt: str) -> None:
    """Rows of text, the first a header, as they are: names are not markup."""
    literal = [[_literal(cell) for cell in row] for row in rows[1:]]
    st.table(pd.DataFrame(literal, columns=list(rows[0])), hide_index=True, border="horizontal", alt=alt)


def _picture(figure: Figure, alt: str) -> None:
    """Picture as a part of the page: one that the browser had to ask for would be gone if it came too late."""
    st.html(f'<img src="{pictures.data_url(figure)}" alt="{escape(alt)}" style="max-width: 100%">')


def _ground() -> str:
    return "dark" if st.context.theme.type == "dark" else "light"


def _refuse(message: str) -> None:
    st.error(_literal(" ".join(message.split())))


def _literal(text: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> _literal("w*")
    'w\\*'
    """
    return re.sub(r"([\\`*_{}\[\]()#+\-.!|<>~$:&])", r"\\\1", text)


if __name__ == "__main__":
    main()
