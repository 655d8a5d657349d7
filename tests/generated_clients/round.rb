# openapi-generator, ruby: a round of operations and all kinds of events; .ci/generators runs it.
# Called with the address of the site and a key.
require 'openapi_client'
require 'tempfile'

PRICE = 1234567.89
site, key = ARGV

def check(holds, what)
  raise what unless holds
end

crm = OpenapiClient
crm.configure do |config|
  config.host = site.delete_prefix('http://')
  config.base_path = '/api/v1'
  config.ignore_operation_servers = true
  config.access_token = key
end
leads = crm::LeadsApi.new
clients = crm::ClientsApi.new
deals = crm::DealsApi.new
products = crm::ProductsApi.new
tasks = crm::TasksApi.new
webhooks = crm::WebhooksApi.new

check(crm::UsersApi.new.get_current_user.role == 'owner', 'users/me')

lead = leads.create_lead(crm::LeadIn.new(name: 'Марія', phone: '067 123 45 67')).lead_id
check(leads.get_lead(lead).name == 'Марія', 'GET one')
patch = crm::LeadPatch.new(comment: 'після 15:00', source: 'api')
changed = leads.change_lead(lead, patch)
check(changed.name == 'Марія' && changed.comment == 'після 15:00', 'PATCH')
page = leads.list_leads(ids: [lead], has_source: true)
check(page.data[0].name == 'Марія', 'the list has the lead')

client = clients.create_client(crm::ClientIn.new(name: 'ТОВ Ромашка')).client_id
clients.change_client(client, crm::ClientPatch.new(website: 'https://example.com'))

sku = "RB-#{lead}"
chair = crm::ProductIn.new(name: 'Крісло', price: PRICE, sku: sku)
sold = products.create_product(chair, prefer: 'return=representation')
check(sold.data.price == PRICE, 'Prefer gives the record')
products.change_product(sold.product_id, crm::ProductPatch.new(unit: 'шт'))
listed = products.list_products(active: true, sku: [sku]).data
check(listed.map(&:price) == [PRICE], 'the price is exact')
Tempfile.create(['prices', '.csv']) do |file|
  file.write("sku,name,price\n#{sku},Крісло,10\n")
  file.rewind
  check(products.import_products(file).updated == 1, 'import')
end

deal = deals.create_deal(crm::DealIn.new(client_id: client)).deal_id
line = crm::DealItemIn.new(name: 'Доставка', price: 350.5, quantity: 2)
item = deals.create_deal_item(deal, line).item_id
deals.change_deal_item(deal, item, crm::DealItemPatch.new(discount: 10))
check(deals.list_deal_items(deal).data[0].total == 630.9, 'items')
stage = crm::PipelinesApi.new.list_pipelines.data[0].stages[1].id
deals.change_deal(deal, crm::DealPatch.new(stage_id: stage))
check(deals.change_deal(deal, crm::DealPatch.new(status: 'won')).status == 'won', 'won')
lost = deals.create_deal(crm::DealIn.new(title: 'Столи')).deal_id
deals.change_deal(lost, crm::DealPatch.new(status: 'lost'))

task = tasks.create_task(crm::TaskIn.new(title: 'Зателефонувати', deal_id: deal)).task_id
done = tasks.complete_task(task, crm::Completion.new(result: 'Так'))
check(done.status == 'done', 'complete')
check(tasks.list_tasks(deal_id: [deal]).data[0].id == task, 'tasks')

check(leads.convert_lead(lead, crm::Conversion.new).deal_id, 'convert')
gone = leads.create_lead(crm::LeadIn.new(name: 'Тарас', email: 't@example.com')).lead_id
leads.delete_lead(gone)
# This generator sends a Time as text of another form.
since = { ids: [gone], updated_since: changed.updated_at.iso8601, include_deleted: true }
deleted = leads.list_leads(since).data[0]
check(deleted.deleted_at && deleted.name.nil?, 'deletions')
hook = webhooks.create_webhook(crm::WebhookIn.new(url: 'https://erp.example.com/crm')).webhook_id
check(webhooks.list_webhooks.data.map(&:id).include?(hook), 'webhooks')
begin
  leads.create_lead(crm::LeadIn.new(name: 'Марія'))
  check(false, 'not refused')
rescue crm::ApiError => error
  check(JSON.parse(error.response_body)['code'] == 'validation_failed', 'problems have their code')
end

feed = crm::EventsApi.new.list_events(after: 0, limit: 200).data
check(feed.map(&:class).uniq.size == 14, feed.map(&:class).uniq.to_s)
won = feed.grep(crm::DealWonEvent).map { |event| event.data.deal.id }
check(won.include?(deal), 'the feed has the deal that is won')
puts 'ruby: a round, and events of 14 kinds'
