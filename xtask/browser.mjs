// Opens every page under a folder as a reader would: usage browser.mjs CHROMIUM FOLDER. Started by `cargo xtask browser`.
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, folder] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let checks = 0;
const check = (condition, message) => {
  assert.ok(condition, message);
  checks += 1;
};

// A page that fails on every error, every console message and every request but the one for itself.
async function open(file, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const trouble = [];
  page.on("console", (message) => trouble.push(`console ${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => trouble.push(`error: ${error.message}`));
  page.on("request", (request) => {
    // What a reader saves is made in the page.
    if (/^(blob|data):/.test(request.url())) return;
    if (request.url() !== pathToFileURL(file).href) trouble.push(`request: ${request.url()}`);
  });
  await page.goto(pathToFileURL(file).href);
  return { page, trouble, close: () => context.close() };
}

const picture = (figure) => figure.locator("canvas").evaluate((canvas) => canvas.toDataURL());
const range = async (figure) => (await figure.getAttribute("data-range")).split(" ").map(Number);

async function checkChart(page, figure, name) {
  await figure.scrollIntoViewIfNeeded();
  check(await figure.locator("canvas").isVisible(), `${name}: the chart is there`);
  check(!(await figure.locator(".still").isVisible()), `${name}: the still figure made room`);
  const keys = figure.locator(".key");
  check((await keys.count()) > 0, `${name}: a legend`);

  const before = await picture(figure);
  await keys.first().click();
  check((await keys.first().getAttribute("aria-pressed")) === "false", `${name}: the key says its line is hidden`);
  check((await picture(figure)) !== before, `${name}: hiding a line changes the picture`);
  await keys.first().click();
  await page.mouse.move(0, 0);
  check((await picture(figure)) === before, `${name}: showing it again restores the picture`);

  const [left, right] = await range(figure);
  const box = await figure.locator(".u-over").boundingBox();
  await page.mouse.move(box.x + 0.25 * box.width, box.y + 0.3 * box.height);
  const read = await figure.locator(".where").textContent();
  check(!read.includes("last"), `${name}: values under the pointer are read off`);
  await page.mouse.down();
  await page.mouse.move(box.x + 0.5 * box.width, box.y + 0.32 * box.height, { steps: 5 });
  await page.mouse.up();
  const [low, high] = await range(figure);
  check(low > left && high < right && low < high, `${name}: dragging zooms (${left}..${right} to ${low}..${high})`);
  await figure.locator(".tool", { hasText: "Reset" }).click();
  assert.deepEqual(await range(figure), [left, right], `${name}: reset shows everything`);
  await figure.locator(".tool", { hasText: "+" }).click();
  const closer = await range(figure);
  check(closer[1] - closer[0] < right - left, `${name}: the button zooms`);
  await figure.locator(".tool", { hasText: "Reset" }).click();
}

// One click a format: what is saved is whole and of its kind.
async function checkExports(page, figure, name) {
  const beginnings = { SVG: "<svg", PNG: "\u0089PNG", CSV: "line," };
  for (const [kind, begins] of Object.entries(beginnings)) {
    const coming = page.waitForEvent("download");
    await figure.locator(".tool", { hasText: kind }).click();
    const saved = await coming;
    const content = readFileSync(await saved.path(), "latin1");
    check(saved.suggestedFilename().endsWith(`.${kind.toLowerCase()}`), `${name}: ${kind} has its name, ${saved.suggestedFilename()}`);
    check(content.startsWith(begins) && content.length > 100, `${name}: ${kind} has content`);
  }
}

// What no reader should meet: a chart without ink, a table or page that is cut off.
async function checkLook(page, name) {
  await page.waitForTimeout(100);
  const faults = await page.evaluate(() => {
    const faults = [];
    const over = document.documentElement.scrollWidth - innerWidth;
    if (over > 0) faults.push(`the page is ${over} pixels too wide`);
    for (const box of document.querySelectorAll(".scroll")) {
      if (box.offsetParent && box.scrollWidth > box.clientWidth + 1) faults.push(`a table is cut off: ${box.textContent.trim().slice(0, 60)}`);
    }
    for (const figure of document.querySelectorAll("figure.chart")) {
      const canvas = figure.querySelector("canvas");
      if (!canvas) { faults.push(`${figure.id}: no chart`); continue; }
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let ink = 0;
      for (let k = 3; k < data.length; k += 4) ink += data[k] > 40;
      if (ink < 400) faults.push(`${figure.id}: an empty chart (${ink} pixels of ink)`);
    }
    return faults;
  });
  assert.deepEqual(faults, [], name);
  checks += 1;
}

async function checkPage(name) {
  const file = join(folder, name, "report.html");
  const figures = join(folder, name, "figures");
  const drawn = (existsSync(figures) ? readdirSync(figures) : []).filter((f) => f.endsWith(".svg")).map((f) => f.replace(".svg", "")).sort();
  const live = await open(file, { viewport: { width: 1280, height: 900 } });
  const ids = await live.page.locator("figure.chart").evaluateAll((all) => all.map((figure) => figure.id));
  assert.deepEqual([...ids].sort(), drawn, `${name}: every figure of the folder is on the page`);
  await checkLook(live.page, `${name} at 1280, light`);
  for (const id of ids) await checkChart(live.page, live.page.locator(`figure[id="${id}"]`), `${name}/${id}`);
  if (ids.length) await checkExports(live.page, live.page.locator(`figure[id="${ids[0]}"]`), `${name}/${ids[0]}`);
  assert.deepEqual(live.trouble, [], `${name}: no error, no message, no request`);
  await live.page.screenshot({ path: join(folder, name, "screenshot-1280.png"), fullPage: true });
  await live.close();

  for (const [width, colorScheme] of [[500, "light"], [500, "dark"], [1280, "dark"]]) {
    const { page, trouble, close } = await open(file, { viewport: { width, height: 800 }, colorScheme });
    await checkLook(page, `${name} at ${width}, ${colorScheme}`);
    assert.deepEqual(trouble, []);
    await page.screenshot({ path: join(folder, name, `screenshot-${width}-${colorScheme}.png`), fullPage: true });
    await close();
  }

  // On paper of 182 mm: the still figures, tables as tables, nothing beyond the edge.
  const paper = await open(file, { viewport: { width: 688, height: 980 } });
  await paper.page.emulateMedia({ media: "print" });
  const printed = await paper.page.evaluate(() => ({
    over: document.documentElement.scrollWidth - innerWidth,
    cut: [...document.querySelectorAll("table")].filter((t) => t.checkVisibility() && !t.closest("details:not([open])") && t.getBoundingClientRect().right > innerWidth + 1).map((t) => t.textContent.trim().slice(0, 60)),
    live: [...document.querySelectorAll("figure.chart .live")].filter((e) => e.offsetParent).length,
  }));
  assert.deepEqual(printed, { over: 0, cut: [], live: 0 }, `${name}: printed`);
  checks += 1;
  await paper.close();

  const still = await open(file, { viewport: { width: 1280, height: 900 }, javaScriptEnabled: false });
  check((await still.page.locator("figure.chart .still > svg").count()) === ids.length, `${name}: figures without scripts`);
  for (const id of ids) check(await still.page.locator(`figure[id="${id}"] .still > svg`).isVisible(), `${name}/${id}: visible without scripts`);
  await checkText(still.page, name);
  await still.close();
}

// No text of a figure leaves its figure or covers another text.
async function checkText(page, name) {
  const faults = await page.evaluate(() => {
    const faults = [];
    for (const figure of document.querySelectorAll(".still > svg")) {
      const frame = figure.getBoundingClientRect();
      const boxes = [...figure.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
      boxes.forEach(([text, box], k) => {
        if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
          faults.push(`clipped: ${text}`);
        }
        for (const [other, its] of boxes.slice(k + 1)) {
          const [across, down] = [Math.min(box.right, its.right) - Math.max(box.left, its.left), Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top)];
          if (across > 1 && down > 4) faults.push(`"${text}" covers "${other}"`);
        }
      });
    }
    return faults;
  });
  assert.deepEqual(faults, [], `${name}: texts of the still figures`);
  checks += 1;
}

try {
  // One page's fault does not hide another's.
  let failed = 0;
  for (const name of readdirSync(folder).sort()) {
    try {
      await checkPage(name);
    } catch (fault) {
      failed += 1;
      process.stderr.write(`${name}: ${fault.message}\n`);
    }
  }
  assert.equal(failed, 0, `${failed} pages fail`);
  process.stdout.write(`${checks} checks passed; screenshots are in ${folder}\n`);
} finally {
  await browser.close();
}
