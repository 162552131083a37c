// The panel next to the graph: a unit, a group of units, a comparison, or the whole placement.
const details = (() => {
  const panel = document.getElementById("details");
  const LETTERS = 36; // of a name in a table
  const FEW_OPERATORS = 12;

  function make(tag, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  function add(...elements) {
    panel.append(...elements);
  }

  function table(head, rows) {
    const element = make("table");
    const line = (cells, tag) => {
      const row = make("tr");
      for (const cell of cells) {
        const box = make(tag);
        box.append(cell instanceof Node ? cell : String(cell));
        row.append(box);
      }
      element.append(row);
    };
    line(head, "th");
    for (const row of rows) line(row, "td");
    return element;
  }

  function deviceCell(index) {
    const cell = make("span");
    const patch = make("span", "", "patch");
    patch.style.background = devices[index].colour;
    cell.append(patch, devices[index].name);
    return cell;
  }

  function unitLink(unit) {
    const button = make("button", breakAtSlashes(shorten(units.name[unit], LETTERS)), "link");
    button.type = "button";
    button.title = `${units.name[unit]}  ·  ${typeOf(unit)}`;
    button.onclick = () => selectUnit(unit);
    return button;
  }

  function layersButton(members) {
    const button = make("button", "Show these layers");
    button.type = "button";
    button.onclick = () => showLayers(members);
    return button;
  }

  function show() {
    panel.replaceChildren();
    if (state.unit >= 0) showUnit(state.unit);
    else if (state.group !== null) showGroup(state.group);
    else if (state.against >= 0) showComparison(current(), compared());
    else showPlacement(current());
  }

  function showUnit(unit) {
    const { submodel, runs } = current();
    add(make("h2", units.name[unit]));
    if (graph.isGrouped()) add(layersButton(graph.groupOf(unit)));
    add(make("p", `${typeOf(unit)}, output ${shapeOf(unit)}`));
    const held = units.weights[unit] ? `, weights ${formatBytes(units.weights[unit])}` : "";
    add(make("p", `submodel ${submodel[unit] + 1}${held}`));
    const mine = d3.range(runs.unit.length).filter((i) => runs.unit[i] === unit);
    const start = d3.min(mine, (i) => runs.start[i]);
    const finish = d3.max(mine, (i) => runs.finish[i]);
    add(make("p", `starts at ${formatMs(start)}, ends ${formatMs(finish - start)} later`));
    showOperators(unit);
    const other = compared();
    const rows = devices.map((device, d) => {
      const uses = other === null ? [deviceOf(unit) === d ? "runs here" : ""] : [deviceOf(unit) === d ? "this" : "", other?.device[unit] === d ? "other" : ""];
      const ms = units.runs_on[d][unit] ? formatMs(units.ms[d][unit]) : "cannot run";
      return [deviceCell(d), ms, uses.filter(Boolean).join(", ")];
    });
    add(table(["device", "time", other ? "placement" : ""], rows));
    showTensors("Reads", neighbours.in[unit], (e) => edges.source[e]);
    showTensors("Is read by", neighbours.out[unit], (e) => edges.target[e]);
  }

  // A long list is closed at first, and made when it opens.
  function showOperators(unit) {
    const mine = operatorsOf(unit);
    if (mine.length === 0) {
      add(make("p", "1 operator"));
      return;
    }
    const list = make("details");
    list.append(make("summary", formatCount(mine.length, "operator")));
    const fill = () => {
      if (list.children.length > 1) return;
      const { name, type } = operators;
      const box = make("div", undefined, "operators");
      box.append(table(["type", "name"], mine.map((o) => [type.texts[type.index[o]], name[o]])));
      list.append(box);
    };
    list.ontoggle = fill;
    list.open = mine.length <= FEW_OPERATORS;
    if (list.open) fill();
    add(list);
  }

  function showTensors(title, list, end) {
    if (list.length === 0) return;
    add(make("h2", title));
    const sorted = d3.sort(list, (e) => -edges.bytes[e]).slice(0, 20);
    const rows = sorted.map((e) => {
      const [from, to] = [deviceOf(edges.source[e]), deviceOf(edges.target[e])];
      const ms = crosses(e) ? formatMs(transferMs(e, from, to)) : "none";
      return [unitLink(end(e)), formatBytes(edges.bytes[e]), ms];
    });
    add(table(["unit", "size", "transfer"], rows));
    if (list.length > 20) add(make("p", `and ${list.length - 20} more`, "soft"));
  }

  function showGroup(members) {
    const [first, last] = d3.extent(members, (u) => units.layer[u]);
    add(make("h2", `${formatCount(members.length, "unit")}, layers ${first} to ${last}`));
    add(layersButton(members));
    add(make("h2", "If all ran on one device"));
    add(table(["device", "time"], devices.map((_, d) => [deviceCell(d), formatMs(d3.sum(members, (u) => units.ms[d][u]))])));
    add(make("h2", "Longest units"));
    const longest = d3.sort(members, (u) => -unitMs(u)).slice(0, 15);
    add(table(["unit", "type", "time"], longest.map((u) => [unitLink(u), typeOf(u), formatMs(unitMs(u))])));
  }

  function costsOf(placement) {
    const { transfers } = placement;
    return {
      compute: d3.sum(d3.range(nUnits), (u) => unitMs(u, placement)),
      transfer: d3.sum(transfers.ms),
      bytes: d3.sum(transfers.bytes),
      count: transfers.unit.length,
    };
  }

  function showPlacement(placement) {
    if (placement.saved) add(make("h2", placement.saved));
    add(make(placement.saved ? "p" : "h2", `${placement.label}: ${formatMs(placement.latency_ms)}`));
    if (placement.result) add(make("p", placement.result));
    if (placement.error) add(make("p", `infeasible: ${placement.error}`, "bad"));
    for (const caution of data.cautions) add(make("p", caution, "bad"));
    if (!data.one_device_holds_the_model) {
      add(make("p", "No single device may run the model, so there is none to compare with.", "soft"));
    }
    add(make("p", `simulated: costs “${data.costs}”, schedule “${data.schedule}”`, "soft"));
    const rows = devices.map((device, d) => {
      const here = d3.range(nUnits).filter((u) => placement.device[u] === d);
      const held = formatBytes(placement.memory[d]) + (device.limit === null ? "" : ` of ${formatBytes(device.limit)}`);
      return [deviceCell(d), d3.format(",")(here.length), formatMs(d3.sum(here, (u) => unitMs(u, placement))), held];
    });
    add(table(["device", "units", "busy", "memory"], rows));
    const costs = costsOf(placement);
    add(make("h2", "Between devices"));
    const parts = formatCount(placement.submodels, "submodel");
    const moved = costs.count
      ? `${formatCount(costs.count, "transfer")} of ${formatBytes(costs.bytes)}, ${formatMs(costs.transfer)}`
      : "no transfers";
    add(make("p", `${parts}, ${moved}`));
    const { transfers } = placement;
    if (costs.count) {
      const largest = d3.sort(d3.range(costs.count), (t) => -transfers.bytes[t]).slice(0, 10);
      add(make("h2", "Largest transfers"));
      add(table(["made by", "to", "size", "time"], largest.map((t) => [
        unitLink(transfers.unit[t]),
        devices[transfers.target[t]].name,
        formatBytes(transfers.bytes[t]),
        formatMs(transfers.ms[t]),
      ])));
    }
    add(make("h2", "Longest units"));
    const longest = d3.sort(d3.range(nUnits), (u) => -unitMs(u, placement)).slice(0, 10);
    add(table(["unit", "device", "time"], longest.map((u) => [unitLink(u), devices[deviceOf(u)].name, formatMs(unitMs(u, placement))])));
  }

  function showComparison(placement, other) {
    const gain = other.latency_ms / placement.latency_ms;
    add(make("h2", `${placement.label} compared with ${other.label}`));
    const verdict = gain >= 1 ? `${formatNumber(gain)} x as fast` : `${formatNumber(1 / gain)} x as slow`;
    add(make("p", `${formatMs(placement.latency_ms)} against ${formatMs(other.latency_ms)}: ${verdict}`));
    for (const one of [placement, other]) {
      if (one.error) add(make("p", `${one.label} is infeasible: ${one.error}`, "bad"));
    }
    const [mine, theirs] = [costsOf(placement), costsOf(other)];
    const line = (name, a, b, format) => [name, format(a), format(b), (a > b ? "+" : a < b ? "−" : "") + format(Math.abs(a - b))];
    add(table(["", "this", "other", "change"], [
      line("latency", placement.latency_ms, other.latency_ms, formatMs),
      ...(placement.measured_ms && other.measured_ms
        ? [line("as measured", placement.measured_ms, other.measured_ms, formatMs)]
        : []),
      line("sum of units", mine.compute, theirs.compute, formatMs),
      line("sum of transfers", mine.transfer, theirs.transfer, formatMs),
      line("bytes moved", mine.bytes, theirs.bytes, formatBytes),
      line("transfers", mine.count, theirs.count, d3.format(",")),
      line("submodels", placement.submodels, other.submodels, d3.format(",")),
    ]));
    const moved = d3.range(nUnits).filter((u) => placement.device[u] !== other.device[u]);
    add(make("h2", `${d3.format(",")(moved.length)} of ${formatCount(nUnits, "unit")} moved`));
    if (moved.length === 0) return;
    const gainOf = (u) => unitMs(u, placement) - unitMs(u, other);
    const change = (ms) => (ms > 0 ? "+" : ms < 0 ? "−" : "") + formatMs(Math.abs(ms));
    const ways = d3.rollups(moved, (us) => us, (u) => other.device[u] * devices.length + placement.device[u]);
    add(table(["from → to", "units", "their time"], ways.map(([way, us]) => [
      `${devices[Math.floor(way / devices.length)].name} → ${devices[way % devices.length].name}`,
      d3.format(",")(us.length),
      change(d3.sum(us, gainOf)),
    ])));
    add(make("h2", "Moved units, largest change of time first"));
    const first = d3.sort(moved, (u) => -Math.abs(gainOf(u))).slice(0, 25);
    add(table(["unit", "to", "time"], first.map((u) => [unitLink(u), devices[placement.device[u]].name, change(gainOf(u))])));
  }

  listeners.push((values) => {
    if (["unit", "group", "shown", "against", "layers"].some((key) => key in values)) show();
  });
  return { show };
})();

function selectUnit(unit) {
  const [from, to] = state.layers;
  const inside = units.layer[unit] >= from && units.layer[unit] <= to;
  if (!inside) change({ layers: [0, lastLayer] });
  change({ unit, group: null });
  graph.reveal(true);
  timeline.reveal(unit);
}
