// Filters of a board: figures and ranks of the settings that are chosen. Without it the page shows all of them.
(() => {
  "use strict";
  const board = JSON.parse(document.getElementById("board").textContent);
  const form = document.getElementById("filters");
  const [SETTING, METHOD, MEAN, DEVIATION, CERTIFIED, PUBLISHED, ROUNDS, MESSAGES, BYTES, TIME] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  const names = ["problem", "graph", "condition", "epsilon"];
  const selects = names.map((name) => document.getElementById("filter-" + name));
  const chosen = () => selects.map((s) => (s.value === "" ? null : Number(s.value)));
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const superscript = (n) => String(n).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
  const number = (v, digits) => {
    if (v === 0) return "0";
    if (Math.abs(v) < 1e-4 || Math.abs(v) >= 1e5) {
      const [m, e] = v.toExponential(digits - 1).split("e");
      return m + "·10" + superscript(Number(e));
    }
    return String(Number(v.toPrecision(digits)));
  };
  const figure = (problem, v) =>
    problem.share ? (100 * v).toFixed(1) : ["gap", "mse", "rmse", "mae", "deviance"].includes(problem.figure) ? number(v, 3) : v.toFixed(3).replace("-", "−");
  const spread = (problem, v) => (problem.share ? (100 * v).toFixed(1) : ["gap", "mse", "rmse", "mae"].includes(problem.figure) ? number(v, 1) : v.toFixed(3));
  // An ε is rounded up.
  const epsilon = (v) => {
    const unit = 10 ** (Math.floor(Math.log10(v)) - 2);
    const up = Math.ceil(v / unit - 1e-9) * unit;
    return up.toPrecision(3);
  };
  const bytes = (v) => (v < 1e3 ? v.toFixed(0) + " B" : v < 1e6 ? number(v / 1e3, 3) + " kB" : v < 1e9 ? number(v / 1e6, 3) + " MB" : number(v / 1e9, 3) + " GB");
  const lasting = (v) => (v < 120 ? number(v, 3) + " s" : v < 7200 ? number(v / 60, 3) + " min" : number(v / 3600, 3) + " h");
  const text = (words) => {
    const element = document.createElement("span");
    element.textContent = words;
    return element.innerHTML;
  };
  const other = ' <a class="claim-mark" href="#methods">other adversary</a>';
  const named = (m) => text(board.methods[m]) + (m < board.own ? (board.others.includes(m) ? other : "") : ' <span class="claim-mark">claimed, not certified</span>');

  const fits = (setting, filter) => filter.every((want, k) => want === null || board.settings[setting][k] === want);

  const cell = (problem, rows, asked, best) => {
    if (!rows.length) return '<span class="none">–</span>';
    if (rows.some((r) => r[MEAN] === null)) return '<span class="none">diverged</span>';
    const value = mean(rows.map((r) => r[MEAN]));
    let out = value === best ? `<b>${figure(problem, value)}</b>` : figure(problem, value);
    if (rows.every((r) => r[DEVIATION] !== null)) {
      const pooled = Math.sqrt(mean(rows.map((r) => r[DEVIATION] ** 2)));
      if (pooled > 0) out += ` <span class="sub">± ${spread(problem, pooled)}</span>`;
    }
    if (rows.length < asked) out += " *";
    const worst = (k) => Math.max(...rows.map((r) => r[k] ?? -Infinity));
    if (worst(CERTIFIED) > 0) out += `<span class="cost">certified ε ${epsilon(worst(CERTIFIED))}</span>`;
    if (worst(PUBLISHED) > 0) out += `<span class="cost">its authors: ε ${epsilon(worst(PUBLISHED))}</span>`;
    return out;
  };

  const table = (element, filter) => {
    const p = Number(element.dataset.problem);
    const c = Number(element.dataset.condition);
    const problem = board.problems[p];
    const heads = [...element.querySelectorAll("thead th")];
    const shown = board.epsilons.map((e, k) => [e, k]).filter(([e]) => heads.some((h) => h.dataset.epsilon === e));
    shown.sort((a, b) => heads.findIndex((h) => h.dataset.epsilon === a[0]) - heads.findIndex((h) => h.dataset.epsilon === b[0]));
    const rows = board.rows.filter((r) => board.settings[r[SETTING]][0] === p && board.settings[r[SETTING]][2] === c && fits(r[SETTING], filter));
    const asked = shown.map(([, k]) => board.settings.filter((s, index) => s[0] === p && s[2] === c && s[3] === k && fits(index, filter)).length);
    const of = (m, k) => rows.filter((r) => r[METHOD] === m && board.settings[r[SETTING]][3] === k);
    const value = (m, k) => {
      const found = of(m, k);
      return found.length && found.every((r) => r[MEAN] !== null) ? mean(found.map((r) => r[MEAN])) : null;
    };
    const methods = board.methods.map((_, m) => m).filter((m) => rows.some((r) => r[METHOD] === m));
    const sign = problem.more ? -1 : 1;
    const best = shown.map(([, k]) => {
      const all = methods.map((m) => value(m, k)).filter((v) => v !== null);
      return all.length ? sign * Math.min(...all.map((v) => sign * v)) : null;
    });
    const last = (m) => [...shown].reverse().map(([, k]) => of(m, k)).find((found) => found.length) ?? [];
    const key = (m) => {
      const found = [...shown].reverse().map(([, k]) => value(m, k)).find((v) => v !== null);
      return found === undefined ? Infinity : sign * found;
    };
    methods.sort((a, b) => key(a) - key(b));
    const labels = heads.map((h) => h.textContent);
    element.tBodies[0].innerHTML = methods
      .map((m) => {
        const cells = shown.map(([e, k], at) => `<td data-epsilon="${e}" data-label="${text(labels[at + 1])}">${cell(problem, of(m, k), asked[at], best[at])}</td>`);
        const end = last(m);
        const some = (k, shape) => (end.length && end.every((r) => r[k] !== null) ? shape(mean(end.map((r) => r[k]))) : '<span class="none">–</span>');
        cells.push(`<td data-label="Rounds">${some(ROUNDS, (v) => number(v, 3))}</td><td data-label="Messages">${some(MESSAGES, (v) => number(v, 3))}</td><td data-label="Sent">${some(BYTES, bytes)}</td><td data-label="Time">${some(TIME, lasting)}</td>`);
        return `<tr><th scope="row">${named(m)}</th>${cells.join("")}</tr>`;
      })
      .join("");
    const only = filter[3] === null ? null : board.epsilons[filter[3]];
    for (const c of element.querySelectorAll("[data-epsilon]")) c.hidden = only !== null && c.dataset.epsilon !== only;
    for (const c of element.querySelectorAll("td[colspan]")) c.colSpan = only === null ? shown.length : 1;
  };

  // Differences that no reader would report are ties.
  const ranked = (values, more) => {
    const keys = values.map((v) => (v === null ? Infinity : more ? -Math.round(1e4 * v) / 1e4 : Number(v.toPrecision(4))));
    return keys.map((own) => keys.filter((k) => k < own).length + (keys.filter((k) => k === own).length + 1) / 2);
  };

  const ranking = (element, filter) => {
    const hasBudget = element.dataset.private === "true";
    const condition = element.dataset.condition === "" ? null : Number(element.dataset.condition);
    const figures = new Map(board.rows.map((r) => [r[SETTING] * 4096 + r[METHOD], r[MEAN]]));
    const has = (s, m) => figures.has(s * 4096 + m);
    const all = board.methods.map((_, m) => m);
    const settings = board.settings
      .map((_, s) => s)
      .filter((s) => (board.budgets[board.settings[s][3]] !== null) === hasBudget && (condition === null || board.settings[s][2] === condition) && fits(s, filter) && all.some((m) => has(s, m)));
    const methods = all.filter((m) => settings.every((s) => has(s, m)));
    const enough = settings.length > 1 && methods.length > 1;
    element.hidden = !settings.length;
    const note = element.querySelector(".note");
    element.querySelector("figure").hidden = true;
    if (!enough) {
      element.querySelector("tbody").innerHTML = "";
      note.textContent = "Ranks need two settings and two methods.";
      return;
    }
    const blocks = settings.map((s) => ranked(methods.map((m) => figures.get(s * 4096 + m)), board.problems[board.settings[s][0]].more));
    let state = 12345;
    const draw = () => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) % blocks.length;
    const draws = Array.from({ length: 1000 }, () => {
      const of = blocks.map(() => blocks[draw()]);
      return methods.map((_, k) => mean(of.map((b) => b[k])));
    });
    const found = methods.map((m, k) => {
      const drawn = draws.map((d) => d[k]).sort((a, b) => a - b);
      const wins = blocks.reduce((sum, b) => {
        const best = Math.min(...b);
        return sum + (b[k] === best ? 1 / b.filter((r) => r === best).length : 0);
      }, 0);
      return { m, mean: mean(blocks.map((b) => b[k])), low: drawn[25], high: drawn[974], wins };
    });
    found.sort((a, b) => a.mean - b.mean);
    element.querySelector("tbody").innerHTML = found
      .map((f) => `<tr><th scope="row">${named(f.m)}</th><td data-label="Mean rank">${f.mean.toFixed(2)}</td><td data-label="95 % interval">${f.low.toFixed(2)} to ${f.high.toFixed(2)}</td><td data-label="Wins">${Number(f.wins.toFixed(1))}</td></tr>`)
      .join("");
    const k = methods.length;
    const difference = (board.quantiles[k] / Math.SQRT2) * Math.sqrt((k * (k + 1)) / (6 * settings.length));
    const left = all.filter((m) => !methods.includes(m)).map((m) => board.methods[m]);
    note.textContent =
      `${settings.length} settings; critical difference ${difference.toFixed(2)}.` + (left.length ? ` Not ranked, for lack of a result in some settings: ${left.join(", ")}.` : "");
  };

  const whole = new Map([...document.querySelectorAll("table.figures-of, .ranking")].map((e) => [e, e.innerHTML]));
  const update = () => {
    const filter = chosen();
    const none = filter.every((f) => f === null);
    const settings = board.settings.filter((_, s) => fits(s, filter)).length;
    document.getElementById("filtered").textContent = none ? "" : `${settings} of ${board.settings.length} settings`;
    for (const [element, before] of whole) {
      if (none) {
        element.innerHTML = before;
        element.hidden = false;
      } else if (element.matches("table")) {
        table(element, filter);
      } else {
        ranking(element, filter);
      }
    }
    const only = filter[3] === null ? null : board.epsilons[filter[3]];
    for (const e of document.querySelectorAll("table.figures-of")) {
      e.closest("section").hidden = filter[0] !== null && Number(e.dataset.problem) !== filter[0];
    }
    for (const e of document.querySelectorAll("details.condition")) {
      const c = Number(e.querySelector("table").dataset.condition);
      e.hidden = filter[2] !== null && c !== filter[2];
      if (filter[2] === c) e.open = true;
    }
    for (const e of document.querySelectorAll("details.more-ranks")) {
      e.hidden = filter[2] === 0;
      if (filter[2] > 0) e.open = true;
    }
    for (const e of document.querySelectorAll("section > .scroll > table.figures-of")) {
      const other = filter[2] !== null && Number(e.dataset.condition) !== filter[2];
      for (const near of [e.parentElement.previousElementSibling, e.parentElement, e.parentElement.nextElementSibling]) {
        if (near && !near.matches("p:first-of-type")) near.hidden = other;
      }
    }
    // Charts are of all graphs under the first condition.
    const partial = filter[1] !== null || (filter[2] !== null && filter[2] !== 0);
    for (const e of document.querySelectorAll("figure.chart")) {
      const of = /-by-bytes-epsilon-(.+)$/.exec(e.id);
      e.hidden = partial || (only !== null && (of ? of[1] !== only : true));
    }
    for (const e of document.querySelectorAll("#accounts tbody tr")) {
      e.hidden = (filter[0] !== null && Number(e.dataset.problem) !== filter[0]) || (only !== null && e.dataset.epsilon !== only);
    }
  };
  form.hidden = false;
  form.addEventListener("change", update);
  form.addEventListener("reset", () => setTimeout(update));
  form.addEventListener("submit", (event) => event.preventDefault());
})();
