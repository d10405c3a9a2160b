"use strict";
// The page of advice: tables that are sorted and narrowed.
(() => {
  const table = document.getElementById("containers-table");
  if (!table) return;
  sortable(table);
  filterable(table, document.getElementById("containers-filter"), document.getElementById("containers-count"));
})();
