"""Deals: the board and the list, the card with its forms, moves, and the lines of a deal."""

from crm.cabinet.deals import board, card, lines, moves

BLUEPRINTS = (board, card, lines, moves)
