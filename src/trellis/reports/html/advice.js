"use strict";
// The page of advice: a table that is sorted and narrowed, and buttons that copy YAML.
(() => {
  const told = document.getElementById("copied");
  if (told) copyable(told);
  const table = document.getElementById("containers-table");
  if (!table) return;
  sortable(table);
  filterable(table, document.getElementById("containers-filter"), document.getElementById("containers-count"));
})();
