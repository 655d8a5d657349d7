"""openapi-python-client: a round of operations and all kinds of events; .ci/generators runs it.

Called with the address of the site and a key.
"""

import io
import sys
from typing import Any, TypeVar

from crm_client import AuthenticatedClient
from crm_client.api.clients import change_client, create_client
from crm_client.api.deals import (
    change_deal,
    change_deal_item,
    create_deal,
    create_deal_item,
    list_deal_items,
)
from crm_client.api.events import list_events
from crm_client.api.leads import (
    change_lead,
    convert_lead,
    create_lead,
    delete_lead,
    get_lead,
    list_leads,
)
from crm_client.api.pipelines import list_pipelines
from crm_client.api.products import (
    change_product,
    create_product,
    import_products,
    list_products,
)
from crm_client.api.tasks import complete_task, create_task, list_tasks
from crm_client.api.users import get_current_user
from crm_client.api.webhooks import create_webhook, list_webhooks
from crm_client.models import (
    ClientCreated,
    ClientIn,
    ClientPatch,
    Completion,
    Conversion,
    Converted,
    DealCreated,
    DealIn,
    DealItemIn,
    DealItemPage,
    DealItemPatch,
    DealPatch,
    DealPatchStatus,
    DealWonEvent,
    EventFeed,
    Imported,
    ImportProductsBody,
    ItemCreated,
    Lead,
    LeadCreated,
    LeadIn,
    LeadPage,
    LeadPatch,
    Me,
    PipelinePage,
    Problem,
    ProductCreated,
    ProductIn,
    ProductPage,
    ProductPatch,
    Task,
    TaskCreated,
    TaskIn,
    TaskPage,
    WebhookCreated,
    WebhookIn,
    WebhookPage,
)
from crm_client.types import UNSET, File

PRICE = 1234567.89
T = TypeVar("T")


def check(answer: object, kind: type[T]) -> T:
    if not isinstance(answer, kind):
        raise SystemExit(f"not {kind.__name__}: {answer}")
    return answer


def main(site: str, key: str) -> None:
    crm = AuthenticatedClient(base_url=f"{site}/api/v1", token=key)
    assert check(get_current_user.sync(client=crm), Me).role == "owner"

    body = LeadIn(name="Марія", phone="067 123 45 67")
    lead = check(create_lead.sync(client=crm, body=body), LeadCreated).lead_id
    name: str = check(get_lead.sync(lead, client=crm), Lead).name
    patch = LeadPatch(comment="після 15:00", source="api")
    changed = check(change_lead.sync(lead, client=crm, body=patch), Lead)
    assert (changed.name, changed.comment) == (name, "після 15:00")
    leads = check(list_leads.sync(client=crm, ids=[lead], has_source=True), LeadPage)
    assert [row.name for row in leads.data] == [name]

    made = check(create_client.sync(client=crm, body=ClientIn(name="ТОВ Ромашка")), ClientCreated)
    client = made.client_id
    change_client.sync(client, client=crm, body=ClientPatch(website="https://romashka.example.com"))

    sku = f"PY-{lead}"
    chair = ProductIn(name="Крісло", price=PRICE, sku=sku)
    sold = create_product.sync(client=crm, body=chair, prefer="return=representation")
    product = check(sold, ProductCreated)
    assert product.data and product.data.price == PRICE
    change_product.sync(product.product_id, client=crm, body=ProductPatch(unit="шт"))
    page = check(list_products.sync(client=crm, active=True, sku=[sku]), ProductPage)
    assert [row.price for row in page.data] == [PRICE]
    file = File(
        payload=io.BytesIO(f"sku,name,price\n{sku},Крісло,10\n".encode()), file_name="a.csv"
    )
    imported = check(import_products.sync(client=crm, body=ImportProductsBody(file=file)), Imported)
    assert (imported.created, imported.updated) == (0, 1)

    deal = check(create_deal.sync(client=crm, body=DealIn(client_id=client)), DealCreated).deal_id
    line = DealItemIn(name="Доставка", price=350.5, quantity=2)
    item = check(create_deal_item.sync(deal, client=crm, body=line), ItemCreated).item_id
    assert isinstance(item, str)
    change_deal_item.sync(deal, item, client=crm, body=DealItemPatch(discount=10))
    items = check(list_deal_items.sync(deal, client=crm), DealItemPage)
    assert [row.total for row in items.data] == [630.9]
    pipelines = check(list_pipelines.sync(client=crm), PipelinePage).data
    stage = pipelines[0].stages[1].id
    change_deal.sync(deal, client=crm, body=DealPatch(stage_id=stage))
    change_deal.sync(deal, client=crm, body=DealPatch(status=DealPatchStatus.WON))
    lost = check(create_deal.sync(client=crm, body=DealIn(title="Столи")), DealCreated).deal_id
    change_deal.sync(lost, client=crm, body=DealPatch(status=DealPatchStatus.LOST))

    call = TaskIn(title="Зателефонувати", deal_id=deal)
    task = check(create_task.sync(client=crm, body=call), TaskCreated).task_id
    done = check(complete_task.sync(task, client=crm, body=Completion(result="Так")), Task)
    assert done.status == "done" and not done.is_overdue
    tasks = check(list_tasks.sync(client=crm, deal_id=[deal]), TaskPage)
    assert [row.id for row in tasks.data] == [task]

    converted = check(convert_lead.sync(lead, client=crm, body=Conversion()), Converted)
    assert converted.deal_id
    body = LeadIn(name="Тарас", email="taras@example.com")
    gone = check(create_lead.sync(client=crm, body=body), LeadCreated).lead_id
    moment = changed.updated_at
    delete_lead.sync_detailed(gone, client=crm)
    deletions = list_leads.sync(client=crm, ids=[gone], updated_since=moment, include_deleted=True)
    (deleted,) = check(deletions, LeadPage).data
    assert deleted.deleted_at and deleted.name is UNSET
    erp = WebhookIn(url="https://erp.example.com/crm")
    hook = check(create_webhook.sync(client=crm, body=erp), WebhookCreated).webhook_id
    hooks = check(list_webhooks.sync(client=crm), WebhookPage)
    assert hook in [row.id for row in hooks.data]
    refused = check(create_lead.sync(client=crm, body=LeadIn(name="Марія")), Problem)
    assert refused.code == "validation_failed"

    feed = check(list_events.sync(client=crm, after=0, limit=200), EventFeed)
    kinds: set[Any] = {event.type_ for event in feed.data}
    assert len(kinds) == 14, kinds
    won = [event.data.deal.id for event in feed.data if isinstance(event, DealWonEvent)]
    assert deal in won
    print("openapi-python-client: a round, and events of 14 kinds")


main(*sys.argv[1:])
