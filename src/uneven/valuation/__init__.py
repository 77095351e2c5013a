"""What data is worth: exchange rates, the next thousand rows, what to buy, and the bound that it gives.

files       the door for files: `value_file`
valuing     `Valuation`, `value_sources` and its wrapper with keywords, `value`
text        a valuation in words
picture     a valuation in charts
market      the bound that money buys, and what more rows of each source are worth
buying      the most precision for money, in whole rows
currencies  a bound, or the expected excess where rows without privacy are at hand
offers      rows for sale or owned: what one costs, and the precision it carries
worths      what a row of a source is worth, and rows to buy

A source without a price is owned: its rows are free and not for sale. A source with a price is for sale: none of its
rows are owned, and `rows` is how many can be bought.
"""

from typing import TYPE_CHECKING

from uneven.fronts import open_lazily

if TYPE_CHECKING:
    from uneven.valuation.files import value_file
    from uneven.valuation.valuing import Valuation, value, value_sources
    from uneven.valuation.worths import Purchase, Worth
else:
    __getattr__, __dir__, __all__ = open_lazily(__name__)
