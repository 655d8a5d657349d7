"""Deals: the board and the list, the card with its forms, and the lines a deal is made of."""

from crm.cabinet.deals import board, card, lines

ROOMS = (board, card, lines)
