"""Papers of deals: offers, invoices, acts and delivery notes."""
