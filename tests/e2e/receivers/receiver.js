// A receiver that understands requests with the official libraries only, and reports what they
// made of each. Takes its settings as JSON: {"log": FILE, "secrets": {NAME: "whsec_..."}}.
"use strict";

const fs = require("fs");
const http = require("http");
const { HTTP } = require("cloudevents");
const { Webhook } = require("standardwebhooks");

const settings = JSON.parse(process.argv[2]);
const log = fs.openSync(settings.log, "a");

// As a framework's body parser would hand it over: text as a string, anything else as bytes.
function bodyOf(request, bytes) {
  const isText = /^text\/|[/+](json|xml)\b/.test(request.headers["content-type"] || "");
  return isText ? bytes.toString() : bytes;
}

function eventOf(request, bytes) {
  try {
    const event = HTTP.toEvent({ headers: request.headers, body: bodyOf(request, bytes) });
    event.validate();
    const { data, data_base64: _, ...attributes } = event.toJSON();
    const found = event.data;
    return ArrayBuffer.isView(found)
      ? { attributes, bytes: Buffer.from(Uint8Array.from(found)).toString("base64") }
      : { attributes, data: found };
  } catch (error) {
    return { error: `${error.name}: ${error.message} ${JSON.stringify(error.errors || "")}` };
  }
}

// Per secret: "ok", or why the library does not accept the request.
function verificationsOf(request, bytes) {
  const verified = {};
  for (const [name, secret] of Object.entries(settings.secrets)) {
    try {
      new Webhook(secret).verify(bytes, request.headers, { jsonParse: false });
      verified[name] = "ok";
    } catch (error) {
      verified[name] = error.message;
    }
  }
  return verified;
}

const server = http.createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const bytes = Buffer.concat(pieces);
    const entry = {
      id: request.headers["idempotency-key"],
      headers: request.headers,
      event: eventOf(request, bytes),
      verified: verificationsOf(request, bytes),
      answer: 202,
    };
    fs.writeSync(log, JSON.stringify(entry) + "\n");
    response.writeHead(202).end();
  });
});

server.listen(0, "127.0.0.1", () => {
  process.stdout.write(JSON.stringify({ port: server.address().port }) + "\n");
});
process.stdin.resume().on("end", () => process.exit(0));
