"use strict";
// Tables that are sorted by a column, and narrowed by what is typed.
function sortable(table) {
  const heads = [...table.querySelectorAll("thead th[data-sort]")];
  heads.forEach((head) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = head.dataset.sort === "text" ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      for (const body of table.tBodies) sortRows(body, Number(head.dataset.column), head.dataset.sort, order);
    });
  });
}

function sortRows(body, column, kind, order) {
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...body.rows].filter((row) => !row.classList.contains("heading"));
  const keys = new Map(rows.map((row) => {
    const cell = row.cells[column];
    return [row, kind === "text" ? cell.textContent : cell.dataset.v === "" ? NaN : Number(cell.dataset.v)];
  }));
  rows.sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    if (kind === "text") return sign * a.localeCompare(b, "en", { numeric: true });
    // What is unknown comes last, whichever way.
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return sign * (a - b);
  });
  body.append(...rows);
}

function filterable(table, input, told) {
  const narrow = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    let all = 0;
    for (const body of table.tBodies) for (const row of body.rows) {
      if (row.classList.contains("heading")) continue;
      const text = row.cells[0].textContent.toLowerCase() + " " + (row.dataset.words || "");
      row.hidden = !words.every((word) => text.includes(word));
      if (body.hidden) continue;
      all += 1;
      shown += row.hidden ? 0 : 1;
    }
    told.textContent = words.length ? `${shown} of ${all} shown` : `${all} in all`;
  };
  input.addEventListener("input", narrow);
  narrow();
  return narrow;
}

// Buttons that copy a text; a page that is no secure context has only the older way.
function copyable(told) {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    const name = button.textContent;
    button.addEventListener("click", async () => {
      const copied = await copyText(button.dataset.copy);
      button.textContent = copied ? "Copied" : "Failed";
      told.textContent = copied ? "Copied to the clipboard" : "The browser does not allow copying";
      setTimeout(() => { button.textContent = name; }, 1600);
    });
  }
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}
