// A receiver of webhooks that checks signatures and stores each event once.
//
//     WEBHOOK_SECRET=whsec_… node receiver.mjs 9000
//
// It listens on 127.0.0.1: your web server, with TLS, passes requests on to it. Events are stored in
// the folder `received`, one file each: another program does the work after the answer was sent.

import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createHmac, timingSafeEqual } from "node:crypto";

const SECRET = process.env.WEBHOOK_SECRET;
const MAX_BODY_CHARACTERS = 5_000_000;

export function verify(secret, headers, body) {  // body: the text as received, before JSON.parse
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = Buffer.from("v1," + createHmac("sha256", key).update(signed).digest("base64"));
  const isRecent = Math.abs(Date.now() / 1000 - headers["webhook-timestamp"]) < 300;
  const signatures = headers["webhook-signature"].split(" ").map((text) => Buffer.from(text));
  return isRecent && signatures.some(
    (signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
}

// Store an event, unless it is here already: a delivery may arrive more than once.
function storeOnce(eventId, body) {
  try {
    writeFileSync(`received/${eventId}.json`, body, { flag: "wx" });
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
}

const server = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8");
  request.on("data", (part) => {
    body += part;
    if (body.length > MAX_BODY_CHARACTERS) request.destroy();
  });
  request.on("end", () => {
    const { headers } = request;
    const accepted = "webhook-signature" in headers && verify(SECRET, headers, body);
    if (accepted && /^\w+$/.test(headers["webhook-id"])) storeOnce(headers["webhook-id"], body);
    response.writeHead(accepted ? 204 : 400).end();
  });
});

mkdirSync("received", { recursive: true });
server.listen(Number(process.argv[2]), "127.0.0.1");
