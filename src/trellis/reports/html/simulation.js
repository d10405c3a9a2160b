"use strict";
// The simulation's page: charts of the fleet, one workload at a time, and the table that leads to it.
(() => {
  const LANES = {
    killed: "var(--bad)", evicted: "var(--v2)", restarted: "var(--v5)", resized: "var(--v1)", boosted: "var(--v4)",
    scaled: "var(--v3)",
  };
  const colourOf = (number) => `var(--v${number % 8})`;
  const titles = data.variants;
  const common = { end: data.end, scoredFrom: data.scoredFrom };

  let beside = null;
  for (const host of document.querySelectorAll("[data-fleet]")) {
    const resource = host.dataset.fleet;
    const fleet = data.fleet[resource];
    const layers = [{ kind: "area", label: `used (${titles[0]})`, values: column(fleet.used), colour: "var(--used)" }];
    if (fleet.offered !== null) layers.push({ kind: "line", label: "offered by nodes", values: column(fleet.offered), colour: "var(--muted)", dash: "2 4", width: 1.3 });
    fleet.requested.forEach((number, variant) => layers.push({
      kind: "step", label: titles[variant], values: column(number), colour: colourOf(variant), width: 2, selectable: true,
    }));
    const title = resource === "cpu" ? "CPU requested" : "Memory requested";
    beside = new Plot(host, document.getElementById("fleet-legend"), beside);
    beside.show({
      ...common, label: `${title} by the whole fleet in each variant`, times: column(data.fleet.times),
      panels: [{ title, resource, height: 230, layers }],
    });
  }

  const legend = document.getElementById("fleet-legend");
  if (legend) legend.addEventListener("chosen", () => {
    for (const line of document.querySelectorAll("path[data-variant]")) {
      line.toggleAttribute("hidden", beside.hidden.has(titles[Number(line.dataset.variant)]));
    }
  });

  const host = document.getElementById("workload-chart");
  const table = document.getElementById("workload-table");
  if (!host || !data.workloads.length) return;
  const chart = new Plot(host);
  const select = document.getElementById("workload-select");
  const containers = document.getElementById("container-select");
  const facts = document.getElementById("workload-facts");
  const state = { workload: data.chosen, variant: data.shown, container: 0 };

  data.workloads.forEach((workload, number) => {
    const option = made("option", "", select, workload.name);
    option.value = number;
  });

  function show() {
    const workload = data.workloads[state.workload];
    const drawing = workload.charts[state.variant];
    select.value = state.workload;
    const names = drawing ? [...new Set(drawing.lines.map((line) => line.container))] : [];
    state.container = Math.min(state.container, Math.max(names.length - 1, 0));
    containers.replaceChildren(...names.map((name, number) => {
      const option = made("option", "", null, name);
      option.value = number;
      return option;
    }));
    containers.value = state.container;
    containers.parentElement.hidden = names.length < 2;
    host.hidden = !drawing || !drawing.lines.length;
    const left = drawing ? drawing.left : 0;
    facts.textContent = workload.facts + (host.hidden ? " It has no chart." : left ? ` ${figure(left)} more events are not drawn.` : "");
    if (!host.hidden) draw(workload, drawing, names[state.container]);
    for (const row of table.querySelectorAll("tr[data-w]")) row.classList.toggle("chosen", Number(row.dataset.w) === state.workload);
  }

  function draw(workload, drawing, container) {
    const colour = colourOf(state.variant);
    const panels = drawing.lines.filter((line) => line.container === container).map((line) => ({
      title: line.resource === "cpu" ? "CPU per pod" : "Memory per pod",
      resource: line.resource,
      height: 170,
      layers: layersOf(line, colour),
    }));
    panels.push(podsOf(workload, drawing));
    const kinds = new Map();
    for (const [time, what, why, text] of drawing.marks) {
      const name = data.words[what];
      if (!kinds.has(name)) kinds.set(name, []);
      kinds.get(name).push({ time: data.begin + time, why: data.words[why], text: data.words[text] });
    }
    const lanes = [...kinds].sort().map(([name, marks]) => ({ name, marks, colour: LANES[name] || "var(--text)" }));
    const last = data.begin + Math.max(0, ...drawing.marks.map((mark) => mark[0]));
    const isCut = drawing.left && last < data.begin + 0.8 * (data.end - data.begin);
    chart.show({
      ...common, label: `${workload.name} under ${titles[state.variant]}`, times: column(drawing.times), panels, lanes,
      laneEnd: isCut ? last : null,
    });
  }

  // Where counts change the variants are held against one another; else a line tells that pods run at all.
  function podsOf(workload, drawing) {
    const alone = { kind: "step", label: "pods", values: column(drawing.pods), colour: "var(--muted)", unkeyed: true };
    if (!data.scales) return { title: "Pods", resource: "running", height: 36, layers: [alone] };
    const layers = workload.charts.flatMap((chart, number) => chart && chart.times === drawing.times ? [{
      kind: "step", label: `pods, ${titles[number]}`, values: column(chart.pods), colour: colourOf(number),
      width: number === state.variant ? 2.4 : 1.2, selectable: true,
    }] : []);
    return { title: "Pods in each variant", resource: "running", height: 120, layers };
  }

  function layersOf(line, colour) {
    const layers = [];
    const bounds = column(line.upper);
    if (bounds.some(Number.isFinite)) layers.push({ kind: "band", label: "recommended range", low: column(line.lower), high: bounds, colour });
    layers.push({ kind: "area", label: "used, mean", values: column(line.used), colour: "var(--used)" });
    layers.push({ kind: "line", label: "used, peak", values: column(line.peak), colour: "var(--peak)", width: 1 });
    const target = column(line.target);
    if (target.some(Number.isFinite)) layers.push({ kind: "step", label: "target", values: target, colour, dash: "3 3", width: 1.3 });
    layers.push({ kind: "step", label: "requested", values: column(line.requested), colour, width: 2.2 });
    return layers;
  }

  select.addEventListener("change", () => { state.workload = Number(select.value); show(); });
  containers.addEventListener("change", () => { state.container = Number(containers.value); show(); });
  for (const [id, by] of [["workload-before", -1], ["workload-after", 1]]) {
    document.getElementById(id).addEventListener("click", () => {
      state.workload = (state.workload + by + data.workloads.length) % data.workloads.length;
      show();
    });
  }

  sortable(table);
  const narrow = filterable(table, document.getElementById("workload-filter"), document.getElementById("workload-count"));
  const chooseVariant = (number) => {
    state.variant = number;
    [...table.tBodies].forEach((body, at) => { body.hidden = at !== number; });
    narrow();
    show();
  };
  document.querySelectorAll("input[name=variant]").forEach((input) => {
    input.addEventListener("change", () => chooseVariant(Number(input.value)));
  });
  for (const row of table.querySelectorAll("tr[data-w]")) {
    const cell = row.cells[0];
    const button = made("button", "link");
    button.type = "button";
    button.title = "Show this workload over time";
    button.append(cell.firstChild);
    cell.prepend(button);
    button.addEventListener("click", () => {
      state.workload = Number(row.dataset.w);
      show();
      document.getElementById("workloads").scrollIntoView();
    });
  }
  chooseVariant(state.variant);
})();
