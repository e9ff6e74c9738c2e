// Makes tables with `data-filters` (numbers of columns) sortable and filterable. Without it they are plain tables.
"use strict";
for (const table of document.querySelectorAll("table[data-filters]")) {
  const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
  const text = (row, i) => row.cells[i].textContent.trim();
  const number = (row, i) => parseFloat(text(row, i).replace("−", "-").replace(/,/g, ""));
  const make = (tag, about) => Object.assign(document.createElement(tag), about);
  const box = make("form", {className: "filters"});
  box.addEventListener("submit", event => event.preventDefault());
  const count = make("output", {});
  const chosen = [];

  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const whole = row.textContent.toLowerCase();
      const fits = chosen.every(([i, list]) => !list.value || text(row, i) === list.value);
      row.hidden = !(fits && words.every(word => whole.includes(word)));
      shown += !row.hidden;
    }
    count.value = `${shown} of ${rows.length} lines`;
  };

  for (const i of table.dataset.filters.split(" ").map(Number)) {
    const name = heads[i].textContent, list = make("select", {});
    list.append(make("option", {value: "", textContent: "all"}));
    for (const value of new Set(rows.map(row => text(row, i)))) list.append(make("option", {value, textContent: value}));
    list.addEventListener("change", show);
    const label = make("label", {textContent: name});
    label.append(list);
    box.append(label);
    chosen.push([i, list]);
  }
  const search = make("input", {type: "search"}), words = make("label", {textContent: "words"});
  search.addEventListener("input", show);
  words.append(search);
  box.append(words, count);
  table.closest(".scroll").before(box);

  heads.forEach((head, i) => {
    const button = make("button", {type: "button", textContent: head.textContent});
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const numeric = head.classList.contains("number");
      const down = head.ariaSort ? head.ariaSort === "ascending" : numeric; // numbers: the largest first
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.ariaSort = down ? "descending" : "ascending";
      const order = (a, b) => {
        if (!numeric) return text(a, i).localeCompare(text(b, i));
        const [x, y] = [number(a, i), number(b, i)];
        return isNaN(x) || isNaN(y) ? (isNaN(x) - isNaN(y)) * (down ? -1 : 1) : x - y; // what has no number stands last
      };
      rows.sort((a, b) => (down ? -order(a, b) : order(a, b)));
      table.tBodies[0].append(...rows);
    });
  });
  show();
}
