// The live page of a network that really runs: usage dashboard.mjs CHROMIUM CONSENSO NETWORK OUT DRAWN. Started by `cargo xtask browser`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [executablePath, consenso, network, out, drawn] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
let checks = 0;
const check = (condition, message) => {
  assert.ok(condition, message);
  checks += 1;
};

// Starts the network and waits for the page's address.
function start() {
  const child = spawn(consenso, ["network", "up", network, "--dashboard"], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const address = new Promise((resolve, reject) => {
    let said = "";
    child.stderr.on("data", (data) => {
      said += data;
      const found = said.match(/dashboard: (http:\S+)/);
      if (found) resolve(found[1]);
    });
    ended.then((code) => reject(new Error(`ended with ${code} before it said where the page is: ${said}`)));
  });
  return { child, address, ended };
}

// A page that fails on every error, every console message and every request to anybody else.
async function open(browser, address, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const trouble = [];
  // The last thing a server says is that it is gone.
  const gone = /ERR_(INCOMPLETE_CHUNKED_ENCODING|CONNECTION|EMPTY_RESPONSE)/;
  page.on("console", (message) => gone.test(message.text()) || trouble.push(`console ${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => trouble.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(address).origin) trouble.push(`request: ${request.url()}`);
  });
  await page.goto(address, { waitUntil: "domcontentloaded" });
  return { page, trouble };
}

// What is drawn, as numbers.
const look = (page) =>
  page.evaluate(() => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    return {
      state: document.getElementById("state").textContent,
      measure: document.getElementById("measure").textContent,
      of: parseInt(document.querySelector("#rows tr").cells[1].textContent.split("/")[1], 10),
      sites: all("#graph [data-site]").length,
      edges: all("#graph [data-edge]").map((line) => line.getAttribute("class")),
      spent: all("#graph [data-spent]").map((ring) => Number(ring.dataset.spent)),
      meters: all("#rows [role=meter]").map((meter) => Number(meter.getAttribute("aria-valuenow"))),
      curves: all("#curve [data-curve]").map((line) => line.points.numberOfItems),
      rows: all("#rows tr").map((row) => parseInt(row.cells[1].textContent, 10)),
      wide: document.documentElement.scrollWidth - innerWidth,
    };
  });

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const { child, address, ended } = start();
try {
  const where = await address;
  const url = new URL(where);
  for (const token of ["", "?token=", "?token=00000000000000000000000000000000"]) {
    for (const path of ["/", "/events"]) {
      const refused = await fetch(url.origin + path + token);
      check(refused.status === 403, `${path}${token}: refused without the token, not ${refused.status}`);
    }
  }
  const [wide, narrow] = [
    await open(browser, where, { viewport: { width: 1280, height: 900 } }),
    await open(browser, where, { viewport: { width: 500, height: 900 }, colorScheme: "dark" }),
  ];
  await wide.page.waitForFunction(() => [...document.querySelectorAll("#rows tr")].some((row) => parseInt(row.cells[1].textContent, 10) > 30));
  const first = await look(wide.page);
  await wide.page.screenshot({ path: join(out, "running-1280.png"), fullPage: true });
  await narrow.page.screenshot({ path: join(out, "running-500.png"), fullPage: true });
  await wide.page.waitForFunction((round) => parseInt(document.querySelector("#rows tr").cells[1].textContent, 10) > round, first.rows[0] + 20);
  const later = await look(wide.page);
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  check(first.sites > 2 && first.rows.length === first.sites, `every site is drawn and listed: ${JSON.stringify(first)}`);
  check(later.edges.length >= later.sites - 1 && later.edges.every((kind) => kind === "up"), `links are up: ${later.edges}`);
  check(first.spent.length === first.sites && first.meters.length === first.sites, "every site has its gauges");
  check(sum(later.spent) > sum(first.spent) && sum(later.meters) > sum(first.meters), "the gauges move");
  check(first.curves.length === first.sites && first.curves.every((points) => points > 5), `curves are drawn: ${first.curves}`);
  check(sum(later.rows) > sum(first.rows), "rounds go on");
  check(first.measure.endsWith(drawn), `the curve says what it is: ${first.measure}`);
  // A page that is opened late has the whole curve, not only what comes.
  const late = await open(browser, where, { viewport: { width: 1280, height: 900 } });
  await late.page.waitForFunction(() => document.querySelector("#curve [data-curve]"));
  const begins = await late.page.evaluate(() => {
    const [axis, line] = [document.querySelector("#curve line"), document.querySelector("#curve [data-curve]")];
    return (line.points.getItem(0).x - axis.x1.baseVal.value) / (axis.x2.baseVal.value - axis.x1.baseVal.value);
  });
  check(begins < 0.05, `the curve begins at the first rounds: ${begins}`);
  await late.page.waitForFunction(() => parseFloat(document.querySelector("#all > i").style.width) > 60, undefined, { timeout: 120000 });
  await late.page.screenshot({ path: join(out, "half-1280.png"), fullPage: true });
  await late.page.close();

  for (const [{ page, trouble }, width] of [[wide, 1280], [narrow, 500]]) {
    await page.waitForFunction(() => document.getElementById("state").textContent.startsWith("finished"), undefined, { timeout: 120000 });
    const end = await look(page);
    check(end.wide <= 0, `at ${width} the page is ${end.wide} pixels too wide`);
    check(!end.state.includes("stopped"), end.state);
    check(end.rows.every((round) => round === end.of), `every site has done all ${end.of} rounds: ${end.rows}`);
    check(end.spent.every((share) => share > 0.99 && share <= 1), `the budget is spent and not overspent: ${end.spent}`);
    check(end.edges.every((kind) => kind === "up"), `no link of a finished run looks broken: ${end.edges}`);
    await page.screenshot({ path: join(out, `finished-${width}.png`), fullPage: true });
    assert.deepEqual(trouble, [], `at ${width}: no error, no message, no other request`);
  }
  check((await ended) === 0, "the network ends well with pages open");
  process.stdout.write(`${checks} checks of the live page passed; screenshots are in ${out}\n`);
} finally {
  child.kill("SIGTERM");
  await browser.close();
}
