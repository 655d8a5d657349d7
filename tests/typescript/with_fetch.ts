// openapi-typescript + openapi-fetch: `node with_fetch.js http://127.0.0.1:8000 crm_…`
import createClient from "openapi-fetch";
import type { components, paths } from "./crm";

declare const process: { argv: string[] };

type Lead = components["schemas"]["Lead"];
type ListedLead = components["schemas"]["ListedLead"];
type Event = components["schemas"]["Event"];

const [, , site = "", key = ""] = process.argv;
const crm = createClient<paths>({
  baseUrl: `${site}/api/v1`,
  headers: { Authorization: `Bearer ${key}` },
});

/** What an answer holds; throws the problem that came instead. */
function read<T>(answer: { data?: T; error?: { code: string; detail: string } }): T {
  if (answer.error) throw new Error(`${answer.error.code}: ${answer.error.detail}`);
  return answer.data as T;
}

function expect(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

// Bodies need what the service needs, and nothing that has a default.
const made = read(await crm.POST("/leads", { body: { name: "Марія", phone: "067 123 45 67" } }));
const client = read(await crm.POST("/clients", { body: { name: "ТОВ Ромашка" } }));
const deal = read(await crm.POST("/deals", { body: { client_id: client.client_id } }));
const path = { id: deal.deal_id };
await crm.POST("/deals/{id}/items", { params: { path }, body: { name: "Доставка", price: "350.50" } });
const product = { name: "Крісло", price: 1250.5 };
const sold = read(
  await crm.POST("/products", {
    params: { header: { Prefer: "return=representation" } },
    body: product,
  }),
);
expect(sold.data?.price === 1250.5 && sold.data.active, "Prefer gives the record");
const task = read(await crm.POST("/tasks", { body: { title: "Зателефонувати", type: "call" } }));
await crm.POST("/tasks/{id}/complete", { params: { path: { id: task.task_id } }, body: {} });
await crm.POST("/pipelines", { body: { name: "Опт", stages: [{ name: "Запит" }] } });
await crm.POST("/webhooks", { body: { url: "https://erp.example.com/crm" } });
const me = read(await crm.GET("/users/me"));
expect(me.role === "owner", "users/me");
const active = read(await crm.GET("/products", { params: { query: { active: true } } }));
expect(active.data[0]?.price === 1250.5, "booleans are understood");
const known = read(await crm.POST("/leads", { body: { name: "Ольга", email: "o@example.com" } }));
await crm.POST("/leads/{id}/convert", { params: { path: { id: known.lead_id } }, body: {} });
// @ts-expect-error: a lead needs a name
await crm.POST("/leads", { body: { phone: "067 123 45 67" } });
// @ts-expect-error: a deal has no such field
const misspelt: components["schemas"]["DealIn"] = { titel: "Крісла" };
expect("titel" in misspelt, "types are exact");

// A record of a list may be deleted, and has no name then.
const page = read(await crm.GET("/leads", { params: { query: { q: "марія", limit: 10 } } }));
const names: string[] = [];
for (const lead of page.data) {
  if (lead.name !== undefined) names.push(lead.name);
  // @ts-expect-error: a lead has no such field
  expect(lead.nmae === undefined, "types are exact");
}
expect(names.join() === "Марія", "the list has the lead");

const one: Lead = read(await crm.GET("/leads/{id}", { params: { path: { id: made.lead_id } } }));
expect(one.id === made.lead_id && one.phone === "+380671234567" && one.status === "new", "GET one");

const changed = read(
  await crm.PATCH("/leads/{id}", {
    params: { path: { id: made.lead_id } },
    body: { comment: "після 15:00" },
  }),
);
const comment: string | null = changed.comment;
expect(comment === "після 15:00", "PATCH gives the record");

await crm.DELETE("/leads/{id}", { params: { path: { id: made.lead_id } } });
const since = { ids: [made.lead_id], updated_since: one.updated_at, include_deleted: true };
const followed = read(await crm.GET("/leads", { params: { query: since } }));
const gone: ListedLead[] = followed.data.filter((lead) => lead.deleted_at !== undefined);
const live: ListedLead[] = followed.data.filter((lead) => lead.name !== undefined);
expect(gone.length === 1 && live.length === 0, "the deletion is told");

const refused = await crm.POST("/leads", { body: { name: "Марія" } });
expect(refused.error?.errors?.[0]?.code === "phone_or_email", "problems have their fields");

const stages = read(await crm.GET("/pipelines/{id}/stages", { params: { path: { id: "1" } } }));
await crm.PATCH("/deals/{id}", { params: { path }, body: { stage_id: stages.data[1]?.id } });
await crm.PATCH("/deals/{id}", { params: { path }, body: { status: "won" } });
const other = read(await crm.POST("/deals", { body: { title: "Столи" } }));
const lost = { status: "lost", lost_reason: "задорого" } as const;
await crm.PATCH("/deals/{id}", { params: { path: { id: other.deal_id } }, body: lost });
const changes = { params: { path: { id: sold.product_id } }, body: { price: 990 } };
await crm.PATCH("/products/{id}", changes);
const clientChanges = { params: { path: { id: client.client_id } }, body: { comment: "опт" } };
await crm.PATCH("/clients/{id}", clientChanges);
const answer = await crm.POST("/products/import", {
  body: { file: "sku,name,price\nA,Стіл,5\n" },
  bodySerializer({ file }) {
    const form = new FormData();
    form.append("file", new Blob([file]), "prices.csv");
    return form;
  },
});
const imported = read(answer);
expect(imported.status === "ok" && imported.created === 1, "the file is imported");

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
const feed = read(await crm.GET("/events", { params: { query: { after: 0, limit: 200 } } }));
expect(new Set(feed.data.map((event) => event.type)).size === 14, "the feed has all kinds");
expect(feed.data.every((event) => subjectOf(event) !== ""), "each event has its record");
const won = feed.data.filter((event) => event.type === "deal.won");
expect(won.map(subjectOf).join() === deal.deal_id, "the feed has the deal that is won");
console.log("openapi-fetch: a round of operations, and events of 14 kinds");
