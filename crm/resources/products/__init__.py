"""Products: the record and its rules, the price list as CSV, and the endpoints."""

from crm.resources.products.record import Product, create, delete, restore, update
