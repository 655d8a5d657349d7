// openapi-generator, java with the library native: a round of operations and all kinds of events;
// .ci/generators runs it. Called with the address of the site and a key.

import java.math.BigDecimal;
import java.nio.file.Files;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.*;
import org.openapitools.client.model.*;

public class Round {
    static final BigDecimal PRICE = new BigDecimal("1234567.89");

    static void check(boolean holds, String what) {
        if (!holds) throw new IllegalStateException(what);
    }

    static LeadInAssignedTo id(String text) {
        return new LeadInAssignedTo(text);
    }

    public static void main(String[] arguments) throws Exception {
        ApiClient crm = new ApiClient();
        crm.updateBaseUri(arguments[0] + "/api/v1");
        String authorization = "Bearer " + arguments[1];
        crm.setRequestInterceptor(request -> request.header("Authorization", authorization));
        LeadsApi leads = new LeadsApi(crm);
        ClientsApi clients = new ClientsApi(crm);
        DealsApi deals = new DealsApi(crm);
        ProductsApi products = new ProductsApi(crm);
        TasksApi tasks = new TasksApi(crm);
        WebhooksApi webhooks = new WebhooksApi(crm);

        Me me = new UsersApi(crm).getCurrentUser();
        check(me.getRole() == Me.RoleEnum.OWNER, "users/me");

        LeadIn body = new LeadIn().name("Марія").phone("067 123 45 67");
        String lead = leads.createLead(body, null, null).getLeadId();
        check(leads.getLead(lead, null, null).getName().equals("Марія"), "GET one");
        LeadPatch patch = new LeadPatch().comment("після 15:00").source("api");
        Lead changed = leads.changeLead(lead, patch, null);
        check(changed.getName().equals("Марія"), "PATCH");
        check(changed.getComment().equals("після 15:00"), "PATCH");
        LeadPage page = leads.listLeads(null, null, null, List.of(lead), null, null, null, null,
            null, null, null, null, null, null, null, null, null, true, null, null, null);
        check(page.getData().get(0).getName().equals("Марія"), "the list has the lead");

        ClientIn company = new ClientIn().name("ТОВ Ромашка");
        String client = clients.createClient(company, null, null).getClientId();
        clients.changeClient(client, new ClientPatch().website("https://example.com"), null);

        String sku = "JAVA-" + lead;
        ProductIn chair = new ProductIn().name("Крісло").sku(sku).price(new ProductInPrice(PRICE));
        ProductCreated sold = products.createProduct(chair, null, "return=representation");
        check(sold.getData().getPrice().equals(PRICE), "Prefer gives the record");
        products.changeProduct(sold.getProductId(), new ProductPatch().unit("шт"), null);
        List<ListedProduct> listed = products.listProducts(null, null, null, null, null, null, null,
            null, null, List.of(sku), null, true, null, null).getData();
        check(listed.get(0).getPrice().equals(PRICE), "the price is exact");
        var file = Files.createTempFile("prices", ".csv");
        Files.writeString(file, "sku,name,price\n" + sku + ",Крісло,10\n");
        Imported imported = products.importProducts(file.toFile(), null, null, null, null, null,
            null, null, null, null, null, null, null, null, null, null, null, null, null, null,
            null, null, null, null, null, null);
        Files.delete(file);
        check(imported.getUpdated() == 1, "import");

        DealIn chairs = new DealIn().clientId(id(client));
        String deal = deals.createDeal(chairs, null, null).getDealId();
        DealItemIn line = new DealItemIn().name("Доставка")
            .price(new DealItemInPrice(new BigDecimal("350.5")))
            .quantity(new DealItemInQuantity(BigDecimal.valueOf(2)));
        CreateDealItemRequest one = new CreateDealItemRequest(line);
        String item = deals.createDealItem(deal, one, null, null).getItemId();
        DealItemPatch discount = new DealItemPatch()
            .discount(new DealItemPatchDiscount(BigDecimal.TEN));
        deals.changeDealItem(deal, item, discount, null);
        BigDecimal total = deals.listDealItems(deal, null, null, null, null).getData().get(0)
            .getTotal();
        check(total.equals(new BigDecimal("630.9")), "items");
        String stage = new PipelinesApi(crm).listPipelines(null, null, null, null).getData().get(0)
            .getStages().get(1).getId();
        deals.changeDeal(deal, new DealPatch().stageId(new ConversionStageId(stage)), null);
        DealPatch won = new DealPatch().status(DealPatch.StatusEnum.WON);
        check(deals.changeDeal(deal, won, null).getStatus() == Deal.StatusEnum.WON, "won");
        String lost = deals.createDeal(new DealIn().title("Столи"), null, null).getDealId();
        deals.changeDeal(lost, new DealPatch().status(DealPatch.StatusEnum.LOST), null);

        TaskIn call = new TaskIn().title("Зателефонувати").dealId(id(deal));
        String task = tasks.createTask(call, null, null).getTaskId();
        Task done = tasks.completeTask(task, new Completion().result("Так"), null);
        check(done.getStatus() == Task.StatusEnum.DONE, "complete");
        TaskPage waiting = tasks.listTasks(null, null, null, null, null, null, null, null, null,
            null, null, null, null, null, List.of(deal), null, null, null, null, null, null);
        check(waiting.getData().get(0).getId().equals(task), "tasks");

        check(leads.convertLead(lead, new Conversion(), null).getDealId() != null, "convert");
        body = new LeadIn().name("Тарас").email("t@example.com");
        String gone = leads.createLead(body, null, null).getLeadId();
        leads.deleteLead(gone, null);
        ListedLead deleted = leads.listLeads(null, null, null, List.of(gone), null, null, null,
            changed.getUpdatedAt(), true, null, null, null, null, null, null, null, null, null,
            null, null, null).getData().get(0);
        check(deleted.getDeletedAt() != null && deleted.getName() == null, "deletions");
        WebhookIn erp = new WebhookIn().url("https://erp.example.com/crm");
        String hook = webhooks.createWebhook(erp, null, null).getWebhookId();
        List<Webhook> hooks = webhooks.listWebhooks(null, null, null, null).getData();
        check(hooks.get(0).getId().equals(hook), "webhooks");
        try {
            leads.createLead(new LeadIn().name("Марія"), null, null);
            check(false, "not refused");
        } catch (ApiException error) {
            check(error.getResponseBody().contains("validation_failed"), "problems have a code");
        }

        Set<Class<?>> kinds = new HashSet<>();
        boolean isWon = false;
        for (Event event : new EventsApi(crm).listEvents(0, 200, null).getData()) {
            Object instance = event.getActualInstance();
            kinds.add(instance.getClass());
            isWon |= instance instanceof DealWonEvent
                && ((DealWonEvent) instance).getData().getDeal().getId().equals(deal);
        }
        check(kinds.size() == 14, kinds.toString());
        check(isWon, "the feed has the deal that is won");
        System.out.println("java: a round, and events of 14 kinds");
    }
}
