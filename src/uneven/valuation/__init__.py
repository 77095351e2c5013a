"""What data is worth: exchange rates, the next thousand rows, what to buy, and what that promises.

valuing   `value` and what it returns
text      a valuation in words
picture   a valuation in pictures
answer    what a valuation is made of
buying    the most precision for money, in whole rows
offers    rows that can be had: what one costs, and the precision it carries

A source without a price is owned: its rows are there, free, and not for sale. A source with a price is on offer: none
of its rows are owned, and `rows` is how many can be bought.
"""

from uneven.valuation.answer import Purchase, Worth
from uneven.valuation.valuing import Valuation, value

__all__ = ["Purchase", "Valuation", "Worth", "value"]
