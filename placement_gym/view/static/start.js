// The controls of the header, the key, the address, and the first drawing.
function fillChoices() {
  const [shown, against] = ["shown", "against"].map((id) => document.getElementById(id));
  const option = (text, value) => new Option(text, value);
  placements.forEach((placement, p) => {
    const text = `${placement.label} (${formatMs(placement.latency_ms)}${placement.error ? ", infeasible" : ""})`;
    shown.add(option(text, p));
    against.add(option(text, p));
  });
  against.add(option("nothing", -1), 0);
  shown.onchange = () => change({ shown: Number(shown.value), group: null });
  against.onchange = () => change({ against: Number(against.value), unit: -1, group: null });
  listeners.push(() => {
    shown.value = state.shown;
    against.value = state.against;
  });
}

function fillKey() {
  const key = document.getElementById("key");
  key.replaceChildren();
  const entry = (text, colour) => {
    const item = document.createElement("span");
    if (colour) {
      const patch = document.createElement("span");
      patch.className = "patch";
      patch.style.background = colour;
      item.append(patch);
    }
    item.append(text);
    key.append(item);
  };
  for (const { name, colour } of devices) entry(name, colour);
  entry("edge: wider for more bytes, strong where the device changes");
  entry("bar in a box: time");
  if (graph.hasOutlines()) entry("outline: submodel");
  if (graph.isGrouped()) entry("double click: open a group");
  if (state.against >= 0) entry("not pale: moved");
  if (state.against >= 0 && !graph.isGrouped()) entry("corner: other device");
}

function setUpTheme(wanted) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = (theme) => {
    root.dataset.theme = theme;
    graph.draw();
    timeline.draw();
  };
  root.dataset.theme = wanted ?? (system.matches ? "dark" : "light");
  system.onchange = () => set(system.matches ? "dark" : "light");
  document.getElementById("theme").onclick = () => set(root.dataset.theme === "dark" ? "light" : "dark");
}

// The address holds the selection, so it can be shared: #shown=0&against=1&unit=conv1
function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const whole = (name, low, otherwise) => {
    const value = Number.parseInt(fields.get(name) ?? "", 10);
    return value >= low && value < placements.length ? value : otherwise;
  };
  return {
    shown: whole("shown", 0, 0),
    against: whole("against", 0, -1),
    unit: fields.has("unit") ? units.name.indexOf(fields.get("unit")) : -1,
    search: fields.get("search") ?? "",
    theme: fields.get("theme"),
  };
}

function writeAddress() {
  const fields = new URLSearchParams();
  if (state.shown) fields.set("shown", state.shown);
  if (state.against >= 0) fields.set("against", state.against);
  if (state.unit >= 0) fields.set("unit", units.name[state.unit]);
  history.replaceState(null, "", `#${fields}`);
}

const given = readAddress();
document.getElementById("model").textContent =
  `${data.model}: ${formatCount(nUnits, "unit")}`;
setUpTheme(given.theme === "dark" || given.theme === "light" ? given.theme : undefined);
fillChoices();
listeners.push((values) => {
  if (["shown", "against", "layers"].some((key) => key in values)) fillKey();
});
change({ layers: state.layers, shown: given.shown, against: given.against });
if (given.search) search.searchFor(given.search);
if (given.unit >= 0) selectUnit(given.unit);
listeners.push((values) => {
  if (["unit", "shown", "against"].some((key) => key in values)) writeAddress();
});
tell("");
document.body.dataset.ready = "yes";
setTimeout(search.prepare, 100); // after the first drawing
