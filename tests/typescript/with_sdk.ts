// @hey-api/openapi-ts: `node with_sdk.js http://127.0.0.1:8000 crm_…`
import { client } from "./sdk/client.gen";
import * as crm from "./sdk";
import type { Event, Lead, ListedLead } from "./sdk";

declare const process: { argv: string[] };

const [, , site = "", key = ""] = process.argv;
client.setConfig({ baseUrl: `${site}/api/v1`, auth: () => key });

function expect(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

const throwOnError = true as const;
const phone = "067 765 43 21";
const made = await crm.createLead({ body: { name: "Тарас", phone }, throwOnError });
const path = { id: made.data.lead_id };

const deal = await crm.createDeal({ body: { title: "Крісла", amount: "12500.50" }, throwOnError });
await crm.createDealItem({
  path: { id: deal.data.deal_id },
  body: { items: [{ name: "Доставка", price: 350.5 }] },
  throwOnError,
});
await crm.createTask({ body: { title: "Зателефонувати" }, throwOnError });
// @ts-expect-error: a product needs a price
await crm.createProduct({ body: { name: "Крісло" } });

const page = await crm.listLeads({ query: { status: ["new"] }, throwOnError });
const leads: ListedLead[] = page.data.data;
expect(leads[0]?.name === "Тарас" && leads.length === 1, "the list has the lead");

const one = await crm.getLead({ path, throwOnError });
expect(one.data.phone === "+380677654321", "GET one");

const changed: { data: Lead } = await crm.changeLead({ path, body: { status: "qualified" }, throwOnError });
expect(changed.data.status === "qualified", "PATCH");

// `type` tells what an event's `data` has; a kind that is left out here does not compile.
function subjectOf(event: Event): string {
  switch (event.type) {
    case "lead.created":
    case "lead.converted":
      return event.data.lead.id;
    case "deal.created":
    case "deal.stage_changed":
    case "deal.won":
    case "deal.lost":
    case "deal.items_changed":
      return event.data.deal.id;
    case "product.created":
    case "product.updated":
      return event.data.product.id;
    case "product.imported":
      return event.data.import.id;
    case "client.created":
    case "client.updated":
      return event.data.client.id;
    case "task.created":
    case "task.completed":
      return event.data.task.id;
    default:
      return event satisfies never;
  }
}
const won = { path: { id: deal.data.deal_id }, body: { status: "won" } } as const;
await crm.changeDeal({ ...won, throwOnError });
const feed = await crm.listEvents({ query: { after: 0, limit: 200 }, throwOnError });
const events = feed.data.data;
expect(new Set(events.map((event) => event.type)).size === 14, "the feed has all kinds");
expect(events.map(subjectOf).includes(deal.data.deal_id), "the feed has the deal");

const refused = await crm.createLead({ body: { name: "Тарас" } });
expect(refused.error?.errors?.[0]?.code === "phone_or_email", "problems have their fields");
console.log("@hey-api: a round of operations, and events of 14 kinds");
