// Search by name and type: the field, and the list of matches below it.
const MOST_MATCHES = 40; // in the list
const search = (() => {
  const input = document.getElementById("search");
  const list = document.getElementById("matches");
  let names = null; // in lower case, with the types
  let last = { query: "", found: [] };
  let at = 0; // index of the marked match

  function listNames() {
    names ??= units.name.map((name, u) => `${name} ${typeOf(u)}`.toLowerCase());
    return names;
  }

  // A longer query is searched among the matches of the previous one.
  function find(text) {
    const query = text.trim().toLowerCase();
    const words = query.split(/\s+/).filter(Boolean);
    const narrower = last.query !== "" && query.startsWith(last.query);
    const texts = listNames();
    const has = (unit) => words.every((word) => texts[unit].includes(word));
    const found = query === "" ? [] : (narrower ? last.found : d3.range(nUnits)).filter(has);
    last = { query, found };
    return found;
  }

  function run() {
    const found = find(input.value);
    at = 0;
    list.replaceChildren(...found.slice(0, MOST_MATCHES).map(makeMatch), makeCount(found.length));
    open(input.value.trim() !== "");
    mark();
    change({ found });
  }

  function makeMatch(unit, index) {
    const item = document.createElement("li");
    item.id = `match-${index}`;
    item.setAttribute("role", "option");
    const patch = document.createElement("span");
    patch.className = "patch";
    patch.style.background = devices[deviceOf(unit)].colour;
    item.append(patch, `${units.name[unit]}  ·  ${typeOf(unit)}`);
    item.onmousedown = () => choose(index);
    return item;
  }

  function makeCount(count) {
    const item = document.createElement("li");
    item.className = "count";
    item.setAttribute("role", "presentation");
    const more = count > MOST_MATCHES ? `, the first ${MOST_MATCHES} are listed` : "";
    item.textContent = count ? `${d3.format(",")(count)} found${more}` : "No name or type has this";
    return item;
  }

  function open(shown) {
    list.hidden = !shown;
    input.setAttribute("aria-expanded", String(shown));
  }

  function mark() {
    [...list.children].forEach((item, index) => {
      const marked = index === at && item.className !== "count";
      item.classList.toggle("first", marked);
      item.setAttribute("aria-selected", String(marked));
      if (marked) item.scrollIntoView({ block: "nearest" });
    });
    input.setAttribute("aria-activedescendant", last.found.length ? `match-${at}` : "");
  }

  function choose(index) {
    const { found } = last;
    if (found.length === 0) return;
    at = (index + found.length) % found.length;
    open(false);
    selectUnit(found[at]);
  }

  function move(step) {
    const shown = Math.min(last.found.length, MOST_MATCHES);
    if (shown === 0) return;
    if (list.hidden) open(true);
    else at = (at + step + shown) % shown;
    mark();
  }

  input.oninput = run;
  input.onfocus = () => open(input.value.trim() !== "");
  input.onblur = () => open(false);
  input.onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      move(step);
    } else if (event.key === "Enter") choose(list.hidden ? at + (event.shiftKey ? -1 : 1) : at);
    else if (event.key === "Escape") {
      input.value = "";
      run();
      input.blur();
    }
  };
  return {
    focus: () => input.focus(),
    prepare: () => void find("\0"), // so the first key need not wait for the list of names
    searchFor: (query) => {
      input.value = query;
      run();
      open(false);
    },
  };
})();
