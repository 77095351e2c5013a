"""What the browser shows. It computes nothing: it shows what `uneven plan` and the functions beside this page return.

Streamlit runs it from top to bottom after each change.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from uneven.datasets import load_covertype_sample
from uneven.io import check_sources_text
from uneven.noise import MECHANISMS, NOISES
from uneven.planner import COMPARE, Plan, describe_guarantee, describe_use, tabulate_sources, tabulate_strategies
from uneven.report import plan_report, tell_worth
from uneven.studio import pictures, table
from uneven.studio.document import CHOICES, LABELS, TYPED, Document, begin, read_document
from uneven.studio.purchases import tabulate_purchases
from uneven.words import format_bound, format_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from streamlit.delta_generator import DeltaGenerator

    from uneven.studio.simulation import Simulation
    from uneven.valuation import Valuation

TITLE = "Which data first, how far to step, and what is it worth?"
ABOUT = (
    "Describe your sources: how many rows each has, and its noise or protection. "
    "The plan below follows each change; settings and files are in the sidebar. No data is needed, and none is sent."
)
EXAMPLE = (
    "Your file was not opened. The page still has its own example, two hospitals, which is not offered for saving."
)
NARROW = 300
STYLE = """<style>
.stApp h1 {font-size: 2rem} .stApp h2 {font-size: 1.5rem} .stApp h3 {font-size: 1.2rem}
@media (max-width: 480px) {.stApp .stTable :is(th, td) {font-size: 0.7rem; padding: 0.2rem 0.12rem}}
</style>"""
DTYPES = {
    "place": "Int64",
    **dict(zip(table.COLUMNS, ("object", "Int64", "object", "object", "object", "float"), strict=True)),
}
DRAFTS = 100  # most documents that the server remembers for pages that are loaded again


def main() -> None:
    """Show the page."""
    st.set_page_config("uneven studio", layout="wide")
    _begin()
    st.html(STYLE)
    st.title(TITLE)
    st.markdown(ABOUT)
    rows = _edited_rows()
    edited, refusals = st.session_state.document.edit(rows, _edited_settings())
    for refusal in refusals:
        _refuse(refusal)
    told = st.container()
    planned, note = _planned(edited, told)
    _files(edited, planned, note, whole=not refusals)
    if planned is not None:
        with told:
            _show(edited, planned, note)


def _show(edited: Document, planned: Plan, note: str) -> None:
    _show_worth(planned)
    _show_plan(planned, note)
    if not planned.converged:
        others = planned.alternatives()
        _show_pictures(planned, others)
        _show_strategies(planned, others)
    elif planned.segments:
        _show_pictures(planned, {})
    _ask_what_if(edited)
    if not planned.converged:
        _ask_simulation(planned)
    with st.expander("The plan as plain values (Plan.to_dict)"):
        st.json(planned.to_dict())


def _begin() -> None:
    """At the start of a visit: what this address was last used for, the file of the command line, or two hospitals."""
    if "document" in st.session_state:
        return
    name = st.query_params.get("draft", "")
    st.session_state.refusal = None
    if name in _drafts():
        _take(_drafts()[name])
        return
    st.query_params["draft"] = secrets.token_urlsafe(9)
    _take(begin())
    if len(sys.argv) > 1:
        _take_or_refuse(lambda: read_document(Path(sys.argv[1]).read_bytes(), sys.argv[1], opened=True))


@st.cache_resource
def _drafts() -> dict[str, Document]:
    """What is being edited, by the name in the page's address: a page that is loaded again goes on with it."""
    return {}


def _remember(edited: Document) -> None:
    drafts, name = _drafts(), st.query_params.get("draft", "")
    drafts.pop(name, None)
    drafts[name] = edited
    for old in list(drafts)[:-DRAFTS]:
        del drafts[old]


def _take(document: Document) -> None:
    """Put a document into the page. A new edition of the table forgets what was typed into the old one."""
    state, rows = st.session_state, document.rows
    state.document, state.rows = document, rows
    state.edition = state.get("edition", 0) + 1
    state.refusal = None
    for name, text in document.settings.items():
        state[name] = text


def _take_or_refuse(read: Callable[[], Document]) -> None:
    try:
        _take(read())
    except (ValueError, OSError) as error:
        st.session_state.refusal = str(error)


