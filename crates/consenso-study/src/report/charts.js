// Turns the still figures of a page into charts that can be zoomed, toggled and read off. Without it the figures stay as they are.
(() => {
  "use strict";
  const palette = JSON.parse(document.getElementById("palette").textContent);
  const darkMode = matchMedia("(prefers-color-scheme: dark)");
  const svg = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const html = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const superscript = (n) => String(n).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
  const scientific = (text) => {
    const [mantissa, exponent] = text.split("e");
    const digits = mantissa.replace(/\.?0+$/, (zeros) => (mantissa.includes(".") ? "" : zeros));
    return (digits === "1" ? "" : digits + "·") + "10" + superscript(Number(exponent));
  };
  const number = (v) => {
    if (v == null) return "–";
    const size = Math.abs(v);
    const text = v === 0 ? "0" : size < 1e-3 || size >= 1e5 ? scientific(v.toExponential(2)) : String(+v.toPrecision(4));
    return text.replace("-", "−");
  };
  const close = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));

  // Ticks of our own, at 1, 2 or 5 times a power of ten. uPlot's own for a logarithmic axis count up by the power of ten under its beginning, and never
  // arrive where rounding puts the beginning on the wrong side of it.
  const decimal = (mantissa, exponent) => Number(`${mantissa}e${exponent}`);
  const linearTicks = (low, high, most, whole) => {
    const width = high - low;
    if (!(width > 1e-12 * Math.max(Math.abs(low), Math.abs(high)))) return [low];
    const from = Math.max(Math.floor(Math.log10(width / most)) - 1, whole ? 0 : -Infinity);
    for (let exponent = from; ; exponent++) {
      for (const mantissa of [1, 2, 5]) {
        const step = decimal(mantissa, exponent);
        const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
        if (last - first + 1 > most) continue;
        return Array.from({ length: Math.max(0, last - first + 1) }, (_, k) => decimal((first + k) * mantissa, exponent));
      }
    }
  };
  const logTicks = (low, high, most) => {
    const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const at = (mantissas, stride) => {
      const ticks = [];
      for (let e = first; e <= last; e++) {
        if (((e % stride) + stride) % stride === 0) ticks.push(...mantissas.map((m) => decimal(m, e)));
      }
      return ticks.filter((v) => v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9));
    };
    const decades = at([1], 1).length;
    if (decades >= 3) return at([1], Math.ceil(decades / most));
    const few = at([1, 2, 5], 1);
    return few.length >= 3 ? few : linearTicks(low, high, most, false);
  };
  const ticksOf = ({ log, whole }, low, high, most) => (log ? logTicks(low, high, most) : linearTicks(low, high, most, whole));
  // Labels of one axis look alike: all as they are, or all powers of ten.
  const labels = (splits, log) => {
    const plain = (v) => v === 0 || (Math.abs(v) >= 1e-3 && Math.abs(v) < 1e5);
    if (splits.every(plain)) return splits.map((v) => String(+v.toPrecision(10)).replace("-", "−"));
    return splits.map((v) => (v === 0 ? "0" : log || !plain(v) ? scientific((+v.toPrecision(10)).toExponential()).replace("-", "−") : number(v)));
  };

  // The index nearest to `at` where a line has a value: lines need not share their rounds.
  const nearest = (column, at) => {
    for (let step = 0; step < column.length; step++) {
      if (column[at - step] != null) return at - step;
      if (column[at + step] != null) return at + step;
    }
    return null;
  };

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.data = JSON.parse(figure.querySelector("script").textContent);
      this.hidden = new Set();
      this.values = [];
      this.plot = null;
      this.live = html("div", { class: "live" });
      this.canvas = html("div", { class: "plot", role: "img", "aria-label": this.data.title });
      this.where = html("span", { class: "where" });
      this.live.append(this.heading(), this.canvas, this.where, this.legend());
      figure.querySelector(".still").after(this.live);
      figure.classList.add("is-live");
      this.draw();
      new ResizeObserver(() => this.plot && this.plot.setSize(this.size())).observe(this.live);
      darkMode.addEventListener("change", () => this.draw());
    }

    heading() {
      const button = (name, title, act) => {
        const element = html("button", { type: "button", class: "tool", title, "aria-label": title }, name);
        element.addEventListener("click", act);
        return element;
      };
      this.resetButton = button("Reset", "Show everything again", () => this.reset());
      this.resetButton.disabled = true;
      const tools = html("span", { class: "tools" },
        button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)), this.resetButton,
        button("SVG", "Save the figure as SVG", () => this.save("svg", "image/svg+xml", this.still())),
        button("PNG", "Save the figure as PNG", () => this.savePng()),
        button("CSV", "Save the numbers as CSV", () => this.save("csv", "text/csv", this.table())));
      return html("div", { class: "head" }, html("b", { class: "title" }, this.data.title), tools,
        html("span", { class: "unit" }, this.data.y.label));
    }

    // The still figure as a file of its own, on white paper: what a paper or a slide takes.
    still() {
      const drawn = this.figure.querySelector(".still > svg");
      const copy = drawn.cloneNode(true);
      const [left, top, width, height] = drawn.getAttribute("viewBox").split(" ").map(Number);
      const edge = 14;
      copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      for (const [key, value] of Object.entries({ viewBox: `${left - edge} ${top} ${width + 2 * edge} ${height}`, width: width + 2 * edge, height })) copy.setAttribute(key, value);
      copy.prepend(svg("rect", { x: left - edge, y: top, width: width + 2 * edge, height, fill: "#fff" }));
      return new XMLSerializer().serializeToString(copy);
    }

    // One row per point of a line, then one per line of comparison.
    table() {
      const cell = (v) => (v == null ? "" : /[",\n]/.test(v) ? `"${String(v).replaceAll('"', '""')}"` : String(v));
      const { x, y, series, lines } = this.data;
      const rows = [["line", x.label, y.label, "lowest", "highest"]];
      for (const s of series) s.x.forEach((at, k) => rows.push([s.label, at, s.mean[k], s.low?.[k], s.high?.[k]]));
      for (const line of lines) rows.push([line.label, null, line.value, null, null]);
      return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
    }

    save(kind, type, content) {
      const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
      const link = html("a", { href: address, download: `${this.figure.id}.${kind}` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    }

    savePng() {
      const picture = new Image();
      picture.onload = () => {
        const canvas = html("canvas", { width: 3 * picture.width, height: 3 * picture.height });
        canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
        canvas.toBlob((blob) => this.save("png", "image/png", blob));
      };
      picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(this.still());
    }

    legend() {
      const keys = html("div", { class: "keys" });
      const key = (label, swatch, id) => {
        const value = html("output", {});
        const button = html("button", { type: "button", class: "key", "aria-pressed": "true" }, swatch, label, " ", value);
        button.addEventListener("click", () => this.toggle(id, button));
        keys.append(button);
        this.values.push([id, value]);
      };
      this.data.series.forEach((s, k) => key(s.label, this.swatch(`fig-s${s.colour}`, s.colour, palette.dashes[s.dash]), `s${k}`));
      this.data.lines.forEach((line, k) => key(line.label, this.swatch("fig-ref", null, "3 3"), `r${k}`));
      return keys;
    }

    swatch(name, colour, dash) {
      const stroke = colour === null ? "#5c646d" : palette.light[colour];
      const line = svg("path", { class: name, d: "M0 5h28", fill: "none", stroke, "stroke-width": 2, "stroke-dasharray": dash });
      const picture = svg("svg", { class: "swatch", viewBox: "0 0 28 10", width: 28, height: 10, "aria-hidden": "true" });
      picture.append(line);
      return picture;
    }

    size() {
      const width = Math.max(240, Math.floor(this.live.clientWidth));
      return { width, height: width < 420 ? 240 : width < 700 ? 290 : 380 };
    }

    // Columns of uPlot: x; ends of bands; reference lines; means on top. `roles` says which column is whose.
    columns(colours, muted) {
      const tables = this.data.series.map((s) => [s.x, ...(s.low ? [s.low, s.high] : []), s.mean]);
      const joined = tables.length ? uPlot.join(tables) : [this.data.x.domain];
      const [x, series, bands, roles] = [joined[0], [{}], [], ["x"]];
      const [ends, means] = [[], []];
      let at = 1;
      this.data.series.forEach((s, k) => {
        if (s.low) ends.push([k, joined[at++], joined[at++]]);
        means.push([k, joined[at++]]);
      });
      const data = [x];
      const add = (role, column, options) => {
        data.push(column);
        roles.push(role);
        series.push({ show: !this.hidden.has(role), spanGaps: false, points: { show: false }, ...options });
        return data.length - 1;
      };
      for (const [k, low, high] of ends) {
        const invisible = { stroke: "transparent", width: 0 };
        const pair = [add(`s${k}`, high, invisible), add(`s${k}`, low, invisible)].map((i) => i);
        bands.push({ series: pair, fill: colours[this.data.series[k].colour] + Math.round(255 * this.data.opacity).toString(16) });
      }
      this.data.lines.forEach((line, k) => add(`r${k}`, x.map(() => line.value), { stroke: muted, width: 1.2, dash: [3, 3] }));
      for (const [k, mean] of means) {
        const s = this.data.series[k];
        const dash = palette.dashes[s.dash].split(" ").filter(Boolean).map(Number);
        const few = s.x.length <= 24;
        add(`s${k}`, mean, { stroke: colours[s.colour], width: 2, dash, points: { show: few, size: 7, fill: colours[s.colour] }, mean: true });
      }
      return { data, series, bands, roles };
    }

    // The frame of the still figure while everything is in view, else what is in view with some air.
    range(axis, data) {
      const [low, high] = axis.domain;
      const all = data.slice(1).flat().filter((v) => v != null && (!axis.log || v > 0));
      const [least, most] = all.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
      return (u, min, max) => {
        if (min == null || (this.hidden.size === 0 && min <= least && max >= most)) return [low, high];
        if (axis.log) return [Math.max(min / 1.1, low), Math.min(max * 1.1, high)];
        const pad = 0.05 * (max - min) || 0.05 * Math.abs(max) || 1;
        return [Math.max(min - pad, low), Math.min(max + pad, high)];
      };
    }

    draw() {
      const dark = darkMode.matches;
      const colours = dark ? palette.dark : palette.light;
      const [ink, grid] = dark ? ["#a3abb3", "#2b3036"] : ["#5c646d", "#e6e8eb"];
      const { data, series, bands, roles } = this.columns(colours, ink);
      this.roles = roles;
      const font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
      const axis = { stroke: ink, font, labelFont: font, grid: { stroke: grid, width: 1 }, ticks: { stroke: ink, width: 1, size: 4 } };
      const widest = (u, values) => {
        u.ctx.save();
        u.ctx.font = font;
        const width = Math.max(20, ...(values || []).map((v) => u.ctx.measureText(v || "").width));
        u.ctx.restore();
        return Math.ceil(width) + 14;
      };
      const { x, y } = this.data;
      const rounded = (of, most, apart) => ({
        splits: (u, i, low, high) => ticksOf(of, low, high, Math.max(3, Math.min(most, Math.floor((i ? u.height : u.width) / apart)))),
        filter: (u, splits) => splits,
        values: (u, splits) => labels(splits, of.log),
      });
      const options = {
        ...this.size(),
        legend: { show: false },
        padding: [10, this.margin(), 0, 0],
        scales: {
          x: { time: false, distr: x.log ? 3 : 1, range: (u, min, max) => (min == null ? x.domain : [min, max]) },
          y: { distr: y.log ? 3 : 1, range: this.range(y, data) },
        },
        axes: [
          { ...axis, ...rounded(x, 9, 70), size: 30, label: x.label, labelSize: 20, labelGap: 0, grid: { show: false } },
          { ...axis, ...rounded(y, 8, 30), size: widest },
        ],
        series, bands,
        cursor: {
          drag: { x: true, y: true, uni: 24, dist: 5 },
          points: { show: (u, i) => (series[i].mean ? undefined : false), size: 7 },
          dataIdx: (u, i, at) => nearest(u.data[i], at) ?? at,
        },
        hooks: { draw: [(u) => this.nameLines(u, ink, font)], setCursor: [() => this.read()], setScale: [() => this.scaled()] },
      };
      const kept = this.plot && { min: this.plot.scales.x.min, max: this.plot.scales.x.max };
      if (this.plot) this.plot.destroy();
      this.plot = null;
      this.plot = new uPlot(options, data, this.canvas);
      this.plot.setScale("x", kept || { min: x.domain[0], max: x.domain[1] });
      this.read();
    }

    // Names of the reference lines beside the frame, equal values under one name, from top to bottom with room between them.
    notes() {
      const notes = [];
      for (const { label, value } of this.data.lines) {
        const same = notes.find((other) => close(other.value, value));
        if (same) same.label += ` = ${label}`; else notes.push({ label, value });
      }
      for (const note of notes) {
        note.lines = [""];
        for (const word of note.label.split(" ")) {
          const line = `${note.lines.at(-1)} ${word}`.trim();
          if (line.length <= 16 || note.lines.at(-1) === "") note.lines[note.lines.length - 1] = line; else note.lines.push(word);
        }
      }
      return notes.sort((a, b) => b.value - a.value);
    }

    nameLines(u, ink, font) {
      if (this.size().width < 420) return;
      const { ctx, bbox } = u;
      const px = devicePixelRatio;
      ctx.save();
      [ctx.font, ctx.textAlign, ctx.textBaseline] = [font.replace(/^\d+/, (size) => size * px), "left", "middle"];
      [ctx.fillStyle, ctx.strokeStyle, ctx.lineWidth] = [ink, ink, 0.8 * px];
      const seen = this.notes().filter(({ value }) => value >= u.scales.y.min && value <= u.scales.y.max);
      let free = bbox.top - 6 * px;
      for (const note of seen) {
        const half = 6 * px * note.lines.length;
        note.y = Math.max(u.valToPos(note.value, "y", true), free + half);
        free = note.y + half;
      }
      free = bbox.top + bbox.height + 8 * px;
      for (const note of [...seen].reverse()) {
        const half = 6 * px * note.lines.length;
        note.y = Math.min(note.y, free - half);
        free = note.y - half;
      }
      const right = bbox.left + bbox.width;
      for (const { value, y, lines } of seen) {
        ctx.beginPath();
        ctx.moveTo(right, u.valToPos(value, "y", true));
        ctx.lineTo(right + 9 * px, y);
        ctx.stroke();
        lines.forEach((line, k) => ctx.fillText(line, right + 12 * px, y + 12 * px * (k - (lines.length - 1) / 2)));
      }
      ctx.restore();
    }

    margin() {
      if (this.data.lines.length === 0 || this.size().width < 420) return 24;
      return 22 + 6.3 * Math.max(...this.notes().flatMap(({ lines }) => lines.map((line) => line.length)));
    }

    // Values under the cursor, or at the end of the lines.
    read() {
      if (!this.plot) return;
      const at = this.plot.cursor.idx;
      const columns = this.plot.data;
      for (const [id, output] of this.values) {
        const column = columns[this.roles.lastIndexOf(id)];
        const index = nearest(column, at ?? column.length - 1);
        output.textContent = index === null ? "–" : number(column[index]);
      }
      const last = columns[0][columns[0].length - 1];
      this.where.textContent = `${this.data.x.label}: ${number(at == null ? last : columns[0][at])}${at == null ? " (last)" : ""}`;
    }

    scaled() {
      if (!this.plot) return;
      const { min, max } = this.plot.scales.x;
      this.figure.dataset.range = `${min} ${max}`;
      const y = this.plot.scales.y;
      const same = (scale, [low, high]) => close(scale.min, low) && close(scale.max, high);
      this.resetButton.disabled =
        this.hidden.size === 0 && same({ min, max }, this.data.x.domain) && same(y, this.data.y.domain);
    }

    toggle(id, button) {
      const show = this.hidden.has(id);
      if (show) this.hidden.delete(id); else this.hidden.add(id);
      button.setAttribute("aria-pressed", String(show));
      this.plot.batch(() => this.roles.forEach((role, i) => role === id && this.plot.setSeries(i, { show })));
      this.scaled();
    }

    zoom(factor) {
      const { log, domain } = this.data.x;
      const [to, from] = log ? [Math.log, Math.exp] : [(v) => v, (v) => v];
      const [min, max] = [to(this.plot.scales.x.min), to(this.plot.scales.x.max)];
      const [middle, half] = [(min + max) / 2, (factor * (max - min)) / 2];
      const whole = half * 2 >= to(domain[1]) - to(domain[0]);
      this.plot.setScale("x", whole ? { min: domain[0], max: domain[1] }
        : { min: Math.max(domain[0], from(middle - half)), max: Math.min(domain[1], from(middle + half)) });
    }

    reset() {
      this.hidden.clear();
      this.live.querySelectorAll(".key").forEach((key) => key.setAttribute("aria-pressed", "true"));
      this.plot.batch(() => this.roles.forEach((role, i) => i && this.plot.setSeries(i, { show: true })));
      const [min, max] = this.data.x.domain;
      this.plot.setScale("x", { min, max });
      this.scaled();
    }
  }

  const first = document.querySelector("figure.chart");
  if (first) {
    first.parentElement.before(html("p", { class: "note hint" },
      "Drag over a chart to zoom, double-click to see everything again, press a name to hide its line. Values are those under the pointer. SVG, PNG and CSV save a figure or its numbers."));
  }
  for (const figure of document.querySelectorAll("figure.chart")) {
    // A chart that fails leaves its still figure.
    try { new Chart(figure); } catch (error) { figure.classList.remove("is-live"); console.error(error); }
  }
})();
