// A consumer that speaks to RabbitMQ with the npm package `amqplib` only, writes down what comes in
// the order in which it comes, and then acknowledges it. A lost connection is made anew. Takes its
// settings as JSON: {"log": FILE, "url": "amqp://..."}; then one command a line on its input.
"use strict";

const crypto = require("crypto");
const fs = require("fs");
const readline = require("readline");
const amqp = require("amqplib");

const settings = JSON.parse(process.argv[2]);
const log = fs.openSync(settings.log, "a");
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
let wanted = null; // the queue to consume
let current = null; // the connection that consumes
let count = 0;

function textOf(value) {
  return Buffer.isBuffer(value) ? value.toString() : value;
}

function noted({ properties, fields, content }) {
  count += 1;
  const headers = Object.entries(properties.headers || {});
  return {
    n: count,
    t: Number(process.hrtime.bigint()) / 1e9,
    id: properties.messageId,
    type: properties.type,
    key: fields.routingKey,
    exchange: fields.exchange,
    content_type: properties.contentType,
    persistent: properties.deliveryMode === 2,
    redelivered: fields.redelivered, // by RabbitMQ, not by who published it
    headers: Object.fromEntries(headers.map(([name, value]) => [name, textOf(value)])),
    size: content.length,
    sha: crypto.createHash("sha256").update(content).digest("hex"),
  };
}

async function consumeOnce() {
  const connection = await amqp.connect(settings.url, { heartbeat: 5 });
  const closed = new Promise((resolve) => connection.on("close", resolve));
  connection.on("error", () => {});
  current = connection;
  const channel = await connection.createChannel();
  channel.on("error", () => {});
  channel.on("close", () => connection.close().catch(() => {}));
  await channel.prefetch(500);
  await channel.consume(wanted, (message) => {
    if (message === null) return connection.close().catch(() => {}); // the queue was deleted
    fs.writeSync(log, JSON.stringify(noted(message)) + "\n");
    channel.ack(message);
  });
  await closed;
}

async function consume() {
  while (wanted !== null) {
    try {
      await consumeOnce();
    } catch (error) {
      current?.close().catch(() => {});
    }
    await sleep(100);
  }
}

// Calls one method of a channel, as the owner of exchanges and queues would.
async function call({ method, arguments: values }) {
  let connection;
  try {
    connection = await amqp.connect(settings.url);
    connection.on("error", () => {});
    const channel = await connection.createChannel();
    channel.on("error", () => {});
    return { result: (await channel[method](...values)) || {} };
  } catch (error) {
    return { error: error.message };
  } finally {
    await connection?.close().catch(() => {});
  }
}

async function answer(command) {
  if (command.command === "call") return call(command);
  const before = wanted;
  wanted = command.queue || null;
  if (wanted === null) await current?.close().catch(() => {});
  else if (before === null) consume();
  return {};
}

function say(value) {
  process.stdout.write(JSON.stringify(value) + "\n");
}

readline
  .createInterface({ input: process.stdin })
  .on("line", async (line) => say(await answer(JSON.parse(line))))
  .on("close", () => process.exit(0));
say({});
