"use strict";
const MANY_ROWS = 5; // more of them can be filtered

function setUpTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => (root.dataset.theme = system.matches ? "dark" : "light");
  follow();
  if (location.hash === "#dark") root.dataset.theme = "dark";
  system.onchange = follow;
  document.getElementById("theme").onclick = () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  };
}

// The first number of a cell; a cell without one comes last.
function numberOf(text) {
  const found = text.replace(/,/g, "").match(/-?\d+(\.\d+)?(e[-+]?\d+)?/);
  return found ? Number(found[0]) : null;
}

function compareCells(a, b) {
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== null && y !== null) return x - y;
  if ((x === null) !== (y === null)) return x === null ? 1 : -1;
  return a.localeCompare(b);
}

function sortTable(table, column) {
  const head = table.tHead.rows[0].cells[column];
  const upwards = head.getAttribute("aria-sort") !== "ascending";
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", upwards ? "ascending" : "descending");
  const body = table.tBodies[0];
  const words = column === 0;
  const text = (row) => row.cells[column]?.textContent.trim() ?? "";
  const known = (row) => words || numberOf(text(row)) !== null;
  const rows = [...body.rows];
  rows.sort((a, b) => {
    if (known(a) !== known(b)) return known(a) ? -1 : 1;
    const order = words ? text(a).localeCompare(text(b)) : compareCells(text(a), text(b));
    return upwards ? order : -order;
  });
  body.append(...rows);
}

function setUpTable(box) {
  const table = box.querySelector("table");
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = cell.textContent;
    button.onclick = () => sortTable(table, column);
    cell.replaceChildren(button);
  });
  if (table.tBodies[0].rows.length <= MANY_ROWS) return;
  const filter = document.createElement("input");
  filter.type = "search";
  filter.className = "filter";
  filter.placeholder = "Filter rows";
  filter.setAttribute("aria-label", "Filter rows by a part of their text");
  filter.oninput = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  };
  box.before(filter);
}

// The lines of a picture have ids that end with agent-NUMBER-PART-line or agent-NUMBER-PART-interval.
function linesOf(figure, numbers) {
  const wanted = new Set(numbers);
  return [...figure.querySelectorAll('g[id*="agent-"]')].filter((group) => {
    const found = group.id.match(/agent-(\d+)-/);
    return found !== null && wanted.has(Number(found[1]));
  });
}

function nameLine(group, name) {
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = name;
  group.prepend(title);
}

function setUpToggles(box) {
  const figure = box.closest("figure");
  for (const input of box.querySelectorAll("input")) {
    const agents = JSON.parse(input.dataset.agents);
    const groups = linesOf(figure, Object.keys(agents).map(Number));
    for (const group of groups) nameLine(group, agents[Number(group.id.match(/agent-(\d+)-/)[1])]);
    input.onchange = () => groups.forEach((group) => group.classList.toggle("hidden", !input.checked));
  }
}

setUpTheme();
document.querySelectorAll("div.table").forEach(setUpTable);
document.querySelectorAll(".toggles").forEach(setUpToggles);
document.body.dataset.ready = "yes";
