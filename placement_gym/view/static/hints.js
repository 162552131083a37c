// The hint about a unit next to the pointer.
function showLayers(members) {
  const layers = d3.extent(members, (u) => units.layer[u]);
  change({ layers, unit: state.unit, group: null });
}

function describeUnit(unit) {
  const times = devices.map(
    ({ name }, d) => `${name} ${units.runs_on[d][unit] ? formatMs(units.ms[d][unit]) : "–"}`,
  );
  const out = d3.max(neighbours.out[unit], (e) => edges.bytes[e]) ?? 0;
  const { transfers } = current();
  const sent = d3.range(transfers.unit.length).filter((t) => transfers.unit[t] === unit);
  const sending = sent.length ? `, transfers take ${formatMs(d3.sum(sent, (t) => transfers.ms[t]))}` : "";
  return [
    units.name[unit],
    `${typeOf(unit)}  ${shapeOf(unit)}`,
    `on ${devices[deviceOf(unit)].name}  (${times.join(", ")})`,
    `output ${formatBytes(out)}${sending}`,
  ].join("\n");
}

function showHint(event, text) {
  const hint = document.getElementById("hint");
  hint.hidden = !text;
  if (!text) return;
  hint.textContent = text;
  const { offsetWidth: wide, offsetHeight: tall } = hint;
  const left = Math.min(event.clientX + 14, window.innerWidth - wide - 6);
  const above = event.clientY + 18 + tall > window.innerHeight;
  hint.style.left = `${Math.max(4, left)}px`;
  hint.style.top = `${above ? event.clientY - tall - 10 : event.clientY + 18}px`;
}
