<?php
// openapi-generator, php: a round of operations and all kinds of events; .ci/generators runs it.
// Called with the address of the site and a key.
declare(strict_types=1);

use OpenAPI\Client\Api;
use OpenAPI\Client\ApiException;
use OpenAPI\Client\Configuration;
use OpenAPI\Client\Model;

const PRICE = 1234567.89;
[, $lib, $site, $key] = $argv;
foreach (['GuzzleHttp', 'GuzzleHttp/Psr7', 'GuzzleHttp/Promise'] as $name) {
    require_once "$name/autoload.php";
}
spl_autoload_register(function (string $class) use ($lib): void {
    $path = $lib . '/' . strtr(str_replace('OpenAPI\\Client\\', '', $class), '\\', '/') . '.php';
    if (str_starts_with($class, 'OpenAPI\\Client\\')) {
        require $path;
    }
});

function check(bool $holds, string $what): void
{
    if (!$holds) {
        throw new RuntimeException($what);
    }
}

$config = Configuration::getDefaultConfiguration()->setHost("$site/api/v1")->setAccessToken($key);
$http = new GuzzleHttp\Client();
$leads = new Api\LeadsApi($http, $config);
$clients = new Api\ClientsApi($http, $config);
$deals = new Api\DealsApi($http, $config);
$products = new Api\ProductsApi($http, $config);
$tasks = new Api\TasksApi($http, $config);
$webhooks = new Api\WebhooksApi($http, $config);

$me = (new Api\UsersApi($http, $config))->getCurrentUser();
check($me->getRole() === 'owner', 'users/me');

$body = new Model\LeadIn(['name' => 'Марія', 'phone' => '067 123 45 67']);
$lead = $leads->createLead($body)->getLeadId();
check($leads->getLead($lead)->getName() === 'Марія', 'GET one');
$patch = new Model\LeadPatch(['comment' => 'після 15:00', 'source' => 'api']);
$changed = $leads->changeLead($lead, $patch);
check($changed->getName() === 'Марія' && $changed->getComment() === 'після 15:00', 'PATCH');
$page = $leads->listLeads(ids: [$lead], has_source: true);
check($page->getData()[0]->getName() === 'Марія', 'the list has the lead');

$client = $clients->createClient(new Model\ClientIn(['name' => 'ТОВ Ромашка']))->getClientId();
$clients->changeClient($client, new Model\ClientPatch(['website' => 'https://example.com']));

$sku = "PHP-$lead";
$chair = new Model\ProductIn(['name' => 'Крісло', 'price' => PRICE, 'sku' => $sku]);
$sold = $products->createProduct($chair, prefer: 'return=representation');
check($sold->getData()->getPrice() === PRICE, 'Prefer gives the record');
$products->changeProduct($sold->getProductId(), new Model\ProductPatch(['unit' => 'шт']));
$listed = $products->listProducts(active: true, sku: [$sku])->getData();
check(count($listed) === 1 && $listed[0]->getPrice() === PRICE, 'the price is exact');
$file = tempnam(sys_get_temp_dir(), 'crm');
file_put_contents($file, "sku,name,price\n$sku,Крісло,10\n");
$imported = $products->importProducts(new SplFileObject($file));
unlink($file);
check($imported->getUpdated() === 1, 'import');

$deal = $deals->createDeal(new Model\DealIn(['client_id' => $client]))->getDealId();
$line = new Model\DealItemIn(['name' => 'Доставка', 'price' => 350.5, 'quantity' => 2]);
$item = $deals->createDealItem($deal, $line)->getItemId();
$deals->changeDealItem($deal, $item, new Model\DealItemPatch(['discount' => 10]));
check($deals->listDealItems($deal)->getData()[0]->getTotal() === 630.9, 'items');
$pipelines = (new Api\PipelinesApi($http, $config))->listPipelines()->getData();
$stage = $pipelines[0]->getStages()[1]->getId();
$deals->changeDeal($deal, new Model\DealPatch(['stage_id' => $stage]));
check($deals->changeDeal($deal, new Model\DealPatch(['status' => 'won']))->getStatus() === 'won', 'won');
$lost = $deals->createDeal(new Model\DealIn(['title' => 'Столи']))->getDealId();
$deals->changeDeal($lost, new Model\DealPatch(['status' => 'lost']));

$call = new Model\TaskIn(['title' => 'Зателефонувати', 'deal_id' => $deal]);
$task = $tasks->createTask($call)->getTaskId();
$done = $tasks->completeTask($task, new Model\Completion(['result' => 'Так']));
check($done->getStatus() === 'done', 'complete');
check($tasks->listTasks(deal_id: [$deal])->getData()[0]->getId() === $task, 'tasks');

check($leads->convertLead($lead, new Model\Conversion())->getDealId() !== null, 'convert');
$gone = $leads->createLead(new Model\LeadIn(['name' => 'Тарас', 'email' => 't@example.com']));
$leads->deleteLead($gone->getLeadId());
$since = $changed->getUpdatedAt()->format(DATE_ATOM); // this generator cannot send a DateTime
$deletions = $leads->listLeads(ids: [$gone->getLeadId()], updated_since: $since, include_deleted: true);
$deleted = $deletions->getData()[0];
check($deleted->getDeletedAt() instanceof DateTime && $deleted->getName() === null, 'deletions');
$erp = new Model\WebhookIn(['url' => 'https://erp.example.com/crm']);
$hook = $webhooks->createWebhook($erp)->getWebhookId();
$ids = array_map(fn($row) => $row->getId(), $webhooks->listWebhooks()->getData());
check(in_array($hook, $ids, true), 'webhooks');
try {
    $leads->createLead(new Model\LeadIn(['name' => 'Марія']));
    check(false, 'not refused');
} catch (ApiException $error) {
    check($error->getResponseObject()->getCode() === 'validation_failed', 'problems have their code');
}

$feed = (new Api\EventsApi($http, $config))->listEvents(after: 0, limit: 200)->getData();
$kinds = array_unique(array_map(fn($event) => $event->getType(), $feed));
check(count($kinds) === 14, implode(' ', $kinds));
$won = array_filter($feed, fn($event) => $event->getType() === 'deal.won');
$ids = array_map(fn($event) => $event->getData()->getDeal()->getId(), $won);
check(in_array($deal, $ids, true), 'the feed has the deal that is won');
foreach ($feed as $event) {
    $noun = strtok($event->getType(), '.');
    $noun = $event->getType() === 'product.imported' ? 'import' : $noun;
    check($event->getData()->{'get' . ucfirst($noun)}()->getId() !== null, $event->getType());
}
echo "php: a round, and events of 14 kinds\n";
