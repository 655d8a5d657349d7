<?php
// A receiver of webhooks that checks signatures and stores each event once.
//
//     WEBHOOK_SECRET=whsec_… php -S 127.0.0.1:9000 receiver.php
//
// That is PHP's own server, to try it. On a hosting, put this file where your site's scripts are, set
// the variable there, and make a folder `received` beside the site, where no visitor can read it.

function verify(string $secret, string $id, string $timestamp, string $signatures, string $body): bool
{
    $key = base64_decode(substr($secret, strlen('whsec_')));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    $isRecent = abs(time() - (int) $timestamp) < 300;
    foreach (explode(' ', $signatures) as $signature) {
        if ($isRecent && hash_equals($expected, $signature)) {
            return true;
        }
    }
    return false;
}

// Store an event, unless it is here already: a delivery may arrive more than once.
function store_once(string $id, string $body): void
{
    $file = @fopen("received/$id.json", 'x');
    if ($file !== false) {
        fwrite($file, $body);
        fclose($file);
    } elseif (!file_exists("received/$id.json")) {
        http_response_code(500);  // it is sent again later
        exit;
    }
}

$body = file_get_contents('php://input');
$id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
$accepted = verify(
    getenv('WEBHOOK_SECRET'),
    $id,
    $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '',
    $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '',
    $body
);
if ($accepted && preg_match('/^\w+\z/', $id)) {
    store_once($id, $body);
}
http_response_code($accepted ? 204 : 400);
