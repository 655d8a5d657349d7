// orval with its fetch client: type-checked by .ci/clients.
import { createLead, listEvents } from "./orval/crm";
import type { Event, Lead } from "./orval/crm";

/** What happened, as a receiver of webhooks or a reader of the feed sees it. */
function describe(event: Event): string {
  switch (event.type) {
    case "deal.won":
      return event.data.deal.id;
    case "lead.converted":
      return event.data.deal?.id ?? "a deal that the key may not read";
    case "product.imported":
      return `${event.data.import.created} products`;
    default:
      // @ts-expect-error: the kinds that are left have no lead in common
      return event.data.lead.id;
  }
}

// @ts-expect-error: a lead needs a name
await createLead({ phone: "067 123 45 67" });
const made = await createLead({ name: "Марія", phone: "067 123 45 67" });
const lead: Lead | undefined = made.status === 201 ? made.data.data : undefined;
const feed = await listEvents({ after: 0, type: ["deal.won"] });
if (feed.status === 200) console.log(lead?.name, feed.data.data.map(describe));
