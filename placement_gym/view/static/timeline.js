// The timeline: a lane for each device and for each link in use, of one or two placements.
const timeline = (() => {
  const canvas = document.querySelector("#timeline canvas");
  const context = canvas.getContext("2d");
  const LANE_HEIGHT = 20;
  const AXIS = 24;
  const FEWEST_LETTERS = 12; // of a name that is cut; with less room the type is shown
  const MOST_EMPTY = 3; // longest axis for measured latencies, relative to simulated ones
  let view = d3.zoomIdentity;
  let lanes = [];
  let end = 1;
  let pointed = null;

  const draw = oncePerFrame(drawNow);
  const zoom = d3.zoom()
    .scaleExtent([1, 100000])
    .filter((event) => !event.button && (event.type !== "wheel" || event.ctrlKey || !event.shiftKey))
    .on("zoom", (event) => {
      view = event.transform;
      if (event.sourceEvent) showHint(null, null);
      draw();
    });
  d3.select(canvas).call(zoom).on("dblclick.zoom", () => d3.select(canvas).call(zoom.transform, d3.zoomIdentity));

  function labelWidth() {
    return canvas.clientWidth < 600 ? 84 : 130;
  }

  function rebuild() {
    const both = [current(), ...(compared() === null ? [] : [compared()])];
    lanes = both.flatMap((placement, index) => lanesOf(placement, both.length > 1, index));
    end = d3.max(both, (p) => Math.max(p.latency_ms, d3.max(p.runs.finish) ?? 0, d3.max(p.transfers.finish) ?? 0)) || 1;
    end = Math.max(end, Math.min(1.03 * (d3.max(both, (p) => p.measured_ms) ?? 0), MOST_EMPTY * end));
    canvas.style.height = `${AXIS + d3.sum(lanes, (lane) => lane.height)}px`;
    draw();
  }

  function lanesOf(placement, titled, index) {
    const { runs, transfers } = placement;
    const found = titled
      ? [{ title: `${index ? "compared with" : "placement"}: ${placement.label}`, bars: [], height: 18 }]
      : [];
    const byDevice = devices.map(() => []);
    runs.unit.forEach((unit, i) => byDevice[placement.device[unit]].push(i));
    devices.forEach((device, d) =>
      found.push({ name: device.name, colour: device.colour, bars: byDevice[d], of: runs, height: LANE_HEIGHT }),
    );
    const links = d3.group(d3.range(transfers.unit.length), (i) => `${transfers.source[i]} ${transfers.target[i]}`);
    for (const [key, bars] of d3.sort(links, ([pair]) => pair)) {
      const [from, to] = key.split(" ").map((d) => devices[d].name);
      found.push({ name: `${from} → ${to}`, colour: null, bars, of: transfers, height: LANE_HEIGHT });
    }
    found[0].measured = placement.measured_ms;
    found[0].until = d3.sum(found, (lane) => lane.height);
    let top = 0;
    for (const lane of found) {
      lane.bars.sort((i, j) => lane.of?.start[i] - lane.of?.start[j]);
      lane.top = top;
      top += lane.height;
    }
    return found;
  }

  // Keep the view between the start and the end.
  function bound() {
    const window = [[labelWidth(), 0], [Math.max(canvas.clientWidth - 10, labelWidth() + 1), 1]];
    zoom.extent(window).translateExtent(window);
    draw();
  }

  // Bring a unit's first run into the window.
  function reveal(unit) {
    const { runs } = current();
    const run = runs.unit.indexOf(unit);
    if (run < 0) return;
    const [left, right] = [timeScale()(runs.start[run]), timeScale()(runs.finish[run])];
    const outside = right < labelWidth() + 20 || left > canvas.clientWidth - 30;
    const middle = (labelWidth() + canvas.clientWidth) / 2;
    if (outside) d3.select(canvas).call(zoom.translateBy, (middle - (left + right) / 2) / view.k, 0);
  }

  function timeScale() {
    const range = [labelWidth(), canvas.clientWidth - 10];
    return view.rescaleX(d3.scaleLinear([0, end], range));
  }

  function drawNow() {
    const [width, height] = [canvas.clientWidth || 1, canvas.clientHeight || 1];
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = `11px ${FONT}`;
    context.textBaseline = "middle";
    const scale = timeScale();
    drawAxis(scale, width, height);
    let top = AXIS;
    for (const lane of lanes) {
      lane.y = top;
      drawLane(lane, scale, width);
      top += lane.height;
    }
    for (const lane of lanes) if (lane.measured) drawMeasured(lane, scale, width);
  }

  // The measured latency, across the lanes of its placement.
  function drawMeasured(lane, scale, width) {
    const x = scale(lane.measured);
    if (x < labelWidth()) return;
    const inside = x <= width - 8;
    const at = inside ? x : width - 8;
    context.strokeStyle = colourOf("accent");
    context.lineWidth = 1.5;
    context.setLineDash([5, 3]);
    context.beginPath();
    context.moveTo(at, lane.y);
    context.lineTo(at, lane.y + lane.until);
    if (inside) context.stroke();
    context.setLineDash([]);
    context.fillStyle = colourOf("accent");
    context.textAlign = "right";
    const text = `measured ${formatMs(lane.measured)}${inside ? "" : " →"}`;
    context.fillText(text, at - 5, lane.y + lane.until - LANE_HEIGHT / 2);
    context.textAlign = "left";
  }

  function drawAxis(scale, width, height) {
    const ticks = scale.ticks(Math.max(2, width / 110));
    const format = scale.tickFormat(Math.max(2, width / 110));
    context.textAlign = "center";
    for (const tick of ticks) {
      const x = scale(tick);
      if (x < labelWidth() - 1) continue;
      context.fillStyle = colourOf("line");
      context.fillRect(x, AXIS - 6, 1, height);
      context.fillStyle = colourOf("soft");
      const text = format(tick);
      context.fillText(text, Math.min(x, width - 2 - context.measureText(text).width / 2), 9);
    }
    context.textAlign = "left";
    context.fillText("time in ms", 8, 9);
  }

  function drawLane(lane, scale, width) {
    const left = labelWidth();
    if (lane.title) {
      context.fillStyle = colourOf("ground");
      context.fillRect(0, lane.y, width, lane.height);
      context.fillStyle = colourOf("text");
      context.fillText(lane.title, 8, lane.y + lane.height / 2);
      return;
    }
    context.save();
    context.beginPath();
    context.rect(left, lane.y, width - left, lane.height);
    context.clip();
    const marked = new Set(state.unit < 0 ? state.group : [state.unit]);
    context.fillStyle = lane.colour ?? colourOf("soft");
    context.globalAlpha = marked.size ? 0.45 : 1;
    let drawn = -Infinity;
    let labelled = -Infinity;
    for (const bar of lane.bars) {
      const [x0, x1] = [scale(lane.of.start[bar]), scale(lane.of.finish[bar])];
      if (x1 < left || x0 > width || x1 < drawn + 0.4) continue;
      context.fillRect(Math.max(x0, drawn, left - 1), lane.y + 2, Math.max(x1 - Math.max(x0, drawn) - 0.4, 0.6), lane.height - 4);
      drawn = x1;
      if (x1 - x0 > 46 && x0 > labelled) labelled = drawName(lane, bar, Math.max(x0, left), x1);
    }
    context.globalAlpha = 1;
    for (const bar of lane.bars) {
      if (!marked.has(lane.of.unit[bar])) continue;
      const [x0, x1] = [scale(lane.of.start[bar]), scale(lane.of.finish[bar])];
      if (x1 < left || x0 > width) continue;
      context.fillStyle = colourOf("accent");
      context.fillRect(x0 - 1, lane.y + 1, Math.max(x1 - x0 + 2, 3), lane.height - 2);
    }
    context.restore();
    context.fillStyle = colourOf("text");
    context.fillText(fitText(context, lane.name, left - 14), 8, lane.y + lane.height / 2);
  }

  function drawName(lane, bar, x0, x1) {
    const kept = context.fillStyle;
    context.fillStyle = d3.lab(kept).l > 60 ? "#000000" : "#ffffff";
    const unit = lane.of.unit[bar];
    const name = fitText(context, units.name[unit], x1 - x0 - 8);
    const told = name === units.name[unit] || name.length >= FEWEST_LETTERS;
    const text = told ? name : fitStart(context, typeOf(unit), x1 - x0 - 8);
    context.fillText(text, x0 + 4, lane.y + lane.height / 2 + 0.5);
    context.fillStyle = kept;
    return x1;
  }

  function barAt(x, y) {
    const lane = lanes.find((one) => y >= one.y && y < one.y + one.height);
    if (!lane || lane.title || x < labelWidth()) return null;
    const scale = timeScale();
    const slack = (scale.invert(2) - scale.invert(0)) || 0;
    const time = scale.invert(x);
    const bar = d3.least(
      lane.bars.filter((i) => lane.of.start[i] <= time + slack && lane.of.finish[i] >= time - slack),
      (i) => Math.max(lane.of.start[i] - time, time - lane.of.finish[i], 0),
    );
    return bar === undefined ? null : { lane, bar };
  }

  function describe({ lane, bar }) {
    const when = `starts at ${formatMs(lane.of.start[bar])}, takes ${formatMs(lane.of.ms[bar])}`;
    const unit = units.name[lane.of.unit[bar]];
    if (lane.colour !== null) return `${unit}\n${lane.name}, ${when}`;
    return `output of ${unit}\n${lane.name}, ${formatBytes(lane.of.bytes[bar])}, ${when}`;
  }

  d3.select(canvas)
    .on("pointermove", (event) => {
      if (event.buttons || event.pointerType === "touch") return;
      pointed = barAt(...d3.pointer(event, canvas));
      showHint(event, pointed && describe(pointed));
    })
    .on("pointerleave", () => showHint(null, null))
    .on("click", (event) => {
      const found = barAt(...d3.pointer(event, canvas));
      if (found) selectUnit(found.lane.of.unit[found.bar]);
      else change({ unit: -1, group: null });
      if (event.pointerType === "touch") showHint(event, found && describe(found));
    });

  new ResizeObserver(bound).observe(canvas);
  listeners.push((values) => {
    if ("shown" in values || "against" in values) rebuild();
    else if ("unit" in values || "group" in values) draw();
  });
  return {
    draw,
    reveal,
    zoomBy: (factor) => d3.select(canvas).call(zoom.scaleBy, factor),
    panBy: (share) => d3.select(canvas).call(zoom.translateBy, (share * canvas.clientWidth) / view.k, 0),
  };
})();
