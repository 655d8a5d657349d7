// Of the installed app: without a network it shows a page that says so. It keeps nothing else, because pages have
// private data.
"use strict";

const OFFLINE = new URL("offline", self.registration.scope).href;

addEventListener("install", (event) => {
  const keep = async () => {
    const page = await fetch(OFFLINE, { credentials: "omit" });
    const styles = [...(await page.clone().text()).matchAll(/<link rel="stylesheet" href="([^"]+)"/g)];
    const cache = await caches.open("offline");
    await cache.addAll(styles.map(([, path]) => path));
    await cache.put(OFFLINE, page);
  };
  event.waitUntil(keep());
});
addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.mode === "navigate") event.respondWith(fetch(request).catch(() => caches.match(OFFLINE)));
  else if (request.destination === "style") event.respondWith(fetch(request).catch(() => caches.match(request)));
});
