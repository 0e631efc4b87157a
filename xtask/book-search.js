// Finds headings whose title, chapter or text has all words that were typed. INDEX stands before, in the order of
// the chapters: [address, title, text, chapter].
(() => {
  const field = document.getElementById("search"), list = document.getElementById("found");
  if (!field || !list) return;
  const plain = text => text.toLowerCase();
  const all = INDEX.map(([to, title, text, chapter]) =>
    ({ to, title, text, chapter, low: plain(title), above: plain(chapter), all: plain(title + " " + text + " " + chapter) }));
  const find = typed => {
    const words = plain(typed).split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const hits = all.filter(one => words.every(word => one.all.includes(word)));
    const rank = one => words.reduce((sum, word) => sum + 2 * one.low.includes(word) + one.above.includes(word), 0);
    return hits.sort((a, b) => rank(b) - rank(a)).slice(0, 12);
  };
  const excerpt = (one, word) => {
    const at = plain(one.text).indexOf(word);
    return at < 0 ? "" : "…" + one.text.slice(Math.max(0, at - 30), at + 60).trim() + "…";
  };
  field.addEventListener("input", () => {
    const word = plain(field.value).split(/\s+/).filter(Boolean)[0] || "";
    list.replaceChildren(...find(field.value).map(one => {
      const item = document.createElement("li"), link = document.createElement("a"), words = document.createElement("small");
      link.href = field.dataset.up + one.to;
      link.textContent = one.title;
      words.textContent = (one.chapter === one.title ? "" : one.chapter + ". ") + excerpt(one, word);
      item.append(link, words);
      return item;
    }));
  });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !/^(input|textarea)$/i.test(document.activeElement.tagName)) {
      event.preventDefault();
      field.focus();
    }
    if (event.key === "Escape" && document.activeElement === field) {
      field.value = "";
      list.replaceChildren();
    }
  });
  // On a narrow screen the chapters are folded away; without scripts they stay open.
  const chapters = document.getElementById("chapters");
  const narrow = matchMedia("(max-width:56rem)");
  const fold = () => { chapters.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  const here = document.querySelector("nav [aria-current]");
  if (here && !narrow.matches) {
    const nav = here.closest("nav");
    nav.scrollTop = here.offsetTop - nav.clientHeight / 2;
  }
  for (const block of document.querySelectorAll("pre")) {
    if (!navigator.clipboard) break;
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "Copy";
    button.onclick = () => navigator.clipboard.writeText(block.querySelector("code").textContent)
      .then(() => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500); });
    block.append(button);
  }
})();
