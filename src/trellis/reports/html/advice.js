"use strict";
// The pages of advice: tables that are sorted and narrowed, and buttons that copy YAML.
(() => {
  const note = document.getElementById("copied");
  if (note) copyable(note);
  for (const name of ["containers", "list"]) {
    const table = document.getElementById(`${name}-table`);
    if (!table) continue;
    sortable(table);
    filterable(table, document.getElementById(`${name}-filter`), document.getElementById(`${name}-count`));
  }
})();
