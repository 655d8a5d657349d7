"""Deals: the board and the list with the moves, and the card with its forms and its items."""

from crm.cabinet.deals import board, card

BLUEPRINTS = (board, card)
