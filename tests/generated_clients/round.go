// openapi-generator, go: a round of operations and all kinds of events; .ci/generators runs it.
// Called with the address of the site and a key.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	crm "crm/client"
)

const price = 1234567.89

func pointer[T any](value T) *T { return &value }

func check(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

// What an answer holds; the response beside it is of use to nobody here.
func read[T any](answer T, _ *http.Response, err error) T {
	if problem, is := err.(*crm.GenericOpenAPIError); is {
		panic(fmt.Sprint(err, string(problem.Body())))
	} else if err != nil {
		panic(err)
	}
	return answer
}

func text(value string) *crm.NullableString { return crm.NewNullableString(&value) }

func id(value string) crm.NullableLeadInAssignedTo {
	return *crm.NewNullableLeadInAssignedTo(&crm.LeadInAssignedTo{String: &value})
}

func main() {
	site, key := os.Args[1], os.Args[2]
	configuration := crm.NewConfiguration()
	configuration.Servers = crm.ServerConfigurations{{URL: site + "/api/v1"}}
	api := crm.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), crm.ContextAccessToken, key)
	leads, clients, deals := api.LeadsAPI, api.ClientsAPI, api.DealsAPI
	products, tasks, webhooks := api.ProductsAPI, api.TasksAPI, api.WebhooksAPI

	check(read(api.UsersAPI.GetCurrentUser(ctx).Execute()).Role == "owner", "users/me")

	body := crm.LeadIn{Name: "Марія", Phone: *text("067 123 45 67")}
	lead := read(leads.CreateLead(ctx).LeadIn(body).Execute()).LeadId
	check(read(leads.GetLead(ctx, lead).Execute()).Name == "Марія", "GET one")
	patch := crm.LeadPatch{Comment: *text("після 15:00"), Source: *text("api")}
	changed := read(leads.ChangeLead(ctx, lead).LeadPatch(patch).Execute())
	check(changed.Name == "Марія" && changed.GetComment() == "після 15:00", "PATCH")
	page := read(leads.ListLeads(ctx).Ids([]string{lead}).HasSource(true).Execute())
	check(page.Data[0].GetName() == "Марія", "the list has the lead")

	client := read(clients.CreateClient(ctx).ClientIn(crm.ClientIn{Name: "ТОВ Ромашка"}).Execute()).ClientId
	website := crm.ClientPatch{Website: *text("https://example.com")}
	read(clients.ChangeClient(ctx, client).ClientPatch(website).Execute())

	sku := "GO-" + lead
	chair := crm.ProductIn{Name: "Крісло", Sku: *text(sku)}
	chair.Price = crm.ProductInPrice{Float64: pointer(price)}
	create := products.CreateProduct(ctx).ProductIn(chair).Prefer("return=representation")
	sold := read(create.Execute())
	check(sold.Data.Price == price, "Prefer gives the record")
	unit := crm.ProductPatch{Unit: *text("шт")}
	read(products.ChangeProduct(ctx, sold.ProductId).ProductPatch(unit).Execute())
	listed := read(products.ListProducts(ctx).Active(true).Sku([]string{sku}).Execute()).Data
	check(len(listed) == 1 && listed[0].GetPrice() == price, "the price is exact")
	name := filepath.Join(os.TempDir(), sku+".csv")
	os.WriteFile(name, []byte("sku,name,price\n"+sku+",Крісло,10\n"), 0o600)
	defer os.Remove(name)
	file, _ := os.Open(name)
	imported := read(products.ImportProducts(ctx).File(file).Execute())
	check(imported.Updated == 1, "import")

	deal := read(deals.CreateDeal(ctx).DealIn(crm.DealIn{ClientId: id(client)}).Execute()).DealId
	line := crm.DealItemIn{Name: pointer("Доставка")}
	line.Price = &crm.DealItemInPrice{Float64: pointer(350.5)}
	line.Quantity = &crm.DealItemInQuantity{Float64: pointer(2.0)}
	one := crm.DealItemInAsCreateDealItemRequest(&line)
	item := read(deals.CreateDealItem(ctx, deal).CreateDealItemRequest(one).Execute()).ItemId
	discount := crm.DealItemPatch{Discount: &crm.DealItemPatchDiscount{Float64: pointer(10.0)}}
	read(deals.ChangeDealItem(ctx, deal, *item).DealItemPatch(discount).Execute())
	check(read(deals.ListDealItems(ctx, deal).Execute()).Data[0].Total == 630.9, "items")
	stage := read(api.PipelinesAPI.ListPipelines(ctx).Execute()).Data[0].Stages[1].Id
	move := crm.DealPatch{StageId: &crm.ConversionStageId{String: &stage}}
	read(deals.ChangeDeal(ctx, deal).DealPatch(move).Execute())
	won := crm.DealPatch{Status: pointer("won")}
	check(read(deals.ChangeDeal(ctx, deal).DealPatch(won).Execute()).Status == "won", "won")
	lost := read(deals.CreateDeal(ctx).DealIn(crm.DealIn{Title: *text("Столи")}).Execute()).DealId
	read(deals.ChangeDeal(ctx, lost).DealPatch(crm.DealPatch{Status: pointer("lost")}).Execute())

	call := crm.TaskIn{Title: "Зателефонувати", DealId: id(deal)}
	task := read(tasks.CreateTask(ctx).TaskIn(call).Execute()).TaskId
	result := crm.Completion{Result: *text("Так")}
	check(read(tasks.CompleteTask(ctx, task).Completion(result).Execute()).Status == "done", "complete")
	check(read(tasks.ListTasks(ctx).DealId([]string{deal}).Execute()).Data[0].Id == task, "tasks")

	converted := read(leads.ConvertLead(ctx, lead).Conversion(crm.Conversion{}).Execute())
	check(converted.DealId != "", "convert")
	body = crm.LeadIn{Name: "Тарас", Email: *text("t@example.com")}
	gone := read(leads.CreateLead(ctx).LeadIn(body).Execute()).LeadId
	leads.DeleteLead(ctx, gone).Execute()
	since := leads.ListLeads(ctx).Ids([]string{gone}).UpdatedSince(changed.UpdatedAt)
	deleted := read(since.IncludeDeleted(true).Execute()).Data[0]
	check(deleted.DeletedAt != nil && deleted.Name == nil, "deletions")
	erp := crm.WebhookIn{Url: "https://erp.example.com/crm"}
	hook := read(webhooks.CreateWebhook(ctx).WebhookIn(erp).Execute()).WebhookId
	hooks := read(webhooks.ListWebhooks(ctx).Execute()).Data
	check(hooks[0].Id == hook, "webhooks")
	_, _, err := leads.CreateLead(ctx).LeadIn(crm.LeadIn{Name: "Марія"}).Execute()
	problem := err.(*crm.GenericOpenAPIError).Model().(crm.Problem)
	check(problem.Code == "validation_failed", "problems have their code")

	feed := read(api.EventsAPI.ListEvents(ctx).After(0).Limit(200).Execute()).Data
	kinds := map[string]bool{}
	isWon := false
	for _, event := range feed {
		kinds[fmt.Sprintf("%T", event.GetActualInstance())] = true
		isWon = isWon || event.DealWonEvent != nil && event.DealWonEvent.Data.Deal.Id == deal
	}
	check(len(kinds) == 14, fmt.Sprint(kinds))
	check(isWon, "the feed has the deal that is won")
	fmt.Println("go: a round, and events of 14 kinds")
}
