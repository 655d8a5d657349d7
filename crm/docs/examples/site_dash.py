"""The CRM in a Dash application, which charts the CRM's deals: both are in one Flask site."""

from dash import Dash, Input, Output, dcc, html
from flask import Flask

from crm import CRM

server = Flask(__name__)


def staff():
    """Replace this by who is logged in at your site, or None."""
    return {"name": "Олена", "email": "olena@shop.example.ua", "role": "owner"}


crm = CRM(server, url_prefix="/crm", tenant="acme", current_user=staff)
dash = Dash(__name__, server=server)
dash.layout = html.Div(
    [html.A("CRM", href="/crm/"), dcc.Graph(id="deals"), dcc.Interval(id="minute", interval=60_000)]
)


@dash.callback(Output("deals", "figure"), Input("minute", "n_intervals"))
def draw_deals(_):
    """A bar for each open deal. A chart that everybody sees shows everybody the deals."""
    with crm.tenant():
        deals = crm.deals.list(status="open", limit=20).records
    amounts = [float(deal["amount"] or 0) for deal in deals]  # Dash knows no Decimal
    return {"data": [{"type": "bar", "x": [deal["title"] for deal in deals], "y": amounts}]}
