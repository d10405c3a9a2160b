"use strict";
// The backtest's page: one series at a time, and the tables.
(() => {
  document.querySelectorAll("table.sortable").forEach(sortable);
  const table = document.getElementById("series-table");
  if (!table) return;
  sortable(table);
  const narrow = filterable(table, document.getElementById("series-filter"), document.getElementById("series-count"));
  const chooseVariant = (number) => {
    [...table.tBodies].forEach((body, at) => { body.hidden = at !== number; });
    narrow();
  };
  document.querySelectorAll("input[name=variant]").forEach((input) => {
    input.addEventListener("change", () => chooseVariant(Number(input.value)));
    if (input.checked) chooseVariant(Number(input.value));
  });

  const host = document.getElementById("series-chart");
  if (!host || !data.series.length) return;
  const chart = new Plot(host);
  // More lines than one can tell apart begin hidden; the legend brings them back.
  data.variants.slice(4).forEach((name) => chart.hidden.add(name));
  const select = document.getElementById("series-select");
  const numbers = new Map();
  data.series.forEach((series, number) => {
    made("option", "", select, series.name).value = number;
    numbers.set(series.name, number);
  });

  function show(number) {
    const series = data.series[number];
    const times = column(series.times);
    select.value = number;
    const panels = series.lines.map((line) => ({
      title: line.resource === "cpu" ? "CPU" : "Memory",
      resource: line.resource,
      height: 190,
      layers: [
        { kind: "area", label: "used, mean", values: column(line.used), colour: "var(--used)" },
        { kind: "line", label: "used, peak", values: column(line.peak), colour: "var(--peak)", width: 1 },
        ...line.requested.map((requested, variant) => ({
          kind: "step", label: data.variants[variant], values: column(requested), colour: `var(--v${variant % 8})`, width: 1.8, selectable: true,
        })),
      ],
    }));
    const end = series.end || times[times.length - 1];
    chart.show({ label: `${series.name} as each recommender sizes it`, times, end, scoredFrom: series.scoredFrom, panels });
    for (const row of table.querySelectorAll("tr[data-series]")) row.classList.toggle("chosen", row.dataset.series === series.name);
  }

  for (const row of table.querySelectorAll("tr[data-series]")) {
    const number = numbers.get(row.dataset.series);
    if (number === undefined) continue;
    const cell = row.cells[0];
    const button = made("button", "link");
    button.type = "button";
    button.title = "Show this series over time";
    button.append(...cell.childNodes);
    cell.append(button);
    button.addEventListener("click", () => {
      show(number);
      document.getElementById("series").scrollIntoView();
    });
  }
  select.addEventListener("change", () => show(Number(select.value)));
  show(0);
})();