def _take_upload() -> None:
    upload = st.session_state.upload
    if upload is None:
        st.session_state.refusal = None
    else:
        _take_or_refuse(lambda: read_document(upload.getvalue(), upload.name))


def _planned(edited: Document, told: DeltaGenerator) -> tuple[Plan | None, str]:
    """The plan of what is in the page, or a line on why there is none."""
    try:
        with st.spinner("Planning"):
            return _plan(edited.text, edited.path, edited.opened, edited.stamp)
    except (ValueError, OSError) as error:
        with told:
            _refuse(str(error))
            if "are not opened here" in str(error) or "n_features must be given" in str(error):
                st.caption("To plan with the rows of files, start the studio with it: uneven studio sources.toml")
        return None, ""


@st.cache_resource(show_spinner=False, max_entries=20)
def _plan(text: str, path: str, opened: bool, stamp: tuple[int, ...]) -> tuple[Plan, str]:  # noqa: ARG001 (a key)
    """Plan of a document; `stamp` is there to plan again when its data changes."""
    return Document(text, path, opened).plan()


def _edited_rows() -> list[dict[str, Any]]:
    st.header("Sources")
    frame = pd.DataFrame(st.session_state.rows, columns=list(DTYPES)).astype(DTYPES)
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
    st.caption(
        "Level: the epsilon of a privacy, the rate of flipped labels, the variance of additive noise. "
        "Price: of one row, if you may buy more."
    )
    rows: list[dict[str, Any]] = edited.astype(object).where(edited.notna(), None).to_dict("records")
    return rows


def _column_config() -> dict[str, Any]:
    config = st.column_config
    told = [row["kind"] for row in st.session_state.rows if row["kind"] is not None]
    kinds = list(dict.fromkeys([*NOISES, *told]))
    return {
        "place": None,
        "name": config.TextColumn("name", width="small"),
        "rows": config.NumberColumn("rows", step=1, format="localized", width="small"),
        "kind": config.SelectboxColumn("kind", options=kinds, default="local-privacy", width="medium"),
        "level": config.TextColumn("level", help="epsilon, rate or variance", width="small"),
        "mechanism": config.SelectboxColumn(
            "mechanism", options=list(MECHANISMS), help="of local-privacy; quiet if empty", width="small"
        ),
        "price": config.NumberColumn("price", help="of one row", width="small"),
    }


def _edited_settings() -> dict[str, str]:
    with st.sidebar:
        st.header("Settings")
        typed = {key: st.text_input(LABELS[key], key=key, placeholder="automatic") for key in TYPED}
        chosen = {
            key: st.selectbox(LABELS[key], ["", *options], key=key, format_func=lambda name: name or "automatic")
            for key, options in CHOICES.items()
        }
        st.caption("Automatic settings are chosen as in uneven fit.")
        return typed | chosen


def _files(edited: Document, planned: Plan | None, note: str, whole: bool) -> None:
    with st.sidebar:
        st.header("File")
        st.file_uploader("Open a sources.toml", type="toml", key="upload", on_change=_take_upload)
        strange = bool(st.session_state.refusal) and edited.text == begin().text
        if st.session_state.refusal:
            _refuse(st.session_state.refusal)
            st.caption(EXAMPLE if strange else _literal(f"The page still has {edited.path}, as it was before."))
        try:
            check_sources_text(edited.text.encode(), edited.path)
        except ValueError:  # the page says why
            whole = False
        if whole:
            _remember(edited)
        saved = edited.text.encode() if whole and not strange else None
        _download("Save as sources.toml", saved, "sources.toml", "application/toml")
        if edited.kept:
            st.caption(_literal(f"Kept as they are: {', '.join(edited.kept)}; and comments."))
        report = (
            None if planned is None or strange else plan_report(planned, "uneven plan sources.toml", edited.text, note)
        )
        _download("Download the report", report, "plan.html", "text/html")


def _download(label: str, content: str | bytes | None, name: str, mime: str) -> None:
    """Button that saves a file; it cannot be pressed where there is nothing to save."""
    how: Any = {"file_name": name, "mime": mime, "on_click": "ignore", "width": "stretch"}
    st.download_button(label, content or "", disabled=content is None, **how)


