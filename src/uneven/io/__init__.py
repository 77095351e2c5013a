"""Files in and out.

tables         a file of rows, described, and its rows piece by piece or all at once
delimited      CSV and TSV
arrow          Parquet, Arrow and Feather
arrays         NumPy
libsvm         sparse rows
row_columns    columns in which rows have their own ε, flip rate or id
sources_file   ``sources.toml``: the sources, where their rows are, and the settings of a run
source_entry   one source of it
agreement      what the files of several sources must agree on
sources_text   its text, parsed and written
sources_edit   its text with a few values changed, and the rest as it is
files          outputs: whole or not at all, to regular files or new names; names of one file
proposal       a first ``sources.toml`` for files of rows
refusals       one-line errors about files
"""

from uneven.io.files import (
    Output,
    is_same_file,
    open_outputs,
    refuse_folder,
    resolve_target,
    write_text_atomically,
    written_atomically,
)
from uneven.io.proposal import Start, propose_sources
from uneven.io.refusals import list_names, located, shorten_error
from uneven.io.row_columns import read_ids, read_levels
from uneven.io.source_entry import SourceEntry
from uneven.io.sources_edit import Change, edit_sources
from uneven.io.sources_file import (
    SourcesFile,
    check_delimiter,
    check_sources_text,
    read_ranks,
    read_sources,
    sources_from_text,
)
from uneven.io.sources_text import format_columns, format_value, leave_out_comments, parse_content
from uneven.io.sources_writing import sources_to_text, write_sources
from uneven.io.tables import Table, open_table

__all__ = [
    "Change",
    "Output",
    "SourceEntry",
    "SourcesFile",
    "Start",
    "Table",
    "check_delimiter",
    "check_sources_text",
    "edit_sources",
    "format_columns",
    "format_value",
    "is_same_file",
    "leave_out_comments",
    "list_names",
    "located",
    "open_outputs",
    "open_table",
    "parse_content",
    "propose_sources",
    "read_ids",
    "read_levels",
    "read_ranks",
    "read_sources",
    "refuse_folder",
    "resolve_target",
    "shorten_error",
    "sources_from_text",
    "sources_to_text",
    "write_sources",
    "write_text_atomically",
    "written_atomically",
]