def _show_worth(planned: Plan) -> None:
    """Whether each source is worth using: by verdicts where there are public rows, else by information."""
    st.header("Is each source worth using?")
    told = tell_worth(planned)
    _table([told.header, *told.cells], told.caption)
    st.caption(_literal(f"{told.caption}. {told.why}".strip()))


def _show_plan(planned: Plan, note: str) -> None:
    st.header("The plan")
    st.caption(_literal(f"{note[:1].upper()}{note[1:]}."))
    st.markdown("\n".join(f"- {_literal(line)}" for line in describe_use(planned)))
    _table(tabulate_sources(planned), "The sources in order of use")
    st.markdown("\n".join(f"- {_literal(line)}" for line in describe_guarantee(planned)))


def _show_pictures(planned: Plan, others: Mapping[str, Plan]) -> None:
    left, right = st.columns(2)
    bounds = ", ".join(f"{name} {format_bound(other.bound)}" for name, other in others.items())
    steps = pictures.draw_steps_figure(planned, _ground())
    with left:
        _picture(steps, f"Step sizes of {planned.strategy} over time, by source")
    if others:
        with right:
            _picture(pictures.draw_bounds_figure(planned, others, _ground()), f"Bound of every strategy: {bounds}")


def _show_strategies(planned: Plan, others: Mapping[str, Plan]) -> None:
    left, right = st.columns(2)
    with left:
        st.subheader("Every strategy")
        _table(tabulate_strategies(planned, others), "Bound of every strategy")
        st.caption(_literal(f"* this plan. {COMPARE}"))
    with right:
        st.subheader("Where to search for the rates c")
        _show_intervals(planned)


def _show_intervals(planned: Plan) -> None:
    try:
        found = table.find_intervals(planned)
    except ValueError as error:
        st.markdown(_literal(f"No interval: {error}."))
        return
    rows = [(name, format_number(low), format_number(high)) for name, (low, high) in found.items()]
    _table([("source", "from", "to"), *rows], "Interval of each rate")
    st.caption(
        "For steps c/t, as in the paper's Section 5: the rate of each source with lower and with upper moments. "
        "With two sources the second row is the interval of c₂."
    )


def _ask_what_if(edited: Document) -> None:
    st.header("What if I buy more rows?")
    typed = st.text_input("Rows to buy, of one source or another", key="more", value="10,000", width=NARROW)
    try:
        more = table.parse_count("rows to buy", typed)
        found = _value(edited.text, edited.path, edited.opened, edited.stamp, more)
    except ValueError as error:
        _refuse(str(error))
        return
    what, rows = tabulate_purchases(edited.file.sources, found, more)
    _table(rows, f"{what.capitalize()} with more rows of each source")
    with st.expander("What to know of these figures"):
        st.markdown("\n".join(f"- {_literal(caveat)}" for caveat in found.caveats))


@st.cache_resource(show_spinner=False, max_entries=20)
def _value(text: str, path: str, opened: bool, stamp: tuple[int, ...], more: int) -> Valuation:  # noqa: ARG001 (a key)
    """What more rows would change; `stamp` is there to value again when the data changes."""
    return Document(text, path, opened).value(more)


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
        _picture(pictures.draw_measured_figure(shown, done.plans, done.distance, _ground()), alt)
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
        measured = f"{format_number(mean)} ± {error:.2g}"
        area = "{:.3f} ± {:.3f}".format(*done.auc[name])
        rows.append((name, measured, format_bound(own.bound), f"{100 * share:.1f}% ± {100 * wobble:.1f}", area))
    return rows


_sample = st.cache_resource(show_spinner=False)(load_covertype_sample)


def _table(rows: Sequence[Sequence[str]], alt: str) -> None:
    """Rows of text, the first a header, as they are: names are not markup."""
    literal = [[_literal(cell) for cell in row] for row in rows[1:]]
    st.table(pd.DataFrame(literal, columns=list(rows[0])), hide_index=True, border="horizontal", alt=alt)


def _picture(figure: Figure, alt: str) -> None:
    """Picture as a part of the page: one that the browser had to ask for would be gone if it came too late."""
    st.html(f'<img src="{pictures.encode_figure(figure)}" alt="{escape(alt)}" style="max-width: 100%">')


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
